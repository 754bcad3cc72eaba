"""The registry of the meanings of types, callables and code objects to a trace. Each has one; a second one is an error when framejit is loaded.

`@wraps(list)` registers the constructor of the Object for values of that exact type (and of subclasses, by MRO).
`@models(list.append)` registers the model of a C function, method descriptor, type constructor or Python library function.
`@around(len)` registers a function that is called before the model that another file registers, in whichever order the two are loaded.
`@rules(f)` registers a rule for a function in Python, whose own code is traced if the rule gives None; `@library(RuleOrder...)` one for callables that
no table can list. `pure(math.sqrt, ...)` says that a C function may be called on constants while tracing, `refuse(reason, print, ...)` that calls stop
the trace.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum, IntEnum
from types import CodeType, FunctionType
from typing import Any, NoReturn, TypeVar

from framejit.breaks import Break, SkippedFrame, UnsupportedCall
from framejit.guards.source import Source
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.naming import callable_name
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.program import classes
from framejit.quick_dataclass import dataclass

Wrap = Callable[["VM", Any, "Source"], "Object"]
Model = Callable[..., "Object"]
Rule = Callable[..., "Object | None"]
"""`rule(vm, callable, args, kwargs)`: the result of a call; None where the rule doesn't apply."""
F = TypeVar("F", bound=Callable[..., Any])


class SecondMeaning(Exception):
    """Two files register a meaning for one callable or type."""


# Types.


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The way in which values of a type are wrapped. `by_identity`: observing one guards its identity (classes, C functions, dtypes).

    `shared`: values of the type are mutable or compared by identity, so the same object found by two paths is one Object.
    `separable`: once two such paths have led to two objects, the object has an Object for each path. This suits a type of which all that may change is
    memory, about which aliasing is guarded.
    """

    wrap: Wrap
    by_identity: bool
    shared: bool
    separable: bool = False


WRAPPERS: dict[int, Wrapper] = {}
"""The wrappers, by the identity of the type: metaclasses may define the hashes of their classes."""


def wraps(*types: type, by_identity: bool = False, shared: bool = False, separable: bool = False) -> Callable[[F], F]:
    """Register `fn(vm, value, source) -> Object`, or a class of Objects that is made of type, source and value, for values of these exact types and, by MRO,
    of their subclasses."""

    def register(fn: F) -> F:
        wrap = constructing(fn) if isinstance(fn, type) else fn
        for cls in types:
            known = WRAPPERS.setdefault(id(cls), Wrapper(wrap, by_identity, shared, separable))
            if known.wrap is not wrap:
                raise SecondMeaning(f"{classes.qualname(cls)} is wrapped by {name_of(known.wrap)} and by {name_of(wrap)}")
        return fn

    return register


def constructing(cls: type[Object]) -> Wrap:
    """The function that makes an Object of a class for a value."""

    def wrap(vm: VM, value: Any, source: Source) -> Object:
        return cls(type(value), source, value)

    wrap.__module__, wrap.__qualname__ = cls.__module__, cls.__qualname__
    return wrap


def wrapper_for(cls: type) -> Wrapper:
    """The wrapper of the nearest class in the MRO; `object` always has one."""
    found = WRAPPERS.get(id(cls))
    if found is None:
        found = next(WRAPPERS[id(base)] for base in classes.mro(cls) if id(base) in WRAPPERS)
        if classes.dictoffset(cls) and not found.by_identity and not issubclass(cls, Enum):
            return replace(found, shared=True)  # a number or tuple with attributes, which can change
    return found


# Callables.


@dataclass(slots=True)
class Meaning:
    """The meaning of a callable to a trace.

    Attributes:
        callable: the callable itself, which is kept alive so that no other one gets its id.
        model: `fn(vm, *args: Object, **kwargs: Object) -> Object`, called in its place.
        delivers: the model also takes the Delivery of its call's result, after `vm`.
        fallback: a model for a whole group of functions, which a model of this one's own overrides.
        around: `fn(vm, *args, own=model, **kwargs)`, called in the place of the model, which may be None.
        stand_in: a plain Python function (jit/plain) that is traced in its place.
        receiver: the class of which its first argument is an instance, if its type doesn't say so.
        rule: for a function in Python: returns the result of a call, or None to have the function's code traced.
        setter: of a getset descriptor: `fn(vm, obj, value: Object | None)` stores; None deletes.
        is_pure: it may be called on constants while tracing.
    """

    callable: Any
    model: Model | None = None
    delivers: bool = False
    fallback: Model | None = None
    around: Callable[..., Object] | None = None
    stand_in: Callable[..., Any] | None = None
    receiver: type | None = None
    rule: Rule | None = None
    setter: Callable[..., None] | None = None
    is_pure: bool = False
    _asked_first: Model | None = None

    def give(self, field: str, value: Any) -> None:
        """Set a field that nothing else has set."""
        known = getattr(self, field)
        if known is not None and known is not value:
            raise SecondMeaning(f"{callable_name(self.callable)} has a {field} in {name_of(known)} and in {name_of(value)}")
        setattr(self, field, value)
        self._asked_first = None
        if self.stand_in is not None and (self.model or self.fallback) is not None:
            model = name_of(self.model or self.fallback)
            raise SecondMeaning(f"{callable_name(self.callable)} has the stand-in {name_of(self.stand_in)} and the model {model}")

    def called(self) -> Model | None:
        """The model that calls go to, or None."""
        own = self.model or self.fallback
        if self.around is None:
            return own
        if self._asked_first is None:
            self._asked_first = functools.partial(self.around, own=own)
            if own is not None:
                self._asked_first.__wrapped__ = own  # type: ignore[attr-defined]  # whose signature it has
        return self._asked_first


MEANINGS: dict[int, Meaning] = {}
"""The meanings, by the callable's id: the equality of callables may be the program's."""
PURE_TYPES: set[type] = set()


def name_of(fn: Any) -> str:
    return f"{fn.__module__}.{fn.__qualname__}"


def meaning_to_fill(function: Any) -> Meaning:
    """The meaning of a callable, new if it has none."""
    found = MEANINGS.get(id(function))
    if found is None or found.callable is not function:
        found = MEANINGS[id(function)] = Meaning(function)
    return found


def meaning_of(function: Any) -> Meaning | None:
    """The meaning of a real callable; None if nothing is registered for it."""
    found = MEANINGS.get(id(function))
    return found if found is not None and found.callable is function else None


def giving(field: str, callables: Iterable[Any]) -> Callable[[F], F]:
    """A decorator that sets a field of the meanings of these callables."""

    def register(fn: F) -> F:
        for function in callables:
            meaning_to_fill(function).give(field, fn)
        return fn

    return register


def models(*functions: Any, delivers: bool = False) -> Callable[[F], F]:
    """Register a model for these real callables: `fn(vm, *args: Object, **kwargs: Object) -> Object`, bound as Python binds.

    For a method descriptor the first argument is self, already observed; other arguments may be unobserved. A model that `delivers` returns the
    result of one call that it makes, as it is, and takes the Delivery for that after `vm`.
    """

    def register(fn: F) -> F:
        for function in functions:
            meaning = meaning_to_fill(function)
            meaning.give("model", fn)
            meaning.delivers = delivers
        return fn

    return register


def models_by_default(*functions: Any) -> Callable[[F], F]:
    """Register a model for functions some of which have a model of their own, which takes precedence."""
    return giving("fallback", functions)


def around(*functions: Any) -> Callable[[F], F]:
    """Register a function that is called in the place of these callables' models: `fn(vm, *args, own=model, **kwargs)`. The model may be None."""
    return giving("around", functions)


