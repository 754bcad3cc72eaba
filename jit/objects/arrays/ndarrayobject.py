"""NumPy's arrays, and the NumPy scalars computed from them: tensors that share an array's memory stand for them in the graph.

An array from outside becomes an input when something asks for more than its type: the tensor that torch.from_numpy makes of it is guarded. What the
program does with arrays is done with tensors (arraycall.py); values that leave the trace become arrays again.
"""

from __future__ import annotations

from typing import Any

import numpy
import torch

from framejit import breaks
from framejit.errors import CHECK_FAILED
from framejit.guards.kinds import Equals
from framejit.guards.source import MISSING, CAttr, Source
from framejit.guards.tensor_source import TO_TELL_APART, ArrayTensor, tensor_of
from framejit.objects.arrays import arrayfunctions
from framejit.objects.arrays.arrayrules import KNOWN, UNSIGNED
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Codegen, NotConstant, Object
from framejit.objects.core.registry import wrapper_for, wraps
from framejit.objects.tensors.tensorobject import TensorObject, needs_data, number_out_of
from framejit.objects.tensors.torchcall import enter
from framejit.torch_state.torch_classes import PLAIN_TENSORS

TYPES: dict[torch.dtype, numpy.dtype[Any]] = {torch.from_numpy(numpy.empty(0, code)).dtype: numpy.dtype(code) for code in sorted(KNOWN | set(UNSIGNED))}
"""NumPy's types, by torch's."""
TORCH_TYPES = {numpy_type: torch_type for torch_type, numpy_type in TYPES.items()}


class ArrayObject(Object):
    """An array, or a NumPy scalar that the graph computes; in that case `cls` is its type. `form`: the tensor that has its data; None until more than its type
    is asked of an array from outside. `read_only`: it may not be written to. `backwards`: the dimensions in which it runs backwards through `form`, as
    `array[::-1]` does, which no tensor can: operations get a copy. `assumed`: the shape and strides that NumPy is given for it
    if its sizes depend on data."""

    __slots__ = ("form", "read_only", "backwards", "assumed")
    depends_on_data = True

    def __init__(
        self,
        cls: type,
        form: TensorObject | None,
        source: Source | None = None,
        value: Any = MISSING,
        read_only: bool = False,
        backwards: tuple[int, ...] = (),
        assumed: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
    ) -> None:
        super().__init__(cls, source, value)
        self.form = form
        self.read_only = read_only
        self.backwards = backwards
        self.assumed = assumed

    @property
    def is_scalar(self) -> bool:
        """Return whether it is a NumPy scalar."""
        return self.cls is not numpy.ndarray

    def tensor(self, vm: VM) -> TensorObject:
        """A tensor with its elements. It shares its memory unless the array runs backwards. Breaks if torch has no such tensor."""
        if not self.backwards:
            return self.forwards(vm)
        found = enter(vm, torch.flip, [self.forwards(vm), vm.const(self.backwards)])
        assert isinstance(found, TensorObject)
        return found

    def forwards(self, vm: VM) -> TensorObject:
        """The tensor of its memory, in forward order."""
        if self.form is None:
            assert self.source is not None
            why = no_tensor_of(self.value)
            if why is not None:
                vm.unsupported(breaks.ForeignArray(self.source.name_in_reports(), why))
            made = vm.graph.input(self.source.child(ArrayTensor, self.read_only), tensor_of(self.value))
            assert isinstance(made, TensorObject)
            vm.trail.fill(self, "form", made)
            return made
        return self.form

    def read(self, vm: VM, name: str) -> Any:
        """An attribute of an array for which torch has no tensor, guarded by itself. MISSING if the tensor determines it."""
        if self.form is not None or self.source is None or no_tensor_of(self.value) is None:
            return MISSING
        found = getattr(self.value, name)
        vm.guard(Equals, self.source.child(CAttr, name), found)
        return found

    def sizes(self, vm: VM) -> list[Object]:
        """The array's shape, as numbers for the program."""
        known = self.read(vm, "shape")
        if known is not MISSING:
            return [vm.const(size) for size in known]
        tensor = self.forwards(vm)
        return [vm.graph.size(tensor, dim) for dim in range(tensor.look(vm).dim())]

    def length(self, vm: VM) -> Object:
        sizes = self.sizes(vm)
        return sizes[0] if sizes else vm.raise_(TypeError, "len() of unsized object")

    def dtype(self, vm: VM) -> numpy.dtype[Any]:
        return TYPES[self.forwards(vm).look(vm).dtype]

    def number(self, vm: VM, method: str = "item") -> Object:
        """Its one element as a Python number."""
        tensor = self.tensor(vm)
        if self.assumed is not None or any(size != 1 for size in tensor.look(vm).shape):
            vm.unsupported(breaks.ArrayOperation(f"{method}() of an array with several elements"))
        found = number_out_of(vm, tensor, method)
        return vm.unsupported(needs_data(method)) if found is None else found

    def truth(self, vm: VM) -> bool:
        return bool(self.number(vm, "__bool__").constant(vm))

    def check_truth(self, vm: VM, expected: bool, message: str = CHECK_FAILED) -> bool:
        tensor = self.tensor(vm)
        if self.assumed is not None or any(size != 1 for size in tensor.look(vm).shape):
            return False
        number = number_out_of(vm, tensor, "__bool__")
        return number is not None and number.check_truth(vm, expected, message)

    def hash_key(self, vm: VM) -> Any:
        vm.unsupported(breaks.ArrayOperation("the hash of an array"))

    def as_graph_argument(self, vm: VM) -> Any:
        """For torch, a NumPy scalar is a number. How torch treats an array depends on the function."""
        if not self.is_scalar:
            raise NotConstant(self)
        return self.number(vm).as_graph_argument(vm)

    # Leaving the trace.

    def reconstruct(self, cg: Codegen) -> None:
        assert self.form is not None
        cg.load(self.form)
        if self.is_scalar:
            cg.call_const(arrayfunctions.as_scalar, 1)
            return
        cg.call_const(arrayfunctions.as_read_only if self.read_only else arrayfunctions.as_array, 1)
        if self.backwards:
            cg.load_const(self.backwards)
            cg.call_const(numpy.flip, 2)

    def referents(self) -> list[Object]:
        return [] if self.source is not None or self.form is None else [self.form]


