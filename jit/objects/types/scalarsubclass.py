"""Instances of the program's subclasses of int, float, str and bytes, and members of enums that derive from these: methods in C see the exact value in them."""

from __future__ import annotations

import enum
from types import MethodDescriptorType, WrapperDescriptorType
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING, CAttr, Source
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Codegen, NotConstant, Object, fold
from framejit.objects.core.registry import models
from framejit.objects.types.constobject import SUBCLASS_WRAPPERS, EnumObject, c_new
from framejit.objects.types.userobject import UserObject
from framejit.program import classes

BASES: tuple[Any, ...] = (int, float, str, bytes)
MAKERS: tuple[Any, ...] = tuple(base.__new__ for base in BASES)
ON_NUMBERS = dict.fromkeys((name for name in vars(int) if type(vars(int)[name]) is WrapperDescriptorType), (int, float, str))
COMPARED = dict.fromkeys(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"), (int, float, str))
ON_TEXTS = {**dict.fromkeys(("__add__", "__contains__"), (str,)), **COMPARED}
OTHERS: dict[Any, dict[str, tuple[Any, ...]]] = {
    int: ON_NUMBERS, float: ON_NUMBERS, str: {**ON_TEXTS, **dict.fromkeys(("__getitem__", "__mul__", "__rmul__"), (int,))},
    bytes: {"__eq__": (bytes,), "__ne__": (bytes,), "__getitem__": (int,)},
}  # fmt: skip
"""For each base and special method of it, the bases of other arguments that it takes for the exact values in them."""
FORMAT = (int.__format__, float.__format__, str.__format__)
MARKS: dict[Any, str] = {str.format: "{}", str.format_map: "{}", str.__mod__: "%"}
"""The characters without which a text that isn't empty, an instance of a subclass too, is itself the result (Objects/stringlib/unicode_format.h)."""
PARTITIONS: tuple[Any, ...] = (str.partition, str.rpartition, bytes.partition, bytes.rpartition)
"""Methods whose result holds the text itself if the separator isn't in it (Objects/stringlib/partition.h)."""
EXACT_VALUE: dict[Any, Any] = {int: int.__int__, float: float.__float__, str: str.__str__, bytes: bytes.__bytes__}
"""For each base, the method in C that gives the exact value in an instance of a subclass."""
READ_BY = {int: vars(int)["real"], float: vars(float)["real"]}
"""For each base, the attribute `real` in C that gives the exact value, for guards. There is none for str and bytes."""


class ScalarSubclassObject(UserObject):
    """An instance of a class of the program's that derives from one of BASES. `plain`: the exact value; None until one from outside is asked for it."""

    __slots__ = ("plain",)

    def __init__(self, cls: type, source: Source | None = None, value: Any = MISSING, plain: Object | None = None) -> None:
        super().__init__(cls, source, value)
        self.plain = plain

    @property
    def base(self) -> Any:
        return next(base for base in BASES if issubclass(self.cls, base))

    def plain_value(self, vm: VM) -> Object:
        """The exact int, float, str or bytes. Raises NotConstant for an instance from outside of which a guard can't read it."""
        if self.plain is None:
            is_read_in_c = vm.raw_type_lookup(self.cls, "__getattribute__") is self.base.__getattribute__
            if self.source is None or not is_read_in_c or vm.raw_type_lookup(self.cls, "real") is not READ_BY.get(self.base):
                raise NotConstant(self)
            real = vm.wrap(READ_BY[self.base].__get__(self.value), self.source.child(CAttr, "real"))
            vm.trail.fill(self, "plain", vm.observe(real))
        assert self.plain is not None
        return self.plain

    def hash_key(self, vm: VM) -> Any:
        own = [vm.raw_type_lookup(self.cls, name) is getattr(self.base, name) for name in ("__hash__", "__eq__")]
        return self.plain_value(vm).hash_key(vm) if all(own) and self.source is None else super().hash_key(vm)

    def as_graph_argument(self, vm: VM) -> Any:
        if vm.raw_type_lookup(self.cls, "__torch_function__") is not MISSING:
            raise NotConstant(self)
        return self.plain_value(vm).as_graph_argument(vm)

    def reconstruct(self, cg: Codegen) -> None:
        assert self.plain is not None
        cg.load_const(self.cls)
        cg.load(self.plain)
        cg.call_const(c_new(self.cls), 2)

    def referents(self) -> list[Object]:
        return [*super().referents(), *([] if self.plain is None or self.source is not None else [self.plain])]


def is_scalar_subclass(cls: type) -> bool:
    """Return whether instances of a class are made by the `__new__` of one of BASES, and are neither exact nor members of an outer enum."""
    is_member = issubclass(cls, enum.Enum) and id(cls) not in classes.STAND_INS
    return cls not in BASES and not is_member and c_new(cls) in MAKERS


def wrap_instance(vm: VM, value: Any, source: Source) -> Object:
    """Wrap an instance from outside."""
    cls = type(value)
    return ScalarSubclassObject(cls, source, value) if is_scalar_subclass(cls) else UserObject(cls, source, value)


SUBCLASS_WRAPPERS |= dict.fromkeys(BASES, wrap_instance)


def taken_for_plain(vm: VM, function: Any, args: list[Object]) -> list[Object]:
    """The arguments of a function in C: a method of one of BASES takes instances of subclasses for the exact values in them. Arguments after the first
    are only taken so where no text, and no error, could show their class."""
    if type(function) not in (WrapperDescriptorType, MethodDescriptorType) or function.__objclass__ not in BASES or not args:
        return args
    base, receiver, rest = function.__objclass__, vm.observe(args[0]), args[1:]
    holds_exact = base_in(receiver) is not None
    if holds_exact and (base_in(receiver) is not base or function.__name__ == "__rmod__" or function in FORMAT):
        return args
    taken = OTHERS.get(base, {}).get(function.__name__, ()) if type(function) is WrapperDescriptorType else ()
    try:
        if holds_exact and is_in_the_result(vm, function, plain_of(vm, receiver, BASES), rest):
            return args
        return [plain_of(vm, receiver, BASES), *[plain_of(vm, vm.observe(arg), taken) for arg in rest]] if taken else [plain_of(vm, receiver, BASES), *rest]
    except NotConstant:
        return args


def is_in_the_result(vm: VM, function: Any, text: Object, rest: list[Object]) -> bool:
    """Return whether a method of str or bytes may return the text itself, an instance of a subclass too, or a tuple with it. Raises NotConstant."""
    if function in MARKS:
        return text.constant(vm) != "" and not any(mark in text.constant(vm) for mark in MARKS[function])
    if function not in PARTITIONS or len(rest) != 1:
        return False
    separator = vm.observe(rest[0])
    if not issubclass(separator.cls, function.__objclass__):
        return function.__objclass__ is bytes  # other buffers are looked for, too
    return separator.constant(vm) not in text.constant(vm)


def plain_of(vm: VM, value: Object, bases: tuple[Any, ...]) -> Object:
    """The exact value in an instance of a subclass of one of `bases`, or in a member of an enum that derives from it; another value as it is."""
    base = base_in(value)
    if base not in bases:
        return value
    return value.plain_value(vm) if isinstance(value, ScalarSubclassObject) else vm.const(EXACT_VALUE[base](value.constant(vm)))


def base_in(value: Object) -> Any:
    """The one of BASES from which the class of an instance derives, or that of a member of an enum; None for other values, and for exact ones."""
    if isinstance(value, ScalarSubclassObject):
        return value.base
    return next((base for base in BASES if issubclass(value.cls, base)), None) if isinstance(value, EnumObject) else None


def made(vm: VM, base: Any, cls: Object, args: tuple[Object, ...], kwargs: dict[str, Object]) -> Object:
    """`base.__new__(cls, *args, **kwargs)` (long_subtype_new, unicode_subtype_new and so on): a new instance with the value that the base makes."""
    real = vm.observe(cls).value
    if not isinstance(real, type) or not issubclass(real, base) or not classes.known_by_identity(real):
        vm.unsupported(breaks.UnsupportedCall(f"{base.__name__}.__new__ of what is no subclass of {base.__name__}"))
    abstract.check_finalizer(vm, real)
    if base is float and vm.raw_type_lookup(real, "__init__") is not object.__init__:
        kwargs = {}  # they are for the `__init__` of the subclass, and float___new__ takes none
    plain = vm.observe(abstract.call(vm, vm.const(base), list(args), kwargs))
    if real is base:
        return plain
    if not is_scalar_subclass(real) or plain.cls is not base:
        vm.unsupported(breaks.UnsupportedCall(f"{base.__name__}.__new__ of {classes.qualname(real)}"))
    return ScalarSubclassObject(real, plain=plain)


@models(int.__new__)
def int_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    return made(vm, int, cls, args, kwargs)


@models(float.__new__)
def float_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    return made(vm, float, cls, args, kwargs)


@models(str.__new__)
def str_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    return made(vm, str, cls, args, kwargs)


@models(bytes.__new__)
def bytes_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    return made(vm, bytes, cls, args, kwargs)


def makes_instances(method: Any) -> None:
    """Register a class method in C such as `int.from_bytes`: a subclass is called with the value that the base makes (Objects/longobject.c: int_from_bytes)."""
    base = method.__objclass__

    def model(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
        given, named = [vm.observe(arg).as_real(vm) for arg in args], {name: vm.observe(arg).as_real(vm) for name, arg in kwargs.items()}
        value = fold(vm, method.__get__(None, base), *given, **named)
        return value if vm.observe(cls).value is base else abstract.call(vm, cls, [value], {})

    models(method)(model)


for _method in (vars(int)["from_bytes"], vars(float)["fromhex"], vars(bytes)["fromhex"]):
    makes_instances(_method)
