"""`framejit.compile_eager_operators`: operators that are called outside of compiled code."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import framejit
from framejit import _operators
from framejit.backends.eager_kernels import kernel_maker
from framejit.errors import UnknownBackend, UnknownOperator


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Each test closes what it opens, and frees all kernels."""
    yield
    assert _operators.count_kernels() == 0


def same(found: Any, expected: Any) -> None:
    """Equal, with eager's dtypes, sizes and strides."""
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for one, other in pairs:
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        torch.testing.assert_close(one, other, equal_nan=True)


def compare(names: Any, call: Callable[..., Any], *arguments: tuple[Any, ...]) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
    """Call a function twice with each of several tuples of arguments while operators are in force, and compare with eager. Gives kernels and refusals."""
    expected = [call(*each) for each in arguments]
    with framejit.compile_eager_operators(names) as compiled:
        found = [(call(*each), call(*each)) for each in arguments]
        kernels, refusals = dict(compiled.kernels), dict(compiled.refusals)
    for both, wanted in zip(found, expected):
        same(both[0], wanted)
        same(both[1], wanted)
    return kernels, refusals


def test_one_kernel_serves_all_sizes_of_a_dtype_and_rank() -> None:
    """Tensors with gaps, or without elements, are left to torch. The program is warned of nothing, and its random numbers stay."""
    whole = torch.randint(0, 100, (6, 8))
    calls = [(torch.randint(0, 100, size),) for size in [(32, 32), (5, 7), (2, 90)]]
    left_out = [(each,) for each in (whole[:, 1:5], whole[:1].expand(3, 8), whole[:0])]
    before = torch.get_rng_state()
    with warnings.catch_warnings(record=True) as warned:
        kernels, refusals = compare("bitwise_not", torch.bitwise_not, *calls, *left_out)
    assert kernels == {"aten.bitwise_not.default": 1} and not refusals
    assert not [each for each in warned if not issubclass(each.category, DeprecationWarning)]  # which torch's modules cause when they are first imported
    assert torch.equal(torch.get_rng_state(), before)


def test_calls_that_fail_compile_nothing() -> None:
    with framejit.compile_eager_operators(["bitwise_not", "add.Tensor"]) as compiled:
        with pytest.raises(RuntimeError, match="not implemented for 'Float'"):
            torch.bitwise_not(torch.ones(2, 3))
        with pytest.raises(RuntimeError, match="must match the size of tensor b"):
            torch.ones(2, 3) + torch.ones(2, 4)
        assert not compiled.kernels and not compiled.refusals


def test_sizes_that_have_to_agree_are_guarded() -> None:
    """A kernel for two equal shapes serves no others: torch's kernel raises what it raises."""
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    with framejit.compile_eager_operators("add.Tensor") as compiled:
        for _ in range(2):
            found = x + y
        with pytest.raises(RuntimeError, match="must match the size of tensor b"):
            x + torch.randn(5, 6)
        wide = torch.randn(9, 3)
        again = wide + wide
        assert compiled.kernels == {"aten.add.Tensor": 1}
    same(found, x + y)
    same(again, wide + wide)


def test_numbers_are_arguments_of_one_kernel() -> None:
    """A number of Python's in place of a tensor has Python's types: it makes no double of a float."""
    kernels, refusals = compare("mul.Tensor", lambda x, number: x * number, *[(torch.randn(4, 6), number) for number in (2.5, 0.1, -3.0)])
    assert kernels == {"aten.mul.Tensor": 1} and not refusals
    assert compare("mul.Tensor", lambda x, number: x * number, (torch.randint(0, 9, (4, 6)), 2.5), (torch.randint(0, 9, (3, 3)), 0.5))[0]


def test_values_of_other_arguments_have_their_own_kernels() -> None:
    x = torch.rand(4, 6)
    kernels, _ = compare("pow.Tensor_Scalar", lambda x, exponent: x**exponent, (x, 2), (x, 3), (x, 2))
    assert kernels == {"aten.pow.Tensor_Scalar": 2}


