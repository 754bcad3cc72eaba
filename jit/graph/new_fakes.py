"""Makes fakes with the fields that torch's constructor gives them: most of the time that the constructor takes is spent on its arguments and fields."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConfig, FakeTensorMode

_FIELDS: dict[torch.device, dict[str, Any]] = {}
"""The fields of new fakes for a device, apart from their mode."""


def new_fake(mode: FakeTensorMode, elem: torch.Tensor, device: torch.device) -> FakeTensor:
    """A fake for a device, with the memory, sizes and strides of a meta tensor, as `FakeTensor(mode, elem, device)` makes it. A device of a kind of which there
    may be several has an index."""
    fields = _FIELDS.get(device)
    if fields is None or FakeTensorConfig.debug:
        made = FakeTensor(mode, elem, device)
        if made.fake_device == device:
            _FIELDS[device] = {name: value for name, value in made.__dict__.items() if name != "fake_mode"}
        return made
    made = torch.Tensor._make_subclass(FakeTensor, elem, elem.requires_grad, dispatch_device=True, device_for_backend_keys=device)
    if mode._allow_unsafe_data_ptr_access:
        torch._C._set_warn_deprecated_on_mutable_data_ptr(made)
    else:
        torch._C._set_throw_on_mutable_data_ptr(made)
    made.__dict__.update(fields, fake_mode=mode)
    return made
