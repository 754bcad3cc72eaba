"""Modules that are called alike are traced once: graphs, guards and results are those that tracing each of them gives."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import close
from compiled_twice import Same, outcome
from torch import nn

import framejit
from framejit import config
from tools.libraries import transformers

WIDTH = 8


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.linear(x))


class Layer(nn.Module):
    """A layer that reads attributes, constants, a buffer and an object that all layers share."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.first, self.second, self.norm, self.drop = Inner(), Inner(), nn.LayerNorm(WIDTH), nn.Dropout(0.3)
        self.scale, self.settings, self.names, self.index = 0.5, settings, ["a", "b"], 0
        self.register_buffer("offset", torch.ones(WIDTH))

    def forward(self, x: Any, mask: Any = None, tables: Any = (), more: int = 0) -> Any:
        for table in tables:
            x = x * table
        y = self.first(x) + self.second(x)
        if self.settings["double"]:
            y = y * 2
        if hasattr(self, "extra"):
            y = y + self.extra
        y = self.drop(self.norm(y * self.scale + self.offset)) * len(self.names) + more
        return y if mask is None else y * mask


class Stack(nn.Module):
    def __init__(self, layers: int = 4, cls: Callable[[dict[str, Any]], nn.Module] = Layer) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.settings, self.start = {"double": True}, nn.Parameter(torch.ones(WIDTH))
        self.layers = nn.ModuleList(cls(self.settings) for _ in range(layers))

    def call(self, layer: nn.Module, x: Any) -> Any:
        return layer(x)

    def forward(self, x: Any) -> Any:
        x = x + self.start
        for layer in self.layers:
            x = self.call(layer, x)
        return x


def paths(*indices: int) -> list[str]:
    return [f"self.layers[{index}]" for index in indices]


def x() -> torch.Tensor:
    return torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("records", [False, True])
def test_layers_that_are_alike(copied: list[str], same: Same, training: bool, records: bool) -> None:
    with torch.set_grad_enabled(records):
        same(Stack().train(training), x())
    assert copied == paths(1, 2, 3)


def test_arguments_of_many_kinds(copied: list[str], same: Same) -> None:
    class Called(Stack):
        def forward(self, x: Any, mask: Any, number: int) -> Any:
            x, tables = x + self.start, (x.sin(), x.cos())
            for layer in self.layers:
                x = layer(x, mask, tables=tables, more=number)
            return x

    same(Called().eval(), x(), torch.ones(WIDTH), 3)
    assert copied == paths(1, 2, 3)


def test_results_in_a_tuple(copied: list[str], same: Same) -> None:
    class Pair(Layer):
        def forward(self, x: Any, **kwargs: Any) -> Any:
            first, second = self.first(x).chunk(2, -1)
            return torch.cat([second, first], -1), None, (x, self.second(first.repeat(1, 2)))

    class Called(Stack):
        def forward(self, x: Any) -> Any:
            x, found = x + self.start, []
            for layer in self.layers:
                x, nothing, (before, other) = layer(x)
                found += [before, other] if nothing is None else []
            return x, *found

    same(Called(cls=Pair), x())
    assert copied == paths(1, 2, 3)


def test_layers_in_a_sequential_inside_layers(copied: list[str], same: Same) -> None:
    model = nn.Sequential(*[nn.Sequential(*[Layer({"double": False}) for _ in range(3)]) for _ in range(3)])
    same(model, x())
    assert copied == ["self[0][2]", "self[1][0]", "self[1][1]", "self[1][2]", "self[2]"]  # the argument of self[0] is from outside


def test_two_kinds_of_layers_in_turn(copied: list[str], same: Same) -> None:
    model = Stack(6)
    for index in (1, 3, 5):
        model.layers[index].scale = 0.25
    same(model, x())
    assert list(dict.fromkeys(path for path in copied if path.endswith("]"))) == paths(2, 3, 4, 5)


