"""Makes fake tensors from real ones, says which plain tensors can't become fakes, and interprets errors of operators on fakes."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from framejit import breaks
from framejit.graph.parts import PartsContext
from framejit.guards.tensor_spec import tensor_spec
from framejit.objects.tensors.tensorkind import kind_in_graph
from framejit.torch_state.symbols import need_data

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import StatefulSymbolicContext


def storages(fakes: Iterable[torch.Tensor]) -> set[int]:
    """The keys of the storages that hold the data of fakes, which may be wrappers, sparse, or neither. They identify their memory."""
    found: set[int] = set()
    for fake in fakes:
        kind = kind_in_graph(fake)
        if kind.has_memory:
            found.add(fake.untyped_storage()._cdata)
        if parts := kind.parts(fake):
            found |= storages(parts)
    return found


def to_fake(mode: FakeTensorMode, tensor: torch.Tensor, symbolic_context: StatefulSymbolicContext | PartsContext | None) -> torch.Tensor:
    """The fake of a real tensor. It is made outside inference mode unless the tensor was, so that the fake is as ordinary as the tensor."""
    with torch._C.DisableTorchFunction():
        if torch.is_inference_mode_enabled() and not tensor.is_inference():
            with torch.inference_mode(False):
                return _to_fake(mode, tensor, symbolic_context)
        return _to_fake(mode, tensor, symbolic_context)


def _to_fake(mode: FakeTensorMode, tensor: torch.Tensor, symbolic_context: StatefulSymbolicContext | PartsContext | None) -> torch.Tensor:
    if isinstance(symbolic_context, PartsContext):
        return symbolic_context.make(mode, tensor)
    if symbolic_context is None:
        return mode.from_tensor(tensor, static_shapes=True)
    return mode.from_tensor(tensor, symbolic_context=symbolic_context, source=symbolic_context.tensor_source)


def grad_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """A tensor's grad, without torch's warning about tensors that don't get one."""
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def has_lost_its_record(view: torch.Tensor) -> bool:
    """Return whether autograd raises for any question about a view: it was made under `no_grad` from a tensor that requires a gradient and has been changed
    since."""
    try:
        return type(view.is_leaf) is not bool
    except RuntimeError:
        return True


def lies_elsewhere(view: torch.Tensor) -> bool:
    """Return whether a view has other memory than its base: one of them has been given other data since."""
    base = view._base if view._is_view() else None
    return base is not None and base.untyped_storage()._cdata != view.untyped_storage()._cdata


def has_left_its_base(tensor: torch.Tensor) -> bool:
    """Return whether a view has been given other data, of another type than its base's, as `Module.to(dtype)` does with gradients."""
    base = tensor._base if tensor._is_view() else None
    return base is not None and base.dtype != tensor.dtype and lies_elsewhere(tensor)


def plain_fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """The fake of a tensor inside a transform of torch.func, as functions under the transform see it."""
    spec = tensor_spec(tensor)
    with mode, torch.inference_mode(tensor.is_inference()):
        found = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        return found.requires_grad_(spec.requires_grad)


def refusal_of_record(tensor: torch.Tensor) -> breaks.Break | None:
    """The reason why a real tensor can't be an input of a graph because of its autograd record, or because of its `grad`; None if it can."""
    if tensor._is_view() and has_lost_its_record(tensor):
        return breaks.UnsupportedValue("a view that was made under no_grad, whose base has been changed since")
    if has_left_its_base(tensor):
        return breaks.UnsupportedValue("a view that has been given data of another type")
    if (grad := grad_of(tensor)) is not None:
        if grad.shape != tensor.shape or grad.dtype != tensor.dtype:
            return breaks.UnsupportedValue("a tensor with a grad of another shape or type")
        if has_left_its_base(grad):
            return breaks.UnsupportedValue("a tensor whose grad is a view that has been given data of another type")
    return None


def refusal_of_values(tensor: torch.Tensor) -> breaks.Break | None:
    """The reason why a real tensor can't be an input of a graph if its data is that of a tensor of another layout; None if it isn't."""
    base = tensor._base if tensor._is_view() else None
    if base is not None and base.layout is not torch.strided:
        return breaks.UnsupportedValue(f"the values of a tensor of layout {base.layout}, as a view of it")
    return None


