"""Finds out whether an operator that raises on fakes with symbolic sizes also raises on tensors with the call's own sizes.

The program has no symbolic sizes: `x.resize_(2)` raises on a fake with a symbolic size, but on none of the program's tensors. So the operator runs a second
time, on separate fakes that have the sizes and numbers of this call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from framejit.graph.on_fakes import run_on_fakes

SYMBOLIC = (SymInt, SymFloat, SymBool)


class OtherForm(Exception):
    """An argument has a form that can't be made again here: it wraps other tensors, is sparse, or depends on data."""


def raises_for_symbols_only(target: Callable[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an operator that has raised succeeds if all sizes and numbers are those of the call. Also False if that can't be found out."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    if not any(map(is_symbolic, leaves)):
        return False
    with FakeTensorMode() as mode:
        try:
            plain_args, plain_kwargs = pytree.tree_unflatten([plain(mode, leaf) for leaf in leaves], spec)
        except OtherForm:
            return False
        try:
            if isinstance(target, str):
                getattr(plain_args[0], target)(*plain_args[1:], **plain_kwargs)
            else:
                run_on_fakes(target, plain_args, plain_kwargs)
        except Exception:
            return False
    return True


def is_symbolic(value: Any) -> bool:
    """Return whether a value is a symbolic number, or a tensor with such sizes, strides or offset."""
    if not isinstance(value, torch.Tensor):
        return isinstance(value, SYMBOLIC)
    if type(value) is not FakeTensor or value.layout is not torch.strided:
        return False
    return any(isinstance(number, SYMBOLIC) for number in (*value.size(), *value.stride(), value.storage_offset()))


def plain(mode: FakeTensorMode, value: Any) -> Any:
    """An argument with the sizes of the traced call: a tensor becomes a separate fake, in memory of its own."""
    if isinstance(value, SYMBOLIC):
        if not value.node.has_hint():
            raise OtherForm
        return value.node.hint
    if not isinstance(value, torch.Tensor):
        return value
    if type(value) is not FakeTensor or value.layout is not torch.strided:
        raise OtherForm
    size, stride = ([plain(mode, number) for number in numbers] for numbers in (value.size(), value.stride()))
    made = torch.empty_strided(size, stride, dtype=value.dtype, device=value.device)
    return made.requires_grad_() if value.requires_grad and value.is_leaf else made
