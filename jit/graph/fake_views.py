"""Views of fakes, made by torch's kernels for meta tensors: to look them up in torch's cache of results on fakes takes several times as long."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

from framejit.graph.new_fakes import new_fake

PERMUTE = torch.ops.aten.permute.default
AS_STRIDED = torch.ops.aten.as_strided.default
NUMBERS = frozenset({int, bool, NoneType})


@functools.cache
def gives_views(func: Any) -> bool:
    """Return whether one of ATen's operators returns views of its first argument, and takes no other tensor, but other arguments."""
    if type(func) is not OpOverload or func.namespace != "aten" or func._schema.is_mutable or func in FakeTensorMode.lift_fns:
        return False
    arguments, returns = func._schema.arguments, func._schema.returns
    if len(arguments) < 2 or len(returns) != 1 or arguments[0].alias_info is None or returns[0].alias_info is None:
        return False
    first, *others = arguments
    is_list = str(returns[0].type) == "List[Tensor]"
    if "*" not in first.alias_info.after_set if is_list else returns[0].alias_info.before_set != first.alias_info.before_set:
        return False
    is_composed = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return not is_composed and str(first.type) == "Tensor" and not any(fake_impls.contains_tensor_types(other.type) for other in others)


def views_of(mode: FakeTensorMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what an operator that gives views returns for a fake of a mode in which nothing is symbolic. NotImplemented: torch has to run the operator, or to
    raise its error."""
    fake = args[0]
    if type(fake) is not FakeTensor or fake.fake_mode is not mode or fake.constant is not None or fake.layout is not torch.strided or fake.is_inference():
        return NotImplemented
    if getattr(fake, "dispatch_keys", None) is not None or not all(map(is_number, (*args[1:], *kwargs.values()))):
        return NotImplemented
    if func is PERMUTE and len(args) == 2 and (numbers := permuted(*args)) is not None:
        func, args = AS_STRIDED, (fake, *numbers)
    try:
        with in_kernel_invocation_manager(mode):
            found = func(*args, **kwargs)
    except (RuntimeError, IndexError, TypeError):
        return NotImplemented
    device = fake.fake_device
    return new_fake(mode, found, device) if isinstance(found, torch.Tensor) else [new_fake(mode, part, device) for part in found]


def permuted(fake: torch.Tensor, dims: Sequence[int]) -> tuple[list[int], list[int], Any] | None:
    """The sizes, the strides and the storage offset of a fake with its dimensions in another order. None: there is no such order.

    torch's kernel asks for the device of the fake, and so would import torch's distributed tensors; that of as_strided doesn't.
    """
    if any(not -fake.dim() <= dim < fake.dim() for dim in dims) or len({dim % fake.dim() for dim in dims}) != len(dims) or len(dims) != fake.dim():
        return None
    return [fake.size(dim) for dim in dims], [fake.stride(dim) for dim in dims], fake.storage_offset()


def is_number(arg: Any) -> bool:
    """Return whether an argument is a known number, None, or a list of known numbers."""
    return type(arg) in NUMBERS or (type(arg) in (list, tuple) and all(type(item) is int for item in arg))
