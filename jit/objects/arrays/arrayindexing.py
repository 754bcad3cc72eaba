"""Indexing of NumPy's arrays: reading and storing parts, including of arrays that run backwards through their memory."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy
import torch

from framejit import breaks
from framejit.objects.arrays import arrayfunctions
from framejit.objects.arrays.arraycall import call_function, from_list, stored
from framejit.objects.arrays.arrayfunctions import Target
from framejit.objects.arrays.arrayoperands import EMPTY, Operands, stays_symbolic
from framejit.objects.arrays.arrayrules import UNSIGNED
from framejit.objects.arrays.arraysbynumpy import changed_by_numpy
from framejit.objects.arrays.ndarrayobject import TORCH_TYPES, ArrayObject
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.sliceobject import SliceObject
from framejit.objects.types.tupleobject import TupleObject


def parts_of(vm: VM, key: Object) -> list[Object]:
    """The parts of an index."""
    key = vm.observe(key)
    return [vm.observe(part) for part in abstract.iterate(vm, key)] if key.cls is tuple else [key]


def is_plain_part(part: Object) -> bool:
    """Return whether a part of an index isn't an array that selects elements."""
    return not isinstance(part, ArrayObject) and part.cls is not list and part.cls is not bool


def turned(vm: VM, array: ArrayObject, parts: list[Object]) -> tuple[list[Object], tuple[int, ...]]:
    """The index into an array's memory, from its beginning and without negative steps, and the dimensions of the result that run backwards."""
    taken = sum(part.cls not in (type(None), type(...)) for part in parts)
    rank = array.forwards(vm).look(vm).dim()
    if any(part.cls is type(...) for part in parts):
        place = next(index for index, part in enumerate(parts) if part.cls is type(...))
        parts = [*parts[:place], *[whole(vm)] * (rank - taken), *parts[place + 1 :]]
    else:
        parts = [*parts, *[whole(vm)] * (rank - taken)]
    dim, place, forwards, backwards = 0, 0, [], []
    for part in parts:
        is_backwards = part.cls is not type(None) and dim in array.backwards
        if isinstance(part, SliceObject):
            part, is_backwards = forwards_slice(vm, part, array, dim, is_backwards)
            if is_backwards:
                backwards.append(place)
        elif is_backwards:
            part = vm.const(~part.constant(vm))
        forwards.append(part)
        dim += part.cls is not type(None)
        place += part.cls is slice or part.cls is type(None)
    return forwards, tuple(backwards)


def whole(vm: VM) -> SliceObject:
    """The slice that takes everything."""
    none = vm.const(None)
    return SliceObject(none, none, none)


def forwards_slice(vm: VM, part: SliceObject, array: ArrayObject, dim: int, is_backwards: bool) -> tuple[SliceObject, bool]:
    """A slice of the elements as they lie in memory, and whether the result runs through them backwards."""
    step = vm.observe(part.step)
    if not is_backwards and (step.cls is not int or step.constant(vm) > 0):
        return part, False
    taken = part.real(vm)
    if (taken.start, taken.stop, taken.step) in ((None, None, -1), (None, None, None), (None, None, 1)):
        return whole(vm), is_backwards != (taken.step == -1)
    size = vm.graph.size(array.forwards(vm), dim).constant(vm)
    chosen = range(*taken.indices(size))
    if is_backwards:
        chosen = range(size - 1 - chosen.start, size - 1 - chosen.stop, -chosen.step)
    is_falling = chosen.step < 0
    chosen = chosen[::-1] if is_falling else chosen
    chosen = chosen if chosen else range(0)
    return SliceObject(vm.const(chosen.start), vm.const(chosen.stop), vm.const(chosen.step)), is_falling


def getitem(vm: VM, array: ArrayObject, key: Object) -> Object:
    """array[key]"""
    parts = parts_of(vm, key)
    are_plain = all(map(is_plain_part, parts))
    if are_plain and (array.backwards or any(isinstance(part, SliceObject) for part in parts)):
        operands = Operands(vm, "getitem")
        (stand_in, index), _ = operands.reals([array, TupleObject(parts)], EMPTY)
        operands.asked(lambda: operator.getitem(stand_in, index))
        forwards, backwards = turned(vm, array, parts)
        if backwards or array.backwards:
            found = getitem(vm, ArrayObject(numpy.ndarray, array.forwards(vm), read_only=array.read_only, assumed=array.assumed), TupleObject(forwards))
            assert isinstance(found, ArrayObject)
            return flipped(vm, found, backwards) if backwards else found
    target: Target = operator.getitem if are_plain else arrayfunctions.numpy_index
    return call_function(vm, "getitem" if are_plain else "indexing", "operator.getitem", [array, TupleObject(parts)], EMPTY, target)


def flipped(vm: VM, array: ArrayObject, dims: Sequence[int]) -> ArrayObject:
    """A view of an array that runs backwards in some dimensions."""
    form = array.forwards(vm)
    rank = form.look(vm).dim()
    if array.assumed is not None and rank > 1:
        vm.unsupported(breaks.ArrayOperation("an array that runs backwards, and whose sizes depend on data"))
    backwards = set(array.backwards) ^ {dim % rank for dim in dims}
    return ArrayObject(numpy.ndarray, form, read_only=array.read_only, backwards=tuple(sorted(backwards)), assumed=array.assumed)


def setitem(vm: VM, array: ArrayObject, key: Object, value: Object) -> None:
    """array[key] = value"""
    parts = parts_of(vm, key)
    operands = Operands(vm, "setitem")
    value = vm.observe(value)
    if value.cls in (list, tuple):
        value = from_list(vm, value)
    args = [array, TupleObject(parts), value]
    (target, where, what), _ = operands.reals(args, EMPTY)
    if array.backwards:
        vm.unsupported(breaks.ArrayOperation("storing to an array that runs backwards"))
    operands.asked(lambda: operator.setitem(target, where, what))
    dtype = array.dtype(vm)
    are_chosen = not all(map(is_plain_part, parts)) and isinstance(value, ArrayObject) and value.forwards(vm).look(vm).dim() > 0
    types = {dtype.char} | ({value.dtype(vm).char} if isinstance(value, ArrayObject) else set())

    def by_tensors() -> Object:
        if isinstance(value, ArrayObject):
            stored_value: Object = enter(vm, torch.Tensor.to, [value.tensor(vm), vm.const(TORCH_TYPES[dtype])])
        elif stays_symbolic(vm, value, dtype):
            stored_value = value
        else:
            stored_value = vm.const(operands.asked(lambda: numpy.asarray(what).astype(dtype)).item())
        return operands.entered(arrayfunctions.numpy_store, [array.tensor(vm), operands.in_graph(TupleObject(parts)), stored_value])

    if are_chosen or types & set(UNSIGNED) or vm.attempt(by_tensors) is None:
        stored(vm, array, changed_by_numpy(vm, operands, "changed(operator.setitem)", args, EMPTY, array))
