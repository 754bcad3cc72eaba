"""datetime: dates, times and differences that the trace knows are constants, and what follows from them alone is computed while tracing.

The clock, the local time zone, and dates and times that are arguments or change from call to call are left to the program's own calls. After a call of the
clock, differences of times (elapsed_time.py) and their order are traced.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from types import ClassMethodDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from framejit import breaks
from framejit.graph.demands import RestartVarying
from framejit.guards.dynamic import is_argument
from framejit.guards.kinds import Equals, TypeIs, ValueIs
from framejit.guards.source import CAttr, Source
from framejit.library.python.elapsed_time import SECOND, TICK, ElapsedTime
from framejit.objects.core import operators
from framejit.objects.core.object import VM, Object, fold, member_source
from framejit.objects.core.registry import models, pure, wrapper_for, wraps
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.waitingtext import real_of

DAY, TIME = ("year", "month", "day"), ("hour", "minute", "second", "microsecond", "fold", "tzinfo")
PARTS: dict[type, tuple[str, ...]] = {
    datetime.timedelta: ("days", "seconds", "microseconds"), datetime.date: DAY, datetime.time: TIME, datetime.datetime: (*DAY, *TIME),
}  # fmt: skip
"""The attributes that make up a value of each type."""
FACTORS = {"hour": 3600 * SECOND, "minute": 60 * SECOND, "second": SECOND, "microsecond": 1}
"""The parts of a time of the day, and the microseconds of each."""
DEPENDENT = frozenset({
    "now", "today", "utcnow", "fromtimestamp", "utcfromtimestamp", "astimezone", "timestamp", "strptime", "__getattribute__", "__setattr__", "__delattr__",
    "__reduce__", "__reduce_ex__", "__new__", "__hash__", "isocalendar",
})  # fmt: skip
"""Methods that ask the clock, the local time zone or the locale, or whose results aren't those of every process."""
NUMBERS = re.compile("(?:[^%]|%[YmdHMSfjuwGV%])*")
"""Formats whose texts don't depend on the locale."""


class DatetimeObject(ConstObject):
    """A date, a time or a difference from outside, whose parts are guarded when something asks for its value."""

    __slots__ = ()

    def constant(self, vm: VM) -> Any:
        if self.pending:
            assert self.source is not None
            trace: Any = vm
            parts = {name: self.source.child(CAttr, name) for name in PARTS[self.cls]}
            zone = getattr(self.value, "tzinfo", None)
            if is_argument(self.source) or any(map(trace.graph.dynamic.has_varied, parts.values())) or type(zone) not in (type(None), datetime.timezone):
                what = f"a {self.type_name} that may be another in each call, or has a time zone of the program's"
                vm.unsupported(breaks.UnsupportedValue(what, varies=True))
            vm.guard(TypeIs, self.source, self.cls)
            for name, part in parts.items():
                vm.guard(ValueIs if name == "tzinfo" else Equals, part, getattr(self.value, name))
            vm.trail.fill(self, "pending", False)
        return self.value

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        moments = moments_of(vm, self, other) if symbol == "-" else None
        return None if moments is None else ElapsedTime(operators.binary_op(vm, "-", *(moments[::-1] if reflected else moments)))

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        moments = moments_of(vm, self, other)
        return None if moments is None else operators.compare(vm, symbol, *(moments[::-1] if reflected else moments))

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        """One part is read, and guarded, alone."""
        if not self.pending or self.source is None:
            return super().get_slot(vm, member)
        return vm.wrap(member.__get__(self.value), member_source(vm, self, self.source, member))


def moments_of(vm: VM, first: Object, second: Object) -> tuple[Object, Object] | None:
    """The moments of two datetimes, of which one comes from native code such as a clock; None if a time zone counts, or if they can't be symbolic."""
    trace: Any = vm
    pair = (first, second)
    if not trace.resumed or not any(isinstance(obj, DatetimeObject) and obj.pending and is_argument(obj.source) for obj in pair):
        return None
    if any(obj.cls is not datetime.datetime or not isinstance(obj, ConstObject) or obj.value.tzinfo is not None for obj in pair):
        return None
    found = moment_of(vm, first), moment_of(vm, second)
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def moment_of(vm: VM, obj: Any) -> Object | None:
    """The microseconds since the beginning of the calendar: the day is guarded, and the time is symbolic from the first call on."""
    trace: Any = vm
    source, dynamic = obj.source, trace.graph.dynamic
    if not (obj.pending and is_argument(source)):
        return vm.const((obj.constant(vm) - datetime.datetime.min) // TICK)
    if dynamic.fixed or not dynamic.compares or any(dynamic.has_varied(source.child(CAttr, name)) for name in DAY):
        return None
    varying = frozenset([source.child(CAttr, name).path() for name in FACTORS]) - dynamic.varying.keys()
    if varying:
        raise RestartVarying(varying)
    vm.guard(TypeIs, source, datetime.datetime)
    vm.guard(ValueIs, source.child(CAttr, "tzinfo"), None)
    for name in DAY:
        vm.guard(Equals, source.child(CAttr, name), getattr(obj.value, name))
    moment = vm.const((datetime.datetime(*[getattr(obj.value, name) for name in DAY]) - datetime.datetime.min) // TICK)
    for name, factor in FACTORS.items():
        part = vm.observe(vm.wrap(getattr(obj.value, name), source.child(CAttr, name)))
        moment = operators.binary_op(vm, "+", moment, operators.binary_op(vm, "*", part, vm.const(factor)))
    return moment


@wraps(*PARTS)
def wrap_datetime(vm: VM, value: Any, source: Source | None) -> Object:
    """Wrap a date, a time or a difference; one of a subclass is an instance of a class of the program's, or of a package's."""
    if type(value) not in PARTS:
        return wrapper_for(object).wrap(vm, value, source)  # type: ignore[arg-type]
    return ConstObject(value, None) if source is None else DatetimeObject(value, source, pending=True)


@wraps(datetime.timezone, by_identity=True)
def wrap_zone(vm: VM, value: Any, source: Source | None) -> Object:
    """Wrap a time zone with a fixed difference, which is immutable."""
    return ConstObject(value, source)


def computed(function: Any) -> Callable[..., Object]:
    """The model of a function that is called while tracing."""

    def call(vm: VM, *args: Object, **kwargs: Object) -> Object:
        given = [real_of(vm, arg, "a function of datetime") for arg in args]
        if function.__name__ in ("strftime", "__format__") and not all(type(text) is str and NUMBERS.fullmatch(text) for text in given[1:]):
            vm.unsupported(breaks.UnsupportedCall("datetime.strftime with names, which depend on the locale"))
        return fold(vm, function, *given, **{name: real_of(vm, value, "a function of datetime") for name, value in kwargs.items()})

    return call


for _cls in (*PARTS, datetime.timezone):
    models(_cls)(computed(_cls))
    for _name, _found in vars(_cls).items():
        if _name in DEPENDENT or not isinstance(_found, (ClassMethodDescriptorType, MethodDescriptorType, WrapperDescriptorType)):
            continue
        if isinstance(_found, ClassMethodDescriptorType):
            pure(_found)
        else:
            models(_found)(computed(_found))
