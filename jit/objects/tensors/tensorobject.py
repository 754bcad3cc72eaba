"""Tensors: operators go into the graph, metadata is read from the fake tensor, and data is never known."""

from __future__ import annotations

from collections.abc import Callable
from types import GetSetDescriptorType
from typing import Any, NoReturn

import numpy
import torch
from torch import fx

from framejit import breaks
from framejit.errors import CHECK_FAILED
from framejit.guards.kinds import Equals, ValueIs
from framejit.guards.source import MISSING, CAttr, Source
from framejit.guards.tensor_source import TensorAttribute, attribute_of
from framejit.objects.core import abstract, operators, text
from framejit.objects.core.object import VM, Codegen, Object, fold
from framejit.objects.core.registry import Model, models, sets
from framejit.objects.numbers.unbackednumber import UnbackedNumber, converted
from framejit.objects.tensors.overrides import is_overridden
from framejit.objects.tensors.tensorkind import TensorKind, kind_of_class
from framejit.objects.tensors.torchcall import enter, torch_call
from framejit.objects.tensors.torchfunctions import TorchOperation, operation_of
from framejit.objects.tensors.torchobject import SizeObject
from framejit.objects.types.listobject import ListObject
from framejit.program import classes
from framejit.torch_state import torch_function_stack
from framejit.torch_state.torch_classes import as_class, store_data, store_grad

NOT_OPERANDS = (str, bytes, type(None), type(...), type)


