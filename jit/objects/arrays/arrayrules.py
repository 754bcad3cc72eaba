"""The tables of NumPy's functions: which may be computed with tensors, for which types the values are the same, and which NumPy computes in the graph.

tests/objects/arrays/test_array_functions.py compares each of them with NumPy, for all of these types.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy

from framejit.objects.arrays import arrayfunctions as tensors
from framejit.objects.arrays.arrayfunctions import Target, through

TYPES = "?Bbhilefd"
"""The types of arrays that functions take unless stated otherwise, by NumPy's letters: bool, uint8, ints, floats."""
COMPLEX = "FD"
KNOWN = frozenset(TYPES + COMPLEX)
"""The types of arrays that tensors compute with."""
UNSIGNED = "HIL"
"""Types of which there are tensors, but which these can't do arithmetic on: NumPy computes with them."""

TYPED: dict[str, Target] = {
    name: getattr(tensors, f"numpy_{name}")
    for name in (
        "sum", "prod", "mean", "var", "std", "cumsum", "cumprod", "nansum", "trace", "where", "clip", "concatenate", "stack", "dot", "einsum", "outer",
        "full_like", "median", "percentile", "quantile",
    )
}  # fmt: skip
TYPED |= {"zeros_like": tensors.full_of(0), "ones_like": tensors.full_of(1), "linalg.norm": tensors.numpy_norm, "array": tensors.numpy_array}
"""Functions with a parameter for the type of the result."""
PLAIN: dict[str, Target] = {
    name: getattr(tensors, f"numpy_{name}")
    for name in (
        "max", "min", "ptp", "all", "any", "count_nonzero", "argmax", "argmin", "round", "sort", "argsort", "copy", "reshape", "ravel", "transpose", "squeeze",
        "take", "real", "imag", "pad", "diag",
    )
}  # fmt: skip
PLAIN |= {"amax": tensors.numpy_max, "amin": tensors.numpy_min, "around": tensors.numpy_round, "asarray": tensors.numpy_same,
          "ascontiguousarray": tensors.numpy_same}  # fmt: skip
BY_TORCH_NUMPY = (
    "swapaxes", "moveaxis", "expand_dims", "broadcast_to", "atleast_1d", "atleast_2d", "atleast_3d", "roll", "repeat", "tile", "vstack", "hstack",
    "dstack", "column_stack", "split", "array_split", "hsplit", "vsplit", "dsplit", "meshgrid", "diagonal", "tril", "triu", "take_along_axis", "diff",
    "inner", "vdot", "tensordot", "kron", "isclose", "broadcast_arrays", "searchsorted",
)
"""Functions that torch._numpy implements."""
FUNCTIONS: dict[str, Target] = {**TYPED, **PLAIN, **{name: through(name) for name in BY_TORCH_NUMPY}}
"""The functions that tensors compute, by NumPy's names."""

NEVER: dict[str, str] = {
    **dict.fromkeys(
        ("where", "clip", "linalg.norm", "max", "min", "amax", "amin", "ptp", "argmax", "argmin", "sort", "argsort", "round", "around", "greater",
         "greater_equal", "less", "less_equal", "sign", "log2", "rint", "maximum", "minimum", "fmax", "fmin", "power"), COMPLEX,
    ),
    **dict.fromkeys(("matmul", "dot", "einsum", "tensordot", "inner", "vdot", "absolute", "floor", "ceil", "trunc"), "?"),
    "searchsorted": "?efd",
    **dict.fromkeys(("median", "percentile", "quantile"), "?e" + COMPLEX),
}  # fmt: skip
"""The types, as NumPy's letters, for which the values of a function would differ, or for which torch has no kernel."""


VIEWS = frozenset({
    "getitem", "reshape", "ravel", "flatten", "transpose", "T", "squeeze", "expand_dims", "swapaxes", "moveaxis", "diagonal", "broadcast_to", "copy", "view",
})  # fmt: skip
"""Functions that work on tensors of all types: apart from that, they only view memory or copy it."""

# What NumPy computes in the graph.