def app(*functions: Any, gives: type | None = None, first: type | None = None) -> Callable[[F], F]:
    """Register a plain Python function (jit/plain) to be traced in place of these C functions.

    `gives`: the type of the iterators that its generators stand in for. `first`: the class of which the C functions' first argument is an instance.
    """

    def register(fn: F) -> F:
        if gives is not None:
            code_to_fill(fn.__code__).gives = gives
        for function in functions:
            meaning = meaning_to_fill(function)
            meaning.give("stand_in", fn)
            meaning.receiver = first
        return fn

    return register


def rules(*functions: Any) -> Callable[[F], F]:
    """Register a rule for these functions in Python."""
    return giving("rule", functions)


def unsupported(reason: Break, *functions: Any) -> None:
    """Make tracing stop for this reason at every call of one of these functions."""

    def stop(vm: VM, *args: Object, **kwargs: Object) -> NoReturn:
        vm.unsupported(reason)

    models(*functions)(stop)


def pure(*functions: Any) -> None:
    """Register C functions that may be called on constant arguments: they have no side effects, and always give the same answer."""
    for function in functions:
        meaning_to_fill(function).is_pure = True


def pure_methods(*types: type) -> None:
    """All C methods of these immutable types are pure."""
    PURE_TYPES.update(types)


def sets(*descriptors: Any) -> Callable[[F], F]:
    """Register the effect of storing through these getset descriptors: `fn(vm, obj, value: Object | None)`; None deletes."""
    return giving("setter", descriptors)


def model_of(function: Any) -> Model | None:
    """The model of a real callable, or None."""
    found = MEANINGS.get(id(function))
    return found.called() if found is not None and found.callable is function else None


def app_of(function: Any) -> Callable[..., Any] | None:
    """The plain Python function that stands in for a C function, or None."""
    found = meaning_of(function)
    return None if found is None else found.stand_in


def setter_of(descriptor: Any) -> Callable[..., None] | None:
    """The registered setter of a getset descriptor, or None."""
    found = meaning_of(descriptor)
    return None if found is None else found.setter


def is_pure(function: Any) -> bool:
    """Return whether the C function may be called on constants while tracing."""
    found = meaning_of(function)
    if found is not None and found.is_pure:
        return True
    if classes.flags(type(function)) & classes.HEAP_TYPE:
        return False  # it isn't a descriptor in C, and its attributes may be the program's code
    return getattr(function, "__objclass__", None) in PURE_TYPES


