"""Entries, the search for one that fits a call, and the loop that runs a split call. `compile` is the decorator.

Mirrors runtime_c/cache.c and hook.c (here a decorator is what the frame hook is there), jit/driver/callback.py and jit/compiler/compile.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from torch import fx, nn

from .bytecode import Break, Op, resume_code
from .guards import Call, Guard, Source, signature_of
from .operations import OPERATIONS, Jump
from .tracer import Tracer
from .values import Value

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]
LIMIT = 8
"""So many entries a function may have. Beyond it, calls that fit none run uncompiled."""


@dataclass
class Next:
    """A part of a split call gives this: the resume function that comes next, and its arguments."""

    function: Compiled
    args: tuple[Any, ...]


@dataclass
class Split:
    """The place where a call is split: the operation that runs natively, and the variables and the stack there.

    `after`, `target`: the offsets in the original code where the function goes on after the operation, and where it does if that jumps.
    """

    reason: str
    op: Op
    locals: dict[str, Value]
    stack: list[Value | None]
    after: int
    target: int | None


@dataclass
class Entry:
    """Guards, and what runs where they hold: a graph, what is built of its results, and perhaps a split. (jit/compiler/entry_spec.py)"""

    guards: list[Guard]
    graph: fx.GraphModule
    call_graph: Callable[..., Any]
    inputs: list[Source]
    outputs: list[fx.Node]
    result: Value | Split | str  # a text says why the function runs uncompiled

    def run(self, function: Compiled, call: Call) -> Any:
        """The call's result, or Next. (jit/codegen/emit.py writes bytecode that does this.)"""
        if isinstance(self.result, str):
            return call.function(*call.args, **call.kwargs)
        results = self.call_graph(*[source.fetch(call) for source in self.inputs])
        values = dict(zip(map(id, self.outputs), results))

        def build(value: Value | fx.Node) -> Any:
            if id(value) not in values:
                assert isinstance(value, Value)
                values[id(value)] = value.build(call, build)
            return values[id(value)]

        if isinstance(self.result, Value):
            return build(self.result)
        split, operation = self.result, OPERATIONS[self.result.op.name]
        variables = {name: build(value) for name, value in split.locals.items()}
        stack = [None if value is None else build(value) for value in split.stack]
        nulls = [value is None for value in split.stack]
        base = len(stack) - operation.count(split.op)
        assert operation.native is not None
        answer = operation.native(split.op.arg, *stack[base:])
        stack[base:] = pushed = operation.pushed(answer)
        nulls[base:] = [False] * len(pushed)
        offset = split.target if isinstance(answer, Jump) else split.after
        assert offset is not None
        return function.resume(offset, variables, stack, nulls)


