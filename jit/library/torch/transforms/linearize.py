"""torch.func.linearize: its function is an inner graph. Each call of the function that it returns has a node compute tangents with that graph."""

from __future__ import annotations

from typing import Any, NoReturn

from torch import fx

from framejit import breaks
from framejit.graph.body import Transforming
from framejit.graph.builder import TorchVM
from framejit.graph.fake import version_of
from framejit.graph.inner import InnerGraph
from framejit.library.torch.transforms import transforms, zero_tensors
from framejit.library.torch.transforms.func import JVP, PullBack, Transform, alone, items
from framejit.objects.core.object import NotConstant, Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import func as plain

LINEARIZE = "torch.func.linearize"


class PushForward(PullBack):
    """The function that a `linearize` returns: its function's graph, the `primals` of the outer graph at which it is linearised, and the number of results.
    It can't leave the graph: if it would, a restart leaves the whole `linearize` to native code.

    The values that it uses mustn't change: torch takes some values from the time of the first call, and others from later calls.
    """

    __slots__ = ("inner", "primals", "count", "versions")
    transform = LINEARIZE

    def __init__(self, vm: TorchVM, place: Any, inner: InnerGraph, primals: tuple[fx.Node, ...], count: int) -> None:
        super().__init__(vm, primals[0], place)
        self.inner, self.primals, self.count = inner, primals, count
        self.versions = [version_of(fake) for fake in self.fakes()]

    def fakes(self) -> list[Any]:
        """The fakes of all tensors that the linearised function uses."""
        examples = [node.meta["example_value"] for node in (*self.primals, *self.inner.operands)]
        return [example for example in examples if hasattr(example, "requires_grad")]

    def check(self, given: list[Object]) -> str | None:
        """The reason why the graph can't compute tangents for these; None if it can."""
        self.vm.graph.refresh()
        fakes = [tensor.look(self.vm) for tensor in given if isinstance(tensor, TensorObject)]
        looks = [(fake.shape, fake.dtype, fake.device) for fake in fakes]
        primals = [node.meta["example_value"] for node in self.primals]
        if len(fakes) != len(given) or looks != [(fake.shape, fake.dtype, fake.device) for fake in primals]:
            return "whose function is given other tangents than torch takes"
        if self.vm.graph.modes.current.grad and any(fake.requires_grad for fake in self.fakes()):
            return "of what requires a gradient"
        return None if self.versions == [version_of(fake) for fake in self.fakes()] else "of tensors that are changed in place before its function is called"


@models(plain.call_linearize)
def call_linearize(vm: TorchVM, function: Object, args: Object) -> Object:
    """Gradients don't pass through what torch's graph has computed beforehand because it doesn't depend on tangents: such a call is left to torch."""
    place, graph = vm.place(), vm.graph
    graph.fakes.stop_caching()
    zero_tensors.keep_fakes()
    transform = Transform(vm, LINEARIZE, items(vm, args))
    if graph.transform_around() is not None or not transform.args or transform.places(None) is not None:
        transform.break_graph("inside another transform, or of no tensors")
    outputs, _, rest = transform.trace(function, alone, kind=Transforming(JVP, False))
    outs = transform.checked(items(vm, outputs))
    try:
        inner = graph.end_inner(outs)
    except NotConstant:
        transform.break_graph("of a function that gives a value of another graph")
    if inner.does_more(graph.fakes.running):
        transform.break_graph("of a function that draws random numbers, changes tensors in place, or sets modes of torch's")
    forward = PushForward(vm, place, inner, graph.nodes_of(transform.tensors()), len(outs))
    if graph.modes.current.grad and any(fake.requires_grad for fake in forward.fakes()):
        transform.break_graph("of what requires a gradient")
    return TupleObject([forward, rest])


@models(plain.call_push_forward)
def call_push_forward(vm: TorchVM, forward: Object, tangents: Object) -> Object:
    push, given, graph = vm.observe(forward), items(vm, tangents), vm.graph
    assert isinstance(push, PushForward)
    why = push.check(given)
    nodes = [graph.body.own(node) for node in (*push.primals, *push.inner.operands)]
    if why is not None or None in nodes:
        give_up(push, why or "whose function is called in another graph")
    primals, free = tuple(nodes[: len(push.primals)]), tuple(nodes[len(push.primals) :])
    node = graph.node_of(transforms.push_forward, (graph.attach(push.inner, {}), push.count, primals, graph.nodes_of(given), free), raises=False)
    return ListObject(items(vm, graph.result_of(node)))


def give_up(push: PushForward, why: str) -> NoReturn:
    """Restart the trace, to leave the whole `linearize` to native code."""
    push.vm.restart(push.place, breaks.InsideTransform(LINEARIZE, why))
