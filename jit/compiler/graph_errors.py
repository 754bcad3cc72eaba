"""Gives exceptions that a graph raises the traceback that they would have in the uncompiled program."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from framejit.backends import node_lines
from framejit.codegen.tracebacks import Passed, without_variables
from framejit.graph.fake import is_of_others
from framejit.graph.inner import nodes_inside
from framejit.graph.metadata import USER_PLACES, UserPlace
from framejit.quick_dataclass import dataclass

DISPATCH = tuple(os.path.join(os.path.dirname(torch.__file__), name) for name in ("_ops.py", "_higher_order_ops", "_functorch", "_compile.py", "_dynamo"))
"""Files of torch through which the nodes of AOTAutograd's graphs call operators, and a program's calls don't."""

OPERATOR = re.compile(r"\btorch\.ops\.(\w+\.\w+\.\w+)")
"""Matches the name of an operator in a line of generated code that calls the operator, or checks its result."""


@dataclass(frozen=True, slots=True)
class GraphErrors:
    """The `outcome` of an entry, which handles exceptions that leave its code. `places`: where the program was at each node, by its `node_lines.key`."""

    places: Mapping[int | None, tuple[UserPlace, ...]]

    def __call__(self, compiled: Any, error: BaseException | None, entry: Any) -> None:
        """If the graph has raised `error`, replace the frames of the code and of the graph in its traceback by the program's frames."""
        assert error is not None
        known = [(self.places[key], traceback) for key, traceback in node_lines.nodes_in(error.__traceback__) if key in self.places]
        if known:
            error.__traceback__ = of_program(compiled.function, nested([places for places, _ in known]), without_dispatch(known[-1][1].tb_next))


@dataclass(frozen=True, slots=True)
class OperatorErrors:
    """The `outcome` of an entry whose graph runs as code that a backend has generated. In such code, only the program's own operators are known by name.

    `places`: where the program was at the one node that calls an operator, by the operator's name as in `torch.ops.mine.scaled.default`.
    """

    places: Mapping[str, tuple[UserPlace, ...]]

    def __call__(self, compiled: Any, error: BaseException | None, entry: Any) -> None:
        """If one of these operators has raised `error`, replace the frames of the code and of the backend in its traceback by the program's frames."""
        assert error is not None
        traceback = error.__traceback__
        while traceback is not None:
            line = linecache.getline(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
            name = OPERATOR.search(line)
            if name is not None and name[1] in self.places:
                error.__traceback__ = of_program(compiled.function, self.places[name[1]], without_dispatch(traceback.tb_next))
                return
            traceback = traceback.tb_next


def without_dispatch(traceback: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that comes after torch's dispatch of operators."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(DISPATCH):
        traceback = traceback.tb_next
    return traceback


def nested(found: Sequence[tuple[UserPlace, ...]]) -> tuple[UserPlace, ...]:
    """The places where the program was, for nodes of which each runs the graph that contains the next one. A backward pass counts as where it runs."""
    places: tuple[UserPlace, ...] = ()
    for each in found:
        places += each[len(places) :]
    return places


def of_program(function: Any, places: tuple[UserPlace, ...], inner: TracebackType | None) -> TracebackType | None:
    """A traceback with frames of the program at these places, outermost first, followed by the traceback `inner`."""
    traceback = inner
    for code, offset in reversed(places):
        own = function.__code__ if code is None else code
        lineno = next((line for first, last, line in own.co_lines() if first <= offset < last and line is not None), own.co_firstlineno)
        traceback = Passed(without_variables(own), offset, lineno, function.__globals__ if code is None else {}).ahead_of(traceback)
    return traceback


def of_graph(gm: fx.GraphModule) -> GraphErrors | None:
    """Make GraphErrors for a graph, which must be as it was traced. The result is None if it has no nodes of which the place is known."""
    places = {node_lines.key(node.meta): node.meta[USER_PLACES] for node in nodes_inside(gm) if node.meta.get(USER_PLACES)}
    return GraphErrors(places) if places else None


def of_operators(gm: fx.GraphModule) -> OperatorErrors | None:
    """Make OperatorErrors for a graph, which must be as it was traced, for which a backend generates code. The result is None if the graph calls no operators
    of the program."""
    calls: dict[str, set[tuple[UserPlace, ...]]] = {}
    for node in nodes_inside(gm):
        if isinstance(node.target, OpOverload) and is_of_others(node.target) and node.meta.get(USER_PLACES):
            calls.setdefault(str(node.target), set()).add(node.meta[USER_PLACES])
    places = {name: next(iter(found)) for name, found in calls.items() if len(found) == 1}
    return OperatorErrors(places) if places else None
