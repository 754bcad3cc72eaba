"""Operators whose results' sizes depend on data, and whose results on tensors without data (torch 2.11 to 2.15) have other sizes or strides than real ones.

torch.unique and torch.unique_consecutive along a dimension: the sizes are wrong where it is counted from the end. The strides, which code compiled by Inductor
checks, are wrong for all dimensions but the first. torch.masked_select: the size is at most the number of the tensor's elements, though a mask of more
dimensions selects each of them several times.
"""

from __future__ import annotations

from typing import Any

import torch

from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState
from framejit.torch_state.symbols import is_true


@rule(Phase.REPLACE)
def look_along_first_dimension(state: TraceState, operation: OperatorCall) -> None:
    """Count the dimension from the start. For AOTAutograd, let the operator look along the first dimension of a tensor whose dimensions were moved."""
    if operation.name == "unique":
        place = 4  # of `dim` among the arguments, which are those of the function and of the method
    elif operation.name == "unique_consecutive":
        place = 3
    else:
        return
    if operation.is_fixed or not operation.fakes:
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


@rule(Phase.REPLACE)
def select_from_all_elements(state: TraceState, operation: OperatorCall) -> None:
    """Let torch.masked_select select from the tensor as it is broadcast to the mask."""
    if operation.name != "masked_select" or operation.is_fixed or operation.kwargs.get("out") is not None or len(operation.fakes) != 2:
        return
    sizes, others = (fake.shape for fake in operation.fakes)
    if len(sizes) != len(others) or not all(is_true(size == other) for size, other in zip(sizes, others)):
        operation.op, operation.target = "call_function", selected


def selected(input: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.masked_select(*torch.broadcast_tensors(input, mask))
