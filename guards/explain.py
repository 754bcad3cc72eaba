"""Which guard failed, for which line of the user's, and what would avoid it; listings of guards for logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from framejit.guards.build import check_all
from framejit.guards.kinds import (
    CodeIs,
    DictKeys,
    Distinct,
    Equals,
    GlobalState,
    Guard,
    IsMissing,
    IsPresent,
    KeyAbsent,
    Length,
    Same,
    SetEquals,
    StorageAliasing,
    TensorMatch,
    TypeIs,
    ValueIs,
)  # fmt: skip
from framejit.guards.source import MISSING, Call, Item, Source, UserLine


@dataclass(frozen=True, slots=True)
class Failure:
    """A guard that didn't hold. guard: None where only its note was kept. line: the user's line that made it necessary."""

    guard: Guard | None
    source: str
    expected: str
    found: str
    line: UserLine | None
    hint: str | None

    def __str__(self) -> str:
        text = f"{self.source}: expected that it {self.expected}; found {self.found}"
        if self.line is not None:
            text += f"\n  needed by {self.line}"
        return text if self.hint is None else f"{text}\n  hint: {self.hint}"


@dataclass(frozen=True, slots=True)
class Note:
    """A guard as text, which holds nothing of the user's."""

    kind: str
    source: str
    expected: str
    line: UserLine | None
    hint: str | None

    def failure(self) -> Failure:
        return Failure(None, self.source, self.expected, "something else", self.line, self.hint)

    def __str__(self) -> str:
        line = "" if self.line is None else f"  # {self.line}"
        return f"{self.kind:<16} {self.source} {self.expected}{line}"


HINTS: dict[type[Guard], str] = {
    TypeIs: "pass the same type on every call, or convert before the compiled function is called",
    ValueIs: "make the object once and pass the same one, instead of making an equal one for each call",
    CodeIs: "define the function once, outside of what makes a new one for each call",
    Length: "keep the number of items the same on every call, or pass the items as one tensor",
    KeyAbsent: "set the attribute or key before the first call, so that it is there on every call",
    DictKeys: "pass the same keys in the same order on every call",
    SetEquals: "pass a set with the same elements on every call",
    IsMissing: "set it before the first call, or never",
    IsPresent: "a loop that ends earlier than on the first call is compiled once more",
    Same: "pass the same object in both places on every call, as on the first",
    Distinct: "don't pass one object in two places where one of them is changed in place; pass a copy",
    StorageAliasing: "tensors that are written to share memory in another way than on the first call; pass clones",
    GlobalState: "call under the same modes and settings each time; each combination is compiled once",
}


def hint(guard: Guard, value: Any, call: Call) -> str | None:
    """What would avoid that `guard` fails for `value`; None where there is nothing to say."""
    if isinstance(guard, Equals):
        return equals_hint(guard)
    if isinstance(guard, TensorMatch):
        return tensor_hint(guard, value, call)
    return HINTS.get(type(guard))


def lasting_hint(guard: Guard) -> str | None:
    """The hint that doesn't depend on what is found instead."""
    return equals_hint(guard) if isinstance(guard, Equals) else HINTS.get(type(guard))


def equals_hint(guard: Equals) -> str:
    if isinstance(guard.source, Item) and guard.source.payload == "training":
        return "train() and eval() are compiled once each; switch between them rarely"
    if type(guard.value) is int:
        return "a number that changes from call to call can be a tensor, or be marked as dynamic"
    if type(guard.value) is float:
        return "pass the number as a tensor, so that its value isn't part of the graph"
    return "each value is compiled once; pass the same value where that is possible"


def tensor_hint(guard: TensorMatch, value: Any, call: Call) -> str:
    if value is MISSING or type(value) is not guard.spec.cls:
        return "pass a tensor of the same class on every call"
    difference = guard.found(value, call).split(" ")[0]
    if difference == "size":
        return "mark the dimension with framejit.mark_dynamic, or pad to a fixed size"
    if difference == "strides":
        return "call .contiguous() before the compiled function, or mark the dimension as dynamic"
    if difference == "requires_grad":
        return "call under the same grad mode, with inputs that all do or all don't require grad"
    return "convert the tensor before the compiled function is called"


def failure_of(guard: Guard, call: Call) -> Failure:
    """Why `guard` doesn't hold for `call`."""
    value = guard.source.fetch(call)
    return Failure(guard, guard.source.describe(), guard.expected(), guard.found(value, call), guard.line, hint(guard, value, call))


def explain_failure(guards: Iterable[Guard], call: Call) -> Failure | None:
    """The first of `guards` that doesn't hold for `call`, explained; None if all hold."""
    guard = check_all(guards, call)
    return None if guard is None else failure_of(guard, call)


def notes(guards: Sequence[Guard]) -> tuple[Note, ...]:
    """The guards as text, numbered as they are."""
    texts: dict[int, str] = {}
    return tuple(
        Note(guard.leaf, text_of(guard.source, texts), guard.expected(), guard.line, lasting_hint(guard))
        for guard in guards
    )


def text_of(source: Source, texts: dict[int, str]) -> str:
    text = texts.get(id(source))
    if text is None:
        text = texts[id(source)] = source.describe()
    return text


def describe(guards: Sequence[Guard]) -> str:
    """A listing for logs, one guard in each line."""
    return "\n".join(map(str, notes(guards)))
