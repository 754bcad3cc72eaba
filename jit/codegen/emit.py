"""Emits the code object that runs in place of the traced frame, from a plan.

The frame starts with its argument slots cleared, then the local `.inputs` (a fresh list of the graph's inputs, which the callee may
empty) and `.captures` (the values that the guard walk fetched, in the order of `Plan.captures`). The code replays the
effects that come before the graph, calls the graph, builds what is new, replays what was mutated, and returns the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

from framejit.bytecode.assemble import Assembler
from framejit.bytecode.instruction import Position
from framejit.codegen.direct import CAPTURES, INPUTS, CallOfGraph, Direct, Recovery, Temporary, direct_form
from framejit.codegen.plan import Group, Plan, Statement, Value
from framejit.codegen.recorder import CodeStep, StepKind
from framejit.codegen.rerun import as_result, run_uncompiled, run_where_check_failed, with_eager_traceback
from framejit.guards.locks import HeldLock, released
from framejit.guards.source import InstanceDict

MANY_OUTPUTS = 256
"""If there are more outputs than this, they stay in the graph's list and are fetched by index, so that the frame stays small."""


class Continuation(NamedTuple):
    """The continuation of a split call: the step, and the number of the resume function that is used if the call has ended."""

    step: Callable[..., Any]
    ended: int


class Emitted(NamedTuple):
    """The replacement code, and its direct form, which the C entry runs without a frame; None if the code needs a frame."""

    code: CodeType
    direct: Direct | None


def emit(plan: Plan, graph: Callable[..., Any] | None, boxed: bool = True, split: Continuation | None = None) -> Emitted:
    """Make the replacement code, in both forms. `graph` returns a tuple or list of the plan's outputs.

    boxed: the graph is called with the list of inputs, which it may empty; otherwise with the inputs as arguments. `split`: what follows the code of a split
    call, if that code returns something to call instead of a state.
    """
    emitter = _Emitter(plan)
    if plan.needs_graph:
        assert graph is not None
        if not plan.trace.rerun:
            emitter.statements(plan.before_graph)
        emitter.call_graph(graph, boxed)
    emitter.statements(plan.statements)
    if split is not None:
        emitter.bind(split.step)
    locks = [index for index, source in enumerate(plan.captures) if type(source) is HeldLock]
    if locks:
        emitter.covered[len(emitter.code)] = True
    emitter.op("return")
    if locks:
        emitter.release_and_raise(locks)
    if plan.trace.rerun:
        function = run_where_check_failed if plan.trace.only_checks else run_uncompiled
        recovery = emitter.rerun(function if split is None else as_result(split.ended, function), locks)
    else:
        recovery = None
    code = emitter.assemble()
    dicts = frozenset([index for index, source in enumerate(plan.captures) if type(source) is InstanceDict])
    called = CallOfGraph(graph if plan.needs_graph else None, boxed, len(plan.outputs), recovery)
    return Emitted(code, direct_form(emitter.code, code, called, dicts))


