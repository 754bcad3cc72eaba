"""Tensors: operators go into the graph, metadata is read off the fake tensor, data is never known."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType, GetSetDescriptorType, MethodDescriptorType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from framejit import breaks, classes
from framejit.guards.kinds import Equals, ValueIs
from framejit.guards.source import MISSING, CAttr, Source
from framejit.objects import operators
from framejit.objects.object import NotConstant, Object
from framejit.objects.registry import models, wraps
from framejit.objects.torchobject import RandomGeneratorObject

if TYPE_CHECKING:
    from torch import fx

    from framejit.objects.dictobject import DictObject
    from framejit.objects.vm import VM, Codegen

BINARY: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul, "<<=": operator.ilshift,
    ">>=": operator.irshift, "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor,
}  # fmt: skip
UNARY: dict[str, Callable[..., Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}
COMPARE: dict[str, Callable[..., Any]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
NOT_OPERANDS = (str, bytes, type(None), type(...), type)
NEEDS_DATA = frozenset({
    "_cdata", "__cuda_array_interface__", "_backward_hooks", "_post_accumulate_grad_hooks", "_version", "name", "_base", "_grad_fn", "output_nr",
    "_python_dispatch",
})  # fmt: skip
"""Attributes that the fake can't answer for the tensor: addresses, hooks, counters, where it comes from."""


C_DESCRIPTORS = (MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType)


def is_torchs_own(raw: Any) -> bool:
    """Whether it is torch that gave a class of tensors this attribute, rather than a subclass or somebody's patch."""
    return raw is MISSING or type(raw) in C_DESCRIPTORS or getattr(getattr(raw, "fget", raw), "__module__", None) == "torch._tensor"