class TensorObject(Object):
    """A tensor. `node` is its node in the graph; `fake` is the trace's knowledge of it, which has everything but the data.

    `grad` is the value that the traced program stored as `.grad`, `data` and `requires_grad` those that it stored to one from outside (MISSING: none).
    `retains`: it isn't a leaf, and keeps the gradient of a backward pass in the graph.
    """

    __slots__ = ("node", "grad", "data", "requires_grad", "retains")
    has_dict = True
    depends_on_data = True

    def __init__(self, node: fx.Node, cls: type, source: Source | None = None, value: Any = MISSING) -> None:
        self.cls = cls
        self.source = source
        self.value = value
        self.attrs = None
        self.node = node
        self.grad: Any = MISSING
        self.data: Any = MISSING
        self.requires_grad: Any = MISSING
        self.retains = False

    @property
    def kind(self) -> TensorKind:
        """The kind of tensors that its class is of."""
        return kind_of_class(self.cls)

    @property
    def fake(self) -> torch.Tensor:
        """The tensor without its data, as of the last `look`."""
        found: torch.Tensor = self.node.meta["example_value"]
        return found

    def look(self, vm: VM) -> torch.Tensor:
        """The tensor without its data, as it is now."""
        vm.graph.refresh()
        return self.fake

    def as_graph_argument(self, vm: VM) -> Any:
        return self.node

    def hash_key(self, vm: VM) -> Any:
        vm.graph.check_identity(self)
        return vm.tell_apart(self)

    # Attributes.

    def getattr(self, vm: VM, name: str) -> Object:
        if name == "__class__":
            return vm.const(self.cls)
        if self.source is None and name in self.fake.__dict__ and self.kind.stays_itself:
            return self.part(vm, name)
        raw = vm.raw_type_lookup(self.cls, name)
        read = operation_of(raw.__get__) if type(raw) is GetSetDescriptorType else None
        if read is not None:
            return self.operate(vm, read)
        if raw is MISSING or self.attrs is not None or (self.source is not None and name in self.value.__dict__):
            if self.source is None:
                vm.graph.check_identity(self)
            return Object.getattr(self, vm, name)
        found = vm.type_lookup(self.cls, name)
        assert found is not None
        return found.descriptor_get(vm, self, self.cls)

    def part(self, vm: VM, name: str) -> Object:
        """An attribute that a wrapper of tensors got from an operator's code."""
        value = self.look(vm).__dict__[name]
        if not isinstance(value, (torch.Tensor, torch.dtype, torch.device, int, float, str, bool, torch.SymInt, type(None))):
            vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(self.cls)}, of which an operator has made .{name}"))
        return enter(vm, getattr, [self, vm.const(name)])

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        if self.kind.stays_itself:
            vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(self.cls)}, of which .{name} is set"))
        raw = vm.raw_type_lookup(self.cls, name)
        if type(raw) is GetSetDescriptorType:
            store = operation_of(raw.__delete__ if value is None else raw.__set__)
            if store is None:
                vm.unsupported(breaks.UnsupportedOperation(f"storing to .{name} of a tensor"))
            self.operate(vm, store, *([] if value is None else [value]))
            return
        vm.graph.check_identity(self)
        Object.setattr(self, vm, name, value)

    # Operators.

    def operate(self, vm: VM, operation: TorchOperation, *others: Object) -> Object:
        """Run one of torch's operations on this tensor."""
        found = torch_call(vm, operation, [self, *others])
        if found is None:  # overridden, and written in Python
            return abstract.call(vm, vm.pin(operation.function), [self, *others])
        return found

    def special(self, vm: VM, name: str, *others: Object) -> Object | None:
        """Call a special method; None if the class doesn't have torch's, so that its own is called as any object's."""
        operation = self.method(vm, name)
        return None if operation is None else self.operate(vm, operation, *others)

    def method(self, vm: VM, name: str) -> TorchOperation | None:
        """The operation of a special method; None if a subclass overrides it. If the program has replaced torch.Tensor's own, nodes would call that."""
        operation = operation_of(vm.raw_type_lookup(self.cls, name))
        if operation is None and operation_of(vm.raw_type_lookup(torch.Tensor, name)) is None:
            vm.unsupported(breaks.UnsupportedOperation(f"{name} of a {classes.qualname(self.cls)}, which is not torch's own"))
        return operation

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        return self.special(vm, operators.UNARY[symbol][0])

    def goes_first(self, vm: VM, other: Object, reflected_name: str) -> bool:
        """Return whether the other operand is asked first, because its class is a subclass with a reflected method of its own."""
        if other.cls is self.cls or not isinstance(other, TensorObject) or not abstract.is_subtype(vm, other.cls, self.cls):
            return False
        return vm.raw_type_lookup(other.cls, reflected_name) is not vm.raw_type_lookup(self.cls, reflected_name)

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if not is_operand(other) or (reflected and isinstance(other, TensorObject)):  # a left operand that has a method of its own
            return None
        if reflected and other.cls in (str, bytes) and symbol in ("%", "%="):  # formatting a text asks no operand
            return None
        if symbol in operators.INPLACE:
            name = operators.INPLACE[symbol]
            if not reflected and vm.raw_type_lookup(self.cls, name) is not MISSING:
                return self.special(vm, name, other)
            symbol = symbol[:-1]  # nothing to change in place: the left operand is a number, or has no such method
        if not reflected and self.goes_first(vm, other, operators.BINARY[symbol][1]):
            return None
        return self.special(vm, method_name(operators.BINARY, symbol, reflected), other)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if not reflected and isinstance(other, TensorObject) and other.cls is not self.cls and abstract.is_subtype(vm, other.cls, self.cls):
            return other.compare(vm, symbol, self, True)
        method = self.method(vm, method_name(operators.COMPARE, symbol, reflected))
        if method is None or (reflected and isinstance(other, TensorObject) and not abstract.is_subtype(vm, self.cls, other.cls)):
            return None
        if other.cls in NOT_OPERANDS:
            if symbol == "==" or symbol == "!=":
                return vm.const(symbol == "!=")
            vm.unsupported(breaks.OperatorRaises(f"'{symbol}' of a tensor and a {classes.name(other.cls)}"))
        return self.operate(vm, method, other) if is_operand(other) else None

    def getitem(self, vm: VM, key: Object) -> Object | None:
        return self.special(vm, "__getitem__", key)

    def setitem(self, vm: VM, key: Object, value: Object | None) -> bool:
        if value is None:
            vm.unsupported(breaks.OperatorRaises("deleting an item of a tensor"))
        return self.special(vm, "__setitem__", key, value) is not None

    def contains(self, vm: VM, item: Object) -> Object | None:
        return self.special(vm, "__contains__", item)

    def truth(self, vm: VM) -> bool:
        found = self.special(vm, "__bool__")
        return Object.truth(self, vm) if found is None else bool(vm.observe(found).constant(vm))

    def check_truth(self, vm: VM, expected: bool, message: str = CHECK_FAILED) -> bool:
        operation = operation_of(vm.raw_type_lookup(self.cls, "__bool__"))
        if operation is None or getattr(self.look(vm), "constant", None) is not None or is_overridden(vm, operation, [self], {}):
            return False
        number = number_out_of(vm, self, "__bool__")
        return number is not None and number.check_truth(vm, expected, message)

    def length(self, vm: VM) -> Object:
        found = self.special(vm, "__len__")
        return Object.length(self, vm) if found is None else found

    def iter(self, vm: VM) -> Object:
        found = self.special(vm, "__iter__")
        return Object.iter(self, vm) if found is None else vm.observe(found)

    # Leaving the trace.

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_node(self.node)
        if self.kind.is_disguised:
            if self.fake.requires_grad and self.fake.is_leaf:
                cg.unsupported(breaks.CannotReconstruct(f"a leaf of the class {classes.qualname(self.cls)}"))
            cg.load_const(self.cls)
            cg.call_const(as_class, 2)

    def needs_fill(self) -> bool:
        return self.attrs is not None or self.grad is not MISSING or self.retains

    def has_more(self) -> bool:
        """Return whether it has more than a graph can return: attributes, a `.grad`."""
        return (self.attrs is not None and bool(self.attrs.entries)) or self.grad is not MISSING or self.retains

    def fill(self, cg: Codegen) -> None:
        if self.attrs is not None and self.attrs.entries:
            cg.load(self)
            cg.load_attr("__dict__")
            cg.load(self.attrs)
            cg.call_const(dict.update, 2)
            cg.pop_top()
        if self.source is None:
            if self.retains:
                cg.load(self)
                cg.call_const(torch.Tensor.retain_grad, 1)
                cg.pop_top()
            self.replay(cg)

    def replay(self, cg: Codegen) -> None:
        for stored, store in ((self.data, store_data), (self.grad, store_grad)):
            if stored is not MISSING:
                cg.load(stored)
                cg.load(self)
                cg.call_const(store, 2)
                cg.pop_top()
        if self.requires_grad is not MISSING and self.requires_grad != self.value.requires_grad:
            cg.load_const(self.requires_grad)
            cg.load(self)
            cg.store_attr("requires_grad")

    def referents(self) -> list[Object]:
        found = [stored for stored in (self.data, self.grad) if stored is not MISSING]
        return found if self.source is not None or self.attrs is None else [*found, self.attrs]


