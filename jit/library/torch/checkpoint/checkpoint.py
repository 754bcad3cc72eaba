"""torch.utils.checkpoint: the checkpointed function is an inner graph, which the backward pass runs a second time."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn

import torch
from torch import fx
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.utils.checkpoint import checkpoint, noop_context_fn

from framejit import breaks
from framejit.graph.body import Body
from framejit.graph.builder import TorchVM
from framejit.graph.inner import InnerGraph, nodes_inside
from framejit.graph.metadata import CONTEXT_FN
from framejit.graph.on_fakes import stand_in
from framejit.guards.kinds import ValueIs
from framejit.library.python.functools import PartialObject
from framejit.library.python.warnings import can_wait
from framejit.library.torch.autograd.autograd_settings import HOOKS_FORBIDDEN
from framejit.library.torch.checkpoint.checkpoint_changes import changes, check, repeated, without_statistics
from framejit.library.torch.inner_graphs.inner_function import trace_inside
from framejit.objects.core import abstract
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.dictobject import DictObject, dict_of
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.madeglobals import is_made
from framejit.objects.types.setobject import SetObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import checkpoint as plain
from framejit.quick_dataclass import dataclass
from framejit.torch_state.torch_modes import AUTOCAST_DEVICES, autocast_depth, autocast_of, leave_autocast

SIGNATURE = inspect.signature(checkpoint)
OPTIONS = ("determinism_check", "debug", "early_stop", "preserve_rng_state")
"""Keyword arguments of checkpoint itself that are constants, besides `use_reentrant`; those that are neither these nor `context_fn` are the function's."""
NO_RULE = frozenset({cond_op, while_loop_op, map_impl, scan_op})
"""Operators that AOTAutograd can't compute a second time: torch's `_CachingTorchDispatchMode` has no rule for them."""
META = "framejit_checkpoint"
"""The key in an inner graph's metadata that says how `checkpointed` runs it."""


@dataclass(frozen=True)
class Checkpoint:
    """The way in which an inner graph is checkpointed: the `options` of torch's checkpoint, whether the graph switches torch's modes, and which of its
    operands are arguments of the program's call: these must not be changed in place until the backward pass, others may be.
    """

    options: dict[str, Any]
    switches_modes: bool
    arguments: frozenset[int]


def checkpointed(inner: fx.GraphModule, *operands: Any) -> Any:
    """Run an inner graph while autograd records each operator: torch does the same as in eager."""
    how: Checkpoint = inner.meta[META]
    run = leaving_autocast(inner) if how.switches_modes else inner

    def part(*arguments: Any) -> Any:
        following = iter(arguments)
        return run(*[next(following) if index in how.arguments else operand for index, operand in enumerate(closed_over)])

    closed_over = [None if index in how.arguments else operand for index, operand in enumerate(operands)]
    return checkpoint(part, *[operands[index] for index in sorted(how.arguments)], use_reentrant=False, **how.options)


def leaving_autocast(inner: Callable[..., Any]) -> Callable[..., Any]:
    """A graph that leaves its scopes of autocast when it raises: torch stops the second run by an exception, once it has all that it needs."""

    def run(*operands: Any) -> Any:
        before, depth = autocast_of(AUTOCAST_DEVICES), autocast_depth()
        try:
            return inner(*operands)
        except BaseException:
            leave_autocast(before, depth)
            raise

    return run


for target in (checkpointed, tag_activation_checkpoint):
    stand_in(target, lambda inner, *operands, **options: inner(*operands))


def break_graph(vm: TorchVM, why: str = "") -> NoReturn:
    vm.unsupported(breaks.UnsupportedOperation(f"torch.utils.checkpoint.checkpoint{why}"))


def real_callable(vm: VM, obj: Object) -> Any:
    """A function for torch to call in place of a value: one from outside, one without parameters and free variables, or a partial of such.

    Raises NotConstant for others.
    """
    obj = vm.observe(obj)
    if isinstance(obj, PartialObject) and obj.cls is functools.partial:
        args, keywords = vm.observe(obj.args), vm.observe(obj.keywords)
        if isinstance(args, TupleObject) and isinstance(keywords, DictObject) and not keywords.items(vm):
            return functools.partial(real_callable(vm, obj.function), *[real_policy(vm, item) for item in args.items(vm)])
    if isinstance(obj, FunctionObject):
        if obj.source is not None:
            vm.guard(ValueIs, obj.source, obj.value)
            return obj.value
        if not obj.code.co_freevars and not obj.code.co_argcount and isinstance(obj.globals.value, dict) and not is_made(obj.globals):
            return FunctionType(obj.code, obj.globals.value)
    raise NotConstant(obj)


def real_policy(vm: VM, obj: Object) -> Any:
    """A policy for create_selective_checkpoint_contexts, or an argument of one: a function, or a list or set of operators."""
    obj = vm.observe(obj)
    if isinstance(obj, SetObject):
        return obj.as_real(vm)
    if isinstance(obj, ListObject) and obj.cls is list:
        return [vm.observe(item).constant(vm) for item in obj.items(vm)]
    return real_callable(vm, obj)


