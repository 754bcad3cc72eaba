"""Constants: None, bool, int, float, complex, str, bytes and their like; and numbers whose computation is deferred.

A constant that came from outside is guarded when its value is asked for, not before. Sums, differences and products of
numbers from outside stay unasked: a `DeferredObject` knows its value, but computes it again in the generated code.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, EllipsisType, MemberDescriptorType, NoneType, NotImplementedType
from typing import TYPE_CHECKING, Any

from framejit import breaks
from framejit.guards import classes
from framejit.guards.kinds import Equals, ValueIs, short
from framejit.guards.source import MISSING, Pinned, Source
from framejit.objects.object import LazyObject, NotConstant, Object, settle
from framejit.objects.registry import pure_methods, wrapper_for, wraps

if TYPE_CHECKING:
    from framejit.objects.dictobject import DictObject
    from framejit.objects.vm import VM, Codegen

SCALARS: tuple[type, ...] = (bool, int, float, complex, str, bytes)
SINGLETONS: tuple[type, ...] = (NoneType, EllipsisType, NotImplementedType)
ENUM_FIELDS = (enum.Enum.__dict__["value"], enum.Enum.__dict__["name"], MISSING)
"""What the class says of the fields of a member that doesn't override them: Enum's own properties, or nothing."""
EXACT = frozenset(SCALARS + SINGLETONS)
MAX_DEFERRED_DEPTH = 16
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "+=": operator.add, "-=": operator.sub, "*=": operator.mul,
}  # fmt: skip

pure_methods(*SCALARS, *SINGLETONS)


class ConstObject(Object):
    """A constant. `pending`: its value comes from outside and nobody has asked for it yet."""

    __slots__ = ("pending",)

    def __init__(self, value: Any, source: Source | None = None, pending: bool = False) -> None:
        self.cls = type(value)
        self.source = source
        self.value = value
        self.attrs = None
        self.pending = pending

    def is_constant(self) -> bool:
        return True

    def constant(self, vm: VM) -> Any:
        if self.pending:
            assert self.source is not None
            vm.guard(Equals, self.source, self.value)
            vm.trail.set(self, "pending", False)
        return self.value

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        return vm.from_real(member.__get__(self.constant(vm)))

    def hash_key(self, vm: VM) -> Any:
        return self.constant(vm)

    def truth(self, vm: VM) -> bool:
        value = self.constant(vm)
        if value is NotImplemented:
            vm.unsupported(breaks.SideEffect("the truth of NotImplemented, which warns,"))
        return bool(value)

    def as_graph_argument(self, vm: VM) -> Any:
        return self.constant(vm)

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        return negated(self, symbol) if self.pending else None

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return deferred(vm, symbol, self, other, reflected)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)

    def __repr__(self) -> str:
        return short(self.value) if self.source is None else f"{self.source.told()} ({short(self.value)})"


class EnumObject(ConstObject):
    """An enum member: a constant known by identity."""

    __slots__ = ()

    def as_real(self, vm: VM) -> Any:
        """No argument of C functions where these may ask the program for its text."""
        if any(getattr(getattr(self.cls, name), "__module__", "enum") != "enum" for name in ("__str__", "__repr__", "__format__")):
            raise NotConstant(self)
        return super().as_real(vm)

    def constant(self, vm: VM) -> Any:
        if self.pending:
            assert self.source is not None
            vm.guard(ValueIs, self.source, self.value)
            vm.trail.set(self, "pending", False)
        return self.value

    def truth(self, vm: VM) -> bool:
        return vm.generic_truth(self)

    def instance_dict(self, vm: VM) -> DictObject | None:
        if self.attrs is None:
            vm.trail.set(self, "attrs", vm.instance_dict_of(self))
        return self.attrs

    def getattr(self, vm: VM, name: str) -> Object:
        if name in ("value", "name", "_value_", "_name_") and vm.raw_type_lookup(self.cls, name) in ENUM_FIELDS:
            found = getattr(self.constant(vm), f"_{name.strip('_')}_")
            if is_plain(found):
                return vm.const(found)
        return vm.generic_getattr(self, name)


class DeferredObject(Object):
    """An exact int or float computed from numbers from outside by `+`, `-` or `*`, which can't fail; recomputed on each call."""

    __slots__ = ("symbol", "operands", "forced", "depth")

    def __init__(self, symbol: str, operands: tuple[Object, ...], value: Any) -> None:
        self.cls = type(value)
        self.source = None
        self.value = value
        self.attrs = None
        self.symbol = symbol
        self.operands = operands
        self.forced = False
        self.depth = 1 + max(getattr(operand, "depth", 0) for operand in operands)

    def peek(self) -> Any:
        """The value as it is now; guards nothing."""
        return self.value

    def is_constant(self) -> bool:
        return True

    def constant(self, vm: VM) -> Any:
        if not self.forced:
            for operand in self.operands:
                operand.constant(vm)
            vm.trail.set(self, "forced", True)
        return self.value

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        return None if self.forced else negated(self, symbol)

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return deferred(vm, symbol, self, other, reflected)

    def reconstruct(self, cg: Codegen) -> None:
        if self.forced:
            cg.load_const(self.value)
            return
        left, right = self.operands
        cg.load(left)
        cg.load(right)
        cg.binary_op(self.symbol)

    def referents(self) -> list[Object]:
        return [] if self.forced else list(self.operands)