def method_name(table: dict[str, tuple[str, str, Any]], symbol: str, reflected: bool) -> str:
    """The special method of an operator."""
    left, right, _ = table[symbol]
    return right if reflected else left


def is_operand(obj: Object) -> bool:
    """Return whether an operator of tensors accepts this operand; if not, the other operand's class is asked."""
    if isinstance(obj, TensorObject):
        return True
    if obj.cls in (int, float, bool, complex) or classes.is_subtype(obj.cls, numpy.generic):
        return True
    return obj.cls in (list, tuple, torch.Size, *NOT_OPERANDS) and obj.cls is not type


# Attributes that have their own meaning; others that C code computes go into the graph.


def constant_reader(name: str) -> Model:
    """The model that reads metadata which the tensor's guard covers."""

    def read(vm: VM, self: TensorObject) -> Object:
        value = getattr(self.look(vm), name)
        if type(value) is torch.Size:
            return SizeObject([vm.const(size) if type(size) is int else vm.graph.size(self, dim) for dim, size in enumerate(value)], torch.Size)
        return vm.const(value)

    return read


for _name in (
    "shape", "dtype", "device", "ndim", "layout", "itemsize", "is_cuda", "is_cpu", "is_xpu", "is_mps",
    "is_sparse", "is_sparse_csr", "is_quantized", "is_nested", "is_mkldnn", "is_xla", "is_vulkan", "is_mtia", "is_ipu", "is_maia",
):  # fmt: skip
    if hasattr(torch.Tensor, _name):
        models(getattr(torch.Tensor, _name))(constant_reader(_name))


@models(torch.Tensor.nbytes)
def read_nbytes(vm: VM, self: TensorObject) -> Object:
    return operators.binary_op(vm, "*", enter(vm, torch.Tensor.numel, [self]), vm.const(self.look(vm).itemsize))


