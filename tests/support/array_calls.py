"""Calls of NumPy's functions with small arrays of each type, for which a compiled function must give NumPy's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from framejit.objects.arrays.arrayfunctions import UFUNCS
from framejit.objects.arrays.arrayrules import FUNCTIONS, exists, named

Call = Callable[..., Any]


def values(code: str, shape: tuple[int, ...] = (3, 4), seed: int = 0) -> np.ndarray:
    """Return an array of a type, which includes zeros, limits and other values that are easy to get wrong."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(code)
    size = int(np.prod(shape))
    if dtype.kind == "b":
        found = rng.integers(0, 2, size).astype(bool)
    elif dtype.kind in "iu":
        info = np.iinfo(dtype)
        found = rng.integers(max(info.min, -9), 9, size).astype(dtype)
        found[:3] = 0, info.max, info.min
    else:
        found = (rng.standard_normal(size) * 3).astype(dtype)
        if dtype.kind == "c":
            found = (found + 1j * rng.standard_normal(size)).astype(dtype)
        found[:6] = 0.0, -0.0, 1.5, 2.5, -0.5, 1.0
    return found.reshape(shape)


def special(code: str) -> np.ndarray:
    """Return such an array with NaN and infinities among its values, if the type has them."""
    found = values(code).copy()
    if found.dtype.kind == "f":
        found.reshape(-1)[[2, 5, 7]] = np.nan, np.inf, -np.inf
    return found


NO_SPECIAL = {"prod", "cumprod"}
"""Functions that combine infinities and NaN in an order that nobody specifies."""


def distinct(code: str) -> np.ndarray:
    found = np.random.default_rng(1).permutation(12).reshape(3, 4)
    return found.astype(code)


