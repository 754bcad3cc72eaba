"""functools: copies of partial objects, and the parts that they are made of."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
from agreement import agree

import framejit

x = torch.arange(3.0)


def scaled(t, factor, *rest, offset=0):
    return t * factor + offset, rest


def copies(t):
    bound = functools.partial(scaled, t, 2, offset=1)
    shallow, deep = copy.copy(bound), copy.deepcopy(functools.partial(scaled, factor=[1], offset=2))
    return shallow(3), shallow.keywords is bound.keywords, deep.keywords, deep.func is scaled, deep.args


def parts(t):
    plain, noted = functools.partial(int, "10", base=2), functools.partial(scaled, t)
    noted.note = 1
    return plain.__reduce__(), noted.__reduce__()[2][1:]


@pytest.mark.parametrize("program", [copies, parts], ids=lambda program: program.__name__)
def test_copies_of_partials_agree_with_eager(program):
    agree(program, x)


def test_a_partial_from_outside_is_left_to_native_code():
    agree(lambda t, bound: copy.copy(bound)(t), x, functools.partial(scaled, factor=3), fullgraph=False)
    with pytest.raises(framejit.errors.FramejitError, match="__setstate__"):
        framejit.compile(lambda bound: bound.__setstate__((abs, (), {}, None)), backend="eager", fullgraph=True)(functools.partial(scaled))
