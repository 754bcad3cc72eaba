"""typing: attributes of aliases are those of the classes that they are of, as these are in each call."""

from __future__ import annotations

import typing
from typing import Annotated, Generic, List, TypeVar

import pytest
import torch
from agreement import tried

import framejit

T = TypeVar("T")
x = torch.arange(3.0)


class Model(Generic[T]):
    scale = 1

    @classmethod
    def scaled(cls, t):
        return t * cls.scale


OF_INT, NOTED = Model[int], Annotated[Model[int], "a note"]


def read(t):
    return t * OF_INT.scale + NOTED.scale, Model[str].scaled(t)


def change_and_read(t):
    Model.scale += 1
    Model[int].steps = Model.scale
    return t * OF_INT.scale + Annotated[Model[str], 1].scale, Model.steps, OF_INT.steps


def fixed(t):
    names = [List.__name__, List[int].__name__, OF_INT.__name__, NOTED.__name__, NOTED.__metadata__, OF_INT.__origin__ is Model, OF_INT.__args__]
    return names, tried(lambda: OF_INT.absent), tried(lambda: OF_INT.__absent__), tried(lambda: NOTED.absent), List[int].append is list.append, t


@pytest.mark.parametrize("program", [read, change_and_read, fixed], ids=lambda program: program.__name__)
def test_attributes_of_aliases(program):
    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for scale in (1, 1, 5):
        Model.scale = scale
        expected = program(x)
        Model.scale = scale
        assert str(compiled(x)) == str(expected)
    assert framejit.statistics()["graph_breaks"] == 0


def test_an_attribute_that_the_class_gets_later():
    class Late(Generic[T]):
        pass

    alias = Late[int]
    compiled = framejit.compile(lambda t: t + getattr(alias, "added", 1), backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), x + 1)
    Late.added = 2
    assert torch.equal(compiled(x), x + 2)
    assert typing.get_origin(alias) is Late


def test_an_attribute_that_a_type_variable_gets_later():
    variable = TypeVar("variable")
    if not hasattr(variable, "__dict__"):
        pytest.skip("type variables of this Python have attributes outside of a __dict__")
    compiled = framejit.compile(lambda t: t + getattr(variable, "added", 1), backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), x + 1)
    variable.added = 2
    assert torch.equal(compiled(x), x + 2)
