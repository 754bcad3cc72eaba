"""What each canonical operation does: in a trace, and to real values where tracing stops.

Mirrors jit/ceval/operation.py (the registry, with stack effects), jit/ceval/ops_*.py (the handlers) and jit/objects/abstract.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .bytecode import Break, Op
from .values import Iterator, Sequence, Value

if TYPE_CHECKING:
    from .tracer import Frame, Tracer


@dataclass(frozen=True)
class Jump:
    """The answer of a handler that goes on at another operation. Nothing is pushed then."""

    index: int


class Return(Exception):
    """The frame has come to its end; the argument is what it returns. (jit/ceval/signals.py)"""


Handler = Callable[..., Any]
"""Gives what is pushed: a value, or a tuple where there isn't one result; or a Jump."""


@dataclass(frozen=True)
class Operation:
    """`trace`: the handler in a trace. `native`: the handler of real values; None where a frame can't be split."""

    operands: list[str]
    results: list[str]
    trace: Handler
    native: Handler | None

    def count(self, op: Op) -> int:
        """How many operands an operation takes; `args[n]` stands for as many as its argument says."""
        n = op.arg[0] if isinstance(op.arg, tuple) else op.arg
        return sum(n if name.endswith("[n]") else 1 for name in self.operands)

    def pushed(self, answer: Any) -> tuple[Any, ...]:
        """What comes on the stack in the place of the operands."""
        if isinstance(answer, Jump):
            return ()
        return answer if len(self.results) != 1 or self.results[0].endswith("[n]") else (answer,)


OPERATIONS: dict[str, Operation] = {}


def op(name: str, effect: str, native: Handler | None = None) -> Callable[[Handler], Handler]:
    """Registers the decorated handler `(tracer, frame, arg, *operands)`. `effect`: "operands -- results", the deepest first."""
    operands, _, results = effect.partition("--")

    def register(handler: Handler) -> Handler:
        OPERATIONS[name] = Operation(operands.split(), results.split(), handler, native)
        return handler

    return register


def refuse(tracer: Tracer, frame: Frame, arg: Any, *operands: Value) -> Any:
    raise Break(f"{frame.ops[frame.pc].name} isn't traced")


op("LOAD_CONST", "-- value")(lambda tracer, frame, value: tracer.known(value))
op("LOAD_GLOBAL", "-- value")(lambda tracer, frame, name: tracer.load_global(frame.function, name))
op("PUSH_NULL", "-- null")(lambda tracer, frame, arg: None)
op("POP_TOP", "value --")(lambda tracer, frame, arg, value: ())
op("COPY", "items[n] -- items top")(lambda tracer, frame, n, *items: (*items, items[0]))
op("SWAP", "items[n] -- items top")(lambda tracer, frame, n, *items: (items[-1], *items[1:-1], items[0]))
op("JUMP", "--")(lambda tracer, frame, target: Jump(target))


@op("LOAD_FAST", "-- value")
def load_fast(tracer: Tracer, frame: Frame, name: str) -> Any:
    if name not in frame.locals:
        raise Break(f"{name} has no value")
    return frame.locals[name]


@op("STORE_FAST", "value --")
def store_fast(tracer: Tracer, frame: Frame, name: str, value: Value) -> Any:
    frame.locals[name] = value
    return ()


@op("DELETE_FAST", "--")
def delete_fast(tracer: Tracer, frame: Frame, name: str) -> Any:
    del frame.locals[name]
    return ()


@op("RETURN_VALUE", "value --")
def return_value(tracer: Tracer, frame: Frame, arg: None, value: Value) -> Any:
    raise Return(value)


def branch(name: str, jumps: Callable[[Any], bool]) -> None:
    """Registers a conditional jump. Which way it goes is guarded, by what the condition is computed from."""

    @op(name, "value --", lambda target, value: Jump(target) if jumps(value) else ())
    def handler(tracer: Tracer, frame: Frame, target: int, value: Value) -> Any:
        asked = tracer.is_none(value) if name.endswith("NONE") else tracer.constant(value)
        return Jump(target) if jumps(asked) else ()


branch("POP_JUMP_IF_TRUE", bool)
branch("POP_JUMP_IF_FALSE", operator.not_)
branch("POP_JUMP_IF_NONE", lambda value: value is None)
branch("POP_JUMP_IF_NOT_NONE", lambda value: value is not None)


