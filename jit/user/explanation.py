"""explain(): compiles one call of a function, and reports graphs, breaks, guards and times as plain data that prints well."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from framejit import config
from framejit._runtime import CompiledFunction
from framejit.backends.registry import BackendFn
from framejit.breaks import Break, FailedInside
from framejit.driver import retained
from framejit.driver.compiled_module import raw_call
from framejit.errors import BadArgument, UserFrame, after_break, explain_break, suggestion
from framejit.report import FEW, STAGES, Recording, counted, graphs_of, listed, place, recording
from framejit.said.directives import untraced
from framejit.user.api import compile

SHOWN = 3
"""`str()` of an explanation shows so many different breaks, so many uncompiled frames, and so many errors."""
SLOW = 1.0
"""If the backend took more seconds than this, `str()` of an explanation says how to shorten that."""
SLOW_BACKEND = (
    "  Most of that time is the backend's. If the model repeats a block, compile each block instead of the model: blocks of one class share what is compiled."
)
OPTIONS = ("backend", "fullgraph", "dynamic", "mode", "options")
"""The names of the options that `explain` takes."""


@dataclass(frozen=True)
class Stop:
    """A place where tracing stopped.

    Attributes:
        id: the id of the reason; `python -m framejit explain ID` prints its page.
        reason: what happened, in one line.
        place: file:line.
        text: the call stack, why it happened, and what to do.
        expression: the source text at the place.
        advice: what to do; each item is an alternative.
        before: for a graph break, the number of operations in the graph before it.
        after: for a graph break, the number of operations in each graph after it.
        function: the function in which tracing stopped; for a fallback, the function that runs uncompiled.
    """

    id: str
    reason: str
    place: str
    text: str
    expression: str = ""
    advice: tuple[str, ...] = ()
    before: int = 0
    after: tuple[int, ...] = ()
    function: str = ""

    def summary(self) -> str:
        """One line that says what happened, and where."""
        where = f" ({self.place})" if self.place else ""
        return f"{self.id} {self.reason}{where}{f': {self.expression.splitlines()[0]}' if self.expression else ''}"


@dataclass
class CompiledEntry:
    """One compiled frame, of the function itself or of a resume function.

    `operations` is the number of operations in its graph, or None if it has no graph. `left_to_autograd` says why the graph runs with the backend eager
    although another one was asked for.
    """

    function: str
    place: str
    operations: int | None
    guards: list[str]
    seconds: dict[str, float]
    left_to_autograd: str | None = None


@dataclass(repr=False)
class Explanation:
    """The result of `explain`: plain data, which `dataclasses.asdict` turns into JSON. `str()` sums it up in about ten lines.

    Attributes:
        function: the qualified name of the function.
        graphs: the number of graphs that were compiled.
        operations: the number of operations in each graph, in order.
        breaks: the graph breaks that split the call.
        fallbacks: the frames that run uncompiled, with the reason.
        entries: each compiled frame with its guards.
        seconds: the time of each stage (trace, plan, backend, emit, guards), over all entries.
        internal_errors: errors inside framejit during the call, in any thread.
    """

    function: str
    graphs: int
    operations: list[int]
    breaks: list[Stop]
    fallbacks: list[Stop]
    entries: list[CompiledEntry]
    seconds: dict[str, float]
    internal_errors: list[str] = field(default_factory=list)

    @property
    def guards(self) -> list[str]:
        """The guards of all entries, in order, one line for each guard."""
        return [guard for entry in self.entries for guard in entry.guards]

    def __str__(self) -> str:
        stages = ", ".join(f"{stage} {seconds * 1000:.1f}" for stage, seconds in self.seconds.items())
        lines = [
            f"{self.function}: {self._graphs()}, {counted(len(self.breaks), 'graph break')}, {counted(len(self.fallbacks), 'frame')} uncompiled",
            f"compiled in {sum(self.seconds.values()) * 1000:.1f} ms: {stages}",
        ]
        if self.seconds.get("backend", 0.0) > max(SLOW, sum(self.seconds.values()) / 2):
            lines.append(SLOW_BACKEND)
        lines += shortened(self.internal_errors, ".internal_errors")
        failed = [stop for stop in self.fallbacks if stop.id != FailedInside.id]  # the others are among the internal errors
        lines += shortened([f"{stop.function} runs uncompiled: {stop.summary()}{cure(stop)}" for stop in failed], ".fallbacks")
        alike: dict[str, list[Stop]] = {}
        for stop in self.breaks:
            alike.setdefault(stop.summary(), []).append(stop)
        lines += shortened([of_breaks(stops) for stops in alike.values()], ".breaks")
        lines += list(dict.fromkeys(entry.left_to_autograd for entry in self.entries if entry.left_to_autograd))
        if not self.entries and not self.fallbacks:
            lines.append("Nothing was compiled: the function is disabled, compiling is switched off, or no Python code of the program's ran.")
        if self.entries:
            stacks = "; call stacks: .breaks[0].text" if self.breaks else ""
            lines.append(f"{counted(len(self.guards), 'guard')}: .guards; each compiled frame: .entries{stacks}")
        return "\n".join(lines)

    __repr__ = __str__

    def _graphs(self) -> str:
        if not self.operations:
            return counted(self.graphs, "graph")
        if self.graphs > FEW:
            return f"{self.graphs} graphs of {sum(self.operations)} operations in all"
        return graphs_of(self.operations)


def shortened(texts: Sequence[str], attribute: str) -> list[str]:
    """The first few of several different texts; if there are more, a last line says how many, and which attribute has them all."""
    different = list(dict.fromkeys(texts))
    return [*different[:SHOWN], *([f"and {len(different) - SHOWN} more: {attribute}"] if len(different) > SHOWN else [])]


def of_breaks(stops: Sequence[Stop]) -> str:
    """Two lines about graph breaks with the same reason and place: the reason, the place, the cost, and what to do."""
    first = stops[0]
    times = f" ({len(stops)} times)" if len(stops) > 1 else ""
    befores, afters = [stop.before for stop in stops], [count for stop in stops for count in stop.after]
    cost = f"Cost: {listed(befores)} {'operation' if befores == [1] else 'operations'} before it, {listed(afters) or 'none'} after it."
    return f"graph break{times}: {first.summary()}\n  {cost}{cure(first)}"


def cure(stop: Stop) -> str:
    """The first piece of advice about a stop, as the end of a line."""
    return f" What to do: {stop.advice[0]}" if stop.advice else ""


@untraced
def explain(
    target: Callable[..., Any],
    *arguments: Any,
    backend: str | BackendFn | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    **unknown: Any,
) -> Callable[..., Explanation]:
    """`explain(fn, **options)(*args, **kwargs)` compiles fn again, calls it once, and returns an `Explanation` of what happened.

    The call is real: it has fn's side effects, and raises what fn raises. The code that was compiled is thrown away; fn's own compiled entries, if
    it has any, stay as they are. The options are those of `compile`. Without `backend=`, a compiled function is compiled with its own backend, and a
    plain function with the backend "eager", which generates no code: Inductor is slow to compile, and is used only if it is asked for. Graph
    breaks are reported, even if fn was compiled with `fullgraph=True`, unless `fullgraph=True` is given here.

    Raises:
        BadArgument: fn is a class, or something that `compile` doesn't take; or fn's arguments are given here instead of in the second call. The
            options raise the errors that they raise in `compile`.
        Unsupported: there is a graph break, and `fullgraph=True` is given.
    """
    name = getattr(target, "__qualname__", type(target).__qualname__)
    if arguments or unknown:
        raise BadArgument(misused(name, arguments, unknown))
    if isinstance(target, type):
        raise BadArgument(f"explain() takes what is called; got the class {target.__qualname__}: pass an instance of it")
    call = raw_call(type(target))
    if isinstance(call, CompiledFunction) and not isinstance(target, nn.Module):
        target = call.__get__(target)
    if backend is None:
        backend = backend_of(target, configured=mode is not None or bool(options))
    compiled = compile(target, backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options, isolate_recompiles=True)

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        with recording() as found:
            compiled(*args, **kwargs)
        return explanation(name, found)

    return explained


def misused(name: str, arguments: tuple[Any, ...], unknown: Mapping[str, Any]) -> str:
    """The message of the error for a call of `explain` with arguments that it doesn't take: it shows the right call."""
    option = next(iter(unknown), "")
    meant = suggestion(option, OPTIONS)
    if not arguments and meant:
        return f"explain() has no option {option!r}{meant}"
    passed = ", ".join(["..." if arguments else "", *(f"{keyword}=..." for keyword in unknown if keyword not in OPTIONS)]).removeprefix(", ")
    call = f"framejit.explain({name})({passed})"
    return f"explain() takes the function and options by name ({', '.join(OPTIONS)}); the function's arguments go into a second call: {call}"


