"""Arrays that are one object in some calls and several in others, as what is drawn from a replay buffer has the same arrays at other places each time."""

from __future__ import annotations

import copy
import itertools
import random

import numpy as np
import pytest
import torch
from agreement import Comparison, agree_over_calls

import framejit

PATTERNS = ((0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 1, 2), (0, 0, 0), (1, 1, 0), (0, 1, 1))
"""Which of three arrays each place has, in one call after another."""


def arrays(pattern):
    made = [np.arange(4.0) + index for index in range(3)]
    return [made[index] for index in pattern]


def stacked(a):
    return torch.from_numpy(np.stack(a)).sum(), a[0], a[1], [a[1] - a[2]]


def identities(a):
    return a[0] is a[1], a[1] is a[2], any(x is a[0] for x in a[1:]), len({id(x) for x in a}), a[0] + a[2]


def written(a):
    before = a[1].sum()
    a[1] += 1
    a[2][0] = 7
    return before, a[0] * 2, a[0] + a[2]


def written_as_tensors(a):
    tensors = [torch.from_numpy(x) for x in a]
    before = sum(tensors)
    tensors[0].add_(1)
    return before, tensors[1].sum(), tensors[2] * 2


def addresses(a):
    tensors = [torch.from_numpy(x) for x in a]
    return tensors[0].data_ptr() == tensors[1].data_ptr(), tensors[1].untyped_storage().data_ptr() == tensors[2].untyped_storage().data_ptr(), sum(tensors)


def written_after_a_break(a):
    total = a[0] + a[1] + a[2]
    print(end="")
    a[2][0] = 5
    return total, a[0] * a[1]


def raising(a):
    total = a[0] + a[1]
    a[0][1] = 9
    try:
        a[2].reshape(3, 3)
    except ValueError as error:
        return total, str(error), a[1] + a[2]


@pytest.mark.parametrize("function", [stacked, identities, written, written_as_tensors, addresses, written_after_a_break, raising])
def test_results_are_those_of_eager_whichever_are_the_same(function):
    def program(wrap):
        compiled, found = wrap(function), []
        for pattern in PATTERNS:
            given = arrays(pattern)
            result = compiled(given)
            found.append((result, copy.deepcopy(given), [[x is y for x in given] for y in given]))
        return found

    # The numbers of the addresses of arrays that are new in each call aren't compiled for each.
    agree_over_calls(program, stops=function in (written_after_a_break, identities))


def test_those_that_are_only_read_cost_one_recompile():
    framejit.reset()
    compiled = framejit.compile(stacked, backend="eager", fullgraph=True)
    for pattern in PATTERNS:
        given = arrays(pattern)
        found = compiled(given)
        Comparison().same(stacked(given), found)
        assert found[1] is given[0] and found[2] is given[1]
    assert framejit.statistics()["graphs"] == 2


def test_arrays_that_are_always_the_same_are_one_input():
    framejit.reset()
    compiled = framejit.compile(stacked, backend="eager")
    for _ in range(3):
        compiled(arrays((0, 1, 0)))
    assert framejit.statistics()["recompiles"] == 0
    graphs = []
    framejit.compile(stacked, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)(arrays((0, 1, 0)))
    assert len([node for node in graphs[0].graph.nodes if node.op == "placeholder"]) == 2


def test_draws_from_a_replay_buffer():
    def learn(memory):
        batch = random.sample(memory, 6)
        states, followings = (np.stack(part) for part in zip(*batch, strict=True))
        return torch.from_numpy(states).sum(), torch.from_numpy(followings).mean(0)

    def program(wrap):
        random.seed(3)
        states = [np.full(3, float(index)) for index in range(20)]
        learned = wrap(learn)
        return [learned(list(itertools.pairwise(states))) for _ in range(20)]

    agree_over_calls(program, stops=True)
    counts = framejit.statistics()
    assert counts["fallbacks"] == 0 and counts["recompiles"] <= 2, counts
