"""Constants: None, bool, complex, str, bytes and so on, and what all constants have in common.

A constant from outside is guarded when its value is asked for, not before.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, EllipsisType, MemberDescriptorType, NoneType, NotImplementedType
from typing import Any

from framejit import breaks
from framejit.errors import UserFrame
from framejit.guards.kinds import Equals, TypeIs, ValueIs
from framejit.guards.source import MISSING, Pinned, Source
from framejit.objects.core.object import VM, Codegen, LazyObject, NotConstant, Object, settle
from framejit.objects.core.registry import pure_methods, wrapper_for, wraps
from framejit.program import classes
from framejit.program.naming import short

SCALARS: tuple[type, ...] = (bool, int, float, complex, str, bytes)
SINGLETONS: tuple[type, ...] = (NoneType, EllipsisType, NotImplementedType)
ENUM_FIELDS = (enum.Enum.__dict__["value"], enum.Enum.__dict__["name"], MISSING)
"""The class attributes that `value` and `name` of a member resolve to unless its class overrides them: Enum's own properties, or nothing."""
EXACT = frozenset(SCALARS + SINGLETONS)

pure_methods(*SCALARS, *SINGLETONS)


class ConstObject(Object):
    """A constant. `pending`: its value comes from outside and nothing has asked for it yet."""

    __slots__ = ("pending",)

    def __init__(self, value: Any, source: Source | None = None, pending: bool = False) -> None:
        self.cls = type(value)
        self.source = source
        self.value = value
        self.attrs = None
        self.pending = pending

    def is_known(self) -> bool:
        return not self.pending

    def is_knowable(self) -> bool:
        return True

    def constant(self, vm: VM) -> Any:
        if self.pending:
            assert self.source is not None
            vm.guard(Equals, self.source, self.value)
            vm.trail.fill(self, "pending", False)
        return self.value

    def plain_number(self, vm: VM) -> Object | None:
        """The number of Python that `int()` and `float()` take the value for, if that is symbolic and the value is no exact int or float; None otherwise."""
        return None

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        return vm.from_real(member.__get__(self.constant(vm)))

    def hash_key(self, vm: VM) -> Any:
        return self.constant(vm)

    def truth(self, vm: VM) -> bool:
        value = self.constant(vm)
        if value is NotImplemented:
            vm.unsupported(breaks.SideEffect("the truth of NotImplemented, which warns,"))
        return bool(value)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)

    def __repr__(self) -> str:
        return short(self.value) if self.source is None else f"{self.source.name_in_reports()} ({short(self.value)})"


class EnumObject(ConstObject):
    """An enum member: a constant known by identity."""

    __slots__ = ()
    has_dict = True

    def as_real(self, vm: VM) -> Any:
        """Refuses to be an argument of a C function if that may call the program's, or a package's, code for the member's text."""
        texts = [getattr(self.cls, name) for name in ("__str__", "__repr__", "__format__")]
        if not all(getattr(text, "__module__", "enum") in sys.stdlib_module_names for text in texts):
            raise NotConstant(self)
        return super().as_real(vm)

    def constant(self, vm: VM) -> Any:
        if self.pending:
            assert self.source is not None
            vm.guard(ValueIs, self.source, self.value)
            vm.trail.fill(self, "pending", False)
        return self.value

    def truth(self, vm: VM) -> bool:
        return Object.truth(self, vm)

    def getattr(self, vm: VM, name: str) -> Object:
        if name in ("value", "name", "_value_", "_name_") and vm.raw_type_lookup(self.cls, name) in ENUM_FIELDS:
            found = getattr(self.constant(vm), f"_{name.strip('_')}_")
            if is_plain(found):
                return vm.const(found)
        return Object.getattr(self, vm, name)


class AnswerObject(ConstObject):
    """An answer that the program has got when it has asked whether it is compiled, or a constant that depends on one. `asked`: the place where it asked.

    The trace is told of branches on it: see tracing/consequences.py.
    """

    __slots__ = ("asked",)

    def __init__(self, value: Any, asked: tuple[UserFrame, ...]) -> None:
        super().__init__(value)
        self.asked = asked

    def truth(self, vm: VM) -> bool:
        vm.answers.decide(self.asked)
        return bool(self.value)

    def negation(self) -> AnswerObject:
        """The opposite truth value, which depends on the same answer."""
        return AnswerObject(not self.value, self.asked)


