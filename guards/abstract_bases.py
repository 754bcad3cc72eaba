"""The state that changes when classes are registered with abstract base classes, in a form in which a later process can ask again."""

from __future__ import annotations

import abc

from framejit.guards.source import Reference
from framejit.program import classes


def is_abstract_subclass(cls: Reference, base: Reference) -> bool:
    """Return whether a class counts as a subclass of an abstract base class, by abc's own check. Raises what the check raises."""
    return abc.ABCMeta.__subclasscheck__(base.get(), cls.get())


def has_flag(cls: Reference, flag: int) -> bool:
    """Return whether a class has a flag, such as Py_TPFLAGS_MAPPING, which it may get when it is registered."""
    return bool(classes.flags(cls.get()) & flag)
