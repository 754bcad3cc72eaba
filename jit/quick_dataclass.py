"""`dataclass` as in the standard library, for framejit's own classes: a class is made in an eighth of the time.

The standard library compiles up to seven methods for each class. Here, that is only `__init__`, when the first instance is made, and once for all classes with
as many fields; the others are made without compiling anything. framejit makes some two hundred such classes when it is imported and first used, which took more
time than everything else that its modules do when they are loaded; a process makes instances of half of them.

Type checkers take the decorator for the standard library's, so that they report assignments to the fields of a frozen class. At run time nothing does,
which also makes instances in half the time. Classes that users see are made by the standard library.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, repr: bool = True, **how: bool) -> Any:
        """Make a class a dataclass. `how`: other parameters of the standard library's decorator, of which `order` and `unsafe_hash` must be absent."""

        def made(cls: type) -> type:
            own, init = frozenset(name for name, value in vars(cls).items() if value is not None), how.get("init", True)
            # The standard library puts the signature of `__init__` into the text of a class without a docstring.
            is_plain = "__doc__" in own and not hasattr(cls, "__post_init__") and how.keys() <= {"init", "slots"} and not (init and "__init__" in own)
            cls = with_fields(cls, how.get("slots", False)) if is_plain else dataclasses.dataclass(cls, repr=False, eq=False, **how)
            if is_plain and init:
                cls.__init__ = compiled_when_called(cls)
            if repr and "__repr__" not in own:
                cls.__repr__ = represent
            if eq:
                compare_by_fields(cls, frozen, own)
            return cls

        return made if cls is None else made(cls)


@dataclasses.dataclass
class Sample:
    field: int


FIELD: Any = dataclasses.fields(Sample)[0]._field_type  # type: ignore[attr-defined]
"""The mark of a field that belongs to instances."""


def with_fields(cls: type, slots: bool) -> type:
    """Give a class what the standard library's functions on dataclasses read. The annotations are texts: those of a module with `from __future__ import
    annotations`. `slots`: the class that is returned is another one, whose instances have their fields in slots."""
    found: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        found |= vars(base).get("__dataclass_fields__", {})
    for name, annotation in cls.__annotations__.items():
        if annotation.partition("[")[0] != "ClassVar":
            default = getattr(cls, name, dataclasses.MISSING)
            if isinstance(default, dataclasses.Field):
                field: Any = default
                if field.default is dataclasses.MISSING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, field.default)
            else:
                field = dataclasses.field(default=dataclasses.MISSING if isinstance(default, MemberDescriptorType) else default)
            found[name] = field
            field.name, field.type, field._field_type, field.kw_only = name, annotation, FIELD, False
    made: Any = cls if not slots else with_slots(cls, tuple(found))
    made.__dataclass_fields__, made.__dataclass_params__ = found, vars(Sample)["__dataclass_params__"]
    if "__match_args__" not in vars(made):
        made.__match_args__ = tuple(found)  # type: ignore[misc]
    return made  # type: ignore[no-any-return]


def with_slots(cls: type, names: tuple[str, ...]) -> type:
    """A class like this one, whose instances have attributes of these names in slots."""
    inherited = set[str]().union(*[vars(base).get("__slots__", ()) for base in cls.__mro__[1:]])
    namespace = {name: value for name, value in vars(cls).items() if name not in (*names, "__dict__", "__weakref__")}
    made = type(cls)(cls.__name__, cls.__bases__, {**namespace, "__slots__": tuple([name for name in names if name not in inherited])})
    made.__qualname__ = cls.__qualname__
    return made


def compiled_when_called(cls: type) -> Callable[..., None]:
    """Return an `__init__` for a dataclass that is made when it is first called, and then replaces itself."""
    compiled: Callable[..., None] | None = None

    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        nonlocal compiled
        if compiled is None:
            compiled = compiled_init(cls)
            if vars(cls)["__init__"] is __init__:
                cls.__init__ = compiled  # type: ignore[misc]
        compiled(self, *args, **kwargs)

    return __init__


def compiled_init(cls: type) -> Callable[..., None]:
    """Make the `__init__` of a dataclass, each field of which is a parameter, from the code of another one that has as many."""
    fields = dataclasses.fields(cls)
    for field in fields:
        assert field.init and not field.kw_only, f"{cls.__qualname__}.{field.name} isn't an ordinary parameter"
    made_anew = tuple([index for index, field in enumerate(fields) if field.default_factory is not dataclasses.MISSING])
    code, renamed = init_code(len(fields), made_anew), {f"field_{index}": field.name for index, field in enumerate(fields)}
    names, variables = (tuple([renamed.get(name, name) for name in before]) for before in (code.co_names, code.co_varnames))
    defaults = [ABSENT if index in made_anew else field.default for index, field in enumerate(fields)]
    made = FunctionType(
        code.replace(co_names=names, co_varnames=variables),
        {"__absent__": ABSENT, **{f"make_{index}": fields[index].default_factory for index in made_anew}},
        argdefs=tuple([value for value in defaults if value is not dataclasses.MISSING]),
    )
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


ABSENT = object()
"""The default of a parameter of which a new value is made for each instance."""


@functools.cache
def init_code(count: int, made_anew: tuple[int, ...]) -> CodeType:
    """The code of an `__init__` for fields that are named by their indices, `field_0` and so on. `made_anew`: the indices of those with a default factory."""
    lines = ["pass", *[f"if field_{index} is __absent__: field_{index} = make_{index}()" for index in made_anew]]
    lines += [f"__self__.field_{index} = field_{index}" for index in range(count)]
    names: dict[str, Any] = {}
    exec(f"def __init__({', '.join(['__self__, /', *[f'field_{index}' for index in range(count)]])}):\n    " + "\n    ".join(lines), names)
    code: CodeType = names["__init__"].__code__
    return code


def compare_by_fields(cls: type, hashable: bool, own: frozenset[str]) -> None:
    """Give a dataclass a comparison by its fields, and a hash if it is `hashable`, unless it has its `own`."""
    fields = dataclasses.fields(cls)
    if "__eq__" not in own:
        key = tuple_of([field.name for field in fields if field.compare])

        def __eq__(self: Any, other: Any) -> Any:
            return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

        cls.__eq__ = __eq__  # type: ignore[assignment, method-assign]
    if "__hash__" not in own:
        hashed = tuple_of([field.name for field in fields if (field.compare if field.hash is None else field.hash)])

        def __hash__(self: Any) -> int:
            return hash(hashed(self))

        cls.__hash__ = __hash__ if hashable else None  # type: ignore[assignment, method-assign]


def tuple_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that gives the values of these attributes."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda obj: tuple([getattr(obj, name) for name in names])


@recursive_repr()
def represent(self: Any) -> str:
    """The text of an instance: its class and its fields."""
    fields = [f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(fields)})"
