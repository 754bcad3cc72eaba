"""Constructors of the builtin types' Objects, for the interpreter and the models."""

from __future__ import annotations

import enum
from types import CodeType
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import abstract, differences, wording
from framejit.objects.core.calls import function_text, reject_star
from framejit.objects.core.object import VM, Namespace, Object, Raise, full_name
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.types import setmethods
from framejit.objects.types.bufferobject import BUFFERS, BufferObject
from framejit.objects.types.cellobject import CellObject
from framejit.objects.types.constobject import CONST_CLASSES, EXACT, ConstObject, const_object
from framejit.objects.types.dictobject import DictObject, dict_of
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.genobject import GeneratorObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.madeglobals import is_made
from framejit.objects.types.merging import entries_of
from framejit.objects.types.setobject import SetObject, set_of
from framejit.objects.types.sliceobject import SliceObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.waitingtext import StringObject, joined

CONST_CLASSES |= {int: NumberObject, float: NumberObject, str: StringObject}


def const(vm: VM, value: Any) -> Object:
    """The Object of a real immutable value: the implementation of `vm.const`."""
    return const_object(vm, value)


def from_real(vm: VM, value: Any) -> Object:
    """An Object of a real value that the trace has computed: VM.from_real."""
    cls = type(value)
    if issubclass(cls, Object):
        return value  # type: ignore[no-any-return]
    if cls in EXACT:
        return const_object(vm, value)
    if cls is list:
        return ListObject([from_real(vm, item) for item in value])
    if cls is dict:
        return dict_(vm, [(from_real(vm, key), from_real(vm, item)) for key, item in value.items()])
    if cls is set:
        return set_(vm, [from_real(vm, item) for item in value])
    if cls in BUFFERS:
        return BufferObject(value)
    if issubclass(cls, tuple) and not issubclass(cls, enum.Enum):
        return TupleObject([from_real(vm, item) for item in value], cls)
    return vm.const(value)


def tuple_(vm: VM, items: list[Object]) -> TupleObject:
    """BUILD_TUPLE."""
    return TupleObject(items)


def list_(vm: VM, items: list[Object]) -> ListObject:
    """BUILD_LIST."""
    return ListObject(items)


def dict_(vm: VM, pairs: list[tuple[Object, Object]]) -> DictObject:
    """BUILD_MAP."""
    return dict_of(vm, pairs)


def set_(vm: VM, items: list[Object]) -> SetObject:
    """BUILD_SET."""
    return set_of(vm, items)


def slice_(vm: VM, start: Object, stop: Object, step: Object) -> SliceObject:
    """BUILD_SLICE."""
    return SliceObject(start, stop, step)


def string_(vm: VM, parts: list[Object]) -> Object:
    """BUILD_STRING: the pieces of an f-string, all exact strings."""
    parts = [vm.observe(part) for part in parts]
    return joined(vm, parts) or ConstObject("".join([part.constant(vm) for part in parts]))


def list_append(vm: VM, target: Object, item: Object) -> None:
    """LIST_APPEND, of comprehensions."""
    target = vm.observe(target)
    assert isinstance(target, ListObject)
    target.append(vm, item)


def list_extend(vm: VM, target: Object, iterable: Object) -> None:
    """LIST_EXTEND: `[*iterable]`."""
    target = vm.observe(target)
    assert isinstance(target, ListObject)
    target.extend(vm, starred(vm, iterable))


def starred(vm: VM, iterable: Object) -> list[Object]:
    """The items of `*iterable`, with the star's own TypeError."""
    iterable = vm.observe(iterable)
    if vm.raw_type_lookup(iterable.cls, "__iter__") in (MISSING, None) and vm.raw_type_lookup(iterable.cls, "__getitem__") is MISSING:
        vm.raise_(TypeError, f"Value after * must be an iterable, not {iterable.type_name}")
    return abstract.list_of(vm, iterable)


def list_to_tuple(vm: VM, items: Object) -> TupleObject:
    """LIST_TO_TUPLE."""
    items = vm.observe(items)
    assert isinstance(items, ListObject)
    return TupleObject(list(items.items(vm)))


