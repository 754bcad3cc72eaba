"""What native code at the end of a call will have changed: values that the trace doesn't know any more.

They may be passed on and dropped: after the native code, the generated code takes them from where that has put them. Numbers may be computed with and made
text of as well. Whoever has to know one while tracing breaks the graph: after the break it is there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NoReturn

from framejit.breaks import Break, LaterValue
from framejit.guards.source import MISSING
from framejit.objects.listobject import ListObject
from framejit.objects.object import VM, Codegen, Object
from framejit.objects.unbackednumber import LeafNumber


class CallOutcome(Object):
    """What a native call leaves in some dicts: copies of them, made right behind it. Building this makes the call.

    `function`: called with `argument`. `dicts`: those that it changes. `effect`: what is replayed to have the call made in its place among other effects;
    values out of the copies wait for it.
    """

    __slots__ = ("function", "argument", "dicts", "effect")

    def __init__(self, function: Callable[[Any], object], argument: Object, dicts: Sequence[Object]) -> None:
        super().__init__(tuple)
        self.function = function
        self.argument = argument
        self.dicts = dicts
        self.effect: Any = None

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.function)
        cg.load(self.argument)
        for each in self.dicts:
            cg.load(each)
        cg.call_const(changes, 2 + len(self.dicts))

    def referents(self) -> list[Object]:
        return [self.argument, *self.dicts]


def changes(function: Callable[[Any], object], argument: Any, *dicts: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Run by generated code: make a call, and note what it leaves in some dicts."""
    function(argument)
    return tuple([dict(each) for each in dicts])


def load_item(cg: Codegen, outcome: CallOutcome, path: Sequence[Any]) -> None:
    """Push a value out of what a native call has left."""
    cg.load(outcome)
    for key in path:
        cg.load_const(key)
        cg.call_const(operator.getitem, 2)


class LaterNumber(LeafNumber):
    """An int or float that native code leaves in a dict. `path`: the index of the dict, and its key; of an item of a list there, that one's index too."""

    __slots__ = ("outcome", "path")

    def __init__(self, cls: type, outcome: CallOutcome, *path: Any) -> None:
        super().__init__(cls, repr(path[1]), 0)
        self.outcome = outcome
        self.path = path

    def why(self, asking: str, check: str) -> Break:
        return LaterValue(asking, self.told)

    def awaits(self) -> Object | None:
        return self.outcome.effect  # type: ignore[no-any-return]

    def reconstruct(self, cg: Codegen) -> None:
        load_item(cg, self.outcome, self.path)

    def referents(self) -> list[Object]:
        return [self.outcome]


class LaterList(ListObject):
    """A list of floats that native code leaves in a dict, whose length is known. It isn't changed in the same trace."""

    __slots__ = ("outcome", "path")

    def __init__(self, length: int, outcome: CallOutcome, *path: Any) -> None:
        super().__init__([LaterNumber(float, outcome, *path, index) for index in range(length)])
        self.outcome = outcome
        self.path = path

    def refuse(self, vm: VM) -> NoReturn:
        """Break the graph, because the program changes the list."""
        vm.unsupported(LaterValue("a change of a list", repr(self.path[1])))

    def append(self, vm: VM, item: Object) -> None:
        self.refuse(vm)

    def replace(self, vm: VM, elements: list[Object]) -> None:
        self.refuse(vm)

    def set_at(self, vm: VM, index: int, item: Object) -> None:
        self.refuse(vm)

    def pop_last(self, vm: VM) -> Object:
        self.refuse(vm)

    def awaits(self) -> Object | None:
        return self.outcome.effect  # type: ignore[no-any-return]

    def reconstruct(self, cg: Codegen) -> None:
        load_item(cg, self.outcome, self.path)

    def needs_fill(self) -> bool:
        return False

    def referents(self) -> list[Object]:
        return [self.outcome]


class Outdated(Object):
    """A value of any type that native code puts in the place of another one.

    `place`: the instruction that has the native code run, see `VM.place`. Where a value of this kind would have to be built, the trace is restarted, and
    breaks there. `told`: what it is, for reports.
    """

    __slots__ = ("vm", "place", "reason", "told")

    def __init__(self, vm: VM, place: tuple[CodeType, int], reason: Break, told: str) -> None:
        self.vm = vm
        self.place = place
        self.reason = reason
        self.told = told
        self.source = None
        self.value = MISSING
        self.attrs = None

    @property
    def cls(self) -> NoReturn:  # type: ignore[override]
        """No operation does without the type of a value."""
        self.vm.unsupported(LaterValue("an operation", self.told))

    def __repr__(self) -> str:
        return "a value that native code has changed"

    def reconstruct(self, cg: Codegen) -> None:
        self.vm.restart(self.place, self.reason)
