"""The operator `framejit::numpy`: a node with it makes NumPy itself compute, if tensors would give other values, or aren't known to give the same.

A call is a Python expression, in which the node's tensors are the arrays `a0`, `a1` and so on: `numpy.linalg.inv(a0)`. The results are new tensors, whose
types and sizes are arguments of the node: the trace has asked NumPy with stand-ins. A size that depends on data is a negative number, the same one for
equal sizes.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any

import numpy
import torch

from framejit.torch_state.own_operators import declare_operator

TYPES = "?bhilBHILefdFD"
"""The types of arrays that tensors can have, by NumPy's letters."""


PLAIN: dict[type, str] = {bool: "bool", int: "int", float: "float", complex: "complex"}


class CannotBeWritten(Exception):
    """Raised for a value that has no expression."""


# The names that an expression uses.


def method(name: str) -> Callable[..., Any]:
    """A method, called with the array first."""
    return lambda array, *args, **kwargs: getattr(array, name)(*args, **kwargs)


def attribute(name: str) -> Callable[[Any], Any]:
    """An attribute, called with the array."""
    return operator.attrgetter(name)


def changed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function that changes its first argument into one that returns a changed copy."""

    def call(array: Any, *args: Any, **kwargs: Any) -> Any:
        array = array.copy()
        function(array, *args, **kwargs)
        return array

    return call


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function that stores its result in `out` into one that returns a copy of `out` with the result in it."""

    def call(*args: Any, out: Any, **kwargs: Any) -> Any:
        out = out.copy()
        function(*args, out=out, **kwargs)
        return out

    return call


NAMES = {
    "numpy": numpy, "operator": operator, "divmod": divmod, "method": method, "attribute": attribute, "changed": changed, "written": written,
    "nan": math.nan, "inf": math.inf, "slice": slice, "complex": complex, "float": float, "int": int, "bool": bool, "__builtins__": {},
}  # fmt: skip
"""The names that an expression may use."""


@functools.lru_cache(maxsize=4096)
def evaluated(expression: str) -> Any:
    """The value of an expression without arrays."""
    return eval(expression, NAMES)


def spelled(value: Any) -> str:
    """An expression for a constant. Raises CannotBeWritten if there is none."""
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if type(value) is float:
        return repr(value) if not math.isnan(value) else "nan"
    if type(value) is complex:
        return f"complex({spelled(value.real)}, {spelled(value.imag)})"
    if isinstance(value, EllipsisType):
        return "..."
    if type(value) in (list, tuple):
        items = "".join([f"{spelled(item)}, " for item in value])
        return f"[{items}]" if type(value) is list else f"({items})"
    if type(value) is slice:
        return f"slice({spelled(value.start)}, {spelled(value.stop)}, {spelled(value.step)})"
    if isinstance(value, numpy.generic) and value.dtype.char in TYPES:
        return f"numpy.dtype({value.dtype.str!r}).type({spelled(value.item())})"
    if isinstance(value, numpy.dtype) and value.char in TYPES and value.isnative:
        return f"numpy.dtype({value.str!r})"
    if isinstance(value, type) and value in PLAIN:
        return PLAIN[value]
    name = str(getattr(value, "__name__", ""))
    if isinstance(value, type) and issubclass(value, numpy.generic) and getattr(numpy, name, None) is value:
        return f"numpy.{name}"
    raise CannotBeWritten(value)


# The operator.


@functools.lru_cache(maxsize=4096)
def function_of(call: str, arrays: int) -> Callable[..., Any]:
    """The function of arrays that an expression stands for."""
    found: Callable[..., Any] = eval(f"lambda {', '.join([f'a{index}' for index in range(arrays)])}: {call}", NAMES)
    return found


def leaves(found: Any) -> list[Any]:
    """The arrays and numbers in a result of NumPy."""
    return [leaf for item in found for leaf in leaves(item)] if isinstance(found, (list, tuple)) else [found]


def shapes_of(dims: Sequence[int], sizes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The shape of each result. `dims`: the number of sizes of each."""
    waiting = iter(sizes)
    return [tuple([next(waiting) for _ in range(count)]) for count in dims]


@declare_operator("numpy(str call, Tensor[] arrays, str[] types, int[] dims, SymInt[] sizes) -> Tensor[]", tags=(torch.Tag.needs_fixed_stride_order,))
def run(call: str, arrays: Sequence[torch.Tensor], types: Sequence[str], dims: Sequence[int], sizes: Sequence[int]) -> list[torch.Tensor]:
    given = [array.detach().numpy() for array in arrays]
    with numpy.errstate(all="ignore"):
        parts = [numpy.asarray(part) for part in leaves(function_of(call, len(given))(*given))]
    shapes = shapes_of(dims, sizes)
    if [part.dtype.name for part in parts] != list(types) or not all(fits(part.shape, shape) for part, shape in zip(parts, shapes, strict=True)):
        raise RuntimeError(f"{call} has given {[f'{part.dtype.name}{part.shape}' for part in parts]}, which is not what the trace was told: {types}, {shapes}")
    return [torch.from_numpy(apart(part, given)) for part in parts]


def fits(shape: tuple[int, ...], known: tuple[int, ...]) -> bool:
    """Return whether a result has the expected shape, in which unknown sizes are negative."""
    return len(shape) == len(known) and all(size < 0 or size == own for own, size in zip(shape, known))


def apart(part: Any, given: Sequence[Any]) -> Any:
    """Copy a result to its own memory, in the order of its elements."""
    part = numpy.asarray(part, order="C")
    is_own = part.flags.writeable and not any(numpy.may_share_memory(part, array) for array in given)
    return part if is_own else part.copy()


@run.fake
def on_fakes(call: str, arrays: Sequence[torch.Tensor], types: Sequence[str], dims: Sequence[int], sizes: Sequence[Any]) -> list[torch.Tensor]:
    unknown: dict[int, Any] = {}

    def real(size: Any) -> Any:
        if type(size) is not int or size >= 0:
            return size
        if size not in unknown:
            unknown[size] = torch.library.get_ctx().new_dynamic_size()
        return unknown[size]

    return [
        torch.empty([real(size) for size in shape], dtype=getattr(torch, name), device="cpu") for name, shape in zip(types, shapes_of(dims, sizes))
    ]


NUMPY = run.overload