CALLS: dict[str, list[Call]] = {
    "array": [lambda f, a: f([a, a]), lambda f, a: f(a), lambda f, a: f([a[0, 0], a[0, 1]])],
    "asarray": [lambda f, a: f(a), lambda f, a: f(a.T)],
    "ascontiguousarray": [lambda f, a: f(a), lambda f, a: f(a.T)],
    "where": [lambda f, a: f(a > 0, a, 0), lambda f, a: f(a > 0, a, a * 2), lambda f, a: f(a > 0, 1.5, a), lambda f, a: f(a, a.astype(np.float32), a)],
    "clip": [lambda f, a: f(a, 0, 2), lambda f, a: f(a, None, 1), lambda f, a: f(a, 0, a + a)],
    "concatenate": [
        lambda f, a: f([a, a]), lambda f, a: f((a, a[:, :1]), axis=1), lambda f, a: f([a, a.astype(np.float32)]), lambda f, a: f([a, a], axis=None),
    ],
    "stack": [lambda f, a: f([a, a]), lambda f, a: f([a, a], axis=-1), lambda f, a: f([a, a.astype(np.float32)])],
    "dot": [lambda f, a: f(a, a.T), lambda f, a: f(a[0], a[1]), lambda f, a: f(a, a[0]), lambda f, a: f(a, 2)],
    "einsum": [lambda f, a: f("ij,kj->ik", a, a), lambda f, a: f("ij->", a), lambda f, a: f("ij->ji", a)],
    "outer": [lambda f, a: f(a[0], a[1])],
    "inner": [lambda f, a: f(a, a), lambda f, a: f(a[0], a[1])],
    "vdot": [lambda f, a: f(a[0], a[1])],
    "kron": [lambda f, a: f(a[:2, :2], a[:2, :2])],
    "tensordot": [lambda f, a: f(a, a.T, 1), lambda f, a: f(a, a, 2)],
    "full_like": [lambda f, a: f(a, 1), lambda f, a: f(a, 1, dtype=np.float32)],
    "reshape": [lambda f, a: f(a, (4, 3)), lambda f, a: f(a, -1), lambda f, a: f(a.T, (2, -1))],
    "transpose": [lambda f, a: f(a), lambda f, a: f(a, (1, 0))],
    "squeeze": [lambda f, a: f(a[:1]), lambda f, a: f(a[None], axis=0)],
    "take": [lambda f, a: f(a, [0, 2], axis=0), lambda f, a: f(a, 1), lambda f, a: f(a, [[0, 1]], axis=1), lambda f, a: f(a, 1, axis=1)],
    "pad": [lambda f, a: f(a, 1), lambda f, a: f(a, ((0, 1), (2, 0))), lambda f, a: f(a, (1, 2), constant_values=1)],
    "swapaxes": [lambda f, a: f(a, 0, 1)],
    "moveaxis": [lambda f, a: f(a, 0, 1)],
    "expand_dims": [lambda f, a: f(a, 0), lambda f, a: f(a, -1)],
    "broadcast_to": [lambda f, a: f(a, (2, 3, 4)), lambda f, a: f(a[:1], (3, 4))],
    "broadcast_arrays": [lambda f, a: f(a, a[:1])],
    "roll": [lambda f, a: f(a, 1), lambda f, a: f(a, 1, axis=0), lambda f, a: f(a, (1, 2), axis=(0, 1))],
    "repeat": [lambda f, a: f(a, 2), lambda f, a: f(a, 2, axis=0), lambda f, a: f(a, [1, 2, 0], axis=0)],
    "tile": [lambda f, a: f(a, 2), lambda f, a: f(a, (2, 1))],
    "vstack": [lambda f, a: f([a, a]), lambda f, a: f([a[0], a[1]]), lambda f, a: f([a, a.astype(np.float32)])],
    "hstack": [lambda f, a: f([a, a]), lambda f, a: f([a[0], a[1]])],
    "dstack": [lambda f, a: f([a, a])],
    "column_stack": [lambda f, a: f([a[0], a[1]])],
    "split": [lambda f, a: f(a, 2, axis=1), lambda f, a: f(a, [1], axis=0)],
    "array_split": [lambda f, a: f(a, 2)],
    "hsplit": [lambda f, a: f(a, 2)],
    "vsplit": [lambda f, a: f(a, 3)],
    "dsplit": [lambda f, a: f(a[None].reshape(1, 3, 4), 2)],
    "meshgrid": [lambda f, a: f(a[0], a[:, 0]), lambda f, a: f(a[0], a[1], indexing="ij")],
    "take_along_axis": [lambda f, a: f(a, np.array([[0], [1], [2]]), 1)],
    "isclose": [lambda f, a: f(a, a), lambda f, a: f(a, a * 2)],
    "searchsorted": [lambda f, a: f(np.sort(a[0]), a[1]), lambda f, a: f(np.sort(a[0]), a[1], side="right")],
    "linalg.norm": [lambda f, a: f(a), lambda f, a: f(a, axis=1), lambda f, a: f(a, axis=-1, keepdims=True)],
    "tril": [lambda f, a: f(a), lambda f, a: f(a, -1)],
    "triu": [lambda f, a: f(a), lambda f, a: f(a, 1)],
    "diag": [lambda f, a: f(a), lambda f, a: f(a[0]), lambda f, a: f(a, 1)],
    "diff": [lambda f, a: f(a), lambda f, a: f(a, axis=0), lambda f, a: f(a, n=2)],
    "trace": [lambda f, a: f(a), lambda f, a: f(a, offset=1)],
    "diagonal": [lambda f, a: f(a), lambda f, a: f(a, 1)],
    "round": [lambda f, a: f(a), lambda f, a: f(a, 1), lambda f, a: f(a, decimals=2), lambda f, a: f(a, -1)],
    "sort": [lambda f, a: f(a), lambda f, a: f(a, axis=0), lambda f, a: f(a, axis=None)],
    "argsort": [lambda f, a: f(a, kind="stable"), lambda f, a: f(a, axis=0, kind="stable")],
    "std": [lambda f, a: f(a), lambda f, a: f(a, axis=0), lambda f, a: f(a, axis=1, ddof=1, keepdims=True)],
    "median": [lambda f, a: f(a), lambda f, a: f(a, axis=0), lambda f, a: f(a, axis=1, keepdims=True)],
    "percentile": [lambda f, a: f(a, 30), lambda f, a: f(a, 50.0, axis=0), lambda f, a: f(a, 75, axis=-1, keepdims=True), lambda f, a: f(a, 100)],
    "quantile": [lambda f, a: f(a, 0.3), lambda f, a: f(a, 0.9, axis=1), lambda f, a: f(a, 0)],
    "copy": [lambda f, a: f(a), lambda f, a: f(a.T)],
    "ravel": [lambda f, a: f(a), lambda f, a: f(a.T)],
}  # fmt: skip
CALLS["around"], CALLS["var"] = CALLS["round"], CALLS["std"]
ONE: list[Call] = [lambda f, a: f(a)]
WITH_AXES: list[Call] = [lambda f, a: f(a), lambda f, a: f(a, axis=0), lambda f, a: f(a, axis=-1, keepdims=True), lambda f, a: f(a, axis=(0, 1))]
ALONG: list[Call] = [lambda f, a: f(a), lambda f, a: f(a, axis=0), lambda f, a: f(a, axis=-1)]
for _name in ("sum", "prod", "mean", "nansum", "max", "min", "amax", "amin", "ptp", "all", "any", "count_nonzero"):
    CALLS[_name] = WITH_AXES
