"""`__torch_function__`: who is asked, in which order and with which words, in traces as in eager; gradients, attributes, guards, breaks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import framejit
from framejit.objects.tensors.overrides import KNOWN_AS

BACKENDS = ("eager", "aot_eager")
log: list[Any] = []


@pytest.fixture(autouse=True)
def empty_log() -> Iterator[None]:
    log.clear()
    yield
    log.clear()


class Noting(torch.Tensor):
    """Notes what it is asked."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, *words: Any) -> Any:
        log.append((func, types, len(words), [type(arg) for arg in words[0]]))
        args, kwargs = (*words, {})[:2]
        return super().__torch_function__(func, types, args, kwargs)


class Named(torch.Tensor):
    """A subclass without an override of its own."""


def noting(*shape: int) -> torch.Tensor:
    return torch.rand(shape).as_subclass(Noting)


def plain(value: Any) -> Any:
    """Return the parts of a result that are compared: of tensors the type, the values and `requires_grad`."""
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():
            return type(value), value.detach().as_subclass(torch.Tensor).tolist(), value.requires_grad
    return [type(value), *map(plain, value)] if isinstance(value, (tuple, list)) else value


def same(function: Callable[..., Any], *args: Any, backend: str = "eager", graphs: int | None = 1, calls: int = 2) -> None:
    """The compiled function gives what the function gives, and asks what it asks, in one graph."""
    compiled = framejit.compile(function, backend=backend, isolate_recompiles=True, fullgraph=graphs == 1)
    for _ in range(calls):
        log.clear()
        expected = plain(function(*args))
        asked, log[:] = [*log], []
        before = framejit.statistics()["graphs"]
        assert plain(compiled(*args)) == expected
        noted = [*log]
        if _ == 0:
            assert [repr(entry) for entry in noted] == [repr(entry) for entry in asked]
            assert graphs is None or framejit.statistics()["graphs"] - before == graphs


def setting(tensor: torch.Tensor, key: Any, value: Any) -> torch.Tensor:
    tensor[key] = value
    return tensor


