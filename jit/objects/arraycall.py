"""The one door to NumPy for arrays: NumPy says what comes out of a call, tensors compute it.

A call is made at once with stand-ins: arrays of the same type, shape, strides and sharing of memory, full of ones. What NumPy gives for them has the type,
shape, layout and memory of the real result, or is the exception that the program gets. The node that computes the real result must give a tensor of
that type and shape; where its layout or memory is another, it is copied. That its values are NumPy's is said by arrayrules.py.
"""

from __future__ import annotations

import functools
import inspect
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy
import torch

from framejit import breaks, classes
from framejit.guards.source import Pinned
from framejit.objects import abstract, arrayfunctions
from framejit.objects.arrayfunctions import TAKE_NUMBERS, UFUNCS, Target
from framejit.objects.arrayrules import FUNCTIONS, KNOWN, NEVER
from framejit.objects.constobject import ConstObject
from framejit.objects.listobject import ListObject
from framejit.objects.ndarrayobject import TORCH_TYPES, TYPES, ArrayObject
from framejit.objects.numberobject import NumberObject
from framejit.objects.object import VM, NotConstant, Object
from framejit.objects.sliceobject import SliceObject
from framejit.objects.tensorobject import TensorObject
from framejit.objects.torchcall import enter
from framejit.objects.tupleobject import TupleObject

FEW = 64
"""Arrays of so many constants are written into the graph."""
EMPTY: dict[str, Object] = {}
IGNORED = frozenset({"out", "order", "copy", "casting", "subok"})
"""Keyword arguments that decide about layout, memory and errors only, of which the stand-ins tell."""
ANY_ORDER = frozenset({"copy", "astype", "array", "asarray", "asanyarray", "ascontiguousarray", "zeros_like", "ones_like", "full_like"})
"""Functions whose `order` is that of the memory. Of others, it is that of the elements."""
GIVE_ARGUMENT = frozenset({
    "array", "asarray", "asanyarray", "ascontiguousarray", "astype", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "real", "T", "view",
    "squeeze",
})  # fmt: skip
"""Functions that may give their argument itself."""
RAISE_OF_NOTHING = frozenset({"max", "min", "amax", "amin", "argmax", "argmin", "ptp", "median", "percentile", "quantile"})
"""Functions that raise where an array has no elements."""
INDEXING = ("getitem", "setitem", "take", "take_along_axis")
RAISED = (IndexError, ValueError, TypeError)
"""Exceptions of NumPy's that follow from types and shapes alone."""


def hint(size: Any) -> int:
    """A size of a fake tensor, as it is in this call."""
    return size if type(size) is int else int(size.node.hint)


def is_unbacked(size: Any) -> bool:
    """Whether a size depends on data."""
    return type(size) is not int and size.node.hint is None


def float_errors() -> tuple[str, ...]:
    """What NumPy does about floating-point errors, as the program has set it."""
    return tuple(map(str, numpy.geterr().values()))


