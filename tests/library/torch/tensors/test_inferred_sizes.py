"""Views of which one size is -1, of tensors whose sizes depend on data."""

from __future__ import annotations

import pytest
import torch
from agreement import Comparison, agree, outcome

import framejit

WAYS = {
    "view": lambda y: y.view(y.size(0), -1),
    "view of a shape": lambda y: y.view((y.size(0), -1, 2)),
    "view, named": lambda y: y.view(size=(-1, y.shape[0])),
    "reshape": lambda y: y.reshape(y.shape[0], 2, -1),
    "reshape, named": lambda y: torch.reshape(y, shape=[-1, y.shape[0] * 2]),
    "twice": lambda y: y.view(-1, 2).view(y.size(0), -1),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("way", WAYS)
def test_rows_that_a_mask_selects(way, backend):
    """Without rows, eager raises, since -1 could be anything; so does the compiled function."""

    def program(x, mask):
        y = x[mask] * 2
        return WAYS[way](y) + 1, y

    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    x = torch.randn(5, 4)
    for rows in ([1, 3], [0], [0, 1, 2, 3, 4], [], [2, 4]):
        mask = torch.zeros(5, dtype=torch.bool)
        mask[rows] = True
        (kind, expected), (found_kind, found) = (outcome(call, (x, mask), {}) for call in (program, compiled))
        assert kind == found_kind
        Comparison().same(str(expected) if kind == "raised" else expected, str(found) if kind == "raised" else found)
    counts = framejit.statistics()
    assert (counts["graphs"], counts["graph_breaks"]) == (1, 0), counts


def test_numbers_of_tensors_as_sizes():
    def program(x, count):
        return x.view(count.item(), -1) * 2

    compiled = framejit.compile(program, backend="eager")
    x = torch.arange(12.0)
    for count in (3, 4, 0, -1, 5, 12, -2):
        (kind, expected), (found_kind, found) = (outcome(call, (x, torch.tensor(count)), {}) for call in (program, compiled))
        assert kind == found_kind
        Comparison().same(str(expected) if kind == "raised" else expected, str(found) if kind == "raised" else found)


def test_changes_before_an_error_are_made_once():
    def program(x, mask, log):
        y = x[mask]
        x.add_(1)
        log.append("added")
        return y.view(y.size(0), -1) + 1

    compiled = framejit.compile(program, backend="eager")
    for rows in ([1, 3], [], [0]):
        mask = torch.zeros(5, dtype=torch.bool)
        mask[rows] = True
        told = []
        for call in (program, compiled):
            x, log = torch.ones(5, 4), []
            kind, value = outcome(call, (x, mask, log), {})
            told.append((kind, str(value) if kind == "raised" else value, x, log))
        Comparison().same(*told)


def test_other_views_are_as_before():
    def views(x):
        return x.view(torch.int32), x.view(-1), x.reshape(()) if x.numel() == 1 else x.reshape(2, -1), x.view([4, -1]), torch.reshape(x, (-1, 3))

    framejit.reset()
    agree(views, torch.randn(6, 4))
    agree(lambda x: x.view(5, -1), torch.randn(6, 4), fullgraph=False)
