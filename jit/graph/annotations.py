"""Annotations of nodes, which a program sets with `torch.fx.traceback.annotate`. torch keeps them in a dict, and a trace knows its own changes to it."""

from __future__ import annotations

from typing import Any

from torch.fx import traceback

from framejit.graph.running import RunningTrace
from framejit.objects.core.object import NotConstant, settle
from framejit.objects.types.dictobject import DictObject

CUSTOM = "custom"
"""The key of the annotations, both in that dict and in the metadata of nodes."""


def annotation_in_force(vm: RunningTrace) -> dict[str, Any] | None:
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
