"""Facts about torch's operators that follow from their schemas and tags, and from the table in operator_exceptions.py where torch doesn't say enough."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from framejit.torch_state.operator_exceptions import CHANGE_TENSOR_ITSELF, TAKE_NO_ROWS


@cache
def overloads_of_method(name: str) -> tuple[OpOverload, ...]:
    """ATen's overloads of a method of tensors. Those of the same name whose first argument is no tensor are for lists and numbers in TorchScript."""
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, OpOverloadPacket):
        return ()
    overloads: list[OpOverload] = [getattr(packet, overload) for overload in packet.overloads()]
    return tuple([overload for overload in overloads if overload._schema.arguments and isinstance(overload._schema.arguments[0].type, torch.TensorType)])


@cache
def is_pointwise(name: str) -> bool:
    """Return whether a method computes each element of the result by itself, in whichever order the elements lie in memory."""
    overloads = [overload for overload in overloads_of_method(name) if not any(argument.is_out for argument in overload._schema.arguments)]
    return bool(overloads) and all(torch.Tag.pointwise in overload.tags for overload in overloads)


@cache
def is_error_code(name: str, index: int) -> bool:
    """Return whether the result of ATen's operator at an index is named `info`: LAPACK's codes of errors, each 0 where it has met none."""
    packet = getattr(torch.ops.aten, name, None)
    returns = packet.default._schema.returns if isinstance(packet, OpOverloadPacket) and "default" in packet.overloads() else ()
    return 0 <= index < len(returns) and returns[index].name == "info"


def is_in_place(name: str) -> bool:
    """Return whether a method is called as those are that change their tensor. `and_` is a function of Python's module `operator`, and changes nothing."""
    return name.endswith("_") and not name.endswith("__") and not keyword.iskeyword(name[:-1])


@cache
def changes_form(name: str) -> bool:
    """Return whether a method changes a tensor's sizes, strides or memory, as `t_` and `set_`."""
    return is_in_place(name) and any(torch.Tag.inplace_view in overload.tags for overload in overloads_of_method(name))


def changes_tensor_itself(name: str) -> bool:
    """Return whether a method changes a tensor itself, and not its data."""
    return changes_form(name) or name in CHANGE_TENSOR_ITSELF


@cache
def keeps_elements(name: str) -> bool:
    """Return whether a method that changes a tensor's form leaves it all its elements, since it is told dimensions only: `squeeze_`, and not `resize_`."""
    arguments = [argument.name for overload in overloads_of_method(name) for argument in overload._schema.arguments[1:]] if changes_form(name) else ["size"]
    return all(argument.startswith(("dim", "axis")) for argument in arguments)


@cache
def only_writes(name: str) -> bool:
    """Return whether a method computes data from its arguments alone, writes that to its tensor, and changes nothing else."""
    overloads = overloads_of_method(name) if is_in_place(name) and not changes_tensor_itself(name) else ()
    return bool(overloads) and all(map(writes_to_first, overloads))


def writes_to_first(overload: OpOverload) -> bool:
    """Return whether an operator writes to its first argument and to no other, gives it back, and draws no random numbers."""
    schema = overload._schema
    written = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
    return written[0] and not any(written[1:]) and len(schema.returns) == 1 and torch.Tag.nondeterministic_seeded not in overload.tags


@cache
def writes_at_indices(name: str) -> bool:
    """Return whether a method only writes to the elements of its tensor that indices name."""
    return only_writes(name) and any(argument.name in ("index", "indices") for each in overloads_of_method(name) for argument in each._schema.arguments)


def takes_no_rows(overload: OpOverload, args: Iterable[Any]) -> bool:
    """Return whether an operator raises no error for these arguments, of which some may have no elements, whatever the data of the others."""
    schema = overload._schema
    is_view = any(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns)
    space, _, name = schema.name.partition("::")
    if torch.Tag.pointwise in overload.tags or is_view or name in TAKE_NO_ROWS or space == "prim":  # which ask for the device, and the like
        return True
    has_indices = any(argument.name in ("index", "indices") for argument in schema.arguments)
    return has_indices and any(isinstance(arg, torch.Tensor) and arg.dtype is torch.int64 and arg.numel() == 0 for arg in args)


@cache
def takes_one_tensor(name: str) -> bool:
    """Return whether no overload of ATen's operator takes a tensor, or only its first argument is one: then any other tensor stands for a number."""
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, OpOverloadPacket):
        return False
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    return not any("Tensor" in str(argument.type) and not argument.is_out for schema in schemas for argument in schema.arguments[1:])


@cache
def takes_number(name: str, argument: str) -> bool:
    """Return whether every overload of ATen's operator that has this argument takes a number for it, and no tensor."""
    types = [str(each.type) for overload in overloads_of_method(name) for each in overload._schema.arguments if each.name == argument]
    return bool(types) and all(kind == "number" for kind in types)
