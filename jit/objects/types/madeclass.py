"""Classes that the trace makes (Objects/typeobject.c: type_new), by class statements and by calls of metaclasses.

    class Scale:                            # a new class in each call
        factor = 2
        def scaled(self, x): return x * self.factor

While tracing, a real class stands for the one that the program makes. It has the same metaclass and bases, and under each name a value of the same type, so
that whatever asks a class for its MRO, its slots or its flags gets the right answer; but what the program reads of its class are the Objects that it has
put there. Generated code makes the program's class, a new one in each call: where it is used after the graph, and where its bases would know of it.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable
from functools import WRAPPER_ASSIGNMENTS
from types import CellType, FunctionType, MappingProxyType
from typing import Any, NoReturn

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import abstract, differences
from framejit.objects.core.object import VM, Codegen, NotConstant, Object, Raise, call_special, fold
from framejit.objects.types.builtinobject import BuiltinMethodObject, DescriptorObject
from framejit.objects.types.cellobject import CellObject
from framejit.objects.types.classattributes import namespace_of_class
from framejit.objects.types.dictobject import DictObject, dict_of
from framejit.objects.types.exceptions import normalized
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.mappingproxy import MappingProxyObject
from framejit.objects.types.typeobject import SuperObject, TypeObject
from framejit.objects.types.userobject import UserObject
from framejit.program import classes
from framejit.trail import Trail

METHODS: dict[str, type] = {"__new__": staticmethod, "__init_subclass__": classmethod, "__class_getitem__": classmethod}
"""Functions of a class body that `type.__new__` makes static or class methods of."""
READ_BY_TYPE = ("__slots__", "__qualname__")
"""Entries of a namespace whose values decide what `type.__new__` makes."""
COMPUTED = frozenset({
    "__name__", "__qualname__", "__mro__", "__bases__", "__base__", "__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__",
    "__text_signature__",
})  # fmt: skip
"""Fields of a class that its stand-in has too."""
ABSTRACT_METHODS = "__abstractmethods__"
NAMES = ("__name__", "__qualname__")
"""Fields of a class that are kept outside of its namespace, and can be set."""
OWN_INIT_SUBCLASS = object.__dict__["__init_subclass__"]


class Untold:
    """The first base of a class while it is made for real: its other bases are not told of it. What they do when they are told has been traced."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        pass


class UntoldWithoutDict:
    """Takes the place of Untold before bases whose instances have no `__dict__`."""

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        pass


