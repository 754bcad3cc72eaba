"""Classes and `super` (Objects/typeobject.c): attribute look-up along the MRO, and the creation of instances."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, GenericAlias, MemberDescriptorType, UnionType
from typing import Any

import torch

from framejit import breaks
from framejit._runtime import type_name
from framejit.guards.kinds import KeyAbsent, ValueIs
from framejit.guards.source import MISSING, InstanceDict, Item, Pinned, SlotMember, Source
from framejit.objects.core import abstract, wording
from framejit.objects.core.delivery import AS_IT_IS, Delivery, How
from framejit.objects.core.object import VM, Codegen, IdentityConstant, NotConstant, Object, Raise, call_special, fold
from framejit.objects.core.registry import by_library, is_pure, models, wraps
from framejit.objects.core.signatures import NOT_CALLABLE, by_registry
from framejit.objects.types import typefields
from framejit.objects.types.cellobject import CellObject
from framejit.program import classes

DTYPES: dict[type, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


class TypeObject(IdentityConstant):
    """A class; a constant known by identity. `value` is the real class."""

    __slots__ = ()

    def hash_key(self, vm: VM) -> Any:
        if self.cls is not type:
            vm.identity_key(self)  # breaks if the metaclass defines the hash
        return self.value

    def as_real(self, vm: VM) -> Any:
        if typefields.answers_for_itself(vm, self.value):
            raise NotConstant(self)
        return self.value

    def truth(self, vm: VM) -> bool:
        if type(self.value) is type:
            return True
        return Object.truth(self, vm)

    def getattr(self, vm: VM, name: str) -> Object:
        """slot_tp_getattr_hook around type_getattro: an overridden `__getattribute__` of the metaclass, the generic rule, `__getattr__`."""
        overridden = self.cls is not type and vm.raw_type_lookup(self.cls, "__getattribute__") is not type.__getattribute__
        try:
            if overridden:
                hook = vm.type_lookup(self.cls, "__getattribute__")
                assert hook is not None
                return hook.call_as_method(vm, self, [vm.const(name)])
            return self.getattribute(vm, name)
        except Raise as raised:
            if self.cls is type or not issubclass(raised.exc.cls, AttributeError):
                raise
            fallback = vm.type_lookup(self.cls, "__getattr__")
            if fallback is None:
                raise
            return fallback.call_as_method(vm, self, [vm.const(name)])

    def getattribute(self, vm: VM, name: str) -> Object:
        """type_getattro."""
        if typefields.is_field(vm, self, name):
            return typefields.read(vm, self, name)
        if name == "__class__" and vm.raw_type_lookup(self.cls, name) is object.__dict__[name]:
            return vm.const(self.cls)
        found_in_meta = vm.type_lookup(self.cls, name)
        if found_in_meta is not None and found_in_meta.is_data_descriptor(vm) and vm.raw_type_lookup(found_in_meta.cls, "__get__") is not MISSING:
            return found_in_meta.descriptor_get(vm, self, self.cls)
        found = vm.type_lookup(self.value, name)
        if found is not None:
            return found.descriptor_get(vm, None, self.value)
        if found_in_meta is not None:
            return found_in_meta.descriptor_get(vm, self, self.cls)
        vm.raise_(AttributeError, f"type object '{classes.name(self.value)}' has no attribute '{name}'")

    def as_graph_argument(self, vm: VM) -> Any:
        # FX cannot write a class as source text; torch takes these four for dtypes.
        return next((dtype for cls, dtype in DTYPES.items() if cls is self.value), self.value)

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        """slot_tp_setattro of the metaclass."""
        special = "__setattr__" if value is not None else "__delattr__"
        if vm.raw_type_lookup(self.cls, special) is type.__dict__[special]:
            self.set_own(vm, name, value)
        else:
            call_special(vm, self, special, vm.const(name), *([] if value is None else [value]))

    def set_own(self, vm: VM, name: str, value: Object | None) -> None:
        """type_setattro."""
        if value is None:
            vm.unsupported(breaks.UnsupportedOperation(f"deleting an attribute of the class {classes.qualname(self.value)}"))
        vm.store_on_class(self.value, name, vm.observe(value))

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        """type_call, or the model of this very class."""
        real = self.value
        found = by_registry(vm, real, args, kwargs)
        if found is not None:
            return found
        if self.cls is not type and vm.raw_type_lookup(self.cls, "__call__") is not type.__call__:
            method = vm.type_lookup(self.cls, "__call__")
            assert method is not None
            return method.call_as_method(vm, self, args, kwargs, delivery)
        entered = by_library(vm, self, args, kwargs)
        if entered is not None:
            return entered
        if is_pure(real):
            return fold(vm, real, *[vm.observe(a).as_real(vm) for a in args], **{k: vm.observe(a).as_real(vm) for k, a in kwargs.items()})
        return self.instantiate(vm, args, kwargs, delivery)

    def instantiate(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        """Objects/typeobject.c: type_call."""
        real = self.value
        if not classes.known_by_identity(real):
            vm.unsupported(breaks.UnsupportedCall(f"making an instance of {classes.qualname(real)}, which hashes or compares by code of its metaclass"))
        if classes.flags(real) & NOT_CALLABLE:
            vm.unsupported(breaks.UnsupportedCall(f"making an instance of {classes.qualname(real)}, which only C code can"))
        new = vm.raw_type_lookup(real, "__new__")
        if isinstance(new, staticmethod):
            new = new.__func__
        if isinstance(new, BuiltinFunctionType) or (isinstance(new, FunctionType) and id(real) not in classes.STAND_INS):
            maker = vm.pin(new)
        else:
            found = vm.type_lookup(real, "__new__")
            assert found is not None
            maker = found.descriptor_get(vm, None, real)
        made = vm.observe(abstract.call(vm, maker, [self, *args], kwargs))
        if not abstract.is_subtype(vm, made.cls, real):
            return made
        init = vm.raw_type_lookup(made.cls, "__init__")
        if init is not object.__init__ or new is object.__new__:
            initialise = vm.type_lookup(made.cls, "__init__")
            assert initialise is not None
            result = initialise.call_as_method(vm, made, args, kwargs, Delivery(How.MADE, (made,)) if delivery is AS_IT_IS else None)
            if vm.observe(result).cls is not type(None):
                vm.raise_(TypeError, f"__init__() should return None, not '{result.type_name}'")
        return made

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


@wraps(type, by_identity=True)
def wrap_class(vm: VM, value: type, source: Source | None) -> Object:
    made = classes.STAND_INS.get(id(value))
    return TypeObject(type(value), source, value) if made is None else made


@models(type.__getattribute__)
def type_getattribute(vm: VM, self: Object, name: Object) -> Object:
    self = vm.observe(self)
    if not isinstance(self, TypeObject):
        vm.unsupported(breaks.UnsupportedCall("type.__getattribute__ of what is no class"))
    name = vm.observe(name)
    if not issubclass(name.cls, str):
        vm.raise_(TypeError, f"attribute name must be string, not '{name.type_name}'")
    return self.getattribute(vm, str(name.constant(vm)))


@models(type.__setattr__, type.__delattr__)
def type_setattr(vm: VM, self: Object, name: Object, *value: Object) -> Object:
    self, name = vm.observe(self), vm.observe(name)
    if not isinstance(self, TypeObject) or name.cls is not str:
        vm.unsupported(breaks.UnsupportedCall("type.__setattr__ of what is no class, or with a name that is no string"))
    self.set_own(vm, name.constant(vm), value[0] if value else None)
    return vm.const(None)


class SuperObject(Object):
    """A `super()` proxy: attributes of the classes after `start` in the MRO of the receiver's class."""

    __slots__ = ("start", "receiver", "receiver_type")

    def __init__(self, start: type, receiver: Object | None, receiver_type: type | None) -> None:
        super().__init__(super)
        self.start = start
        self.receiver = receiver
        self.receiver_type = receiver_type

    def getattr(self, vm: VM, name: str) -> Object:
        """super_getattro."""
        if name == "__class__" or self.receiver_type is None:
            return Object.getattr(self, vm, name)
        vm.rest_on_bases(self.receiver_type)
        mro = iter(classes.mro(self.receiver_type))
        if not any(cls is self.start for cls in mro):
            mro = iter(())
        for cls in mro:
            found = typefields.own_attribute(vm, cls, name)
            if found is not None:
                assert self.receiver is not None
                bound_to_class = issubclass(self.receiver.cls, type) and self.receiver.value is self.receiver_type
                return found.descriptor_get(vm, None if bound_to_class else self.receiver, self.receiver_type)
        return Object.getattr(self, vm, name)

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        if member.__name__ == "__self__":
            return vm.const(None) if self.receiver is None else self.receiver
        return vm.const(self.start if member.__name__ == "__thisclass__" else self.receiver_type)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.start)
        if self.receiver is not None:
            cg.load(self.receiver)
        cg.call_const(super, 1 if self.receiver is None else 2)

    def referents(self) -> list[Object]:
        return [] if self.receiver is None else [self.receiver]


