"""Makes subclasses without running `__new__` of a metaclass or `__init_subclass__`, so that a program's registries of classes don't get a second entry."""

from __future__ import annotations

import abc
from types import MemberDescriptorType
from typing import Any, Generic, TypeVar

from framejit.errors import BadArgument
from framejit.program import classes

_base = type.__dict__["__base__"].__get__
_abc_init: Any = getattr(abc, "_abc_init", None)


class Blank:
    """A base class without fields."""

    __slots__ = ()


class BlankGeneric(Generic[TypeVar("T")]):  # type: ignore[misc]
    """A base class without fields below `typing.Generic`: from Python 3.15 on, no class defined in Python
    has the layout of Generic, but for its own subclasses."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Record no type parameters, as Generic would."""


def silent_subclass(cls: type, namespace: dict[str, Any]) -> type:
    """A subclass of a class, with the same name and metaclass, and with this namespace. Raises BadArgument if the layout of the objects doesn't allow that."""
    steps = steps_of(cls)
    builtin = next((step for step in steps if not classes.flags(step) & classes.HEAP_TYPE), None)
    try:
        made = type_below(cls, steps, namespace) if builtin is None else None
    except TypeError:  # few classes with `__slots__` have twins: not those that add `__weakref__` together with others, before Python 3.12
        made = None
    if made is None:
        holds = "fields named by `__slots__`" if builtin is None else f"what a {classes.name(builtin)} holds"
        raise BadArgument(f"objects of the class {classes.qualname(cls)} hold {holds}, which a compiled module can't share; "
                          "compile the module's forward method, or the functions that call it")  # fmt: skip
    if _abc_init is not None and issubclass(type(cls), abc.ABCMeta):
        _abc_init(made)  # else it would share what `isinstance` remembers of the class
    return made


def type_below(cls: type, steps: list[type], namespace: dict[str, Any]) -> type:
    """A class that is made as a subclass of a twin of `cls`, and then becomes a subclass of `cls` itself.

    CPython allows such a change of `__bases__` for two classes that add the same fields to the same base (Objects/typeobject.c:
    compatible_for_assignment); if `abc.ABC` or a class with `__slots__` comes first, that is the base. So each class that adds fields gets a twin, which
    then becomes a subclass of the base of the class that it imitates. Raises TypeError if a twin isn't similar enough.
    """
    base = _base(steps[0])
    twins: list[Any] = [object if base is object else BlankGeneric if Generic in classes.mro(base) else Blank]
    for step in steps:
        twins.append(type(classes.name(step), (twins[-1],), {"__slots__": fields_of(step)}))
    made: Any = type.__new__(type(cls), classes.name(cls), (twins[-1],), namespace)
    moved = [(twin, _base(step), _base(twin)) for step, twin in zip(steps, twins[1:], strict=True) if _base(step) is not object]
    for twin, base, _ in moved:
        twin.__bases__ = (base,)
    made.__bases__ = (cls,)
    for twin, _, before in reversed(moved):
        twin.__bases__ = (before,)  # twins live until the garbage is collected: they are not to be found among the subclasses of the program's classes
    return made  # type: ignore[no-any-return]


def steps_of(cls: type) -> list[type]:
    """Those classes among the bases of a class that add fields to the objects of their base, beginning with the outermost base."""
    steps: list[type] = []
    while cls is not object:
        base = _base(cls)
        if _layout(cls) != _layout(base):
            steps.insert(0, cls)
        cls = base
    return steps


def fields_of(cls: type) -> tuple[str, ...]:
    """The fields that a class adds to the objects of its base, as `__slots__` names them."""
    _, _, has_dict, has_references = _layout(cls)
    _, _, had_dict, had_references = _layout(_base(cls))
    members = [name for name, value in classes.class_dict(cls).items() if type(value) is MemberDescriptorType]
    return (*members, *["__dict__"] * (has_dict and not had_dict), *["__weakref__"] * (has_references and not had_references))


def _layout(cls: type) -> tuple[int, int, bool, bool]:
    return classes.basicsize(cls), classes.itemsize(cls), classes.dictoffset(cls) != 0, classes.weakrefoffset(cls) != 0
