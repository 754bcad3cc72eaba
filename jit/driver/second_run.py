"""Runs a compiled call a second time, uncompiled, on copies of its arguments, and compares the results and the changes that both have made."""

from __future__ import annotations

import copy
import functools
import math
import random
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import field
from typing import Any

import torch

from framejit import logs
from framejit._runtime import CompiledFunction, is_thread_compiling, set_thread_compiling, set_thread_disabled
from framejit.bytecode.decode import decode
from framejit.driver.compiled_module import ORIGINAL
from framejit.errors import CheckError, FramejitError
from framejit.guards.source import MISSING
from framejit.quick_dataclass import dataclass
from framejit.torch_state.torch_classes import is_jagged

TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-7, 1e-8), torch.complex128: (1e-7, 1e-8), torch.float16: (2e-2, 2e-3), torch.bfloat16: (3e-2, 1e-2),
}  # fmt: skip
"""The relative and absolute tolerance for each dtype; USUAL for others. Backends don't round in the same order as eager."""
USUAL = (1e-3, 1e-4)
THEMSELVES = (
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, torch.dtype, torch.layout, torch.memory_format, weakref.ref,
    CompiledFunction,
)  # fmt: skip
"""Types of values that aren't copied: copies share them with the original."""
SCALARS = (int, bool, str, bytes, type(None), range, torch.Size, torch.device)
DRAWS_OTHERWISE = frozenset({"inductor"})
"""Backends whose random numbers differ from eager's."""


class CannotCompare(Exception):
    """The call can't be run a second time on copies, or it can't be decided whether two values are alike."""


def compare_with_eager(compiled: CompiledFunction, args: tuple[Any, ...], kwargs: dict[str, Any], backend: str) -> Any:
    """Make the compiled call and return its result. Raises CheckError if the uncompiled function, run on copies, behaves differently.

    Everything that the call reaches through its arguments, the closure and the defaults is copied. Side effects on globals and on the outside world happen
    twice. Afterwards, the random state is that after the compiled call. Programs that ask `is_compiling()` get different answers in the two runs.
    """
    function: Any = compiled.function
    name = function.__qualname__
    state = CallState(args, kwargs, function.__closure__ or (), function.__defaults__, function.__kwdefaults__)
    try:
        reject_stores_to_globals(function.__code__)
        copies = state.copied()
    except Exception as why:
        logs.info("checks", f"{name} is not compared with eager: {why}")
        return compiled(*args, **kwargs)
    seeds = random_state()
    ours = outcome(compiled, args, kwargs)
    after = random_state()
    set_random_state(seeds)
    outer = set_thread_disabled(True)
    try:
        eagers = outcome(copies.function_like(function), copies.args, copies.kwargs)
        is_random = not same_random_state(seeds, random_state())
    finally:
        set_thread_disabled(outer)
        set_random_state(after)
    if is_random and backend in DRAWS_OTHERWISE:
        logs.info("checks", f"{name} is not compared with eager: {backend} draws other random numbers")
    else:
        compare(name, ours, eagers, state, copies)
    if ours[1] is not None:
        raise ours[1]
    return ours[0]


def outcome(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Exception | None]:
    """Call a function, and return its result, or None, and the exception that it has raised, or None."""
    try:
        return function(*args, **kwargs), None
    except FramejitError:
        raise  # no result of the program's
    except Exception as error:
        return None, error


def compare(name: str, ours: tuple[Any, Exception | None], eagers: tuple[Any, Exception | None], state: CallState, copies: CallState) -> None:
    """Raise CheckError if results, exceptions, or the states after the two calls differ."""
    (result, raised), (expected, expected_raised) = ours, eagers
    if type(raised) is not type(expected_raised):
        raise CheckError(f"{name}: the compiled call {outcome_text(raised)}, and eager {outcome_text(expected_raised)}") from raised
    alike = Comparison(copies.left_out)
    try:
        parts = [("the result", result, expected)]
        parts += [(part, mine, theirs) for (part, mine), (_, theirs) in zip(state.parts(), copies.parts())]
        for part, mine, theirs in parts:
            difference = alike.difference(mine, theirs, part)
            if difference is not None:
                raise CheckError(f"{name}: the compiled call and eager differ in {difference}")
    except CannotCompare as why:
        logs.info("checks", f"{name} is not compared with eager: {why}")
    else:
        logs.info("checks", f"{name} matches eager")


def outcome_text(raised: Exception | None) -> str:
    return "returned" if raised is None else f"raised {type(raised).__qualname__}: {raised}"


def reject_stores_to_globals(code: types.CodeType) -> None:
    """Raise CannotCompare if code stores to globals. These aren't copied, so that values from the second run would stay there."""
    for instruction in decode(code).instructions:
        if instruction.op in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            raise CannotCompare(f"it stores to the global {instruction.value!r}")


# ---- copies ----