class _Emitter:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.position = plan.trace.return_position
        self.code: list[tuple[str, Any, Position]] = []
        self.temporaries: dict[int, Temporary] = {}  # values and sources used more than once
        self.outputs: dict[int, Temporary] = {}
        self.output_list: Temporary | None = None
        self.covered: dict[int, bool] = {}  # instructions with a handler, and whether it is that of all before them too
        self.handlers: set[int] = set()
        self.capture_index = {id(source): index for index, source in enumerate(plan.captures)}
        self.output_index = {id(node): index for index, node in enumerate(plan.outputs)}

    def op(self, word: str, argument: Any = 0) -> None:
        if type(argument) is Temporary:
            argument.last = len(self.code)
        self.code.append((word, argument, self.position))

    def store(self) -> Temporary:
        """Pop the top of the stack into a new temporary."""
        temporary = Temporary()
        self.op("store_local", temporary)
        return temporary

    def call_graph(self, graph: Callable[..., Any], boxed: bool) -> None:
        trace = self.plan.trace
        if trace.call_position.lineno is not None:
            self.position = trace.call_position
        self.op("load_callable", graph)
        # The frame lets go of the list before the call, so that inputs are freed as soon as the callee is done with them.
        self.op("load_local", INPUTS)
        self.op("delete_local", INPUTS)
        if trace.rerun:
            self.covered[len(self.code)] = True
        if boxed:
            self.op("call", 1)
        else:
            self.op("call_with_tuple")
        outputs = self.plan.outputs
        if not outputs:
            self.op("pop")
        elif len(outputs) > MANY_OUTPUTS:
            self.output_list = self.store()
        else:
            self.op("unpack", len(outputs))
            for node in outputs:
                self.outputs[id(node)] = self.store()

    def statements(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            self.position = statement.position
            for group in statement.groups:
                self.build(group)
            self.run(statement.steps)

    def bind(self, step: Callable[..., Any]) -> None:
        """Replace the state on the stack by a call of the step with that state."""
        state = self.store()
        self.op("load_callable", functools.partial)
        self.op("load_const", step)
        self.op("load_local", state)
        self.op("call", 2)

    def rerun(self, function: Callable[..., Any], locks: Sequence[int]) -> Recovery:
        """Emit the handler for an exception of the graph: it calls `function` with the exception, alone in a list, and with the function and arguments that
        the plan names. The locks in these captures are released first. Returns what the direct form does then.

        If that raises, the traceback already has an entry for this frame, from its uncompiled run.
        """
        self.begin_handler()
        if locks:
            self.release(locks)
        self.call_with_exception(function)
        self.op("build_list", 1)
        captures = [self.capture_index[id(source)] for source in self.plan.trace.rerun]
        for index in captures:
            self.fetch(CAPTURES, index)
        self.covered[len(self.code)] = False
        self.op("call", 1 + len(captures))
        self.op("return")
        self.begin_handler()
        self.call_with_exception(with_eager_traceback)
        self.op("call", 1)
        self.op("reraise")
        return Recovery(function, tuple(captures), with_eager_traceback)

    def release_and_raise(self, locks: Sequence[int]) -> None:
        """Emit the handler for any other exception of code that holds locks."""
        self.begin_handler()
        self.release(locks)
        self.op("reraise")

    def release(self, locks: Sequence[int]) -> None:
        """Release the locks that these captures hold, if they aren't released yet. The exception stays on the stack."""
        self.call_with_exception(released)
        for index in locks:
            self.fetch(CAPTURES, index)
        self.op("call", 1 + len(locks))

    def begin_handler(self) -> None:
        """The next instruction begins a handler, with the exception on the stack."""
        self.handlers.add(len(self.code))

    def call_with_exception(self, function: Callable[..., Any]) -> None:
        """Load a function, and the exception on the stack as its first argument, which the frame lets go of."""
        error = self.store()
        self.op("load_callable", function)
        self.op("load_local", error)
        self.op("delete_local", error)

    def build(self, group: Group) -> None:
        """Build values that stay in temporaries. Values that are built in place are left to the one step that uses them."""
        if not group.inline:
            self.run(self.building(group))

    def building(self, group: Group) -> list[CodeStep]:
        """The steps that create the values of a group, each into a temporary, and fill them."""
        steps: list[CodeStep] = []
        for value in group.values:
            temporary = self.temporaries[id(value.obj)] = Temporary()
            steps += value.create
            steps.append(CodeStep(StepKind.OP, ("store_local", temporary)))
        for value in group.values:
            steps += value.fill
        return steps

    def run(self, steps: list[CodeStep]) -> None:
        """Emit steps; groups built in place are expanded without recursion."""
        stack = [iter(steps)]
        while stack:
            for step in stack[-1]:
                if step.kind is StepKind.VALUE and id(step.payload) not in self.temporaries:
                    stack.append(iter(self.in_place(self.plan.values[id(step.payload)])))
                    break
                self.step(step)
            else:
                stack.pop()

    def in_place(self, value: Value) -> list[CodeStep]:
        """The steps that leave a value of a group that is built here on the stack."""
        group = value.group
        if len(group.values) == 1 and not value.fill:
            return value.create
        return [*self.building(group), CodeStep(StepKind.OP, ("load_local", self.temporaries[id(value.obj)]))]

    def step(self, step: CodeStep) -> None:
        kind, payload = step
        if kind is StepKind.OP:
            self.op(*payload)
        elif kind is StepKind.CONST:
            self.op("load_const", payload)
        elif kind is StepKind.VALUE:
            self.op("load_local", self.temporaries[id(payload)])
        elif kind is StepKind.NODE:
            self.load_output(payload)
        else:
            self.load_capture(payload)

    def load_output(self, node: Any) -> None:
        if self.output_list is None:
            self.op("load_local", self.outputs[id(node)])
        else:
            self.fetch(self.output_list, self.output_index[id(node)])

    def load_capture(self, source: Any) -> None:
        temporary = self.temporaries.get(id(source))
        if temporary is not None:
            self.op("load_local", temporary)
            return
        self.fetch(CAPTURES, self.capture_index[id(source)])
        if self.plan.source_uses[id(source)] > 1:
            self.op("copy", 1)
            self.temporaries[id(source)] = self.store()

    def fetch(self, container: Any, index: int) -> None:
        self.op("load_local", container)
        self.op("load_const", index)
        self.op("subscript")

    def name_temporaries(self) -> None:
        """Give temporaries their locals. A local is used again after the last load of the value that it held."""
        free: list[str] = []
        made = 0
        for index, (word, argument, _) in enumerate(self.code):
            if type(argument) is not Temporary:
                continue
            if word == "store_local":
                if not free:
                    free.append(f".t{made}")
                    made += 1
                argument.name = free.pop()
            if argument.last == index:
                free.append(argument.name)

    def assemble(self) -> CodeType:
        self.name_temporaries()
        assembler = Assembler()
        for index, (word, argument, position) in enumerate(self.code):
            if index in self.handlers:
                assembler.begin_handler()
            assembler.set_position(position)
            if type(argument) is Temporary:
                argument = argument.name
            if index in self.covered:
                assembler.emit_covered(word, argument, self.covered[index])
            else:
                assembler.emit(word, argument)
        return assembler.assemble(self.plan.trace.root_code, (INPUTS, CAPTURES))
