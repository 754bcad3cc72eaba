"""Makes a tensor from a list of ints some of which are symbolic. torch's own function would ask for the value of each while it is traced."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from framejit.torch_state.own_operators import declare_operator


@declare_operator("tensor_of_ints(SymInt[] values) -> Tensor")
def made_of(values: Sequence[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64, device="cpu")


@made_of.fake
def fake_made_of(values: Sequence[int]) -> torch.Tensor:
    return torch.empty(len(values), dtype=torch.int64, device="cpu")


def tensor_of_ints(values: Sequence[int]) -> torch.Tensor:
    """A CPU tensor with one dimension. If the ints are known, torch itself makes it, and raises for those that don't fit."""
    if any(isinstance(value, torch.SymInt) for value in values):
        if torch.compiler.is_exporting():  # an exported program runs without framejit
            return torch.stack([torch.full((), value, dtype=torch.int64, device="cpu") for value in values])
        return made_of(values)  # type: ignore[no-any-return]
    return made_of.run(values)  # type: ignore[no-any-return]
