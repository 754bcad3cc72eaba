"""Class statements and the making of classes by calls (Python/bltinmodule.c: builtin___build_class__; Objects/typeobject.c: type_new)."""

from __future__ import annotations

import _abc
import builtins

from framejit import breaks
from framejit._runtime import type_name
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.types.constobject import NONE
from framejit.objects.types.dictobject import DictObject, dict_of
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.madeclass import (
    OWN_INIT_SUBCLASS,
    MadeClass,
    MadeDescriptor,
    made_descriptor,
    new_class,
    stand_in_for,
    winning_metaclass,
)
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.typeobject import TypeObject
from framejit.objects.types.userobject import UserObject
from framejit.program import classes


@models(builtins.__build_class__)
def build_class(vm: VM, function: Object, name: Object, *bases: Object, **kwargs: Object) -> Object:
    """The namespace is made, the body is run in it, and the metaclass is called with it."""
    body = vm.observe(function)
    if not isinstance(body, FunctionObject):
        vm.unsupported(breaks.UnsupportedCall("__build_class__ without a class statement"))
    resolved = resolved_bases(vm, bases)
    given = kwargs.pop("metaclass", None)
    meta = vm.observe(given) if given is not None else vm.const(type(vm.observe(resolved[0]).value)) if resolved else vm.const(type)
    if isinstance(meta, TypeObject):
        reals = tuple(vm.observe(base).constant(vm) for base in resolved)
        meta = vm.const(winning_metaclass(vm, meta.value, reals))
    namespace = prepared(vm, meta, name, resolved, kwargs)
    cell = vm.observe(vm.run_function(body, {}, None, namespace))
    if not all(isinstance(vm.observe(base), TypeObject) for base in bases):
        abstract.setitem(vm, namespace, vm.const("__orig_bases__"), TupleObject(list(bases)))
    made = vm.observe(abstract.call(vm, meta, [name, TupleObject(resolved), namespace], kwargs))
    if isinstance(made, TypeObject) and cell.cls is not type(None) and vm.observe(cell.load(vm) or NONE) is not made:  # type: ignore[attr-defined]
        vm.unsupported(breaks.UnsupportedCall("making a class whose metaclass doesn't pass the namespace on"))
    return made


def resolved_bases(vm: VM, bases: tuple[Object, ...]) -> list[Object]:
    """update_bases: what is no class may name classes in its place."""
    found: list[Object] = []
    for base in bases:
        base = vm.observe(base)
        entries = None if isinstance(base, TypeObject) else abstract.lookup_attr(vm, base, "__mro_entries__")
        if isinstance(base, TypeObject):
            found.append(base)
        elif entries is None:
            vm.unsupported(breaks.UnsupportedCall(f"making a class with a {base.type_name} among its bases"))
        else:
            found += [vm.observe(each) for each in abstract.iterate(vm, abstract.call(vm, entries, [TupleObject(list(bases))], {}))]
    if not all(isinstance(base, TypeObject) for base in found):
        vm.unsupported(breaks.UnsupportedCall("making a class with bases that are no classes"))
    return found


def prepared(vm: VM, meta: Object, name: Object, bases: list[Object], kwargs: dict[str, Object]) -> DictObject:
    """The namespace of the body, which the metaclass may make."""
    if isinstance(meta, TypeObject) and vm.raw_type_lookup(meta.value, "__prepare__") is type.__dict__["__prepare__"]:
        return dict_of(vm, [])
    prepare = abstract.lookup_attr(vm, meta, "__prepare__")
    namespace = dict_of(vm, []) if prepare is None else vm.observe(abstract.call(vm, prepare, [name, TupleObject(bases)], kwargs))
    if not isinstance(namespace, DictObject) or namespace.source is not None:
        vm.unsupported(breaks.UnsupportedCall(f"making a class in a namespace that is a {namespace.type_name}"))
    return namespace


@models(type.__new__)
def type_new(vm: VM, meta: Object, /, *args: Object, **kwargs: Object) -> Object:
    if len(args) != 3:
        vm.unsupported(breaks.UnsupportedCall("type.__new__ with arguments that it refuses"))
    name, bases, namespace = map(vm.observe, args)
    if name.cls is not str or bases.cls is not tuple or not isinstance(namespace, DictObject):
        vm.unsupported(breaks.UnsupportedCall("type.__new__ with arguments that it refuses"))
    parents = [vm.observe(base) for base in abstract.iterate(vm, bases)]
    entries = [(key.constant(vm), value) for key, value in namespace.open(vm).values()]
    if not all(isinstance(base, TypeObject) for base in parents) or not all(type(key) is str for key, _ in entries):
        vm.unsupported(breaks.UnsupportedCall("type.__new__ with bases that are no classes, or names that are no strings"))
    given = vm.observe(meta).constant(vm)
    real = winning_metaclass(vm, given, tuple(parent.constant(vm) for parent in parents))
    if real is not given and vm.raw_type_lookup(real, "__new__") is not type.__new__:
        maker = vm.type_lookup(real, "__new__")
        assert maker is not None
        return abstract.call(vm, maker.descriptor_get(vm, None, real), [vm.const(real), *args], kwargs)
    return new_class(vm, real, name.constant(vm), parents, entries, kwargs)


