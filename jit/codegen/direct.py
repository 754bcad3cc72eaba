"""The direct form of replacement code: what the C entry does in its stead, without a frame, where all that is left is to call the graph.

Code that does more than build its result of tuples, lists and dicts has none: it may run the program's Python, or fail in a line of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

from framejit.bytecode.assemble import first_call
from framejit.bytecode.instruction import Position

INPUTS = ".inputs"
CAPTURES = ".captures"

KEYS = frozenset({str, bytes, int, float, bool, type(None)})
"""Types of constants whose hash and comparison run no Python code."""

BUILDING = {
    "COPY": "copy",
    "BUILD_TUPLE": "tuple",
    "BUILD_LIST": "list",
    "BUILD_MAP": "dict",
    "LIST_APPEND": "append",
    "MAP_ADD": "insert",
    "LIST_TO_TUPLE": "list_to_tuple",
}


class Temporary:
    """A value kept in a fast local from the instruction that stores it to the last one that loads it."""

    __slots__ = ("last", "name")

    def __init__(self) -> None:
        self.last = -1
        self.name = ""


class Direct(NamedTuple):
    """The argument `direct` of an Entry. `operations`: names and arguments of the operations in runtime_c/direct.c, run on a stack."""

    graph: Callable[..., Any] | None
    boxed: bool
    n_outputs: int
    call_offset: int
    operations: tuple[tuple[str, int], ...]
    constants: tuple[Any, ...]


class _NoDirectForm(Exception):
    """Signal: an instruction needs a frame."""


def direct_form(
    instructions: Sequence[tuple[str, Any, Position]], code: CodeType, graph: Callable[..., Any] | None, boxed: bool, n_outputs: int
) -> Direct | None:
    """Translate what `emit` has written and assembled; None where that needs a frame."""
    translator = _Translator(instructions, n_outputs)
    try:
        if graph is not None:
            translator.call()
        translator.result()
    except _NoDirectForm:
        return None
    offset = first_call(code) if graph is not None else 0
    return Direct(graph, boxed, n_outputs, offset, tuple(translator.operations), tuple(translator.constants))


class _Translator:
    def __init__(self, instructions: Sequence[tuple[str, Any, Position]], n_outputs: int) -> None:
        self.instructions = iter(instructions)
        self.n_outputs = n_outputs
        self.operations: list[tuple[str, int]] = []
        self.constants: list[Any] = []
        self.outputs: dict[Temporary, int] = {}
        self.output_list: Temporary | None = None
        self.variables: dict[Temporary, int] = {}
        self.stack: list[bool] = []  # for each item, whether it is a constant that may be a dict's key

    def next(self) -> tuple[str, Any]:
        name, argument, _ = next(self.instructions)
        return name, argument

    def call(self) -> None:
        """Pass over the call of the graph, up to where its outputs are in temporaries."""
        while self.next()[0] not in ("CALL", "CALL_FUNCTION_EX"):
            pass
        name, argument = self.next()
        if name == "STORE_FAST":
            self.output_list = argument
        elif name == "UNPACK_SEQUENCE":
            for index in range(self.n_outputs):
                self.outputs[self.next()[1]] = index

    def result(self) -> None:
        while True:
            name, argument = self.next()
            if name == "RETURN_VALUE":
                return
            if name == "LOAD_CONST":
                self.push("constant", len(self.constants), type(argument) in KEYS)
                self.constants.append(argument)
            elif name == "LOAD_FAST":
                self.load(argument)
            elif name == "STORE_FAST":
                self.stack.pop()
                self.emit("store", self.variables.setdefault(argument, len(self.variables)))
            elif name in BUILDING:
                self.build(name, argument)
            else:
                raise _NoDirectForm

    def load(self, what: Any) -> None:
        if what is CAPTURES or (what is self.output_list and what is not None):
            _, index = self.next()
            self.next()
            self.push("capture" if what is CAPTURES else "output", index)
        elif what in self.outputs:
            self.push("output", self.outputs[what])
        elif what in self.variables:
            self.push("load", self.variables[what])
        else:
            raise _NoDirectForm

    def build(self, name: str, argument: Any) -> None:
        """One of BUILDING. What is appended or inserted belongs to the container just below, always."""
        stack = self.stack
        if name == "COPY" and argument == 1:
            self.push("copy", 0, stack[-1])
            return
        items = {"BUILD_TUPLE": argument, "BUILD_LIST": argument, "BUILD_MAP": 2 * (argument or 0), "LIST_APPEND": 2, "MAP_ADD": 3}.get(name, 1)
        first = len(stack) - items
        keys = stack[first::2] if name == "BUILD_MAP" else stack[-2:-1] if name == "MAP_ADD" else []
        if not all(keys) or (name in ("COPY", "LIST_APPEND", "MAP_ADD") and argument != 1):
            raise _NoDirectForm
        del stack[first:]
        counted = name in ("BUILD_TUPLE", "BUILD_LIST", "BUILD_MAP")
        self.push(BUILDING[name], argument if counted else 0)

    def push(self, operation: str, argument: int, is_key: bool = False) -> None:
        self.stack.append(is_key)
        self.emit(operation, argument)

    def emit(self, operation: str, argument: int) -> None:
        self.operations.append((operation, argument))
