"""Calls that NumPy itself computes in a node of the graph: the expression of such a call, and the arrays that it returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from framejit import breaks
from framejit.objects.arrays.arrayoperands import Operands, is_unbacked
from framejit.objects.arrays.arrayrules import FOURIER, KNOWN, SHAPE_OF_FIRST, SHAPE_OF_OPTIONS, SIZES_FROM_DATA, UNSIGNED
from framejit.objects.arrays.ndarrayobject import ArrayObject
from framejit.objects.arrays.numpyoperator import NUMPY, CannotBeWritten, evaluated, leaves, spelled
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.sliceobject import SliceObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes

TENSOR_TYPES = KNOWN | set(UNSIGNED)
UNIQUE = ("return_index", "return_inverse")


class Expression:
    """An expression for a call, and the arrays in it."""

    def __init__(self, vm: VM) -> None:
        self.vm = vm
        self.arrays: list[ArrayObject] = []

    def call(self, how: str, args: Sequence[Object], kwargs: dict[str, Object]) -> str:
        parts = [self.word(arg) for arg in args] + [f"{key}={self.word(arg)}" for key, arg in kwargs.items()]
        return f"{how}({', '.join(parts)})"

    def word(self, obj: Object) -> str:
        """The text of an argument."""
        vm = self.vm
        obj = vm.observe(obj)
        if isinstance(obj, ArrayObject):
            if not any(obj is known for known in self.arrays):
                self.arrays.append(obj)
            index = next(index for index, known in enumerate(self.arrays) if known is obj)
            return f"a{index}[()]" if obj.is_scalar else f"a{index}"
        if obj.cls in (list, tuple):
            items = "".join([f"{self.word(item)}, " for item in abstract.iterate(vm, obj)])
            return f"[{items}]" if obj.cls is list else f"({items})"
        if isinstance(obj, SliceObject):
            return f"slice({', '.join(map(self.word, obj.parts()))})"
        return spelled(obj.constant(vm) if isinstance(obj, NumberObject) else obj.as_real(vm))


def computed_by_numpy(vm: VM, operands: Operands, how: str, args: Sequence[Object], kwargs: dict[str, Object], expected: Any) -> Object:
    """The result of a call, computed by NumPy. Breaks if its form can't be known beforehand, or if it shares memory with an argument."""
    return computed(vm, operands, how, args, kwargs, expected)


def changed_by_numpy(vm: VM, operands: Operands, how: str, args: Sequence[Object], kwargs: dict[str, Object], array: ArrayObject) -> ArrayObject:
    """A new array with the contents that a call would leave in an array which it changes. That array, one of the arguments, stays the same."""
    found = computed(vm, operands, how, args, kwargs, operands.stand_in(array).copy(), array)
    assert isinstance(found, ArrayObject)
    return found


def computed(
    vm: VM, operands: Operands, how: str, args: Sequence[Object], kwargs: dict[str, Object], expected: Any, like: ArrayObject | None = None
) -> Object:
    """The result of a call, computed by NumPy. `like`: an array that has the form of the result."""
    parts = leaves(expected)
    for part in parts:
        reject_part(operands, part)
    if any(numpy.shares_memory(left, right) for index, left in enumerate(parts) for right in parts[:index]):
        operands.break_graph("arrays of the same memory")
    if operands.name not in SIZES_FROM_DATA and like is None:
        reject_form_from_data(operands, how, args, kwargs, parts)
    if is_from_data_by_options(operands, args, kwargs):
        operands.break_graph("something of another form, or changes its argument, with these options")
    expression = Expression(vm)
    try:
        call = expression.call(how, args, kwargs)
    except CannotBeWritten as error:
        vm.unsupported(breaks.ArrayOperation(f"{operands.name} on {error.args[0]!r}"))
    except NotConstant as needed:
        vm.unsupported(breaks.ArrayOperation(f"{operands.name} on {needed.obj!r}"))
    if like is not None:
        sizes = like.sizes(vm)
    else:
        sizes = [size for index, part in enumerate(parts) for size in sizes_of(operands, args, kwargs, index, numpy.shape(part))]
    tensors: list[Object] = [array.tensor(vm) for array in expression.arrays]
    types = TupleObject([vm.const(numpy.asarray(part).dtype.name) for part in parts])
    dims = TupleObject([vm.const(numpy.ndim(part)) for part in parts])
    found = enter(vm, NUMPY, [vm.const(call), ListObject(tensors), types, dims, ListObject(sizes)])
    return rebuilt(operands, expected, iter(abstract.iterate(vm, found)))


def reject_part(operands: Operands, part: Any) -> None:
    """Break for a result that can't come out of a graph as new memory."""
    if type(part) in (bool, int, float, complex):
        return
    if (type(part) is not numpy.ndarray and not isinstance(part, numpy.generic)) or part.dtype.char not in TENSOR_TYPES:
        operands.break_graph(f"a {classes.qualname(type(part))}" if not hasattr(part, "dtype") else f"{part.dtype}")
    if isinstance(part, numpy.ndarray) and (operands.shares(part) or not part.flags.writeable):
        operands.break_graph("a view of its argument")


