"""Makes Objects from the results of operators on fakes: tensors, numbers that depend on data, immutable values, and containers of these."""

from __future__ import annotations

import enum
from typing import Any

import torch
from torch import fx

from framejit import breaks
from framejit.graph.prune import has_tensor
from framejit.graph.shapes import Shapes
from framejit.graph.trace_state import TraceState
from framejit.graph.unbacked import Unbacked, is_unbacked
from framejit.objects.core.object import Object
from framejit.objects.core.registry import wrapper_for
from framejit.objects.tensors.tensorkind import kind_of_class
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchobject import SizeObject, struct_sequence
from framejit.objects.types.constobject import CONST_BUILDERS, EXACT
from framejit.objects.types.dictobject import dict_of
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes
from framejit.program.naming import with_article


class Results:
    """The Objects of what the operators of one trace give."""

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self._shapes, self._unbacked = state.part(Shapes), state.part(Unbacked)

    def wrap(self, result: Any, node: fx.Node, name: str) -> Object:
        """The Object of a node's result. `name`: the operator's name, for break reasons."""
        if isinstance(result, torch.Tensor):
            known = self._state.fakes.object_of(result)
            if known is not None:
                return known
            kind = kind_of_class(type(result))
            obj = TensorObject(node, type(result) if kind.stays_itself else torch.Tensor)
            self._state.fakes.belongs_to(result, obj)
            kind.note_result(self._state, obj)
            return obj
        if is_unbacked(result):
            return self._unbacked.known(result) or self._unbacked.number(result, node)
        if isinstance(result, (tuple, list)) and (has_tensor(result) or has_unbacked(result)):
            items = [self._item(item, node, index, name) for index, item in enumerate(result)]
            if isinstance(result, list):
                return ListObject(items)
            return TupleObject(items) if type(result) is tuple else struct_sequence(type(result), items)
        if type(result) is dict and has_tensor(result):
            return dict_of(self._state.vm, [(self.constant(key, name), self._item(item, node, key, name)) for key, item in result.items()])
        return self.constant(result, name)

    def _item(self, item: Any, node: fx.Node, index: Any, name: str) -> Object:
        """A value that an operator has returned, at one position in its result."""
        if has_tensor(item) or is_unbacked(item):
            return self.wrap(item, self._state.item_node(node, index, item), name)
        return self.constant(item, name)

    def constant(self, result: Any, name: str) -> Object:
        """Return the Object of an operator's result that is no tensor, be it a constant, a symbolic number or a container of these. Some stop the trace."""
        vm, shapes = self._state.vm, self._shapes
        if isinstance(result, (tuple, list)) and any(type(item) is torch.SymInt for item in result):
            return vm.from_real(with_items(result, [self.constant(item, name) for item in result]))
        if type(result) is torch.SymInt:
            return shapes.number(result)
        if type(result) is torch.SymBool:
            outcome = bool(result)
            shapes.note_lines()
            return vm.const(outcome)
        if type(result) is torch.SymFloat:
            vm.unsupported(breaks.UnsupportedOperation(f"a symbolic float from {name}"))
        if type(result) is torch.Size:
            return vm.const(result)
        if not is_made_of_constants(result):
            vm.unsupported(breaks.UnsupportedOperation(f"{name}, which gives {with_article(classes.qualname(type(result)))}"))
        return vm.from_real(result)


def with_items(container: Any, items: list[Object]) -> Any:
    """A container like the one that an operator gave, of Objects; for `VM.from_real`."""
    if isinstance(container, torch.Size):
        return SizeObject(items, torch.Size)
    return items if isinstance(container, list) else TupleObject(items, type(container))


def has_unbacked(value: Any) -> bool:
    """Return whether a result is a tuple or list with a number in it that depends on data."""
    return isinstance(value, (tuple, list)) and any(map(is_unbacked, value))


def is_made_of_constants(value: Any) -> bool:
    """Return whether a result is an immutable value, or a tuple, list or dict of such. An object of another class may hold fakes."""
    if isinstance(value, (tuple, list, set, frozenset)):
        return all(map(is_made_of_constants, value))
    if type(value) is dict:
        return all(map(is_made_of_constants, value)) and all(map(is_made_of_constants, value.values()))
    cls = type(value)
    return cls in EXACT or cls in CONST_BUILDERS or isinstance(value, enum.Enum) or wrapper_for(cls).by_identity
