"""The results of id(): addresses that a trace compares and looks up without knowing, or fixing, their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from framejit.objects.core import operators
from framejit.objects.core.finalizers import guard_address
from framejit.objects.core.object import VM, AddressKey, Codegen, NotConstant, Object
from framejit.objects.core.registry import wrapper_for
from framejit.objects.types.constobject import ConstObject


class IdObject(Object):
    """The address of an object that the trace made, or must not keep alive: usable for look-ups and comparisons in the trace, but unknown as a number."""

    __slots__ = ("owner",)
    is_true = True

    def __init__(self, owner: Object) -> None:
        super().__init__(int)
        self.owner = owner

    def hash_key(self, vm: VM) -> Any:
        return AddressKey(self.owner)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if symbol not in ("==", "!="):
            raise NotConstant(self)
        if not isinstance(other, (IdObject, IdConstant)):
            return vm.const(symbol == "!=")
        return vm.const(operators.is_(vm, self.owner, other.owner) == (symbol == "=="))


class IdConstant(ConstObject):
    """The address of a constant, or of an object from outside whose identity may be guarded. Its number is guarded when it is asked for, and not before."""

    __slots__ = ("owner", "is_of_constant")

    def __init__(self, owner: Object, is_of_constant: bool) -> None:
        super().__init__(id(owner.value), None, pending=True)
        self.owner = owner
        self.is_of_constant = is_of_constant

    def constant(self, vm: VM) -> Any:
        if self.pending:
            if self.is_of_constant:
                vm.guards.rest_on_process("the address of an object")
            else:
                guard_address(vm, vm.tell_apart(self.owner, is_fixed=True), "id()")
            vm.trail.fill(self, "pending", False)
        return self.value

    def truth(self, vm: VM) -> bool:
        return True

    def address_key(self, vm: VM, others: Iterable[Object]) -> AddressKey | None:
        if not self.pending:
            return None
        if wrapper_for(self.owner.cls).shared and not self.is_of_constant:
            return AddressKey(vm.tell_apart(self.owner))
        # Two Objects of this class may be one real object, or become one: only numbers tell.
        alike = not self.is_of_constant and any(isinstance(key, (IdObject, IdConstant)) and key.owner.cls is self.owner.cls for key in others)
        return None if alike else AddressKey(self.value)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if symbol not in ("==", "!=") or not isinstance(other, (IdObject, IdConstant)):
            return None
        return vm.const(operators.is_(vm, self.owner, other.owner) == (symbol == "=="))

    def reconstruct(self, cg: Codegen) -> None:
        if not self.pending:
            return cg.load_const(self.value)
        cg.load(self.owner)
        cg.call_const(id, 1)

    def referents(self) -> list[Object]:
        return [self.owner] if self.pending else []
