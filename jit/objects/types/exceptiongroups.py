"""Exception groups (Objects/exceptions.c): their parts by a condition, and what `except*` handles and raises again (PEP 654).

    try: ...
    except* ValueError as group: ...        # CHECK_EG_MATCH: the part that matches, and the rest
                                            # PREP_RERAISE_STAR: what is raised in the end
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import abstract, differences, operators
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.types.constobject import NONE
from framejit.objects.types.exceptions import ExceptionObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject

Condition = Callable[[ExceptionObject], bool]
METADATA = ("__traceback__", "__cause__", "__context__")
"""By these fields, CPython tells what was raised again from what is new."""

DEEPEST = 50
"""The most levels of a group that is taken apart: each takes a few calls of the compiler's own."""


def is_group(exc: Object) -> bool:
    return issubclass(exc.cls, BaseExceptionGroup)


def is_exception_class(obj: Object) -> bool:
    return issubclass(obj.cls, type) and issubclass(obj.value, BaseException)


def condition_of(vm: VM, given: Object) -> Condition:
    """get_matcher_type: a function, a class of exceptions, or a tuple of them."""
    given = vm.observe(given)
    is_callable = not issubclass(given.cls, type) and vm.raw_type_lookup(given.cls, "__call__") is not MISSING
    if given.cls is FunctionType or (differences.GROUPS_CALL_OBJECTS and is_callable):
        return lambda exc: abstract.truth(vm, abstract.call(vm, given, [exc]))
    kinds = [vm.observe(kind) for kind in abstract.iterate(vm, given)] if given.cls is tuple else [given]
    if not all(map(is_exception_class, kinds)):
        vm.raise_(TypeError, differences.SAID_OF_CONDITION)
    return lambda exc: abstract.exception_match(vm, exc, given)


def members(vm: VM, group: ExceptionObject) -> list[ExceptionObject]:
    """The exceptions of a group that the trace has made."""
    if group.source is not None:
        vm.unsupported(breaks.UnsupportedOperation("taking apart an exception group made outside"))
    found = [vm.observe(member) for member in abstract.iterate(vm, group.fields["exceptions"])]
    return [member for member in found if isinstance(member, ExceptionObject)]


def split(vm: VM, exc: ExceptionObject, condition: Condition, with_rest: bool = True, depth: int = 0) -> tuple[Object, Object]:
    """exceptiongroup_split_recursive: the part of an exception or a group that meets the condition, and the rest; None where there is none."""
    if depth > DEEPEST:
        vm.unsupported(breaks.UnsupportedOperation(f"taking apart an exception group that is nested more than {DEEPEST} levels deep"))
    if condition(exc):
        return exc, NONE
    if not is_group(exc):
        return NONE, exc
    matches, rests = [], []
    for member in members(vm, exc):
        match, rest = split(vm, member, condition, with_rest, depth + 1)
        matches += [match] * (match is not NONE)
        rests += [rest] * (rest is not NONE)
    return subset(vm, exc, matches), subset(vm, exc, rests) if with_rest else NONE


def subset(vm: VM, group: ExceptionObject, parts: list[Object]) -> Object:
    """exceptiongroup_subset: a group like another one, of some of its exceptions."""
    if not parts:
        return NONE
    derived = vm.observe(abstract.call(vm, abstract.getattr_(vm, group, "derive"), [ListObject(parts)]))
    if not is_group(derived):
        vm.raise_(TypeError, "derive must return an instance of BaseExceptionGroup")
    assert isinstance(derived, ExceptionObject)
    traceback = vm.observe(group.traceback(vm))
    if traceback.cls is not type(None):
        derived.set_traceback(vm, traceback)
    for name in ("__context__", "__cause__"):
        derived.set_field(vm, name, group.fields.get(name) or NONE)
    derived.set_field(vm, "__suppress_context__", vm.const(True))
    notes = abstract.lookup_attr(vm, group, "__notes__")
    if notes is not None:
        if not issubclass(vm.observe(notes).cls, (list, tuple)):
            vm.unsupported(breaks.UnsupportedOperation("taking apart an exception group whose __notes__ are no list"))
        abstract.setattr_(vm, derived, "__notes__", ListObject(list(abstract.iterate(vm, notes))))
    return derived


@models(BaseExceptionGroup.split)
def group_split(vm: VM, self: Object, condition: Object, /) -> Object:
    assert isinstance(self, ExceptionObject)
    return TupleObject([*split(vm, self, condition_of(vm, condition))])


