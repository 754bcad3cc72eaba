"""Numbers shared by all elements of a tensor, which are computed once, before Inductor's loops and not inside them.

An optimizer's step multiplies each parameter by numbers that depend on how many steps there have been: `lr / (1 - beta ** step)`. Inductor writes the
computation of such a number into each loop that reads it, where the C++ compiler leaves a call of `pow` (torch 2.13), which may set `errno`. On CPUs that took
most of the time of Adam's step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from framejit.torch_state.symbols import sympy_functions

aten = torch.ops.aten
COSTLY = frozenset({
    aten.pow.Scalar, aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.exp.default, aten.log.default, aten.sin.default, aten.cos.default, aten.tanh.default,
})  # fmt: skip
"""Operators for which the loops call a function of the C library."""
SCALED = frozenset({aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.sub.Tensor})
"""Operators whose second operand may be a number or a tensor without dimensions, with the same result."""


def compute_once(graph: fx.Graph) -> None:
    """Put numbers that are costly to compute in memory, in a graph of ATen operators, if elements of tensors on the CPU are computed with them."""
    costly: set[fx.Node] = set()
    kept: dict[fx.Node, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        value = node.meta.get("val")
        if is_costly(node, value, costly):
            costly.add(node)
        elif is_on_cpu(value) and value.dim():
            for arg in [arg for arg in node.all_input_nodes if arg in costly]:
                if isinstance(arg.meta["val"], torch.Tensor) or (node.target in SCALED and arg is node.args[1] and not node.kwargs):
                    if arg not in kept:
                        kept[arg] = in_memory(graph, arg)
                    node.replace_input_with(arg, kept[arg])


def is_costly(node: fx.Node, value: Any, costly: set[fx.Node]) -> bool:
    """Return whether a node's result is a number that takes a function of the C library, or is computed from such."""
    if type(value) is torch.SymFloat:
        return bool(value.node.expr.has(sympy_functions.FloatPow))
    return is_number(value) and (node.target in COSTLY or any(arg in costly for arg in node.all_input_nodes))


def is_on_cpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dtype.is_floating_point


def is_number(value: Any) -> bool:
    """Return whether a value is a tensor without dimensions."""
    return is_on_cpu(value) and value.dim() == 0


def in_memory(graph: fx.Graph, number: fx.Node) -> fx.Node:
    """A node with a number as a tensor without dimensions, which Inductor computes before its users, because a view needs its base in memory."""
    value = number.meta["val"]
    with graph.inserting_after(number):
        if not isinstance(value, torch.Tensor):
            number = graph.call_function(aten.scalar_tensor.default, (number,), {"dtype": torch.float64, "device": torch.device("cpu")})
            mode = torch._guards.detect_fake_mode([node.meta.get("val") for node in graph.nodes])
            assert mode is not None
            with mode:
                number.meta["val"] = value = torch.empty((), dtype=torch.float64)
    with graph.inserting_after(number):
        made = graph.call_function(aten.as_strided.default, (number, (), ()))
    made.meta["val"] = value
    return made
