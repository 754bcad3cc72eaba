"""The operator that computes an autograd.Function for all items at once, by the Function's own `vmap` method, in a graph that torch.vmap maps."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """A traced `vmap` method.

    Attributes:
        graph: takes tensors, the mapped ones with their items along the first dimension.
        mapped: for each tensor, whether it is mapped.
        out_dims: for each result, the dimension of its items; None for a result that all items share.
        size: how many items there are.
    """

    graph: fx.GraphModule
    mapped: tuple[bool, ...]
    out_dims: tuple[int | None, ...]
    size: Any

    def all_items(self, tensors: tuple[Any, ...], dims: tuple[int | None, ...]) -> Any:
        """The results for all items of tensors that are mapped along these dimensions."""
        given = [self.items(tensor, dim, mapped) for tensor, dim, mapped in zip(tensors, dims, self.mapped)]
        return self.graph.forward(*given, *tensors[len(self.mapped) :])

    def items(self, tensor: torch.Tensor, dim: int | None, mapped: bool) -> torch.Tensor:
        """A tensor in the form that the graph takes."""
        if dim is not None:
            return tensor.movedim(dim, 0).contiguous()
        return tensor.expand(self.size, *tensor.shape).contiguous() if mapped else tensor


class MappedByRule(torch.autograd.Function):
    """Gives the program's transforms the results of a traced `vmap` method. Within the `vmap` these can't be differentiated: another operator attaches the
    Function's backward to them."""

    @staticmethod
    def forward(rule: Rule, *tensors: Any) -> Any:
        """One item's results, if nothing is mapped, as with fakes while tracing."""
        results = rule.all_items(tensors, (None,) * len(tensors))
        return tuple([result if dim is None else result.select(dim, 0) for result, dim in zip(results, rule.out_dims)])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.mark_non_differentiable(*output)
        ctx.count, ctx.results = len(inputs), len(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None,) * ctx.count

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return (None,) * ctx.results

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], rule: Rule, *tensors: Any) -> Any:
        return tuple(rule.all_items(tensors, in_dims[1:])), rule.out_dims


def mapped_by_rule(
    graph: fx.GraphModule, mapped: tuple[bool, ...], out_dims: tuple[int | None, ...], size: Any, tensors: tuple[Any, ...], free: tuple[Any, ...]
) -> Any:
    """Call MappedByRule: the function that a node calls. `free`: what the graph takes besides its arguments."""
    return MappedByRule.apply(Rule(graph, mapped, out_dims, size), *tensors, *free)
