"""Items of tensors that the data of another tensor choose: `x[i]` `i` a tensor without dimensions, `x[i.item()]`, `x[i:i + 2]`. They are views, as in eager."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from agreement import Comparison

import framejit

BACKENDS = ("eager", "aot_eager")
PLACES = (3, -2, 0, -5)


def matrix(rows=5, columns=6):
    return torch.arange(float(rows * columns)).reshape(rows, columns) + 1


def run(function, args):
    args = copy.deepcopy(args)
    try:
        return function(*args), args
    except (IndexError, RuntimeError) as error:
        return type(error), str(error), args


def statistics_of(function, *calls, **options):
    """Compare results and arguments of compiled calls with eager's; return the statistics of the compilations."""
    framejit.reset()
    compiled = framejit.compile(function, **{"backend": "eager", **options})
    for args in calls:
        Comparison().same(run(function, args), run(compiled, args), str(args))
    return framejit.statistics()


def one_place(x, i):
    return x[i] * 2


def an_item(x, i):
    return x[i.item()] * 2


def second_dimension(x, i):
    return x[:, i] + x[..., i] + x[None, :, i]


def two_places(x, i):
    return x[i, i] * 2, x[i, i + 1 - 1, None]


def with_slices(x, i):
    return x[i, 1:4], x[1:3, i], x[i, ...], x[..., i, :]


def with_indices(x, i):
    return x[torch.tensor([0, 2]), i] * 2, x[x[:, 0] > 3, i], x[[0, 1], i]


def computed(x, i):
    return x[x.sum(1).argmax()] + x[(i + 5) % 5], x[i % 2 + 1]


def of_an_item(x, i):
    return x[i][i] - x[i][1:][0]


def itself(x, i):
    return x[i], x[:, i]


def stored(x, i):
    y = x * 2
    y[i] = 5
    y[:, i] += x[i, :1]
    y[i, i] = x[0, 0]
    y[i, 1:3] = x[0, 1:3]
    return y


def through_a_view(x, i):
    y = x * 2
    row = y[i]
    row.add_(1)
    y[0] = 0
    return y, row * 2


PROGRAMS = (one_place, an_item, second_dimension, two_places, with_slices, computed, of_an_item, itself, stored, through_a_view)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_one_graph_for_all_places(function, backend):
    calls = [(matrix(), torch.tensor(place)) for place in PLACES]
    counts = statistics_of(function, *calls, backend=backend)
    assert (counts["graphs"], counts["graph_breaks"], counts["fallbacks"]) == (1, 0, 0), counts["reasons"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_beside_other_indices(backend):
    counts = statistics_of(with_indices, *[(matrix(), torch.tensor(place)) for place in PLACES], backend=backend)
    assert not counts["fallbacks"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [one_place, an_item, two_places, with_slices, stored, itself], ids=lambda function: function.__name__)
def test_places_out_of_range_raise_as_in_eager(function, backend):
    places = (3, 5, 2, -6, 6, 100, 1)
    counts = statistics_of(function, *[(matrix(), torch.tensor(place)) for place in places], backend=backend)
    assert counts["graphs"] == 1 and not counts["fallbacks"]


@pytest.mark.parametrize("function", [one_place, second_dimension, of_an_item, stored], ids=lambda function: function.__name__)
def test_inductor(function):
    calls = [(matrix(), torch.tensor(place)) for place in (*PLACES, 7)]
    counts = statistics_of(function, *calls, backend="inductor")
    assert not counts["fallbacks"]
    assert function is stored or counts["graphs"] == 1, counts["reasons"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.uint8, torch.bool])
