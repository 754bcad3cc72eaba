"""Explains failed guards in words: what failed, which line of the user's needs it, and what would avoid it. Also lists guards for logs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from torch.optim import Optimizer

from framejit.errors import RESUMED, after_break, program_name
from framejit.guards.build import check_all
from framejit.guards.container_sources import IteratorItem
from framejit.guards.global_state import GlobalState, setting_text
from framejit.guards.kinds import HOOKS_EARLY, Change, Difference, Equals, Guard, IsMissing, IsPresent, TensorMatch, same_constant
from framejit.guards.shapes import ShapesHold
from framejit.guards.source import MISSING, Call, InstanceDict, Item, SlotMember, Source, UserLine
from framejit.guards.tensor_spec import mismatch
from framejit.program.naming import short
from framejit.quick_dataclass import dataclass

MOST_LISTED = 3
"""If entries differ only in what they expect, at most so many of the expected values are named."""


def listed(expected: list[str]) -> str:
    """The values that several entries expect, joined by "or". Of many values, the first ones are named, and the number of the others."""
    few = expected if len(expected) <= MOST_LISTED else expected[: MOST_LISTED - 1]
    more = len(expected) - len(few)
    return " or ".join(few) + (f" or {more} others" if more else "")


@dataclass(frozen=True, slots=True)
class Failure:
    """A guard that didn't hold.

    guard: None if only its note was kept. line: the user's line that made it necessary. numbers: the sizes or strides of a tensor that differ, if nothing else
    does. symbolic: these, or the number that the guard is about, are symbolic in the next entry. resumed: the entry is a resume function's, for which the
    program can't mark tensors.
    """

    guard: Guard | None
    source: str
    expected: str
    found: str
    line: UserLine | None
    hint: str | None
    numbers: tuple[Difference, ...] = ()
    symbolic: bool = False
    resumed: bool = False

    def __str__(self) -> str:
        text = f"{self.difference}{', needed here:' if self.line else ''}"
        if self.line is not None:
            text += f"\n{self.line.render()}"
        if self.symbolic:
            return f"{text}\n  it is symbolic from now on: what is compiled next serves other values too{self.how_to_mark()}"
        return text if self.hint is None else f"{text}\n  to avoid it: {self.hint}"

    @property
    def difference(self) -> str:
        """One line that says what was expected and what was found."""
        return f"{self.source}: expected that it {self.expected}; found {self.found}{self.how_numbers_differ()}"

    def how_to_mark(self) -> str:
        """A line that says how the program can mark the sizes that vary; empty if it can't."""
        sizes = {number.dim: None for number in self.numbers if number.what == "size"}
        if self.resumed or not sizes:
            return ""
        marks = ", ".join(f"framejit.mark_dynamic({self.source}, {dim})" for dim in sizes)
        return f"\n  to avoid the first compilation, for one size: {marks} before the first call"

    def how_numbers_differ(self) -> str:
        """The sizes that differ, as text. Strides are named only if no size differs, since they follow sizes."""
        named = [number for number in self.numbers if number.what == "size"] or self.numbers
        before: dict[tuple[str, float], list[str]] = {}
        for number in named:
            before.setdefault((number.place(self.source), number.now), []).append(short(number.before))
        texts = [f"{what}: {listed(list(dict.fromkeys(olds)))} -> {short(new)}" for (what, new), olds in before.items()]
        return f" ({', '.join(texts)})" if texts else ""


@dataclass(frozen=True, slots=True)
class Note:
    """A guard as text. It is kept instead of the guard, since it holds no object of the user's."""

    kind: str
    source: str
    expected: str
    line: UserLine | None
    hint: str | None

    def failure(self) -> Failure:
        return Failure(None, self.source, self.expected, "something else", self.line, self.hint)

    def __str__(self) -> str:
        line = "" if self.line is None else f"  # {shown(self.line)}"
        return after_break(f"{self.kind:<16} {self.source} {self.expected}{line}")


