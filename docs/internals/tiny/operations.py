"""The handlers of the canonical operations. Each is written once, for two virtual machines: the Tracer, and NATIVE for where tracing stops.

Mirrors jit/ceval/operation.py (the registry, with stack effects), jit/ceval/ops_*.py (the handlers), jit/ceval/frame.py, and
jit/objects/core/abstract.py.
"""

import operator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from .bytecode import NULL_ABOVE_FUNCTION, Op
from .values import Constant, Sequence


class Jump(int):
    """The answer of a handler that goes on at the operation with this index. Nothing is pushed then."""


@dataclass
class Frame:
    """One activation of a function: variables, value stack, index of the next operation. It holds Values, or what they stand for."""

    function: Any
    ops: list[Op]
    locals: dict[str, Any]
    stack: list[Any] = field(default_factory=list)
    pc: int = 0

    @property
    def op(self) -> Op:
        return self.ops[self.pc]

    def step(self, vm: Any) -> None:
        """Runs an operation. The operands stay on the stack until its handler has succeeded: then what that gives takes their place."""
        effect, handler = OPERATIONS[self.op.name]
        operands, results = (part.split() for part in effect.split("--"))
        n = self.op.arg[0] if self.op.name == "CALL" else self.op.arg
        base = len(self.stack) - sum(n if name == "items[n]" else 1 for name in operands)
        answer = handler(vm, self.op.arg, *self.stack[base:])
        pushed = answer if len(results) > 1 or "items[n]" in results else [answer]
        self.stack[base:] = pushed if results and not isinstance(answer, Jump) else []
        self.pc = answer if isinstance(answer, Jump) else self.pc + 1


NULL = Constant(None)
"""Stands for the NULL that CPython pushes beside a function that is called and is no method."""
NULL.value = NULL


def method(vm: Any, name: str, owner: Any) -> tuple[Any, Any]:
    function, receiver = vm.method(owner, name)
    return (receiver, function) if function is NULL and NULL_ABOVE_FUNCTION else (function, receiver)


def advance(vm: Any, target: int, iterator: Any, *null: Any) -> Any:
    item = vm.next(iterator)
    return Jump(target) if item is NULL else (iterator, *null, item)


def call(vm: Any, arg: tuple[int, tuple[str, ...]], *operands: Any) -> Any:
    """The last operands are the keyword arguments, which `arg` names."""
    operands = [each for each in operands if each is not NULL]
    positional = len(operands) - len(arg[1])
    return vm.call(*operands[:positional], **dict(zip(arg[1], operands[positional:])))


NAMES = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
         "&": "and_", "|": "or_", "^": "xor", "<<": "lshift", ">>": "rshift"}  # fmt: skip
NAMES |= {f"{symbol}=": f"i{name.strip('_')}" for symbol, name in NAMES.items()}
NAMES |= {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
"""The function in `operator` for each symbol."""

ON_FRAMES: dict[str, tuple[str, Any]] = {
    "LOAD_CONST": ("-- value", lambda tracer, value: tracer.known(value)),
    "LOAD_GLOBAL": ("-- value", lambda tracer, name: tracer.load_global(tracer.frames[-1].function, name)),
    "LOAD_FAST": ("-- value", lambda tracer, name: tracer.frames[-1].locals[name]),
    "STORE_FAST": ("value --", lambda tracer, name, value: tracer.frames[-1].locals.update({name: value})),
    "DELETE_FAST": ("--", lambda tracer, name: tracer.frames[-1].locals.pop(name)),
    "PUSH_NULL": ("-- null", lambda tracer, arg: NULL),
    "POP_TOP": ("value --", lambda tracer, arg, value: None),
    "JUMP": ("--", lambda tracer, target: Jump(target)),
    "BUILD_LIST": ("items[n] -- list", lambda tracer, n, *items: Sequence(list, parts=[*items])),
    "BUILD_TUPLE": ("items[n] -- tuple", lambda tracer, n, *items: Sequence(tuple, parts=[*items])),
    "BUILD_SLICE": ("items[n] -- slice", lambda tracer, n, *items: tracer.operator(slice, *items)),
    "UNPACK_SEQUENCE": ("sequence -- items[n]", lambda tracer, n, sequence: tracer.sequence(sequence, n).parts[::-1]),
}
"""Operations that only the Tracer runs. Each has its stack effect, the deepest operand first, and its handler `(vm, arg, *operands)`.

A handler gives what is pushed (a tuple or a list, unless the effect has one result), or a Jump.
"""
ON_OBJECTS: dict[str, tuple[str, Any]] = {
    "LOAD_ATTR": ("owner -- value", lambda vm, name, owner: vm.attribute(owner, name)),
    "LOAD_METHOD": ("owner -- function receiver", method),
    "STORE_ATTR": ("value owner --", lambda vm, name, value, owner: vm.call(setattr, owner, name, value)),
    "BINARY_SUBSCR": ("container key -- item", lambda vm, arg, container, key: vm.operator(operator.getitem, container, key)),
    "STORE_SUBSCR": ("value container key --", lambda vm, arg, value, container, key: vm.call(operator.setitem, container, key, value)),
    "BINARY_OP": ("left right -- result", lambda vm, symbol, left, right: vm.operator(getattr(operator, NAMES[symbol]), left, right)),
    "COMPARE_TO_BOOL": ("left right -- truth", lambda vm, symbol, left, right: vm.compare(getattr(operator, NAMES[symbol]), left, right)),
    "UNARY_NEGATIVE": ("value -- result", lambda vm, arg, value: vm.operator(operator.neg, value)),
    "CALL": ("function receiver items[n] -- result", call),
    "GET_ITER": ("iterable -- iterator", lambda vm, arg, iterable: vm.iterator(iterable)),
    "GET_ITER_AND_NULL": ("iterable -- iterator null", lambda vm, arg, iterable: (vm.iterator(iterable), NULL)),
    "FOR_ITER": ("iterator -- iterator item", advance),
    "FOR_ITER_AND_NULL": ("iterator null -- iterator null item", advance),
    "POP_JUMP_IF_TRUE": ("value --", lambda vm, target, value: Jump(target) if vm.truth(value) else None),
    "POP_JUMP_IF_FALSE": ("value --", lambda vm, target, value: None if vm.truth(value) else Jump(target)),
    "POP_JUMP_IF_NONE": ("value --", lambda vm, target, value: Jump(target) if vm.is_none(value) else None),
    "POP_JUMP_IF_NOT_NONE": ("value --", lambda vm, target, value: None if vm.is_none(value) else Jump(target)),
}
"""Operations that NATIVE runs, too, so that a call can be split at them."""
OPERATIONS = ON_FRAMES | ON_OBJECTS

NATIVE = SimpleNamespace(
    attribute=getattr, method=lambda owner, name: (NULL, getattr(owner, name)), call=operator.call, operator=operator.call,
    iterator=iter, next=lambda iterator: next(iterator, NULL), truth=bool, is_none=lambda value: value is None,
    compare=lambda function, left, right: bool(function(left, right)),
)  # fmt: skip
"""The virtual machine that works on the values themselves, and has no frames."""