@models(BaseExceptionGroup.subgroup)
def group_subgroup(vm: VM, self: Object, condition: Object, /) -> Object:
    assert isinstance(self, ExceptionObject)
    return split(vm, self, condition_of(vm, condition), with_rest=False)[0]


@models(BaseExceptionGroup.derive)
def group_derive(vm: VM, self: Object, excs: Object, /) -> Object:
    assert isinstance(self, ExceptionObject)
    if self.source is not None:
        vm.unsupported(breaks.UnsupportedOperation("taking apart an exception group made outside"))
    return new(vm, self.fields["message"], excs)


def new(vm: VM, message: Object, excs: Object) -> Object:
    """A group that is an ExceptionGroup if all of its exceptions are Exceptions."""
    return vm.observe(abstract.call(vm, vm.const(BaseExceptionGroup), [message, excs]))


# except*


def star_match(vm: VM, exc: Object, kinds: Object) -> tuple[Object, Object]:
    """Python/ceval.c: exception_group_match: the part of what is being handled that a clause takes, and the rest."""
    reject_groups(vm, kinds)
    exc = vm.observe(exc)
    if not isinstance(exc, ExceptionObject):
        return NONE, NONE
    if abstract.exception_match(vm, exc, kinds):
        return (exc if is_group(exc) else wrapped(vm, exc)), NONE
    if not is_group(exc):
        return NONE, exc
    pair = vm.observe(abstract.call(vm, abstract.getattr_(vm, exc, "split"), [kinds]))
    parts = [vm.observe(part) for part in abstract.iterate(vm, pair)] if pair.cls is tuple else []
    if len(parts) != 2:
        vm.unsupported(breaks.UnsupportedOperation("except* of a group whose split() returns something else than a pair"))
    return parts[0], parts[1]


def reject_groups(vm: VM, kinds: Object) -> None:
    """check_except_star_type_valid."""
    kinds = vm.observe(kinds)
    listed = [vm.observe(kind) for kind in abstract.iterate(vm, kinds)] if issubclass(kinds.cls, tuple) else [kinds]
    if not all(map(is_exception_class, listed)):
        vm.raise_(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    if any(abstract.is_subtype(vm, kind.value, BaseExceptionGroup) for kind in listed):
        vm.raise_(TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.")


def wrapped(vm: VM, exc: ExceptionObject) -> Object:
    """The group that stands for a plain exception in a clause."""
    if differences.WRAPPERS_HAVE_TRACEBACKS:
        vm.unsupported(breaks.UnsupportedOperation("except* of an exception that is no group"))
    return new(vm, vm.const(""), TupleObject([exc]))


def to_reraise(vm: VM, original: Object, raised: Object) -> Object:
    """_PyExc_PrepReraiseStar: what leaves the statement: exceptions that its clauses have raised, and those that were raised again or not handled."""
    original = vm.observe(original)
    given = [exc for exc in map(vm.observe, abstract.iterate(vm, raised)) if exc.cls is not type(None)]
    if not given or not is_group(original):
        return given[0] if given else NONE  # of a plain exception, one clause has been executed at most
    assert isinstance(original, ExceptionObject)
    again = [exc for exc in given if has_metadata_of(vm, exc, original)]
    new_ones = [exc for exc in given if exc not in again]
    rest = projection(vm, original, again)
    if new_ones and differences.WRAPS_SINGLE:
        vm.unsupported(breaks.UnsupportedOperation("raising an exception in a clause of except*"))
    if rest is not NONE:
        new_ones.append(rest)
    return new(vm, vm.const(""), ListObject(new_ones)) if len(new_ones) > 1 else new_ones[0]


def has_metadata_of(vm: VM, exc: Object, original: ExceptionObject) -> bool:
    """is_same_exception_metadata. No attribute of the program's is asked."""
    assert isinstance(exc, ExceptionObject)
    return all(operators.is_(vm, exc.field(vm, name), original.field(vm, name)) for name in METADATA)


def projection(vm: VM, group: ExceptionObject, keep: list[Object]) -> Object:
    """exception_group_projection: the part of a group that has the exceptions in some parts of it."""
    kept = [leaf for part in keep for leaf in leaves(vm, part)]
    return split(vm, group, lambda exc: not is_group(exc) and any(operators.is_(vm, exc, leaf) for leaf in kept), with_rest=False)[0]


def leaves(vm: VM, exc: Object) -> list[Object]:
    """The exceptions in a group, and in the groups in it, that are no groups."""
    assert isinstance(exc, ExceptionObject)
    return [leaf for member in members(vm, exc) for leaf in leaves(vm, member)] if is_group(exc) else [exc]
