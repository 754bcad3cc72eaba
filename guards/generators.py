"""Sources in suspended generators, and the guards on where one is suspended. guards/native/generators.cpp agrees, and reads their frames."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, ClassVar, NamedTuple

from framejit._runtime import Unset, has_generator_ended, suspended_generator
from framejit.guards.kinds import Guard, OfObject
from framejit.guards.source import MISSING, Call, Reference, Source, UserLine
from framejit.quick_dataclass import dataclass


class Suspended(NamedTuple):
    """A suspended generator. `offset`: of the instruction that suspended it; `slots`: its variables, and above them its stack, MISSING where one is empty."""

    code: CodeType
    offset: int
    function: FunctionType
    slots: tuple[Any, ...]

    def are_filled(self, expected: tuple[bool | None, ...]) -> bool:
        """Return whether there are so many slots, of which those for True hold something, and those for False nothing."""
        pairs = zip(self.slots, expected)
        return len(self.slots) == len(expected) and all(wanted is None or wanted is (value is not MISSING) for value, wanted in pairs)


def suspended(generator: Any) -> Suspended | None:
    """Read an exact generator that is suspended. None if it isn't: it runs, or has ended. None also if it handles an exception, if something else holds its
    frame, and in versions of Python whose frames can't be read."""
    found = suspended_generator(generator)
    if found is None:
        return None
    code, offset, function, slots = found
    return Suspended(code, offset, function, tuple([MISSING if value is Unset else value for value in slots]))


READABLE = suspended(None for _ in ()) is not None
"""True if the generators of the running Python can be read and written."""


class SuspendedSlot(Source):
    """A variable of a suspended generator, or a value on its stack. Payload: Slot, whose name is empty for a value on the stack."""

    __slots__ = ()
    accessor = "suspended_slot"

    def native(self) -> Any:
        return self.payload.index

    def step(self, value: Any) -> Any:
        found = suspended(value)
        return found.slots[self.payload.index] if found is not None and self.payload.index < len(found.slots) else MISSING

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        return f"{self.payload.name or 'a temporary value'} of {of(self.base)}"


class SuspendedFunction(Source):
    """The function of a suspended generator."""

    __slots__ = ()
    accessor = "suspended_function"
    form = "the function of {0}"

    def step(self, value: Any) -> Any:
        found = suspended(value)
        return MISSING if found is None else found.function


@dataclass(frozen=True, eq=False, init=False)
class SuspendedAt(OfObject):
    """The value is an exact generator of this code, suspended by this instruction. `filled`: for each slot, whether it holds something; None if that doesn't
    matter, because the code doesn't read the variable any more."""

    offset: int
    filled: tuple[bool | None, ...]
    leaf: ClassVar[str] = "suspended_at"
    cost: ClassVar[int] = 1
    tells_type: ClassVar[bool] = True
    of_contents: ClassVar[bool] = True
    advice: ClassVar[str | None] = "each place at which a generator waits is compiled once; make it, and use it up, inside the compiled function"

    def __init__(self, source: Source, line: UserLine | None, code: CodeType, offset: int, filled: tuple[bool | None, ...]) -> None:
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "line", line)
        object.__setattr__(self, "reference", Reference(code))
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "filled", filled)

    def native(self) -> Any:
        return MISSING if self.value is MISSING else (self.value, self.offset, self.filled)

    def key(self) -> Any:
        return self.reference.address, self.offset, self.filled

    def check(self, value: Any, call: Call) -> bool:
        found = suspended(value)
        return found is not None and found.code is self.value and found.offset == self.offset and found.are_filled(self.filled)

    def expected(self) -> str:
        return f"is a generator of {place(self.value, self.offset)}"

    def found(self, value: Any, call: Call) -> str:
        at = suspended(value)
        if at is None:
            return super().found(value, call)
        variables = ", with other variables set" if at.code is self.value and at.offset == self.offset else ""
        return f"a generator of {place(at.code, at.offset)}{variables}"


@dataclass(frozen=True, eq=False)
class HasEnded(Guard):
    """The value is an exact generator that has ended."""

    leaf: ClassVar[str] = "has_ended"
    exact_type: ClassVar[bool] = True
    tells_type: ClassVar[bool] = True
    of_contents: ClassVar[bool] = True
    advice: ClassVar[str | None] = "make a new generator for each call"

    def check(self, value: Any, call: Call) -> bool:
        return bool(has_generator_ended(value))

    def expected(self) -> str:
        return "is a generator that has ended"


def place(code: Any, offset: int) -> str:
    """A place in a generator's code as text: "batches() that waits in line 7"."""
    if code is MISSING:
        return "a function that is gone"
    line = next((line for start, end, line in code.co_lines() if start <= offset < end), None)
    return f"{code.co_qualname}() that waits in line {line}"
