"""Finds out which of torch's functions are operations on tensors, and what node each has in a graph, from the place where a callable is defined."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from framejit.quick_dataclass import dataclass
from framejit.torch_state.operator_exceptions import NOT_IN_GRAPH

VARIABLE_FUNCTIONS = torch._C._VariableFunctions
C_MODULES = frozenset(
    id(getattr(torch._C, name)) for name in ("_nn", "_linalg", "_fft", "_special", "_sparse", "_nested") if hasattr(torch._C, name)
)
PYTHON_MODULES = frozenset({"torch.nn.functional", "torch.functional", "torch.foreach"})
METHODS_IN_PYTHON = vars(torch._tensor)
"""The globals of those methods of tensors that are written in Python."""
FUNCTIONS_IN_PYTHON = frozenset(id(vars(sys.modules[name])) for name in (*PYTHON_MODULES, "torch._jit_internal") if name in sys.modules)
"""The globals of torch's other functions, by identity. A function that a program puts in the place of one of torch's may have its name, but not its globals."""


@dataclass(frozen=True, slots=True)
class TorchOperation:
    """An operation on tensors.

    Attributes:
        function: calling this is the operation.
        subject: the key for models of the operation: the function, or the descriptor of the attribute that it reads or stores.
        op, target: those of its node in a graph; None if it can't be one.
        further: further arguments of its node, after the operation's own.
        is_method: its first argument must be a tensor.
        swapped: its node takes the operands in the other order.
        holder, name: where the generated code of a graph finds the function; no holder if it needn't look.
    """

    function: Any
    subject: Any
    op: str | None
    target: Any
    further: tuple[Any, ...] = ()
    is_method: bool = False
    swapped: bool = False
    holder: Any = None
    name: str = ""

    def is_reachable(self) -> bool:
        """Return whether a graph would find the function itself, and not a replacement by the program."""
        return self.holder is None or getattr(self.holder, self.name, None) is self.function


def special_methods() -> dict[Any, TorchOperation]:
    """torch.Tensor's special methods, whose nodes are Python's operators."""
    found: dict[Any, TorchOperation] = {}

    def put(name: str, function: str, swapped: bool = False) -> None:
        name = f"__{name}__"
        method = getattr(torch.Tensor, name, None)
        if method is not None:
            target: Callable[..., Any] = getattr(operator, function)
            found[method] = TorchOperation(method, method, "call_function", target, is_method=True, swapped=swapped, holder=torch.Tensor, name=name)

    for function in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and_", "or_", "xor"):
        name = function.rstrip("_")
        put(name, function)
        put(f"r{name}", function, swapped=True)
        put(f"i{name}", f"i{name}")
    for name in ("neg", "pos", "invert", "lt", "le", "eq", "ne", "gt", "ge", "getitem", "setitem"):
        put(name, name)
    return found


SPECIAL_METHODS = special_methods()
CALLABLES = frozenset(map(id, (BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)))
"""The operations by the identity of the function: metaclasses may define the hashes of their classes."""
_known: dict[Any, TorchOperation] = {}


def operation_of(function: Any) -> TorchOperation | None:
    """The operation that a call of this function is; None if it isn't one.

    Functions are those that `__torch_function__` gets: methods and special methods are the descriptor or function in torch.Tensor,
    attributes are the `__get__`, `__set__` and `__delete__` of their descriptor. Only special methods in C, `__add__`, have another name there, `add`.
    """
    kind = type(function)
    if id(kind) not in CALLABLES and not issubclass(kind, (OpOverload, OpOverloadPacket)):
        return None
    found = _known.get(function)
    if found is None or not found.is_reachable():
        found = find_operation(function)
        if found is not None:
            _known[function] = found
    return found


def find_operation(function: Any) -> TorchOperation | None:
    kind = type(function)
    if kind is MethodWrapperType:
        return access_of(function)
    if kind is MethodDescriptorType or kind is WrapperDescriptorType:
        return method_of(function) if function.__objclass__ is torch._C.TensorBase else None
    if kind is FunctionType:
        if id(function.__globals__) in FUNCTIONS_IN_PYTHON:
            return python_function(function)
        return method_of(function) if function.__globals__ is METHODS_IN_PYTHON else None
    is_node = issubclass(kind, (OpOverload, OpOverloadPacket)) or (kind is BuiltinFunctionType and is_c_function(function))
    return TorchOperation(function, function, "call_function", function) if is_node else None


def access_of(wrapper: MethodWrapperType) -> TorchOperation | None:
    """Reading or storing an attribute of tensors that C code computes."""
    descriptor: Any = wrapper.__self__
    if type(descriptor) is not GetSetDescriptorType or descriptor.__objclass__ is not torch._C.TensorBase:
        return None
    if wrapper.__name__ == "__get__":
        return TorchOperation(wrapper, descriptor, "call_function", getattr, (descriptor.__name__,), is_method=True)
    return TorchOperation(wrapper, descriptor, None, wrapper, is_method=True)


def method_of(function: Any) -> TorchOperation | None:
    """A method of torch.Tensor, written in C or Python; None if the program has replaced it, so that graphs don't find it."""
    special = SPECIAL_METHODS.get(function)
    if special is not None and special.is_reachable():
        return special
    name = function.__name__
    found = TorchOperation(function, function, "call_method", name, is_method=True, holder=torch.Tensor, name=name)
    return found if found.is_reachable() else None


def python_function(function: FunctionType) -> TorchOperation | None:
    """A public function of torch, written in Python, that stands for operators (torch.nn.functional, torch.functional); None for others."""
    module, name = function.__module__, function.__name__
    if module not in PYTHON_MODULES or name.startswith("_") or name in NOT_IN_GRAPH:
        return None
    found = TorchOperation(function, function, "call_function", function, holder=sys.modules[module], name=name)
    return found if found.is_reachable() else None


def is_c_function(function: BuiltinFunctionType) -> bool:
    """Return whether this is one of ATen's functions."""
    owner, name = function.__self__, function.__name__
    if name in NOT_IN_GRAPH:
        return False
    if id(owner) in C_MODULES:
        return True
    if owner is not None or function.__module__ not in ("torch", None) or getattr(VARIABLE_FUNCTIONS, name, None) != function:
        return False
    return not name.startswith("_") or hasattr(torch.ops.aten, name)
