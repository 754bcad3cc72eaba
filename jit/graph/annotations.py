"""Annotations of nodes, which a program sets with `torch.fx.traceback.annotate`. torch keeps them in a dict, and a trace knows what it has changed there."""

from __future__ import annotations

from typing import Any, Protocol

from torch.fx import traceback

from framejit.objects.dictobject import DictObject
from framejit.objects.object import VM, NotConstant, Object, settle

CUSTOM = "custom"
"""The key of the annotations, in that dict as in the metadata of nodes."""


class AnnotatedVM(VM, Protocol):
    """The part of the running trace that this file needs."""

    def met(self, value: object) -> Object | None:
        """The Object of a mutable value from outside, where the trace has met it."""


def annotation_in_force(vm: AnnotatedVM) -> dict[str, Any] | None:
    """The annotation that is in force now, for the metadata of a node; None if there is none, or if it isn't a constant.

    The annotation that was in force when the call began isn't guarded.
    """
    namespace = vm.met(vars(traceback))
    meta = namespace.known("current_meta") if isinstance(namespace, DictObject) else None
    if meta is None:
        around = traceback.current_meta.get(CUSTOM)
        return None if around is None else dict(around)
    meta = settle(meta)
    custom = meta.known(CUSTOM) if isinstance(meta, DictObject) else None
    try:
        return None if custom is None else vm.observe(custom).as_real(vm)
    except NotConstant:
        return None
