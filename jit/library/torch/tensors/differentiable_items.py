"""The node of an item that is selected by tensors from one that requires gradients, in the functions that attention calls for each score."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from framejit.graph.on_fakes import stand_in


def differentiable_item(tensor: torch.Tensor, indices: Sequence[torch.Tensor]) -> torch.Tensor:
    """`tensor[indices]`, as attention's operator needs it: that runs its functions in a mode that gives items a backward of their own."""
    return tensor[tuple(indices)]


def item_on_fakes(tensor: torch.Tensor, indices: Sequence[torch.Tensor]) -> torch.Tensor:
    """The item on fakes: without that mode, an index of one element would be asked for its value."""
    return torch.ops.aten.index.Tensor(tensor, indices)


stand_in(differentiable_item, item_on_fakes)
