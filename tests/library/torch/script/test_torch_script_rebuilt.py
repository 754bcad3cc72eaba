"""Scripted modules that are made again for each call, and what TorchScript's code can do: entries are shared, the module of each call is used and let go of."""

from __future__ import annotations

import copy
import gc
import io
import weakref
from typing import Any, Optional

import pytest
import torch
from agreement import agree
from torch import nn

import framejit
from framejit.guards.script_code import code_of

BACKENDS = ("eager", "aot_eager")


class Layer(nn.Module):
    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x)) * self.scale


def loaded(module: Any) -> Any:
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file)


MAKERS = {
    "script": lambda: torch.jit.script(Layer()),
    "trace": lambda: torch.jit.trace(Layer(), torch.randn(4, 3), check_trace=False),
    "load": lambda: loaded(torch.jit.script(Layer())),
    "deepcopy": lambda: copy.deepcopy(torch.jit.script(Layer())),
    "freeze": lambda: torch.jit.freeze(torch.jit.script(Layer().eval())),
    "freeze a trace": lambda: torch.jit.freeze(torch.jit.trace(Layer().eval(), torch.randn(4, 3))),
    "load a frozen one": lambda: loaded(torch.jit.freeze(torch.jit.script(Layer().eval()))),
    "optimize": lambda: torch.jit.optimize_for_inference(torch.jit.script(Layer().eval())),
}


def seeded(seed: int, make: Any) -> Any:
    torch.manual_seed(seed)
    return make()


