"""Which of NumPy's functions a trace may have tensors compute, for which types the values are the same, and which functions NumPy computes in the graph.

tests/modules/test_array_functions.py compares each of them with NumPy, over all of these types.
"""

from __future__ import annotations

from typing import Any

import numpy

from framejit.objects import arrayfunctions as tensors
from framejit.objects.arrayfunctions import Target, through

TYPES = "?Bbhilefd"
"""The types of arrays that functions take if nothing else is said, by NumPy's letters: bool, uint8, ints, floats."""
COMPLEX = "FD"
KNOWN = frozenset(TYPES + COMPLEX)
"""The types of arrays that tensors compute with."""
UNSIGNED = "HIL"
"""Types of which there are tensors, which do no arithmetic: NumPy computes with them."""

TYPED: dict[str, Target] = {
    name: getattr(tensors, f"numpy_{name}")
    for name in (
        "sum", "prod", "mean", "var", "std", "cumsum", "cumprod", "nansum", "trace", "where", "clip", "concatenate", "stack", "dot", "einsum", "outer",
        "full_like", "median", "percentile", "quantile",
    )
}  # fmt: skip
TYPED |= {"zeros_like": tensors.full_of(0), "ones_like": tensors.full_of(1), "linalg.norm": tensors.numpy_norm, "array": tensors.numpy_array}
"""Functions that are told the type of the result."""
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
"""Functions as torch._numpy has them."""
FUNCTIONS: dict[str, Target] = {**TYPED, **PLAIN, **{name: through(name) for name in BY_TORCH_NUMPY}}
"""By NumPy's names."""

NEVER: dict[str, str] = {
    **dict.fromkeys(
        ("where", "clip", "linalg.norm", "max", "min", "amax", "amin", "ptp", "argmax", "argmin", "sort", "argsort", "round", "around", "greater",
         "greater_equal", "less", "less_equal", "sign", "log2", "rint", "maximum", "minimum", "fmax", "fmin", "power"), COMPLEX,
    ),
    **dict.fromkeys(("matmul", "dot", "einsum", "tensordot", "inner", "vdot", "absolute", "floor", "ceil", "trunc"), "?"),
    "searchsorted": "?efd",
    **dict.fromkeys(("median", "percentile", "quantile"), "?e" + COMPLEX),
}  # fmt: skip
"""The types, as NumPy's letters, for which a function's values would differ or which torch has no kernel for."""


VIEWS = frozenset({
    "getitem", "reshape", "ravel", "flatten", "transpose", "T", "squeeze", "expand_dims", "swapaxes", "moveaxis", "diagonal", "broadcast_to", "copy", "view",
})  # fmt: skip
"""What tensors of all types can do: they only look at memory otherwise, or copy it."""

# What NumPy computes in the graph.

FOURIER = frozenset({"fft.fft", "fft.ifft", "fft.fft2", "fft.ifft2", "fft.fftn", "fft.ifftn"})
"""Fourier transforms whose result has the shape of their first argument where no other is asked for."""
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
"""Functions of arrays whose results are new, and have forms that follow from the forms of the arguments, but for what SIZES_FROM_DATA says."""
SIZES_FROM_DATA: dict[str, int | None] = {
    **dict.fromkeys(("unique", "union1d", "intersect1d", "setdiff1d", "setxor1d", "bincount", "nonzero", "flatnonzero", "argwhere", "extract"), None),
    "compress": None, "trim_zeros": None, "linalg.lstsq": 1,
}  # fmt: skip
"""Functions whose results have a first size that depends on data, the same for all of them, or for the one of this index."""
SHAPE_OF_FIRST = frozenset({
    "argsort", "sort", "isin", "digitize", "nan_to_num", "unwrap", "angle", "sinc", "i0", "fix", "partition", "argpartition", "isreal", "iscomplex", "isposinf",
    "isneginf", "fft.fftshift", "fft.ifftshift", "round", "around", "empty_like", "interp", "astype", "copy", "nancumsum", "nancumprod",
})  # fmt: skip
"""Functions whose result has the shape of their first argument, if it has as many dimensions."""
SHAPE_OF_OPTIONS = frozenset({"percentile", "quantile", "nanpercentile", "nanquantile", "histogram"})
"""Functions whose result for an array of one dimension has a shape that their other arguments tell."""
TOLD_BY_FORM = frozenset({"result_type", "can_cast", "iscomplexobj", "isrealobj"})
"""Functions that look at the types of arrays only."""
CHANGING = frozenset({"copyto", "putmask", "place", "put", "put_along_axis", "fill_diagonal"})
"""Functions that change their first argument, and give nothing."""


def named(name: str) -> Any:
    """NumPy's function of this name."""
    found: Any = numpy
    for part in name.split("."):
        found = getattr(found, part)
    return found


def exists(name: str) -> bool:
    """Whether this NumPy has a function of the name."""
    *path, last = name.split(".")
    return last in dir(named(".".join(path)) if path else numpy)


BY_FUNCTION: dict[int, str] = {id(named(name)): name for name in (*sorted(BY_NUMPY | CHANGING | TOLD_BY_FORM), *FUNCTIONS) if exists(name)}
"""The names of the functions, by identity."""
TELLS_BY_FORM = frozenset({*FUNCTIONS, *VIEWS, *(ufunc.__name__ for ufunc in tensors.UFUNCS), "indexing", "setitem", "astype", "real", "imag"})
"""What NumPy says to any arrays of the same forms is what it says to the real ones: where it raises, it is for their forms."""