FOURIER = frozenset({"fft.fft", "fft.ifft", "fft.fft2", "fft.ifft2", "fft.fftn", "fft.ifftn"})
"""Fourier transforms whose result has the shape of their first argument unless another is asked for."""
BY_NUMPY = frozenset({
    *("histogram", "histogram2d", "bincount", "digitize", "interp", "average", "cov", "corrcoef", "isin", "unique", "union1d", "intersect1d", "setdiff1d"),
    *("setxor1d", "nanmean", "nanstd", "nanvar", "nanmax", "nanmin", "nanmedian", "nanpercentile", "nanquantile", "nanargmax", "nanargmin", "nancumsum"),
    *("nancumprod", "nanprod", "nan_to_num", "gradient", "ediff1d", "trapezoid", "trapz", "convolve", "correlate", "cross", "unwrap", "angle", "sinc", "i0"),
    *("fix", "polyval", "polyfit", "polyder", "polyint", "polyadd", "polymul", "polysub", "cumulative_sum", "cumulative_prod", "argpartition", "partition"),
    *("lexsort", "nonzero", "flatnonzero", "argwhere", "extract", "compress", "trim_zeros", "select", "piecewise", "choose", "append", "insert", "delete"),
    *("resize", "block", "unravel_index", "ravel_multi_index", "tril_indices_from", "triu_indices_from", "diag_indices_from", "packbits", "unpackbits"),
    *("allclose", "array_equal", "array_equiv", "isreal", "iscomplex", "isposinf", "isneginf", "linspace", "logspace", "geomspace", "full", "empty_like"),
    *("r_", "c_", "vander", "diagflat", "row_stack"),
    *(f"linalg.{name}" for name in (
        "inv", "det", "solve", "eigh", "eigvalsh", "cholesky", "svd", "svdvals", "qr", "pinv", "matrix_rank", "slogdet", "matrix_power", "cond", "multi_dot",
        "lstsq", "tensorsolve", "tensorinv", "matrix_norm", "vector_norm", "vecdot", "cross", "outer", "matmul", "trace",
    )),
    *FOURIER,
    *(f"fft.{name}" for name in ("rfft", "irfft", "hfft", "ihfft", "rfft2", "irfft2", "rfftn", "irfftn", "fftshift", "ifftshift")),
})  # fmt: skip
"""Functions of arrays whose results are new, and whose forms follow from the forms of the arguments, except for the sizes in SIZES_FROM_DATA."""
SIZES_FROM_DATA: dict[str, int | None] = {
    **dict.fromkeys(("unique", "union1d", "intersect1d", "setdiff1d", "setxor1d", "bincount", "nonzero", "flatnonzero", "argwhere", "extract"), None),
    "compress": None, "trim_zeros": None, "linalg.lstsq": 1,
}  # fmt: skip
"""Functions whose results have a first size that depends on data: the same size for all of them, or only for the one with this index."""
SHAPE_OF_FIRST = frozenset({
    "argsort", "sort", "isin", "digitize", "nan_to_num", "unwrap", "angle", "sinc", "i0", "fix", "partition", "argpartition", "isreal", "iscomplex", "isposinf",
    "isneginf", "fft.fftshift", "fft.ifftshift", "round", "around", "empty_like", "interp", "astype", "copy", "nancumsum", "nancumprod",
})  # fmt: skip
"""Functions whose result has the shape of their first argument, if it has as many dimensions."""
SHAPE_OF_OPTIONS = frozenset({"percentile", "quantile", "nanpercentile", "nanquantile", "histogram"})
"""Functions whose result for an array of one dimension has a shape that follows from their other arguments."""
TOLD_BY_FORM = frozenset({"result_type", "can_cast", "iscomplexobj", "isrealobj"})
"""Functions that read only the types of arrays."""
CHANGING = frozenset({"copyto", "putmask", "place", "put", "put_along_axis", "fill_diagonal"})
"""Functions that change their first argument, and return None."""


def named(name: str) -> Any:
    """NumPy's function of this name."""
    found: Any = numpy
    for part in name.split("."):
        found = getattr(found, part)
    return found


def exists(name: str) -> bool:
    """Return whether the installed NumPy has a function of this name."""
    path, _, last = name.rpartition(".")
    return last in names_in(path)


@functools.cache
def names_in(path: str) -> frozenset[str]:
    """The names in NumPy, or in what it has at this path. To ask for one that isn't there may warn."""
    return frozenset(dir(named(path) if path else numpy))


BY_FUNCTION: dict[int, str] = {id(named(name)): name for name in (*sorted(BY_NUMPY | CHANGING | TOLD_BY_FORM), *FUNCTIONS) if exists(name)}
"""The names of the functions, by identity."""
TELLS_BY_FORM = frozenset({*FUNCTIONS, *VIEWS, *(ufunc.__name__ for ufunc in tensors.UFUNCS), "indexing", "setitem", "astype", "real", "imag"})
"""Functions that raise because of the forms of their arguments only: if NumPy raises for stand-ins of these forms, it raises for the real arrays."""