def test_dtypes(dtype, backend):
    """A tensor of bools or bytes is a mask, even without dimensions."""
    statistics_of(one_place, *[(matrix(), torch.tensor(place, dtype=dtype)) for place in (1, 0, 1)], backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_item_is_a_view_of_what_is_outside(backend):
    framejit.reset()
    compiled = framejit.compile(itself, backend=backend)
    x = matrix()
    for place in PLACES:
        row, column = compiled(x, torch.tensor(place))
        assert row.data_ptr() == x[place].data_ptr() and column.data_ptr() == x[:, place].data_ptr()
        row.zero_()
        assert x[place].eq(0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients(backend):
    def loss(x, i):
        return (x[i] ** 2).sum() + x[:, i].prod()

    framejit.reset()
    compiled = framejit.compile(loss, backend=backend)
    for place in PLACES:
        x, y = matrix().requires_grad_(), matrix().requires_grad_()
        loss(x, torch.tensor(place)).backward()
        compiled(y, torch.tensor(place)).backward()
        assert torch.equal(x.grad, y.grad)
    assert framejit.statistics()["graphs"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary(backend):
    calls = [(matrix(rows, 6), torch.tensor(place)) for rows, place in ((5, 1), (6, -6), (7, 6), (8, 8), (9, -9), (9, -10))]
    assert statistics_of(one_place, *calls, backend=backend)["graphs"] == 2
    assert statistics_of(stored, *[(matrix(rows, 7), torch.tensor(2)) for rows in (5, 6, 7)], backend=backend)["graphs"] <= 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_changed_argument_breaks_the_graph_that_changes_it_at_once(backend):
    """A check that fails has the call run once more, which can't be where an argument has been changed before it: AOTAutograd changes it last."""

    def store(x, i):
        x.add_(1)
        x[i.long()] = 0
        return x + 1

    counts = statistics_of(store, *[(matrix(), torch.tensor(float(place))) for place in (*PLACES, 9)], backend=backend)
    assert counts["graph_breaks"] == (backend == "eager") and not counts["fallbacks"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_place_that_guards_read_needs_no_check(backend):
    def store(x, i):
        x.add_(1)
        x[i] = 0
        return x + 1

    counts = statistics_of(store, *[(matrix(), torch.tensor(place)) for place in PLACES], backend=backend)
    assert counts["graph_breaks"] == counts["fallbacks"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_as_indices(backend):
    def fn(x, places, table, mask):
        found = x[places], x[places, 0], x[:, places], x[table], x[None, places, ...], x[places[:2], torch.tensor([0, 1])], x[mask]
        x[places] = 0
        x[mask, 1] += 2
        return found

    args = matrix(4), np.array([2, 0, -1]), np.array([[0, 1], [3, 2]]), np.array([True, False, True, True])
    assert statistics_of(fn, args, backend=backend, fullgraph=True)["graphs"] == 1
    for array in (np.array([1, 2], dtype=np.int32), np.array([1.0]), np.array(2)):
        statistics_of(lambda x, array: x[array], (matrix(4), array), backend=backend)


@pytest.mark.parametrize("key", (0, slice(0, 2), torch.tensor([True, False])), ids=("place", "slice", "mask"))
@pytest.mark.parametrize("dtype", (np.float16, np.float32, np.float64, np.int64, np.bool_, np.complex64), ids=lambda dtype: dtype.__name__)
def test_numpy_scalars_are_stored_or_refused_as_in_eager(dtype, key):
    """torch takes those that are Python's numbers too, and whole numbers and flags."""

    def store(x, array, scalar):
        for value in (array[1], scalar):
            try:
                x[key] = value
            except TypeError as error:
                x = x + len(str(error))
        return x * 2

    statistics_of(store, (torch.ones(2), np.array([0, 1], dtype), dtype(1)), (torch.zeros(2), np.array([0, 1], dtype), dtype(0)))


def windows(x, i):
    return torch.stack([x[i : i + 2], x[i + 1 : 3 + i]]) * 2, x[:, i + 1 : i + 3], x[i : i + 2, ..., i], x[i : i + 2]


def stored_windows(x, i):
    y = x * 2
    y[i : i + 2] += x[0]
    y[:, i : i + 1] = 5
    return y


def bounds(x, i):
    return x[:i] * 2, x[:, i:] + 1, x[None, i : i + 1] * 2, x[i : i * 2].sum(), x[i::2] * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [windows, stored_windows, bounds], ids=lambda function: function.__name__)
def test_tensors_as_bounds_of_slices(function, backend):
    """The graph takes windows of one length to lie inside of the tensor; others, such as the last two, run uncompiled."""
    calls = [(matrix(), torch.tensor(place)) for place in (1, 2, 0, 4, -1)]
    counts = statistics_of(function, *calls, backend=backend)
    assert (counts["graphs"], counts["graph_breaks"], counts["fallbacks"]) == (1, 0, 0), counts["reasons"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_whose_place_has_changed(backend):
    def fn(x, i):
        i = i + 0
        stop = i + 2
        i.add_(1)
        return x[i:stop] * 2

    counts = statistics_of(fn, *[(matrix(), torch.tensor(place)) for place in (1, 2, -3)], backend=backend)
    assert counts["graph_breaks"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_windows(backend):
    def loss(x, i):
        return (x[i : i + 2] ** 2).sum() + x[:, i : i + 3].sin().sum() + x[i:].sum()

    framejit.reset()
    compiled = framejit.compile(loss, backend=backend)
    for place in (1, 2, 4):
        x, y = matrix().requires_grad_(), matrix().requires_grad_()
        loss(x, torch.tensor(place)).backward()
        compiled(y, torch.tensor(place)).backward()
        assert torch.equal(x.grad, y.grad)
    assert framejit.statistics()["graphs"] == 1