def answer(vm: VM) -> Object:
    """The answer to the program, which asks here whether it is compiled."""
    asked, is_yes = vm.answers.here()
    return AnswerObject(True, asked) if is_yes else FALSE


NONE = ConstObject(None)
TRUE = ConstObject(True)
FALSE = ConstObject(False)
NOT_IMPLEMENTED = ConstObject(NotImplemented)
SINGLETON_OBJECTS: dict[Any, ConstObject] = {None: NONE, NotImplemented: NOT_IMPLEMENTED, ...: ConstObject(...)}

CONST_CLASSES: dict[type, type[ConstObject]] = dict.fromkeys((complex, str, bytes), ConstObject)
"""The classes of the Objects of scalars. build.py adds those of ints and floats."""
SUBCLASS_WRAPPERS: dict[type, Callable[[VM, Any, Source], Object]] = {}
"""By int, float and str: the function that wraps an instance of a subclass of it. scalarsubclass.py fills the table."""
CONST_BUILDERS: dict[type, Callable[[Any, Any], Object]] = {}
"""The constructors of Objects for containers of constants: exact type -> build(vm, value). The files of those types fill it."""


def const_object(vm: VM, value: Any) -> Object:
    """The Object of a real immutable value that the trace itself knows: the implementation of `vm.const`."""
    cls = type(value)
    if cls is bool:
        return TRUE if value else FALSE
    if cls in SINGLETONS:
        return SINGLETON_OBJECTS[value]
    scalar = CONST_CLASSES.get(cls)
    if scalar is not None:
        return scalar(value)
    if issubclass(cls, enum.Enum):
        return EnumObject(value, vm.root_source.child(Pinned, value))
    build = CONST_BUILDERS.get(cls)
    if build is not None:
        return build(vm, value)
    wrapper = wrapper_for(cls)
    if wrapper.by_identity:
        if classes.is_metaclass(cls) and id(value) not in classes.STAND_INS:
            vm.guard(TypeIs, vm.root_source.child(Pinned, value), cls)
        return wrapper.wrap(vm, value, None)  # type: ignore[arg-type]
    return vm.observe(vm.wrap(value, vm.root_source.child(Pinned, value)))


@wraps(*SINGLETONS)
def wrap_singleton(vm: VM, value: Any, source: Source) -> ConstObject:
    """Wrap None and other singletons: guarding the type is enough."""
    return ConstObject(value, source)


@wraps(*SCALARS)
def wrap_scalar(vm: VM, value: Any, source: Source) -> Object:
    """A number or string; a user's subclass of one is an instance of that class."""
    if issubclass(type(value), enum.Enum):
        return EnumObject(value, source, pending=True)
    if type(value) not in EXACT:
        subclass = next((wrap for base, wrap in SUBCLASS_WRAPPERS.items() if issubclass(type(value), base)), wrapper_for(object).wrap)
        return subclass(vm, value, source)
    return CONST_CLASSES.get(type(value), ConstObject)(value, source, pending=source is not None)


@wraps(enum.Enum, by_identity=True)
def wrap_enum(vm: VM, value: enum.Enum, source: Source) -> EnumObject:
    """Wrap an enum member. One that is also a number or string goes through `wrap_scalar`, and is guarded when its value is asked for."""
    return EnumObject(value, source)


@wraps(CodeType, by_identity=True)
def wrap_code(vm: VM, value: CodeType, source: Source) -> ConstObject:
    """Wrap a code object, which is guarded by identity."""
    return ConstObject(value, source)


def is_plain(value: Any) -> bool:
    """Return whether guards can compare the value: a scalar, a singleton, or an exact tuple or frozenset of such."""
    cls = type(value)
    return cls in EXACT or (cls in (tuple, frozenset) and all(map(is_plain, value)))


def would_be_knowable(obj: Object) -> bool:
    """Return whether the value, once observed, is knowable. Guards nothing."""
    obj = settle(obj)
    if type(obj) is LazyObject:
        return is_plain(obj.value) or issubclass(obj.cls, enum.Enum) or wrapper_for(obj.cls).by_identity
    return obj.is_knowable()


def c_new(cls: type) -> Callable[..., Any]:
    """The C `__new__` that makes instances of a class: that of its nearest base that has one."""
    for base in classes.mro(cls):
        found = classes.class_dict(base).get("__new__")
        if isinstance(found, BuiltinFunctionType):
            return found
    return object.__new__