NONE = ConstObject(None)
TRUE = ConstObject(True)
FALSE = ConstObject(False)
NOT_IMPLEMENTED = ConstObject(NotImplemented)
SINGLETON_OBJECTS: dict[Any, ConstObject] = {None: NONE, NotImplemented: NOT_IMPLEMENTED, ...: ConstObject(...)}

CONST_BUILDERS: dict[type, Callable[[Any, Any], Object]] = {}
"""How containers of constants become Objects: exact type -> build(vm, value). Filled by the files of those types."""


def const_object(vm: VM, value: Any) -> Object:
    """The Object of a real immutable value that the trace itself knows: `vm.const`."""
    cls = type(value)
    if cls is bool:
        return TRUE if value else FALSE
    if cls in SINGLETONS:
        return SINGLETON_OBJECTS[value]
    if cls in EXACT:
        return ConstObject(value)
    if issubclass(cls, enum.Enum):
        return EnumObject(value, vm.root_source.child(Pinned, value))
    build = CONST_BUILDERS.get(cls)
    if build is not None:
        return build(vm, value)
    wrapper = wrapper_for(cls)
    if wrapper.by_identity:
        return wrapper.wrap(vm, value, None)  # type: ignore[arg-type]
    return vm.observe(vm.wrap(value, vm.root_source.child(Pinned, value)))


@wraps(*SINGLETONS)
def wrap_singleton(vm: VM, value: Any, source: Source) -> ConstObject:
    """None and its like: the type guard says it all."""
    return ConstObject(value, source)


@wraps(*SCALARS)
def wrap_scalar(vm: VM, value: Any, source: Source) -> Object:
    """A number or string; a user's subclass of one is an instance of that class."""
    if issubclass(type(value), enum.Enum):
        return EnumObject(value, source, pending=True)
    if type(value) not in EXACT:
        return wrapper_for(object).wrap(vm, value, source)
    return ConstObject(value, source, pending=source is not None)


@wraps(enum.Enum, by_identity=True)
def wrap_enum(vm: VM, value: enum.Enum, source: Source) -> EnumObject:
    """An enum member. One that is also a number or string goes by `wrap_scalar`, and is guarded when its value is asked for."""
    return EnumObject(value, source)


@wraps(CodeType, by_identity=True)
def wrap_code(vm: VM, value: CodeType, source: Source) -> ConstObject:
    """A code object: one particular object."""
    return ConstObject(value, source)


def is_plain(value: Any) -> bool:
    """Whether the guards can compare the value: a scalar, a singleton, or an exact tuple or frozenset of such."""
    cls = type(value)
    return cls in EXACT or (cls in (tuple, frozenset) and all(map(is_plain, value)))


def may_be_constant(obj: Object) -> bool:
    """Whether the value, once observed, is a constant. Guards nothing."""
    obj = settle(obj)
    if type(obj) is LazyObject:
        return is_plain(obj.value) or issubclass(obj.cls, enum.Enum) or wrapper_for(obj.cls).by_identity
    return obj.is_constant()


def is_pending(obj: Object) -> bool:
    """Whether the value is a number from outside, or computed from one, that nobody has asked for."""
    cls = type(obj)
    return obj.pending if cls is ConstObject else not obj.forced if cls is DeferredObject else False  # type: ignore[attr-defined]


def defers(left: Object, right: Object) -> bool:
    """Whether arithmetic on the two can wait: exact int or float, never int with float unless the int is known (it may overflow)."""
    if left.cls is right.cls:
        return (left.cls is int or left.cls is float) and (is_pending(left) or is_pending(right))
    if left.cls is float and right.cls is int:
        return is_pending(left) and not is_pending(right)
    return left.cls is int and right.cls is float and is_pending(right) and not is_pending(left)


def simplified(vm: VM, symbol: str, left: Object, right: Object, value: Any) -> Object:
    """A deferred `left symbol right`; `(x + 1) + 1` becomes `x + 2`, so that counters in loops don't grow."""
    if symbol in "+-" and type(left) is DeferredObject and left.cls is int and right.cls is int and not is_pending(right):
        base, step = left.operands
        if left.symbol in "+-" and not left.forced and not is_pending(step):
            total = (step.value if left.symbol == "+" else -step.value) + (right.value if symbol == "+" else -right.value)
            return DeferredObject("+", (base, ConstObject(total)), value)
    result = DeferredObject(symbol, (left, right), value)
    if result.depth > MAX_DEFERRED_DEPTH:
        result.constant(vm)
        return ConstObject(value)
    return result


def deferred(vm: VM, symbol: str, self: Object, other: Object, reflected: bool) -> Object | None:
    """`self symbol other` as a deferred number, or None where it must be computed now."""
    function = ARITHMETIC.get(symbol)
    if function is None or type(other) not in (ConstObject, DeferredObject) or not defers(self, other):
        return None
    left, right = (other, self) if reflected else (self, other)
    try:
        value = function(left.value, right.value)
    except OverflowError:
        return None
    return simplified(vm, symbol[0], left, right, value)


def negated(self: Object, symbol: str) -> Object | None:
    """`-x` as `0 - x`; for floats `-0.0 - x`, which gives zeros the right sign."""
    if symbol != "-" or (self.cls is not int and self.cls is not float):
        return None
    return DeferredObject("-", (ConstObject(0 if self.cls is int else -0.0), self), -self.value)


def c_new(cls: type) -> Callable[..., Any]:
    """The `__new__` in C that makes instances of a class: the one of its nearest base that has one."""
    for base in classes.mro(cls):
        found = classes.class_dict(base).get("__new__")
        if isinstance(found, BuiltinFunctionType):
            return found
    return object.__new__