SUPER_FIELDS = {name: super.__dict__[name] for name in ("__thisclass__", "__self__", "__self_class__")}


@wraps(super)
def wrap_super(vm: VM, value: Any, source: Source) -> SuperObject:
    """A bound `super()` object from outside, whose classes are guarded."""
    parts = {name: (member.__get__(value), source.child(SlotMember, member)) for name, member in SUPER_FIELDS.items()}
    if type(value) is not super or parts["__self_class__"][0] is None:
        vm.unsupported(breaks.UnsupportedValue(f"a {classes.qualname(type(value))}, a super object without an instance or of a class of its own"))
    for name in ("__thisclass__", "__self_class__"):
        vm.guard(ValueIs, parts[name][1], parts[name][0])
    made = SuperObject(parts["__thisclass__"][0], vm.observe(vm.wrap(*parts["__self__"])), parts["__self_class__"][0])
    made.source, made.value = source, value
    return made


@models(super)
def make_super(vm: VM, *args: Object, **kwargs: Object) -> Object:
    """Objects/typeobject.c: super_init. Without arguments, it takes the frame's `__class__` cell and its argument 0."""
    if kwargs:
        vm.raise_(TypeError, "super() takes no keyword arguments")
    if len(args) > 2:
        vm.raise_(TypeError, f"super() expected at most 2 arguments, got {len(args)}")
    start, receiver = super_arguments(vm) if not args else (args[0], args[1] if len(args) > 1 else None)
    start = vm.observe(start)
    if not issubclass(start.cls, type):
        what = "super() argument 1 must be a type, not {}" if args else "super(): __class__ is not a type ({})"
        vm.raise_(TypeError, what.format(classes.name(start.cls)))
    cls = start.constant(vm)
    receiver = None if receiver is None else vm.observe(receiver)
    if receiver is None or receiver.cls is type(None):
        return SuperObject(cls, None, None)
    return SuperObject(cls, receiver, super_check(vm, cls, receiver))


