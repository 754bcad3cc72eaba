"""Lets a compiled module share the fields of its original that aren't in `__dict__` (those that `__slots__` names): it reads and writes the original's."""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any

from framejit.program import classes

ASKED = "__framejit_asked__"
"""The name of the field in which a compiled module holds its original. If objects of the class have nothing but a `__dict__`, there is no such field."""


def shared_fields(cls: type) -> dict[str, Any]:
    """The attributes that a subclass of a module's class defines, so that its objects share the fields of another object of the class."""
    named = {name for base in classes.mro(cls) for name, value in classes.class_dict(base).items() if type(value) is MemberDescriptorType}
    forwarded = {name: _asking(name) for name in sorted(named - {ASKED}) if type(classes.lookup(cls, name)) is MemberDescriptorType}
    return {**forwarded, "__slots__": (ASKED,) if forwarded else ()}


def share_fields(made: Any, module: Any) -> None:
    """Let an object made of such a subclass share the fields of a module."""
    if classes.lookup(type(made), ASKED) is not None:
        object.__setattr__(made, ASKED, asked_by(module) or module)


def asked_by(made: Any) -> Any:
    """The module whose fields a compiled module shares; None if there are no such fields."""
    member = classes.lookup(type(made), ASKED)
    return None if member is None else member.__get__(made)


def _asking(name: str) -> property:
    return property(
        lambda self: object.__getattribute__(object.__getattribute__(self, ASKED), name),
        lambda self, value: object.__setattr__(object.__getattribute__(self, ASKED), name, value),
        lambda self: object.__delattr__(object.__getattribute__(self, ASKED), name),
    )
