"""Slices as keys and elements: Python 3.12 hashes them by their parts, Python 3.11 raises TypeError."""

from __future__ import annotations

import collections
import functools

import pytest
import torch
from agreement import agree_in_text, tried

SLICES = [slice(1, 2), slice(None), slice(1, 2)]
x = torch.arange(6.0)


def made_and_found():
    found = {slice(1, 2): "a", slice(None): "b"}
    return found[slice(1, 2)], found[:], slice(2) in found, slice(1.0, True + True) in found, sorted(map(str, found))


def equal_parts_of_other_types():
    return {slice(1), slice(1), slice(True)}, {slice(True): 1, slice(1.0): 2}


def from_outside():
    return {each: 1 for each in SLICES}, SLICES[0] in {slice(1, 2)}, {SLICES[0]: 3}[1:2]


def hashed():
    return hash(slice(1, 2)) == hash(slice(1, 2)), hash(slice(1, 2, 3)) == hash(SLICES[0]), hash((SLICES[0], 1)) == hash((slice(1, 2), 1))


def parts_without_a_hash():
    return {slice([]): 1}


def handled():
    try:
        return {}[slice(1)]
    except (KeyError, TypeError) as error:
        return type(error), str(error)


def library():
    @functools.lru_cache
    def part(where):
        return x[where].sum()

    return part(slice(1, 3)), part(slice(1, 3)), part.cache_info(), collections.Counter([slice(1), slice(1), slice(2)]).most_common(1)


@pytest.mark.parametrize("program", [made_and_found, equal_parts_of_other_types, from_outside, hashed, parts_without_a_hash, handled, library])
def test_program(program):
    agree_in_text(lambda: tried(program))


def test_dict_from_outside():
    def calling(table):
        table = dict(table)
        return tried(lambda: table[1:2]), tried(table.get, slice(None)), list(table)

    keys = (slice(1, 2), slice(None)) if slice.__hash__ else (1, 2)
    agree_in_text(lambda: calling(dict.fromkeys(keys, 1)))
    table = dict.fromkeys(keys, 1)
    agree_in_text(lambda: calling(table))