def backend_of(target: Any, configured: bool) -> Any:
    """The backend that the target was compiled with. If it wasn't compiled, this is the default backend if `mode` or `options` are to be passed to it
    (`configured`), and otherwise "eager" in place of Inductor."""
    target = inspect.unwrap(target, stop=is_compiled) if isinstance(target, types.FunctionType) else target
    target = target.__func__ if isinstance(target, types.MethodType) else target
    target = target if isinstance(target, CompiledFunction) else raw_call(type(target))
    if isinstance(target, CompiledFunction):
        compiler: Any = target.compile_callback
        return retained.strongly(compiler.options.backend)
    default = config.current().backend
    return "eager" if default == "inductor" and not configured else default


def is_compiled(target: Any) -> bool:
    return isinstance(target, CompiledFunction)


def explanation(function: str, found: Recording) -> Explanation:
    """Make the explanation from the notes of compilations that were recorded during the call of `function`."""
    notes = found.frames
    operations = [note.operations for note in notes if note.operations is not None]
    broken = [note.broke for note in notes if note.broke is not None]
    return Explanation(
        function=function,
        graphs=len(operations),
        operations=operations,
        breaks=[stop(broke.reason, broke.stack, broke.before, tuple(broke.after)) for broke in broken],
        fallbacks=[stop(note.fallback, note.fallback_stack, function=after_break(note.function)) for note in notes if note.fallback is not None],
        entries=[
            CompiledEntry(after_break(note.function), f"{note.filename}:{note.lineno}", note.operations, note.guards, note.seconds, note.left_to_autograd)
            for note in notes
            if note.fallback is None
        ],
        seconds={stage: sum(note.seconds.get(stage, 0.0) for note in notes) for stage in STAGES},
        internal_errors=list(found.internal_errors),
    )


def stop(reason: Break, stack: tuple[UserFrame, ...], before: int = 0, after: tuple[int, ...] = (), function: str = "") -> Stop:
    innermost = stack[-1] if stack else None
    return Stop(
        id=reason.id,
        reason=reason.text(),
        place=place(stack),
        text=explain_break(reason, stack),
        expression="" if innermost is None else innermost.expression,
        advice=reason.advice(),
        before=before,
        after=after,
        function=function or ("" if innermost is None else innermost.function),
    )