def contents(cell: types.CellType) -> Any:
    """The value of a cell, or MISSING if the cell is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


@dataclass(frozen=True, slots=True)
class CallState:
    """The values that a call can change through its arguments and its function.

    `left_out`: if this is a copy, the attributes that a class has left out of the copies of its objects, by the id of the original object.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    cells: tuple[types.CellType, ...]
    defaults: tuple[Any, ...] | None
    kwdefaults: dict[str, Any] | None
    left_out: Mapping[int, Set[str]] = field(default_factory=dict)

    def parts(self) -> list[tuple[str, Any]]:
        """The values of this state as they are now, with names for reports."""
        return [
            ("the arguments", self.args), ("the keyword arguments", self.kwargs), ("the closure", tuple(map(contents, self.cells))),
            ("the defaults", self.defaults), ("the keyword-only defaults", self.kwdefaults),
        ]  # fmt: skip

    def copied(self) -> CallState:
        """A deep copy of this state. Raises CannotCompare, or an error that a class raises when it is copied."""
        values = [value for _, value in self.parts()]
        memo: dict[int, Any] = {id(MISSING): MISSING}
        incomplete = []
        for value in within(values, set()):
            if is_jagged(type(value)):
                raise CannotCompare("operators take a copy of a nested tensor for one of other lengths than the results computed of it")
            if isinstance(value, torch.Tensor) and value.grad_fn is not None:
                if value._base is not None:
                    raise CannotCompare("an argument is a view with a gradient history")
                memo[id(value)] = value.detach().clone().requires_grad_()
                incomplete.append(value)
            elif isinstance(value, Iterator):
                raise CannotCompare(f"a {type(value).__qualname__} can be run through only once")
        outer = is_thread_compiling()
        set_thread_compiling(True)  # nothing that copying calls is the program's
        try:
            args, kwargs, contents, defaults, kwdefaults = copy.deepcopy(values, memo)
            # Parameters are copied without gradient and attributes. memo[id(memo)] lists all that was copied.
            for value in (*incomplete, *[value for value in memo[id(memo)] if isinstance(value, torch.nn.Parameter)]):
                memo[id(value)].__dict__.update(copy.deepcopy(value.__dict__, memo))
                if value.is_leaf and value.grad is not None:
                    memo[id(value)].grad = value.grad.detach().clone()
        finally:
            set_thread_compiling(outer)
        left_out = {
            id(value): value.__dict__.keys() - memo[id(value)].__dict__.keys()
            for value in memo[id(memo)]
            if hasattr(value, "__dict__") and list(value.__dict__) != list(memo[id(value)].__dict__)
        }
        cells = tuple(types.CellType() if value is MISSING else types.CellType(value) for value in contents)
        return CallState(args, kwargs, cells, defaults, kwdefaults, left_out)

    def function_like(self, function: Any) -> Any:
        """A copy of the function that has this state's closure and defaults in place of its own."""
        made = types.FunctionType(function.__code__, function.__globals__, function.__name__, self.defaults, self.cells)
        made.__kwdefaults__ = self.kwdefaults
        made.__dict__.update(function.__dict__)
        return functools.update_wrapper(made, function, updated=())


def within(value: Any, seen: set[int]) -> Iterator[Any]:
    """All values in a value of nested builtin containers."""
    if id(value) in seen:
        return
    seen.add(id(value))
    yield value
    parts: list[Any] = []
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        parts = list(value)
    elif isinstance(value, dict):
        parts = [*value, *value.values()]
    for part in parts:
        yield from within(part, seen)


# ---- comparison ----


