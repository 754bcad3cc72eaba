"""`GraphInput`, an input of a trace's graph: the value that it stands for, its source, and how its fake was made."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import fx

from framejit.guards.script_source import ScriptAnswer
from framejit.guards.source import Item, Source
from framejit.objects.core.object import Object
from framejit.objects.tensors.tensorkind import TensorKind, kind_of_class
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GraphInput:
    """One placeholder of the outermost graph: for a tensor, or for a number that differs from call to call.

    Attributes:
        source: the path of the value.
        node: the placeholder.
        obj: the Object of the value.
        value: the real value while tracing; for a tensor of a disguised kind, the same as a plain tensor, as the graph gets it.
        symbolic: torch's SymbolicContext with which its fake was made; for nested and sparse tensors a PartsContext; None if all its sizes are constants.
        is_parameter, is_buffer: whether a module holds it as a parameter or a buffer.
        static: whether it is at the same address in each call.
        is_state: whether the source leads to a generator, or to a module whose hooks the graph puts on. In that case `value` is the generator's state, as a
            tensor, or the module's token (hooked_modules.py), which is given to the graph.
    """

    source: Source
    node: fx.Node
    obj: Object
    value: Any
    symbolic: Any = None
    is_parameter: bool = False
    is_buffer: bool = False
    static: bool = False
    is_state: bool = False

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.value, torch.Tensor)

    @property
    def kind(self) -> TensorKind:
        """The kind of tensors that the value's class is of."""
        return kind_of_class(self.obj.cls)

    @property
    def name(self) -> str:
        return self.node.name


def holds_buffer(source: Source) -> bool:
    """Return whether the path ends in a module's `_buffers`."""
    base = source.base
    return isinstance(source, Item) and isinstance(base, Item) and base.payload == "_buffers"


def is_of_script(source: Source) -> bool:
    """Return whether the path ends at an attribute of a scripted module."""
    return isinstance(source, ScriptAnswer) or isinstance(source.base, ScriptAnswer)


def is_static(source: Source, tensor: torch.Tensor) -> bool:
    """Return whether the tensor stays at its address: it is held by a module, or marked so (mark_static_address)."""
    is_held = isinstance(tensor, torch.nn.Parameter) or holds_buffer(source) or is_of_script(source)
    return is_held or hasattr(tensor, "_dynamo_static_input_type")


def identifier(path: str) -> str:
    """A placeholder's name made from a path: `self.layers[0].weight` -> `self_layers_0_weight`."""
    name = re.sub(r"\W+", "_", path).strip("_") or "input"
    return "self_" if name == "self" else name
