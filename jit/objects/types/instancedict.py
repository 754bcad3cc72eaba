"""The `__dict__` of instances that the trace made."""

from __future__ import annotations

from framejit.objects.core.object import Codegen, Namespace, Object
from framejit.objects.types.dictobject import DictObject


class InstanceDictObject(DictObject):
    """The `__dict__` of an instance that the trace made: generated code takes it from its owner, and fills it there."""

    __slots__ = ("owner",)

    def __init__(self, owner: Object) -> None:
        super().__init__()
        self.owner = owner

    def reconstruct(self, cg: Codegen) -> None:
        if self.owner.attrs is not self:  # the instance shares another dict by now
            super().reconstruct(cg)
            return
        cg.load(self.owner)
        cg.load_const("__dict__")
        cg.call_const(object.__getattribute__, 2)  # bypasses any `__getattribute__` of the program

    def needs_fill(self) -> bool:
        return True


def fill_instance_dict(cg: Codegen, owner: Object, attrs: Namespace | None) -> None:
    """Emit code that sets the attributes of an instance made by the trace: building its dict does so, and a dict that it shares is set."""
    if attrs is None:
        return
    if isinstance(attrs, InstanceDictObject) and attrs.owner is owner:
        if attrs.entries:
            cg.load(attrs)
            cg.pop_top()
        return
    cg.load(owner)
    cg.load_const("__dict__")
    cg.load(attrs)
    cg.call_const(object.__setattr__, 3)
    cg.pop_top()