class MadeClass(TypeObject):
    """A class made by the trace. `value` is its stand-in.

    `initial`: the namespace from which it is made. `changes`: what has been set since, None for what has been deleted. `removed`: the names that have been
    deleted, some of which may have been set again. `finishers`: functions in C that the metaclass calls on the new class. `namespace`: its `__dict__`, if that
    has been read. `trail`: of the trace that has made it.
    """

    __slots__ = ("bases", "initial", "changes", "removed", "finishers", "namespace", "trail")
    is_stand_in = True

    def __init__(self, stand_in: type, bases: list[Object], initial: dict[str, Object], trail: Trail) -> None:
        super().__init__(type(stand_in), None, stand_in)
        self.trail = trail
        self.bases = bases
        self.initial = initial
        self.changes: dict[str, Object | None] = {}
        self.removed: frozenset[str] = frozenset()
        self.finishers: tuple[Callable[[type], object], ...] = ()
        self.namespace: DictObject | None = None

    def own(self, vm: VM, name: str) -> Object | None:
        """An attribute of the class itself; None if it has none of this name. Those that `type.__new__` adds are its stand-in's."""
        if name in self.changes and name not in NAMES:
            return self.changes[name]
        namespace = classes.class_dict(self.value)
        if name not in namespace:  # setting `__module__` removes another one
            return None
        is_entry = name in self.initial and name != "__qualname__"  # which type takes out of the namespace; a slot may have the name
        return self.initial[name] if is_entry else vm.const(namespace[name])

    def field(self, vm: VM, name: str) -> Object:
        """An attribute that C code of `type` computes (typefields.py)."""
        if name == "__dict__":
            return ClassDict(self, vm)
        if name == "__text_signature__" and "__doc__" in self.initial:
            self.initial["__doc__"].as_real(vm)  # the stand-in has a docstring of which the signature may be the beginning
        if name in COMPUTED:
            return vm.from_real(type.__dict__[name].__get__(self.value))
        found = self.own(vm, name)
        if found is not None and name in ("__doc__", "__module__", "__annotations__", ABSTRACT_METHODS, "__type_params__"):
            return vm.observe(found).descriptor_get(vm, None, self.value) if name == "__doc__" else found
        if name == "__doc__":
            return vm.const(None)
        if name == "__annotations__" and differences.ANNOTATIONS_IN_NAMESPACE:  # type_get_annotations
            self.set_own(vm, name, dict_of(vm, []))
            return self.changes[name] or vm.const(None)
        if name == ABSTRACT_METHODS:
            vm.raise_(AttributeError, name)
        vm.unsupported(breaks.UnsupportedValue(f"{name} of class {classes.qualname(self.value)}"))

    def as_real(self, vm: VM) -> Any:
        raise NotConstant(self)

    def as_graph_argument(self, vm: VM) -> Any:
        raise NotConstant(self)

    def set_own(self, vm: VM, name: str, value: Object | None) -> None:
        """type_setattro, where the metaclass has no descriptor of this name."""
        special = name.startswith("__") and name.endswith("__")
        is_plain = value is not None or not special
        found = vm.raw_type_lookup(self.cls, name)
        is_field = found is not MISSING and vm.raw_type_lookup(type(found), "__set__") is not MISSING
        if name in ("__module__", *NAMES) and (value is None or vm.observe(value).cls is not str):
            is_plain = False
        if not is_plain or (is_field and not (may_be_set(name) and found is type.__dict__[name])):
            what = f"changing the attribute {name} of the class {classes.qualname(self.value)}, which the compiled code makes"
            vm.unsupported(breaks.UnsupportedOperation(what))
        if value is None and self.own(vm, name) is None:
            fold(vm, type.__delattr__, self.value, name)  # raises
        raw = MISSING if value is None else vm.observe(value).as_real(vm) if name == ABSTRACT_METHODS else stand_in_for(vm, value)
        before = getattr(self.value, name) if name in NAMES else classes.class_dict(self.value).get(name, MISSING)
        if name in NAMES:
            fold(vm, type.__setattr__, self.value, name, raw)  # raises for a text that is no name
        vm.trail.changed(self, self._restore, dict(self.changes), self.removed, name, before)
        if value is None or self.changes.get(name, value) is None:
            self.removed |= {name}
            self.changes.pop(name, None)  # it comes at the end of the order of attributes
        self.changes[name] = None if value is None else vm.observe(value)
        self._set_like(name, raw)
        if self.namespace is not None and value is not None and name not in NAMES:
            self.namespace.store(vm, name, value)
        elif self.namespace is not None:
            self.namespace.delete(vm, name)

    def _set_like(self, name: str, raw: Any) -> None:
        if raw is MISSING:
            type.__delattr__(self.value, name)
        else:
            type.__setattr__(self.value, name, raw)

    def _restore(self, changes: dict[str, Object | None], removed: frozenset[str], name: str, raw: Any) -> None:
        self.changes, self.removed = changes, removed
        self._set_like(name, raw)

    def contents(self, vm: VM) -> DictObject:
        """The attributes of the class itself, in their order, as a dict that changes with them."""
        if self.namespace is None:
            pairs = [(vm.const(name), self.own(vm, name)) for name in classes.class_dict(self.value)]
            vm.trail.fill(self, "namespace", dict_of(vm, [(name, value) for name, value in pairs if value is not None]))
            assert self.namespace is not None
        return self.namespace

    def names_owner(self, name: str) -> bool:
        """Return whether a value of the namespace is told its name, which the trace has done already: the real class gets it when it exists."""
        return wants_name(self.initial[name])

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.cls)
        cg.load_const(classes.name(self.value))
        for base in self.bases:
            cg.load(base)
        cg.build_tuple(len(self.bases))
        for name, value in self.initial.items():
            cg.load_const(name)
            if self.names_owner(name):
                cg.load_const(None)
            else:
                cg.load(value)
        cg.build_map(len(self.initial))
        cg.load_const(self.finishers)
        cg.call_const(build_class, 5)

    def needs_fill(self) -> bool:
        return bool(self.changes or self.removed) or any(map(self.names_owner, self.initial))

    def fill(self, cg: Codegen) -> None:
        for name in self.removed:
            cg.load(self)
            cg.load_const(name)
            cg.call_const(delete_attribute, 2)
            cg.pop_top()
        for name, value in ({name: self.initial[name] for name in self.late()} | self.changes).items():
            if value is not None:
                cg.load(self)
                cg.load_const(name)
                cg.load(value)
                cg.call_const(type.__setattr__, 3)
                cg.pop_top()

    def late(self) -> list[str]:
        """The names of the namespace whose values are set after the class has been made."""
        return [name for name in self.initial if self.names_owner(name) and name not in self.changes]

    def referents(self) -> list[Object]:
        initial = [value for name, value in self.initial.items() if name not in self.changes or not self.names_owner(name)]
        return [*self.bases, *initial, *(value for value in self.changes.values() if value is not None)]


