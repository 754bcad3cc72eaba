"""Keeps Inductor's patterns from failing on graphs that they nearly match.

`x[torch.randperm(n)]` is nearly `x[torch.randperm(n)[:m]]`, for which Inductor has a pattern. Before version 2.15 it raises instead of leaving the graph as
it is, since it finds no `m`.
"""

from __future__ import annotations

import contextlib
import functools
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._inductor.fx_passes import joint_graph, post_grad

INDEX = ("call_function", torch.ops.aten.index.Tensor)
"""The key, in Inductor's tables, of what the last node of those patterns calls."""
INCOMPLETE = "Not all inputs to pattern found"
"""The beginning of the error's message."""
INITIALIZE = joint_graph.lazy_init


@contextlib.contextmanager
def patterns_that_leave() -> Iterator[None]:
    """In force while Inductor compiles a graph: it makes its patterns for the first one."""
    with unittest.mock.patch.object(joint_graph, "lazy_init", initialize):
        yield


@functools.cache
def initialize(*args: Any, **kwargs: Any) -> None:
    """Make Inductor's patterns, each of which leaves graphs alone in which it doesn't find all of its inputs."""
    INITIALIZE(*args, **kwargs)
    for table in (joint_graph.patterns, *post_grad.pass_patterns):
        for entry in table.patterns.get(INDEX, ()):
            if not isinstance(entry.extra_check, WithAllInputs):
                entry.extra_check = WithAllInputs(entry.extra_check)


class WithAllInputs:
    """A pattern's check of a match, which is False for a match without all of the pattern's inputs."""

    def __init__(self, check: Callable[[Any], bool]) -> None:
        self.check = check

    def __call__(self, match: Any) -> bool:
        try:
            return self.check(match)
        except RuntimeError as error:
            if str(error).startswith(INCOMPLETE):
                return False
            raise
