"""Collectives such as `torch.distributed.all_reduce`, which write their result to a tensor: nodes that communicate, as torch's functional forms have them.

    dist.all_reduce(y)      # in the graph: y.copy_(wait_tensor(_c10d_functional.all_reduce(y, "sum", "0")))

The group is guarded by identity, since its name is part of the node. Whatever the functional forms don't say in the same words runs natively: calls that
don't wait (`async_op=True`), tensors that require a gradient (the functional forms would send gradients too), complex ones, and lists of unequal sizes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.utils import _pytree as pytree

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.fake import storages
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import Object
from framejit.objects.core.registry import named, rules
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.listobject import ListObject
from framejit.process.when_needed import when_needed
from framejit.quick_dataclass import dataclass

FUNCTIONAL = when_needed("torch.distributed._functional_collectives")


@dataclass
class Collective:
    """A call of a collective.

    Attributes:
        vm: the trace.
        name: its name, for messages.
        given: its arguments, by name.
    """

    vm: TorchVM
    name: str
    given: dict[str, Object]

    def refuse(self, why: str) -> NoReturn:
        self.vm.unsupported(breaks.UnsupportedCall(f"torch.distributed.{self.name} {why}"))

    def constant(self, name: str, default: Any = None) -> Any:
        return self.vm.observe(self.given[name]).constant(self.vm) if name in self.given else default

    def tensor(self, value: Object) -> TensorObject:
        """A tensor that takes part in it."""
        found: Object = self.vm.observe(value)
        if not isinstance(found, TensorObject) or found.cls not in (torch.Tensor, torch.nn.Parameter):
            self.refuse("on what is no plain tensor")
        fake = found.look(self.vm)
        if fake.is_complex():
            self.refuse("on complex tensors")
        if torch.is_grad_enabled() and (fake.requires_grad or self.is_remembered(fake)):
            self.refuse("on a tensor that a gradient depends on")
        return found

    def is_remembered(self, fake: torch.Tensor) -> bool:
        """Return whether a node that requires a gradient has used the tensor's data. In eager, its backward would find the result of the collective."""
        data = storages([fake])
        for node in self.vm.graph.body.fx.nodes:
            value = node.meta.get("example_value")
            if isinstance(value, torch.Tensor) and data & storages([value]) and any(requires_gradient(user.meta.get("example_value")) for user in node.users):
                return True
        return False

    def group(self) -> Object:
        """The process group: the one that is given, or the process's."""
        vm = self.vm
        if self.constant("async_op", False):
            self.refuse("with async_op=True")
        if vm.guards.read(coalesces):
            self.refuse("among calls that are coalesced")
        given = self.given.get("group")
        if given is None or vm.observe(given).cls is type(None):
            return vm.observe(abstract.call(vm, vm.const(c10d._get_default_group), []))
        found = vm.observe(given)
        if found.cls is not dist.ProcessGroup:
            self.refuse("in a process that isn't in the group")
        return found

    def reduction(self) -> Object:
        """The name of the operation that reduces."""
        operation = self.constant("op", dist.ReduceOp.SUM)
        found = FUNCTIONAL.REDUCE_OP_TO_STR.get(operation)
        if found is None:
            self.refuse("with an operation that has no name")
        return self.vm.const(found)

    def result(self, operator: str, *args: Object) -> Object:
        """The result of the functional form, once it is there."""
        functional = FUNCTIONAL.torch.ops._c10d_functional
        started = enter(self.vm, getattr(functional, operator).default, args)
        return enter(self.vm, functional.wait_tensor.default, [started])

    def write(self, target: Object, result: Object) -> Object:
        """Write the result to a tensor of its shape."""
        if self.shape(target) != self.shape(result):
            self.refuse("between tensors of other shapes")
        abstract.call_method(self.vm, target, "copy_", result)
        return self.vm.const(None)

    def shape(self, tensor: Object) -> tuple[Any, ...]:
        assert isinstance(tensor, TensorObject)
        return tuple(tensor.look(self.vm).shape)


