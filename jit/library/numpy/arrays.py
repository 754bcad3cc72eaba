"""NumPy's arrays: their methods, operators and attributes, the functions that make arrays, and the conversions between arrays and tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from framejit import breaks
from framejit.guards.kinds import ValueIs
from framejit.objects.arrays import arrayfunctions
from framejit.objects.arrays.arraycall import call_changing, call_function, call_ufunc, constant_array
from framejit.objects.arrays.arrayflags import FlagsObject
from framejit.objects.arrays.arrayfunctions import Target
from framejit.objects.arrays.arrayindexing import flipped, getitem, setitem
from framejit.objects.arrays.arrayoperands import EMPTY, Operands, has_array, stays_symbolic
from framejit.objects.arrays.arrayrules import FUNCTIONS
from framejit.objects.arrays.ndarrayobject import TORCH_TYPES, ArrayObject, array_asked, array_of_tensor, tensor_of_array
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.core.registry import Model, around, models
from framejit.objects.tensors.tensorobject import TensorObject, needs_data, tensor_tolist
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.bufferobject import BUFFERS
from framejit.objects.types.constobject import SCALARS
from framejit.objects.types.iteratorfields import OF_THEIR_OWN, FieldIterator
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import support

OWNERS: tuple[type, ...] = (
    numpy.ndarray,
    *{base for code in "?bhilqBHILQefdgFDG" for base in numpy.dtype(code).type.__mro__ if issubclass(base, numpy.generic)},
)
"""Arrays, and the classes of NumPy's scalars, which have the same methods."""


def on_arrays(name: str, model: Callable[..., Object]) -> None:
    """Register a model of a method or attribute for arrays and computed scalars. Other values go to its own model."""
    for owner in OWNERS:
        descriptor = vars(owner).get(name)
        if descriptor is not None:
            around(descriptor)(with_constants(descriptor, model))


def with_constants(descriptor: Any, model: Callable[..., Object]) -> Callable[..., Object]:
    """The function called around the model of a method, which is for constants: if an array is given, it calls `model` instead."""

    def called(vm: VM, self: Object, *args: Object, own: Model | None, **kwargs: Object) -> Object:
        self = vm.observe(self)
        if isinstance(self, ArrayObject) or any(has_array(vm, arg) for arg in args):
            return model(vm, self, *args, **kwargs)
        if own is not None:
            return own(vm, self, *args, **kwargs)
        return on_constants(vm, descriptor.__name__, descriptor.__get__ if not callable(descriptor) else descriptor, [self, *args], kwargs)

    return called


