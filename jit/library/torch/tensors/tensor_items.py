"""`tensor[key]` with a number that isn't known in the key, or a tensor that stands for one, also as the bound of a slice, or with sizes that aren't known."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import fx

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.unbacked import is_unbacked
from framejit.library.random.drawn_bounds import bounds_of
from framejit.library.torch.recurrent.packed import first_size, number_of_sequences
from framejit.library.torch.tensors.differentiable_items import differentiable_item
from framejit.objects.arrays.ndarrayobject import ArrayObject, tensor_of_array
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.numbers.unbackednumber import Datum, UnbackedNumber, is_checked
from framejit.objects.tensors.tensorobject import TensorObject, number_out_of
from framejit.objects.tensors.torchcall import enter
from framejit.objects.tensors.torchfunctions import operation_of
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.sliceobject import SliceObject
from framejit.objects.types.tupleobject import TupleObject

ITEM = torch.Tensor.__getitem__
STORE = torch.Tensor.__setitem__
INDICES = (torch.int64, torch.bool)
MASKS = (torch.bool, torch.uint8)


@models(ITEM)
def item_of_tensor(vm: TorchVM, self: Object, key: Object) -> Object:
    """An item of a tensor, or a part of it."""
    reject_replaced(vm, ITEM)
    key = with_tensors(vm, key)
    parts = parts_of(vm, key)
    if not isinstance(self, TensorObject):
        return enter(vm, ITEM, [self, key])
    if vm.graph.body.items_by_index:
        return by_index(vm, self, key, parts)
    if number_of_sequences(self.look(vm)) is not None and self.fake.dim() == 1 and is_zero(vm, parts):
        return enter(vm, first_size, [self])
    whole = self
    self, key, parts = with_numbers_in_slices(vm, self, key, parts)
    if self is not whole and all(map(takes_all, parts)):
        return self
    places, rest = places_of(vm, self, parts)
    if not places:
        check_ints(vm, self, parts)
        return enter(vm, ITEM, [self, key])
    found = selected(vm, self, places)
    return enter(vm, ITEM, [found, TupleObject(rest)]) if rest else found


@models(STORE)
def store_item_of_tensor(vm: TorchVM, self: Object, key: Object, value: Object) -> Object:
    """Store to an item of a tensor, or to a part of it."""
    reject_replaced(vm, STORE)
    stored = vm.observe(value).cls
    if issubclass(stored, np.inexact) and not issubclass(stored, (float, complex)):
        vm.unsupported(breaks.ArrayOperation("storing a NumPy scalar that is no float or complex number of Python's, which torch refuses"))
    key = with_tensors(vm, key)
    parts = parts_of(vm, key)
    if isinstance(self, TensorObject):
        self, key, parts = with_numbers_in_slices(vm, self, key, parts)
        places, rest = places_of(vm, self, parts)
        if places:
            self, key = selected(vm, self, places), TupleObject(rest)
        else:
            check_ints(vm, self, parts)
    return enter(vm, STORE, [self, key, value])


def reject_replaced(vm: TorchVM, method: Any) -> None:
    if operation_of(method) is None:
        vm.unsupported(breaks.UnsupportedCall(f"torch.Tensor.{method.__name__}, which the program has replaced"))


def parts_of(vm: TorchVM, key: Object) -> list[Object]:
    """The parts of a key, for the dimensions of a tensor."""
    return [vm.observe(part) for part in (abstract.iterate(vm, key) if vm.observe(key).cls is tuple else [key])]


def with_tensors(vm: TorchVM, key: Object) -> Object:
    """A key with tensors in place of NumPy's arrays, and of lists of numbers that aren't known, as torch takes them; and with ints in place of
    NumPy's integers."""
    parts = parts_of(vm, key)
    if not any(isinstance(part, ArrayObject) or is_list_of_numbers(vm, part) for part in parts):
        return key
    for number, part in enumerate(parts):
        if is_list_of_numbers(vm, part):
            parts[number] = vm.observe(abstract.call(vm, vm.pin(torch.tensor), [part], {"device": vm.const("cpu")}))
        if isinstance(part, ArrayObject) and part.is_scalar and part.dtype(vm).kind == "i":
            parts[number] = part.number(vm)
        if isinstance(part, ArrayObject) and is_array(part):
            parts[number] = tensor = tensor_of_array(vm, part)
            if tensor.look(vm).dtype not in INDICES or tensor.fake.dim() == 0:
                vm.unsupported(breaks.ArrayOperation("indexing a tensor with an array that is neither one of places nor a mask"))
    return TupleObject(parts) if vm.observe(key).cls is tuple else parts[0]


def is_list_of_numbers(vm: TorchVM, part: Object) -> bool:
    """Return whether a part of a key is a list of ints at least one of which isn't known."""
    if part.cls is not list or not isinstance(part, ListObject) or not vm.graph.unbacked.may_begin():
        return False
    items = [vm.observe(item) for item in part.items(vm)]
    return any(isinstance(item, UnbackedNumber) for item in items) and all(item.cls is int for item in items)


def is_array(part: Object) -> bool:
    return isinstance(part, ArrayObject) and not part.is_scalar