def registered(functions: Iterable[Any]) -> list[Any]:
    """The functions among these that have a model or a stand-in."""
    return [f for f in functions if model_of(f) is not None or app_of(f) is not None]


# Code objects, and functions by name.


@dataclass(slots=True)
class CodeMeaning:
    """The meaning of a code object to a trace.

    Attributes:
        code: the code object itself.
        gives: the type of the iterators that the generators of a stand-in stand for.
        inside: the type of the iterators that generators of this code stand for, if a stand-in makes them in addition to its result.
        frames: for a stand-in: the number of frames that the library has there in eager, which counts for the `stacklevel` of warnings.
        skipped: the reason why frames of this code aren't traced, and `unless(vm, function)`, which says which are.
        rule: returns the result of a call of a function with this code, or None to have it traced.
    """

    code: CodeType
    gives: type | None = None
    inside: type | None = None
    frames: int = 0
    skipped: tuple[Break, Callable[[Any, Any], bool]] | None = None
    rule: Rule | None = None


CODES: dict[int, CodeMeaning] = {}
"""The meanings of code objects, by their id: equal code objects may have different meanings."""


def code_to_fill(code: CodeType) -> CodeMeaning:
    """The meaning of a code object, new if it has none."""
    return CODES.setdefault(id(code), CodeMeaning(code))


def stands_for_frames(function: Any, count: int) -> None:
    """Register the number of frames that a library has in eager where this stand-in (jit/plain) calls the program's code."""
    code_to_fill(function.__code__).frames = count


def made_inside(cls: type, function: Any) -> None:
    """Let generators of a function of a stand-in (jit/plain) stand for iterators of this type."""
    code_to_fill(function.__code__).inside = cls


def runs_uncompiled(code: CodeType, reason: SkippedFrame, unless: Callable[[Any, Any], bool] = lambda vm, function: False) -> None:
    """Never trace frames of this code, neither inside a trace nor when they are compiled themselves; `unless(vm, function)` says which are traced."""
    meaning = code_to_fill(code)
    if meaning.skipped is not None:
        raise SecondMeaning(f"{code.co_qualname} is said twice to run uncompiled")
    meaning.skipped = reason, unless


def rules_of_code(code: CodeType) -> Callable[[F], F]:
    """Register a rule for the functions that have this code."""

    def register(fn: F) -> F:
        meaning = code_to_fill(code)
        if meaning.rule is not None and meaning.rule is not fn:
            raise SecondMeaning(f"{code.co_qualname} has a rule in {name_of(meaning.rule)} and in {name_of(fn)}")
        meaning.rule = fn
        return fn

    return register


NAMED: dict[tuple[str, str], Rule] = {}
"""Rules for functions of modules that may not be imported yet, by module and qualified name."""


def named(module: str, *names: str) -> Callable[[F], F]:
    """Register a rule for the functions in Python that have these qualified names in a module, which needn't be imported."""

    def register(fn: F) -> F:
        for name in names:
            known = NAMED.setdefault((module, name), fn)
            if known is not fn:
                raise SecondMeaning(f"{module}.{name} has a rule in {name_of(known)} and in {name_of(fn)}")
        return fn

    return register


# Callables that no table can list.


class RuleOrder(IntEnum):
    """The order in which rules for kinds of callables are asked, after the callable's own meaning."""

    DECLARED = 0
    """The program has declared how calls of the function are treated."""
    MARKED = 1
    """The function is disabled, or has a mark of torch."""
    BY_ARGUMENTS = 2
    """A call with certain arguments means something else."""
    BY_KIND = 3
    """A class, an operator or a method of a kind."""


LIBRARY: list[tuple[RuleOrder, Rule]] = []


def library(order: RuleOrder) -> Callable[[Rule], Rule]:
    """Register a rule for callables of a kind. Two rules of the same order must not answer for the same call."""

    def register(fn: Rule) -> Rule:
        LIBRARY.append((order, fn))
        LIBRARY.sort(key=lambda entry: entry[0])
        return fn

    return register


def by_library(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """The result that a rule gives for a call of a callable without a model; None if no rule applies."""
    own = rule_of(function.value)
    found = None if own is None else own(vm, function, args, kwargs)
    if found is not None:
        return found
    for _, rule in LIBRARY:
        found = rule(vm, function, args, kwargs)
        if found is not None:
            return found
    return None


def rule_of(function: Any) -> Rule | None:
    """The rule for a function in Python: its own, or that of its code or its name."""
    if type(function) is not FunctionType:
        return None
    own, of_code = meaning_of(function), CODES.get(id(function.__code__))
    if own is not None and own.rule is not None:
        return own.rule
    return of_code.rule if of_code is not None and of_code.rule is not None else NAMED.get((function.__module__, function.__qualname__))


def call_model(
    vm: VM, model: Model, function: Any, args: Sequence[Object], kwargs: dict[str, Object], delivery: Delivery | None = None
) -> Object:
    """Call the model of a real function, turning calls that it can't handle into a break."""
    meaning = meaning_of(function)
    given = (vm, delivery, *args) if meaning is not None and meaning.delivers else (vm, *args)
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
