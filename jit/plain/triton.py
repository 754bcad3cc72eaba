"""The questions that launches of Triton kernels ask of their arguments."""

from __future__ import annotations

from typing import Any


def parts_of_descriptor(descriptor: Any, settings: tuple[str, ...]) -> tuple[Any, ...] | None:
    """The parts of a TensorDescriptor besides its tensor: the shape of a block, and its settings; None if it doesn't describe the whole tensor."""
    base = descriptor.base
    if tuple(descriptor.shape) != tuple(base.shape) or tuple(descriptor.strides) != tuple(base.stride()):
        return None
    return (tuple(descriptor.block_shape), *[getattr(descriptor, name) for name in settings])
