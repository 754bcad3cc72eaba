"""decimal: numbers that the trace knows are computed while tracing, by settings of the context, which are guarded. Its flags are set after the graph."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from types import ClassMethodDescriptorType, GetSetDescriptorType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from framejit import breaks
from framejit.guards.dynamic import is_argument
from framejit.guards.kinds import ValueIs
from framejit.guards.source import Source
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models, wrapper_for, wraps
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.waitingtext import real_of

DEPENDENT = frozenset({"__getattribute__", "__setattr__", "__delattr__", "__reduce__", "__new__", "__hash__", "__sizeof__"})


class DecimalObject(ConstObject):
    """A decimal number from outside, which is guarded by its identity when something asks for its value."""

    __slots__ = ()

    def constant(self, vm: VM) -> Any:
        if self.pending:
            assert self.source is not None
            if is_argument(self.source):
                vm.unsupported(breaks.UnsupportedValue("a Decimal that may be another in each call"))
            vm.guard(ValueIs, self.source, self.value)
            vm.trail.fill(self, "pending", False)
        return self.value


@wraps(decimal.Decimal)
def wrap_decimal(vm: VM, value: Any, source: Source | None) -> Object:
    """Wrap a decimal number; one of a subclass is an instance of a class of the program's."""
    if type(value) is not decimal.Decimal:
        return wrapper_for(object).wrap(vm, value, source)  # type: ignore[arg-type]
    return ConstObject(value, None) if source is None else DecimalObject(value, source, pending=True)


def settings() -> tuple[Any, ...]:
    """The settings of the context of this thread by which numbers are computed."""
    now = decimal.getcontext()
    return now.prec, now.rounding, now.Emin, now.Emax, now.capitals, now.clamp, tuple([signal.__name__ for signal, traps in now.traps.items() if traps])


def set_flags(names: tuple[str, ...]) -> None:
    """Set the flags of the context that the computations of a call set; run by generated code."""
    for name in names:
        decimal.getcontext().flags[getattr(decimal, name)] = True


def computed(function: Any) -> Callable[..., Object]:
    """The model of a function that is called while tracing, in a context of its own with the same settings."""

    def call(vm: VM, *args: Object, **kwargs: Object) -> Object:
        given = [real_of(vm, arg, "a function of decimal") for arg in args]
        named = {name: real_of(vm, value, "a function of decimal") for name, value in kwargs.items()}
        if function.__name__ == "__format__" and not all(type(spec) is str and "n" not in spec for spec in given[1:]):
            vm.unsupported(breaks.UnsupportedCall("Decimal.__format__ by the locale"))
        vm.guards.read(settings)
        with decimal.localcontext() as context:
            context.clear_flags()
            try:
                found = function(*given, **named)
            except (ArithmeticError, ValueError, TypeError):
                vm.unsupported(breaks.UnsupportedCall("a function of decimal that raises an exception"))
            flags = tuple([signal.__name__ for signal, is_set in context.flags.items() if is_set])
        if flags:
            vm.effects.in_order(LaterCall(set_flags, (flags,)))
        return vm.from_real(found)

    return call


models(decimal.Decimal)(computed(decimal.Decimal))
for _name, _found in vars(decimal.Decimal).items():
    if _name not in DEPENDENT and isinstance(_found, (ClassMethodDescriptorType, MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType)):
        models(_found)(computed(_found.__get__ if isinstance(_found, GetSetDescriptorType) else _found))