def set_add(vm: VM, target: Object, item: Object) -> None:
    """SET_ADD, of comprehensions."""
    target = vm.observe(target)
    assert isinstance(target, SetObject)
    target.add(vm, item)


def set_update(vm: VM, target: Object, iterable: Object) -> None:
    """SET_UPDATE: `{*iterable}`."""
    target = vm.observe(target)
    assert isinstance(target, SetObject)
    setmethods.update(vm, target, iterable)


def map_add(vm: VM, target: Object, key: Object, value: Object) -> None:
    """MAP_ADD, of comprehensions."""
    target = vm.observe(target)
    assert isinstance(target, DictObject)
    target.set_item(vm, key, value)


def dict_update(vm: VM, target: Object, mapping: Object) -> None:
    """DICT_UPDATE: `{**mapping}`."""
    target = vm.observe(target)
    assert isinstance(target, DictObject)
    try:
        for key, value in entries_of(vm, mapping):
            target.set_item(vm, key, value)
    except Raise as raised:
        if issubclass(raised.exc.cls, AttributeError) and is_no_mapping(vm, mapping):
            mapping = vm.observe(mapping)
            name = full_name(mapping.cls) if wording.NO_MAPPING_IN_FULL else mapping.type_name
            vm.raise_(TypeError, f"'{name}' object is not a mapping")
        raise


def is_no_mapping(vm: VM, obj: Object) -> bool:
    """Return whether an AttributeError that was raised by merging an object means that the object is no mapping."""
    return not differences.MERGE_ERRORS_PASS or abstract.lookup_attr(vm, obj, "keys") is None


def dict_merge(vm: VM, target: Object, mapping: Object, function: Object | None = None) -> None:
    """DICT_MERGE: `f(**mapping)`; a name that is given twice raises a TypeError that names the function."""
    target = vm.observe(target)
    assert isinstance(target, DictObject)

    def check(key: Object) -> None:
        if target.has(vm, key):
            vm.raise_(TypeError, f"{function_text(vm, function)} got multiple values for keyword argument '{vm.observe(key).constant(vm)}'")

    try:
        for key, value in entries_of(vm, mapping, check):
            target.set_item(vm, key, value)
    except Raise as raised:
        if issubclass(raised.exc.cls, AttributeError) and is_no_mapping(vm, mapping):
            reject_star(vm, function, "**", "a mapping", vm.observe(mapping))
        if issubclass(raised.exc.cls, KeyError) and not differences.MERGE_ERRORS_PASS:  # it may be taken for a name that is given twice (format_kwargs_error)
            vm.unsupported(breaks.UnsupportedOperation(f"** of a {vm.observe(mapping).type_name} whose methods raise KeyError"))
        raise


def cell(vm: VM, content: Object | None) -> CellObject:
    """A new cell; None leaves it empty."""
    return CellObject(content)


def function(
    vm: VM,
    code: CodeType,
    namespace: Namespace,
    builtins: Namespace,
    defaults: Object | None,
    kwdefaults: Object | None,
    closure: Object | None,
    annotations: Object | None,
    qualname: str,
) -> FunctionObject:
    """MAKE_FUNCTION: defaults and closure are tuples, kwdefaults a dict, annotations a tuple that alternates names and values."""
    made = FunctionObject(code, namespace, qualname)
    made.builtins = builtins
    if is_made(namespace):  # the dict is filled after the function is created
        made.renamed["__module__"] = namespace.lookup(vm, "__name__") or vm.const(None)
    made.defaults = defaults
    made.kwdefaults = kwdefaults
    if closure is not None:
        made.closure = [vm.observe(content) for content in abstract.iterate(vm, closure)]
    if annotations is not None:
        pairs = abstract.iterate(vm, annotations)
        made.annotations = dict_(vm, list(zip(pairs[::2], pairs[1::2], strict=True)))
    return made


def set_annotate(function: FunctionObject, annotate: Object) -> None:
    """Give a function that was just made the function that computes its annotations (PEP 649)."""
    function.renamed["__annotate__"] = annotate


def generator(vm: VM, frame: Any) -> GeneratorObject:
    """RETURN_GENERATOR: the generator of a frame that has just begun."""
    return GeneratorObject(vm, frame)
