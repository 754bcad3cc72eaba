"""Items of str, bytes and range, and slice.indices(), where the program's own objects are the indices."""

from __future__ import annotations

import pytest
import torch
from agreement import agree, tried


class Index:
    """Says when it is asked for its number."""

    def __init__(self, number, asked):
        self.number = number
        self.asked = asked

    def __index__(self):
        self.asked.append(self.number)
        return self.number


SEQUENCES = ("hello", b"hello", range(10, 20))


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: type(sequence).__name__)
def test_indices_and_bounds_of_slices_are_asked_for_their_numbers(sequence):
    def program(x):
        asked = []
        first, second, third = Index(1, asked), Index(2, asked), Index(4, asked)
        return x + 1, sequence[first], sequence[first:third:second], sequence[second:], sequence[:third], sequence.__getitem__(third), asked

    agree(program, torch.ones(2))


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: type(sequence).__name__)
def test_what_is_no_index_raises(sequence):
    def program(x):
        keys = "a", 1.0, [1], None, Index(50, []), 1 << 90, slice(None, None, Index(0, [])), slice("a", None)
        return x + 1, [tried(lambda key=key: sequence[key]) for key in keys]

    agree(program, torch.ones(2))


def test_indices_of_slices():
    def program(x):
        asked = []
        bounds = slice(Index(1, asked), Index(6, asked), Index(2, asked))
        rejected = [tried(lambda length=length: slice(1, 2, 3).indices(length)) for length in (Index(-1, asked), "k", None)]
        return x + 1, bounds.indices(Index(5, asked)), slice(1, None).indices(True), rejected, asked

    agree(program, torch.ones(2))
