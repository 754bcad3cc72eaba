"""The numbers of arguments that C functions accept, as read from the texts of their signatures."""

from __future__ import annotations

import array
import builtins
import collections
import datetime
import functools
import inspect
import itertools
import math
import operator
import re
import time
from collections.abc import Iterator
from typing import Any

import torch

import framejit
from framejit.objects.core.signatures import counts_of, positional_counts

SPACES = (builtins, math, itertools, operator, functools, collections, re, time, array, datetime, torch.Tensor)


def functions() -> Iterator[Any]:
    for space in SPACES:
        for value in vars(space).values():
            yield from (value, *vars(value).values()) if isinstance(value, type) else (value,)
    yield from ([].append, {}.get, "".join, [].__len__, object().__reduce_ex__)


def test_counts_are_those_of_inspects_signature() -> None:
    compared = 0
    for function in functions():
        counts = positional_counts(function)
        if counts is not None:
            signature = inspect.signature(function)
            assert counts == counts_of(signature), function
            assert {parameter.kind for parameter in signature.parameters.values()} <= {inspect.Parameter.POSITIONAL_ONLY}, function
            compared += 1
    assert compared > 500


def test_names_of_arguments_and_other_defaults_are_left_to_inspect() -> None:
    for function in (sum, dict.update, sorted, str.split, int.to_bytes, max):
        assert positional_counts(function) is None


def test_a_name_for_an_argument_that_has_none_is_refused() -> None:
    @framejit.compile(backend="eager")
    def f(x: torch.Tensor, d: dict[str, int]) -> torch.Tensor:
        try:
            return x + d.get(key="a")  # type: ignore[call-overload]
        except TypeError:
            return x - d.get("b", 2)

    assert f(torch.ones(1), {"a": 1}).tolist() == [-1]
