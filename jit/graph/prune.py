"""Removes the unneeded nodes of a finished graph, and runs single nodes on their fakes to learn what they do."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.amp.autocast_mode import _exit_autocast
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode, _unsafe_preserve_version_counter
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from framejit.graph.on_fakes import run_on_fakes
from framejit.graph.statistics import writes_statistics
from framejit.torch_state.saved_tensor_hooks import pop_saved_tensor_hooks
from framejit.torch_state.torch_modes import exit_keeping_casts

Running = Callable[[], AbstractContextManager[object]]
"""Makes the context in which operators run on fakes."""
SET_GRAD = torch._C._set_grad_enabled
EXITS = frozenset({_exit_autocast, exit_keeping_casts, _exit_inference_mode, pop_saved_tensor_hooks})
PURE_TARGETS = frozenset(
    {getattr(operator, name) for name in dir(operator) if not name.startswith("_")} | {builtins.getattr, torch.ops.aten._assert_scalar.default}
)
"""Python's operators, which on tensors neither draw random numbers nor change anything (in-place ones are kept anyway); and checks, which are kept."""


def fake_of(arg: Any, tensors: list[torch.Tensor] | None = None) -> Any:
    """A node's argument with fakes in place of nodes; the tensors among them are appended to `tensors`."""
    if isinstance(arg, fx.Node):
        fake = arg.meta["example_value"]
        if tensors is not None and isinstance(fake, torch.Tensor):
            tensors.append(fake)
        return fake
    kind = type(arg)
    if kind is tuple or kind is list:
        return kind([fake_of(item, tensors) for item in arg])
    if kind is slice:
        return slice(fake_of(arg.start, tensors), fake_of(arg.stop, tensors), fake_of(arg.step, tensors))
    if isinstance(arg, dict):
        return {key: fake_of(item, tensors) for key, item in arg.items()}
    if isinstance(arg, (tuple, list)):
        items = [fake_of(item, tensors) for item in arg]
        return type(arg)(*items) if hasattr(arg, "_fields") else tuple(items) if isinstance(arg, tuple) else items
    return arg


def run_node(node: fx.Node) -> Any:
    """The result of a node on the fakes of its arguments."""
    args = [fake_of(arg) for arg in node.args]
    kwargs = {name: fake_of(arg) for name, arg in node.kwargs.items()}
    if node.op == "call_method":
        assert isinstance(node.target, str)
        return getattr(args[0], node.target)(*args[1:], **kwargs)
    assert callable(node.target)
    return run_on_fakes(node.target, tuple(args), kwargs)


class EffectRecorder(TorchDispatchMode):
    """Notes whether anything that runs below draws random numbers from torch's generators of the process (`draws`), or runs for its effect (`acts`): draws
    other random numbers, returns no result, or changes running statistics. `checks_factors`: it raises where a matrix can't be factorised."""

    def __init__(self) -> None:
        super().__init__()
        self.draws = False
        self.acts = False
        self.checks_factors = False

    @property
    def has_effect(self) -> bool:
        """Return whether any effect was noted."""
        return self.draws or self.acts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.checks_factors |= func is torch.ops.aten._linalg_check_errors.default
        if not isinstance(func, OpOverload) or not func._schema.returns or writes_statistics(func, args, kwargs) or is_declared_to_act(func):
            self.acts = True
        elif torch.Tag.nondeterministic_seeded in func.tags and draws(func, args, kwargs):
            if func.namespace == "aten":
                self.draws = True
            else:
                self.acts = True
        if torch.is_inference_mode_enabled() and isinstance(func, OpOverload) and func._can_decompose():  # such as `linalg_inv`, which calls its check
            with self:
                return func.decompose(*args, **kwargs)
        return func(*args, **kwargs)


def is_declared_to_act(func: OpOverload) -> bool:
    """Return whether a library has declared with `torch.fx.node.has_side_effect` that its operator runs for its effect. ATen's write, or are checks."""
    return func.namespace != "aten" and func in fx.node._side_effectful_functions


