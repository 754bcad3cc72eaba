"""The target of a node that calls one of the program's functions as a whole. The node takes and returns tensors; the function gets its own structures."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch._guards import detect_fake_mode
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils import _pytree as pytree

from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FromNode:
    """A leaf of the arguments that is an argument of the node."""


@dataclass(frozen=True, slots=True)
class ModuleLeaf:
    """A leaf of the arguments that is a module, whose parameters and buffers of these names are arguments of the node."""

    module: nn.Module
    names: tuple[str, ...]


OPERAND = FromNode()


@dataclass
class WholeCall:
    """A call of a function.

    Attributes:
        function: the function that is called.
        structure: the structure of its arguments, positional and by keyword.
        leaves: the leaves of the arguments: OPERAND, a ModuleLeaf, or the value itself.
        gives: the structure of its result, once it has run.
    """

    function: Callable[..., Any]
    structure: pytree.TreeSpec
    leaves: Sequence[Any]
    gives: pytree.TreeSpec | None = None

    def run(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Call the function, and return the leaves of its result."""
        waiting = iter(operands)
        leaves: list[Any] = []
        with contextlib.ExitStack() as stack:
            for leaf in self.leaves:
                if leaf is OPERAND:
                    leaves.append(next(waiting))
                elif isinstance(leaf, ModuleLeaf):
                    stack.enter_context(_reparametrize_module(leaf.module, {name: next(waiting) for name in leaf.names}))
                    leaves.append(leaf.module)
                else:
                    leaves.append(leaf)
            take_tensors_from_outside(operands)
            args, kwargs = pytree.tree_unflatten(leaves, self.structure)
            results, gives = pytree.tree_flatten(self.function(*args, **kwargs))
        self.gives = gives
        return tuple(results)

    def target(self) -> Callable[..., Any]:
        """The function that a node calls."""

        def call(*operands: Any) -> tuple[Any, ...]:
            return self.run(operands)

        call.__name__ = getattr(self.function, "__name__", "call")
        call.of_others = call.runs_always = True  # type: ignore[attr-defined]
        return call


def take_tensors_from_outside(operands: Sequence[Any]) -> None:
    """From here on, let real tensors take part in operators on fake tensors: those that the function reaches besides its arguments, in its backward too."""
    mode = detect_fake_mode(operands) if torch._C._len_torch_dispatch_stack() else None
    if mode is not None:
        mode.allow_non_fake_inputs = True