def places_of(vm: TorchVM, tensor: TensorObject, parts: list[Object]) -> tuple[Mapping[int, Object], list[Object]]:
    """The positions, by dimension, that parts of a key select by numbers whose values aren't guarded, and the other parts of the key."""
    checked = checked_places(vm, tensor, parts)
    symbolic = symbolic_places(vm, tensor, parts)
    is_left = [not (checked and is_place(part)) and part not in symbolic.values() for part in parts]
    return {**checked, **symbolic}, [part for part, left in zip(parts, is_left, strict=True) if left]


def symbolic_places(vm: TorchVM, tensor: TensorObject, parts: list[Object]) -> dict[int, NumberObject]:
    """The positions that parts of a key select by symbolic numbers. For such an index torch asks the value; `select` asks only whether it is in range."""
    if not any(is_symbolic(vm, part) for part in parts):
        return {}
    dims = dimensions_of(parts, tensor.look(vm).dim()) or []
    return {dim: part for part, dim in zip(parts, dims) if isinstance(part, NumberObject) and is_symbolic(vm, part)}


def is_symbolic(vm: TorchVM, part: Object) -> bool:
    return isinstance(part, NumberObject) and part.cls is int and part.is_symbolic(vm)


def selected(vm: TorchVM, tensor: Object, places: Mapping[int, Object]) -> Object:
    """The part of a tensor at these positions."""
    for dim in sorted(places, reverse=True):
        tensor = enter(vm, torch.Tensor.select, [tensor, vm.const(dim), places[dim]])
    return tensor


def by_index(vm: TorchVM, tensor: TensorObject, key: Object, parts: list[Object]) -> Object:
    """An item in a function that is traced for one place and stands for many: the numbers of places are indices, as in `bias[head, query - key]`."""
    if not any(isinstance(part, TensorObject) for part in parts) or not all(isinstance(part, TensorObject) or part.cls is int for part in parts):
        return enter(vm, ITEM, [tensor, key])
    device = {"dtype": vm.const(torch.int64), "device": vm.const(tensor.look(vm).device)}
    indices = [part if isinstance(part, TensorObject) else enter(vm, torch.full, [vm.const(()), part], device) for part in parts]
    takes = differentiable_item if tensor.look(vm).requires_grad and vm.graph.modes.current.grad else torch.ops.aten.index.Tensor
    return enter(vm, takes, [tensor, TupleObject(indices)])


def is_zero(vm: TorchVM, parts: list[Object]) -> bool:
    """Return whether a key is the known number 0."""
    return len(parts) == 1 and parts[0].cls is int and parts[0].is_known() and parts[0].constant(vm) == 0


def checked_places(vm: TorchVM, tensor: TensorObject, parts: list[Object]) -> dict[int, Object]:
    """The positions that parts of a key select, by dimension, once the graph checks that they are in range, or guards read them. Empty if there are none, or
    if neither can be done for one of them.

    In eager such an item is a view of the tensor, selected by a number: a tensor without dimensions isn't an index like those with dimensions.
    """
    dims = dimensions_of(parts, tensor.look(vm).dim()) if vm.graph.unbacked.may_begin() and any(map(is_place, parts)) else None
    if dims is None:
        return {}
    found: dict[int, Object] = {}
    for part, dim in zip(parts, dims, strict=True):
        if is_place(part):
            number = number_out_of(vm, part, "__index__") if isinstance(part, TensorObject) else part
            size = vm.graph.size(tensor, dim)
            if not isinstance(number, UnbackedNumber):
                return {}
            is_sure = is_drawn_within(vm, number, size)
            ends = ((">=", operators.unary_op(vm, "-", size)), ("<", size))
            if not all(is_checked(vm, operators.compare(vm, symbol, number, end), is_sure) for symbol, end in ends):
                value = vm.graph.unbacked.settled(number)
                if value is None:
                    return {}
                number = vm.const(value)  # guards read it
            found[dim] = number
    return found


def check_ints(vm: TorchVM, tensor: TensorObject, parts: list[Object]) -> None:
    """Have the graph check that a dimension whose size isn't known has the items that ints select, as in `x[mask][0]`. An operator would ask whether that
    is true, which breaks the trace.
    """
    shape = tensor.look(vm).shape
    dims = dimensions_of(parts, len(shape)) if any(map(is_unbacked, shape)) else None
    for part, dim in zip(parts, dims or ()):
        if part.cls is int and part.is_known() and is_unbacked(shape[dim]):
            place = part.constant(vm)
            size = vm.graph.size(tensor, dim)
            is_checked(vm, operators.compare(vm, ">", size, part) if place >= 0 else operators.compare(vm, ">=", size, vm.const(-place)))