def change_scale(model: Any) -> None:
    model.layers[2].scale = 0.75


def change_type(model: Any) -> None:
    model.layers[2].scale = 1


def change_list(model: Any) -> None:
    model.layers[2].names.append("c")


def change_settings(model: Any) -> None:
    model.layers[2].settings = {"double": False}


def equal_settings(model: Any) -> None:
    model.layers[2].settings = {"double": True}


def add_attribute(model: Any) -> None:
    model.layers[2].extra = 1.5


def add_hook(model: Any) -> None:
    model.layers[2].register_forward_hook(lambda module, args, result: result * 3)


def add_inner_hook(model: Any) -> None:
    model.layers[2].first.register_forward_pre_hook(lambda module, args: (args[0] * 3,))


def switch_mode(model: Any) -> None:
    model.layers[2].drop.eval()


def tie_inside(model: Any) -> None:
    model.layers[2].second.linear.weight = model.layers[2].first.linear.weight


def tie_layers(model: Any) -> None:
    model.layers[2].first.linear.weight = model.layers[1].first.linear.weight


def tie_all(model: Any) -> None:
    for layer in model.layers:
        layer.first = model.layers[0].first


def repeat_layer(model: Any) -> None:
    model.layers[2] = model.layers[0]


def freeze(model: Any) -> None:
    model.layers[2].norm.weight.requires_grad_(False)


def drop_bias(model: Any) -> None:
    model.layers[2].first.linear.bias = None


def transpose(model: Any) -> None:
    model.layers[2].first.linear.weight = nn.Parameter(model.layers[2].first.linear.weight.detach().clone().t())


def own_class(model: Any) -> None:
    class Special(nn.Linear):
        def forward(self, x: Any) -> Any:
            return super().forward(x) + 1

    model.layers[2].second.linear = Special(WIDTH, WIDTH)


def own_forward(model: Any) -> None:
    layer = model.layers[2]
    layer.forward = lambda x: type(layer).forward(layer, x) + 1


CHANGES = {
    change: alike for change, alike in (
        (change_scale, False), (change_type, False), (change_list, False), (change_settings, False), (equal_settings, True), (add_attribute, False),
        (add_hook, False), (add_inner_hook, False), (switch_mode, False), (tie_inside, False), (tie_layers, False), (tie_all, True), (repeat_layer, False),
        (freeze, False), (drop_bias, False), (transpose, False), (own_class, False), (own_forward, False),
    )
}  # fmt: skip
"""Ways in which the third of four layers may be another; whether it is copied all the same."""


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_layer_that_differs_is_traced(copied: list[str], same: Same, change: Callable[[Any], None]) -> None:
    model = Stack()
    change(model)
    same(model, x())
    assert ("self.layers[2]" in copied) == CHANGES[change]
    assert "self.layers[1]" in copied or change in (tie_all,)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_copied_layer_that_changes_later(copied: list[str], change: Callable[[Any], None]) -> None:
    model = Stack().eval()
    compiled = framejit.compile(model, backend="eager")
    with torch.no_grad():
        close(compiled(x()), model(x()))
        assert copied == paths(1, 2, 3)
        change(model)
        close(compiled(x()), model(x()))


# State that the program changes between calls and inside of them.


