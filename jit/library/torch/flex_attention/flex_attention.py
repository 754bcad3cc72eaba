"""`flex_attention`: the functions that change a score, and that define the mask, are inner graphs for a single score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.flex_attention import flex_attention
from torch.nn.attention import flex_attention as flex

from framejit.graph.builder import TorchVM
from framejit.library.torch.inner_graphs.inner_function import Functions
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.registry import app, models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import flex_attention as plain

PLACES = 4
"""The place of a score: its batch, its head, its query and its key."""

app(flex_attention)(plain.flex_attention)
app(flex.create_mask)(plain.create_mask)
app(flex._ordered_to_dense)(plain.ordered_to_dense)


def for_each_place(function: Callable[..., torch.Tensor], scores: tuple[Any, ...], places: tuple[Any, ...], used: tuple[Any, ...]) -> torch.Tensor:
    """The results of a function of one score for all scores, or for all places: a tensor with a dimension for each component of a place."""
    for position in reversed(range(len(places))):
        dims = [0 if position == index else None for index in range(len(places))]
        function = torch.vmap(function, in_dims=(*[0 for _ in scores], *dims, *[None for _ in used]))
    return function(*scores, *places, *used)


@models(plain.attend)
def attend(
    vm: TorchVM, qkv: Object, score_mod: Object, mask: Object, mask_mod: Object, scale: Object, options: Object
) -> Object:
    """Stop the trace if one of the functions does something other than computing a tensor."""
    functions = Functions(vm, "flex_attention")
    tensors = functions.all_tensors(abstract.iterate(vm, qkv), "the argument")
    score, score_buffers = one_score(functions, score_mod, [scalar(vm, tensors[0]), *places(vm, tensors[0])])
    allowed, mask_buffers = one_score(functions, mask_mod, places(vm, tensors[0]))
    of_mask = vm.graph.nodes_of(abstract.iterate(vm, mask))
    args = (*vm.graph.nodes_of(tensors), score, (*of_mask, allowed), *vm.graph.nodes_of([scale, options]), score_buffers, mask_buffers)
    return TupleObject(functions.results(flex_attention, args))


@models(plain.over_places)
def over_places(vm: TorchVM, mod: Object, scores: Object, places: Object) -> Object:
    """A node that runs the function's graph with all places at once."""
    functions = Functions(vm, "create_mask", asks_modes=False)
    given = functions.all_tensors([*abstract.iterate(vm, scores), *abstract.iterate(vm, places)], "the argument")
    function, used = one_score(functions, mod, [scalar(vm, tensor) for tensor in given])
    nodes = vm.graph.nodes_of(given)
    count = len(given) - PLACES
    return vm.graph.call_on_nodes(for_each_place, (function, nodes[:count], nodes[count:], used))


def scalar(vm: TorchVM, like: TensorObject, **kwargs: Any) -> Object:
    """A tensor without dimensions, to stand for any."""
    return enter(vm, torch.Tensor.new_empty, [like, vm.const(())], {name: vm.const(value) for name, value in kwargs.items()})


def places(vm: TorchVM, query: TensorObject) -> list[Object]:
    """Stand-ins for the place of a score."""
    return [scalar(vm, query, dtype=torch.int32) for _ in range(PLACES)]


def one_score(functions: Functions, function: Object, args: list[Object]) -> tuple[fx.Node, tuple[fx.Node, ...]]:
    """The graph of a function of one score, and the values that it uses besides its arguments."""
    traced = functions.traced_to_tensor(function, args, items_by_index=True)
    functions.check_unchanged((traced,))
    first = functions.vm.graph.nodes_of(args)
    operands = functions.operands((traced,), first)
    return functions.attached(traced, operands, bare=True), tuple(operands[len(first) :])