ASKING: dict[str, Callable[..., Any]] = {
    "operators": lambda x, p: (x + 1, 1 + x, p + x, x - 1, 1 - x, 2 / x, x // 2, 2**x, p @ x, -x, abs(x)),
    "comparisons": lambda x, p: (x == 1, x < p, p < x, 1 < x, x != p),
    "in place": lambda x, p: (operator.iadd(x.clone(), 1), operator.itruediv(x.clone(), 2), x.clone().mul_(3)),
    "items": lambda x, p: (x[0], p[x > 0], p[x > 0,], setting(p.clone(), 0, x[0]), setting(x.clone(), 0, 1), len(x), list(x)),
    "attributes": lambda x, p: (x.shape, x.dtype, x.mT, x.requires_grad, x.data, x.ndim, x.is_leaf),
    "functions": lambda x, p: (torch.add(x, 1, alpha=2), torch.add(p, other=x), torch.cat([p, x]), torch.sum(input=x), torch.max(x, 0), x.split(1)),
    "functions in Python": lambda x, p: (F.relu(x), F.gelu(x), torch.einsum("ij,ij->", x, p), F.pad(x, (1, 1)), F.mse_loss(x, p), x.norm()),
    "operators of torch.ops": lambda x, p: torch.ops.aten.add.Tensor(x, p),
    "nobody": lambda x, p: (x.as_subclass(torch.Tensor) + 1, isinstance(x, Noting), torch.is_tensor(x), p * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKING)
def test_overrides_are_asked_as_in_eager(name: str) -> None:
    same(ASKING[name], noting(2, 2), torch.rand(2, 2))


def test_special_methods_in_c_have_the_names_that_torch_gives_them() -> None:
    class Asked(Exception):
        pass

    class Probe(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise Asked(func)

    probe = torch.ones(2).as_subclass(Probe)
    for name in dir(torch.Tensor):
        method = getattr(torch.Tensor, name)
        if not name.startswith("__") or getattr(method, "__objclass__", None) is not torch._C.TensorBase or not callable(method):
            continue
        for count in range(3):
            try:
                method(probe, *[1] * count)
            except Asked as asked:
                assert KNOWN_AS.get(method, method) is asked.args[0], name
                break
            except Exception:
                continue


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_reach_the_leaf_of_a_subclass(backend: str) -> None:
    def loss(x, w):
        return ((x @ w).relu() * x.sum()).mean()

    def gradients(function: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        x = torch.rand(2, 3).as_subclass(Named).requires_grad_()
        w = torch.rand(3, 3, requires_grad=True)
        result = function(x, w)
        result.backward()
        return [plain(result), plain(x.grad), plain(w.grad), x.is_leaf]

    assert gradients(framejit.compile(loss, backend=backend, fullgraph=True)) == gradients(loss)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_of_a_subclass_is_changed_in_place(backend: str) -> None:
    def program(x):
        x.add_(1)
        return x * 2, x

    def run(function: Callable[..., Any]) -> Any:
        x = torch.ones(3).as_subclass(Named)
        results = function(x)
        return plain(results), plain(x), results[1] is x

    assert run(framejit.compile(program, backend=backend, fullgraph=True)) == run(program)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_leaf_of_a_subclass_that_is_changed_gets_its_gradient(backend: str) -> None:
    def program(x):
        with torch.no_grad():
            x.mul_(2)
        return (x * x).sum()

    def run(function: Callable[..., Any]) -> Any:
        x = torch.ones(2).as_subclass(Named).requires_grad_()
        function(x).backward()
        return plain(x), plain(x.grad)

    assert run(framejit.compile(program, backend=backend)) == run(program)


class Counted(torch.Tensor):
    """Its tensors have an attribute that results inherit."""

    count: int

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        if isinstance(result, Counted) and not hasattr(result, "count"):
            result.count = 1 + sum(arg.count for arg in args if isinstance(arg, Counted))
        return result

    def twice(self) -> torch.Tensor:
        return self * 2

    @property
    def before(self) -> int:
        return self.count - 1


def counted(count: int) -> Counted:
    x = torch.ones(3).as_subclass(Counted)
    x.count = count
    return x


def test_attributes_methods_and_properties_of_a_subclass() -> None:
    def program(x):
        y = x + x
        return y, y.count, y.twice().before, y.twice()

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for count in (3, 4, 3):
        found, expected = compiled(counted(count)), program(counted(count))
        assert plain(found) == plain(expected)
        assert found[0].count == expected[0].count and vars(found[3]) == vars(expected[3])


class Adding(torch.Tensor):
    """Has operators of its own."""

    def __add__(self, other: Any) -> Any:
        return self.as_subclass(torch.Tensor) - other

    def __radd__(self, other: Any) -> Any:
        return other * 3

    def __eq__(self, other: object) -> Any:
        return "equal"

    def __getitem__(self, key: Any) -> Any:
        return key

    def __len__(self) -> int:
        return 7

    def __bool__(self) -> bool:
        return False

    __hash__ = torch.Tensor.__hash__


def test_operators_of_the_class_itself() -> None:
    def program(x, p):
        return x + p, p + x, 1 + x, x == p, p == x, x[5], len(x), "yes" if x else "no", x * 2

    same(program, torch.ones(3).as_subclass(Adding), torch.ones(3))


class Refusing(torch.Tensor):
    """Leaves everything to others."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        log.append((cls, types))
        return NotImplemented


class Derived(Noting):
    """A subclass with the override of its base."""


class Duck:
    """No tensor, but it takes part in torch's functions."""

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        log.append((func, types, sorted(kwargs or {})))
        plain_args = [arg.inner if isinstance(arg, Duck) else arg.as_subclass(torch.Tensor) if isinstance(arg, torch.Tensor) else arg for arg in args]
        return func(*plain_args, **(kwargs or {}))


def test_subclasses_are_asked_first_and_others_in_order() -> None:
    def program(x, d, p):
        return torch.add(x, d), torch.add(d, x), torch.where(x > 0, d, p)

    same(program, noting(2), torch.ones(2).as_subclass(Derived), torch.ones(2))


def test_who_refuses_is_passed_over() -> None:
    def program(r, p):
        return torch.mul(r, Duck(p)), torch.mul(Duck(p), r)

    same(program, torch.ones(2).as_subclass(Refusing), torch.ones(2))


def test_nobody_answers() -> None:
    def program(r):
        try:
            return torch.sin(r)
        except TypeError as error:
            return str(error)

    same(program, torch.ones(2).as_subclass(Refusing), graphs=None)


def test_a_class_that_is_no_tensor() -> None:
    def program(p):
        return torch.add(Duck(p), 1, alpha=3), F.relu(Duck(p - 1)), torch.cat([Duck(p).inner, p]), torch.softmax(Duck(p), dim=0)

    same(program, torch.rand(3))


def test_overrides_switched_off() -> None:
    def program(x):
        with torch._C.DisableTorchFunctionSubclass():
            y = x + 1
            inside = torch._C._is_torch_function_enabled()
        with torch._C.DisableTorchFunction():
            z = F.relu(x)
        return y, z, x * 2, inside, torch._C._is_torch_function_enabled()

    same(program, noting(3))


def test_a_break_where_overrides_are_switched_off() -> None:
    def program(x):
        with torch._C.DisableTorchFunctionSubclass():
            y = x + 1
            print(end="")
            z = x * 2
        return y, z, x * 3

    same(program, noting(3), graphs=None)
    assert torch._C._is_torch_function_enabled()


def test_a_break_inside_an_override() -> None:
    class Printing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.mul:
                print(end="")
                log.append("mul")
            return super().__torch_function__(func, types, args, kwargs)

    same(lambda x: ((x + 1) * 2).sin(), torch.ones(2).as_subclass(Printing), graphs=None)
    assert log == ["mul"]


def test_another_override_is_another_entry() -> None:
    class Changing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(func, types, args, kwargs)

    def swapped(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return "swapped"

    compiled = framejit.compile(lambda x: x + 1, backend="eager", fullgraph=True)
    x = torch.ones(2).as_subclass(Changing)
    assert type(compiled(x)) is Changing
    Changing.__torch_function__ = classmethod(swapped)  # type: ignore[assignment, method-assign]
    assert compiled(x) == "swapped"


def test_made_inside_and_returned_with_a_gradient() -> None:
    def program(w):
        x = (w * 2).as_subclass(Noting)
        return x, x.as_subclass(Named) + 1, x.as_subclass(torch.Tensor)

    for backend in BACKENDS:
        w = torch.ones(3, requires_grad=True)
        found = framejit.compile(program, backend=backend, fullgraph=True)(w)
        assert plain(found) == plain(program(w))
        torch.autograd.backward([part.as_subclass(torch.Tensor).sum() for part in found])
        assert torch.equal(w.grad, torch.full((3,), 6.0))  # type: ignore[arg-type]


def test_a_leaf_of_a_subclass_made_inside_stays_a_leaf() -> None:
    def program(p):
        x = (p * 2).as_subclass(Named).requires_grad_()
        return x, x * 3

    x, y = framejit.compile(program, backend="eager")(torch.ones(2))
    assert x.is_leaf and type(x) is Named
    y.sum().backward()
    assert x.grad is not None


class Titled(torch.Tensor):
    """Its results have the title of the first operand, as fastai's images have theirs."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, Titled) and isinstance(args[0], Titled):
            result.__dict__.update(args[0].__dict__)
        return result


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_of_tensors_from_outside_are_read(backend: str) -> None:
    def f(x: Any) -> Any:
        first = 0 if x.grad is None else x.grad * 2
        (x * 3).sum().backward()
        return first, x.grad, x.is_leaf, x.retains_grad, type(x.grad).__name__, (x + 1).title

    def titled() -> Any:
        x = torch.ones(2).as_subclass(Titled)
        x.title = "first"  # type: ignore[attr-defined]
        return x.requires_grad_()

    framejit.reset()
    compiled = framejit.compile(f, backend=backend)
    x, y = titled(), titled()
    for _ in range(3):
        expected, found = f(x), compiled(y)
        for left, right in zip(expected, found, strict=True):
            assert type(left) is type(right)
            assert torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right
    assert framejit.statistics()["graph_breaks"] == 0
