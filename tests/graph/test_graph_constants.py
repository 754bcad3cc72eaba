"""Constants that operators are given: they arrive in the graph's code exactly as the program has them."""

from __future__ import annotations

import collections
import enum
import math
import struct
import sys
from typing import NamedTuple

import numpy as np
import pytest
import torch
from agreement import outcome

import framejit

x = torch.arange(24.0).reshape(2, 3, 4)
z = torch.zeros(2, dtype=torch.complex128)


class Sizes(NamedTuple):
    rows: int
    columns: int


class Axis(enum.IntEnum):
    ROWS = 0
    COLUMNS = 1
    DEPTH = 2


class Where(enum.IntFlag):
    FIRST = 1
    LAST = 2


class Mode(str, enum.Enum):
    CONSTANT = "constant"
    REFLECT = "reflect"


def bits(result):
    """A result with all that `equal` passes by: signs of zeros, which NaN it is."""
    if isinstance(result, torch.Tensor):
        return str(result.dtype), tuple(result.shape), result.detach().contiguous().numpy().tobytes()
    if isinstance(result, (tuple, list)):
        return [bits(item) for item in result]
    return type(result), repr(result)


def numpy_prod_in_reshape(t):
    return t.reshape((t.shape[0], np.prod(t.shape[1:])))


def shapes_of_a_closure(sizes):
    return lambda t: t.reshape(sizes)


def index_of_a_closure(index):
    return lambda t: t[index]


def filled_with(value):
    return lambda t: torch.full((2,), value)


def times(value):
    return lambda t: (t * value, torch.add(t, value), torch.where(t > 3, t, value))


def complex_times(value):
    return lambda t: (z * value, z - value, torch.full((2,), value))


minus_nan = struct.unpack("d", struct.pack("Q", 0xFFF8000000000001))[0]

INTEGERS = [np.int64(2), np.int32(2), np.uint8(2), np.int16(2), np.intp(2), Axis.DEPTH, Where.LAST]
INDICES = [
    np.int64(1), (np.int64(1), slice(None)), (slice(np.int64(0), np.int32(1)), np.int64(1)), (Ellipsis, np.int64(2)), (None, slice(None, np.int64(1))),
    [np.int64(0), np.int64(1)], ([0, np.int64(1)], [np.int8(1), 0]), (slice(None, None, np.int64(2)), Ellipsis, None), np.True_, (np.False_,),
    Axis.COLUMNS, (Axis.COLUMNS, slice(Axis.ROWS, Axis.DEPTH)), Sizes(1, 2), (True, False), ((0, 1), (1, 2)), slice(-(2**62), 2**62), range(2),
]  # fmt: skip
SHAPES = [
    (np.int64(6), np.int64(4)), [np.int64(6), 4], (np.int64(-1), 4), Sizes(6, 4), Sizes(np.int64(6), np.int32(4)), torch.Size([6, 4]),
    (Axis.DEPTH, 12), collections.namedtuple("Local", "a b")(3, 8), (np.float64(6.0), 4), (np.True_, 24),
]  # fmt: skip
NUMBERS = [
    0.0, -0.0, math.inf, -math.inf, math.nan, minus_nan, 5e-324, sys.float_info.max, 1e22, 0.1, 3, -(2**63), 2**63 - 1, 2**64, 10**400, True,
    np.float64(-0.0), np.float64("nan"), np.float32(0.1), np.float16(0.1), np.int64(-3), np.uint64(2**63), np.bool_(True), Axis.DEPTH, np.longdouble(0.5),
]  # fmt: skip
COMPLEX = [
    0j, 1 + 2j, complex(0.0, -0.0), complex(-0.0, 0.0), complex(-0.0, -0.0), complex(1, -0.0), complex(-0.0, 2), complex(math.inf, 0), complex(0, -math.inf),
    complex(math.nan, 1), complex(1e300, 5e-324), np.complex128(1 - 2j), np.complex64(complex(-0.0, 1)), -1j, complex(0.0, -0.5), -(2 + 0j),
]  # fmt: skip


