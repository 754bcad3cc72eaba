"""Copies nodes of the outermost graph: they compute the same from other tensors, which look like those that the nodes were made for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from framejit.graph.fake import version_of
from framejit.graph.metadata import UNRECORDED, USER_PLACES
from framejit.graph.on_fakes import run_on_fakes
from framejit.graph.prune import fake_of
from framejit.graph.repeats import Made, Returned, is_pure
from framejit.graph.trace_state import TraceState
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.quick_dataclass import dataclass
from framejit.torch_state.torch_classes import PLAIN_TENSORS

ModuleStack = dict[str, tuple[str, type]]
COPIED = ("example_value", "stack_trace", USER_PLACES, UNRECORDED, "source_fn_stack", "nn_module_stack")
"""The keys of metadata that nodes may have if they are copied."""


@dataclass(frozen=True, slots=True)
class NodeToCopy:
    """A node, and how its result on fakes comes from its arguments; `form` is None if it must be run. `cls`: the class of its tensor."""

    node: fx.Node
    form: Returned | Made | None
    cls: type


def node_to_copy(state: TraceState, node: fx.Node, known: Iterable[fx.Node]) -> NodeToCopy | None:
    """Return the data from which a node of the trace can be copied; None if it can't be copied.

    It can if all that it does is to compute tensors from `known` nodes, under the modes that are in force now, and if nobody has changed its result since.
    """
    if node.op not in ("call_function", "call_method") or state.keeps(node) or any(key not in COPIED for key in node.meta):
        return None
    note, example = state.body.notes[node], node.meta["example_value"]
    if node.target is torch.tensor and type(example) is FakeTensor and example.constant is not None:
        is_new = note.modes == state.modes.current and version_of(example) == 0 and not node.all_input_nodes and not example.is_inference()
        return NodeToCopy(node, None, torch.Tensor) if is_new else None
    made = [item for item in example if item is not None] if type(example) in (tuple, list) else [example]
    if note.modes != state.modes.current or any(used not in known for used in node.all_input_nodes) or not all(map(is_as_made, made)):
        return None
    if type(example) is not FakeTensor:
        return NodeToCopy(node, None, torch.Tensor)
    obj = state.object_of(example)
    if obj is None or obj.node is not node or obj.cls not in PLAIN_TENSORS or obj.attrs is not None or obj.has_more():
        return None
    fakes: list[torch.Tensor] = []
    fake_of((node.args, node.kwargs), fakes)
    return NodeToCopy(node, state.fakes.repeats.form(example, fakes) if is_pure(node.target) and fakes else None, obj.cls)


def is_as_made(fake: Any) -> bool:
    """Return whether a value is a fake tensor of which neither the data is known, nor has been written to since the tensor was made."""
    return type(fake) is FakeTensor and fake.constant is None and fake.layout is torch.strided and version_of(fake) == 0 and not fake.is_inference()


def copy_nodes(state: TraceState, copied: Sequence[NodeToCopy], nodes: dict[fx.Node, fx.Node], stack: Callable[[ModuleStack], ModuleStack]) -> None:
    """Add copies of nodes, in order, and note them in `nodes`, which says what is in the place of their arguments. `stack`: the modules that are called there,
    instead of those at the nodes."""
    made = {one.node: one.form.again(state.fakes.mode, ()) for one in copied if isinstance(one.form, Made)}  # before operators run on fakes: it copies others
    with state.fakes.running():
        for one in copied:
            nodes[one.node] = copy_node(state, one, nodes, stack, made.get(one.node))
    if copied:
        state.body.note_copies({nodes[one.node]: one.node for one in copied})


def copy_node(
    state: TraceState, copied: NodeToCopy, nodes: Mapping[fx.Node, fx.Node], stack: Callable[[ModuleStack], ModuleStack], result: Any
) -> fx.Node:
    """Add a copy of a node. `result`: its result on fakes, if that doesn't depend on its arguments."""
    node, modules = copied.node, copied.node.meta.get("nn_module_stack")
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda used: nodes.get(used, used))  # type: ignore[misc]
    if result is None:
        result = result_of(state, copied, args, kwargs)
    made = state.body.add_like(node, args, kwargs)
    meta = made.meta
    meta["example_value"] = result
    meta["stack_trace"], meta[USER_PLACES] = node.meta["stack_trace"], node.meta[USER_PLACES]
    meta["source_fn_stack"] = [(made.name, node.target)]
    if UNRECORDED in node.meta:
        meta[UNRECORDED] = True
    if modules is not None:
        meta["nn_module_stack"] = stack(modules)
    if isinstance(result, torch.Tensor):
        state.fakes.belongs_to(result, TensorObject(made, copied.cls))
    return made


def result_of(state: TraceState, copied: NodeToCopy, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a copy on the fakes of its arguments."""
    fakes: list[torch.Tensor] = []
    fake_args = fake_of(args, fakes)
    if copied.form is not None:
        return copied.form.again(state.fakes.mode, fakes)
    fake_kwargs, target = fake_of(kwargs), copied.node.target
    if copied.node.op == "call_method":
        return getattr(fake_args[0], str(target))(*fake_args[1:], **fake_kwargs)
    return run_on_fakes(target, fake_args, fake_kwargs)  # type: ignore[arg-type]