class Counting(Inner):
    """Counts its calls in an object of the program's."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.settings, self.others = settings, nn.ModuleList([nn.Linear(WIDTH, WIDTH)])

    def forward(self, x: Any) -> Any:
        for other in self.others:
            x = other(x).sin().cos() + 1
        return super().forward(x) * self.settings.get("count", 1)


class CountsInside(Counting):
    def forward(self, x: Any) -> Any:
        self.settings["count"] = self.settings.get("count", 0) + 1
        return super().forward(x)


class AppendsInside(Counting):
    def forward(self, x: Any) -> Any:
        x = super().forward(x)
        self.settings.setdefault("seen", []).append(x)
        return x


class CountsBetween(Stack):
    def forward(self, x: Any) -> Any:
        x = x + self.start
        for layer in self.layers:
            self.settings["count"] = self.settings.get("count", 0) + 1
            x = layer(x)
        return x


class ChangesBefore(Stack):
    """Changes the settings before the layers are called; they stay the same during the calls."""

    def forward(self, x: Any) -> Any:
        self.settings["count"], x = 3, x + self.start
        for layer in self.layers:
            x = layer(x)
        return x


class FillsListBetween(Stack):
    """The list is the trace's own, and reached from outside: no effect is announced when it grows."""

    def forward(self, x: Any) -> Any:
        self.settings["seen"], x = [], x + self.start
        for layer in self.layers:
            self.settings["seen"].append(len(self.settings["seen"]))
            x = layer(x) + sum(self.settings["seen"])
        return x


class ReadsList(Counting):
    def forward(self, x: Any) -> Any:
        return super().forward(x) * (1 + len(self.settings.get("seen", ())))


class ChangesFirstLayer(Stack):
    def forward(self, x: Any) -> Any:
        self.layers[0].scale, x = 2.0, x + self.start
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("stack", "cls", "expected"), [
        (Stack, CountsInside, ()), (Stack, AppendsInside, ()), (CountsBetween, Counting, ()), (ChangesBefore, Counting, (1, 2, 3)),
        (FillsListBetween, ReadsList, ()), (FillsListBetween, Counting, ()), (ChangesFirstLayer, Layer, (2, 3)),
    ],
)  # fmt: skip
def test_state_that_the_program_changes(copied: list[str], same: Same, stack: type[Stack], cls: type[nn.Module], expected: tuple[int, ...]) -> None:
    model = stack(cls=cls).eval()
    same(model, x())
    assert [path for path in copied if path.endswith("]")] == paths(*expected)
    eager = stack(cls=cls).eval()
    again = framejit.compile(stack(cls=cls).eval(), backend="eager")
    for _ in range(3):
        close(again(x()), eager(x()))


def test_a_change_of_what_a_copied_layer_read(copied: list[str]) -> None:
    """An object that was changed before, and that a copied layer could share in another call."""
    model = ChangesBefore(cls=Counting).eval()
    compiled = framejit.compile(model, backend="eager")
    close(compiled(x()), model(x()))
    assert copied == paths(1, 2, 3)
    for layer in model.layers:
        layer.settings = {"count": 5}
    close(compiled(x()), model(x()))
    model.layers[2].settings = model.settings
    close(compiled(x()), model(x()))


