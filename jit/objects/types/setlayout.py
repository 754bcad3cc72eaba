"""The history of sets, step by step: CPython's order of iteration follows from the history of a set's table (Objects/setobject.c)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from framejit.guards.source import MISSING, Pinned
from framejit.objects.core.hash_keys import parts
from framejit.objects.core.object import Object
from framejit.objects.types.constobject import is_plain

T = TypeVar("T")
ITSELF: Any = object()
"""Among the arguments of a step, stands for the set that the step changes."""


class Operand(Object):
    """A set from which a step makes another one, or with which it changes one."""

    __slots__ = ()

    def real_set(self) -> Any:
        """A real set with the same table. Not to be changed by the caller."""
        raise NotImplementedError

    def has_objects_from_outside(self) -> bool:
        """Return whether the real set has objects of the program's that hash by Python code, or another set with such in its history."""
        raise NotImplementedError


class SetLayout:
    """The last step in the history of a set. Immutable but for `made`, the real set of stand-ins, which later steps take over.

    `method(*args)` makes the set; if there is a layout `before`, `method(set, *args)` changes the set of that layout.
    An argument is the stand-in of an element, a list of stand-ins or a dict that has them as keys, an Operand, or ITSELF.
    """

    __slots__ = ("before", "method", "args", "made", "operand")

    def __init__(self, before: SetLayout | None, method: Callable[..., Any], args: tuple[Any, ...] = ()) -> None:
        self.before = before
        self.method = method
        self.args = args
        self.made: Any = None
        self.operand: Any = None  # the Operand that stands for the set in this state

    def history(self) -> list[SetLayout]:
        """All steps, oldest first."""
        steps = [self]
        while steps[-1].before is not None:
            steps.append(steps[-1].before)
        return steps[::-1]

    def real(self) -> Any:
        """The real set of stand-ins that the steps lead to. Not to be changed by the caller."""
        steps: list[SetLayout] = []
        layout: SetLayout | None = self
        while layout is not None and layout.made is None:
            steps.append(layout)
            layout = layout.before
        made = None if layout is None else layout.take()
        for step in reversed(steps):
            args = [made if arg is ITSELF else arg.real_set() if issubclass(type(arg), Operand) else arg for arg in step.args]
            if step.before is None:
                made = step.method(*args)
            else:
                step.method(made, *args)
        self.made = made
        return made

    def has_objects_from_outside(self) -> bool:
        """Return whether `real` would need the table of a set from outside with objects that hash by Python code, in which no stand-ins would be found."""
        operands = [arg for step in self.history() for arg in step.args if issubclass(type(arg), Operand)]
        return any(operand.has_objects_from_outside() for operand in operands)

    def take(self) -> Any:
        """The real set, which the caller may change."""
        made = self.real() if self.made is None else self.made
        self.made = None
        return made

    def pop(self) -> tuple[Any, SetLayout]:
        """The element that set.pop takes from the set, and the layout that is left."""
        after = SetLayout(self, set.pop)
        after.made = self.take()
        return after.made.pop(), after


CHANGES_BY_ONE: tuple[Any, ...] = (set.add, set.discard, set.remove)
"""The methods of a set that take one element."""
EMPTY = SetLayout(None, set)
ARBITRARY = SetLayout(None, set)
"""Stands for any history with elements whose hashes the trace doesn't know."""


def laid_out(before: SetLayout | None, method: Callable[..., Any], *args: Any) -> SetLayout:
    """The layout after one more step; an argument is MISSING if an element has no stand-in."""
    if before is ARBITRARY or any(arg is MISSING for arg in args):
        return ARBITRARY
    return SetLayout(before, method, args)


def merged(steps: Iterable[SetLayout]) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The steps as methods and arguments. Consecutive additions of elements become one call, which leads to the same table."""
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
    for step in steps:
        adds = step.method is set.update and type(step.args[0]) is list
        if adds and calls and calls[-1][0] is set.update and type(calls[-1][1][0]) is list:
            calls[-1][1][0].extend(step.args[0])
        else:
            calls.append((step.method, ([*step.args[0]],) if adds else step.args))
    return calls


def steps_with(kind: type[T], layout: SetLayout | None) -> Iterator[T]:
    """The stand-ins of this kind among the arguments of all steps."""
    for step in () if layout is None or layout is ARBITRARY else layout.history():
        for arg in step.args:
            yield from (part for part in (arg if type(arg) in (list, dict) else (arg,)) if isinstance(part, kind))


def told(layout: SetLayout) -> tuple[tuple[str, Any], ...] | None:
    """The history as names of methods of an empty set, each with an argument that is a constant or a tuple of such; None if it can't be said so."""
    found: list[tuple[str, Any]] = []
    for method, args in merged(layout.history()):
        if method is set and not args and not found:
            continue
        argument = tuple(args[0]) if method is set.update and type(args[0]) is list else args[0] if method in CHANGES_BY_ONE else MISSING
        if argument is MISSING or not is_plain(argument):
            return None
        found.append((method.__name__, argument))
    return tuple(found)


def played(target: Any, steps: list[tuple[Any, ...]]) -> Any:
    """Run by generated code: change a set by steps, each of which is a method and its arguments."""
    for method, *args in steps:
        method(target, *[target if arg is ITSELF else arg for arg in args])
    return target


def stand_in(key: Any) -> Any:
    """A real value that hashes and compares like the element with this hash key; MISSING if the trace doesn't know the hash."""
    if issubclass(type(key), Object):  # isinstance would ask a class that is a key for its __class__
        return key.value if type(key.source) is Pinned else MISSING
    return MISSING if holds_object(key) else key


def holds_object(key: Any) -> bool:
    """Return whether a hash key contains an Object that stands for its value."""
    return issubclass(type(key), Object) or any(map(holds_object, parts(key)))


def stand_ins(keys: Iterable[Any]) -> Any:
    """A list of the stand-ins of all these; MISSING if one has none."""
    found = [stand_in(key) for key in keys]
    return MISSING if any(part is MISSING for part in found) else found
