"""Counters: numbers that a call reads and replaces. The next call finds others, so they are symbolic from the first call on."""

from __future__ import annotations

from framejit.compiler.traced import Attempt
from framejit.graph.demands import RestartVarying
from framejit.guards.dynamic import Dynamic
from framejit.guards.kinds import Equals
from framejit.guards.source import Source
from framejit.objects.core.object import Object
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.numbers.unbackednumber import UnbackedNumber


def check_counters(attempt: Attempt) -> None:
    """Restart the trace with symbols for the numbers that it has fixed and also replaces by others. This saves the second call's compilation."""
    tracer = attempt.tracer
    dynamic = tracer.graph.dynamic
    if dynamic.fixed or not attempt.request.options.learns_sizes:
        return
    replaced = [each for effect in tracer.effects.all() if isinstance(effect, Object) for each in effect.replaced() if is_candidate(dynamic, *each)]
    if not replaced:
        return
    fixed = {guard.source: guard.value for guard in tracer.guards.all() if type(guard) is Equals and type(guard.value) in (int, float)}
    paths = frozenset(source.path() for source, value in replaced if source in fixed and is_other(fixed[source], value))
    if paths:
        raise RestartVarying(paths)


def is_candidate(dynamic: Dynamic, source: Source, value: Object) -> bool:
    """Return whether a value that has been stored is a number, and may be symbolic where it isn't yet."""
    return isinstance(value, (NumberObject, UnbackedNumber)) and source.path() not in dynamic.varying and (dynamic.floats or value.cls is int)


def is_other(fixed: float, value: Object) -> bool:
    """Return whether a stored number is another one than the trace has fixed, or one that isn't known yet, of the same type."""
    return type(fixed) is value.cls and (not isinstance(value, NumberObject) or value.value != fixed)
