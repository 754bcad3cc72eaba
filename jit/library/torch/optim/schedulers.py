"""Learning rate schedulers: a step is the real call, made after the graph. So it costs no compilation, whatever the schedule is.

A step changes the scheduler and the optimizer's groups of parameters, and needs nothing from the graph. The trace doesn't know the values that it will have
changed (objects/core/outdated.py): code that needs the new learning rate breaks the graph there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any, NoReturn

from torch.optim import lr_scheduler, swa_utils

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.demands import RestartVarying
from framejit.guards.kinds import Equals
from framejit.guards.source import Item
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.outdated import CallOutcome, LaterList, LaterNumber, Outdated
from framejit.objects.core.registry import models, runs_uncompiled
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import rest_on
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.funcobject import MethodObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.userobject import UserObject
from framejit.plain import schedulers as app
from framejit.program import code_kinds
from framejit.quick_dataclass import dataclass

MADE_NATIVELY = breaks.StepInPlace("something looks at what it changes, or changes it before it does")
NEEDED = breaks.StepInPlace("a later step of the optimizer needs what it changes")
CLASSES: set[Any] = {value for value in vars(lr_scheduler).values() if isinstance(value, type) and issubclass(value, lr_scheduler.LRScheduler)}
CLASSES |= {swa_utils.SWALR}
CLASSES -= {lr_scheduler.ReduceLROnPlateau}  # it reads what the program has measured
CALLED = ("get_lr", "_update_lr")
"""Methods that a step calls, in the versions of torch that have them."""
OF_TORCH = {getattr(value, name) for value in CLASSES for name in (*CALLED, "step") if hasattr(value, name)}
"""torch's own such methods, and its steps: a replacement by the program may read anything."""
OF_RULES = (lr_scheduler.LambdaLR, lr_scheduler.MultiplicativeLR)
"""Schedulers that call functions of the program."""
OF_MOMENTA = (lr_scheduler.OneCycleLR, lr_scheduler.CyclicLR)
"""Schedulers that change more in the groups of parameters than learning rates."""
OF_OTHERS = (lr_scheduler.SequentialLR, lr_scheduler.ChainedScheduler)
"""Schedulers that have others make their steps."""
OUTERMOST = breaks.OptimizerStep("a learning rate scheduler")
KEPT = frozenset({"optimizer", "_schedulers", "lr_lambdas"})
"""Attributes of schedulers that no step changes."""
KEPT_IN_GROUPS = frozenset({"params"})
CHANGED = ("lr", "momentum", "betas")
"""Settings in groups of parameters that steps of torch's schedulers change."""
COUNTS = frozenset({"last_epoch", "_step_count"})
"""Attributes of schedulers that are ints, and stay ints."""


@dataclass(frozen=True, slots=True)
class SchedulerStep:
    """A step of a scheduler, to be made for real.

    Attributes:
        place, text_range: where the program makes it, see the VM.
        mark: the trail's position when it was asked for.
        runs_rules: whether it calls functions of the program.
    """

    vm: VM
    place: tuple[CodeType, int]
    text_range: tuple[Any, ...]
    mark: int
    outcome: CallOutcome
    runs_rules: bool

    def replay(self, cg: Codegen) -> None:
        if self.runs_rules and not all(isinstance(obj, TensorObject) for obj in self.vm.effects.mutated_before_and_since(self.mark)):
            self.vm.restart(self.place, MADE_NATIVELY)  # a value that such a function may read is replayed once, before the step
        cg.load(self.outcome)
        cg.pop_top()

    def referents(self) -> list[Object]:
        return [self.outcome]


def break_graph(vm: VM, why: str) -> NoReturn:
    """Have a step be made natively, in its place: the graph breaks there."""
    vm.unsupported(breaks.StepInPlace(why))