class Normalised(nn.Module):
    """Changes its buffers in training."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)

    def forward(self, x: Any) -> Any:
        return torch.relu_(self.norm(self.linear(x) * 2))


class Evaluated(Normalised):
    def forward(self, x: Any) -> Any:
        return torch.relu(self.norm(self.linear(x) * 2))


@pytest.mark.parametrize(
    ("cls", "training", "copies"), [(Normalised, True, False), (Normalised, False, False), (Evaluated, True, False), (Evaluated, False, True)]
)
def test_changes_in_place(copied: list[str], same: Same, cls: type[nn.Module], training: bool, copies: bool) -> None:
    same(Stack(cls=cls).train(training), x())
    assert bool(copied) == copies


class Cached(Inner):
    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.settings, self.after = settings, Inner()

    def forward(self, x: Any, cache: Any) -> Any:
        cache.append(x)
        x = super().forward(x) + cache[0]
        return self.after(x.sin().cos() + len(cache))


class WithCache(Stack):
    def forward(self, x: Any) -> Any:
        x, cache = x + self.start, []
        for layer in self.layers:
            x = layer(x, cache)
        return x, *cache


def test_a_cache_that_is_passed_along(copied: list[str], same: Same) -> None:
    same(WithCache(cls=Cached), x())
    assert not [path for path in copied if path.endswith("]")]


class RootMeanSquare(nn.Module):
    """A norm without modules inside, as decoders have it."""

    def __init__(self, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.rand(WIDTH)), eps

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class WithNorm(Cached):
    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.norm = RootMeanSquare()

    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(self.norm(x), cache)


def test_norms_inside_layers_that_append_to_a_cache(copied: list[str], same: Same) -> None:
    model = WithCache(cls=WithNorm)
    model.layers[2].norm.eps = 1e-3
    same(model, x())
    assert [path for path in copied if path.endswith("norm")] == [f"self.layers[{index}].norm" for index in (1, 3)]


class Indexed(Layer):
    def forward(self, x: Any) -> Any:
        return super().forward(x) * (1 + self.index)


def test_an_index_that_is_used(copied: list[str], same: Same) -> None:
    model = Stack(cls=Indexed)
    for index, layer in enumerate(model.layers):
        layer.index = index
    same(model, x())
    assert not [path for path in copied if path.endswith("]")]


def test_an_index_that_is_not_used(copied: list[str], same: Same) -> None:
    model = Stack()
    for index, layer in enumerate(model.layers):
        layer.index = index
    same(model, x())
    assert copied == paths(1, 2, 3)


class Related(Layer):
    """Uses the first layer's buffer, whichever layer it is."""

    model: Any = None

    def forward(self, x: Any) -> Any:
        return super().forward(x) * self.of_model()[0].layers[0].offset

    def of_model(self) -> Any:
        return self.settings["model"]


class RelatedByGlobal(Related):
    def of_model(self) -> Any:
        return MODELS


class RelatedByArgument(Related):
    def forward(self, x: Any, model: Any) -> Any:
        return Layer.forward(self, x) * model.layers[0].offset


class GivesItself(Stack):
    def call(self, layer: nn.Module, x: Any) -> Any:
        return layer(x, self)


MODELS: list[Any] = []


@pytest.mark.parametrize(("stack", "cls"), [(Stack, Related), (Stack, RelatedByGlobal), (GivesItself, RelatedByArgument)])
@pytest.mark.parametrize("by_global", [False, True])
def test_layers_that_reach_another_one(copied: list[str], stack: type[Stack], cls: type[nn.Module], by_global: bool) -> None:
    model = stack(cls=cls).eval()
    MODELS[:] = [model]
    for index, layer in enumerate(model.layers):
        layer.settings = {"double": True, "model": MODELS}
        layer.offset *= index + 2
    run = (lambda given: MODELS[0](given)) if by_global else model
    compiled = framejit.compile(run, backend="eager", fullgraph=True)
    with torch.no_grad():
        close(compiled(x()), model(x()))
        model.layers[0].offset += 1
        close(compiled(x()), model(x()))
    assert not [path for path in copied if path.endswith("]")]


