"""NumPy's arrays in compiled functions: inputs, results, what is changed in place, and the ways between arrays and tensors."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from agreement import Comparison, agree, outcome

import framejit

x = torch.arange(6.0).reshape(2, 3)
a = np.arange(6.0).reshape(2, 3)
single = a.astype(np.float32)
whole = np.arange(6).reshape(2, 3)
mask = whole % 2 == 0
BACKENDS = ("eager", "aot_eager")


def seen(value: Any) -> Any:
    """A result, with arrays as what is compared of them."""
    if isinstance(value, np.ndarray):
        return "array", value.dtype.char, value.shape, value.flags.writeable, np.array2string(value, precision=12 if value.dtype.char == "d" else 5)
    if isinstance(value, np.generic):
        return type(value), f"{value:.12g}" if type(value) is np.float64 else f"{value:.5g}"
    if isinstance(value, (list, tuple)):
        return [seen(item) for item in value]
    return value


def alike(program: Any, *args: Any, backend: str = "eager", fullgraph: bool = True, calls: int = 2) -> Any:
    """The program does the same compiled as eager, to its arguments too."""
    framejit.reset()
    compiled = framejit.compile(program, backend=backend, fullgraph=fullgraph)
    for _ in range(calls):
        left, right = copy.deepcopy(args), copy.deepcopy(args)
        expected, got = outcome(program, left, {}), outcome(compiled, right, {})
        if expected[0] == "raised":
            assert got[0] == "raised" and type(got[1]) is type(expected[1]) and str(got[1]) == str(expected[1]), got
        else:
            assert got[0] == "returned", got[1]
            Comparison().same((seen(expected[1]), seen(left)), (seen(got[1]), seen(right)))
    return compiled


def in_place(a: np.ndarray) -> Any:
    a += 1
    a[0] *= 2
    a[1, 1:] = 7
    a[:, 0] = a[:, 1]
    b = a.copy()
    b[b > 3] = 0
    a[...] = a + b
    return b


def through_tensors(a: np.ndarray, x: torch.Tensor) -> Any:
    t = torch.from_numpy(a)
    y = (t.float() + x).relu()
    return y, y.detach().numpy() * 2, torch.as_tensor(a, dtype=torch.float32) @ x.T, torch.tensor(a)


def makes_arrays(x: torch.Tensor) -> Any:
    n = x.shape[0]
    made = [np.zeros(n), np.ones((n, 2), np.float32), np.full((2,), 3), np.arange(n), np.arange(1.0, 2.0, 0.25), np.linspace(0, 1, 5), np.eye(3)]
    made += [np.array([1, 2, 3]), np.array([[1.5, 2], [3, 4]], dtype=np.float32), np.array(2.0), np.linspace(0, 1, 100)]
    return made, torch.from_numpy(np.array([1.0, 2.0, 3.0])) + x, np.array([x.shape, x.shape])


PROGRAMS: list[tuple[Any, ...]] = [
    (lambda a: (a + 1, 2 * a, a - a[0], a / 3, a**2, -a, abs(a), a @ a.T, a > 2, a == a, a // 2, a % 3), a),
    (lambda a: (a.sum(), a.mean(axis=0), a.max(), a.argmax(), a.std(), a.min(axis=1, keepdims=True), a.prod(), a.cumsum()), single),
    (lambda a: (a.reshape(3, 2), a.T, a.ravel(), a[None], a[0], a[0, 1], a[:, 1:], a[..., ::2], a[-1, -1], a.transpose(1, 0), a.flatten()), a),
    (lambda a: (a[::-1].copy(), a[:, ::-1], a[::-1, ::-2] * 2, torch.from_numpy(a[..., ::-1].copy()), a.swapaxes(0, 1)[::-1], a[0, ::-1][0], a[1:0:-1]), a),
    (lambda a, m: (np.where(m, a, 0), np.where(m, a, -a), a[:, [0, 2]], a * m, m & (a > 1), ~m, m.any(), np.logical_or(m, a > 2)), a, mask),
    (lambda a: (np.concatenate([a, a]), np.stack([a, a], 1), np.vstack([a, a]), np.split(a, 3, axis=1), np.pad(a, 1), np.tile(a, 2)), a),
    (lambda a, w: (a + w, a * w, a / w, w / 2, w.mean(), w.astype(np.float32), a.astype(int), w.sum(), w // 2, w == a), single, whole),
    (lambda a: (a.shape, a.ndim, a.size, a.dtype, len(a), a.nbytes, a.itemsize, isinstance(a, np.ndarray), a.dtype == np.float64, a.dtype.kind), a),
    (lambda a: [row * 2 for row in a] + [float(a[0, 1]), a[1, 1].item(), a.sum().item(), a.tolist()], a),
    (lambda a: (np.float32(3) * a, a * np.float64(2), a + np.array([1, 2, 3]), a + [1, 2, 3], np.dot(a, a.T), np.einsum("ij,kj->ik", a, a)), single),
    (lambda a: (np.sin(a), np.exp(-a), np.sqrt(a), np.clip(a, 1, 3), np.maximum(a, 2), np.minimum(a, a[0]), np.sign(a), np.round(a / 3, 2)), a),
    (lambda a: (np.mean(a), np.sum(a, axis=(0, 1)), np.prod(a.shape), np.linalg.norm(a), np.isnan(a).any(), np.arctan2(a, 2), np.hypot(a, a)), a),
    (in_place, a), (through_tensors, a, x), (makes_arrays, x),
    (lambda x: (x.numpy() * 2, x.numpy().mean(), np.asarray(x) + 1, x.sin().detach().numpy()), x),
    (lambda a: (np.add(a, 1, out=a), a.fill(3), a.sort(), a)[3], a),
    (lambda x, a: x * float(a.mean()) + a.max().item(), x, a),
    (lambda a: a if a.shape[0] > 1 and a.dtype == np.float64 else None, a),
    (lambda x: (np.zeros((2, 3)) + 1).sum() * x, x),
    (lambda a: {"mean": a.mean(0), "all": [a, (a, a + 1)]}["all"], a),
    (lambda a: (a[np.newaxis, :, None], a.squeeze(), np.expand_dims(a, -1), np.moveaxis(a, 0, 1), np.broadcast_to(a, (2, 2, 3)) + 0), a),
    (lambda a: np.float32(a.mean()) + np.int64(a[0, 0]), a),
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", PROGRAMS)
def test_arrays_mean_what_they_mean_in_eager(case, backend):
    program, *args = case
    alike(program, *args, backend=backend)


def test_a_result_that_is_the_argument_is_that_object():
    array = a.copy()
    compiled = framejit.compile(lambda a: (a, a[1:], a + 1, np.asarray(a), a.T), backend="eager", fullgraph=True)
    same, view, new, again, turned = compiled(array)
    assert same is array and again is array
    assert np.shares_memory(view, array) and np.shares_memory(turned, array) and not np.shares_memory(new, array)
    view[:] = -1
    assert array[1].tolist() == [-1, -1, -1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_is_shared_with_tensors(backend):
    def program(a, x):
        b = x.numpy()
        b += 1
        t = torch.from_numpy(a)
        t.mul_(2)
        return t, b

    array, tensor = a.copy(), x.clone()
    t, b = framejit.compile(program, backend=backend, fullgraph=True)(array, tensor)
    assert array.tolist() == (a * 2).tolist() and tensor.tolist() == (x + 1).tolist()
    t.zero_()
    b.fill(5)
    assert not array.any() and (tensor == 5).all()


def test_two_tensors_of_an_array_are_two():
    def program(a):
        s, t = torch.from_numpy(a), torch.from_numpy(a)
        return s is t, s, t, t.numpy() is t.numpy()

    agree(program, a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_that_share_memory_and_are_written_to(backend):
    def program(a, b):
        a += 1
        return b * 2

    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for make in (lambda m: (m[:3], m[3:]), lambda m: (m[:4], m[2:]), lambda m: (m, m), lambda m: (m[:3], m[3:]), lambda m: (m, torch.from_numpy(m))):
        left, right = np.arange(6.0), np.arange(6.0)
        expected, got = program(*make(left)), compiled(*make(right))
        assert got.tolist() == expected.tolist() and left.tolist() == right.tolist()
        assert type(got) is type(expected)


KEYS: list[Any] = [
    (0, slice(None), [1, 2]), ([0, 1], slice(None), [1, 2]), (slice(None), [0, 2], 1), ([0, 1], 2, [1, 2]), (None, [1, 0]), ([1, 0], None, [0, 2]),
    (..., [0, 1]),
    ([[0], [1]], [0, 2]), (slice(1, None), [2, 0], slice(None, 2)), (1, None, [0, 2]), ([0, 2], ..., 1), (slice(None), slice(None), [True, False, True]),
    (0, [True, False, True]), (-1, [-1, 0]), (slice(None, None, -1), 0), (0, slice(None, None, -2), slice(2, 0, -1)), (None, slice(None, None, -1), ...),
    (..., slice(None, None, -1)), (..., None, slice(None, None, -1), 1), (slice(5, 1, -1),), (slice(0, 3), 1, slice(None, None, 2)), (np.int64(1), [0, 1]),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indices(key):
    cube = np.arange(27.0).reshape(3, 3, 3)

    def program(a):
        found = a[key]
        a[key] = -1
        return found + 0, np.array(a)

    writes = not any(isinstance(part, slice) and (part.step or 1) < 0 for part in key)
    alike(program if writes else lambda a: (a[key], a[key] * 2), cube, fullgraph=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_chosen_by_a_mask(backend):
    def program(a, m):
        chosen = a[m]
        return chosen, chosen * 2 + 1, chosen.sum(), np.sqrt(chosen).mean(), a[m[0] > 0] if a.ndim == 1 else a[:, m[0]], len(chosen), chosen.shape

    framejit.reset()
    compiled = framejit.compile(program, backend=backend, fullgraph=True)
    for chosen in (mask, ~mask, a > 4):
        assert seen(compiled(a.copy(), chosen)) == seen(program(a.copy(), chosen))
    assert framejit.statistics()["frames"] == 1
    alike(lambda a: a[a > 3].max() + a[a > 9].sum(), a, fullgraph=False)


def test_another_shape_type_or_layout_is_noticed():
    program = lambda a: a * 2 + a.sum()
    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True, dynamic=False)
    for index, array in enumerate((a, single, a.T, a[:, ::2], a.T.copy().T, np.ones((3, 3)))):
        for _ in range(2):
            got, expected = compiled(array.copy(order="K")), program(array)
            assert got.dtype == expected.dtype and got.tolist() == expected.tolist(), index


def test_sizes_that_vary_share_an_entry():
    program = lambda a: (a / a.shape[0]).sum(axis=0) + np.zeros(a.shape[1])
    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for size in (3, 4, 5, 6, 7):
        array = np.random.default_rng(size).random((size, 3))
        assert np.allclose(compiled(array), program(array), rtol=1e-14)
    assert framejit.statistics()["frames"] == 2


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.array([1, "two", None], dtype=object), "an array of Python objects"), (np.array(["a"]), "an array of type str"), (np.ones(3)[::-1], "backwards"),
        (np.ones(3, ">f8"), "byte order"),
    ],
)  # fmt: skip
def test_arrays_that_torch_has_no_tensors_of(array, told):
    def program(x, array):
        y = x + 1
        return y, array[0], array.dtype

    with pytest.raises(framejit.Unsupported) as raised:
        framejit.compile(program, backend="eager", fullgraph=True)(x, array)
    assert "FJ068" in str(raised.value) and told in str(raised.value) and "return y, array[0]" in str(raised.value)
    got, expected = framejit.compile(program, backend="eager")(x, array), program(x, array)
    assert str(got) == str(expected)


def test_the_shape_of_any_array_is_known():
    program = lambda x, array: x * array.ndim + array.size + len(array) + np.ndim(array) + array.shape[-1]
    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for array in (np.array([1, "two"], dtype=object), np.array(["a", "b"]), np.array([["a", "b", "c"]])):
        assert compiled(x, array).tolist() == program(x, array).tolist()


def test_what_numpy_raises_is_raised():
    def program(a):
        try:
            return a + np.ones(5)
        except ValueError as error:
            return str(error)

    alike(program, a)
    alike(lambda a: a[5], a)
    alike(lambda a: a.reshape(7), a)
    alike(lambda a: len(a.sum(axis=(0, 1)).reshape(())), a)


def test_requires_grad_has_no_array():
    alike(lambda x: x.numpy(), x.clone().requires_grad_(), fullgraph=False)
    w = x.clone().requires_grad_()
    agree(lambda w, a: (w * torch.from_numpy(a)).sum() + w.detach().numpy().sum().item(), w, a)


def test_the_setting_for_floating_point_errors_is_heeded():
    compiled = framejit.compile(lambda a: a / 0, backend="eager")
    compiled(a)
    for _ in range(2):
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            compiled(a)


def test_arrays_that_may_not_be_written_to():
    def program(a):
        try:
            a[0] = 1
        except ValueError as error:
            return a * 2, a[1:], a.copy(), str(error), a.sum()

    fixed = a.copy()
    fixed.flags.writeable = False
    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for array in (fixed, a.copy(), fixed, np.broadcast_to(np.arange(3.0), (2, 3))):
        left, right = (array.copy() if array.flags.writeable else array for _ in range(2))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert seen(compiled(left)) == seen(program(right))
            assert left.tolist() == right.tolist()
    agree(lambda array: torch.from_numpy(array) + 1, fixed, fullgraph=False)


def test_a_read_only_view_stays_one():
    def program(a):
        b = np.broadcast_to(a, (2, 2, 3))
        try:
            b[0] = 1
        except ValueError as error:
            return b, str(error)

    alike(program, a)


def test_an_array_without_dimensions_is_no_scalar():
    """NumPy was asked about a scalar in its place: what gives the array itself seemed to give another, and `.T` the array itself."""

    def program(a):
        same = np.asarray(a), a.astype(a.dtype, copy=False), a.squeeze(), a.T, a.view(), np.atleast_1d(a), np.ascontiguousarray(a)
        a += 1
        return [each is a for each in same], a[...] is a, same, np.add(a, 1, out=a) is a

    for backend in BACKENDS:
        agree(program, np.array(3.0), backend=backend, fullgraph=False)


def test_a_conjugate_of_real_numbers_is_the_array_itself():
    def program(a, z):
        a.conj()[0] = 7
        z.conjugate()[0] = 7
        return a.conj() is a, np.conj(a) is a, z.conj() is z, a, z

    alike(program, a.copy(), a + 1j)


def test_an_array_without_dimensions_turned_round_is_a_scalar():
    alike(lambda a: (np.flip(a), np.flip(a, ())), np.array(3.0))


def stored_by_index(a, i):
    a[0] = i
    return a


def stored_where_greater(a, i):
    a[a > 1] = i * 2 + 1
    return a


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.float32, np.int32])
@pytest.mark.parametrize("function", [
    stored_by_index, stored_where_greater,
    lambda a, i: (a.fill(i), a)[1],
    lambda a, i: np.full(3, i),
    lambda a, i: np.full((2, 2), fill_value=i, dtype=a.dtype),
    lambda a, i: np.array([i, 2, i * 2]) + a,
    lambda a, i: np.where(a > 1, i, 0),
    lambda a, i: np.round(a * 1.234, i % 3),
    lambda a, i: np.rot90(a.reshape(1, 3), i % 4),
    lambda a, i: np.flip(np.stack([a, a * 2]), i % 2),
    lambda a, i: np.full_like(a, i),
    lambda a, i: (np.where(a > 1, a, i), np.clip(a, 0, i)),
    lambda a, i: (np.std(a * 0, ddof=i), np.var(np.stack([a, a]), 0, ddof=i)),
    lambda a, i: (np.identity(i % 3), np.indices((i % 3, 2)), np.zeros((i % 3, 2)) + a[:2]),
])  # fmt: skip
def test_numbers_that_vary_go_into_arrays(function, dtype):
    def program(x, i):
        return function(np.array([1, 2, 3], dtype), i), x + 1

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for i in (0, 1, 2, 5, 7, 2**31 + 1):
        Comparison().same(outcome(compiled, (torch.ones(2), i), {}), outcome(program, (torch.ones(2), i), {}))


def test_an_index_that_is_no_int():
    def program(x, i):
        try:
            return np.array([1.0, 2.0]).item(i), x
        except TypeError as error:
            return str(error), x

    assert framejit.compile(program, backend="eager")(torch.ones(2), 0.5)[0] == program(torch.ones(2), 0.5)[0]