def agree_exactly(program, backend, calls=2):
    compiled = framejit.compile(program, backend=backend)
    for _ in range(calls):
        expected, got = outcome(program, (x,), {}), outcome(compiled, (x,), {})
        assert expected[0] == got[0], (expected, got)
        if expected[0] == "returned":
            assert bits(expected[1]) == bits(got[1])
        else:
            assert type(expected[1]) is type(got[1])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program",
    [
        numpy_prod_in_reshape,
        *[shapes_of_a_closure(shape) for shape in SHAPES],
        *[index_of_a_closure(index) for index in INDICES],
        *[filled_with(value) for value in NUMBERS],
        *[times(value) for value in NUMBERS],
        *[complex_times(value) for value in COMPLEX],
        *[lambda t, n=n: (t.sum(n), t.transpose(0, n), t.unfold(1, n, 1), torch.stack([t, t], dim=n), t.flatten(0, n), t.chunk(n, -1)) for n in INTEGERS],
        *[lambda t, n=n: (t.permute(n, 0, 1), t.repeat(1, n, 1), t.expand((n, 2, 3, 4)), torch.zeros((n, n)), t.roll((n, 1), (0, 1))) for n in INTEGERS],
        lambda t: t.to(np.float32),
        lambda t: torch.zeros(2, dtype=float),
        lambda t: torch.zeros((np.int64(2),), dtype=torch.float64, device=torch.device("cpu"), layout=torch.strided),
        lambda t: t[None].contiguous(memory_format=torch.channels_last),
        lambda t: torch.nn.functional.pad(t, (np.int64(1), np.int64(1)), mode=Mode.REFLECT),
        lambda t: torch.nn.functional.pad(t, [np.int64(1), 1], mode="constant", value=-0.0),
        lambda t: torch.nn.functional.interpolate(t[None], size=(np.int64(6), np.int32(8)), mode="nearest"),
        lambda t: torch.nn.functional.interpolate(t[None], scale_factor=(np.float64(2.0), np.float32(0.5)), mode="nearest"),
        lambda t: torch.einsum("a'b" if t is None else "abc->cab", t),
        lambda t: torch.split(t, (np.int64(1), np.int64(2)), dim=np.int64(1)),
        lambda t: torch.tensor([np.float32(0.1), np.float32(-0.0)]),
        lambda t: torch.tensor((np.int8(1), 2)),
        lambda t: torch.arange(np.int64(2), np.float64(7.5), np.int32(2)),
        lambda t: torch.clamp(t, min=np.float32(0.1), max=-0.0),
        lambda t: t.masked_fill(t > 3, -math.inf),
        lambda t: t.new_full((np.int64(2),), complex(-0.0, 0.0), dtype=torch.complex64),
        lambda t: torch.normal(np.float64(0.0), 1.0, (np.int64(2),)),
    ],
)  # fmt: skip
def test_constants_arrive_exactly(program, backend):
    agree_exactly(program, backend)


@pytest.mark.parametrize("value", [*INTEGERS, *NUMBERS], ids=repr)
def test_constants_in_arguments_arrive_exactly(value):
    def program(t, number, items, options):
        return t * number, t.new_full((2,), items[0]), t.new_full((2,), options["fill"])

    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        args = x, value, [value], {"fill": value}
        expected, got = outcome(program, args, {}), outcome(compiled, args, {})
        assert expected[0] == got[0] and (expected[0] == "raised" or bits(expected[1]) == bits(got[1]))


@torch.library.custom_op("framejit_test_constants::show", mutates_args=())
def show(t: torch.Tensor, text: str, sizes: list[int], numbers: list[float], dtype: torch.dtype, flag: bool | None) -> torch.Tensor:
    SHOWN.append((text, tuple(sizes), tuple(numbers), dtype, flag))
    return t.clone()


@show.register_fake
def _(t, text, sizes, numbers, dtype, flag):
    return t.clone()


SHOWN: list = []


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "text", ["", "it's", '"', "\\", "\n\t", "{0} %s #", "'''", '"""', "\u2028é\U0001f600", "\x00\x7f", "nan", "x" * 5000, "a\\'\\n\"b"], ids=ascii
)
def test_text_and_lists_arrive_in_custom_operators(text, backend):
    def program(t):
        return show(t, text, [np.int64(3), -(2**62)], [math.inf, -0.0, np.float32(0.1)], torch.bfloat16, None)

    compiled = framejit.compile(program, backend=backend)
    SHOWN.clear()
    program(x)
    for _ in range(2):
        compiled(x)
    seen = [shown for shown in SHOWN if shown]
    assert len({repr(shown) for shown in seen}) == 1 and len(seen) >= 3


@pytest.mark.parametrize("number", [-1j, complex(0.0, -0.5), complex(-0.0, 2), complex(1, -0.0)])
def test_complex_numbers_of_all_signs_are_in_the_graph_that_only_fx_writes(number):
    compiled = framejit.compile(complex_times(number), backend="eager", fullgraph=True)
    assert bits(compiled(x)) == bits(complex_times(number)(x))
