"""Keeps Inductor's code from changing the graph's inputs before the program's checks have passed.

Inductor runs a graph's checks, and its changes of inputs, in an order of its own. A call whose check fails runs uncompiled, on inputs that must be as they
were. So each change is made to need what the checks give:

    _assert_scalar(item(flag), message)         passed = checked_flag(flag, True, message)
    copy_(input, value)                         copy_(input, where(passed, value, input))

`where` is computed together with the value. Nothing is ever kept as it was by it, as a check that fails raises.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._ops import OpOverload

from framejit.errors import CHECK_FAILED
from framejit.graph.check_order import ASSERT, flag_of
from framejit.torch_state.own_operators import declare_operator

ATEN = torch.ops.aten


@declare_operator("checked_flag(Tensor flag, bool expected, str message) -> Tensor", tags=(torch.Tag.cudagraph_unsafe,))
def checked_flag(flag: torch.Tensor, expected: bool, message: str) -> torch.Tensor:
    """True, as a tensor without dimensions on the flag's device. Raises RuntimeError with the message unless the flag, a tensor of one bool, is as expected."""
    if bool(flag) is not expected:
        raise RuntimeError(message)
    return torch.ones((), dtype=torch.bool, device=flag.device)


@checked_flag.fake
def _(flag: torch.Tensor, expected: bool, message: str) -> torch.Tensor:
    return flag.new_empty(())


def change_after_checks(graph: fx.Graph) -> None:
    """Rewrite a graph of ATen operators. Raises NotImplementedError if the graph has a check, or a change of an input, of another form."""
    checks = [node for node in graph.find_nodes(op="call_function", target=ASSERT) if str(node.args[1]).startswith(CHECK_FAILED)]
    changes = [node for node in graph.find_nodes(op="call_function", target=ATEN.copy_.default) if node.args[0].op == "placeholder"]
    if not checks or not changes:
        return
    flags = [flag_of(check) for check in checks]
    others = [node.target for node in graph.nodes if isinstance(node.target, OpOverload) and node.target is not ATEN.copy_.default]
    if None in flags or any(target._schema.is_mutable for target in others):
        raise NotImplementedError("a check of the program's, or a change of an input, of which Inductor knows no order")
    passed: fx.Node | None = None
    for check, found in zip(checks, flags):
        assert found is not None
        flag, expected = found
        with graph.inserting_before(check):
            made = call(graph, checked_flag.overload, flag, expected, check.args[1])
            passed = made if passed is None else call(graph, ATEN.logical_and.default, passed, on_device_of(graph, made, passed))
        condition = check.args[0]
        graph.erase_node(check)
        without_reading(condition)
    assert passed is not None
    on_devices = {value_of(passed).device: passed}
    for change in changes:
        old, new = change.args
        device = value_of(old).device
        with graph.inserting_before(change):
            if device not in on_devices:
                on_devices[device] = on_device_of(graph, passed, old)
            change.args = (old, call(graph, ATEN.where.self, on_devices[device], new, old))


def without_reading(condition: fx.Node) -> None:
    """Remove the nodes that read a check's flag: for what is known of the number that they give, Inductor's code would have a check of its own. Raises
    NotImplementedError if the graph has another use for the number."""
    if condition.users:
        raise NotImplementedError("a check of a number that is used elsewhere")
    operand = condition.args[0]
    condition.graph.erase_node(condition)
    if condition.target is torch.sym_not:
        without_reading(operand)


def on_device_of(graph: fx.Graph, node: fx.Node, other: fx.Node) -> fx.Node:
    """The node's value on another one's device."""
    device = value_of(other).device
    return node if value_of(node).device == device else call(graph, ATEN._to_copy.default, node, device=device)


def call(graph: fx.Graph, target: OpOverload, *args: object, **kwargs: object) -> fx.Node:
    """A new node, with what it gives on fakes."""
    node = graph.call_function(target, args, kwargs)
    node.meta["val"] = target(*fx.node.map_arg(args, value_of), **kwargs)
    return node


def value_of(node: fx.Node) -> torch.Tensor:
    found = node.meta["val"]
    assert isinstance(found, torch.Tensor)
    return found
