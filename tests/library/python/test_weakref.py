"""Weak references from outside in compiled functions."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import framejit

x = torch.arange(6.0).reshape(2, 3)


class Settings:
    scale = 2.0


def test_a_weak_reference_is_followed_on_each_call():
    settings = [Settings()]
    reference = weakref.ref(settings[0])

    def program(x):
        found = reference()
        return x if found is None else x * found.scale

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), x * 2)
    settings[0].scale = 3.0
    assert torch.equal(compiled(x), x * 3)
    settings.clear()
    gc.collect()
    assert reference() is None, "compiled code must not keep the object alive"
    assert torch.equal(compiled(x), x)


def test_which_reference_it_is_is_looked_up_on_each_call():
    settings = [Settings(), Settings()]
    settings[1].scale = 5.0

    def program(x, reference):
        return x * reference().scale, reference() is settings[0]

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for item in (*settings, settings[0]):
        result, same = compiled(x, weakref.ref(item))
        assert torch.equal(result, x * item.scale) and same == (item is settings[0])


@pytest.mark.only_eager("a recurrent network that is trained is no part of a graph whose backward is made as a whole; torch.compile has it in none")
def test_recurrent_layers_compare_their_weights_with_weak_references():
    torch.manual_seed(0)
    layer = torch.nn.LSTM(3, 4, num_layers=2)
    compiled = framejit.compile(layer, backend="eager", fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), layer(x), rtol=0, atol=0)
    graphs = framejit.statistics()["graphs"]
    layer.weight_ih_l0 = torch.nn.Parameter(torch.randn(16, 3))
    expected = layer(x)  # notices the change and makes its references anew
    torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)
    assert framejit.statistics()["graphs"] <= graphs + 1


def test_a_weak_key_dictionary_is_asked_for_one_key():
    keys = [Settings(), Settings(), Settings()]
    table = weakref.WeakKeyDictionary({keys[0]: 2.0, keys[2]: torch.ones(3)})

    def program(x, key):
        if key in table:
            x = x * table[key]
        return x + 1, table.get(key, 3), table.get(key)

    def assert_same(key):
        for expected, found in zip(program(x, key), compiled(x, key)):
            assert torch.equal(expected, found) if isinstance(expected, torch.Tensor) else expected == found

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for index in (0, 0, 1, 2, 0):
        assert_same(keys[index])
    assert framejit.statistics()["recompiles"] == 2
    table[Settings] = 4.0
    assert_same(keys[0])
    assert framejit.statistics()["recompiles"] == 2
    table[keys[0]] = 5.0
    assert_same(keys[0])
    del table[keys[0]]
    assert_same(keys[0])
    gone = weakref.ref(keys[1])
    keys.clear()
    gc.collect()
    assert gone() is None and len(table) == 1, "guards must not keep the keys alive"


def test_a_weak_key_dictionary_that_is_changed_in_the_call():
    key = Settings()
    table = weakref.WeakKeyDictionary({key: 2.0})

    def program(x):
        first = table[key]
        table[key] = first + 1
        second = table[key]
        try:
            table[Settings]
        except KeyError as error:
            return x * second, type(error.args[0])

    compiled = framejit.compile(program, backend="eager")
    for factor in (3, 4):
        result, kind = compiled(x)
        assert torch.equal(result, x * factor) and kind is weakref.ref


class Node:
    pass


def test_weak_sets_and_dicts_of_objects_are_asked_and_gone_through():
    """From Python 3.14 on, a WeakSet goes through a copy of its set, whose order is guarded."""
    nodes = [Node() for _ in range(3)]
    known, numbers = weakref.WeakSet(nodes[:1]), weakref.WeakKeyDictionary({nodes[0]: 5})
    keys, table = {weakref.ref(nodes[0])}, {weakref.ref(nodes[0]): 1}

    def ask(x, node):
        found = node in known, len(known), [each is node for each in known], numbers.get(node), len(numbers), [(key is node, n) for key, n in numbers.items()]
        reference = weakref.ref(node)
        return x + found[1], found, reference in keys, table.get(reference), [each == reference for each in keys], [each() is node for each in table]

    framejit.reset()
    compiled = framejit.compile(ask, backend="eager", fullgraph=True)
    for removed, added in ((None, None), (0, 1), (None, 2)):
        for index in (removed,) if removed is not None else ():
            known.discard(nodes[index]), numbers.pop(nodes[index], None), keys.clear(), table.clear()
        for index in (added,) if added is not None else ():
            known.add(nodes[index])
            numbers[nodes[index]] = index
            keys.add(weakref.ref(nodes[index]))
            table[weakref.ref(nodes[index])] = index
        for node in nodes[:2]:
            found, expected = compiled(x, node), ask(x, node)
            assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]
    assert framejit.statistics()["graph_breaks"] == 0


def let_go_by_clear(holder, reference, known):
    found = reference() is not None, len(known)
    holder.clear()
    return found, reference() is None, len(known), [1 for _ in known]


def let_go_by_store(holder, reference, known):
    holder["node"] = None
    return reference() is None, len(known), list(known)


def let_go_with_what_held_it(holder, reference, known):
    holder["list"] = [holder.pop("node")]
    del holder["list"]
    return reference() is None, len(known)


def let_go_of_another(holder, reference, known):
    holder["other"] = None
    return reference() is holder["node"], len(known)


@pytest.mark.parametrize("program", [let_go_by_clear, let_go_by_store, let_go_with_what_held_it, let_go_of_another], ids=lambda program: program.__name__)
def test_an_object_of_which_the_call_lets_go_is_gone(program):
    def run(function):
        holder = {"node": Node(), "other": Node()}
        return function(holder, weakref.ref(holder["node"]), weakref.WeakSet([holder["node"]]))

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        assert run(compiled) == run(program)
    assert (framejit.statistics()["graph_breaks"] == 0) == (program is let_go_of_another)
