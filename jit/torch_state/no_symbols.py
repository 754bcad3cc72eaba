"""Stands in for the modules of symbolic sizes in traces without symbols: torch's kernels for tensors without data import them for plain numbers, too.

    from torch.fx.experimental.symbolic_shapes import guard_or_false      # inside a kernel: would import that module, and sympy
    if guard_or_false(size == 0): ...                                     # a bool is just given back

While a trace runs and nothing has imported the modules, stand-ins are in `sys.modules`. They have the answers below, for code inside torch's functions on the
thread of the trace. If anyone asks for anything else, the modules are imported, and replace them.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

import torch.fx.experimental._config

from framejit.process.when_needed import STAND_INS, load, take_away
from framejit.torch_state.symbols import SHAPES

IMPORTLIB = vars(importlib._bootstrap)["__name__"]  # type: ignore[attr-defined]
PARENT, NAME = torch.fx.experimental, SHAPES.rpartition(".")[2]


class StandIn(ModuleType):
    """Stands in for a module in one trace. For whoever keeps it, it hands everything on to the module."""

    def __init__(self, name: str, answers: Mapping[str, Any]) -> None:
        super().__init__(name)
        vars(self).update(thread=threading.get_ident(), answers=answers)

    def __getattribute__(self, name: str) -> Any:
        fields = super().__getattribute__("__dict__")
        if name == "__dict__":
            return fields
        if name == "__file__":  # inspect.getmodule asks all modules for it
            raise AttributeError(name)
        asking = sys._getframe(1)
        if threading.get_ident() == fields["thread"] and is_in_function_of_torch(asking):
            if name in fields["answers"]:
                return fields["answers"][name]
            if name == "__spec__":  # the import statement asks for it, and whether the module is a package
                return None
            if name == "__path__":
                raise AttributeError(name)
        if asking.f_globals.get("__name__") == IMPORTLIB:  # a module in this package is being imported: see Finder
            if name == "__path__" and fields["__name__"] == "sympy":
                Finder.put_in()  # importlib goes through the finders next
                return []
            if name == "__spec__":
                return None
        return getattr(load(fields["__name__"]), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(load(vars(self)["__name__"]), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(load(vars(self)["__name__"]), name)


class Finder:
    """Finds the modules in sympy's package while something stands in for it: the import of one begins with that of the package, which imports it, too.

    It is in `sys.meta_path` during such an import alone, so that a traced program which goes through the list doesn't see it.
    """

    @staticmethod
    def put_in() -> None:
        """Append the finder to `sys.meta_path`: at the end, since another thread may be iterating over the list when it is removed."""
        if FINDER not in sys.meta_path:
            sys.meta_path.append(FINDER)

    @staticmethod
    def take_out() -> None:
        """Remove the finder from `sys.meta_path` if it is there."""
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(FINDER)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith("sympy.") or "sympy" not in STAND_INS:
            return None
        self.take_out()
        take_away()
        module = importlib.import_module(name)
        found = ModuleSpec(name, Imported(module))
        module.__spec__ = found  # importlib takes that of a module which has been imported meanwhile
        return found


FINDER = Finder()


class Imported(Loader):
    """Loads a module that has been imported, and gives it its own spec back."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def is_in_function_of_torch(frame: FrameType) -> bool:
    """Return whether a frame is that of a function of torch's, and not of the code of a module that is being imported."""
    return frame.f_globals.get("__name__", "").partition(".")[0] == "torch" and frame.f_code.co_name != "<module>"


@contextlib.contextmanager
def standing_in() -> Iterator[None]:
    """Inside the block, torch's kernels don't import the modules of symbolic sizes for plain numbers. Only one thread at a time may be inside."""
    if any(name in sys.modules for name in ANSWERS):
        yield
        return
    made = {name: StandIn(name, answers) for name, answers in ANSWERS.items()}
    STAND_INS.update(made)
    sys.modules.update(made)
    vars(PARENT)[NAME] = made[SHAPES]
    try:
        yield
    finally:
        Finder.take_out()
        take_away()
        if vars(PARENT).get(NAME) is made[SHAPES]:
            del vars(PARENT)[NAME]


def on_plain(name: str, takes: Callable[[object], bool], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function in the place of one of torch's module, which it calls unless all arguments are plain. `takes`: says whether one is."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if args and not kwargs and all(map(takes, args)):
            return function(*args)
        return getattr(load(SHAPES), name)(*args, **kwargs)

    return call


def of_module(module: str, name: str) -> Callable[..., Any]:
    """A function that imports a module and calls the function of this name."""
    return lambda *args, **kwargs: getattr(load(module), name)(*args, **kwargs)


def is_bool(value: object) -> bool:
    """Return whether a value is a bool, and not a symbolic one."""
    return type(value) is bool


def is_int(value: object) -> bool:
    """Return whether a value is an int of Python's."""
    return type(value) is int


def is_number(value: object) -> bool:
    """Return whether a value is a number of Python's."""
    return type(value) in (bool, int, float)


def is_size(value: object) -> bool:
    """Return whether a value is an int, or a sequence of sizes."""
    return type(value) is int or (type(value) in (tuple, list, torch.Size) and all(map(is_size, value)))  # type: ignore[arg-type, call-overload]


def anything(value: object) -> bool:
    """Return True: before torch's module is imported, no value has symbols."""
    return True


def equal(first: Any, second: Any) -> bool:
    """Return whether two sizes, or sequences of them, are equal, a tuple and a list too."""
    if type(first) is int and type(second) is int:
        return first == second
    if type(first) is int or type(second) is int:
        raise AssertionError(f"unexpected sym_eq between {type(first)} {type(second)}")
    return len(first) == len(second) and all(map(equal, first, second))


class NoExpression:
    """Has no instances, as sympy's class of expressions before sympy is imported."""


class NeverRaised(Exception):
    """Stands in for torch's exception about numbers that depend on data."""


ANSWERS: dict[str, dict[str, Any]] = {
    SHAPES: {name: on_plain(name, takes, function) for name, takes, function in (
        ("guard_or_false", is_bool, bool), ("guard_or_true", is_bool, bool), ("statically_known_true", is_bool, bool),
        ("expect_true", is_bool, bool), ("guard_size_oblivious", is_bool, bool),
        ("sym_and", is_bool, lambda *facts: all(facts)), ("sym_or", is_bool, lambda *facts: any(facts)), ("sym_eq", is_size, equal),
        ("guard_int", is_int, int), ("is_nested_int", is_number, lambda number: False), ("is_symbolic", is_number, lambda number: False),
        ("has_guarding_hint", is_number, lambda number: True), ("has_hint", is_number, lambda number: True),
        ("has_free_symbols", anything, lambda value: False), ("has_free_unbacked_symbols", anything, lambda value: False),
        ("free_unbacked_symbols", anything, lambda value: set()),
        ("_iterate_exprs", anything, lambda value: iter(())), ("_iterate_nodes", anything, lambda value: iter(())),
    )} | {name: of_module(SHAPES, name) for name in ("guarding_hint_or_throw", "optimization_hint", "size_hint")}
    | {"GuardOnDataDependentSymNode": NeverRaised},
    "sympy": {"Basic": NoExpression},
    "torch.utils._sympy.functions": {"Max": of_module("torch.utils._sympy.functions", "Max")},
}  # fmt: skip
"""For each module, what torch's kernels ask for when they compute with plain numbers. Some names are those of torch 2.11 only."""
