"""Graph capture: FX graphs are built node by node, and each operator runs on fake tensors as its node is made."""
