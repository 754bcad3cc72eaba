"""Views of another dtype than their bases, of which torch can't make fakes as views: their fakes are no views, but share the memory of the base's fake.

torch's fakes of such views are made by casting the fake of the base as a whole, and taking the view of that. The program may have given the base another form
first: `torch.view_as_complex(x.reshape(-1, 2))` casts a base whose last dimension isn't of size 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses import FakeTensorMode, meta_utils
from torch.utils._mode_utils import no_dispatch


def is_cast_in_parts(tensor: torch.Tensor) -> bool:
    """Return whether a real tensor is a view of a base that can't be cast to the tensor's dtype as a whole."""
    with torch._C.DisableTorchFunction():  # the tensor's class may have a `__torch_function__`
        base = tensor._base if tensor._is_view() else None
        if base is None or base.dtype == tensor.dtype or base.is_complex() or base.layout is not torch.strided or base.is_nested:
            return False  # a tensor of complex numbers can be cast whatever its form
        cast: Callable[[Any], Any] = torch.view_as_complex if tensor.is_complex() else lambda whole: whole.view(tensor.dtype)
        try:
            with no_dispatch(), torch.no_grad():
                cast(base)
        except RuntimeError:
            return True
    return False


class ViewDescriber(meta_utils.MetaTensorDescriber):
    """Describes real tensors for torch, which makes their fakes by that."""

    def describe_tensor(self, t: torch.Tensor, *, recurse: bool = True, trace: bool = False) -> Any:
        """A description, by which the fake is no view where torch couldn't make one."""
        found = super().describe_tensor(t, recurse=recurse, trace=trace)
        if found.base is None or found.base.dtype == found.dtype or found.fake_mode is not None or not is_cast_in_parts(t):
            return found
        return replace(found, is_view=False, base=None, creation_meta=None)


def make_cast_views(mode: FakeTensorMode) -> None:
    """Let a fake mode that has made no fakes yet make those of such views."""
    converter = mode.fake_tensor_converter.meta_converter
    converter.describer = ViewDescriber(copy_data=converter.copy_data)
