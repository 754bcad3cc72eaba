"""The `@op` registry: the handler of each canonical operation, with its stack effect, declared as "inputs -- outputs", deepest first.

    @op("BINARY_OP", "left right -- result")
    def binary_op(vm, frame, instruction, left, right): ...

A handler gets its operands, and its result replaces them once it has succeeded: one value for one output, a sequence for several.
Without outputs, it returns where to continue: an instruction index, or None for the next one.
`items[n]` stands for `n` operands, by default as many as the instruction's argument says; they are passed as a list. A `raw` handler changes the
stack itself (its effect is declared all the same), and returns where to continue.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from framejit.bytecode.instruction import Instruction
from framejit.ceval.frame import Frame
from framejit.ceval.machine import Machine
from framejit.quick_dataclass import dataclass

Handler = Callable[..., Any]
Execute = Callable[[Machine, Frame, Instruction], int | None]
Size = Callable[[Instruction], int]

_OPERAND = re.compile(r"([a-z_]+)(\[n\])?$")


@dataclass(frozen=True, slots=True)
class StackEffect:
    """A parsed stack effect: for each operand, whether it stands for n operands."""

    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]
    size: Size

    def pops(self, instruction: Instruction) -> int:
        """The number of operands that the instruction takes."""
        return self._count(self.inputs, instruction)

    def pushes(self, instruction: Instruction) -> int:
        """The number of results that it leaves if it doesn't jump."""
        return self._count(self.outputs, instruction)

    def _count(self, operands: tuple[bool, ...], instruction: Instruction) -> int:
        variable = sum(operands)
        return len(operands) - variable + (self.size(instruction) * variable if variable else 0)


@dataclass(frozen=True, slots=True)
class Operation:
    """A canonical operation: its effect, and the function that executes one instruction of it."""

    name: str
    effect: StackEffect
    execute: Execute


OPERATIONS: dict[str, Operation] = {}


def _argument(instruction: Instruction) -> int:
    assert instruction.arg is not None, instruction
    return instruction.arg


def parse_effect(text: str, size: Size = _argument) -> StackEffect:
    """Parse an effect written as "inputs -- outputs"; raises ValueError for anything else."""

    def operands(side: str) -> tuple[bool, ...]:
        matches = [_OPERAND.match(word) for word in side.split()]
        if not all(matches):
            raise ValueError(f"not a stack effect: {text!r}")
        return tuple(bool(match and match[2]) for match in matches)

    before, separator, after = text.partition("--")
    if not separator:
        raise ValueError(f"not a stack effect: {text!r}")
    return StackEffect(operands(before), operands(after), size)


def op(name: str, effect: str, n: Size = _argument, raw: bool = False) -> Callable[[Handler], Handler]:
    """Register the decorated handler `(vm, frame, instruction, *operands)` for a canonical operation."""
    parsed = parse_effect(effect, n)

    def register(handler: Handler) -> Handler:
        if name in OPERATIONS:
            raise ValueError(f"operation {name} has two handlers")
        OPERATIONS[name] = Operation(name, parsed, handler if raw else bind(handler, parsed))
        return handler

    return register


def bind(handler: Handler, effect: StackEffect) -> Execute:
    """The function that executes an instruction: it calls the handler, and moves its operands and results; there are separate ones for the frequent shapes."""
    if not any(effect.inputs + effect.outputs):
        special = _SHAPES.get((len(effect.inputs), len(effect.outputs)))
        if special is not None:
            return special(handler)
    return _bind_general(handler, effect)


def _bind_0_0(handler: Handler) -> Execute:
    return handler


def _bind_0_1(handler: Handler) -> Execute:
    def execute(vm: Machine, frame: Frame, instruction: Instruction) -> None:
        frame.stack.append(handler(vm, frame, instruction))

    return execute


def _bind_1_0(handler: Handler) -> Execute:
    def execute(vm: Machine, frame: Frame, instruction: Instruction) -> int | None:
        stack = frame.stack
        target: int | None = handler(vm, frame, instruction, stack[-1])
        stack.pop()
        return target

    return execute


def _bind_1_1(handler: Handler) -> Execute:
    def execute(vm: Machine, frame: Frame, instruction: Instruction) -> None:
        stack = frame.stack
        stack[-1] = handler(vm, frame, instruction, stack[-1])

    return execute


def _bind_2_1(handler: Handler) -> Execute:
    def execute(vm: Machine, frame: Frame, instruction: Instruction) -> None:
        stack = frame.stack
        result = handler(vm, frame, instruction, stack[-2], stack[-1])
        stack.pop()
        stack[-1] = result

    return execute


_SHAPES: dict[tuple[int, int], Callable[[Handler], Execute]] = {
    (0, 0): _bind_0_0,
    (0, 1): _bind_0_1,
    (1, 0): _bind_1_0,
    (1, 1): _bind_1_1,
    (2, 1): _bind_2_1,
}


def _bind_general(handler: Handler, effect: StackEffect) -> Execute:
    inputs, outputs = effect.inputs, effect.outputs

    def execute(vm: Machine, frame: Frame, instruction: Instruction) -> int | None:
        stack = frame.stack
        base = len(stack) - effect.pops(instruction)
        operands: list[Any] = []
        at = base
        for variable in inputs:
            if variable:
                n = effect.size(instruction)
                operands.append(stack[at : at + n])
                at += n
            else:
                operands.append(stack[at])
                at += 1
        result = handler(vm, frame, instruction, *operands)
        if not outputs:
            del stack[base:]
            return result  # type: ignore[no-any-return]
        stack[base:] = (result,) if outputs == (False,) else result
        return None

    return execute
