"""`ExampleInputs`, the arguments of a call in which some sizes and ints vary: their names, their positions, and how to make others like them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from framejit.errors import BadArgument, suggestion
from framejit.guards.dynamic import RANGES, STATIC_MARK, marks
from framejit.quick_dataclass import dataclass

Position = tuple[Any, ...]
"""The position of a value among the arguments of a call: the number or the name of the argument, then indices and keys."""
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class VaryingTensor:
    """A tensor among the arguments with sizes that vary. `name`: the name of the tensor; `symbols`: the names of its varying sizes, by dimension."""

    name: str
    example: torch.Tensor
    positions: tuple[Position, ...]
    symbols: Mapping[int, str]

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The tensor's sizes, of which those that vary are taken from `sizes`."""
        return tuple(sizes[self.symbols[dim]] if dim in self.symbols else size for dim, size in enumerate(self.example.shape))


@dataclass(frozen=True)
class VaryingInt:
    """An int among the arguments that varies. `symbol`: its name."""

    example: int
    positions: tuple[Position, ...]
    symbol: str


class ExampleInputs:
    """The arguments of an example call, and the sizes and ints that vary in them.

    Attributes:
        args, kwargs: the arguments of the example.
        tensors, ints: the tensors with varying sizes, and the varying ints. A tensor that is given several times counts once.
        sizes: the varying sizes and ints by name ("x.size(0)", "n"), with their values in the example.
        bounds: the smallest and the largest value of each; None if there is no bound. Sizes that `mark_dynamic` has marked have its range.
    """

    def __init__(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Any) -> None:
        self.args = args
        self.kwargs = kwargs
        names = argument_names(target, args, kwargs)
        named = {name: (position, value) for argument in names for name, position, value in leaves(names[argument], (argument,), self._argument(argument))}
        chosen = chosen_by(dynamic, named)
        tensors: dict[int, VaryingTensor] = {}
        self.ints: list[VaryingInt] = []
        for name, (position, value) in named.items():
            if name not in chosen:
                continue
            if not isinstance(value, torch.Tensor):
                self.ints.append(VaryingInt(value, (position,), name))
                continue
            known = tensors.get(id(value)) or VaryingTensor(name, value, (), {})
            symbols = {dim: known.symbols.get(dim, f"{name}.size({dim})") for dim in sorted({*known.symbols, *chosen[name]})}
            tensors[id(value)] = VaryingTensor(known.name, value, (*known.positions, position), symbols)
        self.tensors = [tensor for tensor in tensors.values() if tensor.symbols]
        self.sizes = {symbol: tensor.example.size(dim) for tensor in self.tensors for dim, symbol in tensor.symbols.items()}
        self.bounds: dict[str, tuple[int | None, int | None]] = {
            symbol: declared(tensor.example, dim) for tensor in self.tensors for dim, symbol in tensor.symbols.items()
        }
        self.sizes |= {number.symbol: number.example for number in self.ints}
        self.bounds |= {number.symbol: (None, None) for number in self.ints}

    def _argument(self, argument: int | str) -> Any:
        return self.args[argument] if isinstance(argument, int) else self.kwargs[argument]

    def elements(self, sizes: Mapping[str, int]) -> int:
        """The number of elements that the tensors with varying sizes have together."""
        return sum(math.prod(tensor.shape(sizes)) for tensor in self.tensors)

    def make(self, sizes: Mapping[str, int], seed: int = 0) -> tuple[Arguments, list[torch.Tensor]]:
        """Arguments with these sizes, and the tensors of `tensors` among them.

        Tensors with varying sizes are new, other tensors and lists, tuples and dicts are copied, and everything else is the example's own.
        """
        generator = torch.Generator().manual_seed(seed)
        made = [tensor_like(tensor.example, tensor.shape(sizes), generator) for tensor in self.tensors]
        new = {position: tensor for tensor, like in zip(made, self.tensors, strict=True) for position in like.positions}
        numbers = {position: sizes[number.symbol] for number in self.ints for position in number.positions}
        copies: dict[int, torch.Tensor] = {}

        def copied(position: Position, value: Any) -> Any:
            if position in new:
                return new[position]
            if position in numbers:
                return numbers[position]
            if type(value) is dict:
                return {key: copied((*position, key), item) for key, item in value.items()}
            if type(value) in (list, tuple):
                return type(value)(copied((*position, index), item) for index, item in enumerate(value))
            if type(value) is torch.Tensor and value.layout is torch.strided:
                if id(value) not in copies:
                    copies[id(value)] = value.detach().clone().requires_grad_(value.requires_grad)
                return copies[id(value)]
            return value

        args = tuple(copied((number,), value) for number, value in enumerate(self.args))
        return (args, {name: copied((name,), value) for name, value in self.kwargs.items()}), made


