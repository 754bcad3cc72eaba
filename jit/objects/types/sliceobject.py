"""Slices, whose parts may be any objects."""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any

from framejit.guards.source import MISSING, CAttr, Source
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models, pure_methods, wraps
from framejit.objects.types.constobject import CONST_BUILDERS, NONE, would_be_knowable

pure_methods(slice)


class SliceObject(Object):
    """`slice(start, stop, step)`."""

    __slots__ = ("start", "stop", "step")
    is_true = True

    def __init__(self, start: Object, stop: Object, step: Object, source: Source | None = None, value: Any = MISSING) -> None:
        self.cls = slice
        self.source = source
        self.value = value
        self.attrs = None
        self.start = start
        self.stop = stop
        self.step = step

    def parts(self) -> tuple[Object, Object, Object]:
        """Start, stop and step, unobserved."""
        return self.start, self.stop, self.step

    def real(self, vm: VM) -> slice:
        """The slice with real constants; guards them. Breaks if a part isn't a constant."""
        start, stop, step = (vm.observe(part).constant(vm) for part in self.parts())
        return slice(start, stop, step)

    def is_known(self) -> bool:
        return all(part.is_known() for part in self.parts())

    def is_knowable(self) -> bool:
        return all(would_be_knowable(part) for part in self.parts())

    def constant(self, vm: VM) -> Any:
        return self.real(vm)

    def is_symbolic(self, vm: VM) -> bool:
        return any(vm.observe(part).is_symbolic(vm) for part in self.parts())

    def hash_key(self, vm: VM) -> Any:
        if slice.__hash__ is None:  # type: ignore[comparison-overlap]  # before Python 3.12
            vm.raise_(TypeError, "unhashable type: 'slice'")
        return super().hash_key(vm)

    def as_graph_argument(self, vm: VM) -> Any:
        start, stop, step = (vm.observe(part).as_graph_argument(vm) for part in self.parts())
        return slice(start, stop, step)

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        return dict(zip(("start", "stop", "step"), self.parts(), strict=True))[member.__name__]

    def reconstruct(self, cg: Codegen) -> None:
        for part in self.parts():
            cg.load(part)
        cg.call_const(slice, 3)

    def referents(self) -> list[Object]:
        return list(self.parts())


@wraps(slice)
def wrap_slice(vm: VM, value: slice, source: Source) -> SliceObject:
    """Wrap a slice from outside, whose parts are read one by one."""
    parts = [vm.wrap(getattr(value, name), source.child(CAttr, name)) for name in ("start", "stop", "step")]
    return SliceObject(parts[0], parts[1], parts[2], source, value)


def const_slice(vm: VM, value: slice) -> SliceObject:
    """A real slice of constants."""
    return SliceObject(vm.const(value.start), vm.const(value.stop), vm.const(value.step))


CONST_BUILDERS[slice] = const_slice


@models(slice)
def make_slice(vm: VM, first: Object, stop: Object | None = None, step: Object | None = None) -> Object:
    """`slice(stop)` or `slice(start, stop, step)`."""
    return SliceObject(NONE, first, NONE) if stop is None else SliceObject(first, stop, NONE if step is None else step)
