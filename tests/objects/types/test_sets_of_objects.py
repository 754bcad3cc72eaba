"""Sets of objects, modules and tensors from outside: elements are found by their places in the order of iteration."""

from __future__ import annotations

import pytest
import torch
from agreement import agree_over_calls

import framejit

x = torch.arange(4.0)


class Item:
    def __init__(self, value):
        self.value = value


class Equal:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return self.value == other.value


def values(t, items):
    total = t
    for item in items:
        total = total * 2 + item.value
    return total, len(items), [item.value for item in items], any(item.value == 2 for item in items)


def changed(t, items):
    first, new = next(iter(items)), Item(7)
    items.discard(first)
    items.add(new)
    return t + len(items), first in items, new in items, sum(item.value for item in {new}), items


def combined(t, items):
    other = {item for item in items if item.value > 1}
    return t + len(other), len(items | other), len(items & other), len(items - other), other <= items, items == set(items)


@pytest.mark.parametrize("function", [values, changed, combined])
@pytest.mark.parametrize("kind", [set, frozenset])
def test_what_a_set_of_objects_has(function, kind):
    if function is changed and kind is frozenset:
        return

    def program(compile):
        f, seen = compile(function), []
        for count in (3, 3, 1, 3):
            items = kind(Item(value) for value in range(count))
            found = f(x, items)
            if function is values:
                order, total = [item.value for item in items], x
                for value in order:
                    total = total * 2 + value
                assert found[2] == order and torch.equal(found[0], total)
            else:
                seen.append((found[:-1], len(items)))
        return seen

    agree_over_calls(program)


def test_one_entry_serves_sets_of_one_size():
    f = framejit.compile(lambda t, items: t + sum(item.value for item in items), backend="eager", fullgraph=True)
    before = framejit.statistics()["graphs"]
    for _ in range(3):
        items = {Item(2), Item(2), Item(2)}
        assert torch.equal(f(x, items), x + 6)
    assert framejit.statistics()["graphs"] - before == 1
    items.pop()
    assert torch.equal(f(x, items), x + 4)


def test_modules_and_parameters():
    def program(compile):
        torch.manual_seed(0)
        layer = torch.nn.Linear(4, 4)
        frozen, layers = {layer.weight}, {layer}

        def step(t):
            count = sum(parameter.numel() for parameter in set(layer.parameters()) - frozen)
            for module in layers:
                t = module(t)
            return t + count + len([parameter for parameter in layer.parameters() if parameter in frozen])

        f = compile(step)
        seen = [f(x)]
        frozen.add(layer.bias)
        return [*seen, f(x)]

    agree_over_calls(program)


def test_objects_that_compare_by_their_own_code():
    def program(compile):
        items = {Equal(1), Equal(2)}
        return [compile(lambda t: t + sum(item.value for item in items))(x)]

    agree_over_calls(program)


@pytest.mark.parametrize("function", [
    lambda items: (items.add(Item(4)), [item.value for item in items])[1], lambda items: items.pop().value,
    lambda items: [item.value for item in items | {Item(5)}], lambda items: (items.add(Item(4)), [item.value for item in set(items)])[1],
])  # fmt: skip
def test_orders_that_depend_on_addresses_are_left_to_python(function):
    def program(compile):
        f = compile(lambda t, items: (t + 1, function(items)))
        return [type(f(x, {Item(value) for value in range(3)})[1]) for _ in range(2)]

    agree_over_calls(program, stops=True)


COPIES = {
    "set": lambda items: set(items),
    "copy": lambda items: items.copy(),
    "frozenset": lambda items: frozenset(items),
    "a copy of a copy": lambda items: frozenset(set(items).copy()),
}


def sets_with_gaps(make):
    """Sets with elements taken out, whose tables are larger than those of copies and may have another order."""
    for count in (0, 1, 3, 8, 40):
        made = [make(value) for value in range(count)]
        items = set(made)
        yield items
        items.difference_update(made[::2])
        yield items
        items.update(make(value) for value in range(100, 104))
        yield items


@pytest.mark.parametrize("make", [Item, Equal])
@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_going_through_copies(copied, make):
    def through(t, items):
        copy = copied(items)
        return t + len(copy), [item.value for item in copy], copy

    for items in sets_with_gaps(make):
        framejit.reset()
        compiled = framejit.compile(through, backend="eager")
        for _ in range(2):
            expected, found = through(x, items), compiled(x, items)
            assert torch.equal(found[0], expected[0]) and found[1] == expected[1]
            assert [item.value for item in found[2]] == found[1] and type(found[2]) is type(expected[2]) and found[2] is not items
        assert not framejit.statistics()["reasons"] and not framejit.statistics()["recompiles"]


def test_a_copy_that_changes_while_it_is_gone_through():
    def program(compile):
        def thinned(t, items):
            for item in items.copy():
                if item.value % 2:
                    items.discard(item)
            return t + len(items)

        items = {Item(value) for value in range(6)}
        return [compile(thinned)(x, items), sorted(item.value for item in items)]

    agree_over_calls(program)


def test_the_order_of_a_copy_that_changes_is_left_to_python():
    def changed(t, items):
        copy = set(items)
        before = [item.value for item in copy]
        copy.add(Item(9))
        return t + 1, before, sorted(item.value for item in copy), [item.value for item in copy]

    items = {Item(value) for value in range(4)}
    framejit.reset()
    found = framejit.compile(changed, backend="eager")(x, items)
    assert found[1] == [item.value for item in set(items)] and found[2] == [0, 1, 2, 3, 9] and sorted(found[3]) == found[2]
    assert framejit.statistics()["reasons"]


def test_an_object_of_a_set_that_is_found_elsewhere_too():
    def program(compile):
        one, two = Item(1), Item(2)

        def step(t, items):
            for item in items:
                item.value += 1
            return t * one.value, one in items

        f = compile(step)
        return [f(x, {one}), f(x, {two}), f(x, {one, two}), one.value, two.value]

    agree_over_calls(program)
