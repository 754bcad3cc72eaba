"""Finds the instruction at which the two ways of a branch meet again: the nearest one that is on every path from either way to a return."""

from __future__ import annotations

from collections.abc import Iterable

from framejit.bytecode.decode import Decoded
from framejit.bytecode.liveness import ENDS, JUMPS

BRANCHES = JUMPS - {"JUMP"}
"""Jumps that are taken in some cases only."""


def meeting(decoded: Decoded, first: int, second: int) -> int | None:
    """The index of the instruction at which the ways that begin at `first` and `second` meet; None if they only meet where the frame has returned.

    Paths into handlers of exceptions don't count, nor do those that end with an exception.
    """
    way = _path_to_return(decoded, first) or _path_to_return(decoded, second)
    entered = _entered_twice(decoded)
    for index in way:
        if (index in entered or index in (first, second)) and not _returns(decoded, (first, second), index):
            return index
    return None


def comes_back(decoded: Decoded, branch: int, ways: Iterable[int], end: int | None) -> bool:
    """Return whether one of the ways of a branch leads back to it, before `end`, without another branch that may end the loop."""
    seen: set[int] = set()
    waiting = list(ways)
    while waiting:
        index = waiting.pop()
        if index == branch:
            return True
        if index == end or index in seen or decoded.instructions[index].op in BRANCHES:
            continue
        seen.add(index)
        waiting += successors(decoded, index)
    return False


def can_reach(decoded: Decoded, start: int, wanted: int, end: int | None) -> bool:
    """Return whether there is a path from one instruction to another, before `end`."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        index = waiting.pop()
        if index == wanted:
            return True
        if index != end and index not in seen:
            seen.add(index)
            waiting += successors(decoded, index)
    return False


def after_jumps(decoded: Decoded, index: int) -> int:
    """The index of the first instruction that runs after one which only jumps, and those that it jumps to; the index itself for any other."""
    seen: set[int] = set()
    while decoded.instructions[index].op == "JUMP" and index not in seen:
        seen.add(index)
        index = decoded.instructions[index].value
    return index


def successors(decoded: Decoded, index: int) -> list[int]:
    """The indices of the instructions that may follow one if it doesn't raise."""
    instruction = decoded.instructions[index]
    found = [] if instruction.op in ENDS else [index + 1]
    if instruction.op in JUMPS:
        found.append(instruction.value)
    return found


def _entered_twice(decoded: Decoded) -> set[int]:
    """The instructions that more than one other may lead to."""
    once: set[int] = set()
    twice: set[int] = set()
    for index in range(len(decoded.instructions)):
        for following in successors(decoded, index):
            (twice if following in once else once).add(following)
    return twice


def _path_to_return(decoded: Decoded, start: int) -> list[int]:
    """A path from an instruction to a return, from its beginning; empty if there is none."""
    came_from: dict[int, int | None] = {start: None}
    waiting = [start]
    while waiting:
        index = waiting.pop()
        if decoded.instructions[index].op == "RETURN_VALUE":
            path = [index]
            while (before := came_from[path[-1]]) is not None:
                path.append(before)
            return path[::-1]
        for following in successors(decoded, index):
            if following not in came_from:
                came_from[following] = index
                waiting.append(following)
    return []


def _returns(decoded: Decoded, starts: Iterable[int], without: int) -> bool:
    """Return whether there is a path from one of these instructions to a return that avoids another instruction."""
    seen = {without}
    waiting = list(starts)
    while waiting:
        index = waiting.pop()
        if index in seen:
            continue
        seen.add(index)
        if decoded.instructions[index].op == "RETURN_VALUE":
            return True
        waiting += successors(decoded, index)
    return False