def may_be_set(name: str) -> bool:
    """Return whether setting a field of a class that has been made sets it, or an entry of the namespace, and nothing else."""
    return name in ("__doc__", "__module__", ABSTRACT_METHODS, *NAMES) or (name == "__annotations__" and differences.ANNOTATIONS_IN_NAMESPACE)


class ClassDict(MappingProxyObject):
    """The `__dict__` of a class made by the trace."""

    __slots__ = ("owner",)

    def __init__(self, owner: MadeClass, vm: VM) -> None:
        super().__init__(MappingProxyType, owner.contents(vm))
        self.owner = owner

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.owner)
        cg.call_const(namespace_of_class, 1)

    def referents(self) -> list[Object]:
        return [self.owner]


class MadeDescriptor(DescriptorObject):
    """A staticmethod, classmethod or property that the trace has made. `value` is a real one that stands for it."""

    __slots__ = ()

    def getattr(self, vm: VM, name: str) -> Object:
        """The attributes that it has itself are those that it has copied from its function, and the function's own."""
        function = self.parts.get("__func__")
        if name not in WRAPPER_ASSIGNMENTS and isinstance(function, FunctionObject) and function.attrs is None:
            found = vm.type_lookup(self.cls, name)
            if found is not None:
                return found.descriptor_get(vm, self, self.cls)
        return super().getattr(vm, name)

    def instance_dict(self, vm: VM) -> Any:
        if not classes.dictoffset(self.cls):
            return None
        vm.unsupported(breaks.UnsupportedOperation(f"looking into the __dict__ of a {classes.name(self.cls)} that the compiled code makes"))

    def get_slot(self, vm: VM, member: Any) -> Object:
        getter = self.parts.get("fget")
        if member.__name__ == "__doc__" and "__doc__" not in self.parts and isinstance(getter, FunctionObject) and not getter.renamed:
            return abstract.getattr_(vm, getter, "__doc__")
        if member.__name__ not in (*self.parts, "__wrapped__"):
            vm.unsupported(breaks.UnsupportedValue(f"{member.__name__} of a {classes.name(self.cls)} that the compiled code makes"))
        return super().get_slot(vm, member)

    def reconstruct(self, cg: Codegen) -> None:
        for part in self.parts.values():
            if part is None:
                cg.load_const(None)
            else:
                cg.load(part)
        cg.call_const(self.cls, len(self.parts))

    def awaits(self) -> Object | None:
        """Making it copies the name and the docstring of its function, which may have been set."""
        function = next(iter(self.parts.values()))
        return function if isinstance(function, FunctionObject) and function.source is None and function.renamed else None

    def referents(self) -> list[Object]:
        return [part for part in self.parts.values() if part is not None]


class Announced:
    """The effect of making a class whose bases know of it: they list it among their subclasses."""

    def __init__(self, made: MadeClass) -> None:
        self.made = made

    def replay(self, cg: Codegen) -> None:
        cg.load(self.made)
        cg.pop_top()

    def referents(self) -> list[Object]:
        return [self.made]


def delete_attribute(cls: type, name: str) -> None:
    """Delete an attribute of a new class (runs in generated code), which may not have it: the trace may have set and deleted it again."""
    with contextlib.suppress(AttributeError):
        type.__delattr__(cls, name)


def build_class(meta: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any], finishers: tuple[Callable[[type], object], ...]) -> type:
    """Make a class that the trace has made (runs in generated code). The functions of its metaclass and bases that are called then have been traced."""
    made = class_without_telling(meta, name, bases, namespace)
    for finish in finishers:
        finish(made)
    return made


class MustBeTold(Exception):
    """A class can't be made without telling its bases."""


