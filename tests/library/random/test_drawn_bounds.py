"""Numbers that are drawn are known to be in range as long as nothing is written to what was drawn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from agreement import agree

IN_THE_PLACE_OF_EAGER = ("eager", "aot_eager")


def in_place(drawn: torch.Tensor) -> torch.Tensor:
    return drawn.add_(20)


def in_a_copy(drawn: torch.Tensor) -> torch.Tensor:
    copied = drawn.clone()
    copied.add_(20)
    return copied


def by_data(drawn: torch.Tensor) -> torch.Tensor:
    drawn.data.add_(20)
    return drawn


def in_a_list(drawn: torch.Tensor) -> torch.Tensor:
    torch._foreach_add_([drawn], 20)
    return drawn


@pytest.mark.parametrize("change", [in_place, in_a_copy, by_data, in_a_list])
@pytest.mark.parametrize("draw", [lambda: torch.randint(0, 5, (2,)), lambda: torch.randperm(5)])
def test_what_is_drawn_is_changed(draw: Callable[[], torch.Tensor], change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        place = change(draw())[0].item()
        return x[place]

    agree(chosen, torch.arange(5.0), fullgraph=False)  # an IndexError, with the place in its text
    agree(chosen, torch.arange(30.0), fullgraph=False)


def test_what_was_drawn_is_changed_later() -> None:
    def chosen(x: torch.Tensor) -> tuple[torch.Tensor, int, torch.Tensor]:
        drawn = torch.randperm(5)
        place = drawn[0].item()
        drawn.add_(5)
        return x[place], place, drawn

    agree(chosen, torch.arange(5.0))
