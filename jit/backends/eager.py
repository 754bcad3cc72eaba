"""The backend `eager`: runs the captured graph as it is, operator by operator."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any

from torch import fx, nn
from torch._ops import HigherOrderOperator

from framejit.backends import node_lines
from framejit.backends.calling import boxed_forward
from framejit.backends.registry import Backend
from framejit.graph.demands import Demands
from framejit.graph.fake import is_of_others
from framejit.graph.inner import graph_modules
from framejit.saved.remade import made_by

_numbers = itertools.count()


def boxed(forward: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """A function, marked in AOTAutograd's way as a boxed callable."""

    def run(args: list[Any]) -> Any:
        return forward(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def compile_eager(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """A graph's code as a boxed function that doesn't hold the graph, which is useless once its code exists, and much larger."""
    forward = boxed_forward(gm)
    holder = nn.Module()
    node_lines.remember(gm, holder)
    holder.__dict__.update({name: value for name, value in gm.__dict__.items() if name != "_graph"})
    function: FunctionType = forward.__func__  # type: ignore[attr-defined]
    run = boxed(MethodType(function, holder))
    if len(list(graph_modules(gm))) > 1 or any(isinstance(node.target, HigherOrderOperator) or is_of_others(node.target) for node in gm.graph.nodes):
        return run  # the next process may have other functions and operators under these names
    names = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    attributes = {node.target: getattr(gm, node.target) for node in gm.graph.find_nodes(op="get_attr") if "." not in node.target}
    return made_by(run, graph_again, function.__code__, names, attributes, node_lines.of(function.__code__))


def graph_again(code: CodeType, names: Mapping[str, Any], attributes: Mapping[str, Any], lines: Mapping[int, int]) -> Callable[[list[Any]], Any]:
    """The boxed function of a graph that an earlier process has traced: its code, the globals and attributes that the code uses, and its table of lines."""
    holder = nn.Module()
    holder.__dict__.update(attributes)
    own = code.replace(co_filename=f"<eval_with_key>.again{next(_numbers)}")
    node_lines.note(own, lines, holder)
    return boxed(MethodType(FunctionType(own, {"__builtins__": builtins, **names}), holder))


BACKEND = Backend(
    "eager", compile_eager, trusted=True, needs_contexts=False, faster_for_fixed_sizes=False, runs_nodes=True,
    takes=Demands(takes_unbacked=True, takes_gradients=True, takes_hooks=True, draws_in_order=True, joins_branches=True),
)  # fmt: skip
