"""Branches on data, of which both ways are in the graph: each is traced up to where they meet, and the node of a torch.cond computes what differs there.

Both ways begin with the same values, and may only compute tensors, and write to tensors of which autograd records nothing. They leave the same values, apart
from tensors that look alike; see `Meeting`. Otherwise everything is undone, and the trace breaks at the branch.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any, NoReturn, Protocol, TypeVar

import torch
from torch import fx
from torch._higher_order_ops.cond import cond_op
from torch._subclasses.fake_tensor import FakeTensor

from framejit import breaks
from framejit.bytecode.liveness import live_slots
from framejit.bytecode.meeting import after_jumps, can_reach, comes_back, meeting
from framejit.ceval.frame import Frame, FrameSnapshot
from framejit.ceval.handlers import is_caught
from framejit.ceval.loop import run_until
from framejit.ceval.machine import Machine
from framejit.ceval.signals import LeftElsewhere, Return
from framejit.graph.body import Body
from framejit.graph.fake import storages
from framejit.graph.gradient_paths import gradient_paths, leads_to
from framejit.graph.inner import nodes_within
from framejit.graph.joined import Joined, JoinedTensors, itself, memory_of
from framejit.graph.metadata import CHANGES
from framejit.graph.on_fakes import runs_as_on_fakes
from framejit.graph.optional_records import OptionalRecords, of_one_way
from framejit.graph.prune import effects_of
from framejit.graph.unbacked import is_unbacked
from framejit.guards.source import MISSING
from framejit.library.torch.control_flow.cond import CONSTANTS, check_leaves, choose_graph, one_of, predicate
from framejit.library.torch.inner_graphs.changes import reachable
from framejit.library.torch.inner_graphs.inner_function import FunctionGraph, Functions, described, look_of, trace_inside
from framejit.objects.core import abstract
from framejit.objects.core.object import NotConstant, Object, Raise, settle
from framejit.objects.numbers.unbackednumber import Datum, UnbackedNumber, comparison_as_tensor
from framejit.objects.tensors.overrides import is_overridden
from framejit.objects.tensors.tensorobject import TensorObject, number_out_of
from framejit.objects.tensors.torchcall import enter
from framejit.objects.tensors.torchfunctions import operation_of
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.process import exceptional
from framejit.quick_dataclass import dataclass
from framejit.torch_state.operator_facts import changes_tensor_itself
from framejit.torch_state.symbols import need_data
from framejit.tracing import exceptional_ways
from framejit.tracing.empty_ways import EmptyWay, Rows, may_change, operator_name
from framejit.tracing.stops import Ahead, GraphBreak, Restart
from framejit.tracing.trace import Trace

T = TypeVar("T")
Reason = breaks.DataDependent | breaks.UnknownNumber
MOST_NESTED = 8
"""The most branches inside one another of which both ways are traced: a loop that the data ends is such a nest."""
MOST_DIFFERENTIATED = 3
"""The most of them in graphs that AOTAutograd differentiates: it traces what is inside several times, and what is inside that several times as often."""
MAY_BE_THE_SAME = "a tensor that it gives may be one from before it, which is then used or changed apart from it"
MAY_HAVE_NO_RECORD = "whether autograd has a record of a tensor that it changes depends on data, and the program asks for that later"
DRAWS = "draws random numbers"


class TracedMachine(Trace, Machine, Protocol):
    """The running trace, which runs frames too."""


def choose_way(vm: TracedMachine, frame: Frame, condition: Object, if_true: int, if_false: int) -> int:
    """See `Machine.choose_way`."""
    mark, snapshot = frame.mark, frame.snapshot()
    try:
        return if_true if abstract.truth(vm, condition) else if_false
    except (GraphBreak, Restart) as stopped:
        found = reason_of(vm, condition, stopped)
        if not vm.graph.demands.joins_branches or found is None:
            raise
        reason, stop = found, stopped.with_traceback(None)  # which would lead back to this frame
    vm.trail.undo_to(mark)
    place, jumps_back, has_symbols = vm.place(), vm.jumps_back, vm.graph.fakes.shape_env is not None
    branch = Branch(vm, frame, snapshot, vm.observe(condition), place, reason)

    def rewind() -> None:
        vm.trail.undo_to(mark)
        frame.restore(snapshot)
        frame.mark, vm.jumps_back = mark, jumps_back
        vm.graph.unbacked.forget_pending()

    chosen = attempt(lambda: branch.join(if_true, if_false))
    if isinstance(chosen, int):
        return chosen
    rewind()
    if not has_symbols and vm.graph.fakes.shape_env is not None:  # the first operator whose sizes depend on data was in a way: now the trace has symbols
        return choose_way(vm, frame, condition, if_true, if_false)
    expected = branch.expected_truth(if_true, if_false, rewind)
    if expected is not None and exceptional_ways.check(vm, condition, *expected):
        return if_true if expected[0] else if_false
    try:
        raise GraphBreak(replace(reason, ways=chosen), stop.stack, stop.frames) if isinstance(stop, GraphBreak) else stop
    finally:
        del stop


def attempt(run: Callable[[], T]) -> T | str:
    """Call `run`, which traces ways of a branch. Returns its result, or why the ways can't be in the graph."""
    try:
        return run()
    except GraphBreak as stopped:
        return getattr(stopped.reason, "ways", "") or stopped.reason.text()
    except Raise:
        return "one of them raises"
    except LeftElsewhere:
        return "one of them leaves the function"
    except Restart as restart:
        if not isinstance(restart.reason, (breaks.TooLong, breaks.TooDeep)):
            raise
        return restart.reason.text()
    except Ahead:
        return "one of them must run something while it is traced"
    except (NotConstant, *need_data()):  # type: ignore[misc]
        return "one of them needs a value that depends on data"


