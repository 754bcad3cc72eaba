"""Entries, the search for one that fits a call, and the loop that runs a split call. `compile` is the decorator.

Mirrors runtime_c/cache.c and evaluator.c (here a decorator is what the frame hook is there), jit/driver/callback.py and jit/compiler/compile.py.
"""

from collections import namedtuple
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any

from torch import fx, nn

from .bytecode import resume_code
from .operations import NATIVE, NULL, Frame
from .tracer import Tracer
from .values import Call, Tensor, Value, signature_of

LIMIT = 8
"""So many entries a function may have. Beyond it, calls that fit none run uncompiled."""

Entry = namedtuple("Entry", "guards graph run_graph inputs outputs end how")
"""Guards, and what runs where they hold: a graph, and what is built of its results. (jit/driver/entry_spec.py)

`end`: what the call returns; or the frame at the operation that splits the call; or None: it runs uncompiled. `how`: which, and why.
"""


class Next(partial):
    """A part of a split call gives this: the call of the resume function that comes next."""


class Compiled:
    """A function with its entries, the newest first. The decorator `@compile` makes it.

    `backend`: is given a graph, and gives what is called in its place. `recompiles`: for each entry but the oldest, the guard of the one
    before it that did not hold. `original`: of a resume function, the function that it resumes, which has the resume functions of all.
    """

    def __init__(self, function: FunctionType, backend: Any = lambda graph, example_inputs: graph, original: Any = None) -> None:
        self.function, self.backend, self.original = function, backend, original or self
        self.entries, self.recompiles, self.resumes = [], [], {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the parts of a call one after the other, so that the stack doesn't grow with the iterations of a loop."""
        result = self.run_part(*args, **kwargs)
        while isinstance(result, Next):
            result = result()
        return result

    def run_part(self, *args: Any, **kwargs: Any) -> Any:
        """Runs an entry whose guards hold, or makes one. Gives the call's result, or Next."""
        bound = signature_of(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        call = Call(self.function, bound.arguments)
        entry = next((entry for entry in self.entries if all(guard.holds(call) for guard in entry.guards)), None)
        if entry is None and len(self.entries) < LIMIT:
            self.recompiles += [next(str(guard) for guard in entry.guards if not guard.holds(call)) for entry in self.entries[:1]]
            entry = self.compile(call)
            self.entries.insert(0, entry)
        return self.function(*args, **kwargs) if entry is None or entry.end is None else self.run(entry, call)

    def compile(self, call: Call) -> Entry:
        """The stages of a compile: a trace, what must be built at its end, the graph. (jit/compiler/compile.py)"""
        tracer = Tracer()
        end, how = tracer.trace(*call)
        live = [*end.locals.values(), *end.stack] if isinstance(end, Frame) else [end] if end else []
        outputs = list(dict.fromkeys(tensors_of(live)))
        tracer.graph.output(tuple(tensor.node for tensor in outputs))
        graph = fx.GraphModule(nn.Module(), tracer.graph)
        return Entry(tracer.guards, graph, self.backend(graph, []), tracer.inputs, outputs, end, how)

    def run(self, entry: Entry, call: Call) -> Any:
        """Runs the graph, and builds the result; or the frame, and runs its operation natively. (jit/codegen/emit.py: as bytecode)"""
        built = dict(zip(map(id, entry.outputs), entry.run_graph(*[source.fetch(call) for source in entry.inputs])))

        def build(value: Value) -> Any:
            if id(value) not in built:
                built[id(value)] = value.source.fetch(call) if value.source else value.make(*map(build, value.parts))
            return built[id(value)]

        if isinstance(entry.end, Value):
            return build(entry.end)
        locals = {name: build(value) for name, value in entry.end.locals.items()}
        frame = replace(entry.end, locals=locals, stack=list(map(build, entry.end.stack)))
        frame.step(NATIVE)
        return self.resume(frame)

    def resume(self, frame: Frame) -> Next:
        """The resume function that goes on with a frame. It is made once for each place in the original code. (jit/codegen/resume.py)"""
        original = self.original
        code = original.function.__code__
        prologue = len(self.function.__code__.co_code) - len(code.co_code)
        unbound = tuple(name for name in code.co_varnames if name not in frame.locals)
        place = frame.op.offset - prologue, unbound, tuple(value is NULL for value in frame.stack)
        if place not in original.resumes:
            function = FunctionType(resume_code(code, *place), original.function.__globals__)
            original.resumes[place] = Compiled(function, self.backend, original)
        return Next(original.resumes[place].run_part, *map(frame.locals.get, code.co_varnames), *frame.stack)

    def report(self) -> str:
        """Lists the guards, the graph and the end of each entry, resume functions last."""
        lines = []
        for part, entry in [(each, entry) for each in (self, *self.resumes.values()) for entry in each.entries]:
            lines += ["", f"{part.function.__code__.co_name}: if", *(f"    {guard}" for guard in entry.guards), "then"]
            lines += [f"    {node.format_node()}" for node in entry.graph.graph.nodes if node.op != "output"] + [f"    {entry.how}"]
        return "\n".join(lines[1:])


def tensors_of(values: list[Value]) -> list[Tensor]:
    """The tensors of the graph that values are built of."""
    made = [value for value in values if value.source is None]
    return [tensor for value in made for tensor in ([value] if isinstance(value, Tensor) else tensors_of(value.parts))]