def requires_gradient(value: Any) -> bool:
    return any(leaf.requires_grad for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def coalesces() -> bool:
    """Return whether calls are collected, to be made together."""
    return bool(c10d._world.pg_coalesce_state)


def collective(*names: str) -> Callable[[Callable[[Collective], Object]], None]:
    """Register what a collective is in a graph, under the first of these names that this version of torch has."""

    def register(form: Callable[[Collective], Object]) -> None:
        function = next(getattr(dist, name) for name in names if hasattr(dist, name))
        signature = inspect.signature(function)

        @rules(function)
        def call(vm: TorchVM, called: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:
                return None
            return form(Collective(vm, function.__name__, given))

    return register


@collective("all_reduce")
def all_reduce(call: Collective) -> Object:
    group, tensor = call.group(), call.tensor(call.given["tensor"])
    return call.write(tensor, call.result("all_reduce", tensor, call.reduction(), name_of(call.vm, group)))


@collective("broadcast")
def broadcast(call: Collective) -> Object:
    group, tensor = call.group(), call.tensor(call.given["tensor"])
    ranks = [call.given.get(name, call.vm.const(None)) for name in ("src", "group_src")]
    source = abstract.call(call.vm, call.vm.const(c10d._canonicalize_group_rank), [group, *ranks], {"return_global": call.vm.const(False)})
    return call.write(tensor, call.result("broadcast", tensor, source, name_of(call.vm, group)))


@collective("all_gather_single", "all_gather_into_tensor")
def all_gather_into_tensor(call: Collective) -> Object:
    group, target, tensor = call.group(), call.tensor(call.given["output_tensor"]), call.tensor(call.given["input_tensor"])
    result = call.result("all_gather_into_tensor", tensor, size_of(call.vm, group), name_of(call.vm, group))
    return call.write(target, result)


@collective("reduce_scatter_single", "reduce_scatter_tensor")
def reduce_scatter_tensor(call: Collective) -> Object:
    group, target, tensor = call.group(), call.tensor(call.given["output"]), call.tensor(call.given["input"])
    size = size_of(call.vm, group)
    rows = call.shape(tensor)[:1]
    if not rows or rows[0] % size.constant(call.vm):
        call.refuse("of a tensor that isn't divided evenly")
    return call.write(target, call.result("reduce_scatter_tensor", tensor, call.reduction(), size, name_of(call.vm, group)))


@collective("all_gather")
def all_gather(call: Collective) -> Object:
    vm, group, tensor = call.vm, call.group(), call.tensor(call.given["tensor"])
    targets = [call.tensor(item) for item in abstract.iterate(vm, vm.observe(call.given["tensor_list"]))]
    size = size_of(vm, group)
    if len(targets) != size.constant(vm) or any(call.shape(target) != call.shape(tensor) for target in targets):
        call.refuse("between tensors of other shapes")
    one = abstract.call_method(vm, tensor, "unsqueeze", vm.const(0))
    gathered = call.result("all_gather_into_tensor", one, size, name_of(vm, group))
    for index, target in enumerate(targets):
        call.write(target, abstract.getitem(vm, gathered, vm.const(index)))
    return vm.const(None)


@collective("all_to_all_single")
def all_to_all_single(call: Collective) -> Object:
    vm, group, target, tensor = call.vm, call.group(), call.tensor(call.given["output"]), call.tensor(call.given["input"])
    count = size_of(vm, group).constant(vm)
    sizes = []
    for name, split in (("output_split_sizes", target), ("input_split_sizes", tensor)):
        given = vm.observe(call.given.get(name, vm.const(None)))
        rows = call.shape(split)[:1]
        if given.cls is not type(None) and abstract.length(vm, given).constant(vm):
            sizes.append(given)
        elif rows and rows[0] % count == 0:
            row = operators.binary_op(vm, "//", vm.graph.size(split, 0), vm.const(count))
            sizes.append(ListObject([row] * count))
        else:
            call.refuse("of a tensor that isn't divided evenly")
    return call.write(target, call.result("all_to_all_single", tensor, *sizes, name_of(vm, group)))


def name_of(vm: TorchVM, group: Object) -> Object:
    return vm.observe(abstract.getattr_(vm, group, "group_name"))


def size_of(vm: TorchVM, group: Object) -> Object:
    return vm.observe(abstract.call_method(vm, group, "size"))


@named("torch.distributed._functional_collectives", "_group_or_group_name")
def group_by_name(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """torch passes a group to its operators by its name, unless one process compiles for all."""
    if len(args) != 1 or kwargs or vm.guards.read(compiles_for_all):
        return None
    given = vm.observe(args[0])
    return given if given.cls is str else name_of(vm, given)


def compiles_for_all() -> bool:
    return bool(dist.config.compile_on_one_rank)
