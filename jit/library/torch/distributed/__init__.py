"""Distributed tensors as values of a graph."""

IS_ABOUT = "torch.distributed.tensor"
