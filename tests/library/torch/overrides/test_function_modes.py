"""Function modes: asked once and in order, also across graph breaks; `with torch.device(...)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import framejit

log: list[Any] = []


@pytest.fixture(autouse=True)
def empty_log() -> Iterator[None]:
    log.clear()
    yield
    log.clear()


class Noting(TorchFunctionMode):
    """Notes what it is asked."""

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.name = name
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, *words: Any) -> Any:
        self.count += 1
        log.append((self.name, func, types, len(words), [type(arg) for arg in words[0]]))
        args, kwargs = (*words, {})[:2]
        return func(*args, **kwargs)


class Doubling(TorchFunctionMode):
    """Doubles what sin gives."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func in (torch.sin, torch.Tensor.sin) else result


class Named(torch.Tensor):
    """A subclass without an override of its own."""


def plain(value: Any) -> Any:
    """Return the parts of a result that are compared: of tensors the type, the device, and the values (on "meta" the shape)."""
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():
            meta = value.device.type == "meta"
            return type(value), value.device, tuple(value.shape) if meta else value.detach().as_subclass(torch.Tensor).tolist()
    return [type(value), *map(plain, value)] if isinstance(value, (tuple, list)) else value


def same(function: Callable[..., Any], *args: Any, graphs: int | None = 1) -> None:
    """The compiled function gives what the function gives, and asks what it asks, in one graph; the stack is left as it was."""
    compiled = framejit.compile(function, backend="eager", isolate_recompiles=True, fullgraph=graphs == 1)
    for call in range(2):
        log.clear()
        expected = plain(function(*args))
        asked, log[:] = [*log], []
        before = framejit.statistics()["graphs"]
        assert plain(compiled(*args)) == expected
        assert [repr(entry) for entry in log] == [repr(entry) for entry in asked]
        if call == 0 and graphs is not None:
            assert framejit.statistics()["graphs"] - before == graphs
        assert torch._C._len_torch_function_stack() == 0


PROGRAMS: dict[str, Callable[..., Any]] = {
    "operators": lambda x: (x + 1, 1 - x, x @ x, -x, x == 1, x[0], len(x)),
    "methods and attributes": lambda x: (x.sum(), x.shape, x.detach(), x.requires_grad, x.dim(), x.mT, x.contiguous()),
    "functions": lambda x: (torch.add(x, 1, alpha=2), torch.cat([x, x]), F.relu(x), F.linear(x, x), torch.einsum("ij->i", x)),
    "makers": lambda x: (torch.zeros(2), torch.arange(3), torch.tensor([1.0]), torch.device("cpu"), torch.ones_like(x)),
    "a subclass": lambda x: x.as_subclass(Named) + 1,
    "a switch of the grad mode": lambda x: (torch.set_grad_enabled(True) and None, x * 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_modes_are_asked_as_in_eager(name: str) -> None:
    def program(x):
        with Noting():
            return PROGRAMS[name](x)

    same(program, torch.ones(2, 2))


def test_the_innermost_is_asked_first_and_what_it_calls_asks_the_others() -> None:
    def program(x):
        with Noting("outer") as outer, Noting("inner"):
            y = x.sin()
        with Doubling():
            with Doubling():
                z = torch.sin(x)
            w = torch.sin(x)
        return y, z, w, outer.count

    same(program, torch.ones(2))


def test_no_mode_answers_within_its_own_answer_or_where_all_is_switched_off() -> None:
    def program(x):
        with Noting("a"):
            with torch._C.DisableTorchFunctionSubclass():
                y = x + 1
            with torch._C.DisableTorchFunction():
                z = x + 2
        return y, z, x + 3

    same(program, torch.ones(2))


def test_a_mode_that_answers_otherwise() -> None:
    class Refusing(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented if types else "answer"

    def program(x):
        with Refusing():
            return torch.add(x.as_subclass(Named), 1), torch.zeros(2), F.relu(x)

    same(program, torch.ones(2), graphs=0)


def test_a_mode_is_left_by_an_exception() -> None:
    def program(x):
        try:
            with Doubling():
                y = x.sin()
                raise ValueError
        except ValueError:
            return y, x.sin()

    same(program, torch.ones(2))


def test_a_break_under_a_mode() -> None:
    def program(x):
        with Noting("a"), Doubling():
            y = x.sin()
            print(end="")
            z = y.sin()
        return y, z, x.sin()

    same(program, torch.ones(2), graphs=None)


def test_a_device_for_what_is_made_inside() -> None:
    def program(x):
        with torch.device("meta"):
            y = torch.empty(3), torch.zeros(2, device="cpu"), torch.get_default_device(), x * 2
            with torch.device("cpu"):
                z = torch.arange(3)
            w = torch.nn.functional.one_hot(torch.ones(2, dtype=torch.int64), 3)
        return y, z, w, torch.ones(2), torch.get_default_device()

    same(program, torch.ones(2))


def test_a_break_under_a_device() -> None:
    def program():
        with torch.device("meta"):
            y = torch.ones(3)
            print(end="")
            z = torch.ones(2)
        return y, z, torch.ones(2)

    same(program, graphs=None)


def on_arrays(x: Any) -> Any:
    a = np.arange(3.0)
    b = a[0] * 2 + a[-1] + np.sum(a)
    a[1:] = a[:-1]
    parts = [a[::-1], a[None], a[[0, 1]], [v for v in a], [*a], list(reversed(a)), np.where(a > 1, a, 0), a.reshape(-1, 1)]
    return x + 1, b, a, parts, torch.ones(3) * a[1], x.numpy()[0], np.asarray(x), torch.full((2,), a[0]), torch.tensor(a), torch.from_numpy(a)


def shown(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    return type(value).__name__, value.tolist()


@pytest.mark.parametrize("outside", [False, True])
def test_modes_do_not_see_tensors_that_stand_for_arrays(outside: bool) -> None:
    def inside(x: torch.Tensor) -> Any:
        with Noting():
            return on_arrays(x)

    def run(function: Any) -> Any:
        log.clear()
        if not outside:
            return shown(function(torch.ones(2))), list(log)
        x = torch.ones(2)
        with Noting():
            return shown(function(x)), list(log)

    framejit.reset()
    program = on_arrays if outside else inside
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert run(compiled) == run(program)
