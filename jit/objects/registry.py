"""The tables of the object model, filled beside the definitions: how real values are wrapped, what C functions mean.

`@wraps(list)` registers the constructor of the Object for values of that exact type (and of subclasses, by MRO).
`@models(list.append)` registers what a C function, method descriptor, type constructor or Python library function means.
`pure(math.sqrt, ...)` says that a C function may be called on constants while tracing, `refuse(reason, print, ...)` that calls stop the trace.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from framejit import classes
from framejit.breaks import UnsupportedCall
from framejit.objects.naming import callable_name
from framejit.objects.object import NotConstant

if TYPE_CHECKING:
    from framejit.breaks import Break, SkippedFrame
    from framejit.guards.source import Source
    from framejit.objects.delivery import Delivery
    from framejit.objects.object import VM, Object

Wrap = Callable[["VM", Any, "Source"], "Object"]
Model = Callable[..., "Object"]
F = TypeVar("F", bound=Callable[..., Any])



@dataclass(frozen=True, slots=True)
class Wrapper:
    """How values of a type are wrapped. `by_identity`: observing one guards which object it is (classes, C functions, dtypes).

    `shared`: values of the type are mutable or compared by identity, so the same object found by two paths is one Object.
    """

    wrap: Wrap
    by_identity: bool
    shared: bool


WRAPPERS: dict[int, Wrapper] = {}
"""By the identity of the type: metaclasses may say what hashes of their classes are."""
MODELS: dict[int, tuple[Any, Model]] = {}
APP: dict[int, tuple[Any, FunctionType]] = {}
DELIVERS: set[int] = set()
"""The ids of functions whose models take the Delivery of their call's result."""
PURE: dict[int, Any] = {}
PURE_TYPES: set[type] = set()
AS_WRITTEN: dict[int, tuple[CodeType, Break, Callable[[Any, Any], bool]]] = {}


def wraps(*types: type, by_identity: bool = False, shared: bool = False) -> Callable[[F], F]:
    """Register `fn(vm, value, source) -> Object` for values of these exact types and, by MRO, of their subclasses."""

    def register(fn: F) -> F:
        for cls in types:
            WRAPPERS[id(cls)] = Wrapper(fn, by_identity, shared)
        return fn

    return register


def wrapper_for(cls: type) -> Wrapper:
    """The wrapper of the nearest class in the MRO; `object` always has one."""
    found = WRAPPERS.get(id(cls))
    if found is None:
        found = next(WRAPPERS[id(base)] for base in classes.mro(cls) if id(base) in WRAPPERS)
        if classes.dictoffset(cls) and not found.by_identity and not issubclass(cls, Enum):
            return replace(found, shared=True)  # a number or tuple with attributes, which can change
    return found


def models(*functions: Any, delivers: bool = False) -> Callable[[F], F]:
    """Register what these real callables mean: `fn(vm, *args: Object, **kwargs: Object) -> Object`, bound as Python binds.

    For a method descriptor the first argument is self, already observed; other arguments may be unobserved. A model that `delivers` gives the
    result of one call that it makes, as it is, and takes the Delivery for that behind `vm`.
    """

    def register(fn: F) -> F:
        for function in functions:
            if delivers:
                DELIVERS.add(id(function))
            MODELS[id(function)] = (function, fn)
        return fn

    return register


GIVES: dict[Any, type] = {}
"""The type of the iterators that these stand-ins' generators stand in for."""

MADE_INSIDE: dict[CodeType, type] = {}
"""The type of the iterators that generators of this code stand in for, where a stand-in makes them beside its result."""

FRAMES: dict[CodeType, int] = {}
"""How many frames of a library's lie in eager where a stand-in with this code is, by whose number warnings are counted; 0 for the others."""

FIRST: dict[int, type] = {}
"""The class of which these functions take an instance as their first argument, by the function's id."""


def app(*functions: Any, gives: type | None = None, first: type | None = None) -> Callable[[F], F]:
    """Register a plain Python function (modules/app) to be traced in place of these C functions; see GIVES and FIRST."""

    def register(fn: F) -> F:
        if gives is not None:
            GIVES[fn] = gives
        for function in functions:
            if first is not None:
                FIRST[id(function)] = first
            APP[id(function)] = (function, fn)  # type: ignore[assignment]
        return fn

    return register