class Operands:
    """The arguments of one call, for NumPy and for the graph."""

    def __init__(self, vm: VM, name: str) -> None:
        self.vm = vm
        self.name = name
        self.arrays: dict[int, tuple[ArrayObject, Any]] = {}
        self.memory: dict[int, Any] = {}
        self.symbolic = False

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
        return obj.as_real(vm)

    def stand_in(self, obj: ArrayObject) -> Any:
        """An array that looks like this one. Its memory is that of the stand-ins for arrays with which it shares memory."""
        known = self.arrays.get(id(obj))
        if known is not None:
            return known[1]
        fake = obj.forwards(self.vm).look(self.vm)
        dtype = TYPES.get(fake.dtype)
        if dtype is None:
            self.vm.unsupported(breaks.ArrayOperation(f"{self.name} of {fake.dtype}"))
        self.symbolic = self.symbolic or any(type(size) is not int for size in fake.shape)
        storage = fake.untyped_storage()
        made: Any
        if obj.assumed is not None:
            made = self.with_assumed_shape(obj.assumed, dtype, storage._cdata)
        else:
            shape = tuple(map(hint, fake.shape))
            strides = tuple(hint(stride) * dtype.itemsize for stride in fake.stride())
            buffer = self.memory.setdefault(storage._cdata, numpy.zeros(max(hint(storage.nbytes()), 1), numpy.uint8))
            made = numpy.ndarray(shape, dtype, buffer, hint(fake.storage_offset()) * dtype.itemsize, strides)
            if obj.backwards:
                made = numpy.flip(made, obj.backwards)  # of an array without dimensions, flip gives a scalar
        if dtype.kind != "i" or self.name not in INDEXING:
            made.fill(1)
        if obj.is_scalar:
            made = made[()]
        elif obj.read_only:
            made.flags.writeable = False
        self.arrays[id(obj)] = obj, made
        return made

    def with_assumed_shape(self, assumed: tuple[tuple[int, ...], tuple[int, ...]], dtype: numpy.dtype[Any], storage: int) -> Any:
        """A stand-in for an array with sizes that depend on data."""
        if storage in self.memory or self.name in RAISE_OF_NOTHING:
            self.vm.unsupported(breaks.ArrayOperation(f"{self.name} of an array whose size depends on data"))
        self.symbolic = True
        shape, strides = assumed
        self.memory[storage] = numpy.empty(shape, dtype)
        return numpy.ndarray(shape, dtype, self.memory[storage], 0, strides)

    def in_graph(self, obj: Object) -> Object:
        """An argument for the graph, with tensors for arrays."""
        vm = self.vm
        obj = vm.observe(obj)
        if isinstance(obj, ArrayObject):
            return obj.tensor(vm)
        if obj.cls in (list, tuple):
            items = [self.in_graph(item) for item in abstract.iterate(vm, obj)]
            return ListObject(items) if obj.cls is list else TupleObject(items)
        if isinstance(obj, ConstObject) and isinstance(obj.value, numpy.generic):
            return vm.const(obj.constant(vm).item())
        if isinstance(obj.value, (type, numpy.dtype)) and obj.is_knowable():
            return vm.const(numpy.dtype(obj.constant(vm)).name)
        return obj

    def object_of(self, real: Any) -> ArrayObject | None:
        """The array that a stand-in stands for."""
        return next((obj for obj, made in self.arrays.values() if made is real and not obj.is_scalar), None)

    def argument(self, expected: Any) -> ArrayObject | None:
        """The argument that a function gives as its result; None where it is none. Breaks where that has been changed first: where it is for the result."""
        found = self.object_of(expected)
        if found is not None and self.name not in GIVE_ARGUMENT:
            self.refuse("an argument, which it has changed")
        return found

    def shares(self, array: Any) -> bool:
        """Whether an array lies in the memory of stand-ins."""
        return any(numpy.may_share_memory(array, buffer) for buffer in self.memory.values())

    def asked(self, call: Callable[[], Any]) -> Any:
        """What NumPy says to a call with stand-ins."""
        vm = self.vm
        if any(how not in ("ignore", "warn") for how in vm.guards.read(float_errors)):
            vm.unsupported(breaks.ArrayOperation(f"{self.name} where numpy.seterr() asks for more than warnings"))
        try:
            with warnings.catch_warnings(), numpy.errstate(all="ignore"):
                warnings.simplefilter("error")
                return call()
        except Exception as error:
            if type(error) in RAISED and not self.symbolic and all(type(arg) is str for arg in error.args):
                vm.raise_(type(error), *error.args)
            vm.unsupported(breaks.ArrayOperation(f"{self.name}, which raises {type(error).__name__}: {error}"))

    # What comes out.

    def result(self, found: Object, expected: Any) -> Object:
        """The arrays of what the graph gives, as NumPy would give them."""
        vm = self.vm
        if isinstance(expected, (list, tuple)) and type(expected) in (list, tuple):
            items = list(abstract.iterate(vm, found)) if found.cls in (list, tuple) else []
            if len(items) != len(expected):
                self.refuse("other results")
            made = [self.result(item, one) for item, one in zip(items, expected)]
            return ListObject(made) if type(expected) is list else TupleObject(made)
        found = vm.observe(found)
        if not isinstance(found, TensorObject) or (type(expected) is not numpy.ndarray and not isinstance(expected, numpy.generic)):
            self.refuse(f"a {classes.qualname(type(expected))}")
        same = self.argument(expected)
        if same is not None:
            return same
        read_only = isinstance(expected, numpy.ndarray) and not expected.flags.writeable
        depends_on_data = any(is_unbacked(size) for size in found.look(vm).shape)
        form = self.as_expected(found, expected)
        return ArrayObject(type(expected), form, read_only=read_only, assumed=(expected.shape, expected.strides) if depends_on_data else None)

    def as_expected(self, found: TensorObject, expected: Any) -> TensorObject:
        """The tensor, or a copy that has the layout that NumPy gives, and memory of its own where NumPy gives some."""
        fake = found.look(self.vm)
        if TYPES.get(fake.dtype) != expected.dtype or fake.device.type != "cpu":
            self.refuse(f"{expected.dtype.name}, and torch gives {fake.dtype} on {fake.device}")
        if any(is_unbacked(size) for size in fake.shape):
            return self.of_some_size(found, expected)
        shape = tuple(map(hint, fake.shape))
        is_laid_out = all(size == 1 or hint(own) * expected.itemsize == other for size, own, other in zip(shape, fake.stride(), expected.strides))
        if shape != expected.shape:
            self.refuse(f"the shape {expected.shape}, and torch gives {shape}")
        is_view = fake.untyped_storage()._cdata in self.memory
        is_expected_view = isinstance(expected, numpy.ndarray) and self.shares(expected)
        if expected.size == 0:
            is_laid_out, is_view = True, is_view and is_expected_view
        elif is_expected_view and not (is_view and is_laid_out):
            self.refuse("a view of its argument")
        if not is_laid_out:
            return self.laid_out(found, expected)
        return self.copied(torch.clone, [found]) if is_view and not is_expected_view else found

    def of_some_size(self, found: TensorObject, expected: Any) -> TensorObject:
        """A tensor with sizes that depend on data, which are taken to be those of NumPy's result."""
        fake = found.look(self.vm)
        fits = len(fake.shape) == len(expected.shape) and all(is_unbacked(own) or hint(own) == size for own, size in zip(fake.shape, expected.shape))
        if not fits or expected.copy("K").strides != expected.strides or self.shares(expected) or fake.untyped_storage()._cdata in self.memory:
            self.vm.unsupported(breaks.DataDependent(f"the shape that {self.name} gives"))
        return found if expected.flags.c_contiguous else self.laid_out(found, expected)

    def laid_out(self, found: TensorObject, expected: Any) -> TensorObject:
        """A copy with the layout of NumPy's result."""
        order = sorted(range(expected.ndim), key=lambda dim: -expected.strides[dim])
        return self.copied(arrayfunctions.numpy_laid_out, [found, self.vm.const(tuple(order))])

    def copied(self, target: Target, args: Sequence[Object]) -> TensorObject:
        found = enter(self.vm, target, args)
        assert isinstance(found, TensorObject)
        return found

    def entered(self, target: Target, args: Sequence[Object], kwargs: dict[str, Object] = EMPTY) -> Object:
        """What the graph gives. What tensors don't take, or raise at, NumPy does."""
        found = self.vm.attempt(lambda: enter(self.vm, target, args, kwargs))
        if found is None:
            self.vm.unsupported(breaks.ArrayOperation(f"{self.name} with these arguments"))
        assert isinstance(found, Object)
        return found

    def type_of(self, expected: Any) -> numpy.dtype[Any]:
        """The type of a result. Breaks where torch has none."""
        dtype = getattr(expected, "dtype", None)
        if not isinstance(dtype, numpy.dtype) or dtype.char not in KNOWN:
            self.refuse(f"a {classes.qualname(type(expected))}" if dtype is None else str(dtype))
        return dtype

    def refuse(self, what: str) -> NoReturn:
        """NumPy gives what torch doesn't."""
        self.vm.unsupported(breaks.ArrayOperation(f"{self.name}, which gives {what}"))