class Captured:
    """The result of the checkpointed function: tensors that its graph computes become the graph's outputs, whatever containers they are in."""

    def __init__(self, vm: TorchVM, body: Body, result: Object) -> None:
        self.vm = vm
        self.body = body
        self.result = result
        self.computed: list[TensorObject] = []
        self._collect(result)

    def _collect(self, obj: Object) -> None:
        obj = self.vm.observe(obj)
        if isinstance(obj, TensorObject):
            if self._is_computed(obj) and obj not in self.computed:
                if obj.has_more() or not (obj.cls is torch.Tensor or obj.kind.wraps):
                    break_graph(self.vm, " of a function that returns a tensor of a subclass, or with attributes of its own")
                self.computed.append(obj)
            return
        parts = self._parts(obj)
        if parts is None and obj.source is None and not isinstance(obj, ConstObject):
            break_graph(self.vm, f" of a function that returns {obj!r}")
        for part in parts or ():
            self._collect(part)

    def _is_computed(self, tensor: TensorObject) -> bool:
        return tensor.node.graph is self.body.fx and tensor.node.op != "placeholder"

    def _parts(self, obj: Object) -> list[Object] | None:
        """The parts of a container that the function may have made; None for any other value."""
        if obj.source is not None:
            return None
        if (isinstance(obj, TupleObject) and obj.cls is tuple) or (isinstance(obj, ListObject) and obj.cls is list):
            return obj.items(self.vm)
        return [value for _, value in obj.items(self.vm)] if isinstance(obj, DictObject) and obj.cls is dict else None

    def is_differentiable(self) -> bool:
        """Return whether the result is a tensor, or a tuple of them: all different, computed, no views, and with a gradient if the dtype allows one."""
        items = self._parts(self.result) if isinstance(self.result, TupleObject) else [self.result]
        looks = [tensor.look(self.vm) for tensor in self.computed]
        return items == self.computed and all(
            look.requires_grad or not (look.is_floating_point() or look.is_complex()) for look in looks
        ) and not any(look._is_view() for look in looks)

    def with_outputs(self, outputs: list[Object]) -> Object:
        """The result, with the node's results in place of the values that the inner graph has computed."""
        return self._replaced(self.result, dict(zip(self.computed, outputs, strict=True)))

    def _replaced(self, obj: Object, outputs: dict[TensorObject, Object]) -> Object:
        obj = self.vm.observe(obj)
        if isinstance(obj, TensorObject):
            return outputs.get(obj, obj)
        if self._parts(obj) is None:
            return obj
        if isinstance(obj, DictObject):
            return dict_of(self.vm, [(key, self._replaced(value, outputs)) for key, value in obj.items(self.vm)])
        items = [self._replaced(item, outputs) for item in obj.items(self.vm)]  # type: ignore[attr-defined]
        return ListObject(items) if isinstance(obj, ListObject) else TupleObject(items)


NUMBERS = {requires: torch.zeros((), device="cpu", requires_grad=requires) for requires in (False, True)}


def checkpoint_nothing(said: bool, requires_gradient: bool) -> None:
    """Give the warnings that torch gives at a checkpoint's call: if `use_reentrant` isn't given (`said`), and if no argument of a reentrant checkpoint
    requires a gradient. They come from the same lines of torch as in eager. Run by generated code.
    """
    checkpoint(lambda number: None, NUMBERS[requires_gradient], preserve_rng_state=False, **({"use_reentrant": True} if said else {}))


@models(checkpoint)
def call_checkpoint(vm: TorchVM, function: Object, *args: Object, **kwargs: Object) -> Object:
    """Trace a checkpoint. Stops if the function does something besides computing tensors: in eager the backward pass would do that a second time.

    The reentrant variant is treated as the other one if they differ only in the order of the backward pass: it keeps no gradients
    if no argument requires one, and gives all results one.
    """
    reentrant = vm.observe(kwargs.pop("use_reentrant", vm.const(None))).constant(vm)
    how = {name: vm.observe(kwargs.pop(name)).constant(vm) for name in OPTIONS if name in kwargs}
    if "context_fn" in kwargs:
        try:
            how["context_fn"] = real_callable(vm, kwargs.pop("context_fn"))
        except NotConstant:
            break_graph(vm, " with a context_fn that is made inside compiled code")
    how = {name: value for name, value in how.items() if name == "preserve_rng_state" or value is not SIGNATURE.parameters[name].default}
    said, reentrant = reentrant is not None, reentrant is None or bool(reentrant)
    if reentrant and (kwargs or how.keys() - {"preserve_rng_state"}):
        break_graph(vm)
    requires = not reentrant or any(requires_gradient(vm, arg) for arg in args)
    if not (said and requires) and not can_wait(vm):
        break_graph(vm, " that warns, where warnings are errors, or are recorded")
    if not reentrant and vm.graph.modes.switches.read(vm.guards, HOOKS_FORBIDDEN) is not None:
        break_graph(vm, ", where hooks on saved tensors are forbidden")
    if not (said and requires):
        vm.effects.in_order(LaterCall(checkpoint_nothing, (said, requires)))
    if not requires and vm.graph.modes.current.grad:
        return without_gradients(vm, function, args)
    if not vm.graph.modes.current.grad:
        return abstract.call(vm, function, list(args), kwargs)
    return captured(vm, function, args, kwargs, how, reentrant)


