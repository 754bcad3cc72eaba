"""numpy.errstate as a context of compiled code."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from agreement import Comparison, agree

import framejit

a = np.arange(12.0).reshape(3, 4)


def quotients(a):
    with np.errstate(divide="ignore", invalid="ignore"), np.errstate(all="warn") as nothing:
        b = np.linalg.inv(a[:2, :2]) + a[:2, :2] / (a[:2, :2] - 1)
    return b, nothing


def raised_inside(a):
    try:
        with np.errstate(all="ignore"):
            b = a / (a - 1)
            raise ValueError(a.shape[0])
    except ValueError as error:
        return b, error.args


def test_contexts_are_part_of_the_graph():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for program in (quotients, raised_inside):
            framejit.reset()
            agree(program, a)
            assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0)


def test_with_a_break_inside_they_are_entered_for_real():
    def around_a_break(a):
        kept = np.errstate(divide="ignore")
        with np.errstate(under="ignore"), kept:
            b = a + 1
            print(end="")
            state = np.geterr()
        return b * 2, state, np.geterr(), type(kept)

    compiled, before = framejit.compile(around_a_break, backend="eager"), np.geterr()
    for _ in range(2):
        Comparison().same(around_a_break(a), compiled(a))
    assert np.geterr() == before


def test_what_raises_is_left_to_numpy():
    def strict(a):
        with np.errstate(all="raise"):
            return a / (a - 1)

    compiled = framejit.compile(strict, backend="eager")
    for _ in range(2):
        with pytest.raises(FloatingPointError, match="divide by zero"):
            compiled(a)
    with pytest.raises(ValueError):
        framejit.compile(lambda a: np.errstate(divide="sometimes").__enter__(), backend="eager")(a)