for _name in ("cumsum", "cumprod", "argmax", "argmin"):
    CALLS[_name] = ALONG

BINARY: list[Call] = [
    lambda f, a: f(a, a[::1].copy()), lambda f, a: f(a, a[:, :1]), lambda f, a: f(a, 2), lambda f, a: f(3, a), lambda f, a: f(a, 1.5), lambda f, a: f(a, True),
    lambda f, a: f(a, np.float32(2)), lambda f, a: f(a, np.int64(2)), lambda f, a: f(a, a.astype(np.int32)), lambda f, a: f(a, a.astype(np.float32)),
    lambda f, a: f(a, [1, 2, 3, 4]), lambda f, a: f(a[0, 1], a), lambda f, a: f(a, a[1, 1]),
]  # fmt: skip


def calls_of(name: str) -> tuple[Any, list[Call]]:
    """Return a NumPy function, and the ways to call it with an array."""
    if name in FUNCTIONS:
        return named(name), CALLS.get(name, ONE)
    ufunc = getattr(np, name)
    if ufunc is np.matmul:
        return ufunc, [lambda f, a: f(a, a.T), lambda f, a: f(a[0], a[1]), lambda f, a: f(a[None], a.T), lambda f, a: f(a, a[0])]
    return ufunc, BINARY if ufunc.nin == 2 else ONE


NAMES = (*FUNCTIONS, *dict.fromkeys(ufunc.__name__ for ufunc in UFUNCS))

