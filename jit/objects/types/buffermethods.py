"""The methods of bytearray (Objects/bytearrayobject.c) and array.array (Modules/arraymodule.c)."""

from __future__ import annotations

import array
from collections.abc import Callable
from types import GetSetDescriptorType, MethodDescriptorType, WrapperDescriptorType

from framejit.objects.core import abstract
from framejit.objects.core.object import VM, NotConstant, Object, fold
from framejit.objects.core.registry import models, models_by_default, pure
from framejit.objects.types.bufferobject import BUFFERS, BufferIterator, BufferObject
from framejit.objects.types.constobject import NONE
from framejit.objects.types.genobject import GeneratorObject
from framejit.objects.types.iteratorfields import FieldIterator
from framejit.objects.types.iterobject import IteratorObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.simulation import run_on

NOT_SIMULATED = frozenset({
    "__init__", "__getattribute__", "__buffer__", "__release_buffer__", "__sizeof__", "__alloc__", "tofile", "fromfile", "buffer_info", "fromunicode",
})  # fmt: skip
"""Methods that show memory, or do more than take and give constants."""

STEPPED = (GeneratorObject, IteratorObject, FieldIterator)
"""Iterators whose steps are traced."""

pure(bytearray.maketrans, array._array_reconstructor)  # type: ignore[attr-defined]


def known(vm: VM, obj: Object) -> BufferObject:
    """The bytearray or array that a method is called on. Raises NotConstant for one from outside."""
    obj = vm.observe(obj)
    if not isinstance(obj, BufferObject):
        raise NotConstant(obj)
    return obj


def simulated(name: str) -> Callable[..., Object]:
    """The model of a method that takes and gives constants."""

    def method(vm: VM, self: Object, *args: Object, **kwargs: Object) -> Object:
        own = known(vm, self)
        real = own.real()
        arguments = [real if vm.observe(arg) is own else vm.observe(arg).as_real(vm) for arg in args]
        by_name = {key: vm.observe(arg).as_real(vm) for key, arg in kwargs.items()}
        found = run_on(vm, own, real, getattr(real, name), arguments, by_name)
        return own if found is real else vm.from_real(found)

    return method


def field(name: str) -> Callable[..., Object]:
    """The model of reading an attribute that C code computes."""

    def get(vm: VM, self: Object) -> Object:
        return vm.const(getattr(known(vm, self).real(), name))

    return get


for _cls in BUFFERS:
    for _name, _found in vars(_cls).items():
        if isinstance(_found, (MethodDescriptorType, WrapperDescriptorType)) and _name not in NOT_SIMULATED:
            models_by_default(_found)(simulated(_name))
        elif isinstance(_found, GetSetDescriptorType):
            models(_found)(field(_name))


@models(*[cls.__iter__ for cls in BUFFERS])  # type: ignore[attr-defined]
def iterate(vm: VM, self: Object) -> Object:
    return BufferIterator(known(vm, self))


@models(bytearray.decode)
def decode(vm: VM, self: Object, *args: Object, **kwargs: Object) -> Object:
    """bytearray.decode, by the codecs that bytes are decoded by."""
    return abstract.call(vm, abstract.getattr_(vm, vm.const(known(vm, self).contents), "decode"), list(args), kwargs)


@models(bytearray.extend)
def extend(vm: VM, self: Object, iterable: Object) -> Object:
    """bytearray_extend: the items of an iterator are all taken before the first is added."""
    iterable = vm.observe(iterable)
    return simulated("extend")(vm, self, taken(vm, iterable))


def taken(vm: VM, iterable: Object) -> Object:
    """An argument that gives the items of a bytearray: for an iterator that runs traced code, the list of its items, up to the first one that is no byte."""
    if not isinstance(iterable, STEPPED):
        return iterable
    items: list[Object] = []
    for item in abstract.each(vm, iterable):
        items.append(item)
        value = vm.observe(item).as_real(vm)
        if type(value) not in (int, bool) or not 0 <= value < 256:
            break
    return ListObject(items)


@models(bytearray)
def make_bytearray(vm: VM, source: Object | None = None, encoding: Object | None = None, errors: Object | None = None) -> Object:
    """bytearray(). A text is encoded as bytes() does it."""
    named = {"encoding": encoding, "errors": errors}
    given = {name: value for name, value in named.items() if value is not None}
    if given:
        source = abstract.call(vm, vm.const(bytes), [] if source is None else [source], given)
    return fold(vm, bytearray, *([] if source is None else [taken(vm, vm.observe(source)).as_real(vm)]))


@models(array.array.extend)
def extend_array(vm: VM, self: Object, iterable: Object) -> Object:
    """array_iter_extend: each item of an iterator is added before the next is taken."""
    iterable = vm.observe(iterable)
    if not isinstance(iterable, STEPPED):
        return simulated("extend")(vm, self, iterable)
    for item in abstract.each(vm, iterable):
        simulated("append")(vm, self, item)
    return NONE


@models(array.array)
def make_array(vm: VM, typecode: Object, initializer: Object | None = None) -> Object:
    if initializer is not None and isinstance(vm.observe(initializer), STEPPED):
        made = fold(vm, array.array, vm.observe(typecode).as_real(vm))
        extend_array(vm, made, initializer)
        return made
    return fold(vm, array.array, *[vm.observe(arg).as_real(vm) for arg in (typecode, initializer) if arg is not None])


@models(vars(bytearray)["fromhex"])
def fromhex(vm: VM, cls: Object, text: Object) -> Object:
    if vm.observe(cls).constant(vm) is not bytearray:
        raise NotConstant(cls)
    return fold(vm, bytearray.fromhex, vm.observe(text).as_real(vm))