class Compiled:
    """A function with its entries. `recompiles`: for each entry but the first, the guard that the newest entry before it failed.

    `original`: of a resume function, the function that it resumes; its code is that function's code after a prologue of `shift` bytes.
    """

    def __init__(self, function: FunctionType, backend: Backend, original: Compiled | None = None, shift: int = 0) -> None:
        self.function = function
        self.backend = backend
        self.original = original or self
        self.shift = shift
        self.signature = signature_of(function)
        self.entries: list[Entry] = []
        self.recompiles: list[str] = []
        self.resumes: dict[tuple[Any, ...], Compiled] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the parts of a call one after the other, so that neither the stack nor the number of functions grows with a loop's iterations."""
        result = self.run_part(*args, **kwargs)
        while isinstance(result, Next):
            result = result.function.run_part(*result.args)
        return result

    def run_part(self, *args: Any, **kwargs: Any) -> Any:
        """Runs an entry whose guards hold, the most recently used one first, or makes one."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        call = Call(self.function, args, kwargs, bound.arguments)
        entry = next((entry for entry in self.entries if all(guard.holds(call) for guard in entry.guards)), None)
        if entry is None:
            if len(self.entries) == LIMIT:
                return self.function(*args, **kwargs)
            if self.entries:
                failing = next(guard for guard in self.entries[0].guards if not guard.holds(call))
                self.recompiles.append(str(failing))
            entry = self.compile(call)
        else:
            self.entries.remove(entry)
        self.entries.insert(0, entry)
        return entry.run(self, call)

    def compile(self, call: Call) -> Entry:
        """The stages of a compile: a trace, what must be built at its end, the graph. (jit/compiler/compile.py)"""
        try:
            tracer = Tracer(call)
        except Break as stop:
            return Entry([], fx.GraphModule(nn.Module(), fx.Graph()), lambda: (), [], [], str(stop))
        outcome = tracer.run_to_the_end()
        result: Value | Split | str = self.split(tracer, outcome) if isinstance(outcome, Break) else outcome
        built = [result] if isinstance(result, Value) else []
        if isinstance(result, Split):
            built = [*result.locals.values(), *(value for value in result.stack if value is not None)]
        outputs = list(dict.fromkeys(node for value in built for node in value.nodes()))
        tracer.graph.output(tuple(outputs))
        graph = fx.GraphModule(nn.Module(), tracer.graph)
        call_graph = self.backend(graph, [])
        return Entry(list(tracer.guards.values()), graph, call_graph, tracer.inputs, outputs, result)

    def split(self, tracer: Tracer, stop: Break) -> Split | str:
        """Makes a Split of the place where tracing has stopped, or a text if no native operation stopped it. (jit/compiler/broken.py)"""
        frame = tracer.frame
        op = frame.ops[frame.pc]
        if op.name not in OPERATIONS or OPERATIONS[op.name].native is None:
            return str(stop)
        names = self.original.function.__code__.co_varnames
        variables = {name: frame.locals[name] for name in names if name in frame.locals}
        after = frame.ops[frame.pc + 1].offset - self.shift
        jumps = "JUMP" in op.name or op.name == "FOR_ITER"
        target = frame.ops[op.arg].offset - self.shift if jumps else None
        return Split(f"{stop}  # {tracer.frame.where}", op, variables, frame.stack, after, target)

    def resume(self, offset: int, variables: dict[str, Any], stack: list[Any], nulls: list[bool]) -> Next:
        """The resume function for an offset of the original code, and its arguments. It is made once. (jit/codegen/resume.py)"""
        original = self.original
        code = original.function.__code__
        key = offset, tuple(variables), tuple(nulls)
        if key not in original.resumes:
            unbound = [name for name in code.co_varnames if name not in variables]
            resumed = resume_code(code, offset, unbound, nulls)
            function = FunctionType(resumed, original.function.__globals__)
            original.resumes[key] = Compiled(function, self.backend, original, len(resumed.co_code) - len(code.co_code))
        state = [variables.get(name) for name in code.co_varnames]
        return Next(original.resumes[key], (*state, *(value for value, null in zip(stack, nulls) if not null)))

    def report(self) -> str:
        """Lists the guards, the graph and the end of each entry, resume functions last."""
        lines = []
        for part in (self, *self.resumes.values()):
            for entry in part.entries:
                lines += ["", f"{part.function.__code__.co_name}: if"]
                lines += [f"    {guard}" for guard in entry.guards]
                lines += ["then"] + [f"    {node.format_node()}" for node in entry.graph.graph.nodes if node.op != "output"]
                end = "return" if isinstance(entry.result, Value) else f"uncompiled: {entry.result}"
                lines.append(f"    break: {entry.result.reason}" if isinstance(entry.result, Split) else f"    {end}")
        return "\n".join(lines[1:])


def eager(graph: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """The backend that runs the graph as it is."""
    return graph


def compile(function: Callable[..., Any] | None = None, *, backend: Backend = eager) -> Any:
    """The decorator: `@compile` or `@compile(backend=...)`."""
    if function is None:
        return functools.partial(compile, backend=backend)
    assert isinstance(function, FunctionType), "only functions in Python"
    return Compiled(function, backend)
