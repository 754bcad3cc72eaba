"""What other people's libraries say to torch's own tracer (`torch.compiler`, `torch._dynamo`), and what it means to this one."""

from __future__ import annotations

from framejit import breaks
from framejit.guards.kinds import ValueIs
from framejit.objects.funcobject import FunctionObject
from framejit.objects.object import NotConstant, Object
from framejit.objects.registry import library
from framejit.objects.vm import VM

DISABLED = "_torchdynamo_disable"
ASSUMED_CONSTANT = "_dynamo_marked_constant"


@library
def torch_directive(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """`torch.compiler.disable` and `assume_constant_result` mark functions; `torch._dynamo.graph_break` asks the tracer to stop.

    Once torch.compile has run, every nn.Module notes its age at its creation (`GenerationTracker.tag`), for torch's tracer only: a
    module without the note is an ordinary one to it.
    """
    if not isinstance(function, FunctionObject):
        return None
    real = function.value
    if real.__module__ == "torch._dynamo.decorators" and real.__name__ == "graph_break":
        message = args[0] if args else kwargs.get("msg")
        vm.unsupported(breaks.ExplicitBreak("" if message is None else str(vm.observe(message).constant(vm))))
    if real.__module__ == "torch._dynamo.mutation_guard" and real.__qualname__ == "GenerationTracker.tag":
        if function.source is not None:
            vm.guard(ValueIs, function.source, real)
        return vm.const(None)
    if real.__dict__.get(DISABLED):
        vm.unsupported(breaks.DisabledFunction(function.qualname))
    if real.__dict__.get(ASSUMED_CONSTANT):
        return assumed_constant(vm, function, args, kwargs)
    return None


def assumed_constant(vm: VM, function: FunctionObject, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Call the function for real: its author vouches that equal arguments give the same result for as long as the process lives.

    transformers marks its probes for installed packages so; they search the file system. None: the arguments aren't constants.
    """
    try:
        real_args = [vm.observe(arg).constant(vm) for arg in args]
        real_kwargs = {name: vm.observe(arg).constant(vm) for name, arg in kwargs.items()}
    except NotConstant:
        return None
    if function.source is not None:
        vm.guard(ValueIs, function.source, function.value)
    try:
        found = function.value(*real_args, **real_kwargs)
    except Exception as error:
        vm.raise_(type(error), *error.args)
    return vm.pin(found)
