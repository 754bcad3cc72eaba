"""Tensors in compiled functions, against eager: values, metadata, gradients, mutation, identity, modes, factories."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from agreement import agree_over_calls
from torch import nn

import framejit

IN_THE_PLACE_OF_EAGER = ["eager", "aot_eager"]


def same(found: Any, expected: Any) -> None:
    """Equal in structure, type, value and metadata."""
    assert type(found) is type(expected), (type(found), type(expected))
    if isinstance(expected, torch.Tensor):
        assert (found.dtype, found.device, found.requires_grad, found.shape) == (
            expected.dtype, expected.device, expected.requires_grad, expected.shape,
        )  # fmt: skip
        assert found.stride() == expected.stride()
        assert found.is_inference() == expected.is_inference()
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, (list, tuple)) and not isinstance(expected, torch.Size):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    else:
        assert found == expected


def clone(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        made = value.detach().clone()
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(made, value.requires_grad)
        return made.requires_grad_(value.requires_grad)
    return copy.deepcopy(value)


def check(fn: Callable[..., Any], *args: Any, fullgraph: bool = True) -> None:
    """Run compiled and eager on equal arguments with the same random state: results, arguments afterwards, gradients."""
    compiled = framejit.compile(fn, backend="eager", fullgraph=fullgraph)
    for _ in range(2):
        mine, theirs = [clone(arg) for arg in args], [clone(arg) for arg in args]
        torch.manual_seed(0)
        expected = fn(*theirs)
        state = torch.get_rng_state()
        torch.manual_seed(0)
        found = compiled(*mine)
        assert torch.equal(torch.get_rng_state(), state)
        same(found, expected)
        same(mine, theirs)
        if isinstance(expected, torch.Tensor) and expected.requires_grad and expected.grad_fn is not None:
            found.sum().backward()
            expected.sum().backward()
            for a, b in zip(mine, theirs, strict=True):
                if isinstance(b, torch.Tensor) and b.requires_grad:
                    same(a.grad, b.grad)


def refused(fn: Callable[..., Any], *args: Any, reason: str) -> None:
    """Can't be one graph, for that reason, and runs uncompiled otherwise."""
    with pytest.raises(framejit.Unsupported, match=reason):
        framejit.compile(fn, backend="eager", fullgraph=True)(*[clone(arg) for arg in args])
    check(fn, *args, fullgraph=False)


def x() -> torch.Tensor:
    return torch.arange(12.0).reshape(3, 4) / 7 - 0.5


@pytest.mark.parametrize(
    "function",
    [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.lt, operator.le,
     operator.eq, operator.ne, operator.gt, operator.ge],
)  # fmt: skip
def test_binary_operators(function: Any) -> None:
    symbols = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "lt": "<", "le": "<=", "eq": "==",
               "ne": "!=", "gt": ">", "ge": ">="}  # fmt: skip
    namespace: dict[str, Any] = {}
    exec(f"def fn(a, b): return a {symbols[function.__name__]} b", namespace)
    fn = namespace["fn"]
    for a, b in ((x(), x().flip(0) + 0.1), (x(), 2), (3.5, x() + 1), (x(), torch.tensor(2)), (x(), x().int() + 2)):
        check(fn, a, b)
    if function is not operator.floordiv:  # has no derivative
        check(fn, x().requires_grad_(), 2.0)


def test_integer_and_matrix_operators() -> None:
    check(lambda a, b: (a & b, a | b, a ^ b, ~a, a << 1, b >> 1, 1 & a, a**2, 2**a), torch.tensor([1, 2, 3]), torch.tensor([4, 6, 7]))
    check(lambda a, b: a @ b.T - (-a) @ (+b).T, x(), x())


def test_in_place_operators_keep_identity() -> None:
    def fn(a: Any, b: Any) -> Any:
        c = a
        a += b
        a *= 2
        a -= 1
        a /= 3
        return a is c, c, a.add_(1) is c

    check(fn, x(), x())


def test_comparisons_with_other_things() -> None:
    check(lambda a: (a == None, a != "s", a is None, a is a), x())


