"""Names in the metadata of graphs that backends read."""

CONTEXT_FN = "_checkpoint_context_fn"
"""Of a graph inside the graph: the `context_fn` of its checkpoint, for AOTAutograd."""
