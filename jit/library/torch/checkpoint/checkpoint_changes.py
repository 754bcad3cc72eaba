"""In-place changes of outside tensors by a checkpointed function: in eager they happen again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import torch
from torch import fx

from framejit import breaks
from framejit.graph.body import Body
from framejit.graph.builder import TorchVM
from framejit.graph.gradient_paths import gives_gradients, leads_to, needs_what_was_changed
from framejit.graph.inner import InnerGraph
from framejit.graph.prune import Running
from framejit.graph.statistics import BATCH_NORMS, STATISTICS, statistics_of
from framejit.graph.tokens import token_for
from framejit.library.torch.checkpoint.repeated_changes import BatchStatistics, RepeatedChanges, Repeating, change_, changing_again_
from framejit.objects.core.object import VM, Object
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.quick_dataclass import dataclass
from framejit.torch_state.torch_modes import MODE_CHANGES


def break_graph(vm: VM, why: str) -> NoReturn:
    vm.unsupported(breaks.UnsupportedOperation(f"torch.utils.checkpoint.checkpoint of a function that changes in place {why}"))


def changes(body: Body) -> list[fx.Node]:
    """The nodes that change tensors, including those that don't declare it."""
    return [
        node
        for node in body.fx.nodes
        if statistics_of(node) is not None or (node in body.kept and node.target not in MODE_CHANGES and not gives_gradients(node.target))
    ]


def check(vm: TorchVM, body: Body, changed: Sequence[fx.Node], results: Sequence[TensorObject]) -> list[torch.Tensor]:
    """Stop the trace if changes can't happen twice as they do in eager; returns the tensors from outside the function that are changed."""
    fakes = body.changed_lifted() if changed else []
    if any(fake.requires_grad for fake in fakes):
        break_graph(vm, "a tensor that requires a gradient")
    operands = [node.meta["example_value"] for node in body.lifted.values()]
    if needs_what_was_changed([result.look(vm) for result in results], [fake for fake in operands if isinstance(fake, torch.Tensor)]):
        break_graph(vm, "what its gradient needs")
    return fakes


@dataclass(frozen=True, slots=True)
class Repeated:
    """Running statistics that the backward pass changes again.

    Attributes:
        how: the sizes of the changes.
        batches: the tensors whose statistics are taken.
        means, variances, counters: the nodes of the changed tensors, in the outer graph.
    """

    how: BatchStatistics
    batches: tuple[TensorObject, ...]
    means: tuple[fx.Node, ...]
    variances: tuple[fx.Node, ...]
    counters: tuple[fx.Node, ...]

    def change(self, vm: TorchVM, results: Iterable[Object], batches: Sequence[Object]) -> None:
        """Add the nodes that change them, and have the backward pass do so too. `batches`: as nodes of the outer graph know them."""
        graph = vm.graph
        tokens = [tuple([token_of(vm, node) for node in nodes]) for nodes in (self.means, self.variances, self.counters)]
        differentiable = [result for result in results if isinstance(result, TensorObject) and result.look(vm).requires_grad]
        hooked, given = graph.nodes_of(differentiable), graph.nodes_of(batches)
        now = self.how, given, self.means, self.variances, self.counters
        graph.node_of(change_, now)
        handles = graph.node_of(changing_again_, (self.how, hooked, given, *tokens))
        graph.part(RepeatedChanges).add(Repeating(hooked, handles, now))


def token_of(vm: TorchVM, node: fx.Node) -> fx.Node:
    """The placeholder of a token for an input of the graph."""
    described = next(described for described in vm.graph.inputs.known.values() if described.node is node)
    return vm.graph.inputs.of_state(described.source, token_for(described.value)).node


def repeated(vm: TorchVM, body: Body, changed: Sequence[fx.Node], results: Sequence[TensorObject]) -> Repeated | None:
    """The changes that AOTAutograd's backward must make again; None if there are none. Stops the trace if it can't make them.

    It can for BatchNorm in training, whose statistics aren't read by the rest of the function.
    """
    norms = {node: given for node in changed if (given := statistics_of(node)) is not None}
    fakes = {id(fake) for fake in body.changed_lifted()}
    counts = [node for node in changed if (tensor := changed_by(node)) is not None and id(tensor.meta["example_value"]) in fakes]
    if not all(node in norms or node in counts or computes(body, node) for node in changed):
        break_graph(vm, "what its own operators have not computed, with a backend that uses AOTAutograd")
    differentiable = [result.look(vm) for result in results if result.look(vm).requires_grad]
    if not (norms or fakes) or not differentiable:
        return None
    if (
        body.outer is not vm.graph.outermost
        or not vm.graph.demands.takes_objects
        or len(counts) != len(fakes)
        or not are_of_batch_norm(body, changed, norms, counts)
        or not come_again(changed, norms, counts, differentiable)
    ):
        break_graph(vm, "tensors from around it, and not as BatchNorm does, with a backend that uses AOTAutograd")
    return around(vm, body, norms, counts)


