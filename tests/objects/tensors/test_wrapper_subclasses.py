"""Tensors that wrap others (`__torch_dispatch__` with `__tensor_flatten__`): as inputs, results and parameters, made inside, and what is guarded of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import framejit

BACKENDS = ("eager", "aot_eager")
asked: list[Any] = []


class Pair(torch.Tensor):
    """A wrapper of two tensors, each operator running on both, with a number that its operators use."""

    @staticmethod
    def __new__(cls, a: torch.Tensor, b: torch.Tensor, times: int = 1) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device, requires_grad=False)

    def __init__(self, a: torch.Tensor, b: torch.Tensor, times: int = 1) -> None:
        self.a = a
        self.b = b
        self.times = times

    def __tensor_flatten__(self) -> Any:
        return ["a", "b"], (self.times,)

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Pair(inner["a"], inner["b"], *context)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        times = max(t.times for t in pytree.tree_leaves(args) if isinstance(t, Pair))
        first = func(*pytree.tree_map_only(Pair, lambda t: t.a, args), **(kwargs or {}))
        second = func(*pytree.tree_map_only(Pair, lambda t: t.b, args), **(kwargs or {}))
        flat, structure = pytree.tree_flatten(first)
        pairs = zip(flat, pytree.tree_leaves(second))
        made = [Pair(a, b, times + 1) if isinstance(a, torch.Tensor) else a for a, b in pairs]
        return args[0] if func._schema.name.endswith("_") else pytree.tree_unflatten(made, structure)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Pair(times={self.times})"

    def difference(self) -> torch.Tensor:
        return (self.a - self.b) * self.times


class Scaled(torch.Tensor):
    """A weight and its scale, with an override of linear, as quantised weights are."""

    @staticmethod
    def __new__(cls, data: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.float32, device=data.device)

    def __init__(self, data: torch.Tensor, scale: torch.Tensor) -> None:
        self.data_of_type = data
        self.scale = scale

    def __tensor_flatten__(self) -> Any:
        return ["data_of_type", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any = None, stride: Any = None) -> Any:
        return cls(inner["data_of_type"], inner["scale"])

    def __repr__(self) -> str:  # type: ignore[override]
        return "Scaled()"

    def dequantized(self) -> torch.Tensor:
        return self.data_of_type.to(torch.float32) * self.scale

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        asked.append(func)
        if func is nn.functional.linear:
            x, weight, *rest = args
            return nn.functional.linear(x, weight.data_of_type.to(x.dtype)) * weight.scale + (rest[0] if rest else 0)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].data_of_type, args[0].scale)
        return func(*pytree.tree_map_only(Scaled, lambda t: t.dequantized(), args), **(kwargs or {}))


def pair(*shape: int, times: int = 1) -> Pair:
    torch.manual_seed(0)
    return Pair(torch.randn(shape), torch.randn(shape), times)


def plain(value: Any) -> Any:
    """Return the parts of a result that are compared: of tensors the type, the values and `requires_grad`; of a Pair also its parts."""
    if isinstance(value, Pair):
        return Pair, value.a.tolist(), value.b.tolist(), value.times, value.requires_grad
    if isinstance(value, torch.Tensor):
        return type(value), value.detach().tolist(), value.requires_grad
    return [type(value), *map(plain, value)] if isinstance(value, (tuple, list)) else value


def same(program: Callable[..., Any], *args: Any, backend: str = "eager", graphs: int | None = 1) -> Any:
    """The compiled function gives what the function gives, in so many graphs; gives the compiled function."""
    framejit.reset()
    compiled = framejit.compile(program, backend=backend, fullgraph=graphs == 1)
    for _ in range(2):
        assert plain(compiled(*args)) == plain(program(*args))
    assert graphs is None or framejit.statistics()["graphs"] == graphs
    return compiled


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_results_attributes_and_methods(backend: str) -> None:
    def program(p, x):
        q = (p * x).sin() + 1
        return q, q.a, q.times, q.difference(), p.b * 2, p.difference(), type(q), isinstance(q, Pair), q.shape, q.dtype, p.relu() @ p.T

    same(program, pair(2, 2), torch.randn(2), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_wrapper_holds_is_guarded(backend: str) -> None:
    def program(p):
        q = p * 2
        return q, q.times

    compiled = same(program, pair(2), backend=backend)
    for other, entries in ((pair(2), 1), (pair(2, times=5), 2), (pair(3), 3), (Pair(torch.ones(2, 2)[:, 0], torch.ones(2)), 4), (pair(2), 4)):
        assert plain(compiled(other)) == plain(program(other))
        assert framejit.statistics()["graphs"] == entries


def test_an_object_that_a_wrapper_holds_is_guarded() -> None:
    class Config:
        def __init__(self, times: int) -> None:
            self.times = times

    def held(times: int) -> Pair:
        found = pair(2, times=times)
        found.config = Config(times)  # type: ignore[attr-defined]
        return found

    compiled = framejit.compile(lambda p: p * 2, backend="eager", fullgraph=True)
    framejit.reset()
    for times in (1, 2, 1):
        assert plain(compiled(held(times))) == plain(held(times) * 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_quantised_weights_of_a_model(backend: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    for layer in (model[0], model[2]):
        weight = layer.weight.detach()
        layer.weight = nn.Parameter(Scaled((weight * 10).to(torch.int8), torch.tensor(0.1)), requires_grad=False)
    x = torch.randn(5, 4, requires_grad=True)
    framejit.reset()
    compiled = framejit.compile(model, backend=backend, fullgraph=True)
    for _ in range(2):
        asked.clear()
        expected = model(x)
        words = [*asked]
        asked.clear()
        found = compiled(x)
        assert torch.equal(found, expected) and asked == words
        (gradient,) = torch.autograd.grad(found.sum(), x)
        assert torch.allclose(gradient, torch.autograd.grad(expected.sum(), x)[0])
    assert framejit.statistics()["graphs"] == 1
    model[0].weight = nn.Parameter(Scaled((torch.ones(3, 4) * 5).to(torch.int8), torch.tensor(0.5)), requires_grad=False)
    assert torch.equal(compiled(x), model(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_a_parameter_that_wraps_others(backend: str) -> None:
    def gradients(wrap: Callable[..., Any]) -> list[Any]:
        weight = nn.Parameter(pair(2, 2))
        x = torch.ones(2, 2, requires_grad=True)
        loss = wrap(lambda w, x: (w * x).sum())(weight, x)
        loss.backward()
        return [plain(loss), plain(weight.grad)]

    assert gradients(lambda f: framejit.compile(f, backend=backend, fullgraph=True)) == gradients(lambda f: f)


def test_made_inside() -> None:
    def program(x):
        p = Pair(x * 2, x, times=3)
        q = p * 2
        return p, q, q.a, q.times, p.difference(), p.a

    same(program, torch.randn(3))
    same(program, torch.randn(3), backend="aot_eager")


def test_made_inside_of_what_has_a_gradient() -> None:
    def program(x):
        return Pair(x * 2, x).a + 1

    x = torch.randn(3, requires_grad=True)
    same(program, x)


def test_changed_in_place() -> None:
    def program(p):
        p.mul_(2)
        return p + 1, p.a

    for backend in BACKENDS:
        left, right = pair(2), pair(2)
        assert plain(framejit.compile(program, backend=backend)(left)) == plain(program(right))
        assert plain(left) == plain(right)


def test_attributes_are_set_natively() -> None:
    def program(p):
        q = p * 2
        q.times = 7
        return q + 1

    same(program, pair(2), graphs=None)


def test_a_class_that_says_nothing_of_its_parts_breaks() -> None:
    class Opaque(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    with pytest.raises(framejit.Unsupported, match="Opaque"):
        framejit.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(2).as_subclass(Opaque))


VARYING: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = {
    "operators": (lambda x, y: ((x * y + 1).relu(), x.shape[0]), lambda n: (pair(n, 4), torch.ones(n, 4))),
    "views and parts": (lambda x: (x.view(x.shape[0] * 2, 2).sin(), x.a.sum() + x.b), lambda n: (pair(n, 4),)),
    "made inside": (lambda a: Pair(a * 2, a + 1) @ a.T, lambda n: (torch.ones(n, 4),)),
    "after a break": (lambda x: (framejit.graph_break(), x * 2)[1], lambda n: (pair(n, 4),)),
    "the second size": (lambda x: x.sum(0) * x.shape[1], lambda n: (pair(2, n),)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", VARYING)
def test_sizes_that_vary_are_symbolic(name: str, backend: str) -> None:
    program, make = VARYING[name]
    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for n in (3, 4, 5, 7):
        assert plain(compiled(*make(n))) == plain(program(*make(n)))
    assert framejit.statistics()["graphs"] == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_of_varying_size_through_quantised_weights(backend: str) -> None:
    model = nn.Linear(4, 3)
    model.weight = nn.Parameter(Scaled(torch.ones(3, 4, dtype=torch.int8), torch.full((3,), 0.5)), requires_grad=False)
    framejit.reset()
    compiled = framejit.compile(model, backend=backend, fullgraph=True)
    for n in (2, 3, 4, 5):
        x = torch.randn(n, 4, requires_grad=True)
        assert torch.allclose(compiled(x), model(x))
    assert framejit.statistics()["graphs"] == 2


class Slotted(torch.Tensor):
    """A wrapper that keeps what it holds in slots."""

    __slots__ = ("inner", "times", "unset")

    @staticmethod
    def __new__(cls, inner: torch.Tensor, times: int) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        made.inner, made.times = inner, times
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Slotted(times={self.times})"

    def __tensor_flatten__(self) -> Any:
        return ["inner"], (self.times,)

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Slotted(inner["inner"], *context)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        times = max(t.times for t in pytree.tree_leaves(args) if isinstance(t, Slotted))
        return Slotted(func(*pytree.tree_map_only(Slotted, lambda t: t.inner, args), **(kwargs or {})) * times, times)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_wrapper_holds_in_slots_is_guarded(backend: str) -> None:
    framejit.reset()
    compiled = framejit.compile(lambda x: x + 1, backend=backend, fullgraph=True)
    for times in (1, 3, 1):
        found = compiled(Slotted(torch.ones(2), times))
        assert (found.inner.tolist(), found.times) == ([2.0 * times] * 2, times)
    assert framejit.statistics()["graphs"] == 2


@pytest.mark.filterwarnings("ignore:.*MaskedTensors")
def test_masked_tensors_from_outside_are_left_to_native_code_as_a_whole() -> None:
    def mean(made: Any) -> Any:
        return (made * 2).sum(1).get_data() + 1

    framejit.reset()
    data = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
    x = torch.masked.masked_tensor(data, data > 0)
    assert torch.equal(framejit.compile(mean, backend="eager")(x), mean(x))
    assert framejit.statistics()["graph_breaks"] <= 5
    assert not any("masked/maskedtensor" in str(reason).partition(" at ")[2] for reason in framejit.statistics()["reasons"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_part_that_is_changed_before_its_wrapper_is_used(backend: str) -> None:
    def change(part: torch.Tensor, pair: Any) -> Any:
        part.add_(1)
        return (pair * 2).a

    pair = Pair(torch.zeros(3), torch.ones(3))
    compiled = framejit.compile(change, backend=backend)
    assert compiled(pair.a, pair).tolist() == [2.0, 2.0, 2.0]
    assert compiled(pair.a, pair).tolist() == [4.0, 4.0, 4.0]
    assert compiled(torch.zeros(3), pair).tolist() == [4.0, 4.0, 4.0]


def changed_result(pair: Any, x: torch.Tensor) -> Any:
    y = pair.a * 2 + x
    y += x
    return y * pair.b


def changed_before_it_is_wrapped(pair: Any, x: torch.Tensor) -> Any:
    y = x + 1
    y.add_(5)
    made = Pair(y, x * 2)
    return made.a * 1, (made * 1).a


def changed_behind(pair: Any, x: torch.Tensor) -> Any:
    y = x + 1
    made = Pair(y, x * 2)
    y.add_(5)
    return made.a * 1, (made * 1).a


def view_changed_behind(pair: Any, x: torch.Tensor) -> Any:
    y = x * 2
    made = Pair(y.view(3, 1), y.view(3, 1) * 1)
    y.add_(1)
    return (made * 1).a


def part_of_a_result_changed(pair: Any, x: torch.Tensor) -> Any:
    made = pair * 2
    made.a.add_(7)
    return made.a * 1, (made * 1).a


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", (changed_result, changed_before_it_is_wrapped, changed_behind, view_changed_behind, part_of_a_result_changed))
def test_changes_in_place_beside_wrappers(program: Callable[..., Any], backend: str) -> None:
    framejit.reset()
    arguments = [(Pair(torch.ones(3), torch.ones(3) * 2), torch.ones(3)) for _ in range(2)]
    assert plain(framejit.compile(program, backend=backend)(*arguments[0])) == plain(program(*arguments[1]))
    assert plain(arguments[0]) == plain(arguments[1])
    if backend == "eager" or program in (changed_result, changed_before_it_is_wrapped):
        assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0)


class Typed(Pair):
    """A wrapper whose parts are told with its type, and that is asked what functions mean."""

    def __tensor_flatten__(self) -> Any:
        return ["a", "b"], [1, self.dtype]

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Typed(inner["a"], inner["b"])


def test_made_inside_with_its_type_as_context() -> None:
    framejit.reset()
    compiled = framejit.compile(lambda x: (Typed(x * 2, x + 1) * 3).a, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [6.0, 6.0]
    assert framejit.statistics()["graph_breaks"] == 0


class Strided(Pair):
    """A wrapper that says its strides by name."""

    @staticmethod
    def __new__(cls, a: torch.Tensor, b: torch.Tensor, times: int = 1) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, strides=a.stride(), dtype=a.dtype, device=a.device)

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Strided(inner["a"], inner["b"], *context)


def test_made_inside_with_strides_by_name() -> None:
    framejit.reset()
    compiled = framejit.compile(lambda x: Strided(x * 2, x + 1, 3).difference(), backend="eager")
    for size in (3, 5):
        assert torch.equal(compiled(torch.ones(4, size)), torch.zeros(4, size))
    assert framejit.statistics()["graph_breaks"] == 0


def test_a_wrapper_whose_init_runs_at_a_break() -> None:
    class Broken(Pair):
        def __init__(self, a: torch.Tensor, b: torch.Tensor, times: int = 1) -> None:
            print(end="")
            super().__init__(a, b, times)

    compiled = framejit.compile(lambda x: Broken(x, x + 1).difference() * 2, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [-2.0, -2.0]
    assert framejit.statistics()["internal_errors"] == 0
