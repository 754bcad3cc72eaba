"""Operators by which a graph draws tensors from the program's own torch.Generators. They are functions of a generator's state (generator_states.py)."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import torch

from framejit.library.random.generator_states import TORCH
from framejit.torch_state.own_operators import declare_operator

DEFAULT_SEED = torch.Generator().initial_seed()
ENUMERATIONS = (torch.dtype, torch.layout, torch.memory_format)


@declare_operator("checked_state(Tensor state) -> Tensor")
def checked_state(state: torch.Tensor) -> torch.Tensor:
    """The state of a generator after `set_state(state)`."""
    return TORCH.made(state).get_state()


@declare_operator("draw_from(Tensor state, str call, Tensor[] tensors, SymInt[] numbers) -> (Tensor, Tensor)")
def draw_from(state: torch.Tensor, call: str, tensors: Sequence[torch.Tensor], numbers: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The result of a call of one of torch's functions that draws, and the generator's next state. `call`: see `DrawCall`."""
    generator = TORCH.made(state)
    return called(call, tensors, numbers, generator), generator.get_state()


@checked_state.fake
def fake_checked_state(state: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(state)


@draw_from.fake
def fake_draw_from(state: torch.Tensor, call: str, tensors: Sequence[torch.Tensor], numbers: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    return called(call, tensors, numbers, None), torch.empty_like(state)


DRAW_FROM, CHECKED_STATE = draw_from.overload, checked_state.overload


class DrawCall:
    """A call of a function that draws, as text: a name, and the arguments as JSON. Its tensors and symbolic ints are stored separately.

    The name is that of a function in `torch`, or, after a dot, of a method. Values that JSON doesn't have become an object with one key: `{"tensor": 0}`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: list[Any] = []
        self.numbers: list[Any] = []

    def tensor(self, tensor: Any) -> dict[str, int]:
        """The placeholder for a tensor in the text."""
        self.tensors.append(tensor)
        return {"tensor": len(self.tensors) - 1}

    def number(self, number: Any) -> dict[str, int]:
        """The placeholder for a symbolic int in the text."""
        self.numbers.append(number)
        return {"number": len(self.numbers) - 1}

    def constant(self, value: Any) -> Any:
        """The representation of another argument in the text. Raises TypeError if it can't be in the text."""
        if value is None or type(value) in (bool, int, float):
            return value
        if type(value) is str:
            return {"text": value}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        if isinstance(value, ENUMERATIONS):
            return {"torch": str(value).removeprefix("torch.")}
        raise TypeError(value)

    def text(self, args: list[Any], kwargs: dict[str, Any]) -> str:
        """The text of the call with these arguments."""
        return json.dumps([self.name, args, list(kwargs.items())])


@functools.lru_cache(maxsize=256)
def parsed(call: str) -> Any:
    return json.loads(call)


def called(call: str, tensors: Sequence[torch.Tensor], numbers: Sequence[int], generator: torch.Generator | None) -> torch.Tensor:
    """Make a call. A method that draws into its tensor gets an empty one of that form."""

    def filled(part: Any) -> Any:
        if isinstance(part, list):
            return [filled(item) for item in part]
        if not isinstance(part, dict):
            return part
        ((kind, value),) = part.items()
        if kind == "tensor":
            return tensors[value]
        if kind == "number":
            return numbers[value]
        return torch.device(value) if kind == "device" else getattr(torch, value) if kind == "torch" else value

    name, parts, items = parsed(call)
    args, kwargs = filled(parts), {key: filled(part) for key, part in items}
    if generator is not None:  # with None, operators on fakes take no symbolic ints
        kwargs["generator"] = generator
    if not name.startswith("."):
        return getattr(torch, name)(*args, **kwargs)  # type: ignore[no-any-return]
    first, name = args[0], name[1:]
    if name.endswith("_"):
        first = torch.empty_strided(first.size(), first.stride(), dtype=first.dtype, device=first.device)
    return getattr(first, name)(*args[1:], **kwargs)  # type: ignore[no-any-return]
