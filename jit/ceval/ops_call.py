"""Handlers of calls, and of making functions."""

from __future__ import annotations

from framejit.bytecode.instruction import Instruction
from framejit.ceval.frame import Frame
from framejit.ceval.operation import op
from framejit.objects.core import abstract, build, calls
from framejit.objects.core.delivery import AS_IT_IS
from framejit.objects.core.object import VM, Object

# Include/internal/pycore_code.h: the values that MAKE_FUNCTION's flags say are on the stack, deepest first.
DEFAULTS, KEYWORD_DEFAULTS, ANNOTATIONS, ANNOTATE, CLOSURE = 1, 2, 4, 16, 8


@op("CALL", "first second args[n] -- result")
def call(vm: VM, frame: Frame, instruction: Instruction, first: Object | None, second: Object | None, args: list[Object]) -> Object:
    """`first` and `second`: a callable and NULL in the order of the version, or a method and its self."""
    names = instruction.value[1]
    positional = len(args) - len(names)
    kwargs = dict(zip(names, args[positional:]))
    if first is None or second is None:
        return abstract.call(vm, callable_of(first, second), args[:positional], kwargs, AS_IT_IS)
    return abstract.call(vm, first, [second, *args[:positional]], kwargs, AS_IT_IS)


@op("CALL_FUNCTION_EX", "first second args kwargs[n] -- result", n=lambda instruction: instruction.value & 1)
def call_function_ex(
    vm: VM, frame: Frame, instruction: Instruction, first: Object | None, second: Object | None, args: Object, kwargs: list[Object | None]
) -> Object:
    return calls.call_ex(vm, callable_of(first, second), args, kwargs[0] if kwargs else None, AS_IT_IS)


def callable_of(first: Object | None, second: Object | None) -> Object:
    """The one of the two that isn't NULL."""
    found = second if first is None else first
    assert found is not None
    return found


@op("MAKE_FUNCTION", "attributes[n] code -- function", n=lambda instruction: (instruction.arg or 0).bit_count())
def make_function(vm: VM, frame: Frame, instruction: Instruction, attributes: list[Object], code: Object) -> Object:
    given = iter(attributes)
    flags = instruction.arg or 0
    defaults, kwdefaults, annotations, annotate, closure = (
        next(given) if flags & flag else None for flag in (DEFAULTS, KEYWORD_DEFAULTS, ANNOTATIONS, ANNOTATE, CLOSURE)
    )
    qualname = instruction.value.co_qualname
    made = build.function(vm, instruction.value, frame.globals, frame.builtins, defaults, kwdefaults, closure, annotations, qualname)
    if annotate is not None:
        build.set_annotate(made, annotate)
    return made
