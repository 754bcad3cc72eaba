"""`__torch_function__` from within: torch's default implementation, switches for overrides, `as_subclass`, and how torch's Python functions ask."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import get_default_nowrap_functions

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.function_modes import NO_SUBCLASSES, NOTHING
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models, wraps
from framejit.objects.tensors.overrides import arguments, arguments_asked, ask, overrides_in
from framejit.objects.tensors.tensorkind import kind_of_class
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.tensors.torchobject import CSequence, struct_sequence
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes
from framejit.torch_state.torch_classes import overrides_operators
from framejit.torch_state.torch_function_stack import default_devices

NATIVE = torch._C
ALIAS = torch.ops.aten.alias.default
NOWRAP = frozenset(get_default_nowrap_functions())

# Tensors of another class.


def of_class(vm: TorchVM, tensor: TensorObject, cls: type) -> TensorObject:
    """`tensor.as_subclass(cls)`: a view of the whole tensor. In the graph it is a plain tensor."""
    if overrides_operators(cls) or (not kind_of_class(cls).is_disguised and cls is not torch.Tensor):
        vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(cls)}, made by as_subclass()"))
    made = enter(vm, ALIAS, [tensor])
    assert isinstance(made, TensorObject)
    made.cls = cls
    return made


@models(torch.Tensor.as_subclass)
def as_subclass(vm: TorchVM, self: TensorObject, cls: Object) -> Object:
    real = vm.observe(cls).constant(vm)
    if not issubclass(type(real), type) or not abstract.is_subtype(vm, real, torch.Tensor):
        vm.unsupported(breaks.OperatorRaises("as_subclass() with what is no class of tensors"))
    return of_class(vm, self, real)


def converted(vm: TorchVM, value: Object, cls: type) -> Object:
    """torch/_tensor.py: _convert."""
    value = vm.observe(value)
    if isinstance(value, TensorObject):
        return value if abstract.is_subtype(vm, value.cls, cls) else of_class(vm, value, cls)
    if value.cls is torch.Size:
        return value
    if value.cls is list or classes.is_subtype(value.cls, tuple):
        items = [converted(vm, item, cls) for item in abstract.iterate(vm, value)]
        if value.cls is list:
            return ListObject(items)
        if value.cls is tuple:
            return TupleObject(items)
        return struct_sequence(value.cls, items) if isinstance(value, CSequence) else abstract.call(vm, vm.const(value.cls), [TupleObject(items)])
    return value


@models(torch.Tensor.__torch_function__.__func__)  # type: ignore[attr-defined]
def default_torch_function(
    vm: TorchVM, cls: Object, func: Object, types: Object, args: Object | None = None, kwargs: Object | None = None
) -> Object:
    """torch/_tensor.py: Tensor.__torch_function__."""
    real, func = vm.observe(cls).constant(vm), vm.observe(func)
    for other in abstract.iterate(vm, types):
        if not abstract.is_subtype(vm, real, vm.observe(other).constant(vm)):
            return vm.const(NotImplemented)
    with vm.graph.function_modes.at_level(max(NO_SUBCLASSES, vm.graph.function_modes.level)):
        found = abstract.call(vm, func, *arguments(vm, args, kwargs))
        return found if real is torch.Tensor or func.value in NOWRAP else converted(vm, found, real)


# The questions that torch's functions in Python ask.


@models(NATIVE._has_torch_function, NATIVE._has_torch_function_unary, NATIVE._has_torch_function_variadic)
def has_torch_function(vm: TorchVM, *args: Object) -> Object:
    modes = vm.graph.function_modes
    if modes.asks_modes() or not modes.asks_subclasses():
        return vm.const(modes.asks_modes())
    values = [item for arg in args for item in (abstract.iterate(vm, arg) if vm.observe(arg).cls in (tuple, list) else [arg])]
    return vm.const(any(overrides_in(vm, vm.observe(value)) for value in values))


@models(torch.overrides.handle_torch_function)
def handle_torch_function(vm: TorchVM, public_api: Object, relevant_args: Object, /, *args: Object, **kwargs: Object) -> Object:
    """Functions in Python ask all arguments whose classes have an override, including that of torch.Tensor."""
    relevant = [vm.observe(arg) for arg in abstract.iterate(vm, relevant_args)]
    asked = arguments_asked(vm, relevant, plain_too=True) if vm.graph.function_modes.asks_subclasses() else []
    words = [TupleObject(list(args)), vm.from_real(dict(kwargs))]
    return ask(vm, vm.observe(public_api), asked, words)


# Overrides that are switched off.


class SwitchObject(Object):
    """A `DisableTorchFunction` or `DisableTorchFunctionSubclass` that the trace has made."""

    __slots__ = ("before",)

    def __init__(self, cls: type) -> None:
        super().__init__(cls)
        self.before = 0

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.cls)
        cg.call_const(made, 1)


def made(cls: Any) -> Any:
    """An instance of a class (runs in generated code)."""
    return cls()


LEVELS: dict[type, int] = {NATIVE.DisableTorchFunctionSubclass: NO_SUBCLASSES, NATIVE.DisableTorchFunction: NOTHING}


def maker(cls: type) -> Any:
    def make(vm: VM) -> Object:
        return SwitchObject(cls)

    return make


def entering(cls: type) -> Any:
    def enter_switch(vm: TorchVM, self: Object) -> Object:
        if not isinstance(self, SwitchObject):
            vm.unsupported(breaks.GlobalStateUnsupported(f"entering a {classes.qualname(cls)} that was made elsewhere"))
        modes = vm.graph.function_modes
        vm.trail.set(self, "before", modes.level)
        if LEVELS[cls] == NOTHING and default_devices():
            vm.unsupported(breaks.GlobalStateUnsupported("a default device, which was set before and is switched off"))
        modes.set_level(max(modes.level, LEVELS[cls]))
        vm.graph.modes.enter_nominally(self, cls.__enter__)  # type: ignore[attr-defined]
        return vm.const(None)

    return enter_switch


def leaving(cls: type) -> Any:
    def leave_switch(vm: TorchVM, self: Object, *error: Object) -> Object:
        if not isinstance(self, SwitchObject) or not vm.graph.modes.exit_nominally(self):
            vm.unsupported(breaks.GlobalStateUnsupported(f"leaving a {classes.qualname(cls)} that was entered elsewhere, or out of order"))
        vm.graph.function_modes.set_level(self.before)
        return vm.const(None)

    return leave_switch


for _cls in LEVELS:
    models(_cls)(maker(_cls))
    models(_cls.__enter__)(entering(_cls))  # type: ignore[attr-defined]
    models(_cls.__exit__)(leaving(_cls))  # type: ignore[attr-defined]


@models(NATIVE._is_torch_function_enabled)
def is_torch_function_enabled(vm: TorchVM) -> Object:
    return vm.const(vm.graph.function_modes.asks_subclasses())


@models(NATIVE._is_torch_function_all_disabled)
def is_torch_function_all_disabled(vm: TorchVM) -> Object:
    return vm.const(vm.graph.function_modes.level == NOTHING)


wraps(*LEVELS, shared=True)(Object)
