"""Exceptions that a graph raises get the traceback that the program would have given them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import fx

from framejit.backends import node_lines
from framejit.codegen.tracebacks import Passed, without_variables
from framejit.graph.inner import nodes_inside
from framejit.graph.metadata import USER_PLACES, UserPlace

DISPATCH = tuple(os.path.join(os.path.dirname(torch.__file__), name) for name in ("_ops.py", "_higher_order_ops", "_functorch", "_compile.py", "_dynamo"))
"""Files of torch through which the nodes of AOTAutograd's graphs call operators, and a program's calls don't."""


@dataclass(frozen=True, slots=True)
class GraphErrors:
    """Looks at what leaves an entry's code: the `outcome` of the entry. `places`: where the program was at each node, by its `node_lines.key`."""

    places: Mapping[int | None, tuple[UserPlace, ...]]

    def __call__(self, compiled: Any, error: BaseException | None, entry: Any) -> None:
        """Put the program's frames in the place of that of the code and of the graph's, where the graph has raised `error`."""
        assert error is not None
        known = [(self.places[key], traceback) for key, traceback in node_lines.nodes_in(error.__traceback__) if key in self.places]
        if known:
            inner = known[-1][1].tb_next
            while inner is not None and inner.tb_frame.f_code.co_filename.startswith(DISPATCH):
                inner = inner.tb_next
            error.__traceback__ = of_program(compiled.function, nested([places for places, _ in known]), inner)


def nested(found: Sequence[tuple[UserPlace, ...]]) -> tuple[UserPlace, ...]:
    """Where the program was at nodes of which each runs the graph with the next. A backward pass was traced where its forward pass was, and runs here."""
    places: tuple[UserPlace, ...] = ()
    for each in found:
        places += each[len(places) :]
    return places


def of_program(function: Any, places: tuple[UserPlace, ...], inner: TracebackType | None) -> TracebackType | None:
    """The traceback `inner`, behind frames of a function, and of what it has called, at these places."""
    traceback = inner
    for code, offset in reversed(places):
        own = function.__code__ if code is None else code
        lineno = next((line for first, last, line in own.co_lines() if first <= offset < last and line is not None), own.co_firstlineno)
        traceback = Passed(without_variables(own), offset, lineno, function.__globals__ if code is None else {}).ahead_of(traceback)
    return traceback


def of_graph(gm: fx.GraphModule) -> GraphErrors | None:
    """For a graph that is still as it was traced; None where it has no nodes of which the place is known."""
    places = {node_lines.key(node.meta): node.meta[USER_PLACES] for node in nodes_inside(gm) if node.meta.get(USER_PLACES)}
    return GraphErrors(places) if places else None