def tensor_like(example: torch.Tensor, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """A contiguous tensor of this shape, with elements drawn from those of the example; zeros where that has none."""
    values, count = example.detach().reshape(-1), math.prod(shape)
    if values.numel():
        places = torch.randint(values.numel(), (count,), generator=generator, device="cpu").to(example.device)
        made = values[places].reshape(tuple(shape))
    else:
        made = torch.zeros(tuple(shape), dtype=example.dtype, device=example.device)
    return made.requires_grad_(example.requires_grad)


def declared(tensor: torch.Tensor, dim: int) -> tuple[int, int | None]:
    """The range of a size: what `mark_dynamic` has declared, if it has."""
    for known in tensor.__dict__.get(RANGES, ()):
        if known.dim == dim:
            return known.min or 0, known.max
    return 0, None


def argument_names(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int | str, str]:
    """The names of a call's arguments, by their numbers and keywords. Raises BadArgument where they don't fit."""
    runs = target.forward if isinstance(target, torch.nn.Module) else target
    try:
        signature = inspect.signature(runs)
    except (TypeError, ValueError):  # written in C
        return {**{number: f"args[{number}]" for number in range(len(args))}, **{name: name for name in kwargs}}
    try:
        places = places_of_arguments(signature, 0, len(args), kwargs)
    except TypeError as error:
        raise BadArgument(f"valid_inputs(): the example doesn't fit {signature}: {error}") from error
    return {argument: name_of(place) for argument, place in places.items()}


def places_of_arguments(signature: inspect.Signature, bound: int, count: int, keywords: Sequence[str] | Mapping[str, Any]) -> dict[int | str, Position]:
    """In which parameter each argument of a call lands: its name, and where inside `*args` or `**kwargs`. `bound`: arguments in front of the call's own.

    Raises TypeError where they don't fit.
    """
    found: dict[int | str, Position] = {}
    arguments = signature.bind(*[None] * bound, *range(count), **{name: name for name in keywords}).arguments
    for parameter, given in arguments.items():
        kind = signature.parameters[parameter].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found |= {argument: (parameter, index) for index, argument in enumerate(given) if argument is not None}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found |= {argument: (parameter, argument) for argument in given}
        elif given is not None:
            found[given] = (parameter,)
    return found


def name_of(position: Position) -> str:
    """A position as the program would write it."""
    return str(position[0]) + "".join(f"[{step!r}]" for step in position[1:])


def leaves(name: str, position: Position, value: Any) -> Iterator[tuple[str, Position, Any]]:
    """The tensors and ints of an argument that may vary, in lists, tuples and dicts too: name, position and value."""
    if type(value) is int or (type(value) is torch.Tensor and value.layout is torch.strided):
        yield name, position, value
    elif type(value) in (list, tuple):
        for index, item in enumerate(value):
            yield from leaves(f"{name}[{index}]", (*position, index), item)
    elif type(value) is dict:
        for key, item in value.items():
            yield from leaves(f"{name}[{key!r}]", (*position, key), item)


def chosen_by(dynamic: Any, named: Mapping[str, tuple[Position, Any]]) -> dict[str, frozenset[int]]:
    """Return what `dynamic` asks to vary, by name: some dimensions of a tensor; for an int, an empty set. Raises BadArgument."""
    everything = {name: varying_dimensions(value) for name, (_, value) in named.items()}
    if dynamic is None or dynamic is True:
        return everything
    if not isinstance(dynamic, Mapping):
        raise BadArgument(f'valid_inputs(): dynamic is None for all that may vary, or a dict such as {{"x": [0], "n": True}}; got {dynamic!r:.80}')
    chosen: dict[str, frozenset[int]] = {}
    for asked, what in dynamic.items():
        parts = [name for name in named if isinstance(asked, str) and (name == asked or name.startswith(f"{asked}["))]
        if not parts:
            known = suggestion(str(asked), named, listing=True)
            raise BadArgument(f"valid_inputs(): dynamic names {asked!r}; no argument of that name is, or holds, a plain tensor or an int{known}")
        for name in parts:
            value = named[name][1]
            chosen[name] = everything[name] if what is True else asked_dimensions(name, value, what)
    return chosen


def varying_dimensions(value: Any) -> frozenset[int]:
    """The dimensions of a tensor that vary unless the program says otherwise; those of an int: none."""
    return frozenset(range(value.dim())) - marks(value, STATIC_MARK) if isinstance(value, torch.Tensor) else frozenset()


def asked_dimensions(name: str, value: Any, asked: Any) -> frozenset[int]:
    """The dimensions that the program asks for, counted from the beginning. Raises BadArgument."""
    if not isinstance(value, torch.Tensor):
        raise BadArgument(f"valid_inputs(): {name} is an int, which varies where dynamic says True of it; got {asked!r}")
    numbers = [asked] if type(asked) is int else list(asked) if isinstance(asked, (list, tuple, set, frozenset, range)) else [asked]
    for number in numbers:
        if type(number) is not int or not -value.dim() <= number < value.dim():
            raise BadArgument(f"valid_inputs(): {name} has no dimension {number!r}: its shape is {tuple(value.shape)}")
    return frozenset(number % value.dim() for number in numbers)
