"""operator: the operators as functions, and the getters that are objects."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from types import FunctionType, MethodDescriptorType
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING, Source
from framejit.objects.core import abstract, operators, text
from framejit.objects.core.calls import keyword_items
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Codegen, NotConstant, Object, Raise
from framejit.objects.core.registry import models, wraps
from framejit.objects.types.constobject import NONE
from framejit.objects.types.dictobject import dict_of
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes

NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "<<": "lshift", ">>": "rshift", "&": "and_", "|": "or_", "^": "xor",
}  # fmt: skip


@models(operator.length_hint)
def length_hint(vm: VM, obj: Object, default: Object | None = None, /) -> Object:
    """PyObject_LengthHint of an object with a length, of an iterator that the trace has made, or of an object without anything that gives one."""
    obj, default = vm.observe(obj), vm.const(0) if default is None else vm.observe(default)
    if default.cls is int and vm.raw_type_lookup(obj.cls, "__len__") is not MISSING and not isinstance(vm.raw_type_lookup(obj.cls, "__len__"), FunctionType):
        return obj.length(vm)
    if default.cls is int and type(vm.raw_type_lookup(obj.cls, "__length_hint__")) is MethodDescriptorType:
        hint = obj.length_hint(vm)
        if hint is not None:
            return vm.const(hint)
    if default.cls is not int or any(vm.raw_type_lookup(obj.cls, name) is not MISSING for name in ("__len__", "__length_hint__")):
        vm.unsupported(breaks.UnsupportedCall(f"operator.length_hint of a {classes.qualname(obj.cls)}"))
    return default


def binary(symbol: str) -> Callable[..., Object]:
    """The model of a binary operator's function."""

    def model(vm: VM, a: Object, b: Object, /) -> Object:
        return operators.binary_op(vm, symbol, a, b)

    return model


def unary(symbol: str) -> Callable[..., Object]:
    """The model of a unary operator's function."""

    def model(vm: VM, a: Object, /) -> Object:
        return operators.unary_op(vm, symbol, a)

    return model


def comparing(symbol: str) -> Callable[..., Object]:
    """The model of a comparison's function."""

    def model(vm: VM, a: Object, b: Object, /) -> Object:
        return operators.compare(vm, symbol, a, b)

    return model


for _symbol, _name in NAMES.items():
    models(getattr(operator, _name))(binary(_symbol))
    models(getattr(operator, f"i{_name.rstrip('_')}"))(binary(f"{_symbol}="))
for _symbol, _name in (("-", "neg"), ("+", "pos"), ("~", "invert")):
    models(getattr(operator, _name))(unary(_symbol))
for _symbol, _name in (("<", "lt"), ("<=", "le"), ("==", "eq"), ("!=", "ne"), (">", "gt"), (">=", "ge")):
    models(getattr(operator, _name))(comparing(_symbol))


@models(operator.abs)
def absolute(vm: VM, a: Object, /) -> Object:
    return abstract.call(vm, vm.const(abs), [a])


@models(operator.not_)
def not_(vm: VM, a: Object) -> Object:
    return operators.not_(vm, a)


@models(operator.truth)
def truth(vm: VM, a: Object) -> Object:
    return vm.const(abstract.truth(vm, a))


@models(operator.is_)
def is_(vm: VM, a: Object, b: Object) -> Object:
    return vm.const(operators.is_(vm, a, b))


@models(operator.is_not)
def is_not(vm: VM, a: Object, b: Object) -> Object:
    return vm.const(not operators.is_(vm, a, b))


@models(operator.contains)
def contains(vm: VM, a: Object, b: Object) -> Object:
    return operators.contains(vm, a, b)


@models(operator.getitem)
def getitem(vm: VM, a: Object, b: Object) -> Object:
    return abstract.getitem(vm, a, b)


@models(operator.setitem)
def setitem(vm: VM, a: Object, b: Object, c: Object) -> Object:
    abstract.setitem(vm, a, b, c)
    return NONE


@models(operator.delitem)
def delitem(vm: VM, a: Object, b: Object) -> Object:
    abstract.delitem(vm, a, b)
    return NONE


def check_sequence(vm: VM, a: Object) -> None:
    """Check the operand of concat(), which needs sq_concat."""
    if not issubclass(vm.observe(a).cls, operators.SEQUENCES):
        vm.unsupported(breaks.UnsupportedCall(f"concat() of a {vm.observe(a).type_name}"))


@models(operator.concat)
def concat(vm: VM, a: Object, b: Object) -> Object:
    check_sequence(vm, a)
    return operators.binary_op(vm, "+", a, b)


@models(operator.iconcat)
def iconcat(vm: VM, a: Object, b: Object) -> Object:
    check_sequence(vm, a)
    return operators.binary_op(vm, "+=", a, b)


@models(operator.index)
def index(vm: VM, a: Object) -> Object:
    return vm.const(operators.index(vm, a))


def each_argument(vm: VM, a: Object) -> Iterator[Object]:
    """The items that _PySequence_IterSearch iterates over."""
    try:
        iterator = abstract.iter_(vm, a)
    except Raise as raised:
        if not issubclass(raised.exc.cls, TypeError):
            raise
        vm.raise_(TypeError, f"argument of type '{vm.observe(a).type_name}' is not iterable")
    return abstract.steps(vm, iterator)


