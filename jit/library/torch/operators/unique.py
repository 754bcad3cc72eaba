"""torch.unique and torch.unique_consecutive along a dimension: their results on tensors without data have other sizes or strides than those of real tensors.

With torch 2.11 to 2.15 the sizes are wrong where a dimension is counted from the end. The strides, which code compiled by Inductor checks, are wrong for all
dimensions but the first.
"""

from __future__ import annotations

from typing import Any

import torch

from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState

PLACES = {"unique": 4, "unique_consecutive": 3}
"""The place of `dim` among the arguments of an operator, which are those of the function and of the method."""


@rule(Phase.REPLACE)
def look_along_first_dimension(state: TraceState, operation: OperatorCall) -> None:
    """Count the dimension from the start. For AOTAutograd, let the operator look along the first dimension of a tensor whose dimensions were moved."""
    place = PLACES.get(operation.name)
    if place is None or operation.is_fixed or not operation.fakes:
        return
    args, dimensions = operation.fake_args, operation.fakes[0].dim()
    given = args[place] if len(args) > place else operation.fake_kwargs.get("dim")
    if given is None or not -dimensions <= given < dimensions:
        return
    dim = int(given) % dimensions  # a number that varies becomes a constant here, as in the operator
    more: dict[str, Any] = {"dim": dim}
    if dim and state.is_one_autograd_node:
        more |= {"operator": operation.name, "is_method": operation.op == "call_method"}
        operation.op, operation.target = "call_function", along_first
    operation.args, operation.fake_args = operation.args[:place], operation.fake_args[:place]
    operation.kwargs, operation.fake_kwargs = {**operation.kwargs, **more}, {**operation.fake_kwargs, **more}


def along_first(input: torch.Tensor, *args: Any, operator: str, is_method: bool, dim: int, **kwargs: Any) -> Any:
    """Call the operator, one of torch's functions or methods, for the first dimension of a view. A function with positional arguments may return other results
    than the method."""
    view = input.movedim(dim, 0)
    results = getattr(view, operator)(*args, dim=0, **kwargs) if is_method else getattr(torch, operator)(view, *args, dim=0, **kwargs)
    return (results[0].movedim(0, dim), *results[1:]) if isinstance(results, tuple) else results.movedim(0, dim)