@models(torch.Tensor.is_meta)
def read_is_meta(vm: VM, self: TensorObject) -> Object:
    return vm.const(self.look(vm).device.type == "meta")


def source_of(tensor: TensorObject, name: str) -> Source:
    """The source of an attribute that torch computes, for a tensor from outside. The trace has already asked the tensor's class."""
    assert tensor.source is not None
    return tensor.source.child(TensorAttribute if tensor.kind.is_disguised else CAttr, name)


@models(torch.Tensor.requires_grad)
def read_requires_grad(vm: VM, self: TensorObject) -> Object:
    requires_grad = self.look(vm).requires_grad
    vm.graph.check_record(self)
    return vm.const(requires_grad)


@models(torch.Tensor.is_leaf)
def read_is_leaf(vm: VM, self: TensorObject) -> Object:
    fake = self.look(vm)
    vm.graph.check_record(self)
    if self.source is not None and fake.requires_grad:
        vm.guard(Equals, source_of(self, "is_leaf"), attribute_of(self.value, "is_leaf"))
    try:
        return vm.const(fake.is_leaf)
    except RuntimeError as error:  # a view that was made under no_grad, whose base has been changed since
        vm.unsupported(breaks.OperatorRaises(f"is_leaf: RuntimeError: {error}"))


@models(torch.Tensor.retains_grad)
def read_retains_grad(vm: VM, self: TensorObject) -> Object:
    if self.source is None:
        return vm.const(self.retains or self.look(vm).retains_grad)
    retains = attribute_of(self.value, "retains_grad")
    vm.guard(Equals, source_of(self, "retains_grad"), retains)
    return vm.const(retains)


@models(torch.Tensor._base)
def read_base(vm: VM, self: TensorObject) -> Object:
    """The tensor of which it is a view: None for one from outside that isn't a view, which no operator changes."""
    if self.source is None or self.data is not MISSING or attribute_of(self.value, "_base") is not None:
        vm.unsupported(not_read("_base"))
    vm.guard(ValueIs, source_of(self, "_base"), None)
    return vm.const(None)


@models(torch.Tensor.grad_fn)
def read_grad_fn(vm: VM, self: TensorObject) -> Object:
    vm.graph.check_record(self)
    if self.look(vm).requires_grad and not read_is_leaf(vm, self).constant(vm):
        if vm.graph.autograd_node is not None:
            vm.graph.autograd_node.asked_for_history(self)
        vm.unsupported(breaks.UnsupportedOperation("reading .grad_fn of a tensor that has one"))
    return vm.const(None)


@models(torch.Tensor.grad)
def read_grad(vm: VM, self: TensorObject) -> Object:
    if self.grad is not MISSING:
        return self.grad  # type: ignore[no-any-return]
    if self.source is None:
        fake = self.look(vm)
        if fake.requires_grad and not read_is_leaf(vm, self).constant(vm) and not self.retains:
            vm.unsupported(breaks.UnsupportedOperation("reading .grad of a tensor that is not a leaf"))
        return vm.const(None)
    if attribute_of(self.value, "requires_grad") and not attribute_of(self.value, "is_leaf"):
        vm.unsupported(breaks.UnsupportedOperation("reading .grad of a tensor that is not a leaf"))
    source, grad = source_of(self, "grad"), attribute_of(self.value, "grad")
    if grad is None:
        vm.guard(ValueIs, source, None)
        return vm.const(None)
    return vm.observe(vm.wrap(grad, source))


@sets(torch.Tensor.grad)
def write_grad(vm: VM, self: TensorObject, value: Object | None) -> None:
    value = vm.const(None) if value is None else value
    if self.source is None and not read_is_leaf(vm, self).constant(vm) and not self.retains:
        vm.unsupported(breaks.UnsupportedOperation("storing .grad of a tensor that is not a leaf"))
    if not isinstance(value, TensorObject) and value.cls is not type(None):
        vm.unsupported(breaks.OperatorRaises("storing something other than a tensor or None to .grad"))
    if isinstance(value, TensorObject):
        mine, others = self.look(vm), value.look(vm)
        if (mine.shape, mine.dtype, mine.device) != (others.shape, others.dtype, others.device):
            vm.unsupported(breaks.OperatorRaises("storing a .grad of another shape, dtype or device than its tensor's"))
    if value.cls is type(None) and self.source is not None and self.grad is MISSING and not torch_function_stack.of_program():
        vm.effects.at_start(GradientDropped(self))
    vm.trail.set(self, "grad", value)
    vm.effects.mutated(self)


