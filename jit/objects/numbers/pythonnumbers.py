"""An operator that calls Python's functions on numbers: `math.exp(loss.item())`, `int(random.random() * n)`, `norm.item() ** 2`.

Such a function may fail. The operator also returns whether it has succeeded, which the graph checks: if not, the call runs uncompiled, and Python raises.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from framejit.objects.numbers.numberobject import sum_of
from framejit.torch_state.own_operators import declare_operator

OF_ONE = frozenset({
    "sqrt", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "erfc", "radians",
    "degrees", "fabs", "floor", "ceil", "trunc",
})  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"math.{name}": getattr(math, name) for name in OF_ONE}, "math.pow": math.pow, "math.hypot": math.hypot, "math.atan2": math.atan2,
    "int": int, "round": round, "abs": abs, "max": max, "min": min, "sum": sum_of, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "**": operator.pow,
}  # fmt: skip
"""The functions that a node may compute."""
TYPES: dict[type, torch.dtype] = {int: torch.int64, float: torch.float64}


@declare_operator("python(str function, Tensor[] numbers, ScalarType dtype) -> (Tensor, Tensor)")
def run(function: str, numbers: Sequence[torch.Tensor], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The result of a function of some numbers, and whether it is a number of this type."""
    try:
        found = FUNCTIONS[function](*[number.item() for number in numbers])
        if TYPES.get(type(found)) is dtype:
            return torch.tensor(found, dtype=dtype), torch.tensor(True)
    except (ArithmeticError, ValueError, RuntimeError):  # RuntimeError: torch has no such number
        pass
    return torch.zeros((), dtype=dtype), torch.tensor(False)


@run.fake
def on_fakes(function: str, numbers: Sequence[torch.Tensor], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty((), dtype=dtype, device="cpu"), torch.empty((), dtype=torch.bool, device="cpu")


PYTHON = run.overload