def reason_of(vm: TracedMachine, condition: Object, stopped: GraphBreak | Restart) -> Reason | None:
    """The reason why a condition has no truth value: it depends on data, or on a random number that native code would have to draw. None if it is another."""
    reason, number = stopped.reason, vm.observe(condition)
    if isinstance(stopped, Restart) and isinstance(reason, breaks.Random) and isinstance(number, UnbackedNumber):
        reason = vm.graph.unbacked.why(number)
    return reason if isinstance(reason, (breaks.DataDependent, breaks.UnknownNumber)) else None


@dataclass(slots=True)
class Way:
    """One way of a branch, traced up to the meeting. `returned`: what the frame returns, if the ways meet there; `recorded`: the reason why a torch.cond can't
    run it where gradients are recorded, or an empty text; `draws`: whether it may draw random numbers."""

    body: Body
    stack: list[Any]
    locals: list[Object | None]
    handled: Object | None
    returned: Object | None
    made: Callable[[Object], bool]
    recorded: str
    draws: bool


class Branch:
    """A branch on data at the present instruction of a frame."""

    def __init__(
        self, vm: TracedMachine, frame: Frame, snapshot: FrameSnapshot, condition: Object, place: tuple[CodeType, int], reason: Reason
    ) -> None:
        self.vm = vm
        self.frame = frame
        self.before = snapshot
        self.condition = condition
        self.place = place
        self.reason = reason
        self.functions = Functions(vm, "the branch", copy=torch.clone if vm.graph.is_one_autograd_node else itself)
        self.tensor: TensorObject | None = None
        """The condition as a tensor of one bool, once that is known and if it is one."""
        self.run_ways: set[int] = set()
        self.leaving: set[int] = set()
        self.idle: set[int] = set()
        """The instructions at which the ways begin that have been traced, that do what compiled code can't, and that only return a constant."""

    def stop(self, why: str) -> NoReturn:
        """Give up: the trace breaks at the branch."""
        self.vm.unsupported(breaks.InnerFunction("the branch", why))

    def join(self, if_true: int, if_false: int) -> int:
        """Trace both ways, and let the frame go on where they meet."""
        vm, frame = self.vm, self.frame
        graph = vm.graph
        end = meeting(frame.decoded, if_true, if_false)
        if len(graph.bodies()) - 1 != vm.ways:
            self.stop("is in a function that an operator takes")
        if vm.ways >= self.most_nested() or comes_back(frame.decoded, frame.pc, (if_true, if_false), end):
            self.stop("is inside too many others, or in a loop that only the data ends")
        if any(each.namespace is not None for each in frame.callers()):
            self.stop("is in the body of a class statement")
        if end is None and frame.code.co_flags & inspect.CO_GENERATOR:
            self.stop("meets only at the end of a generator")
        pred = self.predicate()
        mode = graph.fakes.mode
        swapped = can_reach(frame.decoded, if_true, frame.pc, end) and not can_reach(frame.decoded, if_false, frame.pc, end)
        first = self.traced(if_false if swapped else if_true, end, len(frame.stack))
        second = self.traced(if_true if swapped else if_false, end, 0 if end is None else len(first.stack))
        self.check_dropped(first, second)
        self.check_aliases([first, second])
        ways = (second, first) if swapped else (first, second)
        if graph.fakes.stale or graph.fakes.mode is not mode:
            self.stop("undoes changes of tensors")
        vm.trail.set(graph, "has_joined", True)
        if any(note.handled for way in ways for note in way.body.notes.values()):
            vm.note_handled()  # what was noted on a way has been undone
        return Meeting(self, *ways).arrive(pred, end)

    def most_nested(self) -> int:
        """The most branches inside one another."""
        return MOST_DIFFERENTIATED if self.is_differentiated() else MOST_NESTED

    def is_differentiated(self) -> bool:
        """Return whether AOTAutograd may differentiate the graph."""
        graph = self.vm.graph
        return graph.is_one_autograd_node and graph.modes.current.grad and any(fake.requires_grad for fake in graph.input_fakes())

    def predicate(self) -> object:
        """The node of the condition, which is a tensor of one bool, or a bool."""
        vm, condition = self.vm, self.condition
        if isinstance(condition, UnbackedNumber):
            condition = condition.truth_value()
            condition = comparison_as_tensor(vm, condition) or self.bool_of(condition) or condition
            if isinstance(condition, UnbackedNumber) and (vm.ways or self.is_differentiated()):  # code for backward passes doesn't get it (torch 2.13)
                self.stop("is on a number of which no tensor can be made")
        elif isinstance(condition, TensorObject):
            operation, fake = operation_of(vm.raw_type_lookup(condition.cls, "__bool__")), condition.look(vm)
            is_one = all(type(size) is int and size == 1 for size in fake.shape)
            if operation is None or not is_one or condition.kind.is_disguised or is_overridden(vm, operation, [condition], {}) or not is_plain(fake):
                self.stop("is on a tensor that isn't an ordinary one with one element")
            condition = vm.observe(enter(vm, torch.Tensor.detach, [condition])) if fake.requires_grad else condition
            if fake.dtype is not torch.bool:
                condition = vm.observe(enter(vm, torch.ne, [condition, vm.const(0)]))
            if fake.dim():
                condition = vm.observe(enter(vm, torch.reshape, [condition, vm.const(())]))
        else:
            self.stop(f"is on {condition!r}")
        self.tensor = condition if isinstance(condition, TensorObject) else None
        return predicate(vm, self.functions, condition)

    def bool_of(self, number: UnbackedNumber) -> TensorObject | None:
        """The tensor of which `number` is the one bool, if it hasn't changed since it was read; None if there is none."""
        node = number.node if isinstance(number, Datum) else None
        if node is None or len(node.args) != 1 or not isinstance(node.args[0], fx.Node):
            return None
        fake = node.args[0].meta.get("example_value")
        if not isinstance(fake, FakeTensor) or fake.dtype is not torch.bool:
            return None
        kept = [kept for body in self.vm.graph.bodies() for kept in body.kept]
        return None if may_change(kept, fake) else self.vm.graph.object_of(fake)

    def check_dropped(self, first: Way, second: Way) -> None:
        """Give up if what the second way leaves has a value in it that the first way has taken from the stack, since the second may have changed that value, as
        the next iteration of a loop changes its iterator."""
        dropped = [value for value in self.before.stack[0 if first.returned else len(first.stack) : -1] if isinstance(value, Object)]
        if dropped:
            values = [value for way in (first, second) for value in ([way.returned] if way.returned else [*way.locals, *way.stack])]
            left = reachable(self.vm, [value for value in values if isinstance(value, Object)]).made
            if any(id(settle(value)) in left for value in dropped):
                self.stop("has ways that go on with an iterator")

    def traced(self, target: int, end: int | None, depth: int) -> Way:
        """Trace one way. The graph that operators go into afterwards is the one around it. `depth`: the number of values on the stack that it may not
        change."""
        vm, frame = self.vm, self.frame
        graph = vm.graph
        frame.restore(self.before)
        used = [value for value in (*frame.locals, *frame.stack[:depth], *frame.closure, frame.function) if isinstance(value, Object)]
        frame.stack.pop()
        old, directives = reachable(vm, used).made, vm.directives
        seen = graph.fakes.draws_seen()
        drawn = seen is not None and seen.any
        if seen is not None:
            seen.any = False
        vm.trail.set(vm, "ways", vm.ways + 1)
        returned = trace_inside(vm, lambda: self.run(target, end), used, self.stop, takes_floats=False, takes_numbers=True, takes_sizes=True)
        vm.trail.set(vm, "ways", vm.ways - 1)
        body = graph.body
        if vm.directives != directives:
            self.stop("of a function that changes how it is compiled")
        if body.changes_uncounted() or any(CHANGES not in node.meta for node in body.kept):
            self.stop("has a way that does more than compute tensors")
        recorded = self.reason_if_recorded(body)
        acts, draws = self.effects(body)
        graph.forget_inside()  # nodes have run on fakes again
        if seen is not None:
            seen.any = seen.any or drawn
        if acts or (draws and graph.is_one_autograd_node):  # AOTAutograd's backward of a torch.cond runs the way again
            self.stop(f"has a way that {acts or DRAWS}")
        handled, made = frame.handled, lambda obj: obj.source is None and id(obj) not in old
        way = Way(body, list(frame.stack), list(frame.locals), handled, returned, made, recorded, draws)
        assert body.outer is not None
        vm.trail.set(graph, "body", body.outer)
        frame.restore(self.before)
        return way

    def run(self, target: int, end: int | None) -> Object | None:
        """Run one way. Notes if it does what compiled code can't."""
        vm, warnings = self.vm, exceptional_ways.warnings_given(self.vm)
        self.run_ways.add(target)
        try:
            found = run_until(vm, self.frame, target, end)
        except Raise:
            if not is_caught(self.frame):
                self.leaving.add(target)
            raise
        except GraphBreak as stopped:
            if isinstance(stopped.reason, exceptional_ways.LEAVE_COMPILED_CODE):
                self.leaving.add(target)
            raise
        if exceptional_ways.warnings_given(vm) > warnings:
            self.leaving.add(target)
        if found is not None and not vm.graph.body.notes and vm.observe(found).cls in CONSTANTS and vm.observe(found).is_known():
            self.idle.add(target)
        return found

    def expected_truth(self, if_true: int, if_false: int, rewind: Callable[[], None]) -> tuple[bool, str] | None:
        """The truth of the condition in all but exceptional calls, and what is exceptional about these; None if neither way is exceptional.

        Where the ways don't meet after the branch, since one returns or begins the next iteration, and neither is empty, only the one that comes first in the
        code is the body of an `if`. The other is everything that follows. `rewind`: goes back to the branch.
        """
        frame = self.frame
        found = exceptional_ways.truth_if_finite(self.vm, self.condition)
        if found is not None:
            return found, exceptional.NOT_FINITE
        if not self.run_ways:
            return None
        end = meeting(frame.decoded, if_true, if_false)
        empty = set() if end is None else {way for way in (if_true, if_false) if after_jumps(frame.decoded, way) == after_jumps(frame.decoded, end)}
        if not empty and (end is None or end < frame.pc):
            body = frame.pc + 1
            what = exceptional.LEAVES if body in self.leaving else exceptional.RETURNS if self.idle == {body} else ""
            return (if_true != body, what) if what else None
        for target in {if_true, if_false} - self.run_ways - empty:
            attempt(lambda target=target: self.traced(target, end, 0))  # type: ignore[misc]
            rewind()
        return (if_true not in self.leaving, exceptional.LEAVES) if len(self.leaving) == 1 else None

    def reason_if_recorded(self, body: Body) -> str:
        """Return why a torch.cond can't run a way: it writes to a tensor from around it, or uses sizes that depend on data, and autograd may record its
        operators, as AOTAutograd's backward of a torch.cond doesn't get such sizes (torch 2.13). Otherwise return an empty text. Gives up if the way changes
        the form of a tensor."""
        lifted = [fake for node in body.lifted if isinstance(fake := node.meta["example_value"], torch.Tensor)]
        is_recorded = self.vm.graph.modes.current.grad and any(fake.requires_grad for fake in lifted)
        writes = bool(written_outside(body))
        if writes and any(changes_tensor_itself(operator_name(inner)) for node in body.kept for inner in (node, *nodes_within(node))):
            self.stop("has a way that changes the form of a tensor")
        if writes and not all(map(is_plain, lifted)):
            self.stop("has a way that writes to a tensor from before it, and uses tensors that aren't ordinary ones")
        if is_recorded and writes:
            return "has a way that writes to a tensor from before it, where gradients are recorded"
        if is_recorded and (body.numbers() or any(is_unbacked(size) for fake in lifted for size in fake.shape)):
            return "has a way that uses sizes or numbers that depend on data, where gradients are recorded"
        return ""

    def check_aliases(self, ways: Sequence[Way]) -> None:
        """Give up if a way writes to memory that several operands of the node have: AOTAutograd doesn't see that they are one."""
        written = set().union(*(written_outside(way.body) for way in ways))
        operands = [memory_of([node]) & written for node in dict.fromkeys(node for way in ways for node in way.body.lifted)]
        if sum(map(len, operands)) > len(written):
            self.stop("has a way that writes to a tensor from before it, and uses views of that")

    def effects(self, body: Body) -> tuple[str, bool]:
        """Return what a way does besides computing and changing tensors and drawing from torch's generators, or an empty text; and whether it may draw from
        them. What isn't known to draw no other random numbers counts as drawing them."""
        fakes = self.vm.graph.fakes
        seen = fakes.draws_seen()
        kept = [node for node in body.kept if node.target not in (cond_op, one_of)]
        if body.kept and (seen is None or not all(map(runs_as_on_fakes, kept))):
            return DRAWS, True
        others = [node for node in body.notes if node not in body.kept and node.target not in (cond_op, one_of, operator.getitem)]
        found = [effects for node in others if (effects := effects_of(node, fakes.running)).has_effect]
        if any(effects.checks_factors for effects in found):
            return "factorises a matrix, which raises for some matrices", True
        draws = seen is None or seen.any or any(effects.draws for effects in found)
        if any(effects.acts for effects in found):
            return DRAWS if draws else "does more than compute tensors", draws
        return "", draws