def reject_form_from_data(operands: Operands, how: str, args: Sequence[Object], kwargs: dict[str, Object], parts: Sequence[Any]) -> None:
    """Break if NumPy's result has another form for arrays of the same forms with different elements."""
    others = Operands(operands.vm, operands.name, is_second=True)
    real_args, real_kwargs = others.reals(args, kwargs)
    found = leaves(others.asked(lambda: evaluated(how)(*real_args, **real_kwargs)))
    if [(type(part), numpy.shape(part), numpy.asarray(part).dtype) for part in found] != [
        (type(part), numpy.shape(part), numpy.asarray(part).dtype) for part in parts
    ]:
        operands.break_graph("arrays whose form depends on data")


def is_from_data_by_options(operands: Operands, args: Sequence[Object], kwargs: dict[str, Object]) -> bool:
    """Return whether options are given with which the form of the result may depend on data."""
    if operands.name == "histogram":
        return any(operands.vm.observe(arg).cls is str for arg in (*args, *kwargs.values()))
    return "overwrite_input" in kwargs or (operands.name == "polyfit" and "full" in kwargs)


# Sizes.


def sizes_of(operands: Operands, args: Sequence[Object], kwargs: dict[str, Object], index: int, shape: tuple[int, ...]) -> list[Object]:
    """The sizes of the result with this index. Those that depend on data are negative numbers, the same one for the same size."""
    vm, name = operands.vm, operands.name
    if not shape:
        return []
    if is_size_from_data(operands, args, kwargs, index):
        return [vm.const(-1), *map(vm.const, shape[1:])]
    if not operands.symbolic:
        return [vm.const(size) for size in shape]
    if isinstance(getattr(numpy, name, None), numpy.ufunc) or name in ("where", "clip"):
        return [broadcast_size(operands, shape, dim) for dim in range(len(shape))]
    first, stand_in = next(iter(operands.arrays.values()))
    is_like_first = name in SHAPE_OF_FIRST or name == "unique" or (name in FOURIER and len(args) == 1 and not kwargs.keys() & {"n", "s"})
    if is_like_first and len(shape) == stand_in.ndim:
        return [vm.graph.size(first.forwards(vm), dim) for dim in range(len(shape))]
    if any(obj.assumed is not None for obj, _ in operands.arrays.values()):
        return [vm.const(-1 - 8 * index - dim) for dim in range(len(shape))]
    if name in SHAPE_OF_OPTIONS and stand_in.ndim == 1 and len(operands.arrays) == 1 and "keepdims" not in kwargs:
        return [vm.const(size) for size in shape]
    for obj, made in operands.arrays.values():
        for dim in range(made.ndim):
            vm.graph.size(obj.forwards(vm), dim).constant(vm)
    return [vm.const(size) for size in shape]


def is_size_from_data(operands: Operands, args: Sequence[Object], kwargs: dict[str, Object], index: int) -> bool:
    """Return whether the first size of the result with this index depends on data, given which function it is."""
    if operands.name == "unique":
        return index != place_of_inverse(operands.vm, args, kwargs)
    return operands.name in SIZES_FROM_DATA and SIZES_FROM_DATA[operands.name] in (None, index)


def broadcast_size(operands: Operands, shape: tuple[int, ...], dim: int) -> Object:
    """A size of a result whose shape all arguments are broadcast to: that of an argument which has it, a known number if possible."""
    vm, back = operands.vm, dim - len(shape)
    having = [obj for obj, made in operands.arrays.values() if made.ndim >= -back and made.shape[back] == shape[back]]
    sizes = [vm.graph.size(tensor, tensor.look(vm).dim() + back) for tensor in (obj.forwards(vm) for obj in having)]
    return next((size for size in sizes if not size.is_symbolic(vm)), sizes[0] if sizes else vm.const(shape[back]))


def place_of_inverse(vm: VM, args: Sequence[Object], kwargs: dict[str, Object]) -> int | None:
    """The index of the result of numpy.unique that has the shape of its argument; None if it isn't asked for."""
    asked = [vm.observe(kwargs.get(name, args[1 + place] if len(args) > 1 + place else vm.const(False))) for place, name in enumerate(UNIQUE)]
    has_index, has_inverse = (flag.truth(vm) for flag in asked)
    return 1 + has_index if has_inverse else None


# The results.


def rebuilt(operands: Operands, expected: Any, tensors: Iterator[Object]) -> Object:
    """NumPy's result, made from the tensors that the node returns."""
    vm = operands.vm
    if isinstance(expected, (list, tuple)):
        items = [rebuilt(operands, item, tensors) for item in expected]
        return ListObject(items) if type(expected) is list else TupleObject(items, type(expected))
    found = vm.observe(next(tensors))
    assert isinstance(found, TensorObject)
    if not isinstance(expected, numpy.ndarray):
        scalar = ArrayObject(type(numpy.asarray(expected)[()]), found)
        return scalar if isinstance(expected, numpy.generic) else scalar.number(vm)
    fake = found.look(vm)
    if not expected.flags.c_contiguous and expected.size:
        found = operands.laid_out(found, expected)
    return ArrayObject(numpy.ndarray, found, assumed=(expected.shape, expected.strides) if any(map(is_unbacked, fake.shape)) else None)
