"""`GraphDemands`: what a graph may contain, so that its backend can compile it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GraphDemands:
    """What a graph may contain. If something may not enter the graph, the trace splits the call there, or the frame runs uncompiled.

    one_autograd_node: autograd sees the graph as one operator, which forbids some (see autograd_node.py).
    lifts_symbols: each symbol in the sizes of a tensor that the graph takes is an input of the graph too, used or not.
    takes_unbacked: the graph may hold numbers out of tensors, and sizes that depend on data.
    takes_gradients: it may ask autograd for gradients.
    takes_hooks: it may set hooks on saved tensors, which are functions of the program.
    takes_first_steps: it may hold an optimizer's first step, in which the optimizer creates its state. Such a graph usually runs only once.
    takes_objects: it may be given tensors that stand for objects of the program (states of generators, tokens of modules with hooks), and be for what small
        tensors hold that objects hold.
    draws_in_order: it draws from torch's generators of the process where the program does, between seeds and other changes of their states.
    compiles_kernels: the backend writes the launches of Triton kernels into its code itself.
    takes_nested: it may hold nested tensors.
    takes_distributed: it may hold distributed tensors.
    takes_sparse: it may be given sparse tensors, and hold operators on those that it makes. Where not, a few products still are in it (see sparse.py).
    makes_sparse: it may hold operators that give sparse tensors.
    takes_masked: it may make masked tensors.
    guards_data: the trace may depend on the data of a tensor from outside, which guards read.
    """

    one_autograd_node: bool = False
    lifts_symbols: bool = False
    takes_unbacked: bool = False
    takes_gradients: bool = False
    takes_hooks: bool = False
    takes_first_steps: bool = True
    takes_objects: bool = True
    draws_in_order: bool = False
    compiles_kernels: bool = False
    takes_nested: bool = True
    takes_distributed: bool = True
    takes_sparse: bool = True
    makes_sparse: bool = True
    takes_masked: bool = True
    guards_data: bool = True


DEFAULT = GraphDemands()


class RestartWith(Exception):
    """Signal: the trace is restarted with a changed field of GraphDemands, so that something may enter the graph, or may not enter it any more.

    `demand`: the name of the field; `allowed`: its value from then on.
    """

    def __init__(self, demand: str, allowed: bool) -> None:
        super().__init__(demand, allowed)
        self.demand = demand
        self.allowed = allowed
