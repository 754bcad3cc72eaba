"""An autograd.Function's own `vmap` method inside torch.vmap: traced where the Function is called, as a graph that computes for all items at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from framejit.graph.body import Body, Transforming, depends_on_arguments, transforms_of, without_record
from framejit.graph.builder import TorchVM
from framejit.graph.prune import fake_of
from framejit.library.torch.transforms.func import Transform, items, plain_list
from framejit.library.torch.transforms.mapped_rule import mapped_by_rule
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import autograd as plain

RULE = "torch.vmap with the vmap method"
"""The name of the transform that runs the graph of such a method."""


def mapping_graph(vm: TorchVM, args: Sequence[Object]) -> Body | None:
    """The graph of the innermost torch.vmap that maps one of a Function's arguments."""
    around = [body for body, transforming in transforms_of(vm.graph.body) if transforming.mapping is not None]
    return next((body for body in around if any(is_mapped(vm, arg, body) for arg in args)), None)


def transforms_inside(vm: TorchVM, body: Body) -> list[str]:
    """The transforms of torch.func in force inside the torch.vmap that runs a graph, by name, the innermost first."""
    around = list(transforms_of(vm.graph.body))
    inside = around[: [graph for graph, _ in around].index(body)]
    return [transforming.name for _, transforming in inside if transforming.outside_of is None]


def is_mapped(vm: TorchVM, arg: Object, body: Body) -> bool:
    """Return whether the torch.vmap that runs a graph maps a Function's argument."""
    return isinstance(arg, TensorObject) and depends_on_arguments(vm.graph.nodes_of([arg]), vm.graph.body, body)


def call_with_rule(vm: TorchVM, cls: Object, args: Sequence[Object], body: Body) -> Object:
    """The result, for one item of the torch.vmap that runs a graph, of a Function with a `vmap` method."""
    assert body.transform is not None and body.transform.mapping is not None
    mapping, dims = body.transform.mapping, [vm.const(0 if is_mapped(vm, arg, body) else None) for arg in args]
    found = vm.call_app(plain.mapped, [cls, mapping.size, vm.const(mapping.randomness), TupleObject(dims), TupleObject(list(args))])
    return vm.observe(found)


@models(plain.call_rule)
def call_rule(vm: TorchVM, function: Object, args: Object, in_dims: Object, size: Object) -> Object:
    """Call the Function's `vmap` method. Values other than tensors stay the same."""
    given = items(vm, args)
    body = mapping_graph(vm, given)
    assert body is not None
    transform = Transform(vm, RULE, given, [index for index, arg in enumerate(given) if isinstance(arg, TensorObject)])
    along = plain_list(vm, in_dims)
    (count,) = vm.graph.nodes_of([size])

    def seen(index: int, fake: torch.Tensor) -> torch.Tensor:
        return without_record(fake if along[index] is None else fake.expand(fake_of(count), *fake.shape).contiguous())

    kind = Transforming(RULE, False, outside_of=body)
    results, out_dims, several = transform.trace(function, seen, bool(transforms_inside(vm, body)), kind)
    outputs = transform.checked(items(vm, results))
    if vm.graph.body.shares_memory_with_arguments([output.look(vm) for output in outputs if isinstance(output, TensorObject)]):
        transform.break_graph("of an autograd.Function which gives its arguments there, or views of them")
    mapped = tuple([along[index] is not None for index in transform.given])
    node = transform.run(mapped_by_rule, outputs, mapped, tuple(plain_list(vm, out_dims)), count)
    return TupleObject([TupleObject(transform.results(node)), several])
