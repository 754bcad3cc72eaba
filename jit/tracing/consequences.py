"""The consequences of telling the program that it is compiled, where they outlast the trace: what runs later can't get the other answer any more.

    def append(self, value):
        if torch.compiler.is_compiling():
            self.length = value             # an int
        else:
            self.length.value = value       # of an object that native code reads

There, and where a variable that depends on the answer is alive at a graph break, the trace is restarted, and the program gets the answer "no". A change
that is undone before the call ends has no such consequence. If the call is split in between, native code sees it: that matters if the other way of the
branch makes a change there too. One that only compiled programs make is meant for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framejit.bytecode.decode import Decoded
from framejit.bytecode.liveness import WRITES, live_slots
from framejit.bytecode.meeting import BRANCHES, meeting, successors
from framejit.ceval.frame import Frame
from framejit.ceval.operation import OPERATIONS
from framejit.errors import UserFrame
from framejit.guards.source import Call, Source
from framejit.objects.core.object import Object, settle
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.constobject import FALSE, NONE, TRUE, AnswerObject, ConstObject
from framejit.objects.types.dictobject import DictObject
from framejit.quick_dataclass import dataclass

Asked = tuple[UserFrame, ...]
"""A place where the program asks: its frames, outermost first."""


@dataclass(frozen=True, slots=True, eq=False)
class AnsweredBranch:
    """A branch of a frame on the answer that the program got at a place. `branch`: the index of its jump; `end`: that of the instruction at which its ways
    meet, None if they meet where the frame has returned."""

    frame: Frame
    branch: int
    end: int | None
    asked: Asked

    def ways(self) -> list[set[int]]:
        """The indices of the instructions on each of its ways."""
        return [self._way(index) for index in successors(self.frame.decoded, self.branch)]

    def _way(self, start: int) -> set[int]:
        found: set[int] = set()
        waiting = [start]
        while waiting:
            index = waiting.pop()
            if index != self.end and index not in found:
                found.add(index)
                waiting += successors(self.frame.decoded, index)
        return found

    def instructions(self) -> set[int]:
        """The indices of the instructions on its ways, and of those that use up a value which the ways leave on the stack."""
        return set().union(*self.ways(), self._users())

    def _users(self) -> set[int]:
        """The instructions after the ways that use up what these leave on the stack."""
        decoded, found = self.frame.decoded, set()
        depth, index = left_on_stack(decoded, self.branch, self.end), self.end
        while index is not None and depth > 0 and decoded.instructions[index].op not in BRANCHES:
            instruction, effect = decoded.instructions[index], OPERATIONS[decoded.instructions[index].op].effect
            found.add(index)
            depth -= effect.pops(instruction)
            index = next(iter(successors(decoded, index)), None) if depth > 0 else None
            depth += effect.pushes(instruction)
        return found

    def is_open(self) -> bool:
        """Return whether the frame is on one of the ways."""
        return not self.frame.has_ended and self.frame.pc in self.instructions()

    def is_on_both_ways(self) -> bool:
        """Return whether both ways do, by their instructions, what the frame does now: they store to an attribute of this name, or call something."""
        here, ways = self.frame.instruction, self.ways()
        instructions = self.frame.decoded.instructions
        same = [any(instructions[index].op == here.op and instructions[index].value == here.value for index in way) for way in ways]
        return all(same) or not any(self.frame.pc in way for way in ways)

    def is_alive(self) -> bool:
        """Return whether the frame is on one of the ways, or goes on with a variable that they set. Tensors don't count: they serve on either way."""
        instructions = self.instructions()
        if self.frame.pc in instructions:
            return True
        decoded = self.frame.decoded
        written = {decoded.instructions[index].arg for index in instructions if decoded.instructions[index].op in WRITES}
        alive = written & live_slots(self.frame.code, decoded)[self.frame.pc]
        return any(value is not None and not is_tensor(value) for slot, value in enumerate(self.frame.locals) if slot in alive)


def decision(frame: Frame, asked: Asked) -> AnsweredBranch | None:
    """The decision at the present instruction of a frame; None if that is no branch."""
    instruction = frame.instruction
    if instruction.op not in BRANCHES:
        return None
    return AnsweredBranch(frame, frame.pc, meeting(frame.decoded, frame.pc + 1, instruction.value), asked)


def left_on_stack(decoded: Decoded, branch: int, end: int | None) -> int:
    """The number of values that the ways of a branch leave on the stack for the instruction at which they meet."""
    depths = dict.fromkeys(successors(decoded, branch), 0)
    waiting = list(depths)
    while waiting and end is not None:
        index = waiting.pop()
        if index == end:
            return depths[index]
        effect = OPERATIONS[decoded.instructions[index].op].effect
        for following in successors(decoded, index):
            if following not in depths:
                depths[following] = depths[index] + effect.pushes(decoded.instructions[index]) - effect.pops(decoded.instructions[index])
                waiting.append(following)
    return 0


def is_tensor(value: Object) -> bool:
    """Return whether a value is a tensor that the trace has observed."""
    return isinstance(settle(value), TensorObject)


@dataclass(frozen=True, slots=True, eq=False)
class DecidedChange:
    """A change of a value from outside that the program has decided by an answer. `is_shared`: uncompiled, it would make another change there."""

    obj: Object
    asked: Asked
    is_shared: bool


def changes(decisions: Iterable[AnsweredBranch], obj: Object) -> list[DecidedChange]:
    """The answers by which the program decides that a value from outside changes now. An answer that it only stores says what it says."""
    return [DecidedChange(obj, each.asked, each.is_on_both_ways()) for each in decisions if each.is_open()]


def outlasts(obj: Object, call: Call) -> bool:
    """Return whether a value from outside that has changed differs now from what it was when the call began."""
    changed = obj.replaced()
    removed = isinstance(obj, DictObject) and (obj.removed or obj.rewritten)
    return bool(removed) or not changed or not all(is_as_before(source, value, call) for source, value in changed)


def is_as_before(source: Source, value: Object, call: Call) -> bool:
    """Return whether a value is the one that a source had when the call began."""
    value = settle(value)
    if value.source == source:
        return True
    return isinstance(value, ConstObject) and value.is_known() and source.fetch(call) is value.value


def of_split(decisions: Iterable[AnsweredBranch], frames: Sequence[Frame]) -> set[Asked]:
    """The places at which the program has asked on whose answers depends how these frames go on after a graph break."""
    found = {each.asked for each in decisions if each.frame in frames and each.is_alive()}
    for frame in frames:
        alive = live_slots(frame.code, frame.decoded)[frame.pc]
        found |= asked_for([*(value for slot, value in enumerate(frame.locals) if slot in alive), *frame.stack])
    return found


def asked_for(values: Iterable[object]) -> set[Asked]:
    """The places at which the program has got those of these values that are answers."""
    settled = [settle(value) for value in values if isinstance(value, Object)]
    return {value.asked for value in settled if isinstance(value, AnswerObject)}


def returned(decisions: Iterable[AnsweredBranch], frame: Frame, result: Object) -> Object:
    """What a frame returns. If that is a constant, and the frame has returned on a way of a decision, the constant is an answer itself."""
    if result is NONE or result is TRUE or result is FALSE:
        for each in decisions:
            if each.frame is frame and each.end is None:
                return AnswerObject(result.value, each.asked)
    return result