def next_natively(target: int, iterator: Any) -> Any:
    try:
        return iterator, next(iterator)
    except StopIteration:
        return Jump(target)


@op("FOR_ITER", "iterator -- iterator item", next_natively)
def for_iter(tracer: Tracer, frame: Frame, target: int, iterator: Value) -> Any:
    if not isinstance(iterator, Iterator):
        raise Break("the position of an iterator from outside")
    position = iterator.position
    if position == len(iterator.over.items):
        return Jump(target)
    iterator.position += 1
    tracer.trail.append(lambda: setattr(iterator, "position", position))
    return iterator, iterator.over.items[position]


@op("GET_ITER", "iterable -- iterator", lambda arg, iterable: iter(iterable))
def get_iter(tracer: Tracer, frame: Frame, arg: None, iterable: Value) -> Any:
    over = tracer.observe(iterable)
    return Iterator(None, over if isinstance(over, Sequence) else Sequence(None, tuple, tracer.items(over)))


NAMES = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul", "&": "and_",
         "|": "or_", "^": "xor", "<<": "lshift", ">>": "rshift", "<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}  # fmt: skip
FUNCTIONS = {symbol: getattr(operator, name) for symbol, name in NAMES.items()}
"""The function of each symbol that BINARY_OP and COMPARE_OP name."""
FUNCTIONS |= {symbol + "=": getattr(operator, "i" + name.strip("_")) for symbol, name in list(NAMES.items())[:13]}


for _name in ("BINARY_OP", "COMPARE_OP"):
    op(_name, "left right -- result", lambda symbol, left, right: FUNCTIONS[symbol](left, right))(
        lambda tracer, frame, symbol, left, right: tracer.operator(FUNCTIONS[symbol], [left, right], {})
    )
op("UNARY_NEGATIVE", "value -- result", lambda arg, value: -value)(
    lambda tracer, frame, arg, value: tracer.operator(operator.neg, [value], {})
)
op("LOAD_ATTR", "owner -- value", lambda name, owner: getattr(owner, name))(
    lambda tracer, frame, name, owner: tracer.attribute(owner, name)
)
op("BUILD_SLICE", "items[n] -- slice")(lambda tracer, frame, n, *items: tracer.known(slice(*map(tracer.constant, items))))
op("BUILD_LIST", "items[n] -- list")(lambda tracer, frame, n, *items: Sequence(None, list, list(items)))
op("BUILD_TUPLE", "items[n] -- tuple")(lambda tracer, frame, n, *items: Sequence(None, tuple, list(items)))


@op("BINARY_SUBSCR", "container key -- item", lambda arg, container, key: container[key])
def subscript(tracer: Tracer, frame: Frame, arg: None, container: Value, key: Value) -> Any:
    container = tracer.observe(container)
    if isinstance(container, Sequence) and type(index := tracer.constant(key)) is int and index in range(len(container.items)):
        return container.items[index]
    return tracer.operator(operator.getitem, [container, key], {})


def call_natively(arg: tuple[int, tuple[str, ...]], null: None, function: Any, *args: Any) -> Any:
    positional = len(args) - len(arg[1])
    return function(*args[:positional], **dict(zip(arg[1], args[positional:])))


@op("CALL", "null function args[n] -- result", call_natively)
def call(tracer: Tracer, frame: Frame, arg: tuple[int, tuple[str, ...]], null: None, function: Value, *args: Value) -> Any:
    positional = len(args) - len(arg[1])
    return tracer.call(function, list(args[:positional]), dict(zip(arg[1], args[positional:])))


@op("UNPACK_SEQUENCE", "sequence -- items[n]")
def unpack(tracer: Tracer, frame: Frame, n: int, sequence: Value) -> Any:
    items = tracer.items(sequence)
    if len(items) != n:
        raise Break("unpacking into another number of variables")
    return tuple(reversed(items))


def set_item(arg: None, value: Any, container: Any, key: Any) -> Any:
    container[key] = value
    return ()


def set_attribute(name: str, value: Any, owner: Any) -> Any:
    setattr(owner, name, value)
    return ()


op("STORE_SUBSCR", "value container key --", set_item)(refuse)
op("STORE_ATTR", "value owner --", set_attribute)(refuse)
op("BUILD_STRING", "parts[n] -- text", lambda n, *parts: "".join(parts))(refuse)