def test_the_number_of_kernels_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once too many calls have been refused, later ones that need another kernel are left to torch at once, until a reset."""
    asked = []
    monkeypatch.setattr(kernel_maker, "MOST_REFUSED", 3)
    monkeypatch.setattr(kernel_maker.CompilingThread, "run", lambda self: asked.append(self))
    x = torch.rand(4, 6)
    with framejit.compile_eager_operators("pow.Tensor_Scalar") as compiled:
        for exponent in range(2, 9):
            assert torch.equal(x**exponent, x**exponent)
        assert len(asked) == 3 and "too many" in compiled.refusals["aten.pow.Tensor_Scalar"][-1]
        framejit.reset()
        x**9
        assert len(asked) == 4


def test_several_results_strides_and_gradients() -> None:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = x.detach().requires_grad_()
        variance, mean = torch.var_mean(x, dim=0)
        (variance * mean).sum().backward()
        assert x.grad is not None
        return variance, mean, x.grad

    kernels, refusals = compare("var_mean", call, (torch.randn(5, 6),), (torch.randn(70, 3),))
    assert kernels == {"aten.var_mean.correction": 1} and not refusals
    kernels, _ = compare("clamp", lambda x: x.clamp(-0.5, 0.5), (torch.randn(5, 6, 7).permute(2, 0, 1),), (torch.randn(3, 2, 9).permute(2, 0, 1),))
    assert kernels == {"aten.clamp.default": 1}


def test_operators_that_take_indices_or_change_arguments_are_left_to_torch() -> None:
    """On one of several threads, Inductor's check of an index would end the process. `native_batch_norm` changes what its schema doesn't name."""
    x, indices = torch.randn(6, 4), torch.tensor([0, 3, 5])
    with framejit.compile_eager_operators(["index_select", "native_batch_norm"]) as compiled:
        for _ in range(2):
            assert torch.equal(torch.index_select(x, 0, indices), x[[0, 3, 5]])
        with pytest.raises(IndexError, match="index out of range"):
            torch.index_select(x, 0, indices + 1)
        mean, variance = torch.zeros(4), torch.ones(4)
        for _ in range(2):
            torch.native_batch_norm(x, None, None, mean, variance, True, 0.5, 1e-5)
        assert not compiled.kernels
        assert compiled.refusals["aten.index_select.default"] == ("it takes indices, which have to be checked",)
        assert "aten.native_batch_norm.default" in compiled.refusals
    torch.testing.assert_close(mean, x.mean(0) * 0.75)


def test_kernels_are_freed_and_torchs_come_back() -> None:
    def has_ours() -> bool:
        return "framejit.compile_eager_operators" in torch._C._dispatch_dump("aten::bitwise_not")

    x = torch.randint(0, 100, (3, 4))
    outer = framejit.compile_eager_operators("bitwise_not")
    with framejit.compile_eager_operators([torch.ops.aten.bitwise_not, "aten::bitwise_not.default"]) as inner:
        assert inner.operators == ("aten.bitwise_not.default",)
        for _ in range(2):
            torch.bitwise_not(x)
        assert _operators.count_kernels() == 1
        framejit.reset()
        assert _operators.count_kernels() == 0 and not inner.kernels
    assert has_ours()
    outer.close()
    outer.close()
    assert not has_ours() and not outer.kernels
    assert torch.equal(torch.bitwise_not(x), -1 - x)


@pytest.mark.parametrize("call", [torch.Tensor.clone, torch.bitwise_not])
def test_torchs_python_dispatcher_notices_that_kernels_come_and_go(call: Callable[..., Any]) -> None:
    """The first operator has a kernel for all devices, and the second one for the CPU."""
    x = torch.randint(0, 100, (3, 4))
    expected = call(x)
    for _ in range(2):
        with framejit.compile_eager_operators(call.__name__) as compiled:
            with enable_python_dispatcher():
                found = [call(x) for _ in range(3)]
            assert sum(compiled.kernels.values()) == 1
        with enable_python_dispatcher():
            found.append(call(x))
        assert all(torch.equal(each, expected) for each in found)


def test_nothing_is_compiled_while_something_else_is_traced() -> None:
    x, inside = torch.randint(0, 100, (3, 4)), []

    def run_inside() -> torch.Tensor:
        inside.append(torch.bitwise_not(x))
        return inside[-1]

    class Module(torch.nn.Module):
        def forward(self, y: torch.Tensor) -> torch.Tensor:
            return y + run_inside()

    with framejit.compile_eager_operators("bitwise_not") as compiled:
        framejit.compile(lambda y: y + 1, backend=lambda gm, inputs: run_inside() is None or gm)(torch.ones(2))
        torch.fx.symbolic_trace(Module())
        make_fx(Module())(torch.ones(3, 4))
        assert len(inside) == 3 and all(torch.equal(each, -1 - x) for each in inside)
        assert not compiled.kernels and not compiled.refusals


class Seen(TorchDispatchMode):
    """A mode that sees each operator."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_modes_and_transforms_run_kernels() -> None:
    """A kernel is compiled outside of the modes of the thread that needs it, and used inside of them."""
    x = torch.randint(0, 100, (3, 4))
    with framejit.compile_eager_operators("bitwise_not") as compiled:
        with Seen(), torch.device("meta"), torch.inference_mode():
            found = [torch.bitwise_not(x) for _ in range(2)]
        found += [torch.func.vmap(torch.bitwise_not)(x), framejit.compile(torch.bitwise_not, backend="eager")(x)]
        assert compiled.kernels == {"aten.bitwise_not.default": 1}
    assert found[1].is_inference() and all(torch.equal(each, -1 - x) for each in found)


