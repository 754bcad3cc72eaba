"""Runs functions on fake tensors: stand-ins for functions that need data, and checks of which tensors operators write to, and of failures."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._python_dispatch import TorchDispatchMode

from framejit.graph.fake import is_of_others

STAND_INS: dict[Any, Callable[..., Any]] = {}
"""Functions that run on fakes instead of a node's target, by the target."""


def stand_in(target: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Register `function` to run on fakes instead of `target`, with the same arguments. Its result looks the same, and it changes the same fakes."""
    STAND_INS[target] = function


def run_on_fakes(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the target of a node, or its stand-in, on fakes."""
    function = STAND_INS.get(target)
    if function is not None:
        return function(*args, **kwargs)
    if (isinstance(target, (OpOverload, OpOverloadPacket)) and is_of_others(target)) or writes_to_lists(target, args, kwargs):
        with Written() as written:
            result = target(*args, **kwargs)
        written.count()
        return result
    return getattr(target, "on_fakes", target)(*args, **kwargs)  # the targets of launches say it themselves


def runs_as_on_fakes(node: fx.Node) -> bool:
    """Return whether a node of a finished graph runs the same operators on real tensors as on fakes: it is one of torch's functions without a stand-in."""
    target = node.target
    if node.op != "call_function":
        return node.op != "call_module"
    if target in STAND_INS or hasattr(target, "on_fakes"):
        return False
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        return not is_of_others(target)
    if not isinstance(target, (FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)):
        return False
    return type(target) is not FunctionType or target.__module__.partition(".")[0] == "torch"


def writes_to_lists(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether one of torch's functions may write to the tensors of a list that it is given."""
    lists = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, (list, tuple))] if may_write(target, kwargs) else []
    return any(isinstance(item, torch.Tensor) for given in lists for item in given)


def may_write(target: Any, kwargs: dict[str, Any]) -> bool:
    """Return whether one of torch's functions, by its name and its keywords, writes to its arguments."""
    name = target._schema.name if isinstance(target, OpOverload) else getattr(target, "__name__", "")
    return kwargs.get("out") is not None or (name.endswith("_") and not name.endswith("__"))


class Written(TorchDispatchMode):
    """Notes which tensors the operators below write to. `count`: whether to count the writes in the versions of the tensors: a C++ operator does so for real
    tensors through the operators that it calls, but its fake may call none. torch's own fakes of operators on lists, such as `_foreach_add_`, count nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tensors: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._tensors += written_by(func, args, kwargs)
        return func(*args, **kwargs)

    def count(self) -> None:
        torch.autograd.graph.increment_version([tensor for tensor in self._tensors if not tensor.is_inference()])


def written_by(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors to which an operator writes according to its schema."""
    found: list[torch.Tensor] = []
    if isinstance(func, OpOverload) and func._schema.is_mutable:
        for index, argument in enumerate(func._schema.arguments):
            value = kwargs.get(argument.name, args[index] if index < len(args) else None)
            if argument.alias_info is not None and argument.alias_info.is_write:
                found += [item for item in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(item, torch.Tensor)]
    return found


class FailedOnFakes(Exception):
    """An operator has raised `error` on fakes."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@contextlib.contextmanager
def keeping_dispatch_keys() -> Iterator[None]:
    """If something fails inside the block, restore the thread's dispatch keys after it.

    Frames that an error keeps alive may hold guards of torch, which set the keys when they are freed: that must happen in here.
    """
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()):
        try:
            yield
        except FailedOnFakes as failed:
            error: BaseException | None = failed.error
            while error is not None:
                error.__traceback__ = None
                error = error.__cause__ or error.__context__
            gc.collect()
            raise
