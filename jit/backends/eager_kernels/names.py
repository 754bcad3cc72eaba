"""Finds the operators that a program names, and says of each whether kernels can be compiled for it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload, OpOverloadPacket

from framejit.errors import UnknownOperator
from framejit.process.when_needed import when_needed
from framejit.torch_state.operator_exceptions import READ_ELSEWHERE

lowering = when_needed("torch._inductor.lowering")
decomposition = when_needed("torch._inductor.decomposition")

Operator: TypeAlias = "str | OpOverload | OpOverloadPacket"
ALL = "all"
UNFIT = {
    torch.Tag.nondeterministic_seeded: "it draws random numbers",
    torch.Tag.dynamic_output_shape: "the sizes of its results depend on data",
    torch.Tag.data_dependent_output: "its results aren't tensors",
}
"""For each tag of operators that are left to torch's kernels, the reason."""


def operators(names: Operator | Iterable[Operator]) -> list[OpOverload]:
    """The overloads that are named, each once.

    Args:
        names: names or operators, or "all". A name without an overload stands for all overloads for which kernels can be compiled.

    Raises:
        UnknownOperator: a name doesn't exist, or no kernel can be compiled for what it names; the message says why.
    """
    if isinstance(names, str) and names == ALL:
        return all_operators()
    is_one = isinstance(names, (str, OpOverload, OpOverloadPacket)) or not isinstance(names, Iterable)
    each = [names] if is_one else list(names)
    return list(dict.fromkeys(overload for name in each for overload in overloads(name)))


def overloads(name: Operator) -> list[OpOverload]:
    """The overloads that one name stands for. Raises UnknownOperator."""
    named = found(name) if isinstance(name, str) else name
    if isinstance(named, OpOverload):
        why = unfit(named)
        if why:
            raise UnknownOperator(f"no kernels can be compiled for {named._schema.name}.{named._overloadname}: {why}")
        return [named]
    if not isinstance(named, OpOverloadPacket):
        raise UnknownOperator(f"an operator is a name such as 'aten::add' or an object such as torch.ops.aten.add, and not {name!r}")
    each = [getattr(named, overload) for overload in named.overloads()]
    fit = [overload for overload in each if not unfit(overload)]
    if not fit:
        raise UnknownOperator(f"no kernels can be compiled for {named._qualified_op_name}: {unfit(each[0])}")
    return fit


def found(name: str) -> OpOverload | OpOverloadPacket:
    """The operator of a name: `aten::add`, `add`, `add.Tensor`. Raises UnknownOperator."""
    namespace, _, rest = name.rpartition("::")
    packet_name, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, namespace or "aten"), packet_name)
        named = getattr(packet, overload) if overload else packet
    except (AttributeError, RuntimeError):
        named = None
    if not isinstance(named, (OpOverload, OpOverloadPacket)):
        raise UnknownOperator(f"there is no operator {name!r}{near(name)}")
    return named


def near(name: str) -> str:
    """The end of a message about an unknown name: the names that are near it."""
    schemas = torch._C._jit_get_all_schemas()
    known = {schema.name for schema in schemas} | {f"{schema.name}.{schema.overload_name}" for schema in schemas if schema.overload_name}
    wanted = name if "::" in name else f"aten::{name}"
    names = difflib.get_close_matches(wanted, sorted(known), n=3, cutoff=0.7)
    return f"; near it are {', '.join(map(repr, names))}" if names else ""


def all_operators() -> list[OpOverload]:
    """ATen's operators for which kernels can be compiled, and for which Inductor has more than a call of torch's kernel."""
    fallbacks, own = lowering.fallbacks, {*lowering.lowerings, *decomposition.select_decomp_table()}
    every = [getattr(packet, name) for packet in aten_packets() for name in packet.overloads()]
    return [overload for overload in every if overload in own and overload not in fallbacks and not unfit(overload)]


def aten_packets() -> list[OpOverloadPacket]:
    names = sorted({schema.name.removeprefix("aten::") for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")})
    packets = [getattr(torch.ops.aten, name, None) for name in names if "." not in name]
    return [packet for packet in packets if isinstance(packet, OpOverloadPacket)]


def unfit(overload: OpOverload) -> str:
    """Return why an operator is left to torch's kernels; empty if kernels can be compiled for it."""
    schema = overload._schema
    if not torch._C._dispatch_has_kernel(overload.name()):
        return "it is TorchScript's"
    if schema.is_mutable:
        return "it changes its arguments"
    if any(returned.alias_info is not None for returned in schema.returns):
        return "its results are views of its arguments"
    if not schema.returns or not all(isinstance(returned.type, torch.TensorType) for returned in schema.returns):
        return "its results aren't tensors"
    if not any(holds_tensors(argument.type) for argument in schema.arguments):
        return "it takes no tensors"
    if any(argument.name == "pin_memory" for argument in schema.arguments):
        return "it makes tensors from options"
    for tag in overload.tags:
        if tag in UNFIT:
            return UNFIT[tag]
    if schema.name.removeprefix("aten::") in READ_ELSEWHERE:
        return "its compiled code wouldn't check its arguments"
    if has_kernel(overload, "CompositeImplicitAutograd"):
        return f"it consists of other operators, which autograd sees, and these can be named{parts_of(overload)}"
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(overload.name(), "CPU"):
        return "it has no kernel for the CPU"
    return ""


def holds_tensors(kind: Any) -> bool:
    """Return whether values of this type of TorchScript's are tensors, or may hold some."""
    if isinstance(kind, (torch.OptionalType, torch.ListType)):
        return holds_tensors(kind.getElementType())
    return isinstance(kind, torch.TensorType)


def has_kernel(overload: OpOverload, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), key))


def parts_of(overload: OpOverload) -> str:
    """Names that look as if they were those of an operator's parts, such as `native_layer_norm` of `layer_norm`."""
    name = overload._schema.name.removeprefix("aten::")
    known = [packet for part in (f"_{name}", f"native_{name}") if isinstance(packet := getattr(torch.ops.aten, part, None), OpOverloadPacket)]
    return f", such as {known[0]._qualified_op_name}" if known else ""
