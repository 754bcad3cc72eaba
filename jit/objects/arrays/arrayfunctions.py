"""NumPy's functions as functions of tensors: the nodes of a graph call these instead of NumPy.

arrayrules.py says which of them a trace may use, and for which types. The results have NumPy's values; that they also have NumPy's type and shape is
checked when a node is made (arraycall.py), by asking NumPy itself.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch
import torch._numpy

Target = Callable[..., Any]


# Universal functions. Their inputs have been converted to the types of NumPy's loop.


def unless_zero(divide: Target) -> Target:
    """A division of ints: division by zero gives zero, as in NumPy, whereas torch raises."""

    def divided(a: Any, b: Any) -> Any:
        if not isinstance(b, torch.Tensor):
            return divide(a, b) if b != 0 else torch.zeros_like(a)
        if b.dtype.is_floating_point:
            return divide(a, b)
        return torch.where(b == 0, 0, divide(a, torch.where(b == 0, 1, b)))

    divided.__name__ = divided.__qualname__ = f"numpy_{divide.__name__}"
    return divided


def numpy_sign(a: torch.Tensor) -> torch.Tensor:
    """torch's function, except that NaN gives NaN, as in NumPy."""
    return torch.where(torch.isnan(a), a, torch.sign(a)) if a.dtype.is_floating_point else torch.sign(a)


def numpy_floor_divide_floats(a: Any, b: Any) -> Any:
    """npy_floor_divide: the quotient is computed from the remainder, so that the two are consistent."""
    a, b = torch.broadcast_tensors(a, b)
    remainder = torch.fmod(a, b)
    quotient = (a - remainder) / b
    quotient = torch.where((remainder != 0) & ((b < 0) != (remainder < 0)), quotient - 1, quotient)
    floored = torch.floor(quotient)
    floored = torch.where(quotient - floored > 0.5, floored + 1, floored)
    exact = torch.where(quotient == 0, torch.copysign(torch.zeros_like(quotient), a / b), floored)
    return torch.where(b == 0, a / b, exact)


def numpy_remainder_floats(a: Any, b: Any) -> Any:
    """npy_divmod: a zero has the sign of the divisor."""
    remainder = torch.fmod(a, b)
    signed = torch.where((remainder != 0) & ((b < 0) != (remainder < 0)), remainder + b, remainder)
    return torch.where(remainder == 0, torch.copysign(torch.zeros_like(remainder), b), signed)


def numpy_remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return numpy_remainder_floats(a, b) if a.dtype.is_floating_point else whole_remainder(a, b)


