"""Tensors made by other ways than an operator: Parameters and modules, lists with tensors in them, constructors of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import framejit

BACKENDS = ("eager", "aot_eager")


def told(value: Any) -> Any:
    """Return the parts of a result that are compared: of tensors the type, dtype, values, flags and attributes."""
    if isinstance(value, torch.Tensor):
        leaf = value.is_leaf
        with torch._C.DisableTorchFunction():
            return type(value), value.dtype, value.detach().as_subclass(torch.Tensor).tolist(), value.requires_grad, leaf, vars(value)
    return [type(value), *map(told, value)] if isinstance(value, (tuple, list)) else value


def same(function: Callable[..., Any], *args: Any, backend: str = "eager", graphs: int | None = 1) -> Any:
    """The compiled function gives what the function gives, in so many graphs; gives what the compiled one gave."""
    for _ in range(2):
        torch.manual_seed(0)
        expected = function(*args)
        torch.manual_seed(0)
        framejit.reset()
        found = framejit.compile(function, backend=backend, fullgraph=graphs == 1)(*args)
        assert told(found) == told(expected)
        assert graphs is None or framejit.statistics()["graphs"] == graphs
    return found


LISTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "nested": lambda x: torch.tensor([[x[0], 1.0], [x[1], 2]]),
    "a tuple": lambda x: torch.tensor((x[0], x[1:2])),
    "as_tensor": lambda x: torch.as_tensor([x[0], True, x[1] * 2]),
    "integers": lambda x: torch.tensor([x.sum().long(), 7, x[0] > 0]),
    "of several types": lambda x: torch.tensor([x[0].half(), x[1].long(), 1]),
    "double": lambda x: torch.tensor([x[0].double(), 1]),
    "with a dtype": lambda x: torch.tensor([x[0], 1], dtype=torch.float64, device="cpu"),
    "complex": lambda x: torch.tensor([x[0] * 1j, 1j]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LISTS)
def test_a_tensor_of_a_list_with_tensors(name: str, backend: str) -> None:
    same(LISTS[name], torch.tensor([1.5, -2.25]), backend=backend)


@pytest.mark.parametrize("program", [
    lambda x: torch.tensor([x[0], 1], dtype=torch.int32), lambda x: torch.tensor([[x[0]], [x[0], 1]]), lambda x: torch.tensor([x, x]),
    lambda x: torch.tensor([x[0], None]), lambda x: torch.tensor([x[0], 2.0], requires_grad=True),
])  # fmt: skip
def test_other_lists_are_left_to_native_code(program: Callable[..., Any]) -> None:
    def tried(x):
        try:
            return program(x)
        except (ValueError, TypeError, RuntimeError) as error:
            return type(error), str(error)

    same(tried, torch.tensor([1.0, 2.0]), graphs=None)


def test_numbers_in_lists_may_vary() -> None:
    compiled = framejit.compile(lambda x, n: torch.tensor([x[0], n]), backend="eager", fullgraph=True)
    for n in (1, 2.5, 3.5, 4.5, True):
        assert told(compiled(torch.ones(2), n)) == told(torch.tensor([1.0, n]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_vary_in_lists_of_numbers(backend: str) -> None:
    """They are symbolic, unless they may be too large for their dtype."""
    framejit.reset()

    def make(a, b):
        return torch.tensor([[a, 2], [3, b]]), torch.tensor([a, 1.5]), torch.as_tensor((a, b), dtype=torch.float64)

    compiled = framejit.compile(make, backend=backend)
    for numbers in ((4, 5), (6, 7), (2**40, -8)):
        assert told(compiled(*numbers)) == told(make(*numbers))
    assert framejit.statistics()["graphs"] == 2
    narrow = framejit.compile(lambda a: torch.tensor([a, 1], dtype=torch.int32), backend=backend)
    narrow(1), narrow(2)
    with pytest.raises(RuntimeError, match="value cannot be converted to type int32 without overflow"):
        narrow(2**40)


def test_no_gradient_goes_through_a_list() -> None:
    def program(w):
        with torch.no_grad():
            y = (w * 2).detach()
        return torch.tensor([y[0], 1.0]) * w

    w = torch.ones(2, requires_grad=True)
    same(program, w)


def a_parameter(x):
    weight = nn.Parameter(x * 2)
    return weight, (x * weight).sum(), isinstance(weight, nn.Parameter), weight.is_leaf, weight.grad


@pytest.mark.only_eager("a graph whose backward is made as a whole makes no leaf")
def test_a_parameter_made_inside_is_a_leaf() -> None:
    weight, loss, *_ = same(a_parameter, torch.tensor([1.0, 2.0]))
    loss.backward()
    assert type(weight) is nn.Parameter and weight.grad.tolist() == [1.0, 2.0]


def test_a_parameter_is_made_natively_where_the_backward_is_made_as_a_whole() -> None:
    weight, loss, *_ = same(lambda x: a_parameter(x)[:1], torch.tensor([1.0, 2.0]), backend="aot_eager", graphs=None) + (None,)
    assert type(weight) is nn.Parameter and weight.is_leaf and loss is None


@pytest.mark.only_eager("a graph whose backward is made as a whole makes no leaf")
def test_a_parameter_shares_the_memory_of_its_data() -> None:
    def program(x):
        y = x * 1
        weight = nn.Parameter(y, requires_grad=False)
        y.add_(1)
        return weight, y

    same(program, torch.ones(2))


@pytest.mark.only_eager("a graph whose backward is made as a whole makes no leaf")
def test_a_module_made_inside() -> None:
    def program(x):
        layer = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        return layer(x), *layer.parameters()

    same(program, torch.ones(2, 2))


CONSTRUCTORS: dict[str, Callable[[], Any]] = {
    "a list": lambda: torch.Tensor([1, 2.5, True]), "sizes": lambda: torch.Tensor(2, 3).fill_(1), "nothing": lambda: torch.Tensor(),
    "nested": lambda: torch.FloatTensor([[1, 2], [3, 4]]), "integers": lambda: torch.LongTensor([1, 2]), "bools": lambda: torch.BoolTensor([True, False]),
    "an empty list": lambda: torch.Tensor([]), "a size": lambda: torch.FloatTensor(torch.ones(2, 3).size()).zero_(),
    "an array": lambda: torch.Tensor(np.arange(3)), "an array of its type": lambda: torch.DoubleTensor(np.ones((2, 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructors_of_classes(name: str) -> None:
    same(CONSTRUCTORS[name])


def test_a_constructor_shares_the_memory_of_an_array_of_its_type() -> None:
    def program(a, b):
        first, second = torch.Tensor(a), torch.Tensor(b)
        first.add_(1)
        second.add_(1)
        return first, second, a, b

    same(program, np.zeros(3, dtype=np.float32), np.zeros(3))


class Extended(torch.Tensor):
    """A subclass with a constructor of its own."""

    extra: int

    @staticmethod
    def __new__(cls, data: Any, extra: int = 0) -> Extended:
        return super().__new__(cls, data)

    def __init__(self, data: Any, extra: int = 0) -> None:
        self.extra = extra


class Detached(torch.Tensor):
    @staticmethod
    def __new__(cls, data: Any) -> Detached:
        return torch.Tensor._make_subclass(cls, data)


def test_subclasses_with_constructors() -> None:
    def program(x):
        y = Extended(x * 2, 3)
        return y, y.extra, Extended([1.0, 2.0]) + x, Detached(x * 3)

    x = torch.ones(2, requires_grad=True)
    found = same(program, x)
    found[0].as_subclass(torch.Tensor).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]


FLAGS = ([True, False, True], [False, False, True], [False, True, True], [True, True, False], [True, False, False])


@pytest.mark.parametrize("backend", BACKENDS)
def test_flags_in_a_list_that_vary_are_data(backend: str) -> None:
    """The second call shows that they vary, and what is compiled then serves all."""

    def program(flags: list[bool], x: torch.Tensor) -> Any:
        ended = torch.tensor(flags)
        return ended, x * ~ended, torch.tensor(tuple(flags), dtype=torch.bool).sum(), torch.tensor([flags[0]])

    framejit.reset()
    compiled = framejit.compile(program, backend=backend, fullgraph=True)
    for flags in FLAGS:
        assert told(compiled(flags, torch.arange(3.0))) == told(program(flags, torch.arange(3.0)))
    assert framejit.statistics()["graphs"] == 2
    for others in ([1, False, True], [True, 2, False], [1.5, False, True], [True, False]):
        x = torch.arange(float(len(others)))
        try:
            expected: Any = told(program(others, x))
        except TypeError:  # `~` of floats
            with pytest.raises(TypeError):
                compiled(others, x)
        else:
            assert told(compiled(others, x)) == expected


def test_a_flag_that_decides_is_still_guarded() -> None:
    def program(flags: list[bool], x: torch.Tensor) -> Any:
        mask = torch.tensor(flags)
        flags.append(not flags[0])
        return x * mask if flags[1] else (x + mask, len(flags))

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for flags in FLAGS * 2:
        ours, theirs = list(flags), list(flags)
        assert told(compiled(ours, torch.arange(3.0))) == told(program(theirs, torch.arange(3.0))) and ours == theirs


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("in_list", [False, True])
def test_ints_that_do_not_fit_raise_as_in_eager(in_list: bool, backend: str, dynamic: bool | None) -> None:
    def program(number: int) -> torch.Tensor:
        return torch.tensor([number, 1] if in_list else number)

    for largest in (2**62, 2**63, -(2**63), -(2**63) - 1, 2**64, -(2**70)):
        framejit.reset()
        compiled = framejit.compile(program, backend=backend, dynamic=dynamic)
        for number in (5, 7, largest, 9):
            found: list[Any] = []
            for function in (program, compiled):
                try:
                    found.append(function(number).tolist())
                except (RuntimeError, ValueError, OverflowError) as error:
                    found.append((type(error), str(error)))
            assert found[0] == found[1]