def refused(vm: VM, name: str, operands: Operands) -> None:
    """Break where a function's values are others for types among its arguments."""
    never = NEVER.get(name)
    if never is not None:
        for obj, _ in operands.arrays.values():
            dtype = obj.dtype(vm)
            if dtype.char in never:
                vm.unsupported(breaks.ArrayOperation(f"{name} of {dtype.name}, which torch computes otherwise"))


def has_array(vm: VM, obj: Object) -> bool:
    """Whether a value is an array, or a list, tuple or slice with one inside."""
    obj = vm.observe(obj)
    if isinstance(obj, ArrayObject):
        return True
    if obj.cls in (list, tuple):
        return any(has_array(vm, item) for item in abstract.iterate(vm, obj))
    return isinstance(obj, SliceObject) and any(has_array(vm, part) for part in obj.parts())


def call_function(
    vm: VM,
    name: str,
    function: Callable[..., Any],
    args: Sequence[Object],
    kwargs: dict[str, Object],
    target: Target | None = None,
    for_graph: Sequence[Object] | None = None,
) -> Object:
    """A call of one of NumPy's functions, or of a method, with arrays among the arguments. `target`: what computes it, if not the function of that name;
    `for_graph`: the arguments that that takes, if they are others."""
    operands = Operands(vm, name)
    try:
        real_args = [operands.real(arg) for arg in args]
        real_kwargs = {key: operands.real(arg) for key, arg in kwargs.items()}
    except NotConstant as needed:
        vm.unsupported(breaks.ArrayOperation(f"{name} on {needed.obj!r}"))
    refused(vm, name, operands)
    expected = operands.asked(lambda: function(*real_args, **real_kwargs))
    given = {key: arg for key, arg in kwargs.items() if key not in IGNORED}
    out = kwargs.get("out")
    if out is not None and vm.observe(out).cls is not type(None):
        return stored(vm, operands, vm.observe(out), call_function(vm, name, function, args, given, target, for_graph), True)
    same = operands.argument(expected)
    if same is not None:
        return same
    if name not in ANY_ORDER and vm.observe(kwargs.get("order", vm.const("C"))).constant(vm) != "C":
        operands.refuse("the elements in another order")
    target = FUNCTIONS[name] if target is None else target
    graph_kwargs = {} if for_graph is not None else {key: operands.in_graph(arg) for key, arg in given.items()}
    if takes_type(target):
        graph_kwargs["result"] = vm.const(TORCH_TYPES[operands.type_of(expected)])
    return operands.result(operands.entered(target, [operands.in_graph(arg) for arg in (args if for_graph is None else for_graph)], graph_kwargs), expected)