class TensorObject(Object):
    """A tensor. `node` is its place in the graph; what the trace knows of it is `fake`, which has everything but the data.

    `grad` is what the traced program stored as `.grad` (MISSING: nothing).
    """

    __slots__ = ("node", "grad")

    def __init__(self, node: fx.Node, cls: type, source: Source | None = None, value: Any = MISSING) -> None:
        self.cls = cls
        self.source = source
        self.value = value
        self.attrs = None
        self.node = node
        self.grad: Any = MISSING

    @property
    def fake(self) -> torch.Tensor:
        """The tensor without its data; call `vm.graph.refresh()` first."""
        found: torch.Tensor = self.node.meta["example_value"]
        return found

    def as_graph_argument(self, vm: VM) -> Any:
        return self.node

    def hash_key(self, vm: VM) -> Any:
        return vm.tell_apart(self)

    def instance_dict(self, vm: VM) -> DictObject | None:
        if self.attrs is None:
            vm.trail.set(self, "attrs", vm.instance_dict_of(self))
        return self.attrs

    def rest_on(self, vm: VM, name: str) -> None:
        """Guard that the class has torch's own `name`, whose meaning is known here; another's runs as written."""
        if not is_torchs_own(vm.raw_type_lookup(self.cls, name)):
            vm.unsupported(breaks.UnsupportedOperation(f"{name} of a {classes.qualname(self.cls)}, which is not torch's own"))

    # Attributes.

    def getattr(self, vm: VM, name: str) -> Object:
        reader = READERS.get(name)
        if reader is not None:
            self.rest_on(vm, name)
            return reader(vm, self)
        raw = vm.raw_type_lookup(self.cls, name)
        if type(raw) is GetSetDescriptorType and name != "__dict__":
            if name in NEEDS_DATA:
                vm.unsupported(breaks.UnsupportedOperation(f"reading .{name} of a tensor"))
            return vm.graph.call_function(getattr, [self, vm.const(name)])
        if raw is MISSING or name == "__dict__":
            return vm.generic_getattr(self, name)
        found = vm.type_lookup(self.cls, name)
        assert found is not None
        if self.attrs is not None or (self.source is not None and name in self.value.__dict__):
            return vm.generic_getattr(self, name)
        return found.descriptor_get(vm, self, self.cls)

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        writer = WRITERS.get(name)
        if writer is not None:
            self.rest_on(vm, name)
            writer(vm, self, vm.const(None) if value is None else vm.observe(value))
            return
        raw = vm.raw_type_lookup(self.cls, name)
        if type(raw) is GetSetDescriptorType:
            vm.unsupported(breaks.UnsupportedOperation(f"storing to .{name} of a tensor"))
        vm.generic_setattr(self, name, value)

    # Operators.

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        self.rest_on(vm, operators.UNARY[symbol][0])
        return vm.graph.call_function(UNARY[symbol], [self])

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if reflected:
            symbol = symbol.removesuffix("=")  # nothing to change in place: the left operand is a number
        name = operators.INPLACE[symbol] if symbol in operators.INPLACE else method_name(operators.BINARY, symbol, reflected)
        return self._operator(vm, name, BINARY[symbol], other, reflected)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        name = method_name(operators.COMPARE, symbol, reflected)
        self.rest_on(vm, name)
        if other.cls in NOT_OPERANDS:
            if symbol == "==" or symbol == "!=":
                return vm.const(symbol == "!=")
            vm.unsupported(breaks.OperatorRaises(f"'{symbol}' of a tensor and a {classes.name(other.cls)}"))
        return self._operator(vm, name, COMPARE[symbol], other, reflected)

    def _operator(self, vm: VM, name: str, function: Callable[..., Any], other: Object, reflected: bool) -> Object | None:
        if not is_operand(other):
            return None
        self.rest_on(vm, name)
        return vm.graph.call_function(function, [other, self] if reflected else [self, other])

    def getitem(self, vm: VM, key: Object) -> Object | None:
        self.rest_on(vm, "__getitem__")
        try:
            return vm.graph.call_function(operator.getitem, [self, key])
        except NotConstant as index:
            vm.unsupported(breaks.UnsupportedOperation(f"indexing a tensor with {index.obj!r}"))

    def setitem(self, vm: VM, key: Object, value: Object | None) -> bool:
        self.rest_on(vm, "__setitem__")
        if value is None:
            vm.unsupported(breaks.OperatorRaises("deleting an item of a tensor"))
        try:
            vm.graph.call_function(operator.setitem, [self, key, value])
        except NotConstant as index:
            vm.unsupported(breaks.UnsupportedOperation(f"storing to a tensor: {index.obj!r} as index or value"))
        return True

    def contains(self, vm: VM, item: Object) -> Object | None:
        vm.unsupported(breaks.DataDependent("`in` a tensor"))

    def truth(self, vm: VM) -> bool:
        self.rest_on(vm, "__bool__")
        return bool(scalar(vm, self, "__bool__", "the truth of a tensor").constant(vm))

    def length(self, vm: VM) -> Object:
        self.rest_on(vm, "__len__")
        vm.graph.refresh()
        if self.fake.dim() == 0:
            vm.raise_(TypeError, "len() of a 0-d tensor")
        return vm.const(self.fake.shape[0])

    def iter(self, vm: VM) -> Object:
        self.rest_on(vm, "__iter__")
        vm.graph.refresh()
        if self.fake.dim() == 0:
            vm.raise_(TypeError, "iteration over a 0-d tensor")
        return vm.observe(vm.graph.call_method("unbind", self, [vm.const(0)])).iter(vm)

    # Leaving the trace.

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_node(self.node)

    def needs_fill(self) -> bool:
        return self.attrs is not None

    def fill(self, cg: Codegen) -> None:
        if self.attrs is not None and not self.attrs.is_empty():
            cg.load(self)
            cg.load_attr("__dict__")
            cg.load(self.attrs)
            cg.call_const(dict.update, 2)
            cg.pop_top()

    def replay(self, cg: Codegen) -> None:
        if self.grad is not MISSING:
            cg.load(self.grad)
            cg.load(self)
            cg.store_attr("grad")

    def referents(self) -> list[Object]:
        found = [] if self.grad is MISSING else [self.grad]
        return found if self.source is not None or self.attrs is None else [*found, self.attrs]


