"""The arguments of one call of NumPy: stand-ins for NumPy, tensors for the graph, and the arrays of the results.

Stand-ins are arrays with the same type, shape and strides, which share memory in the same way. NumPy's result for them has the type, shape, layout and memory
of the real result, or is the exception that the program gets.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy
import torch

from framejit import breaks
from framejit.objects.arrays import arrayfunctions
from framejit.objects.arrays.arrayfunctions import Target
from framejit.objects.arrays.arrayrules import KNOWN, SIZES_FROM_DATA, TELLS_BY_FORM
from framejit.objects.arrays.ndarrayobject import TYPES, ArrayObject
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.bufferobject import BufferObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.sliceobject import SliceObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.process.warning_filters import version_kept
from framejit.program import classes

EMPTY: dict[str, Object] = {}
GIVE_ARGUMENT = frozenset({
    "array", "asarray", "asanyarray", "ascontiguousarray", "astype", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "real", "T", "view",
    "squeeze",
})  # fmt: skip
"""Functions that may return their argument itself."""
INDEXING = ("getitem", "indexing", "setitem", "take", "take_along_axis")
RAISED = (IndexError, ValueError, TypeError)
"""Exceptions of NumPy that follow from types and shapes alone."""


def hint(size: Any) -> int:
    """The value that a size of a fake tensor has in this call."""
    return size if type(size) is int else int(size.node.hint)


def is_unbacked(size: Any) -> bool:
    """Return whether a size depends on data."""
    return type(size) is not int and size.node.hint is None


def float_errors() -> tuple[str, ...]:
    """Return how the program has configured NumPy to handle floating-point errors."""
    return tuple(map(str, numpy.geterr().values()))


class Operands:
    """The arguments of one call, for NumPy and for the graph. `is_second`: the stand-ins have different elements than in the first call of NumPy."""

    def __init__(self, vm: VM, name: str, is_second: bool = False) -> None:
        self.vm = vm
        self.name = name
        self.is_second = is_second
        self.arrays: dict[int, tuple[ArrayObject, Any]] = {}
        self.memory: dict[int, Any] = {}
        self.storages: list[torch.UntypedStorage] = []
        """The storages whose keys `memory` has: while they are alive, no other storage gets one of these keys."""
        self.symbolic = False

    def reals(self, args: Sequence[Object], kwargs: dict[str, Object]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments for NumPy. Breaks if one of them can't be passed to NumPy."""
        try:
            return [self.real(arg) for arg in args], {key: self.real(arg) for key, arg in kwargs.items()}
        except NotConstant as needed:
            self.vm.unsupported(breaks.ArrayOperation(f"{self.name} on {needed.obj!r}"))

    def real(self, obj: Object) -> Any:
        """An argument for NumPy, with stand-ins for arrays."""
        vm = self.vm
        obj = vm.observe(obj)
        if isinstance(obj, ArrayObject):
            return self.stand_in(obj)
        if isinstance(obj, NumberObject) and obj.is_symbolic(vm):
            self.symbolic = True
            return obj.value
        if obj.cls in (list, tuple):
            return obj.cls([self.real(item) for item in abstract.iterate(vm, obj)])
        if isinstance(obj, SliceObject):
            return slice(*[self.real(part) for part in obj.parts()])
        if isinstance(obj, BufferObject):  # the result may share its memory
            raise NotConstant(obj)
        return obj.as_real(vm)

    def stand_in(self, obj: ArrayObject) -> Any:
        """An array of the same form as this one. Its memory is that of the stand-ins for arrays with which it shares memory."""
        known = self.arrays.get(id(obj))
        if known is not None:
            return known[1]
        fake = obj.forwards(self.vm).look(self.vm)
        dtype = TYPES.get(fake.dtype)
        assert dtype is not None, fake.dtype
        self.symbolic = self.symbolic or any(type(size) is not int for size in fake.shape)
        storage = fake.untyped_storage()
        self.storages.append(storage)
        made: Any
        if obj.assumed is not None:
            made = self.with_assumed_shape(obj.assumed, dtype, storage._cdata)
        else:
            if any(map(is_unbacked, (*fake.shape, *fake.stride(), fake.storage_offset()))):
                self.vm.unsupported(breaks.DataDependent(f"the shape of an array that {self.name} takes"))
            shape = tuple(map(hint, fake.shape))
            strides = tuple(hint(stride) * dtype.itemsize for stride in fake.stride())
            buffer = self.memory.setdefault(storage._cdata, numpy.zeros(max(hint(storage.nbytes()), 1), numpy.uint8))
            made = numpy.ndarray(shape, dtype, buffer, hint(fake.storage_offset()) * dtype.itemsize, strides)
            if obj.backwards:
                made = numpy.flip(made, obj.backwards)  # for an array without dimensions, flip returns a scalar
        self.fill(made)
        if obj.is_scalar:
            made = made[()]
        elif obj.read_only:
            made.flags.writeable = False
        self.arrays[id(obj)] = obj, made
        return made

    def fill(self, made: Any) -> None:
        """Give a stand-in elements that any function accepts: ascending floats, ints that are valid as indices and counts, and regular matrices.

        Every element differs the second time, so that it shows if the form of a result depends on elements.
        """
        if self.name in TELLS_BY_FORM and not self.is_second:
            made.fill(0 if made.dtype.kind == "i" and self.name in INDEXING else 1)
        elif self.name.startswith("linalg.") and made.ndim > 1:
            made[...] = numpy.eye(*made.shape[-2:]) * (2 if self.is_second else 1)
        elif made.dtype.kind in "fc":
            made[...] = numpy.linspace(0.2 if self.is_second else 0.1, 0.9, made.size).reshape(made.shape)
        elif made.dtype.kind == "b":
            made.fill(not self.is_second)
        else:
            is_one = (self.name in TELLS_BY_FORM and self.name not in INDEXING) or (self.name in SIZES_FROM_DATA and self.name != "bincount")
            made.fill(is_one + self.is_second)

    def with_assumed_shape(self, assumed: tuple[tuple[int, ...], tuple[int, ...]], dtype: numpy.dtype[Any], storage: int) -> Any:
        """A stand-in for an array whose sizes depend on data."""
        if storage in self.memory:
            self.vm.unsupported(breaks.ArrayOperation(f"{self.name} of an array whose size depends on data"))
        self.symbolic = True
        shape, strides = assumed
        self.memory[storage] = numpy.empty(shape, dtype)
        return numpy.ndarray(shape, dtype, self.memory[storage], 0, strides)

    def in_graph(self, obj: Object, dtype: numpy.dtype[Any] | None = None) -> Object:
        """An argument for the graph, with tensors in place of arrays. `dtype`: the type of elements that numbers may become."""
        vm = self.vm
        obj = vm.observe(obj)
        if isinstance(obj, ArrayObject):
            return obj.tensor(vm)
        if obj.cls in (list, tuple):
            items = [self.in_graph(item, dtype) for item in abstract.iterate(vm, obj)]
            return ListObject(items) if obj.cls is list else TupleObject(items)
        if isinstance(obj, ConstObject) and isinstance(obj.value, numpy.generic):
            return vm.const(obj.constant(vm).item())
        if isinstance(obj.value, (type, numpy.dtype)) and obj.is_knowable():
            return vm.const(numpy.dtype(obj.constant(vm)).name)
        if dtype is not None and not stays_symbolic(vm, obj, dtype) and isinstance(obj, NumberObject) and dtype.kind in "iu":
            room = numpy.iinfo(dtype)
            if not room.min <= obj.constant(vm) <= room.max:
                self.break_graph("elements that don't have the value of a number")
        return obj

    def object_of(self, real: Any) -> ArrayObject | None:
        """The array that a stand-in stands for."""
        return next((obj for obj, made in self.arrays.values() if made is real and not obj.is_scalar), None)

    def target(self, out: Object) -> ArrayObject:
        """The array that a result is stored in, or that a function changes."""
        if out.cls is tuple:
            (out,) = [self.vm.observe(item) for item in abstract.iterate(self.vm, out)]
        if not isinstance(out, ArrayObject) or out.backwards:
            self.break_graph("its result in something other than an array, or backwards")
        return out

    def argument(self, expected: Any) -> ArrayObject | None:
        """The argument that a function returns as its result; None if it returns another value. Breaks if the function has changed the argument."""
        found = self.object_of(expected)
        if found is not None and self.name not in GIVE_ARGUMENT:
            self.break_graph("an argument, which it has changed")
        return found

    def shares(self, array: Any) -> bool:
        """Return whether an array lies in the memory of the stand-ins."""
        return any(numpy.may_share_memory(array, buffer) for buffer in self.memory.values())

    def asked(self, call: Callable[[], Any]) -> Any:
        """NumPy's result for a call with stand-ins. If it raises, the program gets the exception, or the graph breaks."""
        vm = self.vm
        if any(how not in ("ignore", "warn") for how in vm.guards.read(float_errors)):
            vm.unsupported(breaks.ArrayOperation(f"{self.name} where numpy.seterr() asks for more than warnings"))
        try:
            with version_kept(), warnings.catch_warnings(), numpy.errstate(all="ignore"):
                warnings.simplefilter("ignore" if self.is_second else "error")
                return call()
        except Exception as error:
            raises_alike = self.name in TELLS_BY_FORM and not self.has_counts() and not self.symbolic
            if raises_alike and type(error) in RAISED and all(type(arg) is str for arg in error.args):
                vm.raise_(type(error), *error.args)
            vm.unsupported(breaks.ArrayOperation(f"{self.name}, which raises {type(error).__name__}: {error}"))

    def has_counts(self) -> bool:
        """Return whether the trace doesn't know the values of some integers after the first argument: a function may raise for such a size, count or axis."""
        others = list(self.arrays.values())[1:]
        return any(made.dtype.kind in "iu" for _, made in others) and not isinstance(getattr(numpy, self.name, None), numpy.ufunc)

    # The results.

    def result(self, found: Object, expected: Any) -> Object:
        """Make arrays from the results of the graph, in the form that NumPy would give them."""
        vm = self.vm
        if isinstance(expected, (list, tuple)) and type(expected) in (list, tuple):
            items = list(abstract.iterate(vm, found)) if found.cls in (list, tuple) else []
            if len(items) != len(expected):
                self.break_graph("other results")
            made = [self.result(item, one) for item, one in zip(items, expected)]
            return ListObject(made) if type(expected) is list else TupleObject(made)
        found = vm.observe(found)
        if not isinstance(found, TensorObject) or (type(expected) is not numpy.ndarray and not isinstance(expected, numpy.generic)):
            self.break_graph(f"a {classes.qualname(type(expected))}")
        same = self.argument(expected)
        if same is not None:
            return same
        read_only = isinstance(expected, numpy.ndarray) and not expected.flags.writeable
        depends_on_data = any(is_unbacked(size) for size in found.look(vm).shape)
        form = self.as_expected(found, expected)
        return ArrayObject(type(expected), form, read_only=read_only, assumed=(expected.shape, expected.strides) if depends_on_data else None)

    def as_expected(self, found: TensorObject, expected: Any) -> TensorObject:
        """The tensor, or a copy of it, such that it has the layout of NumPy's result, and its own memory if that has."""
        fake = found.look(self.vm)
        if TYPES.get(fake.dtype) != expected.dtype or fake.device.type != "cpu":
            self.break_graph(f"{expected.dtype.name}, and torch gives {fake.dtype} on {fake.device}")
        if any(is_unbacked(size) for size in fake.shape):
            return self.of_some_size(found, expected)
        shape = tuple(map(hint, fake.shape))
        is_laid_out = all(size == 1 or hint(own) * expected.itemsize == other for size, own, other in zip(shape, fake.stride(), expected.strides))
        if shape != expected.shape:
            self.break_graph(f"the shape {expected.shape}, and torch gives {shape}")
        is_view = fake.untyped_storage()._cdata in self.memory
        is_expected_view = isinstance(expected, numpy.ndarray) and self.shares(expected)
        if expected.size == 0:
            is_laid_out, is_view = True, is_view and is_expected_view
        elif is_expected_view and not (is_view and is_laid_out):
            self.break_graph("a view of its argument")
        if not is_laid_out:
            return self.laid_out(found, expected)
        return self.copied(torch.clone, [found]) if is_view and not is_expected_view else found

    def of_some_size(self, found: TensorObject, expected: Any) -> TensorObject:
        """A tensor with sizes that depend on data, which are assumed to be those of NumPy's result."""
        fake = found.look(self.vm)
        fits = len(fake.shape) == len(expected.shape) and all(is_unbacked(own) or hint(own) == size for own, size in zip(fake.shape, expected.shape))
        if not fits or expected.copy("K").strides != expected.strides or self.shares(expected) or fake.untyped_storage()._cdata in self.memory:
            self.vm.unsupported(breaks.DataDependent(f"the shape that {self.name} gives"))
        return found if expected.flags.c_contiguous else self.laid_out(found, expected)

    def laid_out(self, found: TensorObject, expected: Any) -> TensorObject:
        """A copy with the layout of NumPy's result."""
        if expected.copy("K").strides != expected.strides and min(expected.strides) > 0:
            return self.copied(arrayfunctions.numpy_with_gaps, [found, self.vm.const(tuple([stride // expected.itemsize for stride in expected.strides]))])
        order = sorted(range(expected.ndim), key=lambda dim: -expected.strides[dim])
        return self.copied(arrayfunctions.numpy_laid_out, [found, self.vm.const(tuple(order))])

    def copied(self, target: Target, args: Sequence[Object]) -> TensorObject:
        found = enter(self.vm, target, args)
        assert isinstance(found, TensorObject)
        return found

    def entered(self, target: Target, args: Sequence[Object], kwargs: dict[str, Object] = EMPTY) -> Object:
        """The result of a call in the graph. Breaks if tensors can't compute it. The program's function modes don't see tensors that stand for arrays."""
        vm = self.vm
        with vm.graph.function_modes.hidden():
            found = vm.attempt(lambda: abstract.getitem(vm, args[0], args[1]) if target is operator.getitem else enter(vm, target, args, kwargs))
        if found is None:
            self.vm.unsupported(breaks.ArrayOperation(f"{self.name} with these arguments"))
        assert isinstance(found, Object)
        return found

    def type_of(self, expected: Any) -> numpy.dtype[Any]:
        """The type of a result. Breaks if torch has no such type."""
        dtype = getattr(expected, "dtype", None)
        if not isinstance(dtype, numpy.dtype) or dtype.char not in KNOWN:
            self.break_graph(f"a {classes.qualname(type(expected))}" if dtype is None else str(dtype))
        return dtype

    def break_graph(self, what: str) -> NoReturn:
        """Break because NumPy's result is something that torch can't give."""
        self.vm.unsupported(breaks.ArrayOperation(f"{self.name}, which gives {what}"))


def stays_symbolic(vm: VM, obj: Object, dtype: numpy.dtype[Any]) -> bool:
    """Return whether a number is symbolic, and stays so in an array of this type. One that doesn't becomes a constant here."""
    if not isinstance(obj, NumberObject) or not obj.is_symbolic(vm):
        return False
    if dtype.char in "lfd":
        return True
    obj.constant(vm)
    return False


def has_array(vm: VM, obj: Object) -> bool:
    """Return whether a value is an array, or a list, tuple or slice with one inside."""
    obj = vm.observe(obj)
    if isinstance(obj, ArrayObject):
        return True
    if obj.cls in (list, tuple):
        return any(has_array(vm, item) for item in abstract.iterate(vm, obj))
    return isinstance(obj, SliceObject) and any(has_array(vm, part) for part in obj.parts())
