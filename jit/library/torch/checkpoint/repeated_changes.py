"""Running statistics that a checkpoint changes a second time in the backward pass, when it computes its function again.

In a graph for AOTAutograd, the checkpointed function changes nothing, and an operator after it makes the changes of the forward pass. An operator of the
backward graph makes them a second time, on the tensors that exist by then. The graph gets these as tokens (tokens.py), so that it doesn't treat them as its
own tensors. If the backward pass is in the graph too, that is an ordinary operator of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx
from torch.utils.hooks import RemovableHandle

from framejit.graph.gradient_paths import leads_to
from framejit.graph.tokens import of_token
from framejit.graph.trace_state import TraceState
from framejit.quick_dataclass import dataclass
from framejit.torch_state.own_operators import declare_operator


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """The sizes of the changes of successive BatchNorms: the momenta of their running statistics, and the `steps` by which their counters of batches grow."""

    momenta: tuple[float, ...]
    steps: tuple[int, ...]


def changing_again_(
    how: BatchStatistics,
    results: Sequence[torch.Tensor],
    batches: Sequence[torch.Tensor],
    means: Sequence[torch.Tensor],
    variances: Sequence[torch.Tensor],
    counters: Sequence[torch.Tensor],
) -> list[RemovableHandle]:
    """Have the backward pass change statistics as soon as one of these results has a gradient. `means`, `variances` and `counters` are tokens.

    The function's name ends in an underscore because it changes the results: their autograd record.
    """
    done: list[bool] = []

    def change(gradient: torch.Tensor) -> torch.Tensor | None:
        if done:
            return None
        done.append(True)
        return torch.ops.framejit.change_statistics(  # type: ignore[no-any-return]
            gradient, [batch.detach() for batch in batches], list(means), list(variances), list(how.momenta), list(counters), list(how.steps)
        )

    return [result.register_hook(change) for result in results if result.requires_grad]


def not_changing_again_(handles: Sequence[RemovableHandle]) -> None:
    """Undo `changing_again_`."""
    for handle in handles:
        handle.remove()


def change_(
    how: BatchStatistics, batches: Sequence[torch.Tensor], means: Sequence[torch.Tensor], variances: Sequence[torch.Tensor], counters: Sequence[torch.Tensor]
) -> None:
    """Change statistics in the graph: the checkpointed function only normalises there."""
    with torch.no_grad():
        for counter, step in zip(counters, how.steps, strict=True):
            counter.add_(step)
        for batch, mean, variance, momentum in zip(batches, means, variances, how.momenta, strict=True):
            F.batch_norm(batch.detach(), mean, variance, training=True, momentum=momentum)


def change_again_(*args: Any) -> None:
    """Change statistics at the beginning of the graph's own backward pass."""
    change_(*args)


@dataclass(frozen=True, slots=True)
class Repeating:
    """The nodes of a graph that make a backward pass change statistics again.

    Attributes:
        results: the nodes whose gradients make it do so.
        handles: the node of `changing_again_`.
        now: the arguments of `change_`.
    """

    results: tuple[fx.Node, ...]
    handles: fx.Node
    now: tuple[Any, ...]

    def follows(self, fake: torch.Tensor) -> bool:
        """Return whether a backward pass from a fake reaches the results."""
        return leads_to(fake, [result.meta["example_value"].grad_fn for result in self.results])

    def is_reached(self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> bool:
        """Return whether a backward pass of fakes from `outputs` to `inputs` reaches the results."""
        reached: list[torch.Tensor] = []
        handles = [result.meta["example_value"].register_hook(reached.append) for result in self.results]
        try:
            torch.autograd.grad(outputs, inputs, [torch.zeros_like(output) for output in outputs], retain_graph=True, allow_unused=True)
        except RuntimeError:
            return False  # the program's backward pass can't run either
        finally:
            not_changing_again_(handles)
        return bool(reached)


class RepeatedChanges:
    """The changes that backward passes after the graph make again; those that a backward pass in the graph has made are removed."""

    def __init__(self, state: TraceState) -> None:
        self._trail = state.trail
        self.left: tuple[Repeating, ...] = ()

    def add(self, change: Repeating) -> None:
        """Note that the present instruction makes a backward pass change statistics again."""
        self._trail.set(self, "left", (*self.left, change))

    def remove(self, change: Repeating) -> None:
        """Note that a backward pass in the graph has made a change again."""
        self._trail.set(self, "left", tuple([other for other in self.left if other is not change]))


@declare_operator(
    "change_statistics(Tensor gradient, Tensor[] batches, Tensor[] means, Tensor[] variances, float[] momenta, Tensor[] counters, int[] steps) -> Tensor"
)
def change_statistics(
    gradient: torch.Tensor,
    batches: Sequence[torch.Tensor],
    means: Sequence[torch.Tensor],
    variances: Sequence[torch.Tensor],
    momenta: Sequence[float],
    counters: Sequence[torch.Tensor],
    steps: Sequence[int],
) -> torch.Tensor:
    """Change the tensors that tokens stand for. Returns the gradient, in memory of its own."""
    for token, step in zip(counters, steps, strict=True):
        of_token(token).add_(step)
    for batch, mean, variance, momentum in zip(batches, means, variances, momenta, strict=True):
        changed = of_token(mean), of_token(variance)
        torch.batch_norm_update_stats(batch, *changed, momentum)
        torch.autograd.graph.increment_version(changed)
    return gradient.clone()


@change_statistics.fake
def fake_change_statistics(gradient: torch.Tensor, *args: object) -> torch.Tensor:
    return torch.empty_like(gradient)