@functools.cache
def takes_type(target: Target) -> bool:
    """Whether a target is told the type of the result."""
    return getattr(target, "__module__", None) == arrayfunctions.__name__ and "result" in inspect.signature(target).parameters


def stored(vm: VM, operands: Operands, out: Object, found: Object, is_reduced: bool = False) -> Object:
    """Put what a call gives into the array that it has been given for it. `is_reduced`: the function may compute in the type of that array."""
    if out.cls is tuple:
        (out,) = [vm.observe(item) for item in abstract.iterate(vm, out)]
    if not isinstance(out, ArrayObject) or not isinstance(found, ArrayObject) or out.backwards:
        operands.refuse("its result in something other than an array, or backwards")
    if is_reduced and out.dtype(vm) != found.dtype(vm):
        operands.refuse("its result in another type, in which it computes")
    enter(vm, torch.Tensor.copy_, [out.tensor(vm), found.tensor(vm)])
    return out


def call_ufunc(vm: VM, ufunc: Any, args: Sequence[Object], kwargs: dict[str, Object] = EMPTY, through: Callable[..., Any] | None = None) -> Object:
    """A call of a universal function with arrays among the arguments, or of an operator (`through`) that stands for it."""
    name = ufunc.__name__
    target = UFUNCS.get(ufunc)
    if target is None or not set(kwargs) <= {"out", "dtype"}:
        vm.unsupported(breaks.ArrayOperation(f"numpy.{name}" + (f" with {', '.join(kwargs)}" if target is not None else "")))
    operands = Operands(vm, name)
    args = [from_list(vm, arg) for arg in args]
    try:
        reals = [operands.real(arg) for arg in args]
        real_kwargs = {key: operands.real(arg) for key, arg in kwargs.items()}
    except NotConstant as needed:
        vm.unsupported(breaks.ArrayOperation(f"numpy.{name} on {needed.obj!r}"))
    refused(vm, name, operands)
    inputs = reals[: ufunc.nin]
    expected = operands.asked(lambda: (through or ufunc)(*reals, **real_kwargs))
    dtype = real_kwargs.get("dtype")
    how = {} if dtype is None else {"signature": (*[None] * ufunc.nin, numpy.dtype(dtype))}
    loop = ufunc.resolve_dtypes((*map(kind_of, inputs), None), **how)
    if any(part.char not in KNOWN for part in loop):
        operands.refuse(f"{loop[-1].name}, computed in {loop[0].name}")
    never = NEVER.get(name, "")
    if any(part.char in never for part in loop[:-1]):
        vm.unsupported(breaks.ArrayOperation(f"numpy.{name} in {loop[0].name}, which torch computes otherwise"))
    if name == "power" and loop[0].kind in "iu" and not (isinstance(inputs[1], int) and inputs[1] >= 0):
        vm.unsupported(breaks.ArrayOperation("numpy.power of integers, whose exponents may be negative"))
    if name == "matmul":
        tensors = [converted(vm, operands, arg, real, part, False) for arg, real, part in zip(args, inputs, loop)]
    else:
        tensors = [converted(vm, operands, arg, real, part, ufunc in TAKE_NUMBERS) for arg, real, part in zip(args, inputs, loop)]
    found = operands.entered(target, tensors)
    out = kwargs.get("out") or (args[ufunc.nin] if len(args) > ufunc.nin else None)
    if out is None and operands.object_of(expected) is not None:  # an operator in place
        out = operands.object_of(expected)
    if out is not None:
        made = vm.observe(found)
        assert isinstance(made, TensorObject)
        return stored(vm, operands, vm.observe(out), ArrayObject(numpy.ndarray, made))
    return operands.result(found, expected)