def no_tensor_of(array: numpy.ndarray[Any, Any]) -> str | None:
    """The reason why no tensor of torch can stand for an array's memory; None if one can."""
    dtype = array.dtype
    if dtype.kind == "O":
        return "an array of Python objects"
    if not dtype.isnative:
        return f"an array of {dtype.name} in the byte order of other machines"
    if dtype.char not in KNOWN and (dtype not in TORCH_TYPES or dtype.num in TO_TELL_APART):
        return f"an array of type {dtype.name}"
    if any(stride < 0 or stride % dtype.itemsize for stride in array.strides):
        return "an array that runs backwards through its memory" if min(array.strides) < 0 else "an array of fields of a larger one"
    if not array.flags.aligned:
        return "an array that is not aligned"
    return None


@wraps(numpy.ndarray, shared=True, separable=True)
def wrap_array(vm: VM, value: numpy.ndarray[Any, Any], source: Source) -> Object:
    """Wrap an array from outside. A subclass of ndarray has operators of its own."""
    if type(value) is not numpy.ndarray:
        return wrapper_for(object).wrap(vm, value, source)
    return ArrayObject(numpy.ndarray, None, source, value, read_only=not value.flags.writeable)


def tensor_of_array(vm: VM, array: ArrayObject) -> TensorObject:
    """Another tensor with the memory of an array."""
    found = enter(vm, torch.Tensor.detach, [array.tensor(vm)])
    assert isinstance(found, TensorObject)
    return found


def array_asked(vm: VM, tensor: TensorObject) -> ArrayObject:
    """The array that NumPy makes from a tensor with its `__array__`, which function modes and overrides see."""
    if not vm.graph.function_modes.asks_modes() and tensor.cls in PLAIN_TENSORS:
        return array_of_tensor(vm, tensor)
    found = vm.observe(abstract.call_method(vm, tensor, "__array__"))
    if not isinstance(found, ArrayObject):
        vm.unsupported(breaks.ArrayOperation(f"an __array__ that gives a {found.type_name}"))
    return found


def array_of_tensor(vm: VM, tensor: TensorObject) -> ArrayObject:
    """Tensor.numpy. Breaks if it raises."""
    fake = tensor.look(vm)
    if fake.requires_grad:
        vm.unsupported(breaks.ArrayOperation("numpy() of a tensor that requires a gradient"))
    if fake.device.type != "cpu" or fake.dtype not in TYPES or fake.is_conj() or fake.is_neg() or tensor.cls not in PLAIN_TENSORS:
        vm.unsupported(breaks.ArrayOperation(f"numpy() of a {fake.dtype} tensor on {fake.device}"))
    return ArrayObject(numpy.ndarray, tensor)
