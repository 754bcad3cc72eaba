"""Modules that `fully_shard` has sharded: their hooks run natively, around a `forward` that is compiled by itself.

The hooks put gathered parameters into the module before its forward pass and remove them after it. So a call of such a module is one graph break, and modules
of the same class share what is compiled of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from framejit import breaks
from framejit.objects.core.object import VM, Object
from framejit.objects.tensors.nnmoduleobject import around_calls
from framejit.process.when_needed import is_loaded, when_needed

fsdp = when_needed("torch.distributed.fsdp")


@around_calls
def call_natively(vm: VM, module: Object, args: Sequence[Object], kwargs: dict[str, Object], trace: Callable[[], Object]) -> Object:
    """Stop the trace at the call of a module that is sharded; a module that is called without its hooks isn't asked about."""
    if is_loaded("torch.distributed.fsdp") and issubclass(module.cls, fsdp.FSDPModule):
        vm.unsupported(breaks.UnsupportedCall("a module that fully_shard has sharded, whose hooks gather its parameters"))
    return trace()
