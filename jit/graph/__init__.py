"""Graph capture: FX graphs built node by node, with fake tensors propagated as each node is made."""
