"""framejit's own functions, called by traced code."""

from __future__ import annotations

import functools
from typing import Any

from framejit import breaks
from framejit._runtime import CompiledFunction
from framejit.guards.source import MISSING, Source
from framejit.objects.core import abstract
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, NotConstant, Object, settle
from framejit.objects.core.registry import RuleOrder, library, models, unsupported, wraps
from framejit.objects.types.compiledobject import GivenToCompiler
from framejit.objects.types.constobject import answer
from framejit.objects.types.funcobject import FunctionObject
from framejit.said import directives, stance
from framejit.said.vocabulary import VOCABULARY


@models(VOCABULARY["is_compiling"])
def is_compiling(vm: VM) -> Object:
    return answer(vm)


# Regions.


@models(directives.push)
def push(vm: VM, kind: Object, setting: Object) -> Object:
    kind_value, value = vm.observe(kind).constant(vm), vm.observe(setting).constant(vm)
    vm.trail.set(vm, "directives", (*vm.directives, (kind_value, value)))
    return vm.const(None)


@models(directives.pop)
def pop(vm: VM) -> Object:
    vm.trail.set(vm, "directives", directives.popped(vm.directives))
    return vm.const(None)


# Breaks that the program asks for.


def message_of(vm: VM, message: Object | None) -> str:
    """The message given to a directive."""
    return "" if message is None else str(vm.observe(message).constant(vm))


@models(VOCABULARY["graph_break"])
def graph_break(vm: VM, msg: Object | None = None) -> Object:
    vm.unsupported(breaks.ExplicitBreak(message_of(vm, msg)))


@models(VOCABULARY["skip_frame"])
def skip_frame(vm: VM, msg: Object | None = None) -> Object:
    vm.unsupported(breaks.SkippedFrame(message_of(vm, msg)))


@models(VOCABULARY["disable"].__enter__)
def disable_enter(vm: VM, self: Object) -> Object:
    vm.unsupported(breaks.DisabledFunction("`with framejit.disable()`", is_block=True))


unsupported(breaks.StanceChange(), stance.announce, stance.enter, stance.leave)


@library(RuleOrder.MARKED)
def disabled_function(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Stop the trace at a function that framejit.disable has marked."""
    if isinstance(function, FunctionObject):
        mark = function.value.__dict__.get(directives.DISABLED) if function.value is not MISSING else mark_of(vm, function)
        if mark is not None:
            vm.unsupported(breaks.DisabledFunction(f"{function.qualname} ({mark})" if mark else function.qualname))
    return None


def mark_of(vm: VM, function: FunctionObject) -> str | None:
    """The reason that was given to `framejit.disable` for a function made in the trace; None if the function isn't marked."""
    found = None if function.attrs is None else function.attrs.lookup(vm, directives.DISABLED)
    return None if found is None else str(vm.observe(found).constant(vm))


# Compiled functions inside a trace, which are traced through.


class WholeGraphFunction(FunctionObject):
    """A function compiled with `fullgraph=True`: graph breaks in its calls are errors."""

    __slots__ = ()

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        plain = vm.pin(self.value)
        return abstract.call(vm, vm.pin(VOCABULARY["whole_graph"]), [plain, *args], kwargs, delivery)


@wraps(CompiledFunction, by_identity=True)
def wrap_compiled(vm: VM, value: Any, source: Source | None) -> Object:
    """Wrap a compiled function: a call of it inside a trace is traced through."""
    function = value.function
    if not value.compile_callback.options.fullgraph:
        return vm.pin(function)
    made = WholeGraphFunction(function.__code__, vm.globals_of(function.__globals__), function.__qualname__, None, function)
    made.checked = True
    return made


class NewlyCompiled(GivenToCompiler):
    """The result of `framejit.compile` inside a trace."""

    __slots__ = ("fullgraph",)

    def __init__(self, function: Object, options: dict[str, Any]) -> None:
        super().__init__(CompiledFunction, function, functools.partial(VOCABULARY["compile"], **options))
        self.fullgraph = bool(options.get("fullgraph"))

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        if self.fullgraph:
            return abstract.call(vm, vm.pin(VOCABULARY["whole_graph"]), [self.function, *args], kwargs, delivery)
        return super().call(vm, args, kwargs, delivery)

    def getattr(self, vm: VM, name: str) -> Object:
        return self.function if name in ("function", "__wrapped__") else abstract.getattr_(vm, self.function, name)


@models(VOCABULARY["compile"])
def compile_(vm: VM, target: Object | None = None, *positional: Object, **options: Object) -> Object:
    """`framejit.compile` of a function inside a trace. Anything else is compiled for real, at a break."""
    if target is None or vm.observe(target).cls is type(None):
        return abstract.call(vm, vm.const(functools.partial), [vm.const(VOCABULARY["compile"]), *positional], options)
    real = {name: vm.observe(value).as_real(vm) for name, value in options.items()}
    function = settle(vm.observe(target))
    if not isinstance(function, FunctionObject) or positional:
        raise NotConstant(function)
    try:
        VOCABULARY["compile"](**real)
    except Exception as error:
        vm.raise_(type(error), *error.args)
    if real.get("disable") or (function.value is not MISSING and directives.is_disabled(function.value)):
        return function
    return NewlyCompiled(function, real)
