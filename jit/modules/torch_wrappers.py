"""Tensors that wrap others, made by the program: its `__new__` and `__init__` are traced, and a node makes the tensor from the resulting parts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from framejit import breaks, classes
from framejit.graph.builder import TorchVM
from framejit.objects import abstract, operators
from framejit.objects.numberobject import NumberObject
from framejit.objects.object import VM, NotConstant, Object
from framejit.objects.registry import RuleOrder, library, models
from framejit.objects.tensorobject import TensorObject
from framejit.objects.torchcall import enter
from framejit.objects.typeobject import TypeObject
from framejit.objects.userobject import UserObject
from framejit.torch_classes import is_wrapper


class UnfinishedWrapper(UserObject):
    """A wrapper whose `__init__` hasn't returned: it has attributes, and isn't a tensor yet. `options`: its type, device and so on, as given."""

    __slots__ = ("size", "stride", "requires_grad", "options")

    def __init__(self, cls: type, size: list[Object], stride: list[Object], requires_grad: bool, options: dict[str, Any]) -> None:
        super().__init__(cls)
        self.size, self.stride, self.requires_grad, self.options = size, stride, requires_grad, options

    def as_graph_argument(self, vm: VM) -> Any:
        vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(self.cls)}, used while it is made"))

    def look(self, vm: VM) -> Any:
        return ToldOfWrapper(vm, self)


class ToldOfWrapper:
    """The known attributes of a wrapper that isn't a tensor yet, in place of its fake."""

    def __init__(self, vm: VM, made: UnfinishedWrapper) -> None:
        self.vm = vm
        self.made = made

    def __getattr__(self, name: str) -> Any:
        if name in self.made.options:
            return self.made.options[name]
        return self.made.as_graph_argument(self.vm)


@models(torch.Tensor._make_wrapper_subclass)
def make_wrapper_subclass(
    vm: TorchVM, cls: Object, size: Object, strides: Object | None = None, *args: Object, requires_grad: Object | None = None, **kwargs: Object
) -> Object:
    """The first half of a wrapper. When the node runs, `__tensor_unflatten__` makes it again."""
    real = vm.observe(cls).constant(vm)
    if not issubclass(type(real), type) or not is_wrapper(real):
        vm.unsupported(breaks.TensorSubclass(f"{real!r:.80}, made by _make_wrapper_subclass()"))
    sizes = [vm.observe(item) for item in abstract.iterate(vm, size)]
    steps = contiguous(vm, sizes) if strides is None else [vm.observe(item) for item in abstract.iterate(vm, strides)]
    options: dict[str, Any] = {name: vm.observe(kwargs[name]).constant(vm) for name in ("dtype", "device") if name in kwargs}
    return UnfinishedWrapper(real, sizes, steps, requires_grad is not None and bool(vm.observe(requires_grad).constant(vm)), options)


def contiguous(vm: VM, sizes: list[Object]) -> list[Object]:
    """The strides of a contiguous tensor of these sizes."""
    steps = [vm.const(1)]
    for size in sizes[:0:-1]:
        steps.insert(0, vm.observe(operators.binary_op(vm, "*", steps[0], size if abstract.truth(vm, size) else vm.const(1))))
    return steps[: len(sizes)]


def number_in(vm: VM, number: Object) -> Any:
    """A number in the form that it has on fakes."""
    return number.sym if isinstance(number, NumberObject) and number.sym is not None else number.constant(vm)


@library(RuleOrder.BY_KIND)
def make_wrapper(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A call of a class of wrappers."""
    if not isinstance(function, TypeObject) or not issubclass(function.value, torch.Tensor) or not is_wrapper(function.value):
        return None
    made = vm.observe(function.instantiate(vm, args, kwargs))
    return finished(vm, made) if isinstance(made, UnfinishedWrapper) else made


def finished(vm: TorchVM, made: UnfinishedWrapper) -> Object:
    """The tensor made from the parts that `__tensor_flatten__` gives for the wrapper."""
    told = [vm.observe(part) for part in abstract.unpack(vm, abstract.call_method(vm, made, "__tensor_flatten__"), 2)]
    names = [vm.observe(name).constant(vm) for name in abstract.iterate(vm, told[0])]
    inner = [vm.observe(abstract.getattr_(vm, made, name)) for name in names]
    namespace = made.instance_dict(vm)
    try:
        context = told[1].as_real(vm)
    except NotConstant:
        vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(made.cls)}, made with a context that is no constant"))
    if not inner or not all(isinstance(part, TensorObject) for part in inner) or namespace is None:
        vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(made.cls)}, which doesn't wrap tensors"))
    vm.graph.wrappers.meet_wrapper()
    result = enter(vm, maker_of(made.cls, tuple(names), context, len(made.size)), [*inner, *made.size, *made.stride])
    assert isinstance(result, TensorObject)
    fake = result.look(vm)
    lost = set(namespace.open(vm)) - set(vars(fake))
    looks_alike = result.cls is made.cls and not lost and fake.requires_grad == made.requires_grad and fake.dim() == len(made.size)
    if not looks_alike or not all(vm.graph.shapes.decide(operator.eq, size, number_in(vm, told)) for size, told in zip(fake.shape, made.size)):
        vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(made.cls)}, which __tensor_unflatten__ doesn't make as it was"))
    return result


def maker_of(cls: Any, names: tuple[str, ...], context: Any, dims: int) -> Callable[..., Any]:
    """The function of a node that makes a wrapper from its parts, its sizes and its strides."""
    count = len(names)

    def make_wrapper_of(*parts: Any) -> Any:
        inner = dict(zip(names, parts[:count], strict=True))
        return cls.__tensor_unflatten__(inner, context, parts[count : count + dims], parts[count + dims :])

    return make_wrapper_of