def shown(line: UserLine) -> str:
    """A user's line for listings. Its file is named relative to the folder from which modules are imported (`torch/nn/modules/linear.py`)."""
    roots = [os.path.join(path, "") for path in sys.path if path and line.filename.startswith(os.path.join(path, ""))]
    return f"{line.filename.removeprefix(max(roots, key=len, default=''))}:{line.lineno} in {program_name(line.function)}"


TENSOR_HINTS = {
    "sizes": "convert the tensor before the compiled function is called",
    "size": "pad to a few fixed sizes; each size is compiled once",
    "strides": "call .contiguous() before the compiled function, or always pass tensors laid out alike",
    "dtype": "keep the dtype constant: convert with .to(dtype) before the compiled function; each dtype is compiled once",
    "device": "keep the device constant; each device is compiled once",
    "layout": "keep the layout constant: convert (.to_dense(), .to_sparse()) before the compiled function",
    "requires_grad": "call under the same grad mode, with inputs that all do or all don't require grad; .detach() what needs no gradient",
    "conjugate": "call .resolve_conj() and .resolve_neg() before the compiled function",
    "dispatch keys": "inference tensors and ordinary ones are compiled once each; make the tensor under the same modes on every call",
}
"""Advice for a tensor guard that fails, by the property that `mismatch` finds to differ."""
AS_A_TENSOR = "pass it as a tensor (torch.tensor(value)), so that its value isn't part of the graph, or keep it constant"
IN_A_TENSOR = "leave it in a tensor instead of making a number of it, so that its value isn't part of the graph"
DATA = "the program decides by the data of this tensor: keep it the same, decide outside the compiled function, or keep the decision in tensors (torch.where)"
ITERATIONS = "a loop that a graph break interrupts is compiled once for each number of iterations left; take the break out of the loop"
PER_THREAD = "a thread begins with torch's defaults: set the modes in the function that it runs"
ONLY_PASSED_ON = "a number that is only passed on, or counted up and stored, needs no guard: use its value outside the compiled function"


FIRST_STEP = "nothing needs to be done: an optimizer makes its state in its first step, and later steps share what is compiled for them"


def hint(guard: Guard, value: Any, call: Call) -> str | None:
    """Advice on how to avoid that `guard` fails for `value` in `call`; None if there is none."""
    if is_of_optimizer(guard.source, call) and not isinstance(guard, (Equals, TensorMatch)):
        return FIRST_STEP
    if not isinstance(guard, IsPresent) and is_of_iteration(guard.source) and (value is MISSING) != isinstance(guard, IsMissing):
        return ITERATIONS
    if isinstance(guard, TensorMatch):
        return tensor_hint(guard, value)
    return lasting_hint(guard)


def is_of_hooks(source: Source) -> bool:
    """Return whether a path leads to the hooks of a module, or to torch's hooks of all modules."""
    return isinstance(source, Item) and isinstance(source.payload, str) and source.payload.startswith("_") and source.payload.endswith("_hooks")


def is_of_optimizer(source: Source | None, call: Call) -> bool:
    """Return whether a path leads to the state of an optimizer of torch's, or to something in it."""
    while source is not None:
        if isinstance(source, Item) and source.payload == "state" and isinstance(source.base, InstanceDict):
            assert source.base.base is not None
            if issubclass(type(source.base.base.fetch(call)), Optimizer):
                return True
        source = source.base
    return False


def is_of_iteration(source: Source | None) -> bool:
    """Return whether a path leads through the items that an iterator has yet to give."""
    while source is not None and not isinstance(source, IteratorItem):
        source = source.base
    return source is not None


def lasting_hint(guard: Guard) -> str | None:
    """The advice about a guard that doesn't depend on the value that was found."""
    if isinstance(guard, Equals):
        return equals_hint(guard)
    return HOOKS_EARLY if is_of_hooks(guard.source) else guard.advice