def kind_of(real: Any) -> Any:
    """An operand as ufunc.resolve_dtypes takes it: of Python's numbers the type, which is weak."""
    if type(real) in (int, float, complex):
        return type(real)
    return real.dtype if hasattr(real, "dtype") else numpy.dtype(type(real))


def from_list(vm: VM, obj: Object) -> Object:
    """An array where an operand is a list of constants."""
    obj = vm.observe(obj)
    if obj.cls not in (list, tuple):
        return obj
    if has_array(vm, obj):
        return call_function(vm, "array", numpy.array, [obj], EMPTY)
    return constant_array(vm, numpy.array(obj.as_real(vm)))


def converted(vm: VM, operands: Operands, obj: Object, real: Any, dtype: numpy.dtype[Any], as_number: bool) -> Object:
    """An operand in the type in which NumPy computes."""
    if isinstance(obj, ArrayObject):
        tensor = obj.tensor(vm)
        return tensor if obj.dtype(vm) == dtype else enter(vm, torch.Tensor.to, [tensor, vm.const(TORCH_TYPES[dtype])])
    is_symbolic = isinstance(obj, NumberObject) and obj.is_symbolic(vm)
    if is_symbolic and dtype.char not in "lfd":
        real, is_symbolic = obj.constant(vm), False
    number = obj if is_symbolic else vm.const(operands.asked(lambda: dtype.type(real)).item())
    if as_number:
        return number
    return enter(vm, torch.full, [TupleObject([]), number], {"dtype": vm.const(TORCH_TYPES[dtype]), "device": vm.const("cpu")})


def constant_array(vm: VM, real: Any) -> Object:
    """A new array of constants, or a constant that NumPy has computed of constants."""
    if not isinstance(real, numpy.ndarray):
        return vm.from_real(real)
    if type(real) is not numpy.ndarray or real.dtype.char not in KNOWN:
        vm.unsupported(breaks.ArrayOperation(f"an array of type {real.dtype.name}"))
    dtype = TORCH_TYPES[real.dtype]
    if real.size <= FEW and real.flags.c_contiguous and (real.dtype.kind != "c"):
        how = {"dtype": vm.const(dtype), "device": vm.const("cpu")}
        found = enter(vm, torch.tensor, [vm.from_real(real.tolist())], how)
    else:
        real = real.copy(order="K")
        tensor = torch.from_numpy(real)
        found = enter(vm, torch.clone, [vm.graph.input(vm.root_source.child(Pinned, tensor), tensor)])
    assert isinstance(found, TensorObject)
    return ArrayObject(numpy.ndarray, found)


