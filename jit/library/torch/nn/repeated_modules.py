"""Modules of one class that are called alike are traced once: what the trace of the first call has recorded is checked for the others, and copied.

    for layer in self.layers:
        x = layer(x, mask)      # self.layers[0] is traced; for self.layers[1], its guards hold along the same paths, so its nodes are copied

What a trace does follows from its guards; otherwise an entry would be wrong for other calls. So the trace of another module's call would record the same if
the guards hold for that module, along the same paths, and if everything else is as it was: the arguments look the same, the program's frames are at the same
instructions, and nothing from outside has been changed meanwhile. The trail says what a call has recorded. A call is copied only if all of that is guards,
inputs and nodes of the graph, and what the trace has found out about values from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn

from framejit import logs
from framejit.graph.annotations import annotation_in_force
from framejit.graph.builder import TorchVM
from framejit.guards.kinds import exact_key
from framejit.guards.source import MISSING
from framejit.library.torch.control_flow.repeated_regions import CONSTANTS, MOST, Unknown, Unmoved, below, look, on_the_way
from framejit.library.torch.nn.call_recording import CallRecording, ModuleCall, NotCopied, recording_of
from framejit.library.torch.nn.own_items import own_items
from framejit.library.torch.nn.reachable_values import Reach
from framejit.objects.core.object import Object, settle
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.nnmoduleobject import around_calls
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.userobject import UserObject
from framejit.process import interrupts

FEWEST_NODES = 3
"""Calls with fewer nodes aren't worth remembering."""


def key_of(vm: TorchVM, module: Object, args: Sequence[Object], kwargs: dict[str, Object], tensors: list[TensorObject]) -> tuple[Any, Reach] | None:
    """A key of a call, and what the call can reach. Calls with equal keys do the same if the guards on their modules are the same. None if the call can't be
    compared with others.

    The tensors among the arguments that the trace has made are appended to `tensors`.
    """
    graph = vm.graph
    if (
        not graph.copies_calls
        or module.source is None
        or not isinstance(module.value, nn.Module)
        or not is_composed(module.value)
        or graph.has_inner
        or graph.fakes.symbolic
        or graph.fakes.wrappers
        or graph.unbacked.present
        or graph.function_modes.stack
        or graph.transform_around() is not None
        or graph.modes.current.hooks is not None
        or vm.is_handling()
        or annotation_in_force(vm) is not None
        or any(below(owner.source, {module.source}) for owner in (*args, *kwargs.values(), *changed_outside(vm)))
    ):
        return None
    try:
        objects: list[Object] = []
        described = [describe(vm, arg, tensors, objects) for arg in (*args, *kwargs.values())]
        reach = Reach(vm, module.source, objects)
    except Unknown:
        return None
    frames = tuple(map(id, vm.user_stack()))
    state = graph.modes.current, graph.modes.switches.differences(), vm.directives, graph.function_modes.level, vm.has_handler()
    return (module.cls, len(args), tuple(kwargs), tuple(described), frames, repr(state), vm.effects.number, reach.states()), reach


def is_composed(module: nn.Module) -> bool:
    """Return whether a call of a module may consist of many operators. Calls of torch's own without modules inside are mostly one."""
    return bool(module.__dict__.get("_modules")) or not type(module).__module__.startswith("torch.nn.")


def changed_outside(vm: TorchVM) -> Iterator[Object]:
    """The values from outside that the trace has changed."""
    return (effect for effect in vm.effects.all() if isinstance(effect, Object))


def describe(vm: TorchVM, arg: Object, tensors: list[TensorObject], objects: list[Object]) -> Any:
    """A description of an argument, which is equal for two calls only if they do the same with it. Guards nothing. Raises Unknown.

    Objects that the trace has made are described by their identities, and appended to `objects`: their states must be compared as well.
    """
    arg = settle(arg)
    if arg.source is not None:
        if isinstance(arg, TensorObject) and not vm.graph.inputs.is_as_outside(arg):
            raise Unknown
        return arg.source
    if isinstance(arg, TensorObject):
        place = next((place for place, known in enumerate(tensors) if known is arg), len(tensors))
        if place == len(tensors):
            tensors.append(arg)
        looked = look(arg, vm)
        if arg.fake.constant is not None:
            raise Unknown
        return place, looked
    if type(arg) is TupleObject and arg.cls is tuple:
        return tuple([describe(vm, item, tensors, objects) for item in arg.items(vm)])
    if type(arg) is UserObject:
        objects.append(arg)
        return UserObject, id(arg)
    if type(arg) in (ConstObject, NumberObject) and arg.cls in CONSTANTS and arg.is_known():
        return exact_key(arg.constant(vm))
    raise Unknown


@around_calls
def copied_or_traced(vm: TorchVM, module: Object, args: Sequence[Object], kwargs: dict[str, Object], trace: Callable[[], Object]) -> Object:
    """Copy a call of a module from one like it; if there is none, trace it, and remember it."""
    tensors: list[TensorObject] = []
    found = key_of(vm, module, args, kwargs, tensors)
    if found is None:
        return trace()
    key, reach = found
    known = vm.graph.module_calls.get(key, ())
    for call in known:
        if call.recording is MISSING:
            call.recording = recording_of(vm, call)
        if call.recording is not None and (copy := copied(vm, call, call.recording, module, tensors)) is not None:
            return copy
    start, guards, nodes, around = vm.trail.mark(), vm.guards.count(), len(vm.graph.body.notes), vm.graph.module_stack
    before = Unmoved.now(vm), vm.effects.number, reach.states()
    with reach.noting_picks():
        result, has_looked_outside = vm.noting_whether(trace, ancestors(vm, module), reach.lists)
    known = vm.graph.module_calls.get(key, ())  # a module may call itself
    is_worth_it = not has_looked_outside and len(known) < MOST and len(vm.graph.body.notes) - nodes >= FEWEST_NODES
    if is_worth_it and (Unmoved.now(vm), vm.effects.number, reach.states()) == before and (own := own_items(vm.trail, start, reach.lists)) is not None:
        call = ModuleCall(module, tensors, result, start, vm.trail.mark(), around, guards, reach.values, own)
        vm.trail.learned(call, remember, vm.graph.module_calls, key, known)
        remember(vm.graph.module_calls, key, (*known, call))
    return result


def ancestors(vm: TorchVM, module: Object) -> list[Object]:
    """The values that a module's path leads through. A call that looks at one may reach the module, or those inside it, on another way than by its argument."""
    values = [source.fetch(vm.call) for source in on_the_way([module.source])]
    return [known for value in values if (known := vm.met(value)) is not None]


def remember(calls: dict[Any, tuple[ModuleCall, ...]], key: Any, known: tuple[ModuleCall, ...]) -> None:
    """Set the calls that are known by a key."""
    calls[key] = known
    if not known:
        del calls[key]


def path_of(module: Object) -> str:
    """The path of a module, as reports name it."""
    return "" if module.source is None else module.source.name_in_reports()


def copied(
    vm: TorchVM, call: ModuleCall, recording: CallRecording, module: Object, tensors: Sequence[TensorObject]
) -> Object | None:
    """The result of a call that was copied; None if it can't be copied from this one."""
    interrupts.heed()
    mark = vm.trail.mark()
    try:
        result = recording.copied_for(vm, call, module, tensors)
        if logs.enabled("trace"):
            logs.info("trace", f"{path_of(module)} is called like {path_of(call.module)}, whose trace is copied")
        return result
    except (NotCopied, Unknown):
        vm.trail.undo_to(mark)
        return None
