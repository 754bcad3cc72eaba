"""Translates replacement code that only calls the graph and builds the result into its direct form, which the C entry runs without a frame.

Code that does more has no direct form: it may run the program's Python code, or raise an error in one of its own lines.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from types import BuiltinFunctionType, CodeType
from typing import Any, NamedTuple, NoReturn

from framejit.bytecode.decode import call_offsets
from framejit.bytecode.instruction import Position

INPUTS = ".inputs"
CAPTURES = ".captures"

KEYS = frozenset({str, bytes, int, float, bool, type(None)})
"""Types of constants whose hash and comparison run no Python code."""


class KnownItem(enum.Enum):
    """The facts known about an item on the stack: its type if it is a new list, tuple or dict, and otherwise one of these members."""

    KEY = enum.auto()
    """Marks a constant that may be a dict's key."""
    NOTHING = enum.auto()


KEY, NOTHING = KnownItem.KEY, KnownItem.NOTHING
DISPLAYS: dict[str, type] = {"build_tuple": tuple, "build_list": list, "build_map": dict}
STORES = (dict.__setitem__, OrderedDict.__setitem__, object.__setattr__)


class Temporary:
    """A value kept in a fast local from the instruction that stores it to the last one that loads it."""

    __slots__ = ("last", "name")

    def __init__(self) -> None:
        self.last = -1
        self.name = ""


class Recovery(NamedTuple):
    """The handling of an exception that an entry's graph raises: the entry calls `function` with a list of the exception and with these captures, and returns
    what that returns. If that raises in its turn, `corrected` gives the exception that the program gets."""

    function: Callable[..., Any]
    captures: tuple[int, ...]
    corrected: Callable[[BaseException], BaseException]


class CallOfGraph(NamedTuple):
    """The graph that code calls, if it calls one, whether that takes one list of its inputs, the number of its outputs, and what is done if it raises."""

    graph: Callable[..., Any] | None
    boxed: bool
    n_outputs: int
    recovery: Recovery | None = None


class Direct(NamedTuple):
    """The argument `direct` of an Entry.

    `operations`: names and arguments of the operations in runtime_c/program.c, which run on a stack. `calls`: the offsets of calls in the code, for tracebacks;
    the call of the graph comes first, and those of the recovery last. `refuse`: raises an error if the graph hasn't returned a tuple or list of n_outputs; None
    if `unpack` does so. `recovery`: None if the program has no handler for what the graph raises.
    """

    graph: Callable[..., Any] | None
    reject: Callable[[Any], NoReturn] | None
    boxed: bool
    n_outputs: int
    calls: tuple[int, ...]
    operations: tuple[tuple[str, int], ...]
    recovery: Recovery | None
    constants: tuple[Any, ...]


class _NeedsFrame(Exception):
    """Signal: an instruction can't be run without a frame."""


def direct_form(instructions: Sequence[tuple[str, Any, Position]], code: CodeType, called: CallOfGraph, dicts: Collection[int] = ()) -> Direct | None:
    """Translate code that `emit` has written and assembled; None if it needs a frame. `dicts`: the numbers of captures that are instances' dicts."""
    translator = _Translator(instructions, called.n_outputs, dicts)
    try:
        if called.graph is not None:
            translator.call_graph()
        translator.result()
    except _NeedsFrame:
        return None
    graph, reject = getattr(called.graph, "_framejit_unchecked", (called.graph, None))
    operations, constants = tuple(translator.operations), tuple(translator.constants)
    return Direct(graph, reject, called.boxed, called.n_outputs, call_offsets(code), operations, called.recovery, constants)


def runs_no_python(function: Any, arguments: Sequence[KnownItem | type], values: Sequence[Any]) -> bool:
    """Return whether a call in generated code can't run the program's Python code, since it only makes an object, or stores into one that was made here.

    `arguments`: what is known about the arguments; `values`: the constants among them.
    """
    if function is list.extend:
        return arguments[1] is list
    if any(function is store for store in STORES):
        return arguments[1] is KEY
    if function is object.__getattribute__:
        return values[1] == "__dict__"
    if function is slice:
        return True
    if type(function) is BuiltinFunctionType and function.__name__ == "__new__":
        return len(arguments) == 1 or (function.__self__ is tuple and arguments[1] is tuple)
    return False


