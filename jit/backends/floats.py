"""Floats that differ from call to call, for backends that know floats as constants only: the graph gets 0-d tensors, and reads their items.

Arithmetic on such floats is taken out of the graph: it runs before, in Python. AOTAutograd would rewrite it with sympy's simplifications, which don't
hold for floats: `(a + 1e20) - 1e20` is not `a`. So are ints that sympy has no expression for, such as `int(t * 10)`, which are inputs of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from framejit.backends.request import GraphRequest, InputInfo
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Floats:
    """A request without floats among its inputs. `kept`: the positions of the other inputs, which come first; `numbers`: those of the ints and floats,
    from which `compute` computes the numbers that the graph uses."""

    request: GraphRequest
    kept: tuple[int, ...]
    numbers: tuple[int, ...]
    compute: Callable[..., tuple[int | float, ...]]

    def wrapped(self, fn: Callable[..., Any], boxed: bool) -> Callable[[list[Any]], Any]:
        """`fn`, which takes the inputs of this request, as a boxed callable that takes the original ones."""
        kept, numbers, compute = self.kept, self.numbers, self.compute

        def call(args: list[Any]) -> Any:
            computed = compute(*[args[i] for i in numbers])
            rest = [args[i] for i in kept]
            args.clear()
            rest += map(as_input, computed)
            return fn(rest) if boxed else fn(*rest)

        return call


def as_input(number: int | float) -> int | torch.Tensor:
    """A float as a tensor without dimensions; an int as it is."""
    return torch.tensor(number, dtype=torch.float64, device="cpu") if type(number) is float else number


def take_out(request: GraphRequest) -> Floats | None:
    """Take the floats among the inputs, and everything that is computed from numbers only, out of `request.gm`, in place; None if there are no numbers that
    torch doesn't know."""
    nodes = request.gm.graph.nodes
    if not any(type(info.value) is float for info in request.inputs) and not any(is_free_float(node) or is_own_int(node) for node in nodes):
        return None
    assert request.shape_env is not None
    request.shape_env.takes_items = True
    graph = request.gm.graph
    placeholders = graph.find_nodes(op="placeholder")
    numbers = tuple(i for i, info in enumerate(request.inputs) if not isinstance(info.value, torch.Tensor))
    before = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {placeholders[i]: before.placeholder(placeholders[i].name) for i in numbers}
    made = [placeholders[i] for i in numbers if type(request.inputs[i].value) is float]
    for node in graph.nodes:
        kind = type(node.meta.get("example_value"))
        if kind in (torch.SymInt, torch.SymFloat) and node.op == "call_function" and all(arg in copies for arg in node.all_input_nodes):
            copies[node] = before.node_copy(node, copies.__getitem__)
            if kind is torch.SymFloat or is_own_int(node):
                made.append(node)
    used = [node for node in made if any(user not in made for user in node.users)]
    before.output(tuple([copies[node] for node in used]))
    before.eliminate_dead_code()
    compute = fx.GraphModule({}, before).forward
    values = compute(*[request.inputs[i].value for i in numbers])
    inputs = [put_in(graph, node, f"number_{number}", value) for number, (node, value) in enumerate(zip(used, values, strict=True))]
    for node in reversed(made):
        graph.erase_node(node)
    request.gm.recompile()
    kept = tuple(i for i, info in enumerate(request.inputs) if type(info.value) is not float)
    return Floats(replace(request, inputs=[*(request.inputs[i] for i in kept), *inputs]), kept, numbers, compute)


def is_free_float(node: fx.Node) -> bool:
    """Return whether a node is arithmetic whose result is a float that torch doesn't know."""
    value = node.meta.get("example_value")
    return type(value) is torch.SymFloat and node.op == "call_function" and not value.node.has_hint() and not any(map(gives_tensor, node.all_input_nodes))


def is_own_int(node: fx.Node) -> bool:
    """Return whether a node computes an int that has a symbol of its own, from other numbers."""
    value = node.meta.get("example_value")
    if type(value) is not torch.SymInt or node.op != "call_function" or any(map(gives_tensor, node.all_input_nodes)):
        return False
    symbol, operands = value.node._expr, [arg.meta.get("example_value") for arg in node.all_input_nodes]
    return symbol.is_Symbol and all(isinstance(number, (torch.SymInt, torch.SymFloat)) and number.node._expr != symbol for number in operands)


def gives_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("example_value"), torch.Tensor)


def put_in(graph: fx.Graph, node: fx.Node, name: str, value: int | float) -> InputInfo:
    """Replace the node of a float by the item of a new placeholder, after the existing ones, and that of an int by the placeholder."""
    last = graph.find_nodes(op="placeholder")[-1]
    with graph.inserting_after(last):
        placeholder = graph.placeholder(name)
    if type(value) is int:
        placeholder.meta = dict(node.meta)
        node.replace_all_uses_with(placeholder)
        return InputInfo(placeholder.name, f"framejit.{name}", value)
    with graph.inserting_after(placeholder):
        item = graph.call_method("item", (placeholder,))
    item.meta = dict(node.meta)
    node.replace_all_uses_with(item, delete_user_cb=lambda user: user is not item)
    return InputInfo(placeholder.name, f"framejit.{name}", as_input(value))
