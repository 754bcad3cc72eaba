"""What other people's libraries say to torch's own tracer (`torch.compiler`, `torch._dynamo`), and what it means to this one."""

from __future__ import annotations

import sys

from framejit import breaks, directives
from framejit.directives import MADE_BY_TORCH
from framejit.guards.kinds import ValueIs
from framejit.guards.source import MISSING, SWITCHES
from framejit.objects import abstract
from framejit.objects.funcobject import FunctionObject
from framejit.objects.object import VM, Object
from framejit.objects.registry import library
from framejit.user import regions

DISABLED = "_torchdynamo_disable"
FORBIDDEN = "_dynamo_forbidden"
STANCE = frozenset({"set_stance", "_set_stance"})
"""torch's functions that set the stance; they carry the mark FORBIDDEN."""
MAKE_CALLABLES = frozenset({("torch.compiler", "disable"), ("torch._dynamo.decorators", "disable")})
"""Run for real where the program calls them; what they make is known when it is called."""
NOT_NESTED = "disable_nested_graph_breaks"
ENTERS, LEAVES = "DynamoConfigPatchProxy.__enter__", "DynamoConfigPatchProxy.__exit__"
"""The methods of torch's regions that change a setting of its tracer's; functions decorated with such a region are traced through to these."""
UTILITIES = "torch._dynamo.utils"
ASKED = "_error_on_graph_break"
SWITCHES[UTILITIES, ASKED] = "torch's error_on_graph_break"
STOPS: dict[str, type[breaks.ExplicitBreak] | type[breaks.SkippedFrame]] = {
    "graph_break": breaks.ExplicitBreak,
    "skip_frame": breaks.SkippedFrame,
    "step_unsupported": breaks.ExplicitBreak,
}
"""Functions of torch's that ask its tracer to stop, and the break reasons that stand for them here."""


@library
def torch_directive(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """`torch.compiler.disable` marks functions; `torch._dynamo.graph_break` asks the tracer to stop.

    `torch._dynamo.error_on_graph_break` needs no rule: its code, which sets a global of torch's, is traced; see `asked_for_errors`.

    Once torch.compile has run, every nn.Module notes its age at its creation (`GenerationTracker.tag`), for torch's tracer only: a
    module without the note is an ordinary one to it.
    """
    if function.value is MISSING:
        return None
    if not isinstance(function, FunctionObject):
        return None
    real = function.value
    if real.__module__ == "torch._dynamo.decorators" and real.__name__ in STOPS:
        message = args[0] if args else kwargs.get("msg")
        vm.unsupported(STOPS[real.__name__]("" if message is None else str(vm.observe(message).constant(vm))))
    if real.__module__ == "torch._dynamo.mutation_guard" and real.__qualname__.lstrip("_") == "GenerationTracker.tag":
        if function.source is not None:
            vm.guard(ValueIs, function.source, real)
        return vm.const(None)
    if real.__name__ in STANCE and real.__dict__.get(FORBIDDEN):
        vm.unsupported(breaks.StanceChange())
    if (real.__module__, real.__name__) == ("torch._dynamo.decorators", NOT_NESTED):
        return abstract.call(vm, vm.pin(regions.disable_nested_graph_breaks), [*args, *kwargs.values()])
    if real.__module__ == "torch._dynamo.decorators" and real.__qualname__ in (ENTERS, LEAVES) and is_not_nested(vm, args[0]):
        if real.__qualname__ == ENTERS:
            return abstract.call(vm, vm.pin(directives.push), [vm.const(directives.NESTED), vm.const(False)])
        return abstract.call(vm, vm.pin(directives.pop), [])
    if (real.__module__, real.__name__) in MAKE_CALLABLES:
        vm.unsupported(breaks.UnsupportedCall(f"{real.__module__}.{real.__name__}"))
    if MADE_BY_TORCH in real.__dict__ and not real.__dict__.get(DISABLED):
        attributes = function.instance_dict(vm)
        assert attributes is not None
        attributes.lookup(vm, DISABLED)  # guarded not to be there
        return abstract.call(vm, abstract.getattr_(vm, function, MADE_BY_TORCH), args, kwargs)
    if real.__dict__.get(DISABLED) and real.__name__ == "_init_group" and str(real.__module__).startswith("torch.optim."):
        if function.source is not None:
            vm.guard(ValueIs, function.source, real)
        return abstract.call(vm, vm.pin(real.__dict__[MADE_BY_TORCH]), args, kwargs)  # a mark for torch's own tracer, made when that first ran
    if real.__dict__.get(DISABLED):
        reason = real.__dict__.get("_torchdynamo_disable_msg")
        vm.unsupported(breaks.DisabledFunction(f"{function.qualname} ({reason})" if reason else function.qualname))
    return None


def is_not_nested(vm: VM, region: Object) -> bool:
    """Whether a region of torch's is what `torch._dynamo.disable_nested_graph_breaks` gives."""
    region = vm.observe(region)
    if region.source is None or region.value.changes != {"nested_graph_breaks": False}:
        return False
    vm.guard(ValueIs, region.source, region.value)
    return True


def asked_for_errors(vm: VM) -> bool:
    """Whether `torch._dynamo.error_on_graph_break(True)` is in force, as the trace sees it; guarded."""
    module = sys.modules.get(UTILITIES)
    if module is None:
        return False
    found = vm.globals_of(module.__dict__).lookup(vm, ASKED)
    return found is not None and bool(vm.observe(found).constant(vm))