def without_gradients(vm: TorchVM, function: Object, args: tuple[Object, ...]) -> Object:
    """The result of a reentrant checkpoint none of whose arguments requires a gradient: autograd records nothing, whatever the weights require."""
    result = vm.observe(vm.call_app(plain.without_gradients, [function, TupleObject(list(args))]))
    given = [vm.observe(arg) for arg in args]
    for item in result.items(vm) if isinstance(result, TupleObject) else [result]:
        item = vm.observe(item)
        if isinstance(item, TensorObject) and (item in given or item.look(vm).requires_grad):
            break_graph(vm, " with use_reentrant=True, of a function that gives back an argument, or a tensor that requires a gradient")
    return result


def requires_gradient(vm: VM, arg: Object) -> bool:
    arg = vm.observe(arg)
    return isinstance(arg, TensorObject) and arg.look(vm).requires_grad


def captured(
    vm: TorchVM, function: Object, args: tuple[Object, ...], kwargs: dict[str, Object], how: dict[str, Any], reentrant: bool
) -> Object:
    """The result of a checkpointed call, whose function is captured as an inner graph."""
    graph = vm.graph
    if any(isinstance(obj := vm.observe(arg), TensorObject) and obj.kind.is_disguised for arg in (*args, *kwargs.values())):
        break_graph(vm, " of a tensor of a subclass, whose overrides may be off in the backward pass")
    result = trace_inside(
        vm,
        lambda: Captured(vm, graph.body, vm.observe(abstract.call(vm, function, list(args), kwargs))),
        [function, *args, *kwargs.values()],
        lambda why: break_graph(vm, f" {why}"),
        untells=True,
    )
    if reentrant and not result.is_differentiable():
        break_graph(vm, " with use_reentrant=True, of a function some of whose results require no gradient")
    changed = changes(graph.body)
    outside = check(vm, graph.body, changed, result.computed)
    if outside and reentrant:
        how = how | {"early_stop": False}
    if graph.autograd_node is not None and changed and "context_fn" in how:
        break_graph(vm, " with a context_fn, of a function that changes tensors in place, with a backend that uses AOTAutograd")
    again = repeated(vm, graph.body, changed, result.computed) if graph.autograd_node is not None and changed else None
    batches = [] if again is None else [batch for batch in again.batches if graph.body.makes(batch.node)]
    arguments = [graph.body.own(arg.node) for arg in map(vm.observe, args) if isinstance(arg, TensorObject)]
    indices = frozenset(index for index, node in enumerate(graph.body.lifted.values()) if node in arguments)
    operators = [node for node in graph.body.fx.nodes if node.op != "placeholder"]
    inner = graph.end_inner([*result.computed, *batches])
    if again is not None:
        inner = without_statistics(inner, graph.fakes.running)
    if not result.computed:
        if operators:
            break_graph(vm, " of a function that computes nothing that it returns")
        return result.result
    computed = node_of(vm, inner, how, indices)
    assert isinstance(computed, TupleObject)
    outputs, given = computed.items(vm)[: len(result.computed)], dict(zip(batches, computed.items(vm)[len(result.computed) :]))
    if again is not None:
        again.change(vm, outputs, [given.get(batch, batch) for batch in again.batches])
    return result.with_outputs(outputs)


def node_of(vm: TorchVM, inner: InnerGraph, how: dict[str, Any], arguments: frozenset[int]) -> Object:
    """The result of the node of a checkpoint. `arguments`: the positions of the call's own arguments among the graph's operands."""
    if vm.graph.autograd_node is None:
        return vm.graph.call_inner(checkpointed, inner, {META: Checkpoint(how, inner.switches_modes, arguments)}, {})
    if runs_functions(inner):
        break_graph(vm, " of a function that uses torch.cond, while_loop, map or scan, with a backend that uses AOTAutograd")
    meta = {CONTEXT_FN: how["context_fn"]} if how.get("context_fn", noop_context_fn) is not noop_context_fn else {}
    keeps = how.get("preserve_rng_state", True)
    return vm.graph.call_inner(tag_activation_checkpoint, inner, meta, {"use_reentrant": False, "preserve_rng_state": keeps})


def runs_functions(inner: InnerGraph) -> bool:
    """Return whether a graph, or one inside it, uses one of the operators in NO_RULE."""
    return any(node.target in NO_RULE for node in (*inner.graph.nodes, *nodes_inside(inner.modules)))