NEEDS_DATA = ("its data is not allocated yet", "Cannot access data pointer of Tensor", "expected to contain only concrete integers")
"""Errors of operators that read the memory of a tensor which has none (c10/core/TensorImpl.h), and of operators for which a tensor stands for an
int that they must know, as in `F.interpolate(x, size=(h, w))` (c10/core/SymIntArrayRef.h)."""


COMPRESSED = "Values and compressed tensor instance need to be on the same device"
"""The error of a fake of a sparse compressed tensor that is made of indices and values (aten/src/ATen/native/sparse/SparseCsrTensor.cpp)."""
OVERLAPS = "more than one element of the written-to tensor refers to a single memory location"
"""The error of operators on an expanded tensor, on fakes even if they change nothing (a copy onto itself)."""
NO_FAKE = "There was no fake impl registered for"
"""The error of an operator of `torch.library.custom_op` on fakes if its author has registered nothing for them (torch/_library/custom_ops.py)."""
BY_VERSIONS = "modified by an inplace operation"
OF_RECORDS = (
    "leaf Variable", "leaf variables", "is a view and is being modified inplace", "A view was created in", BY_VERSIONS,
    "detach views in-place", "inference tensor", "Inference tensor", "from .data or .detach()", "not resizable",
)  # fmt: skip
"""Errors of operators about the origin of a tensor: about its autograd record or its storage, which no guard on a tensor from outside covers."""
TORCHS_OPERATORS = frozenset({"aten", "prim", "prims"})
"""The namespaces of operators that raise the same on fakes as on other tensors."""


def is_of_others(target: Any) -> bool:
    """Return whether the target of a node is an operator or function that isn't torch's own: on fakes it may fail differently from on other tensors."""
    if isinstance(target, OpOverload):
        return target.namespace not in TORCHS_OPERATORS
    if isinstance(target, OpOverloadPacket):
        return target._qualified_op_name.partition("::")[0] not in TORCHS_OPERATORS
    return getattr(target, "of_others", False) or is_declared(target)


def is_declared(target: Any) -> bool:
    """Return whether the target of a node is a function that a program has declared to be one node. It may do anything, so it always runs."""
    if not isinstance(target, FunctionType):
        return False
    return getattr(target, "runs_always", str(target.__module__).partition(".")[0] not in ("torch", "framejit"))


def meaning_of(error: Exception, operation: str, target: Any = None) -> breaks.Break:
    """The break reason for an exception that an operator raised on fakes. `target`: that of its node."""
    if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException, *need_data())):
        return breaks.DataDependent(operation)
    if any(text in str(error) for text in NEEDS_DATA):
        return breaks.DataDependent(operation)
    first = first_line(error)
    if OVERLAPS in first:
        return breaks.UnsupportedOperation(f"{operation}, which changes a tensor whose elements lie in the same memory")
    if is_of_others(target):
        if isinstance(error, UnsupportedOperatorException) or NO_FAKE in first:
            return breaks.NoFake(name_of_operator(target))
        return breaks.FailsOnFakes(f"{operation}: {type(error).__name__}: {first}")
    if isinstance(error, (UnsupportedFakeTensorException, UnsupportedOperatorException, NotImplementedError)) or COMPRESSED in first:
        return breaks.UnsupportedOperation(f"{operation}, which has no implementation for tensors without data ({first})")
    text = f"{operation}: {type(error).__name__}: {first}"
    return breaks.MayRaise(text) if any(text in first for text in OF_RECORDS) else breaks.OperatorRaises(text)


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return str(error).strip().partition("\n")[0]


def name_of_operator(target: Any) -> str:
    """An operator's name, as its author registers more for it; for anything else, its name in Python."""
    if isinstance(target, OpOverload):
        return str(target._schema.name)
    return str(getattr(target, "_qualified_op_name", None) or getattr(target, "__name__", target))


def version_of(fake: torch.Tensor) -> int:
    """The counter of in-place changes; -1 for inference tensors, which have none."""
    return -1 if fake.is_inference() else fake._version
