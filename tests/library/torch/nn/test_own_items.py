"""Layers each of which takes its own object out of a list that the trace has made, such as its part of a cache, are traced once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import close
from compiled_twice import Same
from torch import nn

import framejit

WIDTH = 8
SEEN: dict[str, Any] = {}


class Part:
    """A layer's part of a cache."""

    scale = 1

    def __init__(self) -> None:
        self.keys, self.is_filled, self.factor = None, False, 2.0

    def update(self, x: Any) -> Any:
        if not self.is_filled:
            self.device, self.is_filled = x.device, True
            self.keys = torch.tensor([], dtype=x.dtype, device=self.device)
        self.keys = torch.cat([self.keys, x * self.factor * self.scale])
        return self.keys


class OtherPart(Part):
    scale = 2


class Cache:
    def __init__(self, count: int) -> None:
        self.parts, self.count, self.last, self.others = [Part() for _ in range(count)], 0, None, [Part() for _ in range(count)]


class Layer(nn.Module):
    """A layer that reads and writes its part of a cache; subclasses do more with it."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index, self.other, self.linear = index, index, nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any, cache: Any) -> Any:
        x = self.linear(x).sin()
        return x + cache.parts[self.index].update(x).cos().mean() + self.more(x, cache)

    def more(self, x: Any, cache: Any) -> Any:
        return 0


class Stack(nn.Module):
    def __init__(self, cls: type[Layer] = Layer, indices: tuple[int, ...] = (0, 1, 2, 3), prepare: Callable[[Cache], object] = id) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers, self.prepare = nn.ModuleList([cls(index) for index in indices]), prepare
        self.start = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Any) -> Any:
        cache = Cache(len(self.layers))
        self.prepare(cache)
        x = x + self.start
        for layer in self.layers:
            x = layer(x, cache)
        return x, [part.keys for part in cache.parts], cache.count


class WithCache(Stack):
    """Returns the cache itself."""

    def forward(self, x: Any) -> Any:
        cache = Cache(len(self.layers))
        for layer in self.layers:
            x = layer(x * self.start, cache)
        return x, cache


def x() -> torch.Tensor:
    return torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))


def layers(copied: list[str]) -> list[int]:
    return list(dict.fromkeys(int(path[len("self.layers[") : -1]) for path in copied if path.endswith("]")))  # with --undo, calls are repeated


@pytest.mark.parametrize("indices", [(0, 1, 2, 3), (3, 1, 0, 2), (-1, -2, 1, 0)])
def test_each_layer_has_its_part(copied: list[str], same: Same, indices: tuple[int, ...]) -> None:
    same(Stack(indices=indices), x())
    assert layers(copied) == [1, 2, 3]


def test_the_cache_that_is_returned(copied: list[str]) -> None:
    framejit.reset()
    model = WithCache()
    expected, cache = model(x())
    compiled = framejit.compile(model, backend="eager", fullgraph=True)
    for _ in range(2):
        result, found = compiled(x())
        close(result, expected)
        assert [list(vars(part)) for part in found.parts] == [list(vars(part)) for part in cache.parts]
        close([list(vars(part).values()) for part in found.parts], [list(vars(part).values()) for part in cache.parts])
    assert layers(copied) == [1, 2, 3]
    assert framejit.statistics()["graphs"] == 1


def test_an_index_that_changes_later(copied: list[str]) -> None:
    model = Stack()
    compiled = framejit.compile(model, backend="eager", fullgraph=True)
    close(compiled(x()), model(x()))
    model.layers[1].index, model.layers[2].index = 2, 1
    close(compiled(x()), model(x()))
    model.layers[3].index = 1
    close(compiled(x()), model(x()))


# Layers that do more with the cache.


class UsesIndex(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        return x * self.index


class ComparesIndex(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        return x if self.index > 1 else 0


class UsesIndexFirst(Layer):
    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(x.sin() if self.index == 1 else x, cache)


class KeepsIndex(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        cache.parts[self.index].place = self.index + 1
        return 0


class ReadsFirst(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        return cache.parts[0].keys.sum()


class ReadsPrevious(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        return 1 if cache.parts[self.index - 1].is_filled else 2


class CountsFilled(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        return sum(part.is_filled for part in cache.parts)


class AsksForLength(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        return len(cache.parts)


class Slices(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        return len(cache.parts[self.index :])


class CallsGetitem(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        return operator.getitem(cache.parts, self.index).keys.sum()


class Counts(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        cache.count += 1
        return cache.count


class SetsLast(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        found = 1 if cache.last is None else 2
        cache.last = cache.parts[self.index]
        return found


class Replaces(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        cache.parts[self.index] = part = Part()
        return part.update(x).mean()


class Deletes(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        del cache.parts[self.index].factor
        return 0


class Remembers(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        SEEN["last"] = self.index
        return 0


class SharesTuple(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        part = cache.parts[self.index]
        part.pair = part.again = (x, x)
        return 0


class Appends(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        cache.parts.append(Part())
        return 0


@pytest.mark.parametrize(
    "cls", [
        UsesIndex, ComparesIndex, UsesIndexFirst, KeepsIndex, ReadsFirst, ReadsPrevious, CountsFilled, AsksForLength, Slices, CallsGetitem, Counts, SetsLast,
        Replaces, Deletes, Remembers, SharesTuple, Appends,
    ],
)  # fmt: skip
def test_layers_that_do_more_with_the_cache(copied: list[str], same: Same, cls: type[Layer]) -> None:
    SEEN.clear()
    same(Stack(cls), x())
    assert layers(copied) == []


class KeepsWeight(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        part = cache.parts[self.index]
        part.weight, part.count, part.kind, part.nothing = self.linear.weight, 3, x.dtype, None
        return x @ part.weight * part.count


class KeepsArgument(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        cache.parts[self.index].x = x
        return 0


class KeepsOutside(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        cache.parts[self.index].mask = SEEN["mask"]
        return 0


class KeepsItself(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        cache.parts[self.index].layer = self
        return 0


@pytest.mark.parametrize(("cls", "expected"), [(KeepsWeight, [1, 2, 3]), (KeepsArgument, [1, 2, 3]), (KeepsOutside, []), (KeepsItself, [])])
def test_values_that_parts_keep(copied: list[str], same: Same, cls: type[Layer], expected: list[int]) -> None:
    SEEN["mask"] = torch.ones(WIDTH)
    same(Stack(cls), x())
    assert layers(copied) == expected


class TwoLists(Layer):
    """Takes an object out of two lists, by two indices."""

    def more(self, x: Any, cache: Any) -> Any:
        return cache.others[self.other].update(x).mean()


class Identity(Layer):
    def more(self, x: Any, cache: Any) -> Any:
        return 1 if cache.parts[self.index] is cache.others[self.other] else 2


def share_parts(cache: Cache) -> None:
    cache.others = [*cache.parts]


def share_first(cache: Cache) -> None:
    cache.others[0] = cache.parts[0]


@pytest.mark.parametrize(
    ("cls", "others", "prepare", "expected"), [
        (TwoLists, (0, 1, 2, 3), id, [1, 2, 3]), (TwoLists, (3, 0, 1, 2), id, [1, 2, 3]), (TwoLists, (0, 1, 2, 3), share_parts, [1, 2, 3]),
        (TwoLists, (1, 1, 0, 3), share_parts, []), (TwoLists, (0, 1, 2, 3), share_first, [2, 3]), (TwoLists, (2, 1, 0, 3), share_first, [1, 3]),
        (Identity, (0, 1, 2, 3), id, [1, 2, 3]), (Identity, (0, 1, 2, 3), share_parts, [1, 2, 3]), (Identity, (1, 1, 2, 3), share_parts, [2, 3]),
        (Identity, (0, 1, 2, 3), share_first, [2, 3]), (Identity, (2, 1, 0, 3), share_first, [1, 3]),
    ],
)  # fmt: skip
def test_two_lists(
    copied: list[str], same: Same, cls: type[Layer], others: tuple[int, ...], prepare: Callable[[Cache], object], expected: list[int]
) -> None:
    model = Stack(cls, prepare=prepare)
    for layer, other in zip(model.layers, others):
        layer.other = other
    same(model, x())
    assert layers(copied) == expected


# Parts that differ.


def another_class(cache: Cache) -> None:
    cache.parts[2] = OtherPart()


def two_classes(cache: Cache) -> None:
    cache.parts[1::2] = [OtherPart() for _ in cache.parts[1::2]]


def another_constant(cache: Cache) -> None:
    cache.parts[2].factor = 3.0


def negative_zero(cache: Cache) -> None:
    cache.parts[0].factor, cache.parts[1].factor, cache.parts[2].factor = 0.0, 0.0, -0.0


def another_type(cache: Cache) -> None:
    cache.parts[2].factor = 2


def another_attribute(cache: Cache) -> None:
    cache.parts[2].scale = 5


def reached_twice(cache: Cache) -> None:
    cache.last = cache.parts[2]


def attributes_shared(cache: Cache) -> None:
    cache.last = vars(cache.parts[1])


def a_list_inside(cache: Cache) -> None:
    for part in cache.parts:
        part.history = cache.others


def filled_before(cache: Cache) -> None:
    cache.parts[1].update(torch.ones(3, WIDTH))


def kept_outside(cache: Cache) -> None:
    SEEN["parts"] = cache.parts


@pytest.mark.parametrize(
    ("prepare", "expected"), [
        (another_class, [1, 3]), (two_classes, [2, 3]), (another_constant, [1, 3]), (negative_zero, [1]), (another_type, [1, 3]), (another_attribute, [1, 3]),
        (reached_twice, []), (attributes_shared, []), (a_list_inside, []), (filled_before, [2, 3]), (kept_outside, []),
    ],
)  # fmt: skip
def test_parts_that_differ(copied: list[str], same: Same, prepare: Callable[[Cache], object], expected: list[int]) -> None:
    SEEN.clear()
    same(Stack(prepare=prepare), x())
    assert layers(copied) == expected


@pytest.mark.parametrize("indices", [(0, 1, 1, 3), (0, 0, 2, 3), (0, True, 2, 3)])
def test_indices_that_repeat(copied: list[str], same: Same, indices: tuple[int, ...]) -> None:
    same(Stack(indices=indices), x())
    assert layers(copied) == [index for index in (1, 2, 3) if type(indices[index]) is int and indices[index] not in indices[:index]]


def test_an_index_out_of_range(copied: list[str]) -> None:
    model = Stack(indices=(0, 1, 2, 7))
    with pytest.raises(IndexError, match="list index out of range"):
        framejit.compile(model, backend="eager")(x())


def test_an_index_that_is_no_int(copied: list[str]) -> None:
    model = Stack()
    model.layers[2].index = 2.0  # type: ignore[assignment]
    with pytest.raises(TypeError, match="not float"):
        framejit.compile(model, backend="eager")(x())


class Inside(nn.Module):
    """A layer with two layers inside, each with a cache's part of its own."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(index), Layer(index + 1)])

    def forward(self, x: Any, cache: Any) -> Any:
        for layer in self.layers:
            x = layer(x, cache)
        return x.exp()


class Nested(Stack):
    def forward(self, x: Any) -> Any:
        cache, x = Cache(8), x + self.start
        for layer in self.layers:
            x = layer(x, cache)
        return x, [part.keys for part in cache.parts if part.is_filled]


def test_layers_inside_layers(copied: list[str], same: Same) -> None:
    same(Nested(Inside, indices=(0, 2, 4)), x())  # type: ignore[arg-type]
    assert copied == ["self.layers[0].layers[1]", "self.layers[1]", "self.layers[2]"]


class TwoPasses(Stack):
    def forward(self, x: Any) -> Any:
        cache, first = Cache(len(self.layers)), x + self.start
        for _ in range(2):
            for layer in self.layers:
                x = layer(first, cache)
        return x, [part.keys for part in cache.parts]


def test_a_cache_that_is_filled_twice(copied: list[str], same: Same) -> None:
    same(TwoPasses(), x())
    assert layers(copied) == [1, 2, 3]
