"""Handles fake zero tensors without memory, which forward-mode differentiation makes for tangents, and which torch loses in some views of them."""

from __future__ import annotations

import functools
import warnings

import torch

from framejit.process.warning_filters import version_kept

VIEWS = ("view", "as_strided", "_reshape_alias")
"""Operators with a kernel of their own for such tensors: it is the kernel for all devices, but runs before the fake tensor's, and returns no fake."""


@functools.cache
def keep_fakes() -> torch.library.Library:
    """Let these operators go on to the fake tensor, or to the kernel of the tensor's device, as torch's other views do. This lasts for the whole process."""
    library = torch.library.Library("aten", "IMPL")
    with version_kept(), warnings.catch_warnings(action="ignore"):  # that a kernel is replaced
        for name in VIEWS:
            library.impl(name, torch.library.fallthrough_kernel, "ZeroTensor")
    return library
