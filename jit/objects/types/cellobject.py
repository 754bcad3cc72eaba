"""Cells: the variables that closures share (Objects/cellobject.c)."""

from __future__ import annotations

from types import CellType
from typing import Any

from framejit.guards.kinds import IsMissing
from framejit.guards.source import MISSING, CellContents, Source
from framejit.objects.core.object import VM, Codegen, Object, settle
from framejit.objects.core.registry import models, sets, wraps


class CellObject(Object):
    """A cell. `content` is its content once read or stored; a cell from outside is read, and guarded, on first use."""

    __slots__ = ("content", "known", "written")
    is_filled = True

    def __init__(self, content: Object | None = None, source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(CellType, source, value)
        self.content = content
        self.known = source is None
        self.written = False

    def load(self, vm: VM) -> Object | None:
        """The content; None if the cell is empty."""
        if not self.known:
            assert self.source is not None
            contents = self.source.child(CellContents)
            try:
                content = vm.wrap(self.value.cell_contents, contents)
            except ValueError:
                vm.guard(IsMissing, contents)
                content = None
            vm.trail.set(self, "content", content)
            vm.trail.set(self, "known", True)
        return self.content

    def store(self, vm: VM, content: Object | None) -> None:
        """Set the content; None empties the cell."""
        vm.trail.set(self, "content", content)
        vm.trail.set(self, "known", True)
        vm.trail.set(self, "written", True)
        if self.source is not None:
            vm.effects.mutated(self)

    def replaced(self) -> list[tuple[Source, Object]]:
        return [] if self.source is None or self.content is None or not self.written else [(self.source.child(CellContents), settle(self.content))]

    def reconstruct(self, cg: Codegen) -> None:
        cg.call_const(CellType, 0)

    def fill(self, cg: Codegen) -> None:
        if self.content is not None:
            cg.load(self.content)
            cg.load(self)
            cg.store_attr("cell_contents")

    def replay(self, cg: Codegen) -> None:
        if self.content is None:
            cg.load(self)
            cg.delete_attr("cell_contents")
        else:
            self.fill(cg)

    def referents(self) -> list[Object]:
        return [] if self.content is None else [self.content]


@wraps(CellType, shared=True)
def wrap_cell(vm: VM, value: CellType, source: Source) -> Object:
    return CellObject(None, source, value)


@models(CellType.__dict__["cell_contents"])
def cell_contents(vm: VM, self: CellObject) -> Object:
    """cell_get_contents."""
    content = self.load(vm)
    if content is None:
        vm.raise_(ValueError, "Cell is empty")
    return content


@sets(CellType.__dict__["cell_contents"])
def set_cell_contents(vm: VM, self: CellObject, value: Object | None) -> None:
    """cell_set_contents."""
    self.store(vm, value)


@models(CellType)
def make_cell(vm: VM, content: Object | None = None) -> Object:
    """cell_new."""
    return CellObject(content)