def with_numbers_in_slices(vm: TorchVM, tensor: TensorObject, key: Object, parts: list[Object]) -> tuple[TensorObject, Object, list[Object]]:
    """A tensor and a key of it, such that no bound of a slice in the key is a tensor without dimensions.

    Such a bound becomes a number that isn't known. If two bounds are computed from one tensor, as in `x[i:i + 16]`, the slice is taken from the tensor
    here, and has that length, once the graph checks that it lies inside the tensor: otherwise its size would depend on data.
    """
    dims = dimensions_of(parts, tensor.look(vm).dim()) if vm.graph.unbacked.may_begin() and any(has_tensors(vm, part) for part in parts) else None
    if dims is None:
        return tensor, key, parts
    parts, may_narrow = list(parts), not any(part.cls is type(None) for part in parts)  # the stride of a new dimension depends on the others' sizes
    for index, (part, dim) in enumerate(zip(parts, dims, strict=True)):
        if isinstance(part, SliceObject) and has_tensors(vm, part):
            start, stop, step = (number_of(vm, bound) for bound in part.parts())
            length = length_of(vm, part) if may_narrow else None
            if length is not None and is_inside(vm, start, stop, length, vm.graph.size(tensor, dim)):
                tensor = enter(vm, torch.Tensor.narrow, [tensor, vm.const(dim), start, vm.const(length)])  # type: ignore[assignment]
                start, stop = vm.const(None), vm.const(None)
            parts[index] = SliceObject(start, stop, step)
    return tensor, TupleObject(parts), parts


def has_tensors(vm: TorchVM, part: Object) -> bool:
    """Return whether a part of a key is a slice whose bounds are tensors that stand for integers."""
    return isinstance(part, SliceObject) and any(isinstance(bound, TensorObject) and is_place(bound) for bound in map(vm.observe, part.parts()))


def number_of(vm: TorchVM, bound: Object) -> Object:
    """The bound of a slice, as a number if it is a tensor."""
    bound = vm.observe(bound)
    return (number_out_of(vm, bound, "__index__") or bound) if isinstance(bound, TensorObject) else bound


def takes_all(part: Object) -> bool:
    """Return whether a part of a key selects everything."""
    return part.cls is type(...) or (isinstance(part, SliceObject) and all(bound.cls is type(None) for bound in part.parts()))


def length_of(vm: TorchVM, part: SliceObject) -> int | None:
    """The length of a slice as far as it follows from the computation of its bounds, `i + 1` and `i + 17`; None if it doesn't."""
    start, stop, step = map(vm.observe, part.parts())
    if not (isinstance(start, TensorObject) and isinstance(stop, TensorObject)) or step.cls is not type(None):
        return None
    (node, before), (other, last) = offset(start.node), offset(stop.node)
    return last - before if node is other and last > before else None


def offset(node: fx.Node) -> tuple[fx.Node, int]:
    """A node and an int whose sum a given node is: itself and 0, unless it is such a sum."""
    if node.target is operator.add and len(node.args) == 2:
        for term, number in (node.args, node.args[::-1]):
            if isinstance(term, fx.Node) and type(number) is int:
                return term, number
    return node, 0


def is_inside(vm: TorchVM, start: Object, stop: Object, length: int, size: Object) -> bool:
    """Return whether the graph checks that a slice has this length, and lies inside a dimension of this size."""
    if not (isinstance(start, UnbackedNumber) and isinstance(stop, UnbackedNumber)):
        return False
    last = operators.binary_op(vm, "-", size, vm.const(length))
    conditions = (
        operators.compare(vm, ">=", start, vm.const(0)),
        operators.compare(vm, "<=", start, last),
        operators.compare(vm, "==", operators.binary_op(vm, "-", stop, start), vm.const(length)),
    )
    return all(is_checked(vm, condition) for condition in conditions)
def is_drawn_within(vm: TorchVM, number: UnbackedNumber, size: Object) -> bool:
    """Return whether a number is drawn from a range of valid positions in a dimension of this size."""
    bounds = bounds_of(number.node, vm.graph.are_changed) if isinstance(number, Datum) and size.is_known() else None
    return bounds is not None and -size.value <= bounds[0] and bounds[1] < size.value


def is_place(part: Object) -> bool:
    """Return whether a part of a key selects one position of a dimension, which depends on the data of tensors."""
    if isinstance(part, TensorObject):
        fake = part.fake
        return fake.dim() == 0 and fake.dtype not in MASKS and not (fake.is_floating_point() or fake.is_complex())
    return isinstance(part, UnbackedNumber) and part.cls is int


def dimensions_of(parts: list[Object], count: int) -> list[int] | None:
    """For each part of a key the first dimension that it applies to, out of `count`; None if that isn't known."""
    is_rest = [part.cls is type(...) for part in parts]
    takes = [0 if rest else taken(part) for part, rest in zip(parts, is_rest, strict=True)]
    known = [number for number in takes if number is not None]
    more = count - sum(known)
    if len(known) < len(takes) or more < 0 or sum(is_rest) > 1:
        return None
    steps = [more if rest else number for number, rest in zip(known, is_rest, strict=True)]
    return list(accumulate(steps, initial=0))[:-1]


def taken(part: Object) -> int | None:
    """The number of dimensions of the tensor that a part of a key covers; None if it isn't known."""
    if isinstance(part, TensorObject):
        return part.fake.dim() if part.fake.dtype in MASKS else 1
    if isinstance(part, (SliceObject, UnbackedNumber)) or part.cls is int:
        return 1
    return 0 if part.cls is type(None) else None