class Comparison:
    """Compares values after the compiled call with values after the eager call, including which of them are the same object."""

    def __init__(self, left_out: Mapping[int, Set[str]] | None = None) -> None:
        """`left_out`: as in CallState."""
        self._left_out = left_out or {}
        self._partners: dict[int, Any] = {}
        self._alive: list[Any] = []

    def difference(self, mine: Any, theirs: Any, where: str) -> str | None:
        """The first difference, as text; None if there is none. Raises CannotCompare for values that can't be compared."""
        if mine is theirs and not isinstance(mine, torch.Tensor):
            return None
        if isinstance(mine, THEMSELVES):
            return f"{where}: {mine!r:.80} and {theirs!r:.80}"
        if type(theirs) is not type(mine) and type(theirs) is not getattr(type(mine), ORIGINAL, None):
            return f"{where}: a {type(mine).__qualname__} and a {type(theirs).__qualname__}"
        if isinstance(mine, SCALARS):
            return None if mine == theirs else f"{where}: {mine!r:.80} and {theirs!r:.80}"
        if isinstance(mine, (float, complex)):
            return None if close(mine, theirs) else f"{where}: {mine!r} and {theirs!r}"
        if isinstance(mine, types.MethodType):
            return self.difference((mine.__func__, mine.__self__), (theirs.__func__, theirs.__self__), where)
        if not isinstance(mine, (tuple, frozenset)):
            if id(mine) in self._partners:
                same = self._partners[id(mine)] is theirs
                return None if same else f"{where}: one object in two places, or two in eager's stead of one"
            self._partners[id(mine)] = theirs
            self._alive += (mine, theirs)
        if isinstance(mine, torch.Tensor):
            my_gradient, their_gradient = (tensor.grad if tensor.is_leaf else None for tensor in (mine, theirs))
            parts = [(f"{where}.grad", my_gradient, their_gradient), (f"{where}.__dict__", mine.__dict__, theirs.__dict__)]
            return tensor_difference(mine, theirs, where) or self.first(parts)
        return self.parts(mine, theirs, where)

    def parts(self, mine: Any, theirs: Any, where: str) -> str | None:
        """The first difference between the items or attributes of two values of one type; None if there is none."""
        if isinstance(mine, (set, frozenset)):
            if any(not isinstance(element, (*SCALARS, float, tuple)) for element in mine):
                raise CannotCompare("sets of objects have no order to compare them in")
            return None if mine == theirs else f"{where}: {mine!r:.80} and {theirs!r:.80}"
        if isinstance(mine, (list, tuple, deque)):
            if len(mine) != len(theirs):
                return f"{where}: {len(mine)} and {len(theirs)} items"
            return self.first([(f"{where}[{i}]", a, b) for i, (a, b) in enumerate(zip(mine, theirs))])
        if isinstance(mine, dict):
            if len(mine) != len(theirs):
                return f"{where}: keys {list(mine)!r:.80} and {list(theirs)!r:.80}"
            keys = self.first([(f"a key of {where}", a, b) for a, b in zip(mine, theirs)])
            return keys or self.first([(f"{where}[{key!r}]", a, b) for (key, a), b in zip(mine.items(), theirs.values())])
        slots = [name for cls in type(mine).__mro__ for name in cls.__dict__.get("__slots__", ()) if name not in ("__dict__", "__weakref__")]
        if not slots and not hasattr(mine, "__dict__"):
            if getattr(type(mine), "__eq__") is getattr(object, "__eq__"):
                raise CannotCompare(f"two objects of the class {type(mine).__qualname__} can't be compared")
            return None if mine == theirs else f"{where}: {mine!r:.80} and {theirs!r:.80}"
        found = self.first([(f"{where}.{name}", getattr(mine, name, MISSING), getattr(theirs, name, MISSING)) for name in slots])
        if found is not None or not hasattr(mine, "__dict__"):
            return found
        ours, eagers = mine.__dict__, theirs.__dict__
        left_out = self._left_out.get(id(mine))
        if left_out is not None:
            ours, eagers = ({name: each[name] for name in sorted(each) if name not in left_out} for each in (ours, eagers))
        return self.parts(ours, eagers, f"{where}.__dict__")

    def first(self, triples: list[tuple[str, Any, Any]]) -> str | None:
        return next(filter(None, (self.difference(mine, theirs, where) for where, mine, theirs in triples)), None)


def close(mine: Any, theirs: Any) -> bool:
    """Return whether two floats or complex numbers may come from the same computation in another order."""
    if isinstance(mine, complex):
        return close(mine.real, theirs.real) and close(mine.imag, theirs.imag)
    return mine == theirs or (math.isnan(mine) and math.isnan(theirs)) or math.isclose(mine, theirs, rel_tol=USUAL[0], abs_tol=USUAL[1])


def tensor_difference(mine: torch.Tensor, theirs: torch.Tensor, where: str) -> str | None:
    """Describe how two tensors differ in metadata or, beyond rounding, in values; return None if they don't. Raises CannotCompare."""
    for name in ("dtype", "device", "layout", "requires_grad"):
        if getattr(mine, name) != getattr(theirs, name):
            return f"{where}: {name} {getattr(mine, name)} and {getattr(theirs, name)}"
    if mine.shape != theirs.shape:
        return f"{where}: shapes {list(mine.shape)} and {list(theirs.shape)}"
    relative, absolute = TOLERANCES.get(mine.dtype, USUAL)
    try:
        torch.testing.assert_close(mine.detach(), theirs.detach(), rtol=relative, atol=absolute, equal_nan=True)
    except AssertionError as error:
        return f"{where}: {' '.join(str(error).split())}"
    except Exception as error:
        raise CannotCompare(f"{where} can't be compared: {error}") from error
    return None


# ---- random state ----


def random_state() -> tuple[Any, ...]:
    """The state of the generators that a program draws from: Python's, torch's, and numpy's and the GPUs' where they are in use."""
    numpy = sys.modules.get("numpy")
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return random.getstate(), torch.get_rng_state(), cuda, None if numpy is None else numpy.random.get_state(legacy=False)


def set_random_state(state: tuple[Any, ...]) -> None:
    """Restore a state of the generators that `random_state` has returned."""
    random.setstate(state[0])
    torch.set_rng_state(state[1])
    if state[2]:
        torch.cuda.set_rng_state_all(state[2])
    if state[3] is not None:
        sys.modules["numpy"].random.set_state(state[3])


def same_random_state(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Return whether two states are equal, so that nothing was drawn in between. numpy's state is compared as text."""
    same = a[0] == b[0] and torch.equal(a[1], b[1]) and len(a[2]) == len(b[2]) and all(map(torch.equal, a[2], b[2]))
    return same and repr(a[3]) == repr(b[3])