class Table(nn.Module):
    """All layers use one table, which may be changed in place between them."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.inner, self.settings = Inner(), settings

    def forward(self, x: Any) -> Any:
        return self.inner(x).sin() * self.settings["table"].sum(-1).reshape(-1)


class ChangesTable(Stack):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(cls=Table, **kwargs)
        self.settings["table"] = torch.ones(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        x = x + self.start
        for index, layer in enumerate(self.layers):
            x = layer(x)
            if index == 1:
                self.change(self.settings["table"])
        return x

    def change(self, table: Any) -> None:
        table.add_(1)


class TurnsTable(ChangesTable):
    def change(self, table: Any) -> None:
        table.unsqueeze_(0)


class LeavesTable(ChangesTable):
    def change(self, table: Any) -> None:
        table + 1


@pytest.mark.parametrize(("stack", "expected"), [(ChangesTable, ()), (TurnsTable, ()), (LeavesTable, (2, 3))])
def test_a_tensor_from_outside_that_is_changed_in_place(copied: list[str], stack: type[ChangesTable], expected: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model, other = stack().eval(), stack().eval()
    other.load_state_dict(model.state_dict())
    compiled = framejit.compile(model, backend="eager")
    with torch.no_grad():
        close(compiled(x()), other(x()))
    close(model.settings["table"], other.settings["table"])
    assert [path for path in copied if path.endswith("]")] == paths(*expected)  # the first call meets the table


def test_constants_among_the_arguments(copied: list[str], same: Same) -> None:
    class Numbered(Stack):
        def forward(self, x: Any) -> Any:
            x = x + self.start
            for index, layer in enumerate(self.layers):
                x = layer(x, more=index // 2)
            return x

    same(Numbered().eval(), x())
    assert [path for path in copied if path.endswith("]")] == paths(1, 3)


def test_an_argument_inside_the_module(copied: list[str], same: Same) -> None:
    class Given(Stack):
        def forward(self, x: Any) -> Any:
            x = x + self.start
            for layer in self.layers:
                x = layer(x, self.layers[1].offset)
            return x

    same(Given().eval(), x())
    assert [path for path in copied if path.endswith("]")] == paths(2, 3)


def test_arguments_that_look_different(copied: list[str], same: Same) -> None:
    class Turned(Stack):
        def forward(self, x: Any) -> Any:
            x = x + self.start
            for layer in self.layers:
                y = layer(x)
                x = y.t() if layer.index == 1 else y
            return x

    model = Turned().eval()
    model.layers[1].index = 1
    same(model, torch.randn(WIDTH, WIDTH))
    assert [path for path in copied if path.endswith("]")] == paths(1, 3)


def test_modes_around_calls(copied: list[str], same: Same) -> None:
    class Moded(Stack):
        def forward(self, x: Any) -> Any:
            x = x + self.start
            for index, layer in enumerate(self.layers):
                with torch.set_grad_enabled(index > 2):
                    x = layer(x)
            return x

    same(Moded(6).eval(), x())
    assert [path for path in copied if path.endswith("]")] == paths(2, 5)  # the arguments of layers[0] and of layers[4] on require a gradient


def test_calls_under_a_handler(copied: list[str], same: Same) -> None:
    class Handled(Stack):
        def forward(self, x: Any) -> Any:
            x = x + self.start
            try:
                for layer in self.layers:
                    x = layer(x)
            except ValueError:
                return x
            return x

    same(Handled().eval(), x())
    assert copied == paths(1, 2, 3)


def test_a_break_after_copied_calls(copied: list[str]) -> None:
    class Breaking(Stack):
        def forward(self, x: Any) -> Any:
            x = x + self.start
            for layer in self.layers[:3]:
                x = layer(x)
            framejit.graph_break()
            for layer in self.layers[3:]:
                x = layer(x)
            return x

    model = Breaking(7).eval()
    compiled = framejit.compile(model, backend="eager")
    close(compiled(x()), model(x()))
    assert copied[:2] == paths(1, 2)
    assert copied[-1].endswith(".layers[6]")
    close(compiled(x()), model(x()))


def test_a_break_inside_layers(copied: list[str]) -> None:
    class Broken(Layer):
        def forward(self, x: Any) -> Any:
            x = super().forward(x)
            framejit.graph_break()
            return super().forward(x)

    model = Stack(cls=Broken).eval()
    compiled = framejit.compile(model, backend="eager")
    close(compiled(x()), model(x()))
    close(compiled(x()), model(x()))
    assert not [path for path in copied if path in paths(0, 1, 2, 3)]


def test_random_numbers_are_drawn_in_each_layer(copied: list[str], same: Same) -> None:
    class Noisy(Layer):
        def forward(self, x: Any) -> Any:
            return super().forward(x) + torch.rand_like(x) * torch.randn(WIDTH)

    same(Stack(cls=Noisy).train(), x())
    assert copied == paths(1, 2, 3)


def test_sizes_that_vary(copied: list[str]) -> None:
    model = Stack().eval()
    compiled = framejit.compile(model, backend="eager")
    for rows in (3, 4, 5, 6):
        given = torch.randn(rows, WIDTH)
        close(compiled(given), model(given))
    assert copied == paths(1, 2, 3)  # of the first call


def test_the_option_turns_copying_off(copied: list[str]) -> None:
    model = Stack().eval()
    with config.replace(copy_repeated=False):
        close(framejit.compile(model, backend="eager")(x()), model(x()))
    assert not copied


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_with_backends_that_differentiate(copied: list[str], backend: str) -> None:
    model = Stack(3).eval()
    compiled = framejit.compile(model, backend=backend, fullgraph=True)
    expected = outcome(model, model, (x(),), {})
    close(outcome(compiled, model, (x(),), {}), expected, 1e-5)
    assert copied == paths(1, 2)


def test_models_of_torch(copied: list[str], same: Same) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *[copy.deepcopy(layer) for _ in range(4)])
    same(model.train(), torch.randn(2, 5, WIDTH))
    assert {"self[3]", "self[4]"} <= set(copied) <= {"self[2]", "self[3]", "self[4]"}  # in some versions of torch, the argument of the first is a view


def test_a_model_of_torch_that_looks_at_its_first_layer(copied: list[str]) -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, 0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    compiled = framejit.compile(model, backend="eager", fullgraph=True)
    expected = outcome(model, model, (x()[None],), {})
    close(outcome(compiled, model, (x()[None],), {}), expected)
    assert "self.layers[3]" in copied
    model.layers[3].self_attn.batch_first = False
    close(outcome(compiled, model, (x()[None],), {}), outcome(model, model, (x()[None],), {}))
    assert framejit.statistics()["recompiles"] == 1


def test_nothing_of_a_trace_is_kept(copied: list[str]) -> None:
    """The records of a trace, which hold the modules' tensors, are freed when it ends, without the garbage collector."""
    framejit.reset()
    model = Stack().eval()
    kept = [weakref.ref(layer.norm.weight) for layer in model.layers]
    gc.collect()
    gc.disable()
    try:
        compiled = framejit.compile(model, backend="eager")
        with torch.no_grad():
            compiled(x())
        assert copied == paths(1, 2, 3)
        del compiled, model
        assert [ref() for ref in kept] == [None] * 4
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["Bert", "Llama", "Qwen3", "ViT"])
def test_models_of_transformers(copied: list[str], same: Same, name: str, training: bool) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 4}
    more = {"ViT": {"image_size": 8, "patch_size": 4}, "Bert": {"vocab_size": 50}}.get(name, {"vocab_size": 50, "num_key_value_heads": 2, "head_dim": 8})
    model = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**sizes, **more)).train(training)
    given = {"pixel_values": torch.randn(2, 3, 8, 8)} if name == "ViT" else {"input_ids": torch.randint(1, 50, (2, 7)), "attention_mask": torch.ones(2, 7)}
    same(model, **given)
    assert len({path for path in copied if path.endswith("]")}) >= 2


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_layers_whose_copies_hold_sequences_are_trained_in_one_step(optimizer: Any) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mlp = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.mlp(x)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Block() for _ in range(3)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = block(x)
            return x

    def train(net: nn.Module, steps: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
        loss = net(x).sum()
        loss.backward()
        steps.step()
        steps.zero_grad()
        return loss.detach()

    trained = []
    for step in (train, framejit.compile(train, backend="eager")):
        torch.manual_seed(0)
        net = Net()
        steps = optimizer(net.parameters(), lr=0.1)
        trained.append([[step(net, steps, torch.full((2, 4), float(i))) for i in range(3)], [p.detach() for p in net.parameters()]])
    torch.testing.assert_close(trained[1], trained[0], rtol=0, atol=0)
    assert framejit.statistics()["graph_breaks"] == framejit.statistics()["fallbacks"] == 0
