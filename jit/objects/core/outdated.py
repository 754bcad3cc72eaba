"""Values that native code at the end of a call will have changed, so that the trace no longer knows them.

They may be passed on and dropped: the generated code reads them from where the native code has stored them. Numbers may also be computed with and turned into
text. Code that needs the value while tracing breaks the graph: after the break the value is there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from framejit.breaks import Break, LaterValue
from framejit.guards.source import MISSING
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.numbers.unbackednumber import LeafNumber
from framejit.objects.types.listobject import ListObject


class CallOutcome(Object):
    """The results that a native call leaves in some dicts: copies of them, made right after it. Building this makes the call.

    `function`: called with `argument`. `dicts`: those that it changes. `effect`: the effect that is replayed to make the call at its place among other effects;
    values from the copies wait for it.
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
    """Run by generated code: make a call, and copy the dicts that it changes."""
    function(argument)
    return tuple([dict(each) for each in dicts])


def load_item(cg: Codegen, outcome: CallOutcome, path: Sequence[Any]) -> None:
    """Push a value that a native call has left in a dict."""
    cg.load(outcome)
    for key in path:
        cg.load_const(key)
        cg.call_const(operator.getitem, 2)


class LaterNumber(LeafNumber):
    """An int or float that native code leaves in a dict. `path`: the index of the dict, and its key; for an item of a list there, also its index."""

    __slots__ = ("outcome", "path")

    def __init__(self, cls: type, outcome: CallOutcome, *path: Any) -> None:
        super().__init__(cls, repr(path[1]), 0)
        self.outcome = outcome
        self.path = path

    def why(self, asking: str, check: str) -> Break:
        return LaterValue(asking, self.text)

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

    def break_graph(self, vm: VM) -> NoReturn:
        """Break the graph, because the program changes the list."""
        vm.unsupported(LaterValue("a change of a list", repr(self.path[1])))

    def append(self, vm: VM, item: Object) -> None:
        self.break_graph(vm)

    def replace(self, vm: VM, elements: list[Object]) -> None:
        self.break_graph(vm)

    def set_at(self, vm: VM, index: int, item: Object) -> None:
        self.break_graph(vm)

    def pop_last(self, vm: VM) -> Object:
        self.break_graph(vm)

    def awaits(self) -> Object | None:
        return self.outcome.effect  # type: ignore[no-any-return]

    def reconstruct(self, cg: Codegen) -> None:
        load_item(cg, self.outcome, self.path)

    def needs_fill(self) -> bool:
        return False

    def referents(self) -> list[Object]:
        return [self.outcome]


class Outdated(Object):
    """A value of any type by which native code replaces another one.

    `outcome`: what the native code leaves. If a value of this kind would have to be built, the trace is restarted, and breaks at the place of its effect.
    `text`: a description for reports.
    """

    __slots__ = ("vm", "outcome", "reason", "text")

    def __init__(self, vm: VM, outcome: CallOutcome, reason: Break, text: str) -> None:
        self.vm = vm
        self.outcome = outcome
        self.reason = reason
        self.text = text
        self.source = None
        self.value = MISSING
        self.attrs = None

    @property
    def cls(self) -> NoReturn:  # type: ignore[override]
        """Break: every operation needs the type of a value."""
        self.vm.unsupported(LaterValue("an operation", self.text))

    def __repr__(self) -> str:
        return "a value that native code has changed"

    def reconstruct(self, cg: Codegen) -> None:
        self.vm.restart(self.outcome.effect.place, self.reason)
