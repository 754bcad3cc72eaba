"""Follows autograd's record of fake tensors: finds the leaves that a gradient reaches, and nodes on the way that a graph can't hold."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.nn.modules._functions import BackwardHookFunction

from framejit.quick_dataclass import dataclass
from framejit.torch_state.gradient_edges import edge_of

OF_OPERATORS = ("torch._library.autograd", "torch._higher_order_ops.")
"""The modules of the Functions that torch makes for the gradients of custom operators, which are written to be run on tensors without data, and of those
that differentiate its operators which take functions, whose backward passes are such operators themselves."""


def gives_gradients(target: Any) -> bool:
    """Return whether a node with this target registers a TracedGradient with autograd."""
    return getattr(target, "__name__", "") == "differentiable_"


PASSES_GRADIENTS: set[Any] = set()
"""Functions whose results are views of their arguments with a node of autograd in between."""


def passes_on(function: Any) -> Any:
    """Register such a function."""
    PASSES_GRADIENTS.add(function)
    return function


def passes_gradients(target: Any) -> bool:
    """Return whether a node with this target gives views of its arguments that have a node of autograd of their own."""
    return target in PASSES_GRADIENTS


class TracedGradient(torch.autograd.Function):
    """A Function whose backward the trace has traced. Its nodes have a `rule`, whose `again` and `once` say whether a backward pass can be differentiated."""


@dataclass(frozen=True)
class GradientPaths:
    """The leaves and functions that a backward pass from some tensors meets.

    Attributes:
        leaves: the leaves at which it ends, each once, in the order in which a search from the tensors finds them.
        functions: the names of functions on the way that run as Python.
        once: the names of functions on the way that were traced, and can be differentiated only once.
    """

    leaves: tuple[torch.Tensor, ...]
    functions: tuple[str, ...]
    once: tuple[str, ...]


def gradient_paths(fakes: Iterable[torch.Tensor]) -> GradientPaths:
    """The paths of gradients from fakes. A gradient to a leaf that the program doesn't know belongs to an input that isn't a leaf itself."""
    leaves: dict[int, torch.Tensor] = {}
    functions: dict[str, None] = {}
    once: dict[str, None] = {}
    waiting: list[Any] = []
    for fake in fakes:
        record = node_of(fake)
        if record is not None:
            waiting.append(record)
        elif fake.requires_grad:
            leaves[id(fake)] = fake
    seen = set(waiting)
    for node in waiting:
        if isinstance(node, BackwardCFunction):
            made_by: Any = node._forward_cls  # type: ignore[attr-defined]
            if made_by.__module__.startswith(OF_OPERATORS) or made_by is BackwardHookFunction:
                pass
            elif not issubclass(made_by, TracedGradient):
                functions[node.name()] = None
            elif not (node.rule.again or node.rule.once):  # type: ignore[attr-defined]
                once[node.name()] = None
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaves[id(leaf)] = leaf
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return GradientPaths(tuple(leaves.values()), tuple(functions), tuple(once))


def node_of(fake: torch.Tensor) -> Any:
    """The `grad_fn` of a fake; None if autograd raises when asked: for a view that was made under `no_grad`, once its base has been changed."""
    try:
        return fake.grad_fn
    except RuntimeError:
        return None


BEGINNING_OF = "framejit_beginning_of"
"""The key, in the metadata of a node of autograd, of a weak reference to the fake of the input whose record begins at the node."""


def note_beginning(fake: torch.Tensor) -> None:
    """Note where the record of an input's fake begins: once the graph has changed the input in place, its `grad_fn` is another node."""
    node = node_of(fake)
    if node is not None:
        node.metadata[BEGINNING_OF] = weakref.ref(fake)


def beginning_of(node: Any) -> torch.Tensor | None:
    """The fake of the input whose record has begun at a node of autograd; None for other nodes."""
    noted = node.metadata.get(BEGINNING_OF)
    return None if noted is None else noted()


def leads_to(fake: torch.Tensor, wanted: Iterable[Any]) -> bool:
    """Return whether a backward pass from a fake reaches one of these autograd nodes."""
    targets = set(wanted) - {None}
    waiting: list[Any] = [fake.grad_fn]
    seen = set(waiting)
    for node in waiting:
        if node in targets:
            return True
        for following, _ in node.next_functions if node is not None else ():
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return False


def needs_what_was_changed(results: Iterable[torch.Tensor], operands: Iterable[torch.Tensor]) -> bool:
    """Return whether the gradients of results, on the way to operands, need a tensor that has been changed in place since autograd saved it."""
    seen: set[Any] = {fake.grad_fn for fake in operands}
    waiting = [fake.grad_fn for fake in results if fake.grad_fn not in seen]
    for node in waiting:
        if node is None or node in seen:
            continue
        seen.add(node)
        try:
            for name in dir(node):
                if name.startswith("_saved_"):
                    getattr(node, name)
        except RuntimeError:
            return True
        waiting += [following for following, _ in node.next_functions]
    return False


def accumulates_with_hooks(leaf: torch.Tensor) -> bool:
    """Return whether there are hooks on the autograd node that adds to the `.grad` of a leaf. Only adding a further hook shows it.

    A leaf that is frozen now has such a node too, if it has ever been computed with; the leaf is thawed temporarily to get at it.
    """
    if not leaf.requires_grad:
        leaf.requires_grad_()
        try:
            return accumulates_with_hooks(leaf)
        finally:
            leaf.requires_grad_(False)
    edge = edge_of(leaf)
    for register in (edge.node.register_hook, edge.node.register_prehook) if edge is not None else ():
        handle: Any = register(lambda *gradients: None)
        hooks = handle.hooks_dict_ref()
        handle.remove()
        if hooks:
            return True
    return False


def saved_by(fakes: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that autograd has saved for the gradients of fakes."""
    waiting: list[Any] = [fake.grad_fn for fake in fakes]
    seen = set(waiting)
    found: list[torch.Tensor] = []
    for node in waiting:
        if node is None:
            continue
        names = [name for name in dir(node) if name.startswith("_saved_") or name == "saved_tensors"]
        values = [value for name in names for value in as_tuple(getattr(node, name))]
        found += [value for value in values if isinstance(value, torch.Tensor)]
        following = [other for other, _ in node.next_functions if other not in seen]
        seen.update(following)
        waiting += following
    return found


def as_tuple(value: Any) -> tuple[Any, ...]:
    """The values that a node has saved under a name: one value, or several."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def is_dense(fake: torch.Tensor) -> bool:
    """Return whether the elements fill the memory without gaps or overlaps, in whatever order of the dimensions."""
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(fake.size(), fake.stride(), strict=True) if size != 1):
        if stride != expected:
            return fake.numel() == 0
        expected *= size
    return True


def layout_of_grad(leaf: torch.Tensor) -> torch.memory_format:
    """The layout that autograd gives to the `.grad` of a leaf: the leaf's if that is dense, else contiguous memory."""
    return torch.preserve_format if is_dense(leaf) else torch.contiguous_format


def is_laid_out_as_grad(leaf: torch.Tensor, gradient: torch.Tensor) -> bool:
    """Return whether a gradient can be the `.grad` of a leaf as it is (torch/csrc/autograd/utils/grad_layout_contract.h)."""
    if not is_dense(leaf):
        return gradient.is_contiguous()
    return all(size == 1 or mine == step for size, mine, step in zip(leaf.size(), leaf.stride(), gradient.stride(), strict=True))
