"""The code objects that framejit writes, read by the package `bytecode`, which knows instructions, stack effects and handlers from elsewhere."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import bytecode
import pytest
import torch
from stories import story
from syntax_programs import KNOWN, program

import framejit
from framejit.bytecode import assemble, splice
from framejit.bytecode.decode import decode, exception_table, slot_names
from framejit.bytecode.versions import CURRENT

NEWEST = (3, 14)
"""The newest Python that the package says it knows (its 3.15 has too small stacks and wrong depths of handlers)."""
LOADS_NO_CELLS = (3, 12)
"""The newest Python in which the package knows no LOAD_FAST and STORE_FAST of a cell, as steps and resume functions have them."""
UNREADABLE = {"BUILD_INTERPOLATION", "CALL_INTRINSIC_2"}
"""Instructions that it fails on: with an AssertionError, and for the default of a type parameter."""


@pytest.fixture
def written(monkeypatch) -> list[types.CodeType]:
    """All code objects that framejit writes in a test."""
    found: list[types.CodeType] = []

    def recorded(function: Any) -> Any:
        def record(*args: Any, **kwargs: Any) -> Any:
            made = function(*args, **kwargs)
            found.append(made.__code__ if isinstance(made, types.FunctionType) else made)
            return made

        return record

    monkeypatch.setattr(assemble.Assembler, "assemble", recorded(assemble.Assembler.assemble))
    monkeypatch.setattr(splice, "function_of", recorded(splice.function_of))
    return found


def instructions(code: types.CodeType) -> Iterator[tuple[str, Any]]:
    """Names and arguments of a code object's instructions, as the package reads them, without caches."""
    for each in bytecode.ConcreteBytecode.from_code(code):
        if isinstance(each, bytecode.ConcreteInstr) and each.name not in ("CACHE", "EXTENDED_ARG"):
            yield each.name, each.arg


def same_again(code: types.CodeType) -> None:
    """Compare the code object with what the package makes of its instructions and handlers, the stack size and the handlers' depths with those it computes.

    It can't follow a resume function into the middle of what a handler covers, and takes the whole stack at the first covered instruction for the handler's.
    """
    blocks = bytecode.Bytecode.from_code(code)
    whole = splice.spliced(code) is None
    again = blocks.to_code() if whole else blocks.to_code(stacksize=code.co_stacksize, compute_exception_stack_depths=False)
    assert [name for name, _ in instructions(again)] == [name for name, _ in instructions(code)]
    assert again.co_stacksize <= code.co_stacksize
    handlers, expected = handler_of(again), handler_of(code)
    assert {index: (target, lasti) for index, (target, _, lasti) in handlers.items()} == {
        index: (target, lasti) for index, (target, _, lasti) in expected.items()
    }
    assert not whole or all(depth <= handlers[index][1] for index, (_, depth, _) in expected.items())


def handler_of(code: types.CodeType) -> dict[int, tuple[int, int, bool]]:
    """For each instruction that has a handler, by index: the handler's index, depth and whether it takes the place of the error."""
    offsets = [instruction.offset for instruction in decode(code).instructions]
    found = {}
    for start, end, target, depth, lasti in exception_table(code.co_exceptiontable):
        first = next(index for index, offset in enumerate(offsets) if offset >= target)
        found.update({index: (first, depth, lasti) for index, offset in enumerate(offsets) if start <= offset < end})
    return found


def test_what_is_written_reads_the_same_elsewhere(written):
    if CURRENT.number > NEWEST:
        assert not bytecode.__version__.startswith("0.2"), "the package may know this Python by now"
        return
    for name in KNOWN:
        framejit.reset()
        story(framejit.compile(program(name), backend="eager"), (torch.arange(3.0),))
    assert len(written) > 200
    checked = 0
    for code in written:
        has_cells = any(slot_names(code)[len(code.co_varnames) :]) and CURRENT.number <= LOADS_NO_CELLS
        if not {name for name, _ in instructions(code)} & UNREADABLE and not has_cells:
            same_again(code)
            checked += 1
    assert checked > 200
