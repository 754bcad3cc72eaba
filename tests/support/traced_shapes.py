"""Programs run on fake tensors with symbolic sizes: what torch's ShapeEnv has decided in them, and the guards that an entry would check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy
import torch
import torch.nn.functional as F
from torch._dynamo.source import LocalSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatefulSymbolicContext


def attention(q: Any, k: Any, v: Any) -> Any:
    batch, length, width = q.shape
    q, k, v = (part.view(batch, -1, 4, width // 4).transpose(1, 2) for part in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)


def convolution(x: Any, weight: Any) -> Any:
    return F.max_pool2d(F.conv2d(x, weight, stride=2, padding=1), 2)


def views(x: Any, y: Any) -> Any:
    joined = torch.cat([x.view(-1, x.size(1)), y], 0).reshape(-1).unsqueeze(0)
    return joined, x if x.size(0) > 3 else y, x.flatten(1) @ y.t()


def slices(x: Any, y: Any) -> Any:
    return x + y, x[:, 1:-1], x[::2], x.chunk(3), x.split(2, 1), x.repeat(2, 1).unfold(0, 3, 2)


def comparisons(x: Any, y: Any) -> Any:
    n, m = x.size(0), y.size(0)
    if n % 4 == 0 and n // 2 > 3:
        x = x.view(n // 4, 4, -1)
    if max(n, m) > 5:
        y = y * 2
    if n * m != 7 and (n - 20) // 3 == -3 and abs(n - 20) > 2 and n << 1 > 3 and n / 2 > 1.5 and int(m * 1.5) > 9:
        y = y + 1
    return x, y, torch.empty(n & 7)


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, ...]]]] = {
    "attention": (attention, {"q": (3, 6, 16), "k": (3, 6, 16), "v": (3, 6, 16)}),
    "convolution": (convolution, {"x": (2, 3, 17, 19), "weight": (5, 3, 3, 3)}),
    "views": (views, {"x": (4, 6), "y": (5, 6)}),
    "slices": (slices, {"x": (6, 7), "y": (1, 7)}),
    "comparisons": (comparisons, {"x": (12, 5), "y": (7, 5)}),
}
"""Programs, and sizes of the tensors that they are run on."""


@dataclass(frozen=True)
class TracedShapes:
    """The guards and ranges that an entry would check, and the decisions of its trace."""

    guards: list[Any]
    ranges: dict[Any, tuple[Any, Any]]
    decisions: list[tuple[Any, Any, str]]


def traced(name: str) -> TracedShapes:
    """Run a program on fake tensors, each of whose sizes is a symbol; return the guards and decisions."""
    program, inputs = PROGRAMS[name]
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    fakes = [mode.from_tensor(torch.zeros(sizes), symbolic_context=dynamic(source, sizes), source=source) for source, sizes in sources(inputs)]
    with mode:
        program(*fakes)
    replaced = [sympy.Eq(symbol, expression, evaluate=False) for symbol, expression in env.replacements.items()]
    ranges = {symbol: (found.lower, found.upper) for symbol, found in env.var_to_range.items()}
    return TracedShapes([*env.get_nontrivial_guards(), *replaced], ranges, [(guard.expr, None, str(guard.expr)) for guard in env.guards])


def sources(inputs: dict[str, tuple[int, ...]]) -> list[tuple[LocalSource, tuple[int, ...]]]:
    return [(LocalSource(name), sizes) for name, sizes in inputs.items()]


def dynamic(source: LocalSource, sizes: tuple[int, ...]) -> StatefulSymbolicContext:
    """Each size is a symbol of its own, and strides follow from sizes."""
    dims = len(sizes)
    return StatefulSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC] * dims,
        dynamic_strides=[DimDynamic.INFER_STRIDE] * dims,
        constraint_sizes=[None] * dims,
        constraint_strides=[None] * dims,
        view_base_context=None,
        tensor_source=source,
        shape_env_to_source_to_symbol_cache={},
    )
