"""Keys of the metadata of graphs and of their nodes."""

from types import CodeType

CONTEXT_FN = "_checkpoint_context_fn"
"""The key, in the metadata of an inner graph, of the `context_fn` of its checkpoint, for AOTAutograd."""

CHANGES = "_changes"
"""The key, in the metadata of a node that changes tensors, of the nodes among its arguments whose memory it may have changed: a tuple."""

OF_BACKWARD = "_is_of_backward"
"""The key, in the metadata of a node, which says that it belongs to a backward pass in the graph."""

UNRECORDED = "_unrecorded"
"""The key, in the metadata of a node, which says that autograd had no record of its result when it was made. In-place changes may have given it one since."""

USER_PLACES = "_user_places"
"""The key, in the metadata of a node, of the places of the program's frames when the node was made, outermost first: a tuple of UserPlaces."""

UserPlace = tuple[CodeType | None, int]
"""A code object and the offset of an instruction in it; None stands for the code of the traced function."""
