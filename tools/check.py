"""Checking one model: compiled beside eager, from the same weights and the same random state, then timed against it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch

from tools.compilers import Backend, Compiler, Statistics, one_line
from tools.measure import Mismatch, alternate, elapsed, largest_error, seed_everything
from tools.models import Architecture, Example, scalar_loss

# Backends that run the same kernels as eager must also leave torch's random stream where eager leaves it.
SAME_RANDOM_STREAM = ("eager", "aot_eager")
STEPS = 5
# Timing on a shared machine moves by a few per cent: "no slower than eager" allows for that much.
NOISE = 1.05


@dataclass(frozen=True)
class Outcome:
    """The outcome of one check; times are in seconds, and those that weren't reached are None."""

    model: str
    phase: str
    statistics: Statistics = Statistics()
    error: float | None = None
    failure: str = ""
    first_call: float | None = None
    eager: float | None = None
    compiled: float | None = None

    @property
    def speedup(self) -> float | None:
        """Time in eager over time compiled."""
        return self.eager / self.compiled if self.eager and self.compiled else None


def infer(call: Callable[..., Any], example: Example) -> Any:
    """One call without gradients, in evaluation mode."""
    example.model.eval()
    with torch.no_grad():
        return call(*example.args, **example.kwargs)


def train(call: Callable[..., Any], example: Example) -> Any:
    """One forward and backward in training mode: output, loss, gradients and buffers."""
    model = example.model
    model.train()
    model.zero_grad(set_to_none=True)
    output = call(*example.args, **example.kwargs)
    loss = scalar_loss(output)
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {"output": output, "loss": loss, "gradients": gradients, "buffers": dict(model.named_buffers())}


def loop(call: Callable[..., Any], example: Example) -> Any:
    """A training loop of a few optimizer steps: the losses, and the parameters at the end."""
    model = example.model
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = scalar_loss(call(*example.args, **example.kwargs))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": losses, "parameters": dict(model.named_parameters())}


def infer_batches(call: Callable[..., Any], example: Example) -> Any:
    """A call without gradients for each batch, in evaluation mode."""
    example.model.eval()
    with torch.no_grad():
        return [call(**batch) for batch in example.batches]


def epoch(call: Callable[..., Any], example: Example) -> Any:
    """A step of an optimizer for each batch: the losses, and the parameters at the end."""
    model = example.model
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    losses = []
    for batch in example.batches:
        optimizer.zero_grad()
        loss = scalar_loss(call(**batch))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": losses, "parameters": dict(model.named_parameters())}


PHASES: dict[str, Callable[[Callable[..., Any], Example], Any]] = {
    "inference": infer,
    "training": train,
    "loop": loop,
    "batches": infer_batches,
    "epoch": epoch,
}


def check(
    architecture: Architecture, phase: str, compiler: Compiler, backend: Backend, device: str = "cpu", seconds: float = 1.0
) -> Outcome:
    """Runs one phase of a model in eager and compiled, compares the two, and times both.

    Args:
        phase: a key of `PHASES`.
        device: where model and inputs go.
        seconds: how long to time.

    Returns:
        The outcome; its `failure` says what is wrong: the results, the number of graphs, or an exception.
    """
    run = PHASES[phase]
    tolerance = architecture.tolerance * (1 if phase in ("inference", "batches") else 10)
    compiler.reset()
    error = first_call = None
    try:
        reference = architecture.build(device)
        subject = replace(reference, model=copy.deepcopy(reference.model))
        compiled = compiler.compile(subject.model, backend)

        seed_everything()
        expected = run(reference.model, reference)
        stream = torch.get_rng_state()
        seed_everything()
        first_call, actual = elapsed(lambda: run(compiled, subject))

        error = largest_error(expected, actual)
        if not error <= tolerance:
            raise Mismatch(f"error {error:.1e} is above {tolerance:.0e}")
        if backend in SAME_RANDOM_STREAM and not torch.equal(stream, torch.get_rng_state()):
            raise Mismatch("torch's random stream has advanced by another amount than in eager")
        del expected, actual
        both = {"eager": lambda: run(reference.model, reference), "compiled": lambda: run(compiled, subject)}
        times = alternate(both, seconds)
        if times["compiled"] > NOISE * times["eager"]:
            # On a busy machine a short measurement can be off by any factor; a slow result must hold up in a longer one.
            times = alternate(both, 3 * seconds)
    except Exception as exception:
        return Outcome(architecture.name, phase, compiler.statistics(), error, describe(exception), first_call)
    found = compiler.statistics()
    return Outcome(architecture.name, phase, found, error, found.complaint(reference.graphs), first_call, times["eager"], times["compiled"])


@contextlib.contextmanager
def answering(yes: bool) -> Iterator[None]:
    """While this is entered with `yes`, `torch.compiler.is_compiling()` is true in eager code."""
    with mock.patch.object(torch.compiler, "_is_compiling_flag", True) if yes else contextlib.nullcontext():
        yield


def describe(exception: BaseException) -> str:
    """An exception on one line, with its type."""
    text = one_line(str(exception))
    return f"{type(exception).__name__}: {text}" if text else type(exception).__name__
