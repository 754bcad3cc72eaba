"""Which of NumPy's functions a trace may have tensors compute, and for which types: where the values are the same.

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
"""Arrays of other types are left to NumPy."""

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


def named(name: str) -> Any:
    """NumPy's function of this name."""
    found: Any = numpy
    for part in name.split("."):
        found = getattr(found, part)
    return found


BY_FUNCTION: dict[int, str] = {id(named(name)): name for name in FUNCTIONS}
"""The names of the functions, by identity."""
