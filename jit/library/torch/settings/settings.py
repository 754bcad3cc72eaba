"""Rules for operators whose results depend on a setting of torch that the program has changed: switches (switches.py), and the default dtype."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from framejit import breaks
from framejit.graph.on_fakes import run_on_fakes
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.switches import with_switches
from framejit.graph.trace_state import TraceState

UNDER_FLAGS = breaks.GlobalStateUnsupported("an operator that computes by a setting of torch, which the compiled function has changed")


@rule(Phase.REPLACE)
def run_with_switches(state: TraceState, operation: OperatorCall) -> None:
    """Let an operator run with the switches that the program has set, if its result depends on them."""
    switched = state.modes.switches.mattering(state.input_fakes() if operation.is_fixed else operation.fakes)
    if not switched:
        return
    if operation.is_fixed or state.is_one_autograd_node:
        state.vm.unsupported(UNDER_FLAGS)
    target = operation.target
    function = getattr(type(operation.fake_args[0]), target) if isinstance(target, str) else target
    operation.op, operation.target = "call_function", with_switches(function, switched)


@rule(Phase.CHECK)
def name_default_dtype(state: TraceState, operation: OperatorCall) -> None:
    """Pass an operator its result's dtype if that is the default one, and the graph runs under a different default dtype from the one that the program set."""
    if state.modes.current.dtype is state.modes.initial.dtype or not state.is_one_autograd_node or operation.changes:
        return
    args, kwargs, initial = operation.fake_args, operation.fake_kwargs, state.modes.initial.dtype
    named = with_dtype(operation.op, operation.target, args, kwargs, operation.result, initial, state.fakes.running)
    if named is None:
        state.vm.unsupported(breaks.GlobalStateUnsupported(f"the default dtype, which the compiled function has set, by {operation.name}"))
    operation.kwargs = {**operation.kwargs, **{word: value for word, value in named.items() if word not in operation.kwargs}}


def with_dtype(
    op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, default: torch.dtype, running: Callable[[], AbstractContextManager[Any]]
) -> dict[str, Any] | None:
    """Keyword arguments with which an operator, on fakes, gives the same dtypes under the default dtype `default`: its own, or with the dtype added.
    None if there are none. The default dtype in force is the one that the program has set.
    """
    wanted = dtypes(result)
    if torch.get_default_dtype() not in [torch.empty(0, dtype=dtype, device="meta").real.dtype for dtype in wanted]:
        return kwargs
    for given in (kwargs, {**kwargs, "dtype": wanted[0]}):
        before = torch.get_default_dtype()
        torch.set_default_dtype(default)
        try:
            with running():
                found = getattr(args[0], target)(*args[1:], **given) if op == "call_method" else run_on_fakes(target, args, given)
        except Exception:
            continue
        finally:
            torch.set_default_dtype(before)
        if dtypes(found) == wanted:
            return given
    return None


def dtypes(result: Any) -> list[torch.dtype]:
    """The dtypes of the tensors in an operator's result."""
    return [leaf.dtype for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