@models(type.__init__)
def type_init(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    if len(args) not in (1, 3) or (len(args) == 1 and kwargs):
        vm.unsupported(breaks.UnsupportedCall("type.__init__ with arguments that it refuses"))
    return NONE


@models(OWN_INIT_SUBCLASS)
def init_subclass(vm: VM, cls: Object, /, **kwargs: Object) -> Object:
    """Objects/typeobject.c: object_init_subclass."""
    if kwargs:
        vm.raise_(TypeError, f"{type_name(vm.observe(cls).constant(vm))}.__init_subclass__() takes no keyword arguments")
    return NONE


@models(type.__dict__["__prepare__"])
def type_prepare(vm: VM, *args: Object, **kwargs: Object) -> Object:
    return dict_of(vm, [])


@models(_abc._abc_init)
def abc_init(vm: VM, cls: Object) -> Object:
    """The abstract methods are found among the functions that stand for the class's own; the real class finds them again."""
    made = vm.observe(cls)
    if not isinstance(made, MadeClass):
        vm.unsupported(breaks.UnsupportedCall("_abc_init of a class from outside"))
    if any(counts_as_abstract(vm, made, name) for name in made.changes):
        vm.unsupported(breaks.UnsupportedCall("_abc_init of a class of which an abstract method has been changed"))
    for value in map(vm.observe, made.initial.values()):
        if type(value) is UserObject and abstract.lookup_attr(vm, value, "__isabstractmethod__") is not None:  # its stand-in has no attributes
            vm.unsupported(breaks.UnsupportedCall(f"_abc_init of a class with a {value.type_name} that may be abstract"))
    _abc._abc_init(made.value)
    vm.trail.set(made, "finishers", (*made.finishers, _abc._abc_init))
    return NONE


def counts_as_abstract(vm: VM, made: MadeClass, name: str) -> bool:
    """Return whether an attribute that has been set since the class was made may count for its abstract methods, which the real class finds before."""
    values = [value for value in (made.initial.get(name), made.changes[name]) if value is not None]
    inherited = any(name in getattr(base, "__abstractmethods__", ()) for base in classes.mro(made.value)[1:])
    return inherited or any(getattr(stand_in_for(vm, value), "__isabstractmethod__", False) for value in values)


@models(staticmethod)
def static_method(vm: VM, function: Object, /) -> Object:
    return made_descriptor(vm, staticmethod, {"__func__": function})


@models(classmethod)
def class_method(vm: VM, function: Object, /) -> Object:
    return made_descriptor(vm, classmethod, {"__func__": function})


@models(property)
def property_(vm: VM, fget: Object | None = None, fset: Object | None = None, fdel: Object | None = None, doc: Object | None = None) -> Object:
    given = {"fget": fget, "fset": fset, "fdel": fdel}
    parts = {name: None if part is None or vm.observe(part).cls is type(None) else part for name, part in given.items()}
    if doc is not None and vm.observe(doc).cls is not type(None):
        parts["__doc__"] = doc
    return made_descriptor(vm, property, parts)


@models(property.getter)
def property_getter(vm: VM, self: Object, function: Object) -> Object:
    return property_with(vm, self, "fget", function)


@models(property.setter)
def property_setter(vm: VM, self: Object, function: Object) -> Object:
    return property_with(vm, self, "fset", function)


@models(property.deleter)
def property_deleter(vm: VM, self: Object, function: Object) -> Object:
    return property_with(vm, self, "fdel", function)


def property_with(vm: VM, self: Object, part: str, function: Object) -> Object:
    """property_copy: a property with another function. One from outside may have a docstring of its own."""
    if not isinstance(self, MadeDescriptor) or self.cls is not property or vm.observe(function).cls is type(None):
        vm.unsupported(breaks.UnsupportedCall(f"a copy of a {self.type_name} with another function"))
    return made_descriptor(vm, property, {**self.parts, part: function})
