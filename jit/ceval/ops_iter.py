"""Handlers of iteration, and of the instructions inside generators."""

from __future__ import annotations

import inspect

from framejit import breaks
from framejit.bytecode.instruction import Instruction
from framejit.ceval.frame import Frame
from framejit.ceval.operation import op
from framejit.ceval.signals import Created, Yield
from framejit.objects.core import abstract, build
from framejit.objects.core.object import VM, Object, Raise
from framejit.objects.types.genobject import delegate

OF_COROUTINES = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE


def nulls(instruction: Instruction) -> int:
    """The number of NULLs that a version has above the iterator: the argument of all operations that have an iterator on the stack."""
    return instruction.arg or 0


@op("GET_ITER", "iterable -- iterator nulls[n]", n=nulls)
def get_iter(vm: VM, frame: Frame, instruction: Instruction, iterable: Object) -> tuple[Object | None, ...]:
    return abstract.iter_(vm, iterable), *(None,) * nulls(instruction)


@op("FOR_ITER", "iterator nulls[n] -- iterator nulls[n] item", n=nulls, raw=True)
def for_iter(vm: VM, frame: Frame, instruction: Instruction) -> int | None:
    below = nulls(instruction) + 1
    item = abstract.next_(vm, frame.stack[-below])
    if item is not None:
        frame.stack.append(item)
        return None
    del frame.stack[-below:]
    target: int = instruction.value
    return target


# Generators.


@op("RETURN_GENERATOR", "-- sent")
def return_generator(vm: VM, frame: Frame, instruction: Instruction) -> None:
    # The frame stays at this instruction; the first value sent is its result.
    raise Created(build.generator(vm, frame))


@op("YIELD_VALUE", "value -- sent", raw=True)
def yield_value(vm: VM, frame: Frame, instruction: Instruction) -> None:
    raise Yield(frame.stack.pop())


@op("GET_YIELD_FROM_ITER", "iterable -- iterator nulls[n]", n=nulls)
def get_yield_from_iter(vm: VM, frame: Frame, instruction: Instruction, iterable: Object) -> tuple[Object | None, ...]:
    return delegate(vm, iterable, bool(frame.code.co_flags & OF_COROUTINES)), *(None,) * nulls(instruction)


@op("SEND", "receiver nulls[n] sent -- receiver nulls[n] value", n=nulls, raw=True)
def send(vm: VM, frame: Frame, instruction: Instruction) -> int | None:
    stack = frame.stack
    below = nulls(instruction) + 2
    value, finished = abstract.send(vm, stack[-below], stack[-1])
    if not finished:
        stack[-1] = value
        return None
    stack[-below:] = [value]
    target: int = instruction.value
    return target


@op("END_SEND", "receiver nulls[n] value -- value", n=nulls)
def end_send(vm: VM, frame: Frame, instruction: Instruction, receiver: Object, above: list[None], value: Object) -> Object:
    return value


@op("CLEANUP_THROW", "receiver nulls[n] sent exc -- none nulls[n] value", n=nulls)
def cleanup_throw(
    vm: VM, frame: Frame, instruction: Instruction, receiver: Object, above: list[None], sent: Object, exc: Object
) -> tuple[Object | None, ...]:
    if not abstract.exception_match(vm, exc, build.const(vm, StopIteration)):
        raise Raise(exc, reraised=True)
    return build.const(vm, None), *above, abstract.getattr_(vm, exc, "value")


def throw_into(vm: VM, receiver: Object, exc: Object) -> tuple[Object, bool]:
    """Pass an exception on to the iterator that a generator delegates to (PEP 380): (yielded value, False) or (returned value, True)."""
    if abstract.exception_match(vm, exc, build.const(vm, GeneratorExit)):
        try:
            close = abstract.lookup_attr(vm, receiver, "close")
        except Raise:  # CPython passes it to sys.unraisablehook
            vm.unsupported(breaks.UnsupportedOperation("closing a generator whose iterator raises where its close is looked up"))
        if close is not None:
            abstract.call(vm, close, [], {})
        raise Raise(exc, thrown=True)
    return abstract.throw(vm, receiver, exc)
