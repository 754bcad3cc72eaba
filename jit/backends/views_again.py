"""Results of a graph that are views of its inputs or of other results, made again as AOTAutograd makes them, in a process that hasn't loaded it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

functionalization: Any = torch._C._functionalization


class ResultView(NamedTuple):
    """A result of a graph that shares memory with an input or another result, and the steps by which it is made from that.

    Attributes:
        result: its index among the graph's results.
        base: the index of the tensor whose memory it shares, among the inputs if `of_input`, else among the results.
        is_base: whether it is that input itself.
        requires_grad: whether it requires a gradient.
        steps: the views that lead from the base to it; None where its sizes vary: then they are read from what the compiled code has returned.
    """

    result: int
    base: int
    of_input: bool
    is_base: bool
    requires_grad: bool
    steps: tuple[Any, ...] | None


class ResultViews(NamedTuple):
    """The results of a graph that are views. `returned`: the number of its results; the compiled code returns the bases of some of them after these."""

    each: tuple[ResultView, ...]
    returned: int


class HiddenResult:
    """A result which an autograd function must not take for one of its own tensors, since it is a view of something else."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def step_again(name: str, arguments: tuple[Any, ...]) -> Any:
    """One view of torch's functionalization."""
    return getattr(functionalization, name)(arguments)


def mode_again(name: str) -> Any:
    return getattr(functionalization.InverseReturnMode, name)


def bases_of(views: ResultViews, inputs: Sequence[Any]) -> dict[int, Any]:
    """The inputs that some results are views of, by their indices: compiled code empties the list of its inputs."""
    return {view.base: inputs[view.base] for view in views.each if view.of_input}


def with_views(views: ResultViews, bases: dict[int, Any], returned: Sequence[Any]) -> list[Any]:
    """The graph's results, from what its compiled code has returned."""
    plain = [each.tensor if type(each) is HiddenResult else each for each in returned]
    results = plain[: views.returned]
    for view in views.each:
        base = bases[view.base] if view.of_input else plain[view.base]
        results[view.result] = base if view.is_base else view_again(view, base, plain[view.result])
    return results


def view_again(about: ResultView, base: torch.Tensor, returned: torch.Tensor) -> torch.Tensor:
    if about.steps is not None:
        found = functionalization.apply_view_meta_sequence(base, list(about.steps))
    else:
        if base.is_complex() != returned.is_complex():
            base = torch.view_as_real(base) if base.is_complex() else torch.view_as_complex(base)
        found = base.as_strided(returned.size(), returned.stride(), returned.storage_offset())
        found = found if found.dtype is returned.dtype else found.view(returned.dtype)
    if found.requires_grad and not about.requires_grad:
        return found.detach()
    return found.requires_grad_() if about.requires_grad and not found.requires_grad else found
