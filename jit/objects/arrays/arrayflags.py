"""The flags of NumPy's arrays, as far as they follow from an array's form: whether it is contiguous, and whether it may be written to."""

from __future__ import annotations

from typing import Any

import numpy

from framejit import breaks
from framejit.objects.arrays.arrayoperands import Operands
from framejit.objects.arrays.ndarrayobject import ArrayObject
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models

Flags: Any = type(numpy.empty(0).flags)
WRITEABLE = frozenset({"writeable", "WRITEABLE", "W"})
KNOWN = frozenset({
    *WRITEABLE, "c_contiguous", "f_contiguous", "contiguous", "fortran", "forc", "fnc",
    "C_CONTIGUOUS", "F_CONTIGUOUS", "CONTIGUOUS", "FORTRAN", "C", "F", "FORC", "FNC",
})  # fmt: skip
"""Attributes and keys that are the same for stand-ins and arrays. No tensor says who owns the memory, or how it is aligned."""


class FlagsObject(Object):
    """The flags of an array, read when they are asked for."""

    __slots__ = ("array",)

    def __init__(self, array: ArrayObject) -> None:
        super().__init__(Flags)
        self.array = array

    def look(self, vm: VM, name: str) -> Object:
        """The attribute or item of this name."""
        operands = Operands(vm, "flags")
        array = operands.real(self.array)
        if name not in KNOWN or self.array.is_scalar or (operands.symbolic and name not in WRITEABLE):
            vm.unsupported(breaks.ArrayOperation(f".flags[{name!r}] of an array"))
        return vm.const(array.flags[name] if name.isupper() else getattr(array.flags, name))

    def getattr(self, vm: VM, name: str) -> Object:
        return self.look(vm, name) if name in vars(Flags) and not name.startswith("__") else super().getattr(vm, name)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.array)
        cg.load_attr("flags")

    def referents(self) -> list[Object]:
        return [self.array]


@models(Flags.__getitem__)
def item(vm: VM, self: Object, key: Object) -> Object:
    key = vm.observe(key)
    if not isinstance(self, FlagsObject) or key.cls is not str or not key.is_knowable() or key.constant(vm) not in KNOWN:
        vm.unsupported(breaks.ArrayOperation("an item of an array's .flags"))
    return self.look(vm, key.constant(vm))