class Meeting:
    """The place where the two ways of a branch meet: what they leave is joined.

    Values that are the same in both stay, as do equal constants. Tensors that look alike become results of the node; tuples and lists that were made on the
    ways are joined item by item. Variables that nothing reads any more are dropped.
    """

    def __init__(self, branch: Branch, true: Way, false: Way) -> None:
        self.branch = branch
        self.vm = branch.vm
        self.ways = true, false
        self.leaves: dict[tuple[int, int], tuple[TensorObject, TensorObject]] = {}
        self._lists: set[int] = set()
        self._memory: set[int] = set()
        self._results: dict[tuple[int, int], Object] = {}
        self._leads_elsewhere = False
        """True if the ways lead gradients to different tensors."""

    def arrive(self, pred: object, end: int | None) -> int:
        """Give the frame the joined values, and return where it goes on."""
        frame = self.branch.frame
        true, false = self.ways
        if end is None:
            assert true.returned is not None and false.returned is not None
            self.compare("what the function returns", true.returned, false.returned)
            self.compute(pred)
            raise Return(self.joined(true.returned, false.returned))
        if true.handled is not false.handled or len(true.stack) != len(false.stack):
            self.branch.stop("has ways that handle different exceptions")
        live = live_slots(frame.code, frame.decoded)[end]
        slots = [(slot, frame.decoded.slots[slot], a, b) for slot, (a, b) in enumerate(zip(true.locals, false.locals)) if slot in live]
        for _, name, a, b in slots:
            self.compare(f"`{name}`", a, b)
        for a, b in zip(true.stack, false.stack):
            self.compare("a value", a, b)
        self.compute(pred)
        joined = {slot: self.joined(a, b) for slot, _, a, b in slots}
        frame.stack[:] = [*(self.joined(a, b) for a, b in zip(true.stack, false.stack)), frame.stack[-1]]
        frame.locals[:] = [joined.get(slot, a if a is b else None) for slot, (a, b) in enumerate(zip(true.locals, false.locals))]
        frame.handled = true.handled
        return end

    def compare(self, what: str, a: Any, b: Any) -> None:
        """Note the tensors in which two values differ. Gives up if they differ in something else. `what`: what the program knows them as."""
        a, b = self.observed(a), self.observed(b)
        if a is b or a == b:
            return
        if isinstance(a, TensorObject) and isinstance(b, TensorObject):
            self.leaves[id(a), id(b)] = a, b
        elif isinstance(a, (TupleObject, ListObject)) and type(a) is type(b) and self.made_alike(a, b):
            for left, right in zip(a.items(self.vm), b.items(self.vm), strict=True):
                self.compare(what, left, right)
        elif not isinstance(a, Object) or not isinstance(b, Object) or not (self.are_equal(a, b) or self.tell_the_way(a, b)):
            self.branch.stop(f"gives {what} different values: {described_value(self.vm, a)} and {described_value(self.vm, b)}")

    def joined(self, a: Any, b: Any) -> Any:
        """The value for two values that have been compared."""
        a, b = self.observed(a), self.observed(b)
        if a is b or a == b:
            return a
        if isinstance(a, TensorObject):
            return self._results[id(a), id(b)]
        if isinstance(a, (TupleObject, ListObject)):
            return type(a)([self.joined(left, right) for left, right in zip(a.items(self.vm), b.items(self.vm), strict=True)])
        return self.vm.const(a.constant(self.vm)) if self.are_equal(a, b) else self.truth(a)

    def observed(self, value: Any) -> Any:
        """A value, of which only the source is known if nothing has asked for more."""
        return settle(value) if isinstance(value, Object) else value

    def made_alike(self, a: TupleObject | ListObject, b: TupleObject | ListObject) -> bool:
        """Return whether two tuples or lists were made on their ways, and have as many items. A list counts only once: it is joined to one list."""
        true, false = self.ways
        plain = a.cls is b.cls and a.cls in (tuple, list) and true.made(a) and false.made(b)
        if not plain or len(a.items(self.vm)) != len(b.items(self.vm)):
            return False
        if isinstance(a, ListObject):
            if id(a) in self._lists or id(b) in self._lists:
                return False
            self._lists |= {id(a), id(b)}
        return True

    def are_equal(self, a: Object, b: Object) -> bool:
        """Return whether two values are equal constants."""
        vm = self.vm
        a, b = vm.observe(a), vm.observe(b)
        if a.cls is not b.cls or a.cls not in CONSTANTS or a.is_symbolic(vm) or b.is_symbolic(vm) or not (a.is_knowable() and b.is_knowable()):
            return False
        return repr(a.constant(vm)) == repr(b.constant(vm))  # 0.0 and -0.0 differ

    def tell_the_way(self, a: Object, b: Object) -> bool:
        """Return whether one value is True, and the other False, of a branch whose condition is a tensor that neither way changes."""
        tensor = self.branch.tensor
        if tensor is None or not all(value.cls is bool and value.is_knowable() and not value.is_symbolic(self.vm) for value in (a, b)):
            return False
        return not any(memory_of([tensor.node]) & written_outside(way.body) for way in self.ways)

    def truth(self, if_true: Object) -> Object:
        """The bool that is `if_true` if the condition is true, and else the opposite. It is read from a tensor."""
        tensor = self.branch.tensor
        assert tensor is not None
        if not if_true.constant(self.vm):
            negated = self.vm.observe(enter(self.vm, torch.logical_not, [tensor]))
            assert isinstance(negated, TensorObject)
            tensor = negated
        number = number_out_of(self.vm, tensor, "item")
        return self.branch.stop("has no number") if number is None else number

    def compute(self, pred: object) -> None:
        """Make the node that computes the tensors which differ, or those of a way that needs no branch."""
        if any(way.recorded for way in self.ways):
            self.compute_without_branch()
            return
        if not self.leaves and not any(way.draws or written_outside(way.body) for way in self.ways):
            return
        vm, functions = self.vm, self.branch.functions
        pairs = list(self.leaves.values())
        for a, b in pairs:
            self.check_alike(a, b)
        sides = list(zip(*pairs)) or [(), ()]
        originals = [self.originals(way, leaves) for way, leaves in zip(self.ways, sides)]
        reached = self.check_gradients(sides)
        returned = self.returned()
        graphs = [self.ended(way, leaves, returned) for way, leaves in zip(self.ways, sides)]
        check_leaves(vm, functions, *graphs)
        results = choose_graph(vm, functions, pred, graphs, lambda node: self.apart(self.operand(node, sides)), one_of)
        for obj, result in zip(returned, results[len(pairs) :], strict=True):
            enter(vm, torch.Tensor.copy_, [obj, result])
        self.note(results, graphs[0].leaves, originals, reached)

    def compute_without_branch(self) -> None:
        """Make the nodes of a way that only writes rows, of which there may be none, beside one that does nothing. Gives up if the ways aren't such."""
        branch, true, false = self.branch, *self.ways
        kept = [node for body in (*self.vm.graph.bodies(), true.body, false.body) for node in body.kept]
        rows = Rows.of(self.vm, branch.condition, kept)
        way, other = (true, false) if rows is None or rows.outcome else (false, true)
        if rows is None or self.vm.ways or self.leaves or other.body.kept or other.recorded or true.draws or false.draws:
            branch.stop(true.recorded or false.recorded)
        reason = replace(branch.reason, ways=MAY_HAVE_NO_RECORD)
        EmptyWay(self.vm, rows, way.body, branch.place, reason, branch.stop).run()

    def note(
        self, results: Sequence[Object], leaves: Sequence[Object], originals: Sequence[Sequence[tuple[fx.Node, ...]]], reached: frozenset[int]
    ) -> None:
        """Note the tensors that the node computes. `leaves`: those of one way; `originals`: see the method; `reached`: the ids of the leaves to which gradients
        lead."""
        vm, noted = self.vm, self.vm.graph.part(JoinedTensors)
        if reached:
            vm.trail.set(noted, "are_recorded", True)
        for (key, (a, _)), leaf, result, *copied in zip(self.leaves.items(), leaves, results, *originals):
            assert isinstance(result, TensorObject) and isinstance(leaf, TensorObject)
            requires_grad = a.look(vm).requires_grad
            if not look_of(result, vm) == look_of(a, vm) == look_of(leaf, vm) or leaves_of(result) != (reached if requires_grad else frozenset()):
                self.branch.stop(f"gives {described(vm, result)} in the place of {described(vm, a)}")
            if requires_grad and self._leads_elsewhere:
                result = self.recorded(result)
            nodes = tuple(dict.fromkeys(node for part in copied for node in part))
            if nodes:
                noted.add(Joined(result.node, nodes, self.branch.place, replace(self.branch.reason, ways=MAY_BE_THE_SAME)))
            self._results[key] = result

    def recorded(self, result: TensorObject) -> TensorObject:
        """A result whose record depends on the way that runs."""
        graph, branch = self.vm.graph, self.branch
        made = graph.node_of(of_one_way, (result.node,))
        found = graph.result_of(made)
        assert isinstance(found, TensorObject)
        graph.part(OptionalRecords).add(made, branch.place, replace(branch.reason, ways=MAY_HAVE_NO_RECORD))
        return found

    def check_alike(self, a: TensorObject, b: TensorObject) -> None:
        """Give up if two tensors differ in anything but their data."""
        vm, stop = self.vm, self.branch.stop
        if any(obj.cls is not torch.Tensor or obj.has_more() or (obj.data, obj.requires_grad) != (MISSING, MISSING) for obj in (a, b)):
            stop("gives tensors of classes or with attributes of their own")
        left, right = a.look(vm), b.look(vm)
        if not is_plain(left) or not is_plain(right) or left.is_inference() != right.is_inference():
            stop("gives tensors that aren't ordinary ones")
        if described(vm, a) != described(vm, b):
            stop(f"gives {described(vm, a)} or {described(vm, b)}")
        if left.requires_grad != right.requires_grad:
            stop("gives tensors of which one requires a gradient, and the other doesn't")
        if left.requires_grad and (left.is_leaf or right.is_leaf):
            stop("gives a leaf, which has a gradient of its own")

    def originals(self, way: Way, leaves: Sequence[TensorObject]) -> list[tuple[fx.Node, ...]]:
        """For each tensor of a way, the nodes of the graph around it that share memory with it, or with what it may be a copy of."""
        self.vm.graph.refresh()
        noted, found = self.vm.graph.part(JoinedTensors), []
        memories = [storages([leaf.fake]) for leaf in leaves]
        if len(set().union(*memories)) != len(memories):
            self.branch.stop("gives tensors that share memory")
        assert way.body.outer is not None
        outside = [*way.body.lifted, *(leaf.node for leaf in leaves if leaf.node.graph is not way.body.fx)]
        for memory in memories:
            nodes = [node for node in dict.fromkeys(outside) if memory_of([node]) & memory]
            copies = [*noted.originals_of(memory), *noted.originals_of(memory_of(nodes))]
            found.append((*nodes, *(node for node in copies if node.graph is not way.body.fx)))
        return found

    def check_gradients(self, sides: Sequence[Sequence[TensorObject]]) -> frozenset[int]:
        """The ids of the leaves to which the ways lead gradients. With AOTAutograd, gives up unless each tensor that requires a gradient leads to all of them:
        in eager, those to which nothing leads get no gradient at all, and not one of zeros."""
        reached = {leaves_of(leaf) for leaves in sides for leaf in leaves if leaf.fake.requires_grad}
        self._leads_elsewhere = len(reached) > 1
        if self._leads_elsewhere and (self.vm.graph.is_one_autograd_node or self.vm.ways):
            self.branch.stop("has ways that lead gradients to different tensors")
        return frozenset().union(*reached)

    def operand(self, node: fx.Node, sides: Sequence[Sequence[TensorObject]]) -> fx.Node:
        """The operand for a node that the ways use: detached if no gradient leads there from what they give, as there would be one of zeros."""
        fake = node.meta["example_value"]
        if not isinstance(fake, torch.Tensor) or not fake.requires_grad:
            return node
        for leaf in [leaf.fake for leaves in sides for leaf in leaves if leaf.fake.requires_grad]:
            if leads_to(leaf, [fake.grad_fn]) if fake.grad_fn is not None else any(fake is known for known in gradient_paths([leaf]).leaves):
                return node
        return self.made_from(node, torch.Tensor.detach)

    def apart(self, node: fx.Node) -> fx.Node:
        """The operand for a node that the ways use: a copy if another operand has the same memory, which AOTAutograd forbids."""
        memory = memory_of([node]) if self.vm.graph.is_one_autograd_node else set()
        if memory & self._memory:
            self.check_strides()
            return self.made_from(node, torch.clone)
        self._memory |= memory
        return node

    def check_strides(self) -> None:
        """Give up if a way calls as_strided, since it may get a copy in the place of a tensor."""
        if any("as_strided" in operator_name(node) for way in self.ways for node in way.body.notes):
            self.branch.stop("calls as_strided on what may be a copy")

    def made_from(self, node: fx.Node, function: Callable[..., Any]) -> fx.Node:
        """The node of a function of the tensor of a node."""
        obj = self.vm.graph.object_of(node.meta["example_value"])
        assert obj is not None
        made = self.vm.observe(enter(self.vm, function, [obj]))
        assert isinstance(made, TensorObject)
        return made.node

    def ended(self, way: Way, leaves: Sequence[TensorObject], returned: Sequence[TensorObject]) -> FunctionGraph:
        """The finished graph of a way, which gives these tensors, and then copies of those of `returned` as the way leaves them."""
        vm = self.vm
        vm.trail.set(vm.graph, "body", way.body)
        shared = memory_of(obj.node for obj in returned)
        given = [enter(vm, torch.clone, [leaf]) if storages([leaf.fake]) & shared else leaf for leaf in leaves]
        return self.branch.functions.ended([*given, *(self.copied(way.body, obj) for obj in returned)], vm.const(None))

    def copied(self, body: Body, obj: TensorObject) -> Object:
        """A copy of a tensor from around a way, which the way writes to in the place of the tensor."""
        made = enter(self.vm, torch.clone, [obj])
        assert isinstance(made, TensorObject)
        placeholder = body.own(obj.node)
        first = next(node for node in body.fx.nodes if node.op != "placeholder")
        if first is not made.node:
            first.prepend(made.node)
        assert placeholder is not None
        placeholder.replace_all_uses_with(made.node, lambda user: user is not made.node)
        self.vm.trail.learned(made.node, made.node.replace_all_uses_with, placeholder)
        return made

    def returned(self) -> list[TensorObject]:
        """The tensors from before the branch that its node returns, to be copied to what they were: those to which the ways write, where AOTAutograd traces the
        node, since it loses some writes inside."""
        vm = self.vm
        if not vm.graph.is_one_autograd_node:
            return []
        nodes = dict.fromkeys(node for way in self.ways for node in way.body.lifted if memory_of([node]) & written_outside(way.body))
        found = [vm.graph.object_of(node.meta["example_value"]) for node in nodes]
        if any(obj is None or not is_dense(obj.look(vm)) for obj in found):
            self.branch.stop("has a way that writes to a view with gaps")
        if found:
            self.check_strides()
        return [obj for obj in found if obj is not None]


def leaves_of(tensor: TensorObject) -> frozenset[int]:
    """The ids of the fakes of the leaves to which gradients of a tensor lead."""
    return frozenset(map(id, gradient_paths([tensor.fake]).leaves)) if tensor.fake.requires_grad else frozenset()


def written_outside(body: Body) -> set[int]:
    """The keys of the storages of tensors from around a graph to which it writes."""
    written = memory_of(changed for node in body.kept for changed in node.meta[CHANGES]) | storages(body.changed_lifted())
    return written & memory_of(body.lifted)


def is_dense(fake: torch.Tensor) -> bool:
    """Return whether a copy of a tensor has its strides."""
    return fake.is_contiguous() or torch.ops.aten.is_non_overlapping_and_dense.default(fake)


def is_plain(fake: torch.Tensor) -> bool:
    """Return whether a tensor is one that any operator takes and gives."""
    return fake.layout is torch.strided and not fake.is_quantized and not fake.is_conj() and not fake.is_neg() and type(fake) is FakeTensor


def described_value(vm: Trace, value: Any) -> Any:
    """A value, for messages."""
    return "none" if value is None else described(vm, value) if isinstance(value, Object) else "another"
