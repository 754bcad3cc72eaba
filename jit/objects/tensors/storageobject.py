"""Storages of tensors and the addresses of their data: the trace knows which of them are the same, but not their values."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core.addresses import ON_ADDRESSES
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.torch_state.torch_classes import address_of, storage_of

COMPARED = {"==": True, "!=": False}


class StorageObject(Object):
    """The storage of a tensor. All tensors that view it share the Object. `tensor`: the first whose storage was asked for."""

    __slots__ = ("tensor", "size", "addresses")

    def __init__(self, tensor: TensorObject, size: int) -> None:
        self.cls = torch.UntypedStorage
        self.source = None
        self.value = MISSING
        self.attrs = None
        self.tensor = tensor
        self.size = size
        self.addresses: dict[int, AddressObject] = {}

    def is_of(self, vm: VM, tensor: TensorObject) -> bool:
        """Return whether a tensor's data lies in it."""
        return key_of(self.tensor.look(vm)) == key_of(tensor.look(vm))

    def address(self, vm: VM, offset: int, tensor: TensorObject | None) -> AddressObject:
        """The address at an offset in bytes. `tensor`: the one whose data begins there; None if the storage itself is asked."""
        found = self.addresses.get(offset)
        if found is None:
            found = AddressObject(self, tensor)
            self.addresses[offset] = found
            vm.trail.learned(self, self.addresses.pop, offset)
        return found

    def getattr(self, vm: VM, name: str) -> Object:
        """An attribute that the class has. Others, which the program may have set on the storage itself, break the graph."""
        found = vm.type_lookup(self.cls, name)
        if found is None:
            vm.unsupported(breaks.UnsupportedOperation(f"reading .{name} of a storage"))
        return found.descriptor_get(vm, self, self.cls)

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        vm.unsupported(breaks.UnsupportedOperation(f"storing to .{name} of a storage"))

    def hash_key(self, vm: VM) -> Any:
        return self

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.tensor)
        cg.call_const(storage_of, 1)

    def referents(self) -> list[Object]:
        return [self.tensor]


class AddressObject(Object):
    """The address of some data: an int about which the trace knows whether it is also that of other data, and whether it is zero."""

    __slots__ = ("storage", "tensor")
    is_true = True
    is_address = True

    def __init__(self, storage: StorageObject, tensor: TensorObject | None) -> None:
        self.cls = int
        self.source = None
        self.value = MISSING
        self.attrs = None
        self.storage = storage
        self.tensor = tensor

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if symbol not in COMPARED:
            self.break_graph(vm)
        if isinstance(other, AddressObject):
            return vm.const((self is other) == COMPARED[symbol])
        if other.cls is type(None):
            return vm.const(not COMPARED[symbol])
        if other.cls is int and other.is_known() and other.constant(vm) == 0:
            return vm.const(not COMPARED[symbol])
        return self.break_graph(vm)

    def hash_key(self, vm: VM) -> Any:
        return self

    def break_graph(self, vm: VM) -> NoReturn:
        vm.unsupported(breaks.UnsupportedOperation(ON_ADDRESSES))

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        self.break_graph(vm)

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        self.break_graph(vm)

    def reconstruct(self, cg: Codegen) -> None:
        if self.tensor is None:
            cg.load(self.storage)
            cg.call_const(torch.UntypedStorage.data_ptr, 1)
        else:
            cg.load(self.tensor)
            cg.call_const(address_of, 1)

    def referents(self) -> list[Object]:
        return [self.storage if self.tensor is None else self.tensor]


def key_of(fake: torch.Tensor) -> int:
    """A number that identifies the storage of a fake tensor as long as the fake tensor lives."""
    return fake.untyped_storage()._cdata
