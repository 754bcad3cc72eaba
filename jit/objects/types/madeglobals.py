"""Dicts made by the trace in which `exec()` or `eval()` has run code, so that functions have them as globals."""

from __future__ import annotations

from typing import Any

from framejit.guards.source import MISSING
from framejit.objects.core.object import VM, Namespace
from framejit.objects.types.dictobject import DictObject


class MadeGlobals(dict[str, Any]):
    """Stands for such a dict where the kind of a function's code is asked for. It has the name of the module, if that is known, and nothing else."""


def is_made(namespace: Namespace) -> bool:
    """Return whether these globals are a dict that the trace has made. No frame that has them can be split: resume functions need globals that exist."""
    return type(namespace.value) is MadeGlobals


def as_globals(vm: VM, namespace: DictObject) -> DictObject:
    """A dict from outside, or one made by the trace, as the globals of code."""
    if namespace.source is None and namespace.value is MISSING:
        name = namespace.known("__name__")
        known = name is not None and name.source is None and type(name.value) is str
        vm.trail.fill(namespace, "value", MadeGlobals(__name__=name.value) if known and name is not None else MadeGlobals())
    return namespace
