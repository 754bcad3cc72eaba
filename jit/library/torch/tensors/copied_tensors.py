"""`copy.deepcopy` of tensors: copies of tensors that share memory share it too."""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.guards.dynamic import is_argument
from framejit.library.torch.tensors.storages import storage_of, storage_offset
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.storageobject import StorageObject
from framejit.objects.tensors.tensorobject import TensorObject, read_is_leaf
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.idobject import IdObject
from framejit.plain import copies as plain

COPY = "copy.deepcopy()"


@models(torch.Tensor.__deepcopy__)
def deepcopy(vm: TorchVM, self: TensorObject, memo: Object) -> Object:
    """Breaks unless it is a plain leaf: torch would copy more, or raise. Breaks for arguments too: `id()` guards their identity, which differs in each call."""
    memo = vm.observe(memo)
    if self.source is not None and is_argument(self.source):
        vm.unsupported(breaks.UnsupportedOperation(f"{COPY} of an argument"))
    if self.cls is not torch.Tensor or not read_is_leaf(vm, self).constant(vm) or not isinstance(memo, DictObject) or memo.source is not None:
        vm.unsupported(breaks.UnsupportedOperation(f"{COPY} of a tensor that is no plain leaf"))
    return vm.call_app(plain.deepcopy, [self, memo])


@models(plain.in_copied_storage)
def in_copied_storage(vm: TorchVM, tensor: TensorObject, storages: Object) -> Object:
    """A clone has a storage like the tensor's own if the tensor covers all of that, in an order without gaps. Other storages aren't copied."""
    storage, fake = storage_of(vm, tensor, COPY), tensor.look(vm)
    offset = storage_offset(vm, tensor).constant(vm)
    key = IdObject(storage)
    if abstract.truth(vm, operators.contains(vm, storages, key)):
        known = abstract.getitem(vm, storages, key)
        assert isinstance(known, StorageObject)
        copied = known.tensor
        if copied.look(vm).dtype is not fake.dtype:
            vm.unsupported(breaks.UnsupportedOperation(f"{COPY} of tensors that see one storage as different types"))
        form = [vm.from_real(tuple(fake.shape)), vm.from_real(fake.stride()), vm.const(offset)]
        return enter(vm, torch.Tensor.detach, [enter(vm, torch.Tensor.as_strided, [copied, *form])])
    made = enter(vm, torch.Tensor.clone, [tensor])
    assert isinstance(made, TensorObject)
    found = storage_of(vm, made, COPY)
    if offset or found.size != storage.size or made.look(vm).stride() != fake.stride() or fake.is_conj() or fake.is_neg() or fake.is_quantized:
        vm.unsupported(breaks.UnsupportedOperation(f"{COPY} of a part of a tensor, or of one in an unusual form"))
    abstract.setitem(vm, storages, key, found)
    return made
