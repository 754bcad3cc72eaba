"""Writes the code of a graph as a boxed function, which runs the graph operator by operator. torch.fx takes half as long again, since people read its text.

Graphs with arguments of other types than those here are left to torch.fx.
"""

from __future__ import annotations

import builtins
import itertools
import math
import operator
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, CodeType, EllipsisType, FunctionType, MethodDescriptorType, NoneType, WrapperDescriptorType
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx.graph import magic_methods
from torch.fx.immutable_collections import immutable_list
from torch.fx.node import _get_qualified_name

from framejit.quick_dataclass import dataclass

PLAIN = frozenset({int, bool, str, NoneType, EllipsisType, torch.dtype, torch.layout, torch.memory_format})
"""Types of constants whose `repr` is their code."""
OF_TORCH = frozenset({FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, OpOverload, OpOverloadPacket})
"""Types of torch's functions."""
_numbers = itertools.count()


class NotWritten(Exception):
    """Signal: something in the graph is left to torch.fx."""


@dataclass(slots=True, eq=False)
class GraphCode:
    """The function `forward(self, args_list)` of a graph, and the node on each line of its code that runs one."""

    function: FunctionType
    nodes: dict[int, fx.Node]


def graph_code(graph: fx.Graph) -> GraphCode | None:
    """Return the code of a graph. It frees each value after its last use. None: the graph is left to torch.fx."""
    try:
        return GraphWriter(graph).written()
    except NotWritten:
        return None


class GraphWriter:
    """Writes the code of one graph."""

    def __init__(self, graph: fx.Graph) -> None:
        self.nodes = list(graph.nodes)
        self.names = {node.name for node in self.nodes}
        self.globals: dict[str, Any] = {"__builtins__": builtins, "torch": torch}
        self.functions: dict[int, str] = {}

    def written(self) -> GraphCode:
        if "torch" in self.names or "self" in self.names:
            raise NotWritten
        frees = last_uses(self.nodes)
        given = "".join([f"{node.name}, " for node in self.nodes if node.op == "placeholder"])
        lines = ["def forward(self, args_list):", *([f"    {given}= args_list"] if given else []), "    args_list.clear()"]
        nodes: dict[int, fx.Node] = {}
        for node in self.nodes:
            if node.op != "placeholder":
                lines.append(f"    {self.statement(node)}{''.join([f'; {used.name} = None' for used in frees[node]])}")
                nodes[len(lines)] = node
        code = compile("\n".join(lines), f"<eval_with_key>.framejit{next(_numbers)}", "exec")
        forward = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
        return GraphCode(FunctionType(forward, self.globals), nodes)

    def statement(self, node: fx.Node) -> str:
        """The statement that runs a node. A result that nothing uses gets no name."""
        if node.op == "output":
            return f"return {self.text(node.args[0])}"
        return f"{node.name} = {self.expression(node)}" if node.users else self.expression(node)

    def expression(self, node: fx.Node) -> str:
        target: Any = node.target
        if node.op == "get_attr":
            if "." in target:
                raise NotWritten
            return f"self.{target}"
        args = node.args
        if node.op == "call_method":
            return f"{args[0].name}.{target}({self.arguments(args[1:], node.kwargs)})" if type(args[0]) is fx.Node else self.refuse()
        if node.op != "call_function":
            raise NotWritten
        sign = magic_methods.get(target.__name__) if getattr(target, "__module__", "") == "_operator" else None
        if sign is not None and not node.kwargs and all(type(arg) is fx.Node for arg in (args[:1] if target is operator.getitem else args)):
            return sign.format(*map(self.text, args))  # signs bind more than those of a negative number would
        return f"{self.function(target)}({self.arguments(args, node.kwargs)})"

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        return ", ".join([*map(self.text, args), *[f"{name}={self.text(arg)}" for name, arg in kwargs.items()]])

    def text(self, arg: Any) -> str:
        """The code of an argument."""
        kind = type(arg)
        if kind is fx.Node:
            return str(arg.name)
        if kind in PLAIN or (kind is float and math.isfinite(arg)):
            return repr(arg)
        if kind is tuple:
            return f"({''.join([f'{self.text(item)}, ' for item in arg])})"
        if kind is list or kind is immutable_list:
            return f"[{', '.join(map(self.text, arg))}]"
        if kind is slice:
            return f"slice({self.text(arg.start)}, {self.text(arg.stop)}, {self.text(arg.step)})"
        if kind is torch.device:
            return f"torch.device({str(arg)!r})"
        return self.refuse()

    def refuse(self) -> str:
        raise NotWritten

    def function(self, target: Callable[..., Any]) -> str:
        """The code of a function: its path, if it can be found in torch, otherwise a global variable."""
        found = self.functions.get(id(target))
        if found is None:
            found = self.functions[id(target)] = path_in_torch(target) or self.variable(target)
        return found

    def variable(self, target: Callable[..., Any]) -> str:
        """A new global variable for a function."""
        name = str(getattr(target, "__name__", ""))
        name = f"_{name}_{len(self.globals)}" if name.isidentifier() else f"_function_{len(self.globals)}"
        if name in self.names:
            raise NotWritten
        self.globals[name] = target
        return name


def path_in_torch(target: Callable[..., Any]) -> str | None:
    """The path by which code finds a function of torch; None if the function isn't there."""
    if type(target) not in OF_TORCH or (type(target) is FunctionType and not target.__module__.startswith("torch.")):
        return None
    try:
        path = _get_qualified_name(target)
        found = operator.attrgetter(path.removeprefix("torch."))(torch) if path.startswith("torch.") else None
    except (AttributeError, RuntimeError):
        return None
    return path if found is target else None


def last_uses(nodes: Iterable[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
    """For each node, those whose values nothing uses after it."""
    seen: set[fx.Node] = set()
    found: dict[fx.Node, list[fx.Node]] = {}
    for node in reversed(list(nodes)):
        used = [] if node.op == "output" else [used for used in node.all_input_nodes if used not in seen]
        seen.update(used if node.op != "output" else node.all_input_nodes)
        found[node] = used
    return found
