"""Handlers of jumps and returns, and of the operations that framejit refuses by name."""

from __future__ import annotations

from typing import Any

from framejit import breaks
from framejit.bytecode.instruction import Instruction
from framejit.ceval.frame import Frame
from framejit.ceval.handlers import is_caught
from framejit.ceval.machine import Machine
from framejit.ceval.operation import op
from framejit.ceval.signals import Return
from framejit.objects.core import abstract, build, operators
from framejit.objects.core.object import VM, Object

LONGEST_RAISE = 200
"""The most instructions that make an exception and raise it."""
WAYS_OUT = frozenset({"RETURN_VALUE", "YIELD_VALUE", "SEND", "FOR_ITER", "RERAISE"})


@op("JUMP", "--")
def jump(vm: VM, frame: Frame, instruction: Instruction) -> Any:
    return instruction.value


@op("POP_JUMP_IF_TRUE", "condition --")
def pop_jump_if_true(vm: Machine, frame: Frame, instruction: Instruction, condition: Object) -> Any:
    return way(vm, frame, condition, instruction.value, instruction.index + 1)


@op("POP_JUMP_IF_FALSE", "condition --")
def pop_jump_if_false(vm: Machine, frame: Frame, instruction: Instruction, condition: Object) -> Any:
    return way(vm, frame, condition, instruction.index + 1, instruction.value)


def way(vm: Machine, frame: Frame, condition: Object, if_true: int, if_false: int) -> int:
    """The instruction at which a branch continues. If the condition depends on the data of tensors, and one target leads to a `raise`, the graph checks it for
    the other. If none does, both may be in the graph."""
    if abstract.depends_on_data(vm, condition):
        expected = raises(frame, if_false)
        if expected == raises(frame, if_true):
            return vm.choose_way(frame, condition, if_true, if_false)
        if not is_caught(frame) and vm.observe(condition).check_truth(vm, expected):
            return if_true if expected else if_false
    return if_true if abstract.truth(vm, condition) else if_false


def raises(frame: Frame, index: int) -> bool:
    """Return whether the instructions from here on lead to a `raise`, without a branch before it."""
    for instruction in frame.decoded.instructions[index : index + LONGEST_RAISE]:
        if instruction.op == "RAISE_VARARGS":
            return True
        if "JUMP" in instruction.op or instruction.op in WAYS_OUT:
            return False
    return False


@op("POP_JUMP_IF_NONE", "value --")
def pop_jump_if_none(vm: VM, frame: Frame, instruction: Instruction, value: Object) -> Any:
    return instruction.value if operators.is_(vm, value, build.const(vm, None)) else None


@op("POP_JUMP_IF_NOT_NONE", "value --")
def pop_jump_if_not_none(vm: VM, frame: Frame, instruction: Instruction, value: Object) -> Any:
    return None if operators.is_(vm, value, build.const(vm, None)) else instruction.value


@op("RETURN_VALUE", "value --")
def return_value(vm: VM, frame: Frame, instruction: Instruction, value: Object) -> None:
    raise Return(value)


# Refused.

REFUSED: dict[str, str] = {
    # async
    "GET_AWAITABLE": "iterable -- iterator",
    "GET_AITER": "iterable -- iterator",
    "GET_ANEXT": "iterator -- iterator awaitable",
    "BEFORE_ASYNC_WITH": "manager -- exit awaitable",
    "END_ASYNC_FOR": "iterator exc --",
    "ASYNC_GEN_WRAP": "value -- wrapped",
    # template strings
    "BUILD_TEMPLATE": "strings interpolations -- template",
    # type parameters
    "TYPEVAR": "name -- result",
    "PARAMSPEC": "name -- result",
    "TYPEVARTUPLE": "name -- result",
    "TYPEVAR_WITH_BOUND": "name bound -- result",
    "TYPEVAR_WITH_CONSTRAINTS": "name constraints -- result",
    "SUBSCRIPT_GENERIC": "parameters -- result",
    "TYPEALIAS": "parts -- result",
    "SET_FUNCTION_TYPE_PARAMS": "function parameters -- function",
    "SET_TYPEPARAM_DEFAULT": "parameter default -- parameter",
    # module level only
    "IMPORT_LAZILY": "level fromlist -- module",
    "IMPORT_STAR": "module -- none",
    "PRINT_EXPR": "value -- none",
}


def unsupported_instruction(vm: VM, frame: Frame, instruction: Instruction, *operands: Object) -> Any:
    return vm.unsupported(breaks.UnsupportedOpcode(instruction.op))


for _name, _effect in REFUSED.items():
    op(_name, _effect)(unsupported_instruction)