class GradientDropped:
    """The effect of setting `.grad` of a tensor from outside to None before the graph runs, so that its memory is free while the graph makes a new one."""

    def __init__(self, tensor: TensorObject) -> None:
        self.tensor = tensor

    def replay(self, cg: Codegen) -> None:
        cg.load_const(None)
        cg.load(self.tensor)
        cg.store_attr("grad")

    def referents(self) -> list[Object]:
        return [self.tensor]


# Methods with a meaning of their own; all others go into the graph (library/torch/operators).


def scalar_method(name: str) -> Model:
    """The model of a method that returns a Python number: known only if the trace itself made the tensor from constants."""
    method, text = getattr(torch.Tensor, name), "the truth of a tensor" if name == "__bool__" else f"{name}() of a tensor"

    def read(vm: VM, self: TensorObject, *args: Object) -> Object:
        if getattr(self.look(vm), "constant", None) is None:
            found = None if args or name == "__bool__" else number_out_of(vm, self, name)
            if found is not None:
                return found
            truth = vm.graph.known.truth_of_tensor(self.node) if name == "__bool__" else None
            if truth is not None:
                return vm.const(truth)
            known = MISSING if args else vm.graph.known.of(self.node)
            if known is MISSING:
                device = self.fake.device
                vm.unsupported(breaks.DataDependent(text, "" if device.type == "cpu" else str(device)))
            return fold(vm, method, known)
        return enter(vm, method, [self])

    return read


CONVERSIONS: dict[str, type | None] = {"item": None, "__int__": int, "__float__": float, "__index__": None, "__bool__": bool}
WARNED_OF = ("__float__", "__int__")
"""Conversions of which torch warns if the tensor requires a gradient (library/torch/tensors/warned_conversions.py)."""
MOST_NUMBERS = 32
"""The most elements of a tensor for which `tolist` is traced; lists of larger tensors are made natively, unless the data is known."""


def number_out_of(vm: VM, tensor: TensorObject, method: str) -> Object | None:
    """The number that a method returns for a tensor with one element, computed by a node of the graph; None if that is left to native code."""
    fake = tensor.look(vm)
    is_one = all(type(size) is int and size == 1 for size in fake.shape)
    if method not in CONVERSIONS or not is_one or not vm.graph.unbacked.may_begin() or fake.dtype.is_complex or fake.dtype is torch.uint64:
        return None
    if fake.dtype.is_floating_point and method == "__index__" or method in WARNED_OF and fake.requires_grad:  # an error, and a warning
        return None
    if method == "__index__" and fake.dtype is torch.bool:
        return None
    cls = CONVERSIONS[method]
    if vm.graph.is_inner():  # fakes remember the number that they have returned, but each graph needs its own
        tensor = enter(vm, torch.Tensor.detach, [tensor])  # type: ignore[assignment]
    number = enter(vm, torch.Tensor.item, [tensor])
    return number if cls is None or not isinstance(number, UnbackedNumber) else converted(vm, cls, number)


@models(torch.Tensor.tolist)
def tensor_tolist(vm: VM, self: TensorObject) -> Object:
    """A list of numbers, if there are few."""
    fake = self.look(vm)
    if any(type(size) is not int for size in fake.shape) or fake.numel() > MOST_NUMBERS or getattr(fake, "constant", None) is not None:
        known = vm.graph.known.of(self.node)
        if known is MISSING:
            vm.unsupported(needs_data("tolist"))
        return fold(vm, torch.Tensor.tolist, known)
    if fake.dim() == 0:
        found = number_out_of(vm, self, "item")
        if found is None:
            vm.unsupported(needs_data("tolist"))
        return found
    items = [enter(vm, torch.Tensor.select, [self, vm.const(0), vm.const(i)]) for i in range(fake.shape[0])]
    return ListObject([tensor_tolist(vm, item) for item in items if isinstance(item, TensorObject)])


