"""Handlers of raising, handling and cleaning up: exceptions and `with`."""

from __future__ import annotations

from typing import Any

from framejit.bytecode.instruction import Instruction
from framejit.ceval.frame import ExceptionState, Frame, LastInstruction
from framejit.ceval.operation import op
from framejit.objects.core import abstract, build
from framejit.objects.core.delivery import AS_IT_IS, Delivery
from framejit.objects.core.object import VM, Object, Raise, lookup_special
from framejit.objects.types import exceptiongroups, exceptions


@op("RAISE_VARARGS", "exc_and_cause[n] --")
def raise_varargs(vm: VM, frame: Frame, instruction: Instruction, exc_and_cause: list[Object]) -> None:
    if exc_and_cause:
        cause = exc_and_cause[1] if len(exc_and_cause) == 2 else None
        raise Raise(exceptions.normalized(vm, exc_and_cause[0], cause))
    handled = frame.current_exception() or vm.handled_exception()
    if handled is not None:
        raise Raise(handled, reraised=True)
    vm.raise_(RuntimeError, "No active exception to reraise")


@op("RERAISE", "exc --")
def reraise(vm: VM, frame: Frame, instruction: Instruction, exc: Object) -> None:
    raise Raise(exc, reraised=True)


@op("PUSH_EXC_INFO", "exc -- state exc")
def push_exc_info(vm: VM, frame: Frame, instruction: Instruction, exc: Object) -> tuple[ExceptionState, Object]:
    state = ExceptionState(exc, frame.handled)
    frame.handled = exc
    return state, exc


@op("POP_EXCEPT", "state --")
def pop_except(vm: VM, frame: Frame, instruction: Instruction, state: ExceptionState) -> None:
    frame.handled = state.outer


@op("CHECK_EXC_MATCH", "exc cls -- exc result")
def check_exc_match(vm: VM, frame: Frame, instruction: Instruction, exc: Object, cls: Object) -> tuple[Object, Object]:
    return exc, build.const(vm, abstract.exception_match(vm, exc, cls))


@op("CHECK_EG_MATCH", "exc kinds -- rest match")
def check_eg_match(vm: VM, frame: Frame, instruction: Instruction, exc: Object, kinds: Object) -> tuple[Object, Object]:
    match, rest = exceptiongroups.star_match(vm, exc, kinds)
    if match.cls is not type(None):
        frame.handled = match
    return rest, match


@op("PREP_RERAISE_STAR", "original raised -- exc")
def prep_reraise_star(vm: VM, frame: Frame, instruction: Instruction, original: Object, raised: Object) -> Object:
    return exceptiongroups.to_reraise(vm, original, raised)


@op("STOPITERATION_ERROR", "exc -- error")
def stopiteration_error_op(vm: VM, frame: Frame, instruction: Instruction, exc: Object) -> Object:
    return stopiteration_error(vm, exc)


def stopiteration_error(vm: VM, exc: Object) -> Object:
    """The exception that a generator raises if `exc` would leave it: PEP 479 makes a RuntimeError of StopIteration."""
    if not abstract.exception_match(vm, exc, build.const(vm, StopIteration)):
        return exc
    try:
        vm.raise_(RuntimeError, "generator raised StopIteration")
    except Raise as signal:
        error = signal.exc
    vm.chain_context(error, exc)
    return exceptions.normalized(vm, error, exc)


# with


@op("BEFORE_WITH", "manager -- exit entered")
def before_with(vm: VM, frame: Frame, instruction: Instruction, manager: Object) -> tuple[Object, Object]:
    enter = lookup_special(vm, manager, "__enter__")
    exit_ = lookup_special(vm, manager, "__exit__")
    if enter is not None and exit_ is not None:
        return exit_, abstract.call(vm, enter, [], {}, Delivery(below=(exit_,)))
    missed = "" if enter is None else " (missed __exit__ method)"
    name = abstract.type_name(vm, manager)
    vm.raise_(TypeError, f"'{name}' object does not support the context manager protocol{missed}")


@op("LOAD_SPECIAL", "owner -- method null")
def load_special(vm: VM, frame: Frame, instruction: Instruction, owner: Object) -> tuple[Object, None]:
    method = lookup_special(vm, owner, instruction.value)
    if method is not None:
        return method, None
    missed: str = instruction.value
    is_async = missed.startswith("__a")
    message = f"does not support the {'asynchronous ' * is_async}context manager protocol (missed {missed} method)"
    if all(lookup_special(vm, owner, name) is not None for name in (("__enter__", "__exit__") if is_async else ("__aenter__", "__aexit__"))):
        other, keyword = ("", "with") if is_async else ("asynchronous ", "async with")
        message += f" but it supports the {other}context manager protocol. Did you mean to use '{keyword}'?"
    return vm.raise_(TypeError, f"'{abstract.full_type_name(vm, owner)}' object {message}")


@op("WITH_EXCEPT_START", "exit[n] lasti state exc -- exit[n] lasti state exc result")
def with_except_start(
    vm: VM, frame: Frame, instruction: Instruction, exit_: list[Any], lasti: LastInstruction, state: ExceptionState, exc: Object
) -> tuple[Any, ...]:
    """`exit_`: a bound method, with the NULL above it that a version has there."""
    cls, traceback = (abstract.getattr_(vm, exc, name) for name in ("__class__", "__traceback__"))
    assert exit_[1:] in ([], [None]), "LOAD_SPECIAL gives bound methods"
    return *exit_, lasti, state, exc, abstract.call(vm, exit_[0], [cls, exc, traceback], {}, AS_IT_IS)