def step(module: Any, program: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Results, gradients and buffers, after a step that changes the weights."""
    found = program(module, x)
    if found.requires_grad:
        found.sin().sum().backward()
    gradients = [parameter.grad.clone() for parameter in module.parameters() if parameter.grad is not None]
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.sub_(0.1)
    return [found.detach(), *gradients, *[buffer.clone() for buffer in module.buffers()]]


def program(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return module(x.sin()).relu() + 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_modules_made_anew_run_one_entry(backend, make):
    framejit.reset()
    compiled = framejit.compile(program, backend=backend, fullgraph=True)
    for seed in range(3):
        left, right = seeded(seed, make), seeded(seed, make)
        for _ in range(2):
            x = torch.randn(4, 3)
            for expected, got in zip(step(left, program, x), step(right, compiled, x), strict=True):
                assert torch.allclose(expected, got, atol=1e-6)
    assert framejit.statistics()["graphs"] == 1 and framejit.statistics()["graph_breaks"] == 0


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_no_entry_keeps_a_module(make):
    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    gone = []
    for _ in range(2):
        module = make()
        compiled(module, torch.randn(4, 3))
        gone += [weakref.ref(tensor) for tensor in (*module.parameters(), *module.buffers())]
        if make is MAKERS["load a frozen one"]:  # what torch compiles itself, it keeps for good
            gone += code_of(module._c._get_method("forward")).constants
        gone.append(weakref.ref(module))
        del module
        gc.collect()
    assert len(gone) >= 2 and all(reference() is None for reference in gone)
    assert framejit.statistics()["graphs"] == 1


def test_what_differs_between_modules_made_anew_is_noticed():
    class Other(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.linear(x)) - self.scale

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    x = torch.randn(4, 3)
    makers = [Layer, lambda: Layer(5.0), lambda: Layer().eval(), Other, lambda: Layer().double(), Layer, lambda: Layer(5.0), Other]
    for make in makers:
        left, right = seeded(0, lambda: torch.jit.script(make())), seeded(0, lambda: torch.jit.script(make()))
        given = x.double() if left.linear.weight.dtype is torch.float64 else x
        assert program(left, given).equal(compiled(right, given))
    assert framejit.statistics()["graphs"] == 5


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scripted = torch.jit.script(Layer())
        self.traced = torch.jit.trace(nn.Linear(3, 3), torch.randn(4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.traced(self.scripted(x).relu()) + x


@pytest.mark.parametrize("backend", BACKENDS)
def test_models_with_scripted_parts_made_anew_run_one_entry(backend):
    framejit.reset()
    for seed in range(3):
        left, right = seeded(seed, Model), seeded(seed, Model)
        compiled = framejit.compile(right, backend=backend, fullgraph=True)
        for _ in range(2):
            x = torch.randn(4, 3)
            run = lambda module, x: compiled(x)
            for expected, got in zip(step(left, left.__class__.__call__, x), step(right, run, x), strict=True):
                assert torch.allclose(expected, got, atol=1e-6)
    assert framejit.statistics()["graphs"] == 1


class Holds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tensors = [torch.randn(3), torch.randn(3)]
        self.table = {"a": torch.randn(3)}
        self.pair = (3, torch.randn(3))
        self.bias = torch.jit.Attribute(None, Optional[torch.Tensor])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.tensors[0] + self.tensors[1] * self.table["a"] + self.pair[1] * self.pair[0]
        bias = self.bias
        return y if bias is None else y + bias


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_in_lists_dicts_and_tuples(backend):
    framejit.reset()
    compiled = framejit.compile(program, backend=backend, fullgraph=True)
    x = torch.randn(4, 3)
    for seed in range(3):
        module = seeded(seed, lambda: torch.jit.script(Holds()))
        assert torch.allclose(program(module, x), compiled(module, x))
    assert framejit.statistics()["graphs"] == 1
    module.bias = torch.randn(3)
    assert torch.allclose(program(module, x), compiled(module, x)) and framejit.statistics()["graphs"] == 2


class Appends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sizes = [1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sizes.append(2)
        return x * len(self.sizes)


def test_a_list_that_a_scripted_module_changes():
    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    left, right = torch.jit.script(Appends()), torch.jit.script(Appends())
    for _ in range(3):
        x = torch.randn(3)
        assert program(left, x).equal(compiled(right, x)) and left.sizes == right.sizes
    assert len(right.sizes) == 4


def test_a_list_of_a_scripted_module_is_a_new_one_each_time():
    module = torch.jit.script(Appends())

    def look(x):
        first, second = module.sizes, module.sizes
        first.append(7)
        return x + len(first) + len(second), first is second, second

    framejit.reset()
    compiled = framejit.compile(look, backend="eager", fullgraph=True)
    for _ in range(2):
        expected, got = look(torch.ones(2)), compiled(torch.ones(2))
        assert expected[0].equal(got[0]) and expected[1:] == got[1:]
    assert module.sizes == [1]


class Talks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("at work")
        return x + 1


def test_a_scripted_module_that_prints_does_so_once_a_call(capfd):
    module = torch.jit.script(Talks())
    framejit.reset()
    compiled = framejit.compile(program, backend="aot_eager")
    for calls in range(1, 3):
        assert compiled(module, torch.ones(2)).equal((torch.ones(2).sin() + 1).relu() + 1)
        assert capfd.readouterr().out.count("at work") == 1, calls


class OfNumbers(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor([1.0, 2.0])


@torch.jit.script
def of_numbers(x: torch.Tensor) -> torch.Tensor:
    return x * torch.as_tensor([3.0, 4.0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_that_torchscript_makes_of_lists(backend):
    """They are written to memory, which tensors without data don't have."""
    agree(lambda x: of_numbers(x.sin()) * 2, torch.ones(2), backend=backend, fullgraph=False)
    module = torch.jit.script(OfNumbers())
    agree(lambda x: module(x.sin()) * 2, torch.ones(2), backend=backend, fullgraph=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_in_traced_code_keep_the_types_of_tensors(backend):
    traced = torch.jit.trace(lambda x: (x * 2.5 + 1, x * 3), torch.ones(3, dtype=torch.int32))
    for x in (torch.ones(3, dtype=torch.int32), torch.ones(3, dtype=torch.float16), torch.ones(3, dtype=torch.float64), torch.ones(())):
        agree(lambda x: [y + 1 for y in traced(x)], x, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_in_the_code_of_a_traced_function(backend):
    shift = torch.randn(3)
    traced = torch.jit.trace(lambda x: x * 2 + shift, torch.ones(3))
    framejit.reset()
    compiled = framejit.compile(lambda x: traced(x.sin()) + 1, backend=backend, fullgraph=True)
    for _ in range(2):
        x = torch.randn(3)
        assert torch.allclose(compiled(x), traced(x.sin()) + 1)
        shift.add_(1)
    assert framejit.statistics()["graphs"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scripted_recurrent_network(backend):
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = nn.LSTM(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.network(x.unsqueeze(0))[0]

    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for seed in range(2):
        left, right = [seeded(seed, lambda: torch.jit.script(Recurrent())) for _ in range(2)]
        x = torch.randn(4, 3)
        for expected, got in zip(step(left, program, x), step(right, compiled, x), strict=True):
            assert torch.allclose(expected, got, atol=1e-6)
    assert framejit.statistics()["graphs"] == (1 if backend == "eager" else 2)


class TwoMethods(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)

    @torch.jit.export
    def scaled(self, x: torch.Tensor, times: int, by: float = 0.5) -> torch.Tensor:
        return self.linear(x) * times * by


def test_methods_and_the_arguments_of_calls():
    module = torch.jit.script(TwoMethods())
    x = torch.randn(3)
    for call in (
        lambda x: module.scaled(x, 2), lambda x: module.scaled(x, times=3, by=2.0), lambda x: module.scaled(by=1.0, times=1, x=x),
        lambda x: module(x) + module.scaled(x, 2),
    ):  # fmt: skip
        agree(call, x, fullgraph=True)
    wrong = [
        lambda x: module.scaled(x), lambda x: module.scaled(x, 2, 3.0, 4), lambda x: module.scaled(x, 2, times=2), lambda x: module(x, y=1),
        lambda x: module.scaled(x, "2"),
    ]  # fmt: skip
    for call in wrong:
        with pytest.raises(RuntimeError) as expected:
            call(x)
        with pytest.raises(RuntimeError) as got:
            framejit.compile(call, backend="eager")(x)
        assert str(got.value) == str(expected.value)


class OfSizes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.size(0)
        y = x.view(rows * 2, -1).view(rows, 2, x.shape[1] // 2 + 1 - 1)
        return y.reshape(y.size(0) * y.size(1), y.shape[2] % 5).sum(0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_in_traced_code(backend):
    """They are tensors there, of which the code makes ints."""
    traced = torch.jit.trace(OfSizes(), torch.randn(4, 6))
    for x in (torch.randn(4, 6), torch.randn(2, 8)):
        agree(lambda x: traced(x.sin()) + 1, x, backend=backend)
    compiled = framejit.compile(lambda x: traced(x.sin()) + 1, backend=backend, fullgraph=True)
    for rows in (4, 4, 5, 6):
        x = torch.randn(rows, 6)
        assert compiled(x).equal(traced(x.sin()) + 1)


@torch.jit.script
class Factor:
    def __init__(self, by: int) -> None:
        self.by = by


class OfAClass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = Factor(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor.by


def test_a_scripted_module_that_holds_an_object_of_torchscript_runs_natively():
    framejit.reset()
    module = torch.jit.script(OfAClass())
    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        x = torch.randn(3)
        assert program(module, x).equal(compiled(module, x))
    assert framejit.statistics()["graph_breaks"] == 1 and framejit.statistics()["internal_errors"] == 0


seen: list[Any] = []


class Ignoring(nn.Module):
    def forward(self, x):
        return self.note(x) + 1

    @torch.jit.ignore
    def note(self, x):
        seen.append(x.shape)
        return x * 2


def test_a_function_that_torchscript_ignores_runs_once_a_call():
    seen.clear()
    module = torch.jit.script(Ignoring())
    compiled = framejit.compile(program, backend="eager")
    for calls in range(1, 4):
        x = torch.randn(3)
        expected = program(module, x)
        assert compiled(module, x).equal(expected) and len(seen) == 2 * calls
