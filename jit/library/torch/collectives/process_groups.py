"""Process groups: the rank, the size and the name of one, which are fixed when it is made, are constants. The group is guarded by identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.distributed import ProcessGroup, ReduceOp

from framejit import breaks
from framejit.guards.kinds import ValueIs
from framejit.objects.core.object import VM, IdentityConstant, Object
from framejit.objects.core.registry import models, wraps


@wraps(ReduceOp.RedOpType, by_identity=True)
class ReductionObject(IdentityConstant):
    """A way to reduce, such as `ReduceOp.SUM`."""

    __slots__ = ()


def constant_of_group(function: Callable[[Any], Any]) -> None:
    """Register a method or getter in C++ whose answer never changes for a group."""

    def ask(vm: VM, group: Object) -> Object:
        group = vm.observe(group)
        if group.source is None or type(group.value) is not ProcessGroup:
            vm.unsupported(breaks.UnsupportedCall(f"{function.__name__}() of a process group that isn't from outside"))
        vm.guard(ValueIs, group.source, group.value)
        vm.guards.rest_on_process("a process group")
        return vm.const(function(group.value))

    models(function)(ask)


for _name in ("rank", "size", "name"):
    constant_of_group(vars(ProcessGroup)[_name].__func__)  # the class itself gives, with some versions of pybind11, an instance method
constant_of_group(vars(ProcessGroup)["group_name"].fget)
