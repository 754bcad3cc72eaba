"""Items of str, bytes and range by indices and slices that are objects of the program's with an `__index__`, and slice.indices() of such slices."""

from __future__ import annotations

from typing import Any

from framejit.guards.source import MISSING
from framejit.objects.core import operators
from framejit.objects.core.object import VM, Object, fold
from framejit.objects.core.registry import models
from framejit.objects.types.sequence import real_slice
from framejit.objects.types.sliceobject import SliceObject


def takes_indices(method: Any) -> None:
    """Register `__getitem__` of an immutable sequence (Objects/unicodeobject.c: unicode_subscript)."""

    def model(vm: VM, self: Object, key: Object, /) -> Object:
        real, key = vm.observe(self).as_real(vm), vm.observe(key)
        if isinstance(key, SliceObject):
            return fold(vm, method, real, real_slice(vm, key))
        has_index = vm.raw_type_lookup(key.cls, "__index__") is not MISSING
        return fold(vm, method, real, operators.index(vm, key) if has_index else key.as_real(vm))

    models(method)(model)


for _cls in (str, bytes, range):
    takes_indices(_cls.__getitem__)


@models(slice.indices)
def indices(vm: VM, self: SliceObject, length: Object, /) -> Object:
    """Objects/sliceobject.c: slice_indices, which asks for the length first."""
    size = operators.index(vm, length)
    return fold(vm, slice.indices, slice(None) if size < 0 else real_slice(vm, self), size)
