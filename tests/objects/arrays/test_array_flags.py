"""The flags of arrays in compiled code."""

from __future__ import annotations

import numpy as np
from agreement import Comparison, agree

import framejit

a = np.arange(12.0).reshape(3, 4)


def flags(a):
    fixed = np.broadcast_to(a[0], (2, 4))
    views = a, a.T, a[:, 1:3], a[1:], a.copy(), fixed
    names = [(v.flags.c_contiguous, v.flags.f_contiguous, v.flags.writeable, v.flags.contiguous, v.flags.forc, v.flags.fnc) for v in views]
    return names, [(v.flags["C_CONTIGUOUS"], v.flags["F"], v.flags["WRITEABLE"]) for v in views], a + 1


def test_flags_that_an_arrays_form_tells():
    framejit.reset()
    agree(flags, a)
    assert framejit.statistics()["graphs"] == 1
    fixed = a.copy()
    fixed.flags.writeable = False
    compiled = framejit.compile(flags, backend="eager")
    for array in (a, fixed, np.asfortranarray(a), np.arange(20.0).reshape(5, 4)):
        Comparison().same(flags(array), compiled(array))


def test_other_flags_and_changes_of_them():
    def others(a):
        b = a + 1
        b.flags.writeable = False
        kept = b.flags
        return b.flags["W"], kept.writeable, a.flags.aligned, a[1:].flags.owndata, b * 2, kept

    compiled = framejit.compile(others, backend="eager")
    for _ in range(2):
        expected, found = others(a), compiled(a)
        Comparison().same(expected[:-1], found[:-1])
        assert type(found[-1]) is type(expected[-1]) and not found[-1].writeable


def test_elements_with_their_indices():
    def weighted(a):
        numbered = np.ndenumerate(a)
        return next(numbered), type(numbered), sum(value * i - j for (i, j), value in numbered), [index for index, _ in np.ndenumerate([1, 2])]

    framejit.reset()
    agree(weighted, a)
    assert framejit.statistics()["graph_breaks"] == 0


def test_a_vectorized_function_is_called_as_a_whole():
    def vectorized(a):
        b = a * 2
        return np.vectorize(lambda q, r: max(q, r) + 1)(b, 5.0) + b

    framejit.reset()
    agree(vectorized, a, fullgraph=False)
    assert framejit.statistics()["graph_breaks"] == 1, framejit.statistics()["reasons"]
