"""Tensors from outside: each becomes an input of the graph, and what its class holds apart from data is guarded."""

from __future__ import annotations

from types import MemberDescriptorType

import torch

from framejit import breaks, classes
from framejit.guards.kinds import ValueIs
from framejit.guards.source import Source
from framejit.objects import abstract
from framejit.objects.object import VM, Object, Raise
from framejit.objects.registry import wraps
from framejit.objects.tensorobject import TensorObject
from framejit.torch_classes import is_distributed, is_jagged, is_plain, is_wrapper


@wraps(torch.Tensor, shared=True)
def wrap_tensor(vm: VM, value: torch.Tensor, source: Source) -> Object:
    """Wrap a tensor from outside: it becomes an input of the graph."""
    if not is_plain(type(value)):
        for name in ("__torch_function__", "__torch_dispatch__"):
            vm.raw_type_lookup(type(value), name)  # guarded
        if vm.raw_type_lookup(type(value), "__getattribute__") is not object.__getattribute__:
            vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(type(value))}, which has a __getattribute__ of its own"))
    made = vm.graph.input(source, value)
    if is_distributed(type(value)):
        rest_on_layout(vm, made)
    elif is_wrapper(type(value)):
        rest_on_contents(vm, made)
    elif is_jagged(type(value)):
        rest_on_parts(vm, made)
    return made


def rest_on_layout(vm: VM, distributed: Object) -> None:
    """Guard how a distributed tensor lies on its device mesh, and its part in this process."""
    vm.observe(abstract.getattr_(vm, distributed, "_local_tensor"))
    layout = vm.observe(abstract.getattr_(vm, distributed, "_spec"))
    mesh = vm.observe(abstract.getattr_(vm, layout, "mesh"))
    if mesh.source is None:
        vm.unsupported(breaks.TensorSubclass("DTensor, whose device mesh isn't from outside"))
    vm.guard(ValueIs, mesh.source, mesh.value)
    for name in ("placements", "tensor_meta", "shard_order", "use_strided_shard_as_shard_order"):
        if name in layout.value.__dict__:
            rest_on_value(vm, abstract.getattr_(vm, layout, name), layout, 0)


def rest_on_parts(vm: VM, nested: Object) -> None:
    """Guard the components of a nested tensor, from which its sizes follow."""
    names = ("_values", "_offsets", "_lengths", "_ragged_idx", "_metadata_cache")
    parts = {name: abstract.getattr_(vm, nested, name) for name in names}
    for part in parts.values():
        rest_on_value(vm, part, nested, 0)
    lengths = vm.observe(parts["_lengths"])
    vm.graph.holds_lengths(vm.observe(parts["_offsets"]) if lengths.cls is type(None) else lengths)


def rest_on_contents(vm: VM, wrapper: Object, depth: int = 0) -> None:
    """Guard all attributes of a tensor that wraps others, or of an object that it holds: what its operators do may depend on them."""
    namespace = wrapper.instance_dict(vm)
    members = [found for cls in classes.mro(wrapper.cls) for found in classes.class_dict(cls).values() if type(found) is MemberDescriptorType]
    if (namespace is None and not members) or depth > MOST_NESTED:
        vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(wrapper.cls)}, of which it isn't known what it holds"))
    for _, value in [] if namespace is None else list(namespace.open(vm).values()):
        rest_on_value(vm, value, wrapper, depth)
    for member in members:
        try:
            value = wrapper.get_slot(vm, member)
        except Raise:  # it is guarded that the slot is empty
            continue
        rest_on_value(vm, value, wrapper, depth)


def rest_on_value(vm: VM, value: Object, wrapper: Object, depth: int) -> None:
    value = vm.observe(value)
    if isinstance(value, TensorObject):
        return
    if value.cls is list or classes.is_subtype(value.cls, tuple):
        for item in abstract.iterate(vm, value):
            rest_on_value(vm, item, wrapper, depth)
    elif value.is_knowable():
        value.constant(vm)
    elif value.cls is dict:
        for name in abstract.iterate(vm, value):
            rest_on_value(vm, abstract.getitem(vm, value, name), wrapper, depth)
    else:
        rest_on_contents(vm, value, depth + 1)


MOST_NESTED = 4
"""How deeply nested objects in a wrapper of tensors may be."""
