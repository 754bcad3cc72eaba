"""The form of a library's program, the two programs that a model is, and the table in which the programs of a file register themselves.

A program is a generator function. Its argument compiles what the program's author would compile (a function, a step, a model), and gives it back unchanged in
eager; the program yields what its user sees of each call, and in the end what the calls have changed. A row of the page is named after it, and its docstring
says what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

Compile = Callable[[Any], Any]
Program = Callable[[Compile], Iterator[Any]]
Loss = Callable[..., torch.Tensor]
Batch = tuple[Any, ...]

PROGRAMS: dict[str, Program] = {}
"""The programs of the libraries that are imported, by `library:name`."""
KINDS = {"forward": "{}: three calls in evaluation mode", "steps": "{}: four training steps, the step compiled"}
"""The programs that a model is, and their descriptions."""


def program(run: Program) -> Program:
    """Registers a program under the name of its file and its own."""
    PROGRAMS[f"{run.__module__.rpartition('.')[2]}:{run.__name__}"] = run
    return run


def model(inputs: Callable[[int], Batch], loss: Loss) -> Callable[[Callable[[], nn.Module]], Callable[[], nn.Module]]:
    """Registers two programs for a function that builds a model: NAME_forward calls it, NAME_steps trains it.

    Args:
        inputs: the arguments of a call, by its number from 0 to 3. Sizes vary.
        loss: the loss of a training step, of the model and the arguments. Its first argument alone is what calls the model where a call is no more than that.
    """

    def register(build: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        def forward(compiled: Compile) -> Iterator[Any]:
            call = compiled(build().eval())
            for turn in range(3):
                arguments = inputs(turn)
                with torch.no_grad():
                    result = call(*arguments)
                yield result

        def steps(compiled: Compile) -> Iterator[Any]:
            return training(compiled, build(), loss, (inputs(turn) for turn in range(4)))

        for run in (forward, steps):
            run.__module__, run.__name__ = build.__module__, f"{build.__name__}_{run.__name__}"
            program(run)
        return build

    return register


def training(compiled: Compile, subject: nn.Module, loss: Loss, batches: Iterable[Batch], optimizer: torch.optim.Optimizer | None = None) -> Iterator[Any]:
    """Training steps, compiled whole, with AdamW if no other optimizer is given."""
    subject.train()
    chosen = optimizer or torch.optim.AdamW([parameter for parameter in subject.parameters() if parameter.requires_grad], lr=1e-3)

    def step(*batch: Any) -> torch.Tensor:
        chosen.zero_grad()
        value = loss(subject, *batch)
        value.backward()
        chosen.step()
        return value.detach()

    call = compiled(step)
    for batch in batches:
        yield call(*batch)
    yield subject, chosen