def class_without_telling(meta: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    """`type.__new__` without the call of `__init_subclass__`. Raises MustBeTold if that is impossible, because of the layout of the bases' instances."""
    if all(classes.lookup(base, "__init_subclass__") is OWN_INIT_SUBCLASS for base in bases):
        return type.__new__(meta, name, bases, namespace)
    first = Untold if any(map(classes.dictoffset, bases)) else UntoldWithoutDict
    made: type = type.__new__(meta, name, (first, *bases), namespace)
    try:
        type.__dict__["__bases__"].__set__(made, bases)
    except TypeError:
        del made
        gc.collect(0)  # until it is collected, its bases have it among their subclasses
        raise MustBeTold(name) from None
    return made


def made_descriptor(vm: VM, cls: type, parts: dict[str, Object | None]) -> MadeDescriptor:
    """A new staticmethod, classmethod or property of these functions."""
    like = cls(*(None if part is None else stand_in_for(vm, part) for part in parts.values()))
    return MadeDescriptor(cls, {name: None if part is None else vm.observe(part) for name, part in parts.items()}, None, like)


def stand_in_for(vm: VM, value: Object) -> Any:
    """A real value of the same type as an attribute of a class that the trace makes, for the class that stands for it."""
    value = vm.observe(value)
    if value.value is not MISSING:
        return value.value
    if isinstance(value, FunctionObject):
        closure = tuple(CellType() for _ in value.code.co_freevars)
        like = FunctionType(value.code, value.globals.value, closure=closure or None)
        like.__qualname__ = value.qualname
        abstract_mark = None if value.attrs is None else value.attrs.lookup(vm, "__isabstractmethod__")
        if abstract_mark is not None:
            if vm.observe(abstract_mark).cls is not bool:
                vm.unsupported(breaks.UnsupportedOperation("a function whose __isabstractmethod__ is no bool in a class that the compiled code makes"))
            like.__isabstractmethod__ = vm.observe(abstract_mark).constant(vm)  # type: ignore[attr-defined]
        return like
    if type(value) is UserObject:
        if vm.raw_type_lookup(value.cls, "__del__") is not MISSING:
            vm.unsupported(breaks.UnsupportedOperation(f"a {value.type_name} in a class that the compiled code makes"))
        return object.__new__(value.cls)
    try:
        return value.as_real(vm)
    except NotConstant:
        return value.cls() if value.cls in (list, dict, set, tuple, frozenset) else StandsForUnknown()


class StandsForUnknown:
    """Stands for an attribute of which only the Object is known."""


def wants_name(value: Object) -> bool:
    """Return whether making a class that has this value in its namespace calls `__set_name__` in Python. A property's is C code, which is called for real."""
    return value.cls is not property and classes.lookup(value.cls, "__set_name__", MISSING) is not MISSING


def new_class(vm: VM, meta: type, name: str, bases: list[Object], namespace: Iterable[tuple[str, Object]], kwargs: dict[str, Object]) -> MadeClass:
    """Objects/typeobject.c: type_new_impl, with the metaclass that the bases ask for. `bases` are classes; `namespace` may have a `__classcell__`.

    Raises what `type.__new__` raises.
    """
    parents = tuple(vm.observe(base).constant(vm) for base in bases) or (object,)
    bases = bases or [vm.const(object)]
    module = classes.module(meta)
    if type(module) is str and module.partition(".")[0] == "torch":
        vm.unsupported(breaks.UnsupportedCall(f"making a class of torch's metaclass {classes.qualname(meta)}"))
    if vm.raw_type_lookup(meta, "mro") is not type.__dict__["mro"]:
        vm.unsupported(breaks.UnsupportedCall(f"making a class whose metaclass {classes.qualname(meta)} has its own mro()"))
    for parent in parents:
        vm.rest_on_bases(parent)
        vm.raw_type_lookup(parent, "__init_subclass__")  # guarded
    contents = {key: vm.observe(value) for key, value in namespace}
    cell, of_dict = contents.pop("__classcell__", None), contents.pop("__classdictcell__", None)
    if of_dict is not None or not (cell is None or isinstance(cell, CellObject)):
        vm.unsupported(breaks.UnsupportedCall("making a class that keeps its namespace for its annotations"))
    if "__module__" not in contents:
        module = None if vm.frame is None else vm.frame.globals.lookup(vm, "__name__")  # type: ignore[attr-defined]
        if module is None:
            vm.unsupported(breaks.UnsupportedCall("making a class in no module"))
        contents["__module__"] = vm.observe(module)
    for key, kind in METHODS.items():
        function = contents.get(key)
        if isinstance(function, FunctionObject):
            contents[key] = made_descriptor(vm, kind, {"__func__": function})
    made = MadeClass(stand_in_class(vm, meta, name, parents, contents), bases, contents, vm.trail)
    classes.STAND_INS[id(made.value)] = made
    if any(parent is not object for parent in parents):
        vm.effects.in_order(Announced(made))
    if cell is not None:
        cell.store(vm, made)
    tell_of(vm, made, kwargs)
    return made


def winning_metaclass(vm: VM, meta: type, parents: tuple[type, ...]) -> type:
    """_PyType_CalculateMetaclass: the most derived metaclass among the given one and those of the bases."""
    for parent in parents:
        other = type(parent)
        if classes.is_subtype(meta, other):
            continue
        if not classes.is_subtype(other, meta):
            vm.raise_(
                TypeError,
                "metaclass conflict: the metaclass of a derived class must be a (non-strict) subclass of the metaclasses of all its bases",
            )
        meta = other
    return meta


def stand_in_class(vm: VM, meta: type, name: str, parents: tuple[type, ...], contents: dict[str, Object]) -> type:
    """The real class that stands for one that the trace makes. `type.__new__` itself finds what is wrong with the arguments."""
    raw = {key: value.as_real(vm) if key in READ_BY_TYPE else stand_in_for(vm, value) for key, value in contents.items()}
    late = {key: like for key, like in raw.items() if wants_name(contents[key])}
    try:
        made = class_without_telling(meta, name, parents, {**raw, **dict.fromkeys(late)})
    except (TypeError, ValueError) as error:
        vm.raise_(type(error), *error.args)
    except MustBeTold:
        vm.unsupported(breaks.UnsupportedCall(f"making the class {name}, whose bases are told of it by __init_subclass__ and have fields of their own"))
    for key, like in late.items():
        type.__setattr__(made, key, like)
    return made


def tell_of(vm: VM, made: MadeClass, kwargs: dict[str, Object]) -> None:
    """type_new_set_names and type_new_init_subclass."""
    for name, value in list(made.initial.items()):
        if wants_name(value):
            try:
                call_special(vm, value, "__set_name__", made, vm.const(name))
            except Raise as raised:
                raise_for_name(vm, raised, f"Error calling __set_name__ on '{value.type_name}' instance {name!r} in '{classes.name(made.value)}'")
    told = vm.observe(SuperObject(made.value, made, made.value).getattr(vm, "__init_subclass__"))
    if kwargs and isinstance(told, BuiltinMethodObject):  # object's
        vm.raise_(TypeError, f"{classes.name(made.value)}.__init_subclass__() takes no keyword arguments")
    abstract.call(vm, told, [], kwargs)


def raise_for_name(vm: VM, raised: Raise, said: str) -> NoReturn:
    """type_new_set_names for a `__set_name__` that raises: another exception says of which, or a note of that exception."""
    if not differences.NAMING_ERRORS_WRAPPED:
        abstract.call_method(vm, raised.exc, "add_note", vm.const(said))
        raise raised
    try:
        vm.raise_(RuntimeError, said)
    except Raise as outer:
        vm.chain_context(outer.exc, raised.exc)
        raise Raise(normalized(vm, outer.exc, raised.exc)) from None


def retire(trail: Trail) -> None:
    """A trace has ended, and nothing refers to its stand-ins any longer. Their bases are not to know of them until they are collected."""
    for each in [made for made in classes.STAND_INS.values() if made.trail is trail]:
        stand_in = each.value
        del classes.STAND_INS[id(stand_in)]
        for name in [*each.initial, *each.changes]:
            with contextlib.suppress(AttributeError, TypeError):
                type.__delattr__(stand_in, name)
        builtin = next(base for base in classes.mro(stand_in) if not classes.flags(base) & classes.HEAP_TYPE)
        if any(classes.flags(base) & classes.HEAP_TYPE for base in stand_in.__bases__):
            with contextlib.suppress(TypeError):  # of another layout
                type.__dict__["__bases__"].__set__(stand_in, (type("Retired", (builtin,), {}),))
