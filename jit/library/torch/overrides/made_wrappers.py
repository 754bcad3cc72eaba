"""Tensors that wrap others: those from outside are inputs whose attributes are guarded, and nodes make those that the program makes.

If the program makes one, its `__new__` and `__init__` are traced, and a node makes the tensor from the resulting parts.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import MemberDescriptorType
from typing import Any

import torch

from framejit import breaks
from framejit.breaks import Break
from framejit.graph.builder import TorchVM
from framejit.graph.graph_inputs import GraphInputs
from framejit.graph.trace_state import TraceState
from framejit.graph.wrappers import Wrappers
from framejit.guards.source import Source
from framejit.library.torch.jagged.jagged_parts import parts_of
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import VM, NotConstant, Object, Raise
from framejit.objects.core.registry import RuleOrder, library, models
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.tensorkind import TensorKind, kind_of_class, kind_of_data, tensor_kind
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.typeobject import TypeObject
from framejit.objects.types.userobject import UserObject
from framejit.program import classes
from framejit.torch_state.torch_classes import overrides_operators


@tensor_kind(50)
class WrapperTensors(TensorKind):
    """Tensors of the program's own classes that wrap others, and say of what they consist (`__tensor_flatten__`). A graph has them as they are."""

    name = "wrapper"
    stays_itself = True
    wraps = True

    def holds_class(self, cls: type) -> bool:
        if not flattens(cls):
            return False
        module = str(classes.module(cls))
        return not module.startswith("torch.") or module.startswith("torch.testing.")

    def refusal(self, tensor: torch.Tensor) -> Break | None:
        return kind_of_data(tensor).refusal(tensor)

    def meet(self, state: TraceState) -> None:
        """Note that the graph has such a tensor, or stop the trace."""
        state.part(Wrappers).meet(self)

    def make_input(self, inputs: GraphInputs, source: Source, tensor: torch.Tensor, plain: torch.Tensor) -> TensorObject:
        state = inputs.state
        state.refresh()
        self.meet(state)
        try:
            symbolic = inputs.shapes.context_of_wrapper(source, tensor)
            fake = state.fakes.of_input(tensor, symbolic)
        except (AttributeError, RuntimeError, NotImplementedError, TypeError) as error:
            state.vm.unsupported(breaks.TensorSubclass(f"{type(tensor).__qualname__}, of which there is no tensor without data ({error})"))
        if symbolic is not None:
            inputs.shapes.note_wrapper(source, tensor, symbolic)
        return inputs.add_sized(source, tensor, plain, fake, symbolic, True)

    def guard_contents(self, vm: VM, made: Object) -> None:
        guard_attributes(vm, made)

    def parts(self, fake: torch.Tensor) -> Sequence[torch.Tensor]:
        return [part for part in parts_of(fake).values() if isinstance(part, torch.Tensor)]


def flattens(cls: type) -> bool:
    """Return whether tensors of a class override operators, and say of which others they consist."""
    names = ("__tensor_flatten__", "__tensor_unflatten__")
    return overrides_operators(cls) and all(classes.lookup(cls, name, None) is not None for name in names)


def guard_attributes(vm: VM, wrapper: Object, depth: int = 0) -> None:
    """Guard all attributes of a tensor that wraps others, or of an object that it holds: what its operators do may depend on them."""
    namespace = wrapper.instance_dict(vm)
    members = [found for cls in classes.mro(wrapper.cls) for found in classes.class_dict(cls).values() if type(found) is MemberDescriptorType]
    if (namespace is None and not members) or depth > MOST_NESTED:
        vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(wrapper.cls)}, of which it isn't known what it holds"))
    for _, value in [] if namespace is None else list(namespace.open(vm).values()):
        guard_value(vm, value, wrapper, depth)
    for member in members:
        try:
            value = wrapper.get_slot(vm, member)
        except Raise:  # it is guarded that the slot is empty
            continue
        guard_value(vm, value, wrapper, depth)


def guard_value(vm: VM, value: Object, wrapper: Object, depth: int = 0) -> None:
    """Guard an attribute of a wrapper: of a tensor it is an input of the graph, of a container its items, and of another object its attributes."""
    value = vm.observe(value)
    if isinstance(value, TensorObject):
        return
    if value.cls is list or classes.is_subtype(value.cls, tuple):
        for item in abstract.iterate(vm, value):
            guard_value(vm, item, wrapper, depth)
    elif value.is_knowable():
        value.constant(vm)
    elif value.cls is dict:
        for name in abstract.iterate(vm, value):
            guard_value(vm, abstract.getitem(vm, value, name), wrapper, depth)
    else:
        guard_attributes(vm, value, depth + 1)


MOST_NESTED = 4
"""The greatest depth at which the attributes of objects that a wrapper of tensors holds are guarded. A deeper object stops the trace."""


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
    if not issubclass(type(real), type) or not kind_of_class(real).wraps:
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
    if not isinstance(function, TypeObject) or not issubclass(function.value, torch.Tensor) or not kind_of_class(function.value).wraps:
        return None
    made = vm.observe(function.instantiate(vm, args, kwargs))
    return finished(vm, made) if isinstance(made, UnfinishedWrapper) else made


def finished(vm: TorchVM, made: UnfinishedWrapper) -> Object:
    """The tensor made from the parts that `__tensor_flatten__` gives for the wrapper."""
    flattened = [vm.observe(part) for part in abstract.unpack(vm, abstract.call_method(vm, made, "__tensor_flatten__"), 2)]
    names = [vm.observe(name).constant(vm) for name in abstract.iterate(vm, flattened[0])]
    inner = [vm.observe(abstract.getattr_(vm, made, name)) for name in names]
    namespace = made.instance_dict(vm)
    try:
        context = flattened[1].as_real(vm)
    except NotConstant:
        vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(made.cls)}, made with a context that is no constant"))
    if not inner or not all(isinstance(part, TensorObject) for part in inner) or namespace is None:
        vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(made.cls)}, which doesn't wrap tensors"))
    vm.graph.wrappers.meet(kind_of_class(made.cls))
    result = enter(vm, maker_of(made.cls, tuple(names), context, len(made.size)), [*inner, *made.size, *made.stride])
    assert isinstance(result, TensorObject)
    fake = result.look(vm)
    lost = set(namespace.open(vm)) - set(vars(fake))
    looks_alike = result.cls is made.cls and not lost and fake.requires_grad == made.requires_grad and fake.dim() == len(made.size)
    if not looks_alike or not all(vm.graph.shapes.decide(operator.eq, size, number_in(vm, known)) for size, known in zip(fake.shape, made.size)):
        vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(made.cls)}, which __tensor_unflatten__ doesn't make as it was"))
    return result


def maker_of(cls: Any, names: tuple[str, ...], context: Any, dims: int) -> Callable[..., Any]:
    """The function of a node that makes a wrapper from its parts, its sizes and its strides."""
    count = len(names)

    def make_wrapper_of(*parts: Any) -> Any:
        inner = dict(zip(names, parts[:count], strict=True))
        return cls.__tensor_unflatten__(inner, context, parts[count : count + dims], parts[count + dims :])

    return make_wrapper_of