def on_constants(vm: VM, name: str, function: Callable[..., Any], args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
    """The result of NumPy for constants: a constant, or a new array."""
    try:
        real_args = [vm.observe(arg).as_real(vm) for arg in args]
        real_kwargs = {key: vm.observe(arg).as_real(vm) for key, arg in kwargs.items()}
    except NotConstant as needed:
        vm.unsupported(breaks.UnsupportedCall(f"numpy.{name} on {needed.obj!r}"))
    try:
        with numpy.errstate(all="raise"):
            found = function(*real_args, **real_kwargs)
    except FloatingPointError as error:
        vm.unsupported(breaks.UnsupportedOperation(f"numpy.{name}: {error}"))
    except Exception as error:
        vm.raise_(type(error), *error.args)
    for value in (*real_args, *real_kwargs.values()):
        if shares_memory(found, value):
            vm.unsupported(breaks.UnsupportedCall(f"numpy.{name}, whose result shares memory with a {type(value).__name__}"))
    return of_constants(vm, name, found)


def shares_memory(found: Any, value: Any) -> bool:
    """Return whether a result of NumPy, or an item of it, is an array in the memory of a bytearray or array.array."""
    if isinstance(found, (list, tuple)):
        return any(shares_memory(item, value) for item in found)
    return isinstance(value, BUFFERS) and isinstance(found, numpy.ndarray) and numpy.may_share_memory(found, numpy.frombuffer(value, numpy.uint8))


def of_constants(vm: VM, name: str, found: Any) -> Object:
    """The Object of a result that NumPy has computed from constants."""
    if isinstance(found, numpy.ndarray):
        return constant_array(vm, found)
    if type(found) in (list, tuple):
        items = [of_constants(vm, name, item) for item in found]
        return vm.from_real(items) if type(found) is list else TupleObject(items)
    if isinstance(found, (numpy.dtype, type)):
        return vm.const(found)
    if not isinstance(found, numpy.generic) and type(found) not in SCALARS:
        vm.unsupported(breaks.UnsupportedCall(f"numpy.{name}, which returns a {type(found).__name__}"))
    return vm.from_real(found)


# Operators.


def is_number(vm: VM, obj: Object) -> bool:
    """Return whether NumPy accepts a value as an operand without calling any of its methods."""
    obj = vm.observe(obj)
    if isinstance(obj, ArrayObject) or obj.cls in (bool, int, float, complex, list, tuple):
        return True
    return issubclass(obj.cls, numpy.generic)


def binary_slot(name: str, ufunc: Any, through: Callable[..., Any], swapped: bool) -> None:
    def model(vm: VM, self: Object, other: Object, *modulo: Object) -> Object:
        if modulo or not is_number(vm, other):
            vm.unsupported(breaks.ArrayOperation(f"{name} of an array and {vm.observe(other)!r}"))
        return call_ufunc(vm, ufunc, [other, self] if swapped else [self, other], EMPTY, through)

    on_arrays(name, model)


def unary_slot(name: str, ufunc: Any, through: Callable[..., Any]) -> None:
    on_arrays(name, lambda vm, self: call_ufunc(vm, ufunc, [self], EMPTY, through))


UFUNC_OF: dict[str, Any] = {
    "+": numpy.add, "-": numpy.subtract, "*": numpy.multiply, "/": numpy.true_divide, "//": numpy.floor_divide, "%": numpy.remainder, "**": numpy.power,
    "@": numpy.matmul, "<<": numpy.left_shift, ">>": numpy.right_shift, "&": numpy.bitwise_and, "|": numpy.bitwise_or, "^": numpy.bitwise_xor,
    "<": numpy.less, "<=": numpy.less_equal, "==": numpy.equal, "!=": numpy.not_equal, ">": numpy.greater, ">=": numpy.greater_equal,
}  # fmt: skip
for _symbol, (_left, _right, _real) in (*operators.BINARY.items(), *operators.COMPARE.items()):
    binary_slot(_left, UFUNC_OF[_symbol], _real, swapped=False)
    if _symbol in operators.BINARY:
        binary_slot(_right, UFUNC_OF[_symbol], _real, swapped=True)
for _symbol, _name in operators.INPLACE.items():
    binary_slot(_name, UFUNC_OF[_symbol[:-1]], operators.INPLACE_REAL[_symbol], swapped=False)
for _name, _ufunc in (("neg", numpy.negative), ("pos", numpy.positive), ("invert", numpy.invert), ("abs", numpy.absolute)):
    unary_slot(f"__{_name}__", _ufunc, getattr(operator, _name))


def divide(name: str, swapped: bool) -> None:
    """Register the slots of divmod()."""

    def model(vm: VM, self: Object, other: Object) -> Object:
        if not is_number(vm, other):
            vm.unsupported(breaks.ArrayOperation(f"{name} of an array and {vm.observe(other)!r}"))
        return call_ufunc(vm, numpy.divmod, [other, self] if swapped else [self, other])

    on_arrays(name, model)


divide("__divmod__", swapped=False)
divide("__rdivmod__", swapped=True)

# Attributes.


def shape_of(vm: VM, self: ArrayObject) -> TupleObject:
    return TupleObject(self.sizes(vm))


def size_of(vm: VM, self: ArrayObject) -> Object:
    total = vm.const(1)
    for size in self.sizes(vm):
        total = operators.binary_op(vm, "*", total, size)
    return total


def strides_of(vm: VM, self: ArrayObject) -> tuple[int, ...]:
    """The strides. Breaks if they depend on sizes that vary, or aren't known."""
    fake = self.forwards(vm).look(vm)
    if any(type(size) is not int or size < 2 for size in fake.shape):
        vm.unsupported(breaks.ArrayOperation(".strides of an array whose sizes vary, or aren't greater than 1"))
    itemsize = self.dtype(vm).itemsize
    return tuple([-stride * itemsize if dim in self.backwards else stride * itemsize for dim, stride in enumerate(fake.stride())])


def viewed(name: str, target: Target) -> Callable[..., Object]:
    """The model of an attribute that is an array."""
    return lambda vm, self: call_function(vm, name, f"attribute({name!r})", [self], EMPTY, target)


def kept_from(name: str) -> Callable[..., Object]:
    """The model of an attribute that needs more than an array's tensor: it breaks."""
    return lambda vm, self, *args, **kwargs: vm.unsupported(breaks.ArrayOperation(f".{name} of an array"))


on_arrays("shape", shape_of)
on_arrays("size", size_of)
on_arrays("ndim", lambda vm, self: vm.const(len(self.sizes(vm))))
on_arrays("dtype", lambda vm, self: vm.const(self.dtype(vm)))
on_arrays("itemsize", lambda vm, self: vm.const(self.dtype(vm).itemsize))
on_arrays("nbytes", lambda vm, self: operators.binary_op(vm, "*", size_of(vm, self), vm.const(self.dtype(vm).itemsize)))
on_arrays("T", viewed("T", arrayfunctions.numpy_transpose))
on_arrays("real", viewed("real", arrayfunctions.numpy_real))
on_arrays("imag", viewed("imag", arrayfunctions.numpy_imag))
on_arrays("strides", lambda vm, self: vm.const(strides_of(vm, self)))
on_arrays("flags", lambda vm, self: FlagsObject(self))
for _name in ("base", "ctypes", "data", "flat", "__array_interface__", "__array_struct__"):
    on_arrays(_name, kept_from(_name))


# Methods.


def as_method(name: str, target: Target, function_name: str, given: Callable[..., Sequence[Object]] | None = None) -> None:
    """Register a method that `target` computes. `given`: selects the arguments that this takes."""
    call = f"method({name!r})"

    def model(vm: VM, self: Object, *args: Object, **kwargs: Object) -> Object:
        for_graph = None if given is None else given(vm, self, *args)
        return call_function(vm, function_name, call, [self, *args], kwargs, target, for_graph)

    on_arrays(name, model)


SAME_AS_FUNCTIONS = (
    "sum", "prod", "mean", "std", "var", "max", "min", "argmax", "argmin", "all", "any", "cumsum", "cumprod", "round", "clip", "take", "repeat", "squeeze",
    "swapaxes", "ravel", "trace", "diagonal", "dot", "searchsorted", "argsort", "reshape", "ptp",
)
"""Methods that take the same arguments as the functions of their names take after the array."""
for _name in SAME_AS_FUNCTIONS:
    as_method(_name, FUNCTIONS[_name], _name)
as_method("astype", arrayfunctions.numpy_astype, "astype", lambda vm, self, *how: [self])
as_method("copy", arrayfunctions.numpy_copy, "copy", lambda vm, self, *how: [self])
as_method("__copy__", arrayfunctions.numpy_copy, "copy", lambda vm, self, *how: [self])
as_method("view", arrayfunctions.numpy_same, "view", lambda vm, self, *how: [self])
as_method("flatten", arrayfunctions.numpy_ravel, "flatten")
as_method(
    "transpose", arrayfunctions.numpy_transpose, "transpose",
    lambda vm, self, *axes: [self, TupleObject(list(axes))] if len(axes) > 1 or (axes and vm.observe(axes[0]).cls is int) else [self, *axes],
)  # fmt: skip
for _name in ("nonzero", "argpartition", "choose", "compress"):
    on_arrays(_name, lambda vm, self, *args, name=_name, **kwargs: call_function(vm, name, f"method({name!r})", [self, *args], kwargs))
for _name in ("partition", "put"):
    on_arrays(_name, lambda vm, self, *args, name=_name, **kwargs: call_changing(vm, name, f"method({name!r})", [self, *args], kwargs))


def conjugate(vm: VM, self: ArrayObject) -> Object:
    """An array of real numbers is its own conjugate. For a scalar a new one is returned, since identity doesn't matter there."""
    if self.is_scalar or self.dtype(vm).kind == "c":
        return call_ufunc(vm, numpy.conjugate, [self], EMPTY, numpy.conjugate)
    return self


for _name in ("conj", "conjugate"):
    on_arrays(_name, conjugate)


def sort(vm: VM, self: ArrayObject, *args: Object, **kwargs: Object) -> Object:
    """ndarray.sort, which sorts in place."""
    found = call_function(vm, "sort", "numpy.sort", [self, *args], kwargs)
    assert isinstance(found, ArrayObject)
    setitem(vm, self, vm.const(...), found)
    return vm.const(None)


def rounded(vm: VM, self: ArrayObject, *digits: Object) -> Object:
    """round(): with a number of digits the result is a NumPy scalar, without one an int."""
    if not digits or vm.observe(digits[0]).cls is type(None):
        vm.unsupported(needs_data("round"))
    return call_function(vm, "round", "method('round')", [self, *digits], EMPTY)


def fill(vm: VM, self: ArrayObject, value: Object) -> Object:
    setitem(vm, self, vm.const(...), value)
    return vm.const(None)


def item(vm: VM, self: ArrayObject, *index: Object) -> Object:
    """One element as a Python number."""
    for part in map(vm.observe, index):
        if part.cls is float:
            vm.raise_(TypeError, "'float' object cannot be interpreted as an integer")
    if index:
        found = getitem(vm, self, TupleObject(list(index)) if len(index) > 1 else index[0])
        return found.number(vm) if isinstance(found, ArrayObject) else found
    return self.number(vm)


on_arrays("sort", sort)
on_arrays("__round__", rounded)
on_arrays("fill", fill)
on_arrays("item", item)
on_arrays("tolist", lambda vm, self: tensor_tolist(vm, self.tensor(vm)))
for _name in ("__float__", "__int__", "__bool__", "__index__"):
    on_arrays(_name, lambda vm, self, name=_name: self.number(vm, name))
on_arrays("__getitem__", getitem)


def store(vm: VM, self: ArrayObject, key: Object, value: Object) -> Object:
    setitem(vm, self, key, value)
    return vm.const(None)


on_arrays("__setitem__", store)


def iterator(vm: VM, self: ArrayObject) -> Object:
    """An iterator that asks for the items by number, each when it is reached: a row is a view, an element is a copy (arrayobject.c: array_iter)."""
    if not self.sizes(vm):
        vm.raise_(TypeError, "iteration over a 0-d array")
    abstract.reject_many(vm, self, self.length(vm).constant(vm))
    return vm.call_app(support.iterator_by_number, [self])


class NumberedItems(FieldIterator):
    """An iterator that asks for items by number. For an array, its length says where it ends, and not an exception of NumPy."""

    __slots__ = ()

    def next(self, vm: VM) -> Object | None:
        sequence, index = self.get(vm, "seq"), self.get(vm, "index")
        sequence = None if sequence is None else vm.observe(sequence)
        if not isinstance(sequence, ArrayObject):
            return super().next(vm)
        assert index is not None
        number = vm.observe(index).constant(vm)
        if number >= sequence.length(vm).constant(vm):
            self.set(vm, "seq", None)
            return None
        item = getitem(vm, sequence, vm.const(number))
        self.set(vm, "index", vm.const(number + 1))
        return item


OF_THEIR_OWN[support.SequenceIterator] = NumberedItems
on_arrays("__len__", lambda vm, self: self.length(vm))
on_arrays("__iter__", iterator)


# Functions that make arrays.


def tensors_as_arrays(vm: VM, args: Sequence[Object]) -> list[Object]:
    """Replace tensors by arrays: np.asarray(tensor) is the array of its memory."""
    seen = [vm.observe(arg) for arg in args]
    return [array_asked(vm, arg) if isinstance(arg, TensorObject) else arg for arg in seen]


def of_values(function: Callable[..., Any], name: str) -> None:
    """Register np.array, np.asarray or a similar function."""

    @models(function)
    def make(vm: VM, value: Object, *args: Object, **kwargs: Object) -> Object:
        value, *rest = tensors_as_arrays(vm, [value, *args])
        if isinstance(value, ArrayObject):
            is_copy = name == "array" and not ("copy" in kwargs and not vm.observe(kwargs["copy"]).constant(vm))
            return call_function(vm, name, f"numpy.{name}", [value, *rest], kwargs, arrayfunctions.numpy_astype if is_copy or rest or "dtype" in kwargs else
                                 arrayfunctions.numpy_same, [value])  # fmt: skip
        if has_array(vm, value):
            return call_function(vm, name, f"numpy.{name}", [value, *rest], kwargs, arrayfunctions.numpy_array, [value])
        return on_constants(vm, name, function, [value, *rest], kwargs)


for _name in ("array", "asarray", "asanyarray", "ascontiguousarray"):
    of_values(getattr(numpy, _name), _name)


def filled(function: Callable[..., Any], name: str, value: Any) -> None:
    """Register np.zeros or a similar function, whose sizes may be symbolic."""

    @models(function)
    def make(vm: VM, shape: Object, *args: Object, **kwargs: Object) -> Object:
        if any(has_array(vm, arg) for arg in (*args, *kwargs.values())) and not has_array(vm, shape):
            return call_function(vm, name, f"numpy.{name}", [shape, *args], kwargs)
        if has_array(vm, shape):
            vm.unsupported(breaks.ArrayOperation(f"numpy.{name} of numbers in an array"))
        operands = Operands(vm, name)
        real, real_kwargs = operands.reals((shape, *args), kwargs)
        expected = operands.asked(lambda: function(*real, **real_kwargs))
        dtype = TORCH_TYPES[operands.type_of(expected)]
        sizes = shape if vm.observe(shape).cls in (list, tuple, torch.Size) else TupleObject([shape])
        how = {"dtype": vm.const(dtype), "device": vm.const("cpu")}
        if name == "full":
            fill_value = real_kwargs.get("fill_value", real[1] if len(real) > 1 else None)
            given = vm.observe(kwargs["fill_value"] if "fill_value" in kwargs else args[0])
            is_symbolic = stays_symbolic(vm, given, expected.dtype)
            number = given if is_symbolic else vm.const(operands.asked(lambda: numpy.asarray(fill_value).astype(expected.dtype)).item())
            return operands.result(enter(vm, torch.full, [sizes, number], how), expected)
        return operands.result(enter(vm, torch.ones if value else torch.zeros, [sizes], how), expected)


for _name, _value in (("zeros", 0), ("ones", 1), ("empty", 0), ("full", None)):
    filled(getattr(numpy, _name), _name, _value)


@models(numpy.arange)
def arange(vm: VM, *args: Object, **kwargs: Object) -> Object:
    if not any(vm.observe(arg).is_symbolic(vm) for arg in args):
        return on_constants(vm, "arange", numpy.arange, args, kwargs)
    if kwargs or not all(vm.observe(arg).cls is int for arg in args):
        return on_constants(vm, "arange", numpy.arange, args, kwargs)
    operands = Operands(vm, "arange")
    real = [operands.real(arg) for arg in args]
    expected = operands.asked(lambda: numpy.arange(*real))
    if not expected.size:  # torch takes no range that runs away from its end
        return on_constants(vm, "arange", numpy.arange, args, kwargs)
    return operands.result(operands.entered(torch.arange, args, {"device": vm.const("cpu")}), expected)


def constructor(function: Callable[..., Any], name: str) -> None:
    @models(function)
    def make(vm: VM, *args: Object, **kwargs: Object) -> Object:
        if any(has_array(vm, arg) for arg in (*args, *kwargs.values())):
            vm.unsupported(breaks.ArrayOperation(f"numpy.{name} of numbers in an array"))
        return on_constants(vm, name, function, args, kwargs)


for _name in ("eye", "identity", "tri", "indices", "hanning", "hamming", "blackman", "bartlett", "kaiser", "fft.fftfreq", "fft.rfftfreq"):
    constructor(operator.attrgetter(_name)(numpy), _name)


def by_index(maker: Any) -> None:
    """Register numpy.r_ or a similar object, which makes arrays from its index."""
    function = next(vars(cls)["__getitem__"] for cls in type(maker).__mro__ if "__getitem__" in vars(cls))
    names = {id(getattr(numpy, name)): name for name in ("r_", "c_", "mgrid", "ogrid")}

    @models(function)
    def make(vm: VM, self: Object, key: Object) -> Object:
        name = names.get(id(self.value))
        if name is None or self.source is None:
            vm.unsupported(breaks.ArrayOperation(f"an index of a {self.type_name}"))
        vm.guard(ValueIs, self.source, self.value)
        if has_array(vm, key):
            return call_function(vm, name, f"numpy.{name}.__getitem__", [key], EMPTY)
        return on_constants(vm, name, getattr(numpy, name).__getitem__, [key], {})


by_index(numpy.r_)
by_index(numpy.mgrid)

# Arrays that run backwards.


def axes_of(vm: VM, function: Callable[..., Any], array: ArrayObject, *args: Object) -> list[Any]:
    """Arguments as constants that NumPy accepts."""
    operands = Operands(vm, function.__name__)
    stand_in, reals = operands.stand_in(array), [vm.observe(arg).as_real(vm) for arg in args]
    operands.asked(lambda: function(stand_in, *reals))
    return reals


@models(numpy.flip)
def flip(vm: VM, m: Object, axis: Object | None = None) -> Object:
    m = vm.observe(m)
    args = [] if axis is None else [axis]
    if not isinstance(m, ArrayObject):
        return on_constants(vm, "flip", numpy.flip, [m, *args], {})
    reals = axes_of(vm, numpy.flip, m, *args)
    if not m.sizes(vm):
        return getitem(vm, m, vm.const(()))
    chosen = reals[0] if reals and reals[0] is not None else range(len(m.sizes(vm)))
    return flipped(vm, m, [chosen] if isinstance(chosen, int) else list(chosen))


def flips(function: Callable[..., Any], dim: int) -> None:
    @models(function)
    def model(vm: VM, m: Object) -> Object:
        m = vm.observe(m)
        if not isinstance(m, ArrayObject):
            return on_constants(vm, function.__name__, function, [m], {})
        axes_of(vm, function, m)
        return flipped(vm, m, [dim])


flips(numpy.flipud, 0)
flips(numpy.fliplr, 1)


@models(numpy.rot90)
def rot90(vm: VM, m: Object, k: Object | None = None, axes: Object | None = None) -> Object:
    """The dimensions are first swapped and then reversed, so that the result is a view of the array."""
    m = vm.observe(m)
    times, plane = k or vm.const(1), axes or vm.const((0, 1))
    if not isinstance(m, ArrayObject):
        return on_constants(vm, "rot90", numpy.rot90, [m, times, plane], {})
    turns, (first, second) = axes_of(vm, numpy.rot90, m, times, plane)
    if turns % 2 == 0:
        return flipped(vm, m, [first, second]) if turns % 4 else getitem(vm, m, vm.const(slice(None)))
    swapped = call_function(vm, "swapaxes", "numpy.swapaxes", [m, vm.const(first), vm.const(second)], EMPTY)
    assert isinstance(swapped, ArrayObject)
    return flipped(vm, swapped, [first if turns % 4 == 1 else second])


# Predicates of arrays.


@models(numpy.shape)
def shape(vm: VM, a: Object) -> Object:
    a = vm.observe(a)
    return shape_of(vm, a) if isinstance(a, ArrayObject) else on_constants(vm, "shape", numpy.shape, [a], {})


@models(numpy.ndim)
def ndim(vm: VM, a: Object) -> Object:
    a = vm.observe(a)
    return vm.const(len(a.sizes(vm))) if isinstance(a, ArrayObject) else on_constants(vm, "ndim", numpy.ndim, [a], {})


@models(numpy.broadcast_shapes)
def broadcast_shapes(vm: VM, *shapes: Object) -> Object:
    return on_constants(vm, "broadcast_shapes", lambda *args: tuple(map(int, numpy.broadcast_shapes(*args))), shapes, {})


# Tensors and arrays.


@models(torch.from_numpy)
def from_numpy(vm: VM, array: Object) -> Object:
    array = vm.observe(array)
    if not isinstance(array, ArrayObject) or array.is_scalar or array.backwards or array.read_only:
        vm.unsupported(breaks.ArrayOperation(f"torch.from_numpy of {array!r}"))
    return tensor_of_array(vm, array)


@models(torch.Tensor.numpy)
def to_numpy(vm: VM, self: TensorObject, *, force: Object | None = None) -> Object:
    if force is not None and vm.observe(force).constant(vm):
        detached = enter(vm, torch.Tensor.detach, [self])
        assert isinstance(detached, TensorObject)
        return array_of_tensor(vm, detached)
    return array_of_tensor(vm, self)


@models(torch.Tensor.__array__)
def to_array(vm: VM, self: TensorObject, dtype: Object | None = None) -> Object:
    array = array_of_tensor(vm, self)
    if dtype is None:
        return array
    return call_function(vm, "astype", "method('astype')", [array, dtype], {"copy": vm.const(False)}, arrayfunctions.numpy_astype, [array])
