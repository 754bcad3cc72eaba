"""Hash keys of one trace for values that aren't constants: by identity, or by the value as its class compares it."""

from __future__ import annotations

from typing import Any

from framejit.guards.source import MISSING
from framejit.objects.core import identities
from framejit.objects.core.object import Object, settle, unhashable
from framejit.process.when_needed import when_needed

python_keys = when_needed("framejit.tracing.python_keys")


class Keys:
    """The keys by identity that are told apart, and, once there are such, those that code of the program's compares."""

    def __init__(self, vm: Any) -> None:
        self._vm = vm
        self._told_apart: dict[int, tuple[Object, bool]] = {}
        self._compared: Any = None

    def identity_key(self, obj: Object) -> Any:
        """VM.identity_key."""
        vm = self._vm
        hashes, equals = vm.raw_type_lookup(obj.cls, "__hash__"), vm.raw_type_lookup(obj.cls, "__eq__")
        if hashes is None:
            unhashable(vm, obj.type_name)
        if hashes is object.__hash__ and equals is object.__eq__:
            return self.tell_apart(obj)
        obj = settle(obj)
        found = identities.value_key(vm, obj, hashes, equals)
        if found is not MISSING:
            return found
        if self._compared is None:
            self._compared = python_keys.PythonKeys(vm, self._told_apart)
        return self._compared.key_of(obj)

    def tell_apart(self, obj: Object, is_fixed: bool = False) -> Object:
        """VM.tell_apart."""
        obj = settle(obj)
        if self._compared is not None:
            self._compared.check_address(obj)
        return identities.tell_apart(self._vm, self._told_apart, obj, is_fixed)
