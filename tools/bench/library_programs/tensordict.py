"""Programs with tensordict: dicts of tensors with a common batch, made, changed and passed through modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDict, tensorclass
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from tools.bench.library_programs.program import Compile, model, program

ROWS = (6, 8, 7, 9)


def nested(turn: int) -> tuple[TensorDict]:
    rows = ROWS[turn]
    return (TensorDict({"a": torch.randn(rows, 4), "b": torch.randn(rows, 3), "nested": {"c": torch.randn(rows, 2)}}, [rows]),)


@program
def construction(compiled: Compile) -> Iterator[Any]:
    """A tensordict that the compiled function makes and fills."""

    @compiled
    def made(a: torch.Tensor, b: torch.Tensor) -> tuple[Any, ...]:
        data = TensorDict({"a": a, "b": {"c": b}}, batch_size=[a.shape[0]])
        data["product"] = a @ b.T
        data.update({"a": a + 1})
        return data, data.batch_size, sorted(data.keys())

    for rows in ROWS[:3]:
        yield made(torch.randn(rows, 4), torch.randn(rows, 4))


@program
def operations(compiled: Compile) -> Iterator[Any]:
    """Copies, selections, apply, stacks, reshapes and flat keys."""

    @compiled
    def computed(data: TensorDict) -> list[Any]:
        data = data.clone()
        data["d"] = data["a"].sum(-1, keepdim=True) + data["b"][:, :1]
        data.set(("nested", "e"), data["nested", "c"] * 2)
        chosen = data.select("a", "d").apply(lambda tensor: tensor + 1)
        stacked = torch.stack([chosen, chosen * 2], 0)
        return [data.exclude("b"), stacked, stacked[0, :2], data.reshape(-1, 1), data.flatten_keys("."), torch.cat([data, data], 0)]

    for turn in range(3):
        yield computed(*nested(turn))


@program
def changes_in_place(compiled: Compile) -> Iterator[Any]:
    """Changes of a tensordict that is given."""

    @compiled
    def changed(data: TensorDict) -> TensorDict:
        data.set_("a", data["a"] + 1)
        data["nested", "c"].mul_(2)
        data.add_(1.0)
        data.pop("b")
        data["x"] = torch.zeros(*data.shape, 1)
        return data

    for turn in range(3):
        yield changed(*nested(turn))


@tensorclass
class Sample:
    """A class of tensors with a common batch."""

    x: torch.Tensor
    y: torch.Tensor
    name: str = "sample"


@program
def classes_of_tensors(compiled: Compile) -> Iterator[Any]:
    """A tensorclass that the compiled function makes, maps and stacks."""

    @compiled
    def made(x: torch.Tensor, y: torch.Tensor) -> list[Any]:
        sample = Sample(x, y, batch_size=[x.shape[0]])
        more = sample.apply(lambda tensor: tensor + 1)
        both = torch.stack([sample, more])
        return [both.x, both[0].y, sample.batch_size, more.x.sum()]

    for rows in ROWS[:3]:
        yield made(torch.randn(rows, 4), torch.randn(rows, 2))


@model(nested, lambda network, data: network(data)["out"].square().mean())
def sequence_of_modules() -> nn.Module:
    """TensorDictSequential of modules with named keys"""
    return TensorDictSequential(
        TensorDictModule(nn.Linear(4, 8), in_keys=["a"], out_keys=["h"]),
        TensorDictModule(nn.Tanh(), in_keys=["h"], out_keys=["h"]),
        TensorDictModule(lambda h, b: (h.sum(-1, keepdim=True) + b.sum(-1, keepdim=True), h), in_keys=["h", "b"], out_keys=["out", ("n", "h")]),
    )


@program
def functional_parameters(compiled: Compile) -> Iterator[Any]:
    """A module called with the parameters of a tensordict."""
    network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    parameters = TensorDict.from_module(network)

    @compiled
    def called(x: torch.Tensor) -> torch.Tensor:
        with parameters.to_module(network):
            return network(x)

    for rows in ROWS[:3]:
        yield called(torch.randn(rows, 4))


@program
def ensemble(compiled: Compile) -> Iterator[Any]:
    """vmap over the stacked parameters of three modules."""
    parameters, base = TensorDict.from_modules(*(nn.Linear(4, 3) for _ in range(3))), nn.Linear(4, 3)

    def one(x: torch.Tensor, own: TensorDict) -> torch.Tensor:
        with own.to_module(base):
            return base(x)

    call = compiled(lambda x: torch.vmap(one, (None, 0))(x, parameters))
    for rows in ROWS[:3]:
        yield call(torch.randn(rows, 4))
