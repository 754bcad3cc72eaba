"""Handles fake zero tensors without memory, which forward-mode differentiation makes for tangents, and which torch loses in some of its views."""

from __future__ import annotations

import functools
import warnings

import torch

from framejit.warning_filters import version_kept

VIEWS = ("view", "as_strided", "_reshape_alias")
"""Operators with a kernel for such tensors by themselves: it is the kernel of all devices, but runs before a fake tensor is asked, and gives no fake."""


@functools.cache
def keep_fakes() -> torch.library.Library:
    """Have these operators go on to the fake tensor, or to the kernel of the tensor's device, as torch's other views do. Stays so for the process."""
    library = torch.library.Library("aten", "IMPL")
    with version_kept(), warnings.catch_warnings(action="ignore"):  # that a kernel is replaced
        for name in VIEWS:
            library.impl(name, torch.library.fallthrough_kernel, "ZeroTensor")
    return library
