"""Finds out which tensors share their memory: `data_ptr()` and `untyped_storage()`, which programs compare to find tied weights and views.

Two inputs whose storages a program has asked for are guarded to share memory, or not, as in the call that was traced.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.guards.kinds import Equals
from framejit.guards.source import MISSING
from framejit.guards.tensor_source import TensorOffset
from framejit.guards.tensor_spec import storage_and_offset
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.storageobject import StorageObject, key_of
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter


def break_graph(vm: TorchVM, what: str) -> NoReturn:
    vm.unsupported(breaks.UnsupportedOperation(f"{what} of a tensor"))


def storage_of(vm: TorchVM, tensor: TensorObject, what: str) -> StorageObject:
    """The storage of a tensor. Breaks if its size has changed, because it may then lie elsewhere."""
    fake = tensor.look(vm)
    if tensor.data is not MISSING:
        break_graph(vm, f"{what} after a change of its .data,")
    if fake.layout is not torch.strided or type(size := fake.untyped_storage().nbytes()) is not int or type(fake.storage_offset()) is not int:
        break_graph(vm, f"{what} with sizes that aren't constant,")
    for known in vm.graph.storages:
        if known.is_of(vm, tensor):
            if known.size != size:
                break_graph(vm, f"{what} after a change of its size,")
            return known
    made = StorageObject(tensor, size)
    vm.graph.storages.append(made)
    vm.trail.learned(vm.graph, vm.graph.storages.pop)
    return made


@models(torch.Tensor.data_ptr)
def data_ptr(vm: TorchVM, self: TensorObject) -> Object:
    """Tensor.data_ptr: zero for a tensor without elements (aten/src/ATen/core/TensorBase.h: mutable_data_ptr)."""
    storage, fake = storage_of(vm, self, "data_ptr()"), self.look(vm)
    if fake.numel() == 0:
        return vm.const(0)
    return storage.address(vm, fake.storage_offset() * fake.itemsize, self)


@models(torch.Tensor.storage_offset)
def storage_offset(vm: TorchVM, self: TensorObject) -> Object:
    storage_of(vm, self, "storage_offset()")
    guard_offsets(vm, self, "storage_offset()")
    return vm.const(self.look(vm).storage_offset())


def guard_offsets(vm: TorchVM, self: TensorObject, what: str) -> None:
    """Guard the storage offsets of the tensors from outside that share memory with a tensor, unless the offset is a symbol of the graph."""
    mine = key_of(self.look(vm))
    for tensor in vm.graph.inputs.tensors():
        fake = tensor.look(vm)
        if key_of(fake) == mine and type(fake.storage_offset()) is int:
            found = None if tensor.source is None else storage_and_offset(tensor.value)
            if tensor.source is None or found is None or found[1] != fake.storage_offset():
                break_graph(vm, what)
            vm.guard(Equals, tensor.source.child(TensorOffset), fake.storage_offset())


def placing(function: Any) -> None:
    """Let a function that makes a view with an offset given by the program, which counts from the beginning of the storage, guard the offsets of the inputs:
    Inductor's code only knows where an input itself begins."""

    def model(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        offset = args[3] if len(args) > 3 else kwargs.get("storage_offset")
        tensor = vm.observe(args[0]) if args else kwargs.get("input")
        if offset is not None and vm.observe(offset).cls is not type(None) and vm.graph.is_one_autograd_node and isinstance(tensor, TensorObject):
            guard_offsets(vm, tensor, f"{function.__name__}() with an offset")
        return enter(vm, function, list(args), kwargs)

    models(function)(model)


for _function in (torch.Tensor.as_strided, torch.as_strided):
    placing(_function)


@models(torch.Tensor.untyped_storage)
def untyped_storage(vm: TorchVM, self: TensorObject) -> Object:
    return storage_of(vm, self, "untyped_storage()")


@models(torch.UntypedStorage.data_ptr)
def storage_data_ptr(vm: TorchVM, self: Object) -> Object:
    if not isinstance(self, StorageObject):
        vm.unsupported(breaks.UnsupportedOperation("data_ptr() of a storage from outside"))
    return self.address(vm, 0, None) if self.size else vm.const(0)


@models(torch.UntypedStorage.nbytes)
def nbytes(vm: TorchVM, self: Object) -> Object:
    """The size of a storage. That of a tensor from outside breaks the graph: guards cover only the part that the tensor sees, not the whole storage."""
    if not isinstance(self, StorageObject) or any(self.is_of(vm, tensor) for tensor in vm.graph.inputs.tensors()):
        break_graph(vm, "the size of the storage")
    return vm.const(self.size)


models(torch.UntypedStorage.__len__)(nbytes)