class ElementwiseRecorder(TorchDispatchMode):
    """Notes whether everything that runs below computes each element of its result from elements at the same position, or from no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.is_elementwise = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.pointwise not in func.tags and any(isinstance(arg, torch.Tensor) for arg in pytree.arg_tree_leaves(*args, **(kwargs or {}))):
            self.is_elementwise = False
        return func(*args, **(kwargs or {}))


def is_elementwise(nodes: Iterable[fx.Node], running: Running) -> bool:
    """Return whether nodes compute each element from elements at the same position. They are run again, on fakes."""
    recorder = ElementwiseRecorder()
    with running(), torch.no_grad(), recorder:
        for node in nodes:
            run_node(node)
    return recorder.is_elementwise


def draws(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an operator that may draw random numbers does so with these arguments. Attention doesn't without dropout, nor dropout in evaluation."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.name in ("dropout_p", "train", "training"):
            value = args[place] if place < len(args) else kwargs.get(argument.name, argument.default_value)
            return bool(value) or not isinstance(value, (float, bool))
    return True


def has_effect(node: fx.Node, running: Running) -> bool:
    """Return whether a node does more than compute its result. It is run again, on fakes, under an EffectRecorder."""
    return effects_of(node, running).has_effect


def effects_of(node: fx.Node, running: Running) -> EffectRecorder:
    """The effects of a node besides its result, found as in `has_effect`. A node that fails on fakes may have any effect.

    The autograd versions of fakes that the node changes in place are restored.
    """
    recorder = EffectRecorder()
    if node.target not in PURE_TARGETS:
        fakes = [used.meta.get("example_value") for used in node.all_input_nodes]
        counted = tuple([fake for fake in fakes if isinstance(fake, torch.Tensor) and not fake.is_inference()])
        try:
            with torch.no_grad(), _unsafe_preserve_version_counter(counted), running(), recorder:
                run_node(node)
        except Exception:
            recorder.acts = True
    return recorder


def output_nodes(graph: fx.Graph) -> tuple[fx.Node, ...]:
    """The nodes that are the graph's outputs."""
    found = graph.output_node().args[0]
    assert isinstance(found, tuple)
    return found  # type: ignore[return-value]


def prune(graph: fx.Graph, kept: set[fx.Node], running: Running) -> None:
    """Remove nodes without users, last first, unless they are `kept` or have an effect; then switches of modes that switch nothing."""
    for node in reversed(graph.nodes):
        if node.op in ("placeholder", "output") or node.users or node in kept:
            continue
        if has_effect(node, running):
            kept.add(node)
        else:
            graph.erase_node(node)
    drop_idle_switches(graph, kept)
    drop_idle_scopes(graph, kept)


def drop_idle_scopes(graph: fx.Graph, kept: set[fx.Node]) -> None:
    """Drop scopes that are closed right after they are opened, since they do nothing."""
    for node in list(graph.nodes):
        if node.target in EXITS and node.prev is node.args[0]:
            enter = node.prev
            _drop(graph, node, kept)
            _drop(graph, enter, kept)


def drop_idle_switches(graph: fx.Graph, kept: set[fx.Node]) -> None:
    """Drop switches of the grad mode that have no effect: of several without an operator between them, only the last one counts, if it changes the mode.

    A switch at the end that returns to the mode at the start stays, since nothing else does that. One that leaves another mode is dropped, since the trace's
    effects do that.
    """
    last: fx.Node | None = None
    computed_since = False
    mode_before: dict[fx.Node, bool] = {}
    initial = mode = None
    for node in list(graph.nodes):
        if node.op == "placeholder":
            continue
        if node.op == "output":
            break
        if node.target is not SET_GRAD:
            computed_since = True
            if node.target in (_enter_inference_mode, _exit_inference_mode):
                mode = None  # they change the grad mode as well
            continue
        if mode is None:
            mode = not node.args[0]
            initial = mode if initial is None else initial
        if last is not None and not computed_since:
            mode = mode_before.pop(last)
            _drop(graph, last, kept)
            last = None
        if node.args[0] == mode:
            _drop(graph, node, kept)
            continue
        mode_before[node] = mode
        mode = bool(node.args[0])
        last, computed_since = node, False
    if last is not None and not computed_since and mode_before[last] == initial:
        _drop(graph, last, kept)


def _drop(graph: fx.Graph, node: fx.Node, kept: set[fx.Node]) -> None:
    kept.discard(node)
    graph.erase_node(node)


def has_tensor(value: Any) -> bool:
    """Return whether a result is a tensor, or a tuple, list or dict with one somewhere inside."""
    if isinstance(value, (tuple, list)):
        return any(map(has_tensor, value))
    return isinstance(value, torch.Tensor) or (type(value) is dict and any(map(has_tensor, value.values())))