def check_scheduler(vm: VM, obj: Object) -> list[Object]:
    """The schedulers that a step changes. Breaks if the step can't be made after the graph."""
    obj = vm.observe(obj)
    if not isinstance(obj, UserObject) or obj.source is None or obj.cls not in CLASSES:
        break_graph(vm, "it isn't one of torch's from outside the compiled function")
    for name in CALLED:
        if hasattr(obj.cls, name):
            check_method(vm, obj, name)
    if obj.cls is lr_scheduler.CyclicLR and vm.observe(abstract.getattr_(vm, obj, "_scale_fn_custom")).cls is not type(None):
        break_graph(vm, "it calls a function of the program's")
    if issubclass(obj.cls, OF_RULES):
        rules = vm.observe(abstract.getattr_(vm, obj, "lr_lambdas"))
        for rule in abstract.iterate(vm, rules):
            real = vm.observe(rule)
            if real.source is None or not vm.plain_code.computes_number(real.value, is_fixed=False):
                break_graph(vm, "its schedule does more than to compute a number")
    if not issubclass(obj.cls, OF_OTHERS):
        return [obj]
    parts = [vm.observe(part) for part in abstract.iterate(vm, vm.observe(abstract.getattr_(vm, obj, "_schedulers")))]
    others = [other for part in parts for other in check_scheduler(vm, part)]
    for part in parts:
        check_method(vm, part, "step")
    return [obj, *others]


def check_method(vm: VM, scheduler: Object, name: str) -> None:
    """Break if a method of a scheduler is the program's."""
    found = vm.observe(abstract.getattr_(vm, scheduler, name))
    if not isinstance(found, MethodObject) or vm.observe(found.function).value not in OF_TORCH:
        break_graph(vm, f"its {name}() is the program's")
    rest_on(vm, found.function)


def groups_of(vm: VM, scheduler: Object) -> list[DictObject]:
    """The groups of parameters of a scheduler's optimizer. Breaks if a learning rate is a tensor, or a group is of a class of the program's."""
    groups = vm.observe(abstract.getattr_(vm, vm.observe(abstract.getattr_(vm, scheduler, "optimizer")), "param_groups"))
    if not isinstance(groups, ListObject) or groups.cls is not list or vm.effects.is_mutated(groups):
        break_graph(vm, "the list of groups of parameters has changed in the same call")
    found = [vm.observe(group) for group in groups.items(vm)]
    for group in found:
        rate = group.lookup(vm, "lr") if isinstance(group, DictObject) and group.cls is dict and group.source is not None else None
        if rate is None or vm.observe(rate).cls not in (float, int):
            break_graph(vm, "a learning rate is no number")
    return found  # type: ignore[return-value]


def is_handled(vm: TorchVM) -> bool:
    """Return whether a handler in the program would see an exception raised here."""
    mark = vm.trail.mark()
    found = vm.note_handlers()
    vm.trail.undo_to(mark)  # the question isn't about an operation of the graph
    return found


def may_raise(vm: VM, scheduler: Object) -> bool:
    """Return whether a step of a scheduler may fail: because of a function of the program, or of a group of parameters that the scheduler doesn't know."""
    if issubclass(scheduler.cls, OF_RULES):
        functions = [unwrapped(vm.observe(rule).value) for rule in abstract.iterate(vm, vm.observe(abstract.getattr_(vm, scheduler, "lr_lambdas")))]
        return any(code_kinds.kind_of(function.__code__, function.__globals__) is code_kinds.CodeKind.PROGRAM for function in functions)
    if issubclass(scheduler.cls, OF_OTHERS):
        return False
    known = abstract.length(vm, vm.observe(abstract.getattr_(vm, scheduler, "base_lrs")))
    return bool(known.constant(vm) != len(groups_of(vm, scheduler)))


def unwrapped(rule: Any) -> Any:
    """The function of a schedule that is given as a functools.partial."""
    return unwrapped(rule.func) if isinstance(rule, functools.partial) else rule


def namespace_of(vm: VM, scheduler: Object) -> DictObject:
    """The attributes of a scheduler."""
    found = scheduler.instance_dict(vm)
    assert isinstance(found, DictObject)
    return found


def later_value(vm: VM, outcome: CallOutcome, index: int, key: str, value: Object) -> Object:
    """The replacement of a value that a step changes. Floats stay floats, and the learning rates that were set last stay a list of as many floats."""
    value = vm.observe(value)
    if value.cls is float or (value.cls is int and key in COUNTS):
        return LaterNumber(value.cls, outcome, index, key)
    if key == "_last_lr" and isinstance(value, ListObject) and value.cls is list:
        rates = value.items(vm)
        if all(vm.observe(rate).cls is float for rate in rates):
            return LaterList(len(rates), outcome, index, key)
    return Outdated(vm, outcome, MADE_NATIVELY, repr(key))