SQUARE: list[Call] = [lambda f, a: f(a[:3, :3] * 1.0 + np.eye(3) * 20)]
PAIRS: list[Call] = [lambda f, a: f(a[0], a[1]), lambda f, a: f(a[0], [1, 2, 3])]
OF_ONE: list[Call] = [lambda f, a: f(a[0])]
BY_NUMPY_CALLS: dict[str, list[Call]] = {
    "bincount": [lambda f, a: f(a[0]), lambda f, a: f(a[1], minlength=5), lambda f, a: f(a[0], weights=a[1])],
    "histogram": [lambda f, a: f(a), lambda f, a: f(a, bins=4, range=(0, 9)), lambda f, a: f(a, [0, 3, 9])],
    "digitize": [lambda f, a: f(a, [1, 4])], "interp": [lambda f, a: f(a, [0, 20], [1.0, 2.0])], "isin": [lambda f, a: f(a, [1, 4])],
    "unique": [lambda f, a: f(a % 3), lambda f, a: f(a % 3, return_index=True, return_inverse=True), lambda f, a: f(a, axis=0)],
    "nanpercentile": [lambda f, a: f(a, 30)], "nanquantile": [lambda f, a: f(a, [0.3, 0.4], axis=0)], "polyval": [lambda f, a: f([1, 2], a)],
    "convolve": [lambda f, a: f(a[0], a[1, :2]), lambda f, a: f(a[0], a[1], "same")], "correlate": [lambda f, a: f(a[0], a[1, :2])],
    "cross": [lambda f, a: f(a[0, :3], a[1, :3])], "polyfit": [lambda f, a: f(a[0], a[1], 1)], "argpartition": [lambda f, a: f(a, 1)],
    "partition": [lambda f, a: f(a, 1)], "extract": [lambda f, a: f(a > 3, a)], "compress": [lambda f, a: f([True, False, True], a, axis=0)],
    "select": [lambda f, a: f([a > 5, a > 3], [a, a * 2], 7)], "piecewise": [lambda f, a: f(a, [a > 3], [1, 2])],
    "choose": [lambda f, a: f((a > 3).astype(int), [a, -a])], "append": [lambda f, a: f(a, 1), lambda f, a: f(a, a, axis=0)],
    "insert": [lambda f, a: f(a, 1, 7), lambda f, a: f(a, [0, 2], 7, axis=0)], "delete": [lambda f, a: f(a, 1), lambda f, a: f(a, [0, 1], axis=1)],
    "resize": [lambda f, a: f(a, (2, 2))], "block": [lambda f, a: f([[a, a], [a, a]])], "unravel_index": [lambda f, a: f(a.argmax(), a.shape)],
    "ravel_multi_index": [lambda f, a: f((a[0] % 2, a[1] % 2), (2, 2))], "packbits": [lambda f, a: f(a > 3)], "unpackbits": [lambda f, a: f(a.astype("u1"))],
    "linspace": [lambda f, a: f(0, a.max(), 4)], "logspace": [lambda f, a: f(0, a[0, 1] / 12, 4)], "geomspace": [lambda f, a: f(1, a.max(), 4)],
    "full": [lambda f, a: f((2, 2), a.max())], "r_": [lambda f, a: np.r_[a[0], 1]], "c_": [lambda f, a: np.c_[a[0], a[1]]],
    "vander": [lambda f, a: f(a[0], 3)], "linalg.multi_dot": [lambda f, a: f([a, a.T, a])], "linalg.lstsq": [lambda f, a: f(a, a[:, 0])],
    "linalg.solve": [lambda f, a: f(a[:3, :3] + np.eye(3) * 20, a[:3, 0] * 1.0)], "linalg.matrix_power": [lambda f, a: f(a[:3, :3], 3)],
    "linalg.tensorsolve": [lambda f, a: f(a[:3, :3] + np.eye(3) * 20, a[:3, 0])], "linalg.tensorinv": [lambda f, a: f(a[:3, :3] + np.eye(3) * 20, ind=1)],
    "linalg.svd": [lambda f, a: f(a, compute_uv=False)], "linalg.vecdot": PAIRS, "linalg.outer": PAIRS, "linalg.matmul": [lambda f, a: f(a, a.T)],
    "linalg.cross": [lambda f, a: f(a[0, :3], a[1, :3])], "linalg.qr": [lambda f, a: abs(f(a)[1])], "linalg.eigh": [lambda f, a: f(a[:3, :3] + a[:3, :3].T)[0]],
    "diag_indices_from": [lambda f, a: f(a[:3, :3])], "nanargmax": ALONG, "nanargmin": ALONG, "trapezoid": [lambda f, a: f(a), lambda f, a: f(a, dx=2)],
    "gradient": [lambda f, a: f(a), lambda f, a: f(a, axis=1), lambda f, a: f(a[0], 2)], "average": [lambda f, a: f(a), lambda f, a: f(a, 0, a)],
    **dict.fromkeys(("linalg.inv", "linalg.det", "linalg.cholesky", "linalg.slogdet", "linalg.cond", "linalg.eigvalsh"), SQUARE),
    **dict.fromkeys(("histogram2d", "union1d", "intersect1d", "setdiff1d", "setxor1d", "allclose", "array_equal", "array_equiv", "polyadd", "polymul",
                     "polysub", "lexsort"), PAIRS),
    **dict.fromkeys(("trim_zeros", "diagflat", "polyder", "polyint", "cumulative_sum", "cumulative_prod"), OF_ONE),
}  # fmt: skip
"""Calls of functions that NumPy computes in the graph."""


def by_numpy(name: str) -> tuple[Any, list[Call]]:
    """Return a function that NumPy computes in the graph, or None if this NumPy has none of that name, and the ways to call it with an array."""
    return (named(name) if exists(name) else None), BY_NUMPY_CALLS.get(name, ONE)