def super_arguments(vm: VM) -> tuple[Object, Object]:
    """The arguments that zero-argument `super()` takes from its frame: the content of the `__class__` cell, and argument 0."""
    frame = vm.frame
    assert frame is not None
    if frame.code.co_argcount == 0:
        vm.raise_(RuntimeError, "super(): no arguments")
    cell = frame.cells.get("__class__")
    if not isinstance(cell, CellObject):
        vm.raise_(RuntimeError, "super(): __class__ cell not found")
    cls = cell.load(vm)
    receiver = frame.locals[0]
    if isinstance(receiver, CellObject) and frame.code.co_varnames[0] in frame.code.co_cellvars:
        receiver = receiver.load(vm)
    if cls is None or receiver is None:
        vm.raise_(RuntimeError, "super(): empty __class__ cell" if cls is None else "super(): arg[0] deleted")
    return cls, receiver


def super_check(vm: VM, cls: type, receiver: Object) -> type:
    """Objects/typeobject.c: supercheck: the class whose MRO is used."""
    if issubclass(receiver.cls, type):
        vm.rest_on_bases(receiver.value)
        if classes.is_subtype(receiver.value, cls):
            return receiver.value  # type: ignore[no-any-return]
    vm.rest_on_bases(receiver.cls)
    if classes.is_subtype(receiver.cls, cls):
        return receiver.cls
    said = abstract.lookup_attr(vm, receiver, "__class__")
    said = None if said is None else vm.observe(said)
    if said is not None and issubclass(said.cls, type):
        vm.rest_on_bases(said.value)
        if classes.is_subtype(said.value, cls):
            return said.value  # type: ignore[no-any-return]
    if not wording.NAMES_OF_SUPER:
        vm.raise_(TypeError, "super(type, obj): obj must be an instance or subtype of type")
    is_class = issubclass(receiver.cls, type)
    what = f"type {type_name(receiver.value)}" if is_class else f"instance of {receiver.type_name}"
    vm.raise_(TypeError, f"super(type, obj): obj ({what}) is not an instance or subtype of type ({type_name(cls)}).")


