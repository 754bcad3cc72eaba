"""Makes traced TorchScript code compute sizes with ints. `torch.jit.trace` records arithmetic on sizes as arithmetic on tensors of one element.

    x.view(x.size(0) * 2, -1)      n = aten::mul(prim::NumToTensor(size), {2}); aten::view(x, [aten::Int(n), -1])

Tensors without data can't be converted to ints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

ON_INTS = {
    "aten::add": "aten::add", "aten::sub": "aten::sub", "aten::mul": "aten::mul", "aten::floor_divide": "aten::floordiv", "aten::remainder": "aten::remainder",
}  # fmt: skip
"""For operators on tensors of one int each, the operators that compute the same with ints."""
TO_INT = frozenset({"aten::Int", "aten::IntImplicit"})


def nodes_of(block: Any) -> Iterator[Any]:
    """The nodes of TorchScript's code, including those in branches and loops."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes_of(inner)


def is_tensor(node: Any) -> bool:
    """Return whether a node is a constant that is a tensor."""
    return node.kind() == "prim::Constant" and bool(node.attributeNames()) and node.kindOf("value") == "t"


def compute_with_ints(graph: Any) -> None:
    """Change a graph so that tensors which are converted to ints are computed as ints."""
    ints: dict[str, Any] = {}
    for node in list(nodes_of(graph)):
        operands = list(node.inputs())
        if node.kind() == "prim::NumToTensor" and operands[0].type().kind() == "IntType":
            ints[node.output().debugName()] = operands[0]
        elif node.kind() in TO_INT and operands[0].debugName() in ints:
            node.output().replaceAllUsesWith(ints[operands[0].debugName()])
        elif node.kind() in ON_INTS and any(operand.debugName() in ints for operand in operands[:2]):
            known = [int_of(graph, node, operand, ints) for operand in operands[:2]]
            if None not in known and all(factor.toIValue() == 1 for factor in operands[2:]):  # `alpha`
                made = graph.create(ON_INTS[node.kind()], known, 1)
                made.insertBefore(node)
                made.output().setType(torch._C.IntType.get())
                ints[node.output().debugName()] = made.output()
    if ints:
        torch._C._jit_pass_dce(graph)


def int_of(graph: Any, user: Any, operand: Any, ints: dict[str, Any]) -> Any:
    """The int that an operand of a node stands for; None where it is no such tensor."""
    if operand.type().kind() == "IntType":
        return operand
    node = operand.node()
    if operand.debugName() not in ints and is_tensor(node) and node.t("value").dim() == 0 and node.t("value").dtype is torch.int64:
        made = graph.insertConstant(int(node.t("value")))
        made.node().moveBefore(user)
        return made
    return ints.get(operand.debugName())