for _name in ("item", "__bool__", "__index__", "__complex__"):
    if hasattr(torch.Tensor, _name):
        models(getattr(torch.Tensor, _name))(scalar_method(_name))


@models(torch.Tensor.__format__)
def tensor_format(vm: VM, self: TensorObject, spec: Object) -> Object:
    """The text of the number in a plain tensor without dimensions."""
    plain: type = torch.Tensor
    if self.cls is not plain or self.look(vm).dim() != 0:
        vm.unsupported(needs_data("__format__"))
    detached = enter(vm, torch.Tensor.detach, [self])
    return text.format_(vm, abstract.call(vm, vm.const(torch.Tensor.item), [detached]), None, spec)


def breaking(make: Callable[[str], breaks.Break], name: str) -> Any:
    def stop(vm: VM, *args: Object, **kwargs: Object) -> NoReturn:
        vm.unsupported(make(name))

    return stop


def needs_data(name: str) -> breaks.Break:
    return breaks.DataDependent("`in` a tensor" if name == "__contains__" else f"{name}() of a tensor")


def not_read(name: str) -> breaks.Break:
    """The break reason for what a fake tensor can't know: addresses, hooks, counters, where it comes from."""
    return breaks.UnsupportedOperation(f"reading .{name} of a tensor")


def not_traced(name: str) -> breaks.Break:
    return breaks.UnsupportedOperation(f"{name}() of a tensor")


for _make, _names in (
    (not_read, "_cdata _backward_hooks _post_accumulate_grad_hooks _version name _grad_fn output_nr _python_dispatch"),
    (needs_data, "__repr__ __contains__ __dlpack__ __reversed__"),
    (
        not_traced,
        "const_data_ptr mutable_data_ptr _is_view _use_count is_set_to storage _typed_storage "
        "share_memory_ is_shared is_pinned pin_memory "
        "__reduce_ex__ __setstate__ __dlpack_device__ module_load apply_ map_ map2_ set_ __dir__ __array_wrap__ __hash__",
    ),
):
    for _name in _names.split():
        _method: Any = getattr(torch.Tensor, _name, None)
        if _method is not None:
            models(_method)(breaking(_make, _name))


@models(torch.Tensor.__len__)
def tensor_len(vm: VM, self: TensorObject) -> Object:
    fake = self.look(vm)
    if fake.dim() == 0:
        vm.raise_(TypeError, "len() of a 0-d tensor")
    return vm.graph.size(self, 0)


@models(torch.Tensor.__iter__)
def tensor_iter(vm: VM, self: TensorObject) -> Object:
    if self.look(vm).dim() == 0:
        vm.raise_(TypeError, "iteration over a 0-d tensor")
    return vm.observe(enter(vm, torch.Tensor.unbind, [self, vm.const(0)])).iter(vm)


@models(torch.Tensor.new)
def tensor_new(vm: VM, self: TensorObject, *args: Object, **kwargs: Object) -> Object:
    """`x.new(x.shape)` makes a tensor of these sizes, `x.new((2, 3))` one of these numbers: in a graph a torch.Size is a tuple like any other."""
    by_size = len(args) == 1 and vm.observe(args[0]).cls is torch.Size
    return enter(vm, torch.Tensor.new_empty if by_size else torch.Tensor.new, [self, *args], kwargs)


@models(torch.Tensor.dim)
def tensor_dim(vm: VM, self: TensorObject) -> Object:
    return vm.const(self.look(vm).ndim)


@models(torch.Tensor.type)
def tensor_type(vm: VM, self: TensorObject, *args: Object, **kwargs: Object) -> Object:
    """`x.type()` names the type; with a dtype or a type's name it converts."""
    if args or kwargs:
        return enter(vm, torch.Tensor.type, [self, *args], kwargs)
    fake = self.look(vm)
    real = torch.empty(0, dtype=fake.dtype, device="cpu").type()
    if fake.device.type == "cpu":
        return vm.const(real)
    if fake.device.type == "cuda":
        return vm.const(real.replace("torch.", "torch.cuda.", 1))
    vm.unsupported(breaks.UnsupportedOperation(f"type() of a tensor on {fake.device}"))
