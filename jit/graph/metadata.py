"""Keys of the metadata of graphs and of their nodes."""

from types import CodeType

CONTEXT_FN = "_checkpoint_context_fn"
"""Of a graph inside the graph: the `context_fn` of its checkpoint, for AOTAutograd."""

USER_PLACES = "_user_places"
"""Of a node: where each frame of the program was that has made it, outermost first: a tuple of UserPlaces."""

UserPlace = tuple[CodeType | None, int]
"""A code object and the offset of an instruction in it; None is the code of the traced function."""
