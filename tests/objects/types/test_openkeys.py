"""Lookups by keys that come with the call: blocks that are compiled one by one share an entry if what they look up is alike."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

import pytest
import torch
from agreement import agree
from torch import nn

import framejit

x = torch.arange(4.0)


@pytest.fixture(autouse=True)
def nothing_compiled():
    framejit.reset()


class Block(nn.Module):
    """A block that knows its index, and a name."""

    def __init__(self, index, use):
        super().__init__()
        self.index = index
        self.name = f"block{index}"
        self.use = use

    def forward(self, t, values):
        return self.use(self, t, values)


def by_index(block, t, values):
    return t + values[block.index]


def by_name(block, t, values):
    return t + values[block.name]


def if_there(block, t, values):
    return t + values[block.name] if block.name in values else t * 2


def or_none(block, t, values):
    found = values.get(block.name)
    return t if found is None else t * found


def filled_in(block, t, values):
    values[block.name]["last"] = t
    return t + len(values[block.name])


def numbered(count):
    return [torch.full((4,), float(i)) for i in range(count)]


def named(count, of=dict):
    return of((f"block{i}", value) for i, value in enumerate(numbered(count)))


def graphs_of_blocks(use, make, count=5, calls=2):
    """The number of graphs with which all blocks were called, each compiled by itself; results and changes are compared with eager."""
    framejit.reset()
    blocks = [Block(i, use) for i in range(count)]
    values, expected = make(), make()
    for _ in range(calls):
        for block in blocks:
            assert torch.equal(framejit.compile(block, backend="eager", fullgraph=True)(x, values), use(block, x, expected))
    assert str(values) == str(expected)
    return framejit.statistics()["graphs"]


@pytest.mark.parametrize("use,make", [
    (by_index, lambda: numbered(5)),
    (by_index, lambda: tuple(numbered(5))),
    (by_index, lambda: dict(enumerate(numbered(5)))),
    (by_name, lambda: named(5)),
    (by_name, lambda: named(5, OrderedDict)),
    (or_none, lambda: named(5)),
    (filled_in, lambda: {f"block{i}": {"first": i} for i in range(5)}),
])  # fmt: skip
def test_blocks_share_a_graph(use, make):
    assert graphs_of_blocks(use, make, calls=1) == 1


def test_missing_keys_are_one_more_graph():
    assert graphs_of_blocks(if_there, lambda: named(2)) == 2
    assert graphs_of_blocks(or_none, lambda: named(2), calls=1) == 1  # the other graph is empty


def test_default_dict_gets_the_missing_key():
    values, expected = defaultdict(list), defaultdict(list)
    for i in range(3):
        block = Block(i, lambda block, t, values: values[block.name].append(t) or t + len(values))
        assert torch.equal(framejit.compile(block, backend="eager")(x, values), block(x, expected))
    assert list(values) == list(expected) == ["block0", "block1", "block2"]


class Layer:
    def __init__(self):
        self.keys = None

    def update(self, keys):
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys])
        return self.keys


class Cache:
    """A cache that makes its layers when they are first asked for."""

    def __init__(self, count):
        self.layers = [Layer() for _ in range(count)]

    def update(self, keys, index):
        while len(self.layers) <= index:
            self.layers.append(Layer())
        return self.layers[index].update(keys)


def attend(block, t, cache):
    return cache.update(t * 2, block.index).sum(0) + t


@pytest.mark.parametrize("count", [0, 4])
def test_cache_of_layers(count):
    cache, expected = Cache(count), Cache(count)
    blocks = [Block(i, attend) for i in range(4)]
    compiled = [framejit.compile(block, backend="eager", fullgraph=True) for block in blocks]
    graphs = []
    for step in range(4):
        t = torch.full((1, 4), float(step))
        for one, block in zip(compiled, blocks):
            assert torch.equal(one(t, cache), block(t, expected))
        graphs.append(framejit.statistics()["graphs"])
    assert all(torch.equal(one.keys, other.keys) for one, other in zip(cache.layers, expected.layers, strict=True))
    assert graphs[-1] == graphs[-2]  # sizes vary from the third step on, and are symbols


def test_kinds_of_what_is_found_are_guarded():
    f = framejit.compile(lambda t, key, table: t + table[key], backend="eager")
    table = {"a": 1, "b": 2, "c": torch.ones(4), "d": torch.ones(4, dtype=torch.float64), 5: torch.zeros(1), True: torch.ones(1)}
    for key in ("c", "a", "b", "d", "c", "a", 5, 1, True, 1.0):
        assert torch.equal(f(x, key, table), x + table[key])
    with pytest.raises(KeyError):
        f(x, "e", table)


def test_same_value_at_two_keys():
    def f(t, i, j, rows):
        rows[i].append(t)
        return t * len(rows[j]) + (rows[i] is rows[j])

    compiled = framejit.compile(f, backend="eager")
    for i, j in ((0, 1), (1, 0), (0, 0), (1, 1), (2, 0), (0, 2)):
        shared = [[], [1]]
        rows, expected = [*shared, shared[0]], [[], [1]]
        expected.append(expected[0])
        assert torch.equal(compiled(x, i, j, rows), f(x, i, j, expected))
        assert [len(row) for row in rows] == [len(row) for row in expected]


def test_key_that_is_asked_for_later_or_before():
    def later(t, i, rows):
        t = t + rows[i]
        return t if i > 2 else t * i

    def before(t, i, rows):
        t = t if i > 2 else t * i
        return t + rows[i]

    for f in (later, before):
        compiled = framejit.compile(f, backend="eager")
        for i in (0, 1, 2, 3, 1, 4, 0):
            assert torch.equal(compiled(x, i, numbered(5)), f(x, i, numbered(5)))


def test_changed_containers_are_asked_for_the_key():
    def stored(t, i, j, rows):
        rows[i] = t
        return rows[j] + t

    def removed(t, i, j, rows):
        del rows[i]
        return rows.get(j, t) if isinstance(rows, dict) else rows[j] * 2

    def popped(t, i, j, rows):
        return rows.pop(i) + rows[j]

    for f in (stored, removed, popped):
        for make in (lambda: numbered(5), lambda: dict(enumerate(numbered(5)))):
            compiled = framejit.compile(f, backend="eager")
            for i, j in ((0, 1), (1, 0), (0, 2), (2, 3), (3, 2), (1, 0)):
                rows, expected = make(), make()
                assert torch.equal(compiled(x, i, j, rows), f(x, i, j, expected))
                assert str(rows) == str(expected)


def test_negative_and_large_indices():
    f = framejit.compile(lambda t, i, rows: t + rows[i], backend="eager")
    for i in (1, -1, 0, -4, 3):
        assert torch.equal(f(x, i, numbered(4)), x + numbered(4)[i])
    for i in (4, -5, 2**70):
        with pytest.raises(IndexError):
            f(x, i, numbered(4))


def test_key_that_is_found_by_a_key():
    f = framejit.compile(lambda t, i, names, values: t + values[names[i]], backend="eager", fullgraph=True)
    values = {"a": torch.ones(4), "b": torch.zeros(4), "c": torch.full((4,), 2.0)}
    for i in (0, 1, 2, 1):
        assert torch.equal(f(x, i, ["a", "b", "c"], values), x + values["abc"[i]])
    assert framejit.statistics()["recompiles"] == 0


def test_two_objects_look_up_in_each_other():
    class Half:
        def __init__(self, key, values):
            self.key, self.values = key, values

    f = lambda t, a, b: t + a.values[b.key] * b.values[a.key]
    compiled = framejit.compile(f, backend="eager", fullgraph=True)
    for i, j in ((0, 1), (1, 0), (2, 2)):
        a, b = Half(i, numbered(3)), Half(j, numbered(3))
        assert torch.equal(compiled(x, a, b), f(x, a, b))
    assert framejit.statistics()["recompiles"] == 0


def test_whole_model_of_blocks():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block(i, by_name) for i in range(4))

        def forward(self, t, values):
            for block in self.blocks:
                t = block(t, values)
            return t

    model = Model()
    compiled = framejit.compile(model, backend="eager", fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(x, named(4)), model(x, named(4)))
    model.blocks[0].name, model.blocks[1].name = "block1", "block0"
    assert torch.equal(compiled(x, named(4)), model(x, named(4)))
    assert framejit.statistics()["graphs"] == 1


def test_programs_agree():
    agree(lambda t, d, key: (d[key], key in d, d.get(key), len(d), list(d), t * d[key]), x, {"a": 2, "b": 3}, "a")
    agree(lambda t, l, i: (l[i], len(l), l, t * l[i]), x, [2, 3], 1)
    agree(lambda t, l, i: (l[i] is l[0], l.append(t), l[i]), x, [[2], [3]], 1)
