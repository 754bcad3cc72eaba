"""Represents states of the program's own generators as tensors: torch.Generator, random.Random, numpy.random.RandomState, and numpy.random.default_rng's.

Operators that draw are functions of a state, and return the next state. They change nothing, so compilers may reorder them; the real generator gets its last
state after the graph. Operators for torch.Generators, which draw tensors, are in generator_draws.py.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from framejit.graph.tokens import standing_for
from framejit.library.random.draws import STATE, numbers_from
from framejit.quick_dataclass import dataclass
from framejit.torch_state.own_operators import declare_operator

HALF = 2**64
VERSION = random.Random.VERSION


@dataclass(frozen=True, slots=True)
class GeneratorKind:
    """A kind of generator.

    Attributes:
        cls: the class of the generators.
        form: an example of a state, for its size and dtype.
        read: reads a generator's state.
        write: sets a generator's state.
        seeded: makes a generator from a seed.
        drawing: the class or module that has the functions which draw from a generator.
    """

    cls: type
    form: torch.Tensor
    read: Callable[[Any], torch.Tensor]
    write: Callable[[Any, torch.Tensor], None]
    seeded: Callable[[int], Any]
    drawing: Callable[[Any], Any] = lambda generator: generator

    def made(self, state: torch.Tensor) -> Any:
        """A new generator in this state."""
        generator = self.seeded(0)
        self.write(generator, state)
        return generator


def read_python(generator: random.Random) -> torch.Tensor:
    _, words, normal = generator.getstate()
    bits = 0 if normal is None else struct.unpack("q", struct.pack("d", normal))[0]
    return torch.tensor([*words, normal is not None, bits])


def write_python(generator: random.Random, state: torch.Tensor) -> None:
    *words, has_normal, bits = state.tolist()
    generator.setstate((VERSION, tuple(words), struct.unpack("d", struct.pack("q", bits))[0] if has_normal else None))


def signed(number: int) -> int:
    """An unsigned 64-bit number as torch's signed one."""
    return number - HALF if number >= HALF // 2 else number


def read_pcg64(generator: numpy.random.PCG64) -> torch.Tensor:
    found: Any = generator.state
    numbers = found["state"]["state"], found["state"]["inc"]
    halves = [signed(half) for number in numbers for half in divmod(number, HALF)]
    return torch.tensor([*halves, found["has_uint32"], found["uinteger"]])


def write_pcg64(generator: numpy.random.PCG64, state: torch.Tensor) -> None:
    a, b, c, d, has_half, half = state.tolist()
    whole: Any = {"state": a % HALF * HALF + b % HALF, "inc": c % HALF * HALF + d % HALF}
    generator.state = {"bit_generator": "PCG64", "state": whole, "has_uint32": has_half, "uinteger": half}


def read_mersenne(generator: numpy.random.RandomState) -> torch.Tensor:
    """The state of a RandomState: its words, their position, and the normal number that it has drawn in advance."""
    found: Any = generator.get_state(legacy=False)
    bits = struct.unpack("q", struct.pack("d", found["gauss"]))[0]
    return torch.tensor([*found["state"]["key"].tolist(), found["state"]["pos"], found["has_gauss"], bits])


def write_mersenne(generator: numpy.random.RandomState, state: torch.Tensor) -> None:
    *words, position, has_normal, bits = state.tolist()
    normal = struct.unpack("d", struct.pack("q", bits))[0]
    generator.set_state(("MT19937", numpy.array(words, dtype=numpy.uint32), position, has_normal, normal))


TORCH = GeneratorKind(
    torch.Generator, STATE, torch.Generator.get_state, lambda generator, state: generator.set_state(state), lambda seed: torch.Generator().manual_seed(seed)
)
PYTHON = GeneratorKind(random.Random, read_python(random.Random(0)), read_python, write_python, random.Random)
PCG64 = GeneratorKind(numpy.random.PCG64, read_pcg64(numpy.random.PCG64(0)), read_pcg64, write_pcg64, numpy.random.PCG64, numpy.random.Generator)
MERSENNE = GeneratorKind(
    numpy.random.RandomState, read_mersenne(numpy.random.RandomState(0)), read_mersenne, write_mersenne, numpy.random.RandomState
)
KINDS = {kind.cls.__name__: kind for kind in (TORCH, PYTHON, PCG64, MERSENNE)}


for _kind in KINDS.values():
    standing_for.register(_kind.cls, _kind.read)


@declare_operator("seeded_state(str kind, SymInt seed) -> Tensor")
def seeded_state(kind: str, seed: int) -> torch.Tensor:
    """The state of a generator made with a seed."""
    return KINDS[kind].read(KINDS[kind].seeded(seed))


@declare_operator("draw_numbers(str kind, Tensor state, str function, Scalar[] arguments, SymInt[]? size, ScalarType dtype) -> (Tensor, Tensor)")
def draw_numbers(
    kind: str, state: torch.Tensor, function: str, arguments: Sequence[float], size: Sequence[int] | None, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result of a generator's function that draws, as a tensor, and the generator's next state."""
    generator = KINDS[kind].made(state)
    drawn = numbers_from(KINDS[kind].drawing(generator), function, arguments, size, dtype)
    return drawn, KINDS[kind].read(generator)


@seeded_state.fake
def fake_seeded_state(kind: str, seed: int) -> torch.Tensor:
    return torch.empty(KINDS[kind].form.shape, dtype=KINDS[kind].form.dtype, device="cpu")


@draw_numbers.fake
def fake_draw_numbers(
    kind: str, state: torch.Tensor, function: str, arguments: Sequence[float], size: Sequence[int] | None, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(() if size is None else size, dtype=dtype), torch.empty_like(state)


SEEDED_STATE, DRAW_NUMBERS = seeded_state.overload, draw_numbers.overload