def equals_hint(guard: Equals) -> str:
    source = guard.source
    if source.is_data:
        return DATA
    if source.name_in_reports().startswith("`"):
        return IN_A_TENSOR
    if isinstance(source, Item) and source.payload == "training":
        return "train() and eval() are compiled once each; switch between them rarely"
    is_attribute = isinstance(source, SlotMember) or (isinstance(source, Item) and isinstance(source.base, InstanceDict))
    if type(guard.value) is int:
        return f"{ONLY_PASSED_ON}; or keep it in a tensor" if is_attribute else f"{AS_A_TENSOR}; {ONLY_PASSED_ON}"
    if type(guard.value) is float:
        return "keep it in a tensor, so that its value isn't part of the graph, or keep it constant" if is_attribute else AS_A_TENSOR
    return "each value is compiled once; keep it the same where that is possible"


def tensor_hint(guard: TensorMatch, value: Any) -> str | None:
    if value is MISSING or type(value) is not guard.spec.cls:
        return "pass a tensor of the same class on every call"
    difference = mismatch(value, guard.spec)
    return None if difference is None else TENSOR_HINTS[difference[0]]


def state_failure(guard: GlobalState) -> Failure:
    """Explain which of torch's modes and settings differ. Dispatch keys are named only if no other difference explains them."""
    differs = [(name, old, new) for name, old, new in zip(guard.names, guard.state, guard.read()) if old != new]
    differs += [(setting_text(read, args), old, read(*args)) for read, args, old in guard.settings if not same_constant(read(*args), old)]
    named = [triple for triple in differs if not triple[0].endswith("dispatch keys")] or differs
    expected = ", ".join(f"{name} {old!r}" for name, old, _ in named)
    found = ", ".join(f"{name} {new!r}" for name, _, new in named)
    advice = guard.advice if threading.current_thread() is threading.main_thread() else f"{guard.advice}; {PER_THREAD}"
    return Failure(guard, "torch's global state", f"has {expected}", found, guard.line, advice)


def failure_of(guard: Guard, call: Call) -> Failure:
    """Explain why `guard` doesn't hold for `call`."""
    if isinstance(guard, GlobalState):
        return state_failure(guard)
    value = guard.source.fetch(call)
    demand = guard.failing(call) if isinstance(guard, ShapesHold) else None
    if demand is not None:
        assert isinstance(guard, ShapesHold)
        about, expected, line = guard.failure(demand)
        return Failure(guard, about, expected, guard.found(value, call), line, guard.advice)
    numbers = guard.differences(value) if isinstance(guard, TensorMatch) else ()
    resumed = RESUMED in call.function.__qualname__
    name, found = guard.source.name_in_reports(), guard.found(value, call)
    return Failure(guard, name, guard.expected(), found, guard.line, hint(guard, value, call), numbers, resumed=resumed)


def explain_failure(guards: Iterable[Guard], call: Call) -> Failure | None:
    """The first of `guards` that doesn't hold for `call`, explained; None if all hold."""
    guard = check_all(guards, call)
    return None if guard is None else failure_of(guard, call)


def failures(guards: Iterable[Guard], call: Call) -> list[Failure]:
    """All of `guards` that don't hold for `call`, explained."""
    return [failure_of(guard, call) for guard in guards if not guard.check(guard.source.fetch(call), call)]


def changed_contents(guards: Iterable[Guard], call: Call) -> list[Change]:
    """A change for each value that isn't what the guards on its contents expect."""
    changes = [guard.change(call) for guard in guards if guard.of_contents and check_all([guard], call) is not None]
    return list({change.path: change for change in changes}.values())


def notes(guards: Sequence[Guard]) -> tuple[Note, ...]:
    """The guards as text, in their order."""
    texts: dict[int, str] = {}
    return tuple(
        Note(guard.leaf, text_of(guard.source, texts), guard.expected(), guard.line, lasting_hint(guard))
        for guard in guards
    )


def text_of(source: Source, texts: dict[int, str]) -> str:
    text = texts.get(id(source))
    if text is None:
        text = texts[id(source)] = source.name_in_reports()
    return text


def describe(guards: Sequence[Guard]) -> str:
    """A listing for logs, one guard in each line."""
    return "\n".join(map(str, notes(guards)))
