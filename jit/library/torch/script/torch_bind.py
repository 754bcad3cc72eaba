"""Objects of C++ classes (`torch.classes`): calls of their methods, and of operators that take them, are nodes if the class has a fake one.

Fake classes are registered with `torch._library.register_fake_class`. A call that changes its object runs natively, as all others do. A call's result may
depend on everything that the object holds, according to its `__obj_flatten__`: that is guarded.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._library import fake_class_registry
from torch._library.fake_class_registry import FakeScriptObject, has_fake_class, maybe_to_fake_obj
from torch.utils import _pytree as pytree

from framejit import breaks
from framejit.guards.kinds import Equals, Length, TensorMatch, TypeIs, ValueIs
from framejit.guards.script_source import TorchBindState
from framejit.guards.source import CAttr, Index, Source
from framejit.guards.tensor_spec import tensor_spec
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import wraps
from framejit.objects.tensors.torchcall import enter

PLAIN = (bool, int, float, str, type(None))


@wraps(torch.ScriptObject, shared=True)
class TorchBindObject(Object):
    """An object of a class in C++."""

    __slots__ = ()

    def getattr(self, vm: VM, name: str) -> Object:
        if self.source is None or not self.value._has_method(name):
            return super().getattr(vm, name)
        return TorchBindMethod(self, name)


class TorchBindMethod(Object):
    """A method of such an object."""

    __slots__ = ("owner", "name")
    is_true = True

    def __init__(self, owner: TorchBindObject, name: str) -> None:
        assert owner.source is not None
        value = getattr(owner.value, name)
        super().__init__(type(value), owner.source.child(CAttr, name), value)
        self.owner = owner
        self.name = name

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        name = self.name
        return call_with(vm, f"{name}()", lambda owner, *args, **kwargs: getattr(owner, name)(*args, **kwargs), [self.owner, *args], kwargs)


def call_with(vm: VM, name: str, function: Callable[..., Any], args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
    """Make a call with such objects among its arguments a node. `function` takes fake ones too."""
    objects = {place: arg for place, arg in [*enumerate(args), *kwargs.items()] if isinstance(arg, TorchBindObject)}
    for held in objects.values():
        if not has_fake_class(class_of(held.value)) or held.source is None:
            vm.unsupported(breaks.UnsupportedCall(f"{name} with {held!r}, of whose class in C++ there is no fake one"))
        if vm.graph.autograd_node is not None:
            vm.unsupported(breaks.UnsupportedCall(f"{name} with {held!r}, which AOTAutograd is not to trace into"))
        vm.guard(ValueIs, held.source, held.value)
        rest_on_state(vm, held.value.__obj_flatten__(), held.source.child(TorchBindState))
    rest = [arg for place, arg in enumerate(args) if place not in objects]
    named = {key: arg for key, arg in kwargs.items() if key not in objects}
    return enter(vm, target_for(name, function, {place: weakref.ref(held.value) for place, held in objects.items()}), rest, named)


def class_of(value: Any) -> str:
    return str(value._type().qualified_name())


def rest_on_state(vm: VM, state: Any, source: Source) -> None:
    """Guard everything that an object holds. Breaks unless that is numbers, texts and tensors."""
    if type(state) in (list, tuple):
        vm.guard(TypeIs, source, type(state))
        vm.guard(Length, source, len(state))
        for index, item in enumerate(state):
            rest_on_state(vm, item, source.child(Index, index))
    elif type(state) is torch.Tensor:
        vm.guard(TensorMatch, source, tensor_spec(state))
    elif type(state) in PLAIN:
        vm.guard(Equals, source, state)
    else:
        vm.unsupported(breaks.UnsupportedValue(f"an object of torch.classes that holds a {type(state).__qualname__}"))


def target_for(name: str, function: Callable[..., Any], objects: dict[Any, weakref.ref[Any]]) -> Callable[..., Any]:
    """The function that a node calls: it inserts the objects into the arguments."""

    def filled(found: dict[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        rest = iter(args)
        count = len(args) + sum(type(place) is int for place in found)
        named = {place: value for place, value in found.items() if type(place) is str}
        return function(*[found[place] if place in found else next(rest) for place in range(count)], **kwargs, **named)

    def call(*args: Any, **kwargs: Any) -> Any:
        return filled({place: reference() for place, reference in objects.items()}, args, kwargs)

    def on_fakes(*args: Any, **kwargs: Any) -> Any:
        mode = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
        found = {place: fake_of(reference(), mode) for place, reference in objects.items()}
        before = [held_by(fake.wrapped_obj) for fake in found.values()]
        result = filled(found, args, kwargs)
        if [held_by(fake.wrapped_obj) for fake in found.values()] != before:
            raise RuntimeError("it changes an object in C++")
        held = {tensor.untyped_storage()._cdata for fake in found.values() for tensor in tensors_of(vars(fake.wrapped_obj))}
        if any(tensor.untyped_storage()._cdata in held for tensor in tensors_of(result)):
            raise RuntimeError("it gives a tensor that an object in C++ holds")
        return result

    call.__name__ = name.removesuffix("()").rpartition(".")[2]
    call.of_others = True  # type: ignore[attr-defined]
    call.on_fakes = on_fakes  # type: ignore[attr-defined]
    return call


def fake_of(value: Any, mode: Any) -> FakeScriptObject:
    """The fake of an object as it is now. torch's log of methods that its class lacks is switched off: calling one raises anyway."""
    before = fake_class_registry.log.disabled
    fake_class_registry.log.disabled = True
    try:
        return maybe_to_fake_obj(mode, value)  # type: ignore[return-value]
    finally:
        fake_class_registry.log.disabled = before


def tensors_of(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def held_by(value: Any) -> Any:
    """The contents of an object of a fake class, for comparison: tensors by identity and version."""
    if isinstance(value, torch.Tensor):
        return id(value), value._version
    if isinstance(value, (list, tuple)):
        return [held_by(item) for item in value]
    if isinstance(value, dict):
        return [(key, held_by(item)) for key, item in value.items()]
    if type(value) in PLAIN:
        return value
    return id(value), held_by(vars(value)) if hasattr(value, "__dict__") else None
