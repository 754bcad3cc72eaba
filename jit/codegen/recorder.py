"""Records the steps that objects emit to rebuild themselves as fragments, so that these can be counted and ordered before any code exists."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple, NoReturn

from framejit.breaks import Break, CannotReconstruct
from framejit.errors import InternalError
from framejit.guards.source import Pinned, Source
from framejit.objects.core.object import Object, settle
from framejit.program import classes

BIG_DISPLAY = 30
"""Displays with more items than this are built item by item, as CPython's compiler does, to keep the stack shallow."""


def own_descriptor(cls: type, name: str) -> Any:
    """A descriptor that making a class has added to it (runs in generated code)."""
    return classes.class_dict(cls)[name]


def call(function: Callable[..., Any], *args: Any) -> Any:
    """A call of a class that the compiled code has made (runs in generated code)."""
    return function(*args)


class StepKind(Enum):
    """The kind of value that a recorded step pushes, or OP for a step that emits a word."""

    VALUE = auto()  # an Object made by the trace
    SOURCE = auto()  # a captured value
    NODE = auto()  # an output of the graph
    CONST = auto()
    OP = auto()


class CodeStep(NamedTuple):
    """One step of a fragment. `payload`: Object, Source, fx.Node, constant, or (word, argument)."""

    kind: StepKind
    payload: Any


class CannotGenerate(Exception):
    """Signal: generated code can't build a value that it needs, or not in this order. Carries the break reason."""

    def __init__(self, reason: Break) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _op(word: str, argument: Any = 0) -> CodeStep:
    return CodeStep(StepKind.OP, (word, argument))


class CodeRecorder:
    """Records one fragment: a run of steps that starts on an empty stack."""

    __slots__ = ("steps", "_starts")

    def __init__(self) -> None:
        self.steps: list[CodeStep] = []
        # For each item on the stack: the index of the step at which its computation starts.
        self._starts: list[int] = []

    @property
    def depth(self) -> int:
        """The number of items that the fragment leaves on the stack."""
        return len(self._starts)

    def _push(self, step: CodeStep) -> None:
        self._starts.append(len(self.steps))
        self.steps.append(step)

    def _reduce(self, n: int, step: CodeStep, pushes: bool = True) -> None:
        """Record a step that pops n items and pushes one or none."""
        start = self._first(n)
        self.steps.append(step)
        self._replace(n, start, pushes)

    def _first(self, n: int) -> int:
        if n > len(self._starts):
            raise InternalError(f"code generation pops {n} items of a stack of {len(self._starts)}")
        return self._starts[-n] if n else len(self.steps)

    def _replace(self, n: int, start: int, pushes: bool = True) -> None:
        if n:
            del self._starts[-n:]
        if pushes:
            self._starts.append(start)

    # Codegen's protocol.

    def load(self, obj: Object) -> None:
        obj = settle(obj)
        if obj.source is not None:
            self.load_source(obj.source)
        else:
            self._push(CodeStep(StepKind.VALUE, obj))

    def load_const(self, value: Any) -> None:
        if classes.STAND_INS and self._load_of_made(value):
            return
        self._push(CodeStep(StepKind.CONST, value))

    def _load_of_made(self, value: Any) -> bool:
        """Load what stands, while tracing, for a class that the trace makes, for one of its own descriptors, or for a tuple with such; False for others."""
        made = classes.STAND_INS.get(id(value))
        owner = classes.STAND_INS.get(id(value.__objclass__)) if type(value) in classes.OF_A_CLASS else None
        if made is not None:
            self.load(made)
        elif owner is not None:
            self.load(owner)
            self.load_const(value.__name__)
            self.call_const(own_descriptor, 2)
        elif type(value) is tuple and any(map(classes.holds_stand_in, value)):
            for item in value:
                self.load_const(item)
            self.build_tuple(len(value))
        elif classes.holds_stand_in(value):
            self.unsupported(CannotReconstruct("a constant that holds a class which the compiled code makes"))
        else:
            return False
        return True

    def load_source(self, source: Source) -> None:
        if type(source) is Pinned:
            self.load_const(source.payload)
        else:
            self._push(CodeStep(StepKind.SOURCE, source))

    def load_node(self, node: Any) -> None:
        self._push(CodeStep(StepKind.NODE, node))

    def build_tuple(self, n: int) -> None:
        if n <= BIG_DISPLAY:
            self._reduce(n, _op("build_tuple", n))
        else:
            self.build_list(n)
            self.steps.append(_op("list_to_tuple"))

    def build_list(self, n: int) -> None:
        self._display(n, 1, "build_list", "list_append")

    def build_set(self, n: int) -> None:
        self._display(n, 1, "build_set", "set_add")

    def build_map(self, n: int) -> None:
        self._display(n, 2, "build_map", "map_add")

    def _display(self, n: int, width: int, build: str, add: str) -> None:
        """Record steps that turn n groups of `width` items into one container."""
        if n <= BIG_DISPLAY:
            self._reduce(n * width, _op(build, n))
            return
        start = self._first(n * width)
        bounds = [*self._starts[-n * width :: width], len(self.steps)]
        steps = [_op(build, 0)]
        for first, last in zip(bounds, bounds[1:]):
            steps += self.steps[first:last]
            steps.append(_op(add, 1))
        self.steps[start:] = steps
        self._replace(n * width, start)

    def call_const(self, function: Callable[..., Any], n: int) -> None:
        # The callable stands below its arguments.
        start = self._first(n)
        if id(function) in classes.STAND_INS:
            self.steps.insert(start, CodeStep(StepKind.VALUE, classes.STAND_INS[id(function)]))
            function, n = call, n + 1
            self._starts.insert(len(self._starts) - n + 1, start)
        self.steps.insert(start, _op("load_callable", function))
        self.steps.append(_op("call", n))
        self._replace(n, start)

    def binary_op(self, symbol: str) -> None:
        self._reduce(2, _op("binary_op", symbol))

    def binary_subscr(self) -> None:
        self._reduce(2, _op("subscript"))

    def store_subscr(self) -> None:
        self._reduce(3, _op("store_subscript"), pushes=False)

    def load_attr(self, name: str) -> None:
        self._reduce(1, _op("load_attr", name))

    def store_attr(self, name: str) -> None:
        self._reduce(2, _op("store_attr", name), pushes=False)

    def delete_attr(self, name: str) -> None:
        self._reduce(1, _op("delete_attr", name), pushes=False)

    def pop_top(self) -> None:
        self._reduce(1, _op("pop"), pushes=False)

    def unsupported(self, reason: Break) -> NoReturn:
        raise CannotGenerate(reason)


def record(write: Callable[[CodeRecorder], None], depth: int, what: object) -> list[CodeStep]:
    """Record the steps that `write` emits. They must leave `depth` items on the stack."""
    recorder = CodeRecorder()
    write(recorder)
    if recorder.depth != depth:
        raise InternalError(f"the code of {what!r} leaves {recorder.depth} items on the stack, not {depth}")
    return recorder.steps