@wraps(torch.Tensor, shared=True)
def wrap_tensor(vm: VM, value: torch.Tensor, source: Source) -> Object:
    """A tensor from outside: an input of the graph."""
    return vm.graph.input(source, value)


def method_name(table: dict[str, tuple[str, str, Any]], symbol: str, reflected: bool) -> str:
    """The special method of an operator."""
    left, right, _ = table[symbol]
    return right if reflected else left


def is_operand(obj: Object) -> bool:
    """Whether an operator of tensors takes it; where not, the other operand's class is asked."""
    if isinstance(obj, TensorObject):
        return True
    if isinstance(obj, RandomGeneratorObject):
        return False
    return obj.cls in (int, float, bool, complex) or (obj.cls in (list, tuple, torch.Size, *NOT_OPERANDS) and obj.cls is not type)


# Attributes that have their own meaning.

Reader = Callable[["VM", TensorObject], Object]
Writer = Callable[["VM", TensorObject, Object], None]
READERS: dict[str, Reader] = {}
WRITERS: dict[str, Writer] = {}


def constant_reader(name: str) -> Reader:
    """Metadata that the guard on the tensor vouches for."""

    def read(vm: VM, self: TensorObject) -> Object:
        vm.graph.refresh()
        value = getattr(self.node.meta["example_value"], name)
        if isinstance(value, (torch.SymInt, torch.SymBool)):
            vm.unsupported(breaks.UnsupportedOperation(f"the symbolic {name} of a tensor"))
        return vm.const(value)

    return read


for _name in (
    "shape", "dtype", "device", "ndim", "requires_grad", "layout", "itemsize", "nbytes", "is_cuda", "is_cpu", "is_xpu", "is_mps",
    "is_sparse", "is_sparse_csr", "is_quantized", "is_nested", "is_mkldnn", "is_xla", "is_vulkan", "is_mtia", "is_ipu", "is_maia",
):  # fmt: skip
    READERS[_name] = constant_reader(_name)


def reads(name: str) -> Callable[[Reader], Reader]:
    def register(fn: Reader) -> Reader:
        READERS[name] = fn
        return fn

    return register


@reads("__class__")
def read_class(vm: VM, self: TensorObject) -> Object:
    return vm.const(self.cls)


@reads("is_meta")
def read_is_meta(vm: VM, self: TensorObject) -> Object:
    vm.graph.refresh()
    return vm.const(self.fake.device.type == "meta")


@reads("is_leaf")
def read_is_leaf(vm: VM, self: TensorObject) -> Object:
    vm.graph.refresh()
    if self.source is not None and self.fake.requires_grad:
        vm.guard(Equals, self.source.child(CAttr, "is_leaf"), self.value.is_leaf)
    return vm.const(self.fake.is_leaf)


@reads("retains_grad")
def read_retains_grad(vm: VM, self: TensorObject) -> Object:
    vm.graph.refresh()
    if self.source is None:
        return vm.const(self.fake.retains_grad)
    vm.guard(Equals, self.source.child(CAttr, "retains_grad"), self.value.retains_grad)
    return vm.const(self.value.retains_grad)


@reads("grad_fn")
def read_grad_fn(vm: VM, self: TensorObject) -> Object:
    vm.graph.refresh()
    if self.fake.requires_grad and not read_is_leaf(vm, self).constant(vm):
        if vm.graph.autograd_node is not None:
            vm.graph.autograd_node.asked_for_history(self)
        vm.unsupported(breaks.UnsupportedOperation("reading .grad_fn of a tensor that has one"))
    return vm.const(None)


