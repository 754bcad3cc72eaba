"""nn.Module: models of attribute look-ups, calls and stores that do directly what torch's Python code comes to in the usual case.

An nn.Module is a UserObject; nothing here changes what its class says. If hooks or parameters make the case unusual,
torch's own function is traced instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module

from framejit.objects.core import abstract
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Object, object_setattr
from framejit.objects.core.registry import models
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.emptyitems import rest_on_empty_items
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.numbereddict import go_by_place

TENSOR_SPACES = ("_parameters", "_buffers", "_modules")
INSTANCE_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
GLOBAL_HOOKS = ("_global_backward_pre_hooks", "_global_backward_hooks", "_global_forward_hooks", "_global_forward_pre_hooks")

AroundCall = Callable[[Any, Object, Sequence[Object], dict[str, Object], Callable[[], Object]], Object]
AROUND_CALLS: list[AroundCall] = []


def around_calls(function: AroundCall) -> AroundCall:
    """Register `function(vm, module, args, kwargs, trace)`, which is called in the place of each module, and gives the result; `trace()` traces the call."""
    AROUND_CALLS.append(function)
    return function


def space(vm: VM, self: Object, name: str) -> DictObject | None:
    """One of the module's dicts, from its instance dict."""
    namespace = self.instance_dict(vm)
    found = None if namespace is None else namespace.lookup(vm, name)
    return None if found is None else vm.observe(found)  # type: ignore[return-value]


def is_dict(members: Object | None) -> bool:
    """Return whether the container of a module's members is a dict or missing: a scripted module has another object in its place."""
    return members is None or issubclass(members.cls, dict)


@models(nn.Module.__getattr__)
def module_getattr(vm: VM, self: Object, name: Object) -> Object:
    """torch.nn.Module.__getattr__: parameters, then buffers, then submodules."""
    text = vm.observe(name).constant(vm)
    for part in TENSOR_SPACES:
        members = space(vm, self, part)
        if not is_dict(members):
            return inline(vm, nn.Module.__getattr__, [self, name])
        found = None if members is None else members.lookup(vm, text)
        if found is not None:
            return found
    vm.raise_(AttributeError, f"'{self.type_name}' object has no attribute '{text}'")


@models(nn.Module.__setattr__)
def module_setattr(vm: VM, self: Object, name: Object, value: Object) -> Object:
    """torch.nn.Module.__setattr__ if neither a parameter nor a submodule is involved; otherwise torch's own code is traced."""
    text = vm.observe(name).constant(vm)
    value = vm.observe(value)
    spaces = [space(vm, self, part) for part in TENSOR_SPACES]
    if not all(map(is_dict, spaces)):
        return inline(vm, nn.Module.__setattr__, [self, name, value])
    present = [members is not None and members.lookup(vm, text) is not None for members in spaces]
    if issubclass(value.cls, (nn.Parameter, nn.Module)) or present[0] or present[2] or isinstance(value.value, nn.Buffer):
        return inline(vm, nn.Module.__setattr__, [self, name, value])
    if present[1]:
        if not issubclass(value.cls, (torch.Tensor, type(None))):
            return inline(vm, nn.Module.__setattr__, [self, name, value])
        assert spaces[1] is not None
        spaces[1].store(vm, text, value)
    else:
        object_setattr(vm, self, text, value)
    return vm.const(None)


def inline(
    vm: VM, function: object, args: list[Object], kwargs: dict[str, Object] | None = None, delivery: Delivery | None = None
) -> Object:
    """Trace torch's own code of a function that has a model here."""
    found = vm.pin(function)
    assert isinstance(found, FunctionObject)
    return found.inline(vm, args, kwargs or {}, delivery)


def has_hooks(vm: VM, self: Object) -> bool:
    """Return whether a hook of the module or a global one would run at a call. If there is none, all of them are guarded to be empty."""
    return has_own_hooks(vm, self) or has_global_hooks(vm)


def has_own_hooks(vm: VM, self: Object) -> bool:
    members = self.instance_dict(vm)
    if isinstance(members, DictObject) and rest_on_empty_items(vm, members, INSTANCE_HOOKS):
        return False
    spaces = [space(vm, self, name) for name in INSTANCE_HOOKS]
    for hooks in spaces:
        go_by_place(vm, hooks)
    return any(hooks is None or abstract.truth(vm, hooks) for hooks in spaces)


def has_global_hooks(vm: VM) -> bool:
    namespace = vm.globals_of(torch_module.__dict__)
    found = (namespace.lookup(vm, name) for name in GLOBAL_HOOKS)
    return any(hooks is None or abstract.truth(vm, hooks) for hooks in found)


@models(nn.Module._wrapped_call_impl, delivers=True)
def module_call(vm: VM, delivery: Delivery | None, self: Object, /, *args: Object, **kwargs: Object) -> Object:
    """Call a module. One that was compiled in place calls its compiled form, which is traced through."""
    trace = partial(forward_to, vm, self, "_call_impl", args, kwargs, delivery)
    for around in AROUND_CALLS:
        trace = partial(around, vm, self, args, kwargs, trace)
    return trace()


@models(nn.Module._call_impl, delivers=True)
def module_call_impl(vm: VM, delivery: Delivery | None, self: Object, /, *args: Object, **kwargs: Object) -> Object:
    """A call without hooks is a call of `forward`."""
    if has_hooks(vm, self):
        return inline(vm, nn.Module._call_impl, [self, *args], kwargs, delivery)
    outer = vm.graph.module_stack
    path = "<new>" if self.source is None else self.source.describe()
    vm.trail.set(vm.graph, "module_stack", {**outer, path: (path, self.cls)})
    result = forward_to(vm, self, "forward", args, kwargs, delivery)
    vm.trail.set(vm.graph, "module_stack", outer)
    return result


def forward_to(vm: VM, self: Object, name: str, args: Sequence[Object], kwargs: dict[str, Object], delivery: Delivery | None) -> Object:
    """Call a method and return its result, which is delivered as the result of the modelled call."""
    return abstract.call(vm, abstract.getattr_(vm, self, name), list(args), kwargs, delivery)
