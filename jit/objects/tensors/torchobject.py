"""torch's small values: dtypes, devices, layouts, memory formats, sizes, finfo and iinfo, struct sequences, generators."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.torch_version import TorchVersion

from framejit.guards.source import Source
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models, pure_methods, wraps
from framejit.objects.types.constobject import CONST_BUILDERS, ConstObject
from framejit.objects.types.iterobject import SequenceIterator, tuple_iterator
from framejit.objects.types.tupleobject import TupleObject, item_at

BY_IDENTITY = (torch.dtype, torch.layout, torch.memory_format, torch.qscheme)
BY_VALUE = (torch.device, torch.finfo, torch.iinfo, torch._C._SDPBackend)
CONCATENATED = type(torch.Size(()) + ()), type(() + torch.Size(()))
"""The types of the results of adding a size and a tuple, and a tuple and a size."""
EQUALITY = {"==": operator.eq, "!=": operator.ne}

pure_methods(*BY_IDENTITY, *BY_VALUE)


class TorchConstObject(ConstObject):
    """An immutable value of torch: compared and asked for attributes while tracing."""

    __slots__ = ()

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        function = EQUALITY.get(symbol)
        if function is None:
            return None
        if not other.is_knowable():
            return None
        return vm.const(function(self.constant(vm), other.constant(vm)))


class VersionObject(TorchConstObject):
    """`torch.__version__`, a str that compares as a version."""

    __slots__ = ()

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if not other.is_knowable():
            return None
        operands = (self.constant(vm), other.constant(vm))
        return vm.const(operators.COMPARE[symbol][2](*(operands[::-1] if reflected else operands)))

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return operators.binary_op(vm, symbol, *[vm.const(str(self.value)), other][:: -1 if reflected else 1])


@wraps(TorchVersion, by_identity=True)
def wrap_version(vm: VM, value: Any, source: Source | None) -> VersionObject:
    return VersionObject(value, source)


@wraps(*BY_IDENTITY, by_identity=True)
def wrap_by_identity(vm: VM, value: Any, source: Source | None) -> TorchConstObject:
    """Wrap a dtype or a similar value, which is guarded by identity."""
    return TorchConstObject(value, source)


@wraps(*BY_VALUE)
def wrap_by_value(vm: VM, value: Any, source: Source | None) -> TorchConstObject:
    """Wrap a device or a similar value, which is guarded by value, when asked for."""
    return TorchConstObject(value, source, pending=source is not None)


def build_by_value(vm: VM, value: Any) -> TorchConstObject:
    return TorchConstObject(value)


class CSequence(TupleObject):
    """A C subclass of tuple: iteration, length and items are the tuple's."""

    __slots__ = ()

    def iter(self, vm: VM) -> Object:
        return SequenceIterator(self, tuple_iterator)

    def truth(self, vm: VM) -> bool:
        return bool(self.items(vm))

    def length(self, vm: VM) -> Object:
        return vm.const(len(self.items(vm)))

    def getitem(self, vm: VM, key: Object) -> Object | None:
        key = vm.observe(key)
        if key.cls is not int and key.cls is not bool and key.cls is not slice:
            return None
        index = key.constant(vm)
        if isinstance(index, slice):
            return self.sliced(self.items(vm)[index])
        return item_at(vm, self.items(vm), index, "tuple")

    def sliced(self, items: list[Object]) -> Object:
        """The Object of a slice, which has these items."""
        return TupleObject(items)


class SizeObject(CSequence):
    """A torch.Size."""

    __slots__ = ()

    def sliced(self, items: list[Object]) -> Object:
        return SizeObject(items, torch.Size)

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if symbol not in ("+", "+=", "*", "*="):
            return None
        if not other.is_knowable():
            return None
        if symbol[0] == "+" and isinstance(other, TupleObject) and (self.is_symbolic(vm) or other.is_symbolic(vm)):
            mine, others = self.items(vm), other.items(vm)
            if all(vm.observe(item).cls is int for item in others):
                return tuple_like([*others, *mine], CONCATENATED[1]) if reflected else tuple_like([*mine, *others], CONCATENATED[0])
        real, reals = self.constant(vm), other.constant(vm)
        function = operator.add if symbol[0] == "+" else operator.mul
        try:
            return vm.from_real(function(reals, real) if reflected else function(real, reals))
        except TypeError as error:
            vm.raise_(TypeError, *error.args)

    def reconstruct(self, cg: Codegen) -> None:
        assert self.elements is not None
        for item in self.elements:
            cg.load(item)
        cg.build_tuple(len(self.elements))
        cg.call_const(torch.Size, 1)


def tuple_like(items: list[Object], cls: type) -> TupleObject:
    """A size, or a tuple."""
    return SizeObject(items, cls) if cls is torch.Size else TupleObject(items, cls)


@wraps(torch.Size)
def wrap_size(vm: VM, value: torch.Size, source: Source) -> SizeObject:
    return SizeObject(None, torch.Size, source, value)


def size_object(vm: VM, value: torch.Size) -> SizeObject:
    """A size that the trace knows."""
    return SizeObject([vm.const(n) for n in value], torch.Size)


CONST_BUILDERS[torch.Size] = size_object


@models(torch.Size.numel)
def size_numel(vm: VM, self: Object) -> Object:
    if self.is_symbolic(vm):
        total: Object = vm.const(1)
        for item in abstract.each(vm, self):
            total = operators.binary_op(vm, "*", total, item)
        return total
    return vm.const(self.constant(vm).numel())


class StructSequence(CSequence):
    """A `torch.return_types` value, or a named tuple, that an operator has returned."""

    __slots__ = ()

    def reconstruct(self, cg: Codegen) -> None:
        assert self.elements is not None
        for item in self.elements:
            cg.load(item)
        if hasattr(self.cls, "_fields"):
            cg.call_const(self.cls, len(self.elements))
        else:
            cg.build_tuple(len(self.elements))
            cg.call_const(self.cls, 1)


def struct_sequence(cls: type, items: list[Object]) -> Object:
    """The result of an operator that returns a tuple of a class of its own."""
    if cls is torch.Size:
        return SizeObject(items, cls)
    return StructSequence(items, cls)


def make_constructor(cls: type) -> Any:
    """The model of an immutable type's constructor: called for real on constants."""

    def construct(vm: VM, *args: Object, **kwargs: Object) -> Object:
        real_args = [vm.observe(arg).as_real(vm) for arg in args]
        real_kwargs = {name: vm.observe(arg).as_real(vm) for name, arg in kwargs.items()}
        try:
            return vm.from_real(cls(*real_args, **real_kwargs))
        except (TypeError, ValueError, RuntimeError) as error:
            vm.raise_(type(error), *error.args)

    return construct


@models(torch.Size)
def make_size(vm: VM, *args: Object, **kwargs: Object) -> Object:
    """`torch.Size(sizes)`, some of which may be symbolic."""
    sizes = vm.observe(args[0]) if len(args) == 1 and not kwargs else None
    if sizes is not None and sizes.cls in (list, tuple, torch.Size):
        items = [vm.observe(item) for item in abstract.iterate(vm, sizes)]
        if any(item.is_symbolic(vm) for item in items) and all(item.cls is int for item in items):
            return SizeObject(list(items), torch.Size)
    return make_constructor(torch.Size)(vm, *args, **kwargs)  # type: ignore[no-any-return]


for _cls in BY_VALUE:
    models(_cls)(make_constructor(_cls))
    CONST_BUILDERS.setdefault(_cls, build_by_value)