def are_of_batch_norm(body: Body, changed: Sequence[fx.Node], norms: dict[fx.Node, dict[str, Any]], counts: Sequence[fx.Node]) -> bool:
    """Return whether statistics and counters change as by BatchNorm, and are used by nothing else."""
    means, variances = ([given[name] for given in norms.values()] for name in STATISTICS)
    return (
        all(grows(node) for node in counts)
        and all(node.target in BATCH_NORMS and type(given.get("momentum", 0.1)) is float for node, given in norms.items())
        and are_apart(body, [*means, *variances, *[node.args[0] for node in counts]])
        and not any(is_changed_after(node, given["input"], changed) for node, given in norms.items())
    )


def come_again(
    changed: Sequence[fx.Node], norms: dict[fx.Node, dict[str, Any]], counts: Sequence[fx.Node], differentiable: Sequence[torch.Tensor]
) -> bool:
    """Return whether the gradient of each result needs all changes to be made a second time, because the last change is among its ancestors."""
    last = [node for node in changed if node in norms or node in counts][-1:]
    ends = [node.meta["example_value"].grad_fn for node in last if node in norms]
    return all(leads_to(fake, ends) for fake in differentiable)


def around(vm: TorchVM, body: Body, norms: dict[fx.Node, dict[str, Any]], counts: Sequence[fx.Node]) -> Repeated:
    """The changes in terms of the outer graph's tensors. Stops the trace if these aren't its inputs, or if another checkpoint repeats changes of them."""
    outside = {inner: outer for outer, inner in body.lifted.items()}
    batches = [vm.graph.object_of(given["input"].meta["example_value"]) for given in norms.values()]
    inputs = {described.node for described in vm.graph.inputs.known.values() if described.is_tensor}
    statistics = ([given[name] for given in norms.values()] for name in STATISTICS)
    nodes = [tuple([outside[node] for node in part]) for part in (*statistics, [node.args[0] for node in counts])]
    tensors = tuple([batch for batch in batches if batch is not None])
    known = {node for change in vm.graph.part(RepeatedChanges).left for part in change.now[2:] for node in part}
    if len(tensors) != len(batches) or not all(node in inputs and node not in known for part in nodes for node in part):
        break_graph(vm, "what the graph computes, or another checkpoint changes too, with a backend that uses AOTAutograd")
    how = BatchStatistics(tuple([given.get("momentum", 0.1) for given in norms.values()]), tuple([node.args[1] for node in counts]))
    return Repeated(how, tensors, *nodes)


def without_statistics(inner: InnerGraph, running: Running) -> InnerGraph:
    """A copy of a graph that changes no statistics."""
    copy = inner.taking(inner.operands, running)
    for node in list(copy.graph.nodes):
        if statistics_of(node) is not None:
            names = BATCH_NORMS[node.target]
            node.args = tuple([None if name in STATISTICS else arg for name, arg in zip(names, node.args)])
            node.kwargs = {name: None if name in STATISTICS else arg for name, arg in node.kwargs.items()}
        elif (tensor := changed_by(node)) is not None and tensor.op == "placeholder":
            copy.graph.erase_node(node)
    used = [operand for operand, given in zip(copy.operands, copy.graph.find_nodes(op="placeholder"), strict=True) if given.users]
    return replace(copy, kept=copy.kept.intersection(copy.graph.nodes)).taking(used, running)


def changed_by(node: fx.Node) -> fx.Node | None:
    """The tensor that an operator changes in place, if it is the first argument and also the operator's result."""
    first = node.args[0] if node.args else None
    return first if isinstance(first, fx.Node) and node.meta["example_value"] is first.meta["example_value"] else None


def computes(body: Body, node: fx.Node) -> bool:
    """Return whether an operator changes in place a tensor that another operator of the function has computed."""
    tensor = changed_by(node)
    return tensor is not None and body.makes(tensor)


def grows(node: fx.Node) -> bool:
    """Return whether a node counts batches: it adds a known int to a tensor."""
    return node.target == "add_" and len(node.args) == 2 and type(node.args[1]) is int and not node.kwargs


def are_apart(body: Body, tensors: Sequence[fx.Node]) -> bool:
    """Return whether these tensors are all from outside the function, are used by one node each, and share no memory with others that are used."""
    memory = [fake.untyped_storage()._cdata for node in body.lifted.values() if isinstance(fake := node.meta["example_value"], torch.Tensor)]
    lifted = set(body.lifted.values())
    return all(tensor in lifted and len(tensor.users) == 1 and memory.count(memory_of(tensor)) == 1 for tensor in tensors)


def is_changed_after(norm: fx.Node, batch: fx.Node, changed: Sequence[fx.Node]) -> bool:
    """Return whether a tensor that a BatchNorm has normalised is changed in place later."""
    later = changed[changed.index(norm) + 1 :]
    return any((tensor := changed_by(node)) is not None and memory_of(tensor) == memory_of(batch) for node in later if statistics_of(node) is None)


def memory_of(node: fx.Node) -> int:
    return node.meta["example_value"].untyped_storage()._cdata  # type: ignore[no-any-return]
