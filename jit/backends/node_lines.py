"""Finds the program's operation for a line of a graph's generated code, for exceptions that the graph raises."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from types import CodeType, TracebackType
from typing import Any

from torch import fx, nn
from torch.fx._lazy_graph_module import _LazyGraphModule

from framejit.graph.inner import graph_modules

_lines: dict[str, dict[int, int]] = {}
"""By the file name of generated code: its lines, and the `key` of the node on each."""


def key(meta: Mapping[str, Any]) -> int | None:
    """A number for a node in tables that outlive its graph, from its metadata: AOTAutograd passes that on to the nodes that it makes from one."""
    made_by, stack_trace = meta.get("source_fn_stack"), meta.get("stack_trace")
    return hash((stack_trace, made_by[0][0])) if made_by and stack_trace else None


def remember(gm: fx.GraphModule, owner: nn.Module) -> None:
    """Note the lines of the existing code of a graph and of the graphs in it, for as long as `owner` lives."""
    for module in graph_modules(gm):
        _LazyGraphModule.force_recompile(module)
        module.__dict__["_wrapped_call"] = nn.Module.__call__  # torch.fx's own prints what an inner graph raises, and drops its traceback
        nodes = list(module.graph.nodes)
        keys = {module._prologue_start + line: key(nodes[index].meta) for line, index in module._lineno_map.items() if index is not None}
        note(module.forward.__code__, {line: found for line, found in keys.items() if found is not None}, owner)


def note(code: CodeType, lines: Mapping[int, int], owner: nn.Module) -> None:
    """Note the lines of generated code for as long as `owner` lives: the key of the node on each."""
    _lines[code.co_filename] = dict(lines)
    weakref.finalize(owner, _lines.pop, code.co_filename, None)


def of(code: CodeType) -> Mapping[int, int]:
    """The lines of generated code, and the key of the node on each."""
    return _lines.get(code.co_filename, {})


def nodes_in(traceback: TracebackType | None) -> Iterator[tuple[int, TracebackType]]:
    """The keys of the nodes that ran when an exception was raised, outermost first, each with the entry of its graph's code."""
    while traceback is not None:
        lines = _lines.get(traceback.tb_frame.f_code.co_filename)
        if lines is not None and traceback.tb_lineno in lines:
            yield lines[traceback.tb_lineno], traceback
        traceback = traceback.tb_next
