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