# Indexing.


def parts_of(vm: VM, key: Object) -> list[Object]:
    """The parts of an index."""
    key = vm.observe(key)
    return [vm.observe(part) for part in abstract.iterate(vm, key)] if key.cls is tuple else [key]


def is_plain_part(part: Object) -> bool:
    """Whether a part of an index chooses no elements by an array."""
    return not isinstance(part, ArrayObject) and part.cls is not list and part.cls is not bool


def turned(vm: VM, array: ArrayObject, parts: list[Object]) -> tuple[list[Object], tuple[int, ...]]:
    """An index without negative steps, and the dimensions of the result in which it has had some."""
    taken = sum(part.cls not in (type(None), type(...)) for part in parts)
    dim, place, forwards, backwards = 0, 0, [], []
    for part in parts:
        if isinstance(part, SliceObject):
            step = vm.observe(part.step)
            if step.cls is int and step.constant(vm) < 0:
                part = forwards_slice(vm, part, array, dim)
                backwards.append(place)
        forwards.append(part)
        skipped = array.forwards(vm).look(vm).dim() - taken if part.cls is type(...) else 0
        dim += skipped + (part.cls not in (type(None), type(...)))
        place += skipped + (part.cls is slice or part.cls is type(None))
    return forwards, tuple(backwards)


def forwards_slice(vm: VM, part: SliceObject, array: ArrayObject, dim: int) -> SliceObject:
    """The elements that a slice with a negative step takes, from the first in memory on."""
    none = vm.const(None)
    taken = part.real(vm)
    if (taken.start, taken.stop, taken.step) == (None, None, -1):
        return SliceObject(none, none, none)
    chosen = range(*taken.indices(vm.graph.size(array.forwards(vm), dim).constant(vm)))[::-1]
    return SliceObject(vm.const(chosen.start), vm.const(chosen.stop), vm.const(chosen.step))


def getitem(vm: VM, array: ArrayObject, key: Object) -> Object:
    """array[key]"""
    parts = parts_of(vm, key)
    if any(isinstance(part, SliceObject) for part in parts) and all(map(is_plain_part, parts)) and not array.backwards:
        forwards, backwards = turned(vm, array, parts)
        if backwards:
            found = getitem(vm, array, TupleObject(forwards))
            assert isinstance(found, ArrayObject)
            return ArrayObject(numpy.ndarray, found.form, read_only=found.read_only, backwards=backwards)
    target: Target = operator.getitem
    if not all(map(is_plain_part, parts)):
        target = arrayfunctions.numpy_index
    return call_function(vm, "getitem", operator.getitem, [array, TupleObject(parts)], EMPTY, target)


def setitem(vm: VM, array: ArrayObject, key: Object, value: Object) -> None:
    """array[key] = value"""
    parts = parts_of(vm, key)
    operands = Operands(vm, "setitem")
    value = vm.observe(value)
    if value.cls in (list, tuple):
        value = from_list(vm, value)
    try:
        where, what = tuple([operands.real(part) for part in parts]), operands.real(value)
    except NotConstant as needed:
        vm.unsupported(breaks.ArrayOperation(f"storing to an array, as index or value: {needed.obj!r}"))
    if array.backwards:
        vm.unsupported(breaks.ArrayOperation("storing to an array that runs backwards"))
    target = operands.stand_in(array)
    operands.asked(lambda: operator.setitem(target, where, what))
    chosen = [part for part in parts if not is_plain_part(part)]
    if chosen and isinstance(value, ArrayObject) and value.tensor(vm).look(vm).dim() > 0:
        vm.unsupported(breaks.ArrayOperation("storing several values where an array chooses the elements"))
    dtype = array.dtype(vm)
    if isinstance(value, ArrayObject):
        stored_value: Object = enter(vm, torch.Tensor.to, [value.tensor(vm), vm.const(TORCH_TYPES[dtype])])
    else:
        stored_value = vm.const(operands.asked(lambda: numpy.asarray(what).astype(dtype)).item())
    operands.entered(arrayfunctions.numpy_store, [array.tensor(vm), operands.in_graph(TupleObject(parts)), stored_value])