@models(operator.countOf)
def count_of(vm: VM, a: Object, b: Object) -> Object:
    return vm.const(sum([operators.equal(vm, item, b) for item in each_argument(vm, a)]))


@models(operator.indexOf)
def index_of(vm: VM, a: Object, b: Object) -> Object:
    for position, item in enumerate(each_argument(vm, a)):
        if operators.equal(vm, item, b):
            return vm.const(position)
    vm.raise_(ValueError, "sequence.index(x): x not in sequence")


if hasattr(operator, "call"):

    @models(operator.call)
    def call(vm: VM, function: Object, /, *args: Object, **kwargs: Object) -> Object:
        return abstract.call(vm, function, list(args), kwargs)


GETTERS: tuple[Any, ...] = (operator.itemgetter, operator.attrgetter, operator.methodcaller)


class GetterObject(Object):
    """An itemgetter, attrgetter or methodcaller: immutable, known by identity; its contents are read from its `__reduce__`."""

    __slots__ = ("args",)

    def __init__(self, cls: type, args: list[Object], source: Source | None, value: Any) -> None:
        super().__init__(cls, source, value)
        self.args = args

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        if len(args) != 1 or kwargs:
            vm.raise_(TypeError, f"{self.type_name} expected 1 argument, got {len(args)}")
        if self.cls is operator.methodcaller:
            name, *rest = self.args
            named = vm.observe(rest.pop())
            pairs = {vm.observe(key).constant(vm): value for key, value in keyword_items(vm, named)}
            return abstract.call(vm, abstract.getattr_(vm, args[0], vm.observe(name).constant(vm)), rest, pairs)
        get = get_path if self.cls is operator.attrgetter else abstract.getitem
        found = [get(vm, args[0], arg) for arg in self.args]
        return found[0] if len(found) == 1 else TupleObject(found)

    def reconstruct(self, cg: Codegen) -> None:
        if self.cls is operator.methodcaller:
            raise NotConstant(self)
        for arg in self.args:
            cg.load(arg)
        cg.call_const(self.cls, len(self.args))

    def referents(self) -> list[Object]:
        return list(self.args)


@models(*[getter.__repr__ for getter in GETTERS])
def render(vm: VM, self: GetterObject) -> Object:
    """Modules/_operator.c: itemgetter_repr, attrgetter_repr, methodcaller_repr."""
    shown = [text.real_repr(vm, arg) for arg in (self.args[:-1] if self.cls is operator.methodcaller else self.args)]
    if self.cls is operator.methodcaller:
        shown += [f"{vm.observe(key).constant(vm)}={text.real_repr(vm, value)}" for key, value in keyword_items(vm, self.args[-1])]
    return vm.const(f"operator.{classes.name(self.cls)}({', '.join(shown)})")


@models(*[vars(getter)["__reduce__"] for getter in GETTERS])
def reduce(vm: VM, self: GetterObject) -> Object:
    """itemgetter_reduce, attrgetter_reduce, methodcaller_reduce: with keywords, a partial of methodcaller makes the copy."""
    if self.cls is not operator.methodcaller:
        return TupleObject([vm.const(self.cls), TupleObject(self.args)])
    named = {vm.observe(key).constant(vm): value for key, value in keyword_items(vm, self.args[-1])}
    if not named:
        return TupleObject([vm.const(self.cls), TupleObject(self.args[:-1])])
    made = abstract.call(vm, vm.const(functools.partial), [vm.const(self.cls), self.args[0]], named)
    return TupleObject([made, TupleObject(self.args[1:-1])])


def get_path(vm: VM, obj: Object, path: Object) -> Object:
    """`obj.a.b.c` for "a.b.c"."""
    for name in vm.observe(path).constant(vm).split("."):
        obj = abstract.getattr_(vm, obj, name)
    return obj


@wraps(*GETTERS, by_identity=True)
def wrap_getter(vm: VM, value: Any, source: Source | None) -> GetterObject:
    """Wrap a getter from outside. Its arguments are as immutable as the getter if they are constants."""
    made, args = value.__reduce__()[:2]
    named: dict[str, Any] = {}
    if isinstance(made, functools.partial):
        # Modules/_operator.c: methodcaller_reduce returns partial(methodcaller, name, **kwargs) if there are keywords.
        args, named = (*made.args, *args), made.keywords
    parts = [vm.pin(arg) for arg in args]
    if type(value) is operator.methodcaller:
        parts.append(dict_of(vm, [(vm.const(key), vm.pin(part)) for key, part in named.items()]))
    return GetterObject(type(value), parts, source, value)


def constructor(cls: type) -> Callable[..., Object]:
    """The model of a getter's constructor."""

    def model(vm: VM, *args: Object, **kwargs: Object) -> Object:
        parts = list(args)
        if not parts or kwargs and cls is not operator.methodcaller:
            vm.unsupported(breaks.UnsupportedCall(f"{classes.name(cls)}() with arguments that it refuses"))
        names = parts if cls is operator.attrgetter else parts[:1] if cls is operator.methodcaller else []
        if not all(issubclass(vm.observe(name).cls, str) for name in names):
            vm.raise_(TypeError, "attribute name must be a string" if cls is operator.attrgetter else "method name must be a string")
        if cls is operator.methodcaller:
            parts.append(dict_of(vm, [(vm.const(key), value) for key, value in kwargs.items()]))
        return GetterObject(cls, parts, None, MISSING)

    return model


for _cls in GETTERS:
    models(_cls)(constructor(_cls))