@reads("grad")
def read_grad(vm: VM, self: TensorObject) -> Object:
    if self.grad is not MISSING:
        return self.grad  # type: ignore[no-any-return]
    if self.source is None:
        vm.graph.refresh()
        if self.fake.requires_grad and not self.fake.is_leaf:
            vm.unsupported(breaks.UnsupportedOperation("reading .grad of a tensor that is not a leaf"))
        return vm.const(None)
    if self.value.requires_grad and not self.value.is_leaf:
        vm.unsupported(breaks.UnsupportedOperation("reading .grad of a tensor that is not a leaf"))
    source = self.source.child(CAttr, "grad")
    if self.value.grad is None:
        vm.guard(ValueIs, source, None)
        return vm.const(None)
    return vm.observe(vm.wrap(self.value.grad, source))


def write_grad(vm: VM, self: TensorObject, value: Object) -> None:
    if self.source is None:
        vm.unsupported(breaks.UnsupportedOperation("storing .grad of a tensor made in the compiled function"))
    if not isinstance(value, TensorObject) and value.cls is not type(None):
        vm.unsupported(breaks.OperatorRaises("storing something other than a tensor or None to .grad"))
    if isinstance(value, TensorObject):
        vm.graph.refresh()
        mine, others = self.fake, value.fake
        if (mine.shape, mine.dtype, mine.device) != (others.shape, others.dtype, others.device):
            vm.unsupported(breaks.OperatorRaises("storing a .grad of another shape, dtype or device than its tensor's"))
    vm.trail.set(self, "grad", value)
    vm.effects.mutated(self)


def write_requires_grad(vm: VM, self: TensorObject, value: Object) -> None:
    set_requires_grad(vm, self, bool(value.constant(vm)))


def write_data(vm: VM, self: TensorObject, value: Object) -> None:
    """`p.data = p.to(dtype)` that converts nothing (Module.to) changes nothing."""
    if value is self:
        return
    vm.unsupported(breaks.MutatedInputUnsupported(".data of a tensor"))


WRITERS.update(grad=write_grad, requires_grad=write_requires_grad, data=write_data)


def set_requires_grad(vm: VM, self: TensorObject, enabled: bool) -> None:
    """`requires_grad_` on a tensor that the trace made; on one from outside only where it changes nothing."""
    vm.graph.refresh()
    if self.fake.requires_grad == enabled:
        return
    if self.source is not None:
        vm.unsupported(breaks.MutatedInputUnsupported("requires_grad of a tensor from outside"))
    vm.graph.call_method("requires_grad_", self, [vm.const(enabled)])


# Methods with a meaning of their own; all others go into the graph (modules/torch).


def scalar(vm: VM, self: TensorObject, name: str, operation: str) -> Object:
    """A Python number out of a tensor: known only where the trace itself made the tensor of constants."""
    vm.graph.refresh()
    fake = self.fake
    if getattr(fake, "constant", None) is None:
        vm.unsupported(breaks.DataDependent(operation))
    return vm.graph.call_method(name, self)


def scalar_method(name: str) -> Any:
    def read(vm: VM, self: Object, *args: Object) -> Object:
        assert isinstance(self, TensorObject)
        return scalar(vm, self, name, f"{name}() of a tensor")

    return read


for _name in ("item", "__bool__", "__int__", "__float__", "__index__", "__complex__"):
    if hasattr(torch.Tensor, _name):
        models(getattr(torch.Tensor, _name))(scalar_method(_name))


def breaking(make: Callable[[str], breaks.Break], name: str) -> Any:
    def stop(vm: VM, *args: Object, **kwargs: Object) -> NoReturn:
        vm.unsupported(make(name))

    return stop


def needs_data(name: str) -> breaks.Break:
    return breaks.DataDependent(f"{name}() of a tensor")


def not_traced(name: str) -> breaks.Break:
    return breaks.UnsupportedOperation(f"{name}() of a tensor")