OF_THE_ALIAS = frozenset({
    "__class__", "__bases__", "__origin__", "__args__", "__unpacked__", "__parameters__", "__typing_unpacked_tuple_args__",
    "__mro_entries__", "__reduce_ex__", "__reduce__", "__copy__", "__deepcopy__",
})  # fmt: skip
"""Attributes that a parametrised generic has itself; all others are its origin's (Objects/genericaliasobject.c: attr_exceptions)."""

EVALUATED = frozenset({"__bound__", "__constraints__"})
"""Attributes of type variables that may run the program's code when they are read (PEP 695)."""


@wraps(GenericAlias, UnionType, by_identity=True)
class AliasObject(IdentityConstant):
    """A parametrised generic (`list[int]`) or a union (`int | None`): a constant known by identity."""

    __slots__ = ()

    def hash_key(self, vm: VM) -> Any:
        try:
            real = self.as_real(vm)
        except NotConstant:
            vm.unsupported(breaks.UnsupportedOperation(f"the hash of {self!r}, which is found by code of a metaclass"))
        try:
            hash(real)
        except TypeError as error:  # of an argument, such as a dict in the metadata of an Annotated
            vm.raise_(TypeError, *error.args)
        return real

    def as_real(self, vm: VM) -> Any:
        for parameter in getattr(self.value, "__args__", ()):
            if issubclass(type(parameter), type):
                vm.const(parameter).as_real(vm)  # C code may compare and hash it
        return self.value

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        """ga_call: an instance of the origin, which gets this alias as its `__orig_class__` if it can."""
        if self.cls is not GenericAlias:
            return super().call(vm, args, kwargs)
        made = vm.observe(abstract.call(vm, vm.const(self.value.__origin__), args, kwargs))
        if classes.flags(made.cls) & classes.HEAP_TYPE:
            try:
                made.setattr(vm, "__orig_class__", self)
            except Raise as raised:
                if not issubclass(raised.exc.cls, (AttributeError, TypeError)):
                    raise
        return made

    def getattr(self, vm: VM, name: str) -> Object:
        if self.cls is GenericAlias and name not in OF_THE_ALIAS:
            return abstract.getattr_(vm, vm.const(self.value.__origin__), name)
        if classes.dictoffset(self.cls):
            self.rest_on_own(vm, name)
        try:
            return vm.from_real(getattr(self.value, name))
        except AttributeError as error:
            vm.raise_(AttributeError, *error.args)

    def rest_on_own(self, vm: VM, name: str) -> None:
        """Guard an attribute that the alias itself may have, and that can be changed.

        A type variable of Python 3.12 has its own attributes outside of any `__dict__`, and evaluates its bound and constraints when they are first read.
        """
        own = getattr(self.value, "__dict__", None)
        if own is None and (name in EVALUATED or not hasattr(self.cls, name)):
            vm.unsupported(breaks.UnsupportedOperation(f"reading {name} of a {self.type_name}"))
        if own is None or (name not in own and classes.lookup(self.cls, name, MISSING) is not MISSING):
            return
        namespace = (vm.root_source.child(Pinned, self.value) if self.source is None else self.source).child(InstanceDict)
        if name in own:
            vm.guard(ValueIs, namespace.child(Item, name), own[name])
        else:
            vm.guard(KeyAbsent, namespace, name)


@models(type.__call__)
def type_call(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    cls = vm.observe(cls)
    if not isinstance(cls, TypeObject):
        vm.unsupported(breaks.UnsupportedCall("type.__call__ of what is no class"))
    return cls.instantiate(vm, list(args), kwargs)