class _Translator:
    def __init__(self, instructions: Sequence[tuple[str, Any, Position]], n_outputs: int, dicts: Collection[int]) -> None:
        self.instructions = iter(instructions)
        self.n_outputs = n_outputs
        self.dicts = dicts
        self.operations: list[tuple[str, int]] = []
        self.constants: list[Any] = []
        self.outputs: dict[Temporary, int] = {}
        self.output_list: Temporary | None = None
        self.variables: dict[Temporary, tuple[int, KnownItem | type]] = {}
        self.stack: list[tuple[KnownItem | type, Any]] = []  # what is known of each item, and its value where it is a constant

    def next(self) -> tuple[str, Any]:
        name, argument, _ = next(self.instructions)
        return name, argument

    def call_graph(self) -> None:
        """Skip the call of the graph, up to the instruction after which its outputs are in temporaries."""
        while (name := self.next()[0]) not in ("call", "call_with_tuple"):
            if name == "store_attr":  # what comes before the graph
                raise _NeedsFrame
        name, argument = self.next()
        if name == "store_local":
            self.output_list = argument
        elif name == "unpack":
            for index in range(self.n_outputs):
                self.outputs[self.next()[1]] = index

    def result(self) -> None:
        while True:
            name, argument = self.next()
            if name == "return":
                return
            translate = _TRANSLATIONS.get(name)
            if translate is None:
                raise _NeedsFrame
            translate(self, name, argument)

    def push(self, operation: str, argument: int, known: KnownItem | type = NOTHING, value: Any = None) -> None:
        self.stack.append((known, value))
        self.operations.append((operation, argument))

    def pop(self, n: int) -> list[KnownItem | type]:
        """Take n items off the stack, and return what was known about them."""
        taken = [known for known, _ in self.stack[len(self.stack) - n :]]
        del self.stack[len(self.stack) - n :]
        return taken

    def constant(self, name: str, value: Any) -> None:
        self.push("constant", len(self.constants), KEY if type(value) in KEYS else NOTHING, value)
        self.constants.append(value)

    def load(self, name: str, what: Any) -> None:
        if what == CAPTURES or (what is self.output_list and what is not None):
            _, index = self.next()
            self.next()
            if what == CAPTURES:
                self.push("capture", index, dict if index in self.dicts else NOTHING)
            else:
                self.push("output", index)
        elif what in self.outputs:
            self.push("output", self.outputs[what])
        elif what in self.variables:
            self.push("load", *self.variables[what])
        else:
            raise _NeedsFrame

    def store(self, name: str, what: Temporary) -> None:
        (known,) = self.pop(1)
        self.variables[what] = len(self.variables), known
        self.operations.append(("store", self.variables[what][0]))

    def copy(self, name: str, depth: int) -> None:
        if depth != 1:
            raise _NeedsFrame
        self.push("copy", 0, *self.stack[-1])

    def display(self, name: str, size: int) -> None:
        made = DISPLAYS[name]
        parts = self.pop(2 * size if made is dict else size)
        if made is dict and parts[::2] != [KEY] * size:
            raise _NeedsFrame
        self.push(made.__name__, size, made)

    def append(self, name: str, depth: int) -> None:
        self.pop(1)
        if depth != 1 or self.pop(1)[0] is not list:
            raise _NeedsFrame
        self.push("append", 0, list)

    def insert(self, name: str, depth: int) -> None:
        if depth != 1 or self.pop(3)[:2] != [dict, KEY]:
            raise _NeedsFrame
        self.push("insert", 0, dict)

    def list_to_tuple(self, name: str, _: int) -> None:
        self.pop(1)
        self.push("list_to_tuple", 0, tuple)

    def set_item(self, name: str, _: int) -> None:
        if self.pop(3)[1:] != [dict, KEY]:
            raise _NeedsFrame
        self.operations.append(("set_item", 0))

    def pop_top(self, name: str, _: int) -> None:
        self.pop(1)
        if self.operations[-1][0] == "load":
            self.operations.pop()
        else:
            self.operations.append(("pop", 0))

    def call(self, name: str, n: int) -> None:
        function, *values = [value for _, value in self.stack[len(self.stack) - n - 1 :]]
        arguments = self.pop(n + 1)[1:]
        if not runs_no_python(function, arguments, values):
            raise _NeedsFrame
        made = values[0] if type(function) is BuiltinFunctionType else dict if function is object.__getattribute__ else None
        self.push("call", n, made if made is list or made is dict else NOTHING)

_TRANSLATIONS: dict[str, Callable[[_Translator, str, Any], None]] = {
    "load_const": _Translator.constant,
    "load_callable": _Translator.constant,
    "load_local": _Translator.load,
    "store_local": _Translator.store,
    "copy": _Translator.copy,
    "build_tuple": _Translator.display,
    "build_list": _Translator.display,
    "build_map": _Translator.display,
    "list_append": _Translator.append,
    "map_add": _Translator.insert,
    "list_to_tuple": _Translator.list_to_tuple,
    "store_subscript": _Translator.set_item,
    "pop": _Translator.pop_top,
    "call": _Translator.call,
}


__all__ = ["CAPTURES", "INPUTS", "CallOfGraph", "Direct", "Recovery", "Temporary", "direct_form"]