def autograd_method(name: str) -> Callable[..., NoReturn]:
    """The model of a method that makes autograd watch the tensor itself: it runs natively."""

    def stop(vm: VM, self: Object, *args: Object, **kwargs: Object) -> NoReturn:
        assert isinstance(self, TensorObject)
        if vm.graph.autograd_node is not None:
            vm.graph.autograd_node.asked_about(self, f"{name}() of a tensor")
        vm.unsupported(breaks.HookUnsupported(f"{name}() of a tensor"))

    return stop


for _make, _names in (
    (needs_data, "tolist numpy __array__ __repr__ __format__ __contains__ __dlpack__ __reversed__"),
    (
        not_traced,
        "data_ptr const_data_ptr mutable_data_ptr _is_view _use_count is_set_to as_subclass storage untyped_storage _typed_storage "
        "storage_offset share_memory_ is_shared is_pinned pin_memory "
        "__deepcopy__ __reduce_ex__ __setstate__ __dlpack_device__ module_load apply_ map_ map2_ set_ __dir__ __array_wrap__ __hash__",
    ),
):
    for _name in _names.split():
        _method: Any = getattr(torch.Tensor, _name, None)
        if _method is not None:
            models(_method)(breaking(_make, _name))
for _name in ("register_hook", "register_post_accumulate_grad_hook", "retain_grad"):
    models(getattr(torch.Tensor, _name))(autograd_method(_name))


@models(torch.Tensor.__len__)
def tensor_len(vm: VM, self: Object) -> Object:
    return self.length(vm)


@models(torch.Tensor.__iter__)
def tensor_iter(vm: VM, self: Object) -> Object:
    return vm.observe(self).iter(vm)


@models(torch.Tensor.requires_grad_)
def tensor_requires_grad_(vm: VM, self: Object, requires_grad: Object | None = None) -> Object:
    assert isinstance(self, TensorObject)
    set_requires_grad(vm, self, requires_grad is None or bool(vm.observe(requires_grad).constant(vm)))
    return self


@models(torch.Tensor.dim)
def tensor_dim(vm: VM, self: Object) -> Object:
    return READERS["ndim"](vm, self)  # type: ignore[arg-type]


@models(torch.Tensor.type)
def tensor_type(vm: VM, self: Object, *args: Object, **kwargs: Object) -> Object:
    """`x.type()` names the type; with a dtype or a type's name it converts."""
    assert isinstance(self, TensorObject)
    if args or kwargs:
        return vm.graph.call_method("type", self, args, kwargs)
    vm.graph.refresh()
    real = torch.empty(0, dtype=self.fake.dtype, device="cpu").type()
    if self.fake.device.type == "cpu":
        return vm.const(real)
    if self.fake.device.type == "cuda":
        return vm.const(real.replace("torch.", "torch.cuda.", 1))
    vm.unsupported(breaks.UnsupportedOperation(f"type() of a tensor on {self.fake.device}"))


UNDER_OTHER_NAMES = {
    function: name
    for name, function in vars(torch.Tensor).items()
    if type(function) is FunctionType and getattr(torch.Tensor, function.__name__, None) is not function
}
"""Methods of torch.Tensor that are found by another name than their own: `__pow__` is a function named `pow`."""


def tensor_method(vm: VM, function: Any, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A method of torch.Tensor, C or Python, called on a tensor: a node. None: its receiver is no tensor."""
    receiver = vm.observe(args[0]) if args else None
    if not isinstance(receiver, TensorObject):
        return None
    name: str = UNDER_OTHER_NAMES.get(function, function.__name__)
    if getattr(torch.Tensor, name, None) is function:
        return vm.graph.call_method(name, receiver, args[1:], kwargs)
    if type(function) is WrapperDescriptorType:
        vm.unsupported(breaks.UnsupportedOperation(f"torch's own {name} of tensors, whose class has another"))
    return vm.graph.call_function(function, args, kwargs)
