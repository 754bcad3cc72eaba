"""The one door to torch: all operations on tensors pass through `torch_call`, whether they are operators, methods, attributes or functions.

It decides what the operation means: what overrides it (overrides.py), whether it has a model, whether it becomes a node of the graph or breaks
the trace. If a function in Python is overridden, its code is traced: it asks the overrides by itself.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import FunctionType
from typing import Any, NoReturn

import torch

from framejit import breaks
from framejit.guards.kinds import ValueIs
from framejit.objects.core.naming import callable_name
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.core.registry import by_library, call_model, model_of, setter_of
from framejit.objects.tensors.overrides import ask_for_operation, is_in_python, is_overridden
from framejit.objects.tensors.tensorkind import kind_of_class, overrides
from framejit.objects.tensors.torchfunctions import TorchOperation, operation_of
from framejit.program import classes
from framejit.program.naming import with_article
from framejit.torch_state.operator_facts import changes_tensor_itself

EMPTY: dict[str, Object] = {}
ITEMS = {operator.getitem: "indexing a tensor with", operator.setitem: "storing to a tensor, as index or value:"}


def torch_call(
    vm: VM, operation: TorchOperation, args: list[Object], kwargs: dict[str, Object] = EMPTY, called: Object | None = None
) -> Object | None:
    """The result of calling one of torch's operations; `operation_of` finds the operation for a function.

    `called`: the function as the program has reached it, for the rules of libraries; it is guarded if it is from outside.
    None: a method was given no tensor, or a function in Python, whose own code can be traced instead, is overridden or was given an argument that
    no node can take.
    """
    if operation.is_method:
        first = vm.observe(args[0]) if args else None
        if first is None or (first.cls is not torch.Tensor and not classes.is_subtype(first.cls, torch.Tensor)):
            return None
        if first is not args[0]:
            args = [first, *args[1:]]
    if is_overridden(vm, operation, args, kwargs):
        rest_on(vm, called)
        return None if is_in_python(operation) else ask_for_operation(vm, operation, args, kwargs)
    if called is not None:
        said = by_library(vm, called, args, kwargs)
        if said is not None:
            return said
    model = model_of(operation.subject) if operation.op is not None else None
    if model is not None:
        rest_on(vm, called)
        return call_model(vm, model, operation.function, args, kwargs)
    try:
        found = add(vm, operation, args, kwargs) if operation.op is not None else store(vm, operation, args)
    except NotConstant as needed:
        if called is not None and type(operation.function) is FunctionType and not overrides(needed.obj.cls):
            return None
        break_graph(vm, operation, needed.obj)
    rest_on(vm, called)
    return found


def rest_on(vm: VM, called: Object | None) -> None:
    """Guard the identity of the function that the program has reached. Functions in C are known by identity once they are observed."""
    if called is not None and called.source is not None and called.cls is FunctionType:
        vm.guard(ValueIs, called.source, called.value)


def enter(vm: VM, function: Any, args: Sequence[Object], kwargs: dict[str, Object] = EMPTY) -> Object:
    """Run a call of a function in the graph, whatever model it has. The caller vouches that it can be a node if it isn't one of torch's operations."""
    operation = operation_of(function) or TorchOperation(function, function, "call_function", function)
    try:
        return add(vm, operation, args, kwargs)
    except NotConstant as needed:
        break_graph(vm, operation, needed.obj)


def add(vm: VM, operation: TorchOperation, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
    """Run the operation in the graph. Raises NotConstant if an argument can't be an argument of a node."""
    changes_it = operation.op == "call_method" and changes_tensor_itself(operation.target)
    if changes_it and kind_of_class(args[0].cls).is_disguised and args[0].source is not None:  # in the graph it is another tensor, of a plain class
        vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(args[0].cls)}, of which {operation.target}() changes a tensor from outside"))
    if operation.swapped:
        if issubclass(vm.observe(args[1]).cls, torch.Tensor):  # `y.__rtruediv__(x)` is `y.reciprocal() * x`, which rounds otherwise than `x / y`
            return vm.graph.call("call_method", operation.name, args, kwargs)
        args = args[::-1]
    elif operation.further:
        args = [*args, *[vm.const(value) for value in operation.further]]
    assert operation.op is not None
    return vm.graph.call(operation.op, operation.target, args, kwargs)


def store(vm: VM, operation: TorchOperation, args: Sequence[Object]) -> Object:
    """Store an attribute of a tensor, or delete it if no value is given."""
    setter = setter_of(operation.subject)
    if setter is None:
        vm.unsupported(breaks.UnsupportedOperation(f"storing to .{operation.subject.__name__} of a tensor"))
    setter(vm, args[0], vm.observe(args[1]) if len(args) > 1 else None)
    return vm.const(None)


def reject_overriding(vm: VM, argument: Object) -> None:
    """Stop the trace for a value that overrides torch's functions with its own code."""
    if overrides(argument.cls):
        vm.unsupported(breaks.UnsupportedValue(f"{with_article(classes.qualname(argument.cls))}, which overrides torch's functions"))


def break_graph(vm: VM, operation: TorchOperation, argument: Object) -> NoReturn:
    """Stop the trace at an operation on a value that can't be an argument of a node."""
    reject_overriding(vm, argument)
    if operation.target in ITEMS:
        vm.unsupported(breaks.UnsupportedOperation(f"{ITEMS[operation.target]} {argument!r}"))
    vm.unsupported(breaks.UnsupportedCall(f"{callable_name(operation.function)} with the argument {argument!r}"))