def numpy_heaviside(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch's function, except that NaN gives NaN, as in NumPy."""
    return torch.where(torch.isnan(a), a, torch.heaviside(a, b))


def numpy_gcd(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.abs(torch.gcd(a, b))


def numpy_floor_divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return numpy_floor_divide_floats(a, b) if a.dtype.is_floating_point else whole_floor_divide(a, b)


whole_floor_divide = unless_zero(torch.floor_divide)
whole_remainder = unless_zero(torch.remainder)

OPERATORS: dict[str, Target] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv, "power": operator.pow, "matmul": operator.matmul,
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
}  # fmt: skip
"""Universal functions that are operators of tensors, and also take numbers."""
ON_TENSORS: dict[str, Target] = {
    "floor_divide": numpy_floor_divide, "remainder": numpy_remainder, "fmod": unless_zero(torch.fmod),
    "negative": torch.neg, "positive": torch.positive, "absolute": torch.abs, "fabs": torch.abs, "sign": numpy_sign, "square": torch.square,
    "sqrt": torch.sqrt, "reciprocal": torch.reciprocal, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2,
    "log10": torch.log10, "log1p": torch.log1p, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "arcsin": torch.arcsin, "arccos": torch.arccos,
    "arctan": torch.arctan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh, "arcsinh": torch.arcsinh, "arccosh": torch.arccosh,
    "arctanh": torch.arctanh, "arctan2": torch.arctan2, "hypot": torch.hypot, "deg2rad": torch.deg2rad, "rad2deg": torch.rad2deg,
    "radians": torch.deg2rad, "degrees": torch.rad2deg, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "rint": torch.round,
    "maximum": torch.maximum, "minimum": torch.minimum, "fmax": torch.fmax, "fmin": torch.fmin, "logical_and": torch.logical_and,
    "logical_or": torch.logical_or, "logical_xor": torch.logical_xor, "logical_not": torch.logical_not, "invert": torch.bitwise_not,
    "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite, "signbit": torch.signbit, "copysign": torch.copysign,
    "heaviside": numpy_heaviside, "logaddexp": torch.logaddexp, "logaddexp2": torch.logaddexp2, "nextafter": torch.nextafter, "gcd": numpy_gcd,
    "conjugate": torch.conj_physical,
}  # fmt: skip
UFUNCS: dict[Any, Target] = {getattr(numpy, name): target for name, target in (*OPERATORS.items(), *ON_TENSORS.items())}
"""The function that computes each universal function. Each takes tensors; those of OPERATORS take numbers too."""
TAKE_NUMBERS = frozenset(getattr(numpy, name) for name in OPERATORS)


# Reductions: `result` is the type that NumPy's result has, and in which it computes.

Axis = int | tuple[int, ...] | None


def dims(a: torch.Tensor, axis: Axis) -> list[int]:
    """The dimensions of an axis argument."""
    return list(range(a.dim())) if axis is None else [axis] if isinstance(axis, int) else list(axis)


def kept(found: torch.Tensor, a: torch.Tensor, keepdims: bool) -> torch.Tensor:
    """A reduction over all elements, with as many dimensions as before if `keepdims` asks for that."""
    return found.reshape((1,) * a.dim()) if keepdims else found


def numpy_sum(a: torch.Tensor, axis: Axis = None, dtype: Any = None, keepdims: bool = False, *, result: torch.dtype) -> torch.Tensor:
    return a.to(result) if a.dim() == 0 else torch.sum(a.to(result), dims(a, axis), keepdim=bool(keepdims))


def numpy_prod(a: torch.Tensor, axis: Axis = None, dtype: Any = None, keepdims: bool = False, *, result: torch.dtype) -> torch.Tensor:
    a = a.to(result)
    if axis is None:
        return kept(torch.prod(a), a, keepdims)
    for dim in sorted([dim % a.dim() for dim in dims(a, axis)], reverse=True):
        a = torch.prod(a, dim, keepdim=bool(keepdims))
    return a


def numpy_mean(a: torch.Tensor, axis: Axis = None, dtype: Any = None, keepdims: bool = False, *, result: torch.dtype) -> torch.Tensor:
    return torch.mean(a.to(result), dims(a, axis), keepdim=bool(keepdims)) if a.dim() else a.to(result)


def numpy_var(a: torch.Tensor, axis: Axis = None, dtype: Any = None, ddof: int = 0, keepdims: bool = False, *, result: torch.dtype) -> torch.Tensor:
    a = a if a.dtype.is_complex else a.to(result)
    reduced = dims(a, axis)
    squared = torch.square(torch.abs(a - torch.mean(a, reduced, keepdim=True)))
    count = math.prod([a.shape[dim] for dim in reduced])
    return torch.sum(squared, reduced, keepdim=bool(keepdims)) / torch.sym_max(count - ddof, 0)


def numpy_std(a: torch.Tensor, axis: Axis = None, dtype: Any = None, ddof: int = 0, keepdims: bool = False, *, result: torch.dtype) -> torch.Tensor:
    return torch.sqrt(numpy_var(a, axis, dtype, ddof, keepdims, result=result))


def numpy_max(a: torch.Tensor, axis: Axis = None, keepdims: bool = False) -> torch.Tensor:
    return torch.amax(a, dims(a, axis), keepdim=bool(keepdims)) if a.dim() else a


def numpy_min(a: torch.Tensor, axis: Axis = None, keepdims: bool = False) -> torch.Tensor:
    return torch.amin(a, dims(a, axis), keepdim=bool(keepdims)) if a.dim() else a


def numpy_ptp(a: torch.Tensor, axis: Axis = None, keepdims: bool = False) -> torch.Tensor:
    return numpy_max(a, axis, keepdims) - numpy_min(a, axis, keepdims)


def numpy_all(a: torch.Tensor, axis: Axis = None, keepdims: bool = False) -> torch.Tensor:
    a = a != 0
    return torch.all(a, dim=tuple(dims(a, axis)), keepdim=bool(keepdims)) if a.dim() else a


def numpy_any(a: torch.Tensor, axis: Axis = None, keepdims: bool = False) -> torch.Tensor:
    a = a != 0
    return torch.any(a, dim=tuple(dims(a, axis)), keepdim=bool(keepdims)) if a.dim() else a


def numpy_count_nonzero(a: torch.Tensor, axis: Axis = None, keepdims: bool = False) -> torch.Tensor:
    return numpy_sum(a != 0, axis, keepdims=keepdims, result=torch.int64)


def numpy_argmax(a: torch.Tensor, axis: int | None = None, keepdims: bool = False) -> torch.Tensor:
    return kept(torch.argmax(whole(a)), a, keepdims) if axis is None else torch.argmax(whole(a), axis, keepdim=bool(keepdims))


def numpy_argmin(a: torch.Tensor, axis: int | None = None, keepdims: bool = False) -> torch.Tensor:
    return kept(torch.argmin(whole(a)), a, keepdims) if axis is None else torch.argmin(whole(a), axis, keepdim=bool(keepdims))


def whole(a: torch.Tensor) -> torch.Tensor:
    """Truth values as numbers, since torch doesn't order truth values."""
    return a.to(torch.uint8) if a.dtype is torch.bool else a


def numpy_median(a: torch.Tensor, axis: int | None = None, keepdims: bool = False, *, result: torch.dtype) -> torch.Tensor:
    """The middle of the sorted elements, or the mean of the two in the middle; NaN if any element is."""
    dim = 0 if axis is None else axis
    ordered = torch.sort(a.reshape(-1) if axis is None else a, dim).values
    last = ordered.shape[dim] - 1
    low, high = ordered.select(dim, last // 2).to(result), ordered.select(dim, (last + 1) // 2).to(result)
    found = (low + high) / 2 if last % 2 else high
    greatest = ordered.select(dim, last)
    found = torch.where(torch.isnan(greatest), greatest, found) if greatest.dtype.is_floating_point else found
    return found if not keepdims else kept(found, a, True) if axis is None else found.unsqueeze(dim)


def numpy_percentile(a: torch.Tensor, q: float, axis: int | None = None, *, keepdims: bool = False, result: torch.dtype) -> torch.Tensor:
    return quantile(a, q, 100, axis, keepdims, result)


def numpy_quantile(a: torch.Tensor, q: float, axis: int | None = None, *, keepdims: bool = False, result: torch.dtype) -> torch.Tensor:
    return quantile(a, q, 1, axis, keepdims, result)


def quantile(a: torch.Tensor, q: float, parts: int, axis: int | None, keepdims: bool, result: torch.dtype) -> torch.Tensor:
    """The quantile by linear interpolation, in the same steps as NumPy; NaN if any element is."""
    exact = numpy.float32 if a.dtype is torch.float32 else numpy.float64
    dim = 0 if axis is None else axis
    ordered = torch.sort(a.reshape(-1) if axis is None else a, dim).values
    last = ordered.shape[dim] - 1
    place = last * (exact(q) / exact(parts))
    below = min(int(place), last)
    part = float(exact(place - exact(below)))
    low, high = ordered.select(dim, below).to(result), ordered.select(dim, min(below + 1, last)).to(result)
    found = low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)
    greatest = ordered.select(dim, last)
    found = torch.where(torch.isnan(greatest), greatest, found) if greatest.dtype.is_floating_point else found
    return found if not keepdims else kept(found, a, True) if axis is None else found.unsqueeze(dim)


def numpy_cumsum(a: torch.Tensor, axis: int | None = None, dtype: Any = None, *, result: torch.dtype) -> torch.Tensor:
    return torch.cumsum(a.to(result).reshape(-1), 0) if axis is None else torch.cumsum(a.to(result), axis)


def numpy_cumprod(a: torch.Tensor, axis: int | None = None, dtype: Any = None, *, result: torch.dtype) -> torch.Tensor:
    return torch.cumprod(a.to(result).reshape(-1), 0) if axis is None else torch.cumprod(a.to(result), axis)


def numpy_nansum(a: torch.Tensor, axis: Axis = None, dtype: Any = None, keepdims: bool = False, *, result: torch.dtype) -> torch.Tensor:
    return numpy_sum(torch.where(torch.isnan(a), 0, a), axis, dtype, keepdims, result=result)


def numpy_trace(a: torch.Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, *, result: torch.dtype) -> torch.Tensor:
    return torch.sum(torch.diagonal(a, offset, axis1, axis2).to(result), -1)


# Functions that choose and rearrange elements.


def numpy_where(condition: torch.Tensor, x: Any, y: Any, *, result: torch.dtype) -> torch.Tensor:
    return torch.where(condition != 0, as_type(x, result), as_type(y, result))


def numpy_clip(a: torch.Tensor, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None, result: torch.dtype) -> torch.Tensor:
    a_min, a_max = a_min if min is None else min, a_max if max is None else max
    a = a.to(result)
    if a_min is not None:
        a = torch.maximum(a, as_type(a_min, result))
    return a if a_max is None else torch.minimum(a, as_type(a_max, result))


def as_type(value: Any, dtype: torch.dtype) -> torch.Tensor:
    """Convert a tensor or number to a tensor of a type."""
    return value.to(dtype) if isinstance(value, torch.Tensor) else torch.full((), value, dtype=dtype, device="cpu")


def numpy_round(a: torch.Tensor, decimals: int = 0) -> torch.Tensor:
    """Multiplied, rounded and divided, as NumPy does. A symbolic number of decimals becomes a constant."""
    decimals = int(decimals)
    if not a.dtype.is_floating_point and decimals < 0:
        raise NotImplementedError("rounding integers")
    if not a.dtype.is_floating_point or decimals == 0:
        return torch.round(a) if a.dtype.is_floating_point else a.clone()
    scale = 10.0 ** abs(decimals)
    return torch.round(a * scale) / scale if decimals > 0 else torch.round(a / scale) * scale


def numpy_sort(a: torch.Tensor, axis: int | None = -1, kind: str | None = None) -> torch.Tensor:
    return torch.sort(a.reshape(-1) if axis is None else a, dim=0 if axis is None else axis, stable=True).values


def numpy_argsort(a: torch.Tensor, axis: int | None = -1, kind: str | None = None, stable: bool | None = None) -> torch.Tensor:
    """The order of equal elements is only defined for stable sorting."""
    if not stable and kind not in ("stable", "mergesort"):
        raise NotImplementedError("sorting in an order that is not stable")
    return torch.sort(a.reshape(-1) if axis is None else a, dim=0 if axis is None else axis, stable=True).indices


def numpy_concatenate(arrays: Sequence[torch.Tensor], axis: int | None = 0, dtype: Any = None, *, result: torch.dtype) -> torch.Tensor:
    if axis is None:
        return torch.cat([as_type(a, result).reshape(-1) for a in arrays])
    return torch.cat([as_type(a, result) for a in arrays], axis)


def numpy_stack(arrays: Sequence[torch.Tensor], axis: int = 0, dtype: Any = None, *, result: torch.dtype) -> torch.Tensor:
    return torch.stack([as_type(a, result) for a in arrays], axis)


def numpy_array(nested: Any, dtype: Any = None, *, result: torch.dtype) -> torch.Tensor:
    """An array made from lists of arrays and numbers."""
    if isinstance(nested, (list, tuple)):
        return torch.stack([numpy_array(item, result=result) for item in nested])
    return as_type(nested, result)


def numpy_astype(a: torch.Tensor, *, result: torch.dtype, **how: Any) -> torch.Tensor:
    """A new array of another type. Complex numbers lose their imaginary part."""
    if a.dtype.is_complex and not result.is_complex:
        a = a.real if result is not torch.bool else a != 0
    return a.to(result, copy=True)


def numpy_copy(a: torch.Tensor, *how: Any, **also: Any) -> torch.Tensor:
    return torch.clone(a)


def numpy_same(a: torch.Tensor, *how: Any, **also: Any) -> torch.Tensor:
    """The array itself, or a view of it."""
    return a


def numpy_reshape(a: torch.Tensor, *shape: Any) -> torch.Tensor:
    return torch.reshape(a, shape[0] if len(shape) == 1 and not isinstance(shape[0], int | torch.SymInt) else shape)


def numpy_ravel(a: torch.Tensor) -> torch.Tensor:
    return torch.reshape(a, (-1,))


def numpy_transpose(a: torch.Tensor, axes: Sequence[int] | None = None) -> torch.Tensor:
    return torch.permute(a, tuple(reversed(range(a.dim()))) if axes is None else tuple(axes))


def numpy_squeeze(a: torch.Tensor, axis: Axis = None) -> torch.Tensor:
    return torch.squeeze(a) if axis is None else torch.squeeze(a, tuple(dims(a, axis)))


def numpy_diag(v: torch.Tensor, k: int = 0) -> torch.Tensor:
    return torch.diag(v, k) if v.dim() == 1 else torch.diagonal(v, k)


def numpy_take(a: torch.Tensor, indices: Any, axis: int | None = None) -> torch.Tensor:
    index = torch.as_tensor(indices, dtype=torch.int64, device="cpu")
    flat, dim = (a.reshape(-1), 0) if axis is None else (a, axis % a.dim())
    return flat[(slice(None),) * dim + (index if index.dim() else index.reshape(1),)].reshape((*flat.shape[:dim], *index.shape, *flat.shape[dim + 1 :]))


def numpy_dot(a: torch.Tensor, b: torch.Tensor, *, result: torch.dtype) -> torch.Tensor:
    a, b = as_type(a, result), as_type(b, result)
    if a.dim() == 0 or b.dim() == 0:
        return a * b
    return torch.matmul(a, b) if b.dim() <= 2 else torch.tensordot(a, b, dims=([-1], [-2]))


def numpy_einsum(subscripts: str, *operands: torch.Tensor, result: torch.dtype, optimize: Any = False) -> torch.Tensor:
    return torch.einsum(subscripts, *[operand.to(result) for operand in operands]).to(result)


def numpy_outer(a: torch.Tensor, b: torch.Tensor, *, result: torch.dtype) -> torch.Tensor:
    return as_type(a, result).reshape(-1, 1) * as_type(b, result).reshape(1, -1)


def numpy_norm(x: torch.Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False, *, result: torch.dtype) -> torch.Tensor:
    """Norms of vectors, and the Frobenius norm."""
    if ord is not None and not (ord == 2 and isinstance(axis if x.dim() > 1 else 0, int)):
        raise NotImplementedError("another norm")
    return torch.linalg.vector_norm(x.to(result), 2, None if axis is None else dims(x, axis), keepdim=bool(keepdims))


def full_of(fill: Any) -> Target:
    def full(a: torch.Tensor, dtype: Any = None, *, result: torch.dtype, **how: Any) -> torch.Tensor:
        return torch.full_like(a, fill, dtype=result)

    full.__name__ = full.__qualname__ = "numpy_ones_like" if fill else "numpy_zeros_like"
    return full


def numpy_full_like(a: torch.Tensor, fill_value: Any, dtype: Any = None, *, result: torch.dtype, **how: Any) -> torch.Tensor:
    return as_type(fill_value, result).expand(a.shape).clone()


def numpy_real(a: torch.Tensor) -> torch.Tensor:
    return a.real


def numpy_imag(a: torch.Tensor) -> torch.Tensor:
    return a.imag if a.dtype.is_complex else torch.zeros_like(a)


def numpy_pad(array: torch.Tensor, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> torch.Tensor:
    """Padding with a number."""
    if mode != "constant" or not (isinstance(constant_values, int) or array.dtype.is_floating_point):
        raise NotImplementedError("another padding")
    widths = torch.tensor(pad_width, device="meta")
    pairs = [(pad_width, pad_width)] * array.dim() if widths.dim() == 0 else [tuple(pad_width)] * array.dim() if widths.dim() == 1 else pad_width
    flat = [int(width) for pair in reversed(pairs) for width in (pair if len(pair) == 2 else (pair[0], pair[0]))]
    return torch.nn.functional.pad(array, flat, value=constant_values)


# Indexing.


def numpy_index(a: torch.Tensor, key: Any) -> torch.Tensor:
    """Indexing with arrays among the indices. NumPy treats a number next to them as an array; torch applies the number first."""
    parts = [index_of(part) for part in (key if isinstance(key, tuple) else (key,))]
    return a[tuple(parts)]


def index_of(part: Any) -> Any:
    """A part of a key that has arrays in it, as torch takes it."""
    if isinstance(part, list):
        return torch.tensor(part, device="cpu")
    if isinstance(part, int) and not isinstance(part, bool):
        return torch.tensor([part], device="cpu")
    return part


def numpy_store(a: torch.Tensor, key: Any, value: Any) -> None:
    """Store to a part of an array. A value in the same memory is copied first, as in NumPy."""
    if isinstance(value, torch.Tensor):
        value = value.clone()
    if has_arrays(key):
        key = tuple([index_of(part) for part in (key if isinstance(key, tuple) else (key,))])
    a[key] = value


def has_arrays(key: Any) -> bool:
    return any(isinstance(part, (torch.Tensor, list)) for part in (key if isinstance(key, tuple) else (key,)))


def numpy_laid_out(a: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """A copy whose dimensions lie in memory in this order, the one with the largest stride first."""
    inverse = sorted(range(len(order)), key=lambda dim: order[dim])
    return torch.permute(torch.permute(a, tuple(order)).clone(memory_format=torch.contiguous_format), tuple(inverse))


def numpy_with_gaps(a: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """A copy with these strides, with gaps between its elements in memory."""
    memory = torch.empty([sum([size * stride for size, stride in zip(a.shape, strides)])], dtype=a.dtype, device=a.device)
    return torch.as_strided(memory, a.shape, tuple(strides)).copy_(a)


# By way of torch._numpy.


def through(name: str) -> Target:
    """NumPy's function of this name as implemented in torch._numpy, applied to tensors."""
    function = torch._numpy
    for part in name.split("."):
        function = getattr(function, part)

    def run(*args: Any, **kwargs: Any) -> Any:
        return as_tensors(function(*args, **kwargs))  # type: ignore[operator]

    run.__name__ = run.__qualname__ = f"numpy_{name.replace('.', '_')}"
    return run


def as_tensors(found: Any) -> Any:
    """Replace torch._numpy's arrays by their tensors."""
    if isinstance(found, (list, tuple)):
        return type(found)([as_tensors(item) for item in found])
    return found.tensor if isinstance(found, torch._numpy.ndarray) else found


def numpy_fill(a: torch.Tensor, value: Any) -> None:
    a.copy_(as_type(value, a.dtype))


def as_array(tensor: torch.Tensor) -> Any:
    """The array of a tensor that a graph has returned. The program's function modes don't see that there was a tensor."""
    with torch._C.DisableTorchFunction():
        return tensor.numpy()


def as_read_only(tensor: torch.Tensor) -> Any:
    """An array that may not be written to."""
    array = as_array(tensor)
    array.flags.writeable = False
    return array


def as_scalar(tensor: torch.Tensor) -> Any:
    """The NumPy scalar that a tensor without dimensions stands for."""
    return as_array(tensor)[()]