def make_varying(vm: TorchVM, scheduler: Object) -> None:
    """Restart the trace with symbols for numbers that it has fixed, and that a step of a scheduler, made natively, will have replaced by the next call."""
    dynamic = vm.graph.dynamic
    if dynamic.fixed or not (dynamic.floats and dynamic.compares):
        return
    changed = [group.source.child(Item, key).path() for group in groups_of(vm, scheduler) if group.source is not None for key in CHANGED]
    fixed = {guard.source.path() for guard in vm.guards.all() if type(guard) is Equals and type(guard.value) is float}
    paths = frozenset(path for path in fixed if path not in dynamic.varying and any(path[: len(each)] == each for each in changed))
    if paths:
        raise RestartVarying(paths)


def make_in_place(vm: TorchVM, optimizer: Object) -> None:
    """Have a step of a scheduler be made natively, in its place, if it changes the optimizer's groups of parameters: a step of the optimizer, which is about to
    be traced, needs the new values. Both its arithmetic and what precedes it are in the graph that begins after the scheduler's step."""
    groups = vm.observe(abstract.getattr_(vm, optimizer, "param_groups"))
    found = [vm.observe(group) for group in groups.items(vm)] if isinstance(groups, ListObject) else []
    for group in found:
        for key in group.value if isinstance(group, DictObject) and group.source is not None else ():
            value = group.known(key)  # type: ignore[attr-defined]
            if isinstance(value, (LaterNumber, Outdated)):
                vm.restart_for_good(value.outcome.effect.text_range, NEEDED)


def step(function: Callable[[Any], None]) -> None:
    """Register a step, which is this function, to be made after the graph."""

    def model(vm: TorchVM, self: Object, *args: Object, **kwargs: Object) -> Object:
        place, text_range = vm.place(), vm.user_range()
        needed = vm.break_known_at(text_range)
        if needed is not None:
            make_varying(vm, self)
            vm.unsupported(needed)
        if args or kwargs:
            break_graph(vm, "it has an argument")
        changed = check_scheduler(vm, self)
        if is_handled(vm) and any(may_raise(vm, scheduler) for scheduler in changed):
            break_graph(vm, "it may raise, under a handler")  # which wouldn't see an exception raised after the graph
        uneventful = [vm.observe(vm.call_app(app.is_uneventful, [scheduler])) for scheduler in changed if not issubclass(scheduler.cls, OF_OTHERS)]
        groups = {id(group): group for scheduler in changed for group in groups_of(vm, scheduler)}
        namespaces = {id(scheduler): namespace_of(vm, scheduler) for scheduler in changed}
        if not all(one.constant(vm) for one in uneventful):
            break_graph(vm, "it warns or raises")
        if any(map(vm.effects.is_mutated, (*groups.values(), *namespaces.values()))):
            break_graph(vm, "another step, or the program, has changed in the same call what it changes")
        runs_rules = any(issubclass(scheduler.cls, OF_RULES) for scheduler in changed)
        dicts = [*namespaces.values(), *groups.values()]
        outcome = CallOutcome(function, changed[0], dicts)
        outcome.effect = SchedulerStep(vm, place, text_range, vm.trail.mark(), outcome, runs_rules)
        vm.effects.in_order(outcome.effect)
        cycles = any(issubclass(scheduler.cls, OF_MOMENTA) for scheduler in changed)
        for index, each in enumerate(dicts):
            kept = KEPT if index < len(namespaces) else KEPT_IN_GROUPS if cycles else frozenset(each.value) - {"lr"}
            each.outdate(vm, kept, lambda key, value, index=index: later_value(vm, outcome, index, key, value))  # type: ignore[misc]
        return vm.const(None)

    models(function)(model)
    runs_uncompiled(function.__code__, OUTERMOST)


for _step in {found.step for found in CLASSES}:
    step(_step)
runs_uncompiled(lr_scheduler.ReduceLROnPlateau.step.__code__, OUTERMOST)
