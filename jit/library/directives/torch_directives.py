"""The calls by which other libraries talk to torch's own tracer (`torch.compiler`, `torch._dynamo`), and their meaning here."""

from __future__ import annotations

import sys

from framejit import breaks
from framejit.guards.kinds import ValueIs
from framejit.guards.source import MISSING, SWITCHES
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.core.registry import RuleOrder, library, named
from framejit.objects.types.funcobject import FunctionObject
from framejit.said import directives
from framejit.said.directives import MADE_BY_TORCH
from framejit.said.vocabulary import VOCABULARY
from framejit.torch_state.errors_at_breaks import ASKED, UTILITIES, asks_for_errors

DISABLED = "_torchdynamo_disable"
FORBIDDEN = "_dynamo_forbidden"
STANCE = frozenset({"set_stance", "_set_stance"})
"""torch's functions that set the stance; they are marked FORBIDDEN."""
MEANS_NOTHING = frozenset({
    "verbose", "verify_correctness", "rewrite_assert_with_torch_assert", "capture_scalar_outputs", "allow_unspec_int_on_nn_module", "skip_torchrec",
    "dont_skip_tracing",
})  # fmt: skip
"""Settings of torch's tracer that regions may change, and that say how it traces: they mean nothing to framejit's trace, nor to the program."""
SWITCHES[UTILITIES, ASKED] = "torch's error_on_graph_break"
DECORATORS = "torch._dynamo.decorators"
STOPS: dict[str, type[breaks.ExplicitBreak] | type[breaks.SkippedFrame]] = {
    "graph_break": breaks.ExplicitBreak,
    "skip_frame": breaks.SkippedFrame,
    "step_unsupported": breaks.ExplicitBreak,
}
"""Functions of torch that ask its tracer to stop, and the corresponding break reasons here."""


@named(DECORATORS, *STOPS)
def stop(vm: VM, function: FunctionObject, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    message = args[0] if args else kwargs.get("msg")
    return vm.unsupported(STOPS[function.value.__name__]("" if message is None else str(vm.observe(message).constant(vm))))


@named("torch._dynamo.mutation_guard", "GenerationTracker.tag", "_GenerationTracker.tag")
def note_age(vm: VM, function: FunctionObject, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Once torch.compile has run, every nn.Module records its age at its creation, for torch's tracer only: to that, a module without the record
    is an ordinary one."""
    rest_on_function(vm, function)
    return vm.const(None)


@named(DECORATORS, "disable_nested_graph_breaks")
def disable_nested(vm: VM, function: FunctionObject, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    return abstract.call(vm, vm.pin(VOCABULARY["disable_nested_graph_breaks"]), [*args, *kwargs.values()])


@named(DECORATORS, "DynamoConfigPatchProxy.__enter__")
def enter_region(vm: VM, function: FunctionObject, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """torch's regions change a setting of its tracer; functions decorated with such a region are traced through to this."""
    if is_not_nested(vm, args[0]):
        return abstract.call(vm, vm.pin(directives.push), [vm.const(directives.NESTED), vm.const(False)])
    return vm.const(None) if means_nothing(vm, args[0]) else None


@named(DECORATORS, "DynamoConfigPatchProxy.__exit__")
def leave_region(vm: VM, function: FunctionObject, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    if is_not_nested(vm, args[0]):
        return abstract.call(vm, vm.pin(directives.pop), [])
    return vm.const(None) if means_nothing(vm, args[0]) else None


@named(DECORATORS, "patch_dynamo_config", "dont_skip_tracing")
def make_region(vm: VM, function: FunctionObject, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A region that changes settings of torch's tracer, made in the call. If its function refuses the settings, it runs natively."""
    try:
        given = [vm.observe(arg).as_real(vm) for arg in args]
        by_name = {name: vm.observe(value).as_real(vm) for name, value in kwargs.items()}
    except NotConstant:
        return None
    try:
        region = function.value(*given, **by_name)
        means_something = set(region.changes) - MEANS_NOTHING
    except Exception:
        return None
    return None if means_something else vm.pin(region)


@named(DECORATORS, "disable")
@named("torch.compiler", "disable")
def make_disabled(vm: VM, function: FunctionObject, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """torch's decorator runs for real where the program calls it; its result is recognised when that is called."""
    return vm.unsupported(breaks.UnsupportedCall(f"{function.value.__module__}.{function.value.__name__}"))


@library(RuleOrder.MARKED)
def marked(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A call of a function that has a mark of torch: it sets the stance, isn't to be compiled, or wraps one that isn't.

    `torch._dynamo.error_on_graph_break` needs no rule: its code, which sets a global of torch, is traced; see `asked_for_errors`.
    """
    if function.value is MISSING or not isinstance(function, FunctionObject):
        return None
    real = function.value
    marks = real.__dict__
    if real.__name__ in STANCE and marks.get(FORBIDDEN):
        vm.unsupported(breaks.StanceChange())
    if MADE_BY_TORCH in marks and not marks.get(DISABLED):
        attributes = function.instance_dict(vm)
        assert attributes is not None
        attributes.lookup(vm, DISABLED)  # guarded not to be there
        return abstract.call(vm, abstract.getattr_(vm, function, MADE_BY_TORCH), args, kwargs)
    if not marks.get(DISABLED):
        return None
    if real.__name__ == "_init_group" and str(real.__module__).startswith("torch.optim."):
        rest_on_function(vm, function)
        return abstract.call(vm, vm.pin(marks[MADE_BY_TORCH]), args, kwargs)  # a mark for torch's own tracer, made when that first ran
    reason = marks.get("_torchdynamo_disable_msg")
    return vm.unsupported(breaks.DisabledFunction(f"{function.qualname} ({reason})" if reason else function.qualname))


def rest_on_function(vm: VM, function: FunctionObject) -> None:
    """Guard a function's identity, if it comes from outside."""
    if function.source is not None:
        vm.guard(ValueIs, function.source, function.value)


def is_not_nested(vm: VM, region: Object) -> bool:
    """Return whether a region of torch is the result of `torch._dynamo.disable_nested_graph_breaks`."""
    region = vm.observe(region)
    if region.source is None or region.value.changes != {"nested_graph_breaks": False}:
        return False
    vm.guard(ValueIs, region.source, region.value)
    return True


def means_nothing(vm: VM, region: Object) -> bool:
    """Return whether a region of torch changes only settings of its own tracer that have no counterpart here."""
    region = vm.observe(region)
    if region.source is None or not set(region.value.changes) <= MEANS_NOTHING:
        return False
    vm.guard(ValueIs, region.source, region.value)
    return True


def asked_for_errors(vm: VM) -> bool:
    """Return whether `torch._dynamo.error_on_graph_break(True)` is in force in the trace; guarded."""
    module = sys.modules.get(UTILITIES)
    if module is None:
        return bool(vm.guards.read(asks_for_errors))
    found = vm.globals_of(module.__dict__).lookup(vm, ASKED)
    return found is not None and bool(vm.observe(found).constant(vm))
