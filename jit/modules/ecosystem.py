"""What other people's libraries say to torch's own tracer (`torch.compiler`, `torch._dynamo`), and what it means to this one."""

from __future__ import annotations

from framejit import breaks
from framejit.objects.funcobject import FunctionObject
from framejit.objects.object import Object
from framejit.objects.registry import library
from framejit.objects.vm import VM

DISABLED = "_torchdynamo_disable"


@library
def torch_directive(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """`torch.compiler.disable` marks functions; `torch._dynamo.graph_break` asks the tracer to stop."""
    if not isinstance(function, FunctionObject):
        return None
    real = function.value
    if real.__module__ == "torch._dynamo.decorators" and real.__name__ == "graph_break":
        message = args[0] if args else kwargs.get("msg")
        vm.unsupported(breaks.ExplicitBreak("" if message is None else str(vm.observe(message).constant(vm))))
    if real.__dict__.get(DISABLED):
        vm.unsupported(breaks.DisabledFunction(function.qualname))
    return None
