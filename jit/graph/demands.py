"""`Demands`: what a backend's graphs may contain, and what they need."""

from __future__ import annotations

from framejit.guards.source import Path
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Demands:
    """The abilities of a backend. The trace asks before something enters the graph: if the answer is no, the call is split, or its frame runs uncompiled.

    one_autograd_node: autograd sees the graph as one operator, as it does with AOTAutograd, which forbids some things (see autograd_node.py); else it
        records each of the graph's operators.
    lifts_symbols: each symbol in the sizes of a tensor that the graph takes is an input of the graph too, whether it is used or not.
    takes_unbacked: the graph may hold numbers read from tensors, and sizes that depend on data; the backend gives eager's numbers.
    takes_gradients: it may ask autograd for gradients.
    takes_hooks: it may set hooks on saved tensors, which are functions of the program.
    takes_first_steps: it may hold an optimizer's first step, in which the optimizer makes its state. As that happens once, the graph would run once, which
        isn't worth the time that it takes to compile a backward pass as a whole.
    takes_objects: it may take opaque objects, and tensors that stand for objects of the program (states of generators, tokens of modules with hooks), and be
        compiled for the values of small tensors that objects hold.
    draws_in_order: it draws from torch's generators of the process where the program does, between seeds and other changes of their states.
    checks_before_changes: its code changes no input before the checks of a bool in a tensor have passed, although it runs nothing else in order.
    compiles_kernels: the backend writes the launches of Triton kernels into its code itself, which it can't for kernels that are interpreted.
    takes_nested: it may hold nested tensors.
    takes_distributed: it may hold distributed tensors.
    takes_sparse: it may take sparse tensors, and hold operators on those that it makes. If not, it may still hold a few products (see sparse.py).
    makes_sparse: it may hold operators that return sparse tensors.
    takes_masked: it may make masked tensors.
    joins_branches: it may hold both ways of a branch that depends on data, as a torch.cond.
    guards_data: the trace may decide by the data of a tensor from outside, which guards read at each call.
    tells_apart: an array that is found by several paths may be an input for each of them, which it can't be if the graph writes to it.
    """

    one_autograd_node: bool = False
    lifts_symbols: bool = False
    takes_unbacked: bool = False
    takes_gradients: bool = False
    takes_hooks: bool = False
    takes_first_steps: bool = True
    takes_objects: bool = True
    draws_in_order: bool = False
    checks_before_changes: bool = False
    compiles_kernels: bool = False
    takes_nested: bool = True
    takes_distributed: bool = True
    takes_sparse: bool = True
    makes_sparse: bool = True
    takes_masked: bool = True
    joins_branches: bool = False
    guards_data: bool = True
    tells_apart: bool = True


OF_OTHERS = Demands(one_autograd_node=True, lifts_symbols=True, takes_first_steps=False)
"""The abilities of backends that were made for torch.compile."""


class RestartVarying(Exception):
    """Signal: the trace is restarted with symbols for the numbers at these paths, of which it is certain that the next call finds others."""

    def __init__(self, paths: frozenset[Path]) -> None:
        super().__init__(paths)
        self.paths = paths


class RestartWith(Exception):
    """Signal: the trace is restarted with a changed field of Demands, so that something may enter the graph, or no longer may.

    `demand`: the name of the field; `allowed`: its value from then on.
    """

    def __init__(self, demand: str, allowed: bool) -> None:
        super().__init__(demand, allowed)
        self.demand = demand
        self.allowed = allowed