def stands_for_frames(function: Any, count: int) -> None:
    """Where a stand-in (modules/app) calls code of the program's, a library would have so many frames of its own."""
    FRAMES[function.__code__] = count


def made_inside(cls: type, function: Any) -> None:
    """Generators of a function of a stand-in (modules/app) stand in for iterators of this type."""
    MADE_INSIDE[function.__code__] = cls


def runs_uncompiled(code: CodeType, reason: SkippedFrame, unless: Callable[[Any, Any], bool] = lambda vm, function: False) -> None:
    """Frames of this code are not traced, be they called in a trace or compiled themselves; `unless(vm, function)` says which are."""
    AS_WRITTEN[id(code)] = code, reason, unless


def refuse(reason: Break, *functions: Any) -> None:
    """Tracing stops for this reason wherever one of the functions is called."""

    def stop(vm: VM, *args: Object, **kwargs: Object) -> NoReturn:
        vm.unsupported(reason)

    models(*functions)(stop)


def pure(*functions: Any) -> None:
    """Register C functions that may be called on constant arguments: they have no side effects, and always give the same answer."""
    for function in functions:
        PURE[id(function)] = function


def pure_methods(*types: type) -> None:
    """All C methods of these immutable types are pure."""
    PURE_TYPES.update(types)


def model_of(function: Any) -> Model | None:
    """The model of a real callable, or None."""
    found = MODELS.get(id(function))
    return found[1] if found is not None and found[0] is function else None


def app_of(function: Any) -> FunctionType | None:
    """The plain Python function that stands in for a C function, or None."""
    found = APP.get(id(function))
    return found[1] if found is not None and found[0] is function else None


def is_pure(function: Any) -> bool:
    """Whether the C function may be called on constants while tracing."""
    if PURE.get(id(function)) is function:
        return True
    if classes.flags(type(function)) & classes.HEAP_TYPE:
        return False  # no descriptor in C, and its attributes may be the program's code
    return getattr(function, "__objclass__", None) in PURE_TYPES


def registered(functions: Iterable[Any]) -> list[Any]:
    """The functions among these that have a model or a stand-in."""
    return [f for f in functions if model_of(f) is not None or app_of(f) is not None]


SETTERS: dict[int, tuple[Any, Callable[..., None]]] = {}


def sets(*descriptors: Any) -> Callable[[F], F]:
    """Register what storing through these getset descriptors means: `fn(vm, obj, value: Object | None)`; None deletes."""

    def register(fn: F) -> F:
        for descriptor in descriptors:
            SETTERS[id(descriptor)] = (descriptor, fn)
        return fn

    return register


def setter_of(descriptor: Any) -> Callable[..., None] | None:
    """The registered setter of a getset descriptor, or None."""
    found = SETTERS.get(id(descriptor))
    return found[1] if found is not None and found[0] is descriptor else None


Library = Callable[..., "Object | None"]
LIBRARY: list[Library] = []


def library(fn: Library) -> Library:
    """Register a rule for callables without a model of their own: `fn(vm, callable, args, kwargs)` answers, or gives None."""
    LIBRARY.append(fn)
    return fn


def by_library(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """What the libraries' rules say of a call of a callable without a model; None where no rule knows it."""
    for rule in LIBRARY:
        found = rule(vm, function, args, kwargs)
        if found is not None:
            return found
    return None


def call_model(
    vm: VM, model: Model, function: Any, args: Sequence[Object], kwargs: dict[str, Object], delivery: Delivery | None = None
) -> Object:
    """Call the model of a real function, turning what it can't do into a break."""
    given = (vm, delivery, *args) if id(function) in DELIVERS else (vm, *args)
    try:
        return model(*given, **kwargs)
    except NotConstant as needed:
        vm.unsupported(UnsupportedCall(f"{callable_name(function)} on {needed.obj!r}"))
    except TypeError:
        try:
            inspect.signature(model).bind(*given, **kwargs)
        except TypeError as wrong:
            vm.unsupported(UnsupportedCall(f"{callable_name(function)} with these arguments ({wrong})"))
        raise
