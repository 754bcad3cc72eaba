"""What may become a node of the graph as it is: computed from where a callable lives, with a short list of exceptions."""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

VARIABLE_FUNCTIONS = torch._C._VariableFunctions
C_MODULES = frozenset(
    id(getattr(torch._C, name)) for name in ("_nn", "_linalg", "_fft", "_special", "_sparse", "_nested") if hasattr(torch._C, name)
)
PYTHON_MODULES = frozenset({"torch.nn.functional", "torch.functional", "torch.foreach"})
NOT_IN_GRAPH = frozenset({
    "from_numpy", "frombuffer", "from_file", "from_dlpack", "asarray", "is_inference", "is_nonzero", "is_distributed",
    "set_flush_denormal", "handle_torch_function", "boolean_dispatch", "assert_int_or_pair",
})  # fmt: skip
"""They take memory, files or foreign objects, need data, or steer torch itself."""


def graph_callable(function: Any) -> bool:
    """Whether a call of this function on tensors and constants is one node: a function of ATen's, or a public Python function
    of torch's that stands for operators (torch.nn.functional, torch.functional). Methods are `is_tensor_method`."""
    kind = type(function)
    if kind is BuiltinFunctionType:
        return _c_function(function)
    if kind is FunctionType:
        module, name = function.__module__, function.__name__
        if module not in PYTHON_MODULES or name.startswith("_") or name in NOT_IN_GRAPH:
            return False
        return getattr(sys.modules[module], name, None) is function
    return issubclass(kind, (OpOverload, OpOverloadPacket))


def _c_function(function: BuiltinFunctionType) -> bool:
    owner, name = function.__self__, function.__name__
    if name in NOT_IN_GRAPH:
        return False
    if id(owner) in C_MODULES:
        return True
    if owner is not None or function.__module__ not in ("torch", None) or getattr(VARIABLE_FUNCTIONS, name, None) != function:
        return False
    return not name.startswith("_") or hasattr(torch.ops.aten, name)


def is_tensor_method(function: Any) -> bool:
    """Whether this is a method of torch.Tensor, written in C or Python."""
    kind = type(function)
    if kind is MethodDescriptorType or kind is WrapperDescriptorType:
        return function.__objclass__ is torch._C.TensorBase
    return kind is FunctionType and function.__module__ == "torch._tensor"