def test_metadata() -> None:
    def fn(a: Any) -> Any:
        return (
            a.shape, a.dtype, a.device, a.ndim, a.requires_grad, a.layout, a.itemsize, a.nbytes, a.is_cuda, a.is_sparse, a.is_quantized,
            a.size(), a.size(0), a.size(-1), a.dim(), a.numel(), a.stride(), a.stride(0), a.is_contiguous(), a.element_size(),
            a.get_device(), a.is_floating_point(), a.is_complex(), a.type(), a.is_leaf, a.grad_fn, a.is_meta, len(a), a.is_cpu,
            type(a), isinstance(a, torch.Tensor), isinstance(a, torch.nn.Parameter), torch.is_tensor(a), a.__class__,
        )  # fmt: skip

    for value in (x(), x().int(), x().to(torch.complex64), x().T, torch.nn.Parameter(x())):
        check(fn, value)


def test_sizes_are_tuples_of_numbers() -> None:
    def fn(a: Any) -> Any:
        n, m = a.shape
        s = a.shape[:-1] + (2, m // 2)
        return (
            a.view(s),
            a.view(*s),
            a.reshape(n * m),
            s,
            a.shape[-1],
            a.shape.numel(),
            a.shape == (3, 4),
            list(a.size()),
            s[1:],
            a.shape * 2,
        )

    check(fn, x())
    check(lambda a: a.new_zeros(a.shape) + torch.Size([3, 4]).numel(), x())


def test_attributes_that_are_tensors() -> None:
    check(lambda a: (a.T, a.mT, a.H, a.real, a.data), x())
    check(lambda a: (a.real, a.imag, a.conj() * 2), x().to(torch.complex64))
    check(lambda a: a.T.contiguous().data, x().requires_grad_())


def test_methods_and_functions() -> None:
    def fn(a: Any) -> Any:
        values, indices = a.max(dim=1)
        top = torch.topk(a, 2)
        low = torch.sort(a, dim=0).values
        parts = a.split(2)
        return (
            a.sum(), a.mean(0, keepdim=True), values, indices, top.values, top[1], low, parts, a.chunk(2, 1), a.unbind(0),
            torch.cat([a, a], dim=1), torch.stack((a, a)), torch.where(a > 0, a, 0.0), a.masked_fill(a < 0, -1),
            torch.einsum("ij,kj->ik", a, a),
            a.to(torch.float64), a.double().float(), a.expand(2, 3, 4), a.permute(1, 0), a.clamp(min=0), torch.linalg.norm(a),
            torch.fft.fft(a).abs(),
            torch.special.expit(a), torch.meshgrid(a[0], a[1], indexing="ij"), a.norm(), a.type(torch.float16), a.unflatten(1, (2, 2)),
        )  # fmt: skip

    check(fn, x())


def test_functional() -> None:
    def fn(a: Any, w: Any) -> Any:
        h = F.linear(a, w)
        h = F.gelu(F.relu(h)) + F.silu(h) + F.softmax(h, dim=-1)
        h = F.layer_norm(h, (3,))
        h = F.dropout(h, 0.3, training=True)
        h = F.pad(h, (1, 1), value=2.0)
        return (
            F.max_pool2d(h[None, None], 2).sum()
            + F.cross_entropy(h, torch.tensor([0, 1, 2]))
            + F.scaled_dot_product_attention(h, h, h).sum()
        )

    check(fn, x().requires_grad_(), torch.nn.Parameter(x()))


def test_indexing() -> None:
    def fn(a: Any, i: Any) -> Any:
        return (
            a[0], a[-1, 2], a[1:], a[:, ::2], a[..., 0], a[None], a[:, None, 1], a[[0, 2]], a[i], a[i, 1], a[(slice(None), 1)],
            a[0:2, [1, 3]],
            a[True], a[1][2],
        )  # fmt: skip

    check(fn, x(), torch.tensor([2, 0]))


def test_index_assignment() -> None:
    def fn(a: Any, i: Any, m: Any) -> Any:
        a[0] = 1
        a[1, 2] = a[2, 3] * 2
        a[:, 1] += 3
        a[i] = torch.zeros(4)
        a[m] = -1.0
        a[..., 0] = a[..., 3]
        return a

    check(fn, x(), torch.tensor([2]), x() > 0.5)


def test_views_share_memory() -> None:
    def fn(a: Any) -> Any:
        v = a.view(-1)
        row = a[0]
        v[0] = 5.0
        row.mul_(2)
        b = a.clone()
        b.t_()
        return v, row, a, b

    check(fn, x())


def test_aliased_arguments() -> None:
    def fn(a: Any, b: Any) -> Any:
        a.add_(1)
        return a * b, a is b

    compiled = framejit.compile(fn, backend="eager", fullgraph=True)
    one, two = x(), x()
    same(compiled(one, one), fn(two, two))
    same(one, two)
    one, two = x(), x()
    same(compiled(one, one.clone()), fn(two, two.clone()))
    one, two = x(), x()
    same(compiled(one[0], one[0]), fn(two[0], two[0]))


def test_gradients_flow_and_stop() -> None:
    def fn(a: Any, b: Any) -> Any:
        c = (a * b).detach() + a.sin()
        with torch.no_grad():
            d = a * 2
        e = b.clone().requires_grad_(False) if not b.requires_grad else b
        return c * d + e.exp()

    check(fn, x().requires_grad_(), x())
    check(fn, x().requires_grad_(), x().requires_grad_())


def test_grad_modes() -> None:
    def fn(a: Any) -> Any:
        with torch.no_grad():
            b = a + 1
            with torch.enable_grad():
                c = a + 2
            inside = torch.is_grad_enabled()
        with torch.set_grad_enabled(False):
            d = a * 3
        return b, c, d, inside, torch.is_grad_enabled()

    check(fn, x().requires_grad_())

    @torch.no_grad()
    def whole(a: Any) -> Any:
        return a * 2

    check(lambda a: (whole(a), a * 2), x().requires_grad_())


def test_grad_mode_left_changed() -> None:
    def fn(a: Any) -> Any:
        torch.set_grad_enabled(False)
        return a * 2

    compiled = framejit.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        try:
            found = compiled(x().requires_grad_())
            assert not torch.is_grad_enabled() and not found.requires_grad
        finally:
            torch.set_grad_enabled(True)


@pytest.mark.only_eager("a graph whose backward is made as a whole is in inference mode or isn't")
def test_inference_mode() -> None:
    def fn(a: Any) -> Any:
        with torch.inference_mode():
            b = a * 2
            b.add_(1)
            inside = torch.is_inference_mode_enabled()
        return b, inside, a + 1

    check(fn, x().requires_grad_())
    with torch.inference_mode():
        check(lambda a: a * 2, x())


def test_autocast() -> None:
    def fn(a: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b = a @ a.T
            with torch.autocast("cpu", enabled=False):
                c = a @ a.T
            inside = torch.is_autocast_enabled("cpu")
        with torch.autocast(device_type="cpu", enabled=False):
            d = a @ a.T
        return b, c, d, inside, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    check(fn, x())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check(lambda a: a @ a.T, x())


def test_factories() -> None:
    def fn(a: Any) -> Any:
        n = a.size(1)
        return (
            torch.zeros(2, n), torch.ones((n,), dtype=torch.int64), torch.full((2, 2), 3.5), torch.arange(n, device=a.device), torch.eye(3),
            torch.tensor([1, 2, 3]), torch.tensor([[1.0], [2.0]], dtype=a.dtype), torch.tensor(5), torch.zeros_like(a), torch.ones_like(a),
            torch.empty(0), a.new_tensor([1.0, 2.0]), a.new_full((2,), 7), torch.linspace(0, 1, n), torch.tril(torch.ones(n, n)),
            torch.finfo(a.dtype).min, torch.finfo(torch.float16).eps, torch.iinfo(torch.int32).max,
        )  # fmt: skip

    check(fn, x())


def test_random_numbers_are_eagers() -> None:
    def fn(a: Any) -> Any:
        torch.rand(3)
        return torch.randn(2, 2), F.dropout(a, 0.5), torch.randn_like(a), torch.randperm(5), torch.bernoulli(torch.full((4,), 0.5))

    check(fn, x())


def test_dtypes_and_devices() -> None:
    def fn(a: Any) -> Any:
        dtype = torch.float64 if a.dtype is torch.float32 else torch.float32
        device = torch.device("cpu")
        return (
            a.to(dtype),
            a.to(device),
            a.to(device, dtype),
            dtype,
            device,
            dtype.is_floating_point,
            device.type,
            a.device == device,
            a.dtype == dtype,
        )

    check(fn, x())
    check(lambda a, d: (a.to(d), d == a.dtype, {d: 1}[d]), x(), torch.float16)
    check(lambda a, d: (a.to(d), d == a.device, d.type, d), x(), torch.device("cpu"))


def test_no_op_conversions_are_the_same_tensor() -> None:
    check(lambda a: (a.to(torch.float32) is a, a.contiguous() is a, a.float() is a, a.detach() is a), x())


def test_constant_tensors_give_their_numbers() -> None:
    def fn(a: Any) -> Any:
        n = torch.tensor(3)
        return a * n.item() if n else a

    check(fn, x())


def test_iterating_and_length() -> None:
    def fn(a: Any) -> Any:
        first, second, third = a
        return [row.sum() for row in a], len(a), first + second * third, list(enumerate(a)), [r * s for r, s in zip(a, a, strict=True)]

    check(fn, x())


def test_tensors_as_dict_keys() -> None:
    def fn(a: Any, b: Any) -> Any:
        d = {a: 1, b: 2}
        return d[a], d[b], a in d

    check(fn, x(), x())


def test_stored_gradients() -> None:
    p = torch.nn.Parameter(x())

    def fn(q: Any) -> Any:
        before = q.grad
        q.grad = None
        q.grad = q.detach() * 2
        return before, q.grad

    compiled = framejit.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        q = clone(p)
        expected = fn(clone(p))
        same(compiled(q), expected)
        same(q.grad, expected[1])
    before, _ = compiled(q)
    same(before, expected[1])


def test_attributes_stored_on_tensors() -> None:
    def fn(p: Any) -> Any:
        found = getattr(p, "scale", 3)
        p.seen = True
        return p * found, hasattr(p, "seen")

    compiled = framejit.compile(fn, backend="eager", fullgraph=True)
    p = torch.nn.Parameter(x())
    same(compiled(p), fn(clone(p)))
    assert p.seen is True
    p.scale = 5
    same(compiled(p)[0], p * 5)


def test_methods_as_values() -> None:
    def fn(a: Any) -> Any:
        act = a.mul
        return (
            act(2),
            torch.Tensor.add(a, 1),
            list(map(torch.sin, [a, a])),
            getattr(a, "sum")(),
            operator.mul(a, a),
            torch.Tensor.split(a, 2),
        )

    check(fn, x())


def test_operators_of_torch_ops() -> None:
    check(lambda a: (torch.ops.aten.add(a, a), torch.ops.aten.mul.Tensor(a, a)), x())


def test_guards_on_metadata_recompile() -> None:
    calls = []

    def backend(gm: Any, inputs: Any) -> Any:
        calls.append(gm)
        return gm

    compiled = framejit.compile(lambda a: a * 2, backend=backend, fullgraph=True)
    values = [x(), x().double(), x()[:2], x().T, x().requires_grad_(), torch.nn.Parameter(x())]
    for value in values + values:
        same(compiled(value), value * 2)
    assert len(calls) == len(values)


def test_data_dependence_is_refused() -> None:
    refused(lambda a: a * 2 if a.sum() > 0 else a[1:], x(), reason="depends on the data")
    refused(lambda a: a * 2 if a.sum().item() > 0 else a[1:], x(), reason="depends on the data")
    refused(lambda a: [row + 1 for row in a[a > 0]], x(), reason="depends on the data")
    refused(lambda a: f"{a}", x(), reason="depends on the data")
    refused(lambda a: list(range(int(a.sum()))), x(), reason="depends on the data")


def test_errors_are_eagers() -> None:
    def fn(a: Any) -> Any:
        return a @ a

    with pytest.raises(RuntimeError) as expected:
        fn(x())
    with pytest.raises(RuntimeError) as found:
        framejit.compile(fn, backend="eager")(x())
    assert str(found.value) == str(expected.value)


def test_hooks_with_side_effects_are_refused() -> None:
    noted: list[torch.Tensor] = []

    def hooked(a: Any) -> Any:
        b = a * 2
        b.register_hook(noted.append)
        return b

    refused(hooked, x().requires_grad_(), reason="hook")


def test_parameter_requires_grad_unchanged() -> None:
    check(lambda p: p.requires_grad_() * 2, torch.nn.Parameter(x()))
    refused(lambda a: a.requires_grad_() * 2, x(), reason="requires_grad")


class Cube(torch.autograd.Function):
    scale = 1.0

    @staticmethod
    def forward(ctx: Any, a: Any, n: int) -> Any:
        ctx.save_for_backward(a)
        ctx.n = n
        return a**3 * n * Cube.scale

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (a,) = ctx.saved_tensors
        return grad * 30 * a**2 * ctx.n, None


def test_autograd_functions() -> None:
    check(lambda a: Cube.apply(a * 2, 2) + 1, x())
    check(lambda a: Cube.apply(a * 2, 2) + 1, x().requires_grad_())
    compiled = framejit.compile(lambda a: Cube.apply(a, 1), backend="eager", fullgraph=True)
    value = x().requires_grad_()
    same(compiled(value), Cube.apply(value, 1))
    Cube.scale = 2.0
    try:
        same(compiled(value), Cube.apply(value, 1))
    finally:
        Cube.scale = 1.0


def test_in_place_operators_on_numbers_make_tensors() -> None:
    def fn(a: Any) -> Any:
        total = 0
        total += a
        n = 2.0
        n *= a
        return total, n

    check(fn, x())


def test_default_device_and_dtype() -> None:
    def fn(a: Any) -> Any:
        return torch.zeros(2) + a[0, :2], torch.get_default_dtype(), torch.get_default_device()

    check(fn, x())
    with torch.device("cpu"):
        check(fn, x())
    torch.set_default_dtype(torch.float64)
    try:
        check(fn, x())
    finally:
        torch.set_default_dtype(torch.float32)


def test_lists_of_tensors_and_out() -> None:
    def fn(a: Any, b: Any) -> Any:
        torch._foreach_add_([a, b], 1)
        c = torch.empty(3, 4)
        torch.mul(a, b, out=c)
        F.relu(a, inplace=True)
        return c, torch._foreach_mul([a, b], 2.0), torch.cat((a, b)).sum()

    check(fn, x(), x())


def test_checks_and_folded_questions() -> None:
    def fn(a: Any) -> Any:
        torch._check(a.size(0) == 3)
        torch._assert(a.dim() == 2, "a matrix")
        with torch.autograd.profiler.record_function("block"):
            b = a * 2
        return b, torch.jit.is_scripting(), torch.is_autocast_enabled("cpu"), torch.backends.cudnn.enabled, torch.cuda.is_available()

    check(fn, x())
    assert framejit.compile(lambda: torch.compiler.is_compiling(), backend="eager", fullgraph=True)() is True


def test_python_types_as_dtypes() -> None:
    check(lambda a: (a.to(int), a.sum(dtype=float), torch.tensor(0, dtype=int), torch.zeros(2, dtype=bool), a.new_ones(2, dtype=complex)), x())


def test_custom_operators() -> None:
    @torch.library.custom_op("framejit_test::twice", mutates_args=())
    def twice(a: torch.Tensor) -> torch.Tensor:
        return a * 2

    @twice.register_fake
    def _(a: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(a)

    check(lambda a: twice(a) + torch.ops.framejit_test.twice(a), x())


def test_a_grad_of_another_type_is_carried():
    def program(compile):
        layer, x = nn.Linear(3, 3), torch.ones(2, 3)
        nn.init.ones_(layer.weight), nn.init.ones_(layer.bias)
        layer(x).sum().backward()
        compiled = compile(lambda layer, t: (layer.double()(t.double()), layer.weight.grad.dtype))
        return [compiled(layer, x), compiled(layer, x)]

    agree_over_calls(program, stops=True)


def test_text_that_is_formatted_with_a_tensor_shows_its_data():
    def program(x):
        return "%s" % x, b"%a" % (x + 1), "%.2f" % x.sum(), "%s and %s" % (x, x.shape)

    check(program, torch.ones(2), fullgraph=False)


@pytest.mark.parametrize("backend", IN_THE_PLACE_OF_EAGER)
def test_views_of_inputs_that_overlap_and_are_written_to(backend):
    def program(x, y):
        x.mul_(2)
        return x[1:3], y[:2], y + 1

    for places in ((slice(2, 6), slice(4, 8)), (slice(4, 8), slice(2, 6)), (slice(2, 6), slice(0, 8))):
        framejit.reset()
        mine, theirs = torch.arange(8.0), torch.arange(8.0)
        expected = program(*[theirs[place] for place in places])
        found = framejit.compile(program, backend=backend, fullgraph=True)(*[mine[place] for place in places])
        found[0].add_(1)
        expected[0].add_(1)
        same((found, mine), (expected, theirs))


@pytest.mark.parametrize("backend", IN_THE_PLACE_OF_EAGER)
def test_tensors_whose_elements_lie_in_one_place_are_written_to(backend):
    def program(x):
        x[0] = 7
        return x + 1

    for shape, strides in (((3,), (0,)), ((3, 2), (1, 2))):
        mine, theirs = [torch.arange(8.0).as_strided(shape, strides) for _ in range(2)]
        same(framejit.compile(program, backend=backend)(mine), program(theirs))
        same(mine, theirs)


@pytest.mark.parametrize("backend", IN_THE_PLACE_OF_EAGER)
def test_tensors_that_overlap_and_have_other_bases_are_written_to(backend):
    def program(x, y, *others):
        y.mul_(2)
        return x[:2], y + 1, [other + 1 for other in others]

    def detached():
        b = torch.arange(10.0)
        part = b[2:].detach()
        return b, part[4:], part

    def apart():
        b = torch.arange(10.0)
        return b, b.detach()[2:6], b.detach()[4:8]

    def beside():
        b = torch.arange(10.0)
        return b, b[:4], b[2:6], b.detach()[7:]

    def of_another_dtype():
        b = torch.arange(10.0)
        return b, b[:4], b.view(torch.int32)[2:6]

    def of_one_array():
        b = numpy.arange(10.0)
        return torch.from_numpy(b[1:]), torch.from_numpy(b[:4]), torch.from_numpy(b)

    for make in (detached, apart, beside, of_another_dtype, of_one_array):
        mine, theirs = make(), make()
        same(framejit.compile(program, backend=backend)(*mine[1:]), program(*theirs[1:]))
        same(mine, theirs)


@pytest.mark.parametrize("backend", IN_THE_PLACE_OF_EAGER)
def test_a_tensor_of_any_size_with_the_memory_of_another_one_is_written_to(backend):
    def program(x, y):
        x.mul_(2)
        return x + y

    compiled = framejit.compile(program, backend=backend)
    for size in (4, 5, 6):
        mine, theirs = torch.arange(float(size)), torch.arange(float(size))
        same(compiled(mine, mine.detach()), program(theirs, theirs.detach()))
        same(mine, theirs)


@pytest.mark.parametrize("backend", IN_THE_PLACE_OF_EAGER)
def test_tensors_that_come_to_share_memory(backend):
    def program(x, y):
        x.mul_(2)
        return x + y

    compiled = framejit.compile(program, backend=backend)
    for _ in range(2):
        same(compiled(torch.ones(4), torch.ones(4)), torch.full((4,), 3.0))
        array = numpy.ones(4, numpy.float32)
        same(compiled(torch.from_numpy(array), torch.from_numpy(array)), torch.full((4,), 4.0))


def test_whether_a_tensor_is_a_view() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        before = x._base is None
        x.add_(1)
        return x * 2, before, x._base, y._base is None

    def whole() -> Any:
        return torch.ones(3), torch.ones(2)

    def part() -> Any:
        held = torch.ones(4)
        return held[1:], held

    def only_second() -> Any:
        return torch.nn.Parameter(torch.ones(3)).data, torch.ones(4)[1:]

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for make, breaks in ((whole, 0), (whole, 0), (part, 2), (only_second, 3), (whole, 3)):
        same(compiled(*make()), program(*make()))
        assert framejit.statistics()["graph_breaks"] == breaks


@pytest.mark.only_eager("AOTAutograd counts changes of an input otherwise")
@pytest.mark.parametrize("program", [
    lambda x: (x + 1)._base,
    lambda x: (x[1:]._base is x, x.view(-1)._base, (x * 2)[1:]._base),
    lambda x: (setattr(x, "data", torch.ones(4)[1:]), x._base, x + 1)[1:],
    lambda x: (x._version, x.add_(1)._version, x * 2),
])  # fmt: skip
def test_what_tensors_of_a_graph_are_views_of_runs_natively(program: Any) -> None:
    same(framejit.compile(program, backend="eager")(torch.ones(3)), program(torch.ones(3)))
