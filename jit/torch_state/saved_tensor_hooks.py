"""Hooks on saved tensors that compiled code sets: the nodes of a graph that set them and take them off, and what stands for them while tracing.

The hooks are the program's own functions, which autograd calls as in eager. AOTAutograd traces into them with the operators that save something, so
that what it saves has gone through them as in eager.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import traceback as fx_traceback

AUTOGRAD = torch._C._autograd
PASS, IN_BACKWARD = "partitioner_tag", "is_backward"
"""The key of the metadata of AOTAutograd's nodes that says of which pass they are, and the value that nodes of the backward pass have there."""


class SavedTensorHooks(torch.nn.Module):
    """A pair of functions of the program's that only compute. It is an attribute of the graph, for the node that sets the hooks."""

    def __init__(self, pack: Callable[[torch.Tensor], Any], unpack: Callable[[Any], torch.Tensor]) -> None:
        super().__init__()
        self.pack = pack
        self.unpack = unpack


class InForce:
    """A pair of hooks that has been set once: on autograd's stack each setting is another object, by which its end is found."""

    def __init__(self, hooks: SavedTensorHooks) -> None:
        self.hooks = hooks

    def pack(self, tensor: torch.Tensor) -> Any:
        return self.hooks.pack(tensor)

    def unpack(self, packed: Any) -> torch.Tensor:
        with backward_only():
            return self.hooks.unpack(packed)


@contextlib.contextmanager
def backward_only() -> Iterator[None]:
    """Leave to the backward pass, where AOTAutograd traces one, what the `with` block computes: it isn't computed before and saved for that pass."""
    meta = fx_traceback.get_current_meta()
    if not fx_traceback.has_preserved_node_meta() or meta.get(PASS) != IN_BACKWARD:
        yield
        return
    meta[PASS] = "must_be_in_backward"
    try:
        yield
    finally:
        meta[PASS] = IN_BACKWARD


def push_saved_tensor_hooks(hooks: SavedTensorHooks) -> bool:
    """Set the hooks (runs in graphs). Gives whether autograd passed hooks over before, as it does while AOTAutograd traces: it doesn't pass over these."""
    in_force = InForce(hooks)
    AUTOGRAD._push_saved_tensors_default_hooks(in_force.pack, in_force.unpack)
    before: bool = AUTOGRAD._saved_tensors_hooks_set_tracing(False)
    return before


def pop_saved_tensor_hooks(before: bool) -> None:
    """Take off the hooks that were set last (runs in graphs)."""
    AUTOGRAD._saved_tensors_hooks_set_tracing(before)
    AUTOGRAD._pop_saved_tensors_default_hooks()


def set_for_real(hooks: tuple[Callable[[torch.Tensor], Any], Callable[[Any], torch.Tensor]]) -> None:
    """Set hooks that the program hasn't taken off where a trace ends (runs in generated code)."""
    AUTOGRAD._push_saved_tensors_default_hooks(*hooks)


def top_hooks() -> Any:
    """The hooks that were set last on this thread; None if there are none."""
    return AUTOGRAD._top_saved_tensors_default_hooks(True)


def take_off_later_hooks(top: Any) -> None:
    """Take off the hooks that an error has left in force since `top_hooks` gave `top`."""
    while (now := top_hooks()) is not None and (top is None or now[0] is not top[0]):
        AUTOGRAD._pop_saved_tensors_default_hooks()


class TracedHooks:
    """Stands for hooks of the program's while operators run on fakes.

    `saved`: what has been saved since `check` has last been called. That is called with the target of each operator that has entered the graph: it finds out
    whether the hooks only compute, given such tensors.
    """

    def __init__(self, hooks: SavedTensorHooks, check: Callable[[TracedHooks, Any], None]) -> None:
        self.hooks = hooks
        self.saved: list[torch.Tensor] = []
        self._check = check

    def check(self, target: Any) -> None:
        """An operator with this target has entered the graph."""
        self._check(self, target)

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        self.saved.append(tensor)
        return tensor

    def unpack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what the backward pass gets for a saved fake: the result of the hooks. A tensor that is no fake is returned as it is."""
        return self.hooks.unpack(self.hooks.pack(tensor)) if isinstance(tensor, FakeTensor) else tensor

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Inside the `with` block they are in force."""
        AUTOGRAD._push_saved_tensors_default_hooks(self.pack, self.unpack)
        before = AUTOGRAD._saved_tensors_hooks_set_tracing(False)
        try:
            yield
        finally:
            pop_saved_tensor_hooks(before)


def traced_hooks() -> TracedHooks | None:
    """Those that the program has set in the trace, as far as it has come; None if there are none."""
    top = top_hooks()
    owner = top[0].__self__ if top is not None and type(top[0]) is MethodType else None
    return owner if isinstance(owner, TracedHooks) else None


@contextlib.contextmanager
def passed_over() -> Iterator[None]:
    """Hooks on saved tensors see nothing of what happens inside the `with` block."""
    before = AUTOGRAD._saved_tensors_hooks_set_tracing(True)
    try:
        yield
    finally:
        AUTOGRAD._saved_tensors_hooks_set_tracing(before)
