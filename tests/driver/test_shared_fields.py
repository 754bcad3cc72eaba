"""Compiled modules of classes whose objects have fields named by `__slots__`: the fields are the original's."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import framejit
from framejit.errors import BadArgument

x = torch.arange(6.0).reshape(2, 3)


class Scaled:
    __slots__ = ("factor", "__hidden")

    def start(self):
        self.factor, self.__hidden = 2.0, 0
        return self

    def hidden(self):
        self.__hidden += 1
        return self.__hidden


class FieldsFirst(Scaled, nn.Module):
    def forward(self, t):
        return t * self.factor + self.hidden()


class FieldsLast(nn.Module):
    __slots__ = ("factor", "count")

    def start(self):
        self.factor, self.count = 2.0, 0
        return self

    def hidden(self):
        self.count += 1
        return self.count

    def forward(self, t):
        return t * self.factor + self.hidden()


@pytest.mark.parametrize("cls", [FieldsFirst, FieldsLast])
def test_fields_are_shared_both_ways(cls):
    module = cls().start()
    compiled = framejit.compile(module, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), x * 2 + 1) and torch.equal(module(x), x * 2 + 2) and torch.equal(compiled(x), x * 2 + 3)
    compiled.factor = 5.0
    assert module.factor == 5.0 and torch.equal(compiled(x), x * 5 + 4)
    del module.factor
    with pytest.raises(AttributeError, match="factor"):
        framejit.compile(module, backend="eager")(x)
    with pytest.raises(AttributeError, match="factor"):
        compiled.factor


@pytest.mark.parametrize("cls", [FieldsFirst, FieldsLast])
def test_fields_outlive_the_original(cls):
    compiled = framejit.compile(cls().start(), backend="eager")
    assert torch.equal(compiled(x), x * 2 + 1) and compiled.factor == 2.0


def test_what_is_around_a_compiled_module_shares_them_too():
    module = FieldsFirst().start()
    outer = framejit.disable(framejit.compile(module, backend="eager"))
    assert torch.equal(outer(x), x * 2 + 1) and module.hidden() == 2


def test_a_class_given_later_whose_objects_have_other_fields():
    class Linear(Scaled, nn.Linear):
        pass

    class Doubled(nn.Module):
        def forward(self, weight):
            return weight * 2

    module = Linear(3, 3)
    compiled = framejit.compile(module, backend="eager")
    compiled(x)
    with pytest.raises(BadArgument, match="compile the module again"):
        parametrize.register_parametrization(module, "weight", Doubled())
        compiled(x)