def test_threads_and_forked_processes() -> None:
    """Kernels are looked up without a lock, while others are opened and closed; a forked process goes on with those that there are."""
    x = torch.randint(0, 100, (30, 40))
    expected, wrong, stop = -1 - x, [], threading.Event()

    def work() -> None:
        while not stop.is_set():
            if not torch.equal(torch.bitwise_not(x), expected):
                wrong.append(1)

    with framejit.compile_eager_operators("bitwise_not"):
        for _ in range(2):
            torch.bitwise_not(x)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.equal(torch.bitwise_not(x), expected) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        framejit.reset()
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("bitwise_nott", "there is no operator 'bitwise_nott'; near it are 'aten::bitwise_not'"),
        ("add.Tenser", "there is no operator 'add.Tenser'; near it are 'aten::add.Tensor'"),
        ("relu_", "no kernels can be compiled for aten::relu_: it changes its arguments"),
        (torch.ops.aten.t.default, "aten::t.default: its results are views"),
        ("aten::rand_like", "it makes tensors from options"),
        ("bernoulli.p", "it draws random numbers"),
        ("nonzero", "the sizes of its results depend on data"),
        ("as_strided_copy", "wouldn't check its arguments"),
        ("layer_norm", "it consists of other operators, which autograd sees, and these can be named, such as aten::native_layer_norm"),
        (["add", 3], "an operator is a name"),
        (3, "an operator is a name"),
    ],
)
def test_operators_that_have_no_kernels(names: Any, message: str) -> None:
    with pytest.raises(UnknownOperator, match=message) as raised:
        framejit.compile_eager_operators(names)
    assert isinstance(raised.value, ValueError)


def test_unknown_backends() -> None:
    with pytest.raises(UnknownBackend, match="has no backend 'aot'; did you mean 'aoti'"):
        framejit.compile_eager_operators("add", backend="aot")


def test_all_operators_are_functional() -> None:
    with framejit.compile_eager_operators("all") as compiled:
        assert {"aten.add.Tensor", "aten.var_mean.correction", "aten._softmax.default"} <= set(compiled.operators)
        assert not {name for name in compiled.operators if ".out" in name or name.split(".")[1].endswith("_") and not name.split(".")[1].startswith("__")}
        assert torch.randn(2).add(torch.zeros(0, 2)).shape == (0, 2)
