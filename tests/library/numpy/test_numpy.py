"""NumPy's scalars in compiled functions: constants that torch takes for Python numbers, with NumPy's own arithmetic between them."""

from __future__ import annotations

import warnings

import numpy
import pytest
import torch
from agreement import agree

import framejit

x = torch.arange(1.0, 7).reshape(2, 3)
counts = torch.arange(6).reshape(2, 3)
half = numpy.float32(0.5)
double = numpy.float64(2)
three = numpy.int64(3)
small = numpy.uint8(7)


class Scaled:
    factor = numpy.float16(1.5)


PROGRAMS = [
    lambda x: (x * double, double * x, x + half, half - x, x / three, three // x, x**double),
    lambda x: (x > double, double >= x, x == three, three != x),
    lambda x: (counts * double, counts * three, counts + half, small - counts),
    lambda x: x * numpy.sqrt(x.shape[-1]) + Scaled.factor * x,
    lambda x: torch.clamp(x, max=double) + torch.full((2, 3), half) + torch.where(x > 2, x, half),
    lambda x: (x.sum(three - 2), x.view(-1, three), x[three - 2], x[: small - 6], torch.zeros(three)),
    lambda x: (double + three, half * half, small * three, -half, three % 2, double == 2, half < three, 2.0**double, abs(-half)),
    lambda x: (float(half), int(three), bool(half), round(double), half.item(), three.tolist(), f"{half:.2f} {three}", repr(double)),
    lambda x: (numpy.prod(x.shape), numpy.maximum(half, 1), numpy.mean([1, 2]), numpy.log(double), numpy.float32(3), numpy.int64("4")),
    lambda x: (isinstance(double, float), isinstance(half, float), type(half * 2), {three: "three"}[3], max(double, half), "%d" % three),
    lambda x: x + 1 if half else x,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_scalars_mean_what_they_mean_in_eager(program):
    agree(program, x)


def test_attributes_of_scalars():
    def program(x):
        return x * half.itemsize, half.dtype == numpy.float32, half.dtype.kind, half.shape, half.size, half.real, three.T, numpy.dtype("f4") == half.dtype

    agree(program, x)


def test_scalars_that_become_arrays():
    def program(x):
        return x * numpy.array([1.0, 2.0, 3.0]).sum(), torch.from_numpy(numpy.float32([1.0, 2.0])), torch.from_numpy(half.reshape(1))

    agree(program, x)


def test_in_place_operators():
    def program(x):
        scale = numpy.float64(3)
        scale *= 2
        x *= scale
        scale = three
        scale *= x
        return x, scale

    agree(program, x.clone())


def test_a_scalar_that_changes_is_noticed():
    global double
    compiled = framejit.compile(lambda x: x * double, backend="eager", fullgraph=True)
    before = double
    try:
        for value in (numpy.float64(2), numpy.float64(5), numpy.float32(5)):
            double = value
            assert torch.equal(compiled(x), x * value.item())
    finally:
        double = before


def test_a_scalar_as_an_argument():
    agree(lambda x, scale: (x * scale, scale + 1), x, half)


def test_equal_scalars_serve_alike_and_what_they_hide_is_told_apart():
    def program(x, scale):
        return x * scale, numpy.copysign(1.0, scale) + scale

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    nan = numpy.float64("nan")
    for value, compilations in ((2.5, 1), (2.5, 1), (1.5, 2), (2.5, 2), (0.0, 3), (-0.0, 4), (1.5, 4)):
        expected, got = program(x, numpy.float64(value)), compiled(x, numpy.float64(value))
        assert torch.equal(got[0], expected[0]) and got[1] == expected[1]
        assert framejit.statistics()["frames"] == compilations, value
    assert numpy.isnan(compiled(x, nan)[1]) and numpy.isnan(compiled(x, nan)[1])
    assert framejit.statistics()["frames"] == 5


def test_numpy_warns_on_each_call_as_the_program_has_set_it():
    def program(x, scale):
        return x + 1, 1 / scale, numpy.float32(1e38) * numpy.float32(100), numpy.exp(scale + 1000.0)

    compiled = framejit.compile(program, backend="eager")
    for state in ("warn", "raise", "ignore", "warn"):
        for _ in range(2):
            found = []
            for fn in (program, compiled):
                with numpy.errstate(all=state), warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    try:
                        result = str(fn(x, numpy.float64(0))[1:])
                    except FloatingPointError as error:
                        result = str(error)
                found.append((result, [str(warning.message) for warning in caught]))
            assert found[0] == found[1]


def test_scalars_that_change_in_each_iteration_do_not_use_up_a_limit():
    def program(x, scales):
        for n in range(12):
            x = x + float(scales[n] * 2)
        return x

    framejit.reset()
    scales = numpy.arange(12.0)
    assert torch.equal(framejit.compile(program, backend="eager")(x, scales), program(x, scales))
    assert framejit.statistics()["fallbacks"] == 0


def test_a_changed_scalar_is_told_by_its_value(caplog):
    def program(x, scale):
        return x * scale

    framejit.reset()
    framejit.set_logs("recompiles")
    try:
        compiled = framejit.compile(program, backend="eager")
        compiled(x, numpy.float64(2.5)), compiled(x, numpy.float64(1.5))
    finally:
        framejit.set_logs()
    (text,) = [record.getMessage() for record in caplog.records if record.name == "framejit.recompiles"]
    assert "scale: expected that it == 2.5; found 1.5" in text


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.tensor(double),
        lambda x: torch.as_tensor([1.0, double]),
        lambda x: x + numpy.bool_(True),
        lambda x: x * numpy.array([1.0, 2.0, 3.0]),
    ],
)
def test_functions_that_see_the_scalar_s_type_stop_the_trace(program):
    with pytest.raises(framejit.Unsupported):
        framejit.compile(program, backend="eager", fullgraph=True)(x)


def test_what_numpy_raises_is_raised():
    def program(x):
        try:
            return numpy.int64("no")
        except ValueError as error:
            return error.args

    agree(program, x)


@pytest.mark.parametrize("program", [
    lambda kept: float(numpy.sqrt(kept.mean() + 1)), lambda kept: torch.from_numpy(numpy.cumsum(kept)) + 1, lambda kept: (kept * 2).tolist(),
    lambda kept: numpy.concatenate([kept, kept]).max(), lambda kept: kept[1:].sum(), lambda kept: numpy.where(kept > 1, 1, 0).sum(),
    lambda kept: kept.reshape(-1, 1) @ numpy.ones((1, 2)), lambda kept: [float(value) for value in kept],
])  # fmt: skip
def test_functions_of_arrays_whose_size_depends_on_data_split_the_graph(program):
    """NumPy was to be asked with a stand-in of the array's size, which nobody knows: an internal error."""
    agree(lambda t: program(t[t > 0].numpy()), torch.tensor([1.0, -1.0, 2.0, 0.5, -3.0]), fullgraph=False)
