"""explain(): what compiling one call of a function comes to, as plain data that prints well."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from framejit import config
from framejit._runtime import CompiledFunction
from framejit.backends.registry import BackendFn
from framejit.breaks import Break
from framejit.directives import untraced
from framejit.driver import retained
from framejit.driver.compiled_module import raw_call
from framejit.errors import BadArgument, UserFrame, behind_break, explain_break
from framejit.report import STAGES, FrameNote, counted, place, recording
from framejit.user.api import compile


@dataclass
class Stop:
    """A place where tracing stopped. `place`: file:line; `text`: the call stack, why, and what to do; `function`: of a frame that runs uncompiled, which.

    Of a graph break, `before` and `after` count the operations in the graph up to it and in the graphs that go on behind it.
    """

    id: str
    reason: str
    place: str
    text: str
    before: int = 0
    after: tuple[int, ...] = ()
    function: str = ""


@dataclass
class CompiledEntry:
    """One compiled frame: of the function itself, or of a resume function. `operations`: of its graph, None without one.

    `left_to_autograd`: why it runs with the backend eager, where another one was asked for.
    """

    function: str
    place: str
    operations: int | None
    guards: list[str]
    seconds: dict[str, float]
    left_to_autograd: str | None = None


@dataclass
class Explanation:
    """The answer of `explain`: plain data (`dataclasses.asdict` makes it JSON). `str()` shows it all.

    Attributes:
        function: its qualified name.
        graphs: how many graphs were compiled.
        operations: in each graph, in order.
        breaks: the graph breaks that split the call.
        fallbacks: the frames that run uncompiled, with the reason.
        entries: each compiled frame with its guards.
        seconds: time per stage (trace, plan, backend, guards, emit), over all entries.
    """

    function: str
    graphs: int
    operations: list[int]
    breaks: list[Stop]
    fallbacks: list[Stop]
    entries: list[CompiledEntry]
    seconds: dict[str, float]

    def __str__(self) -> str:
        sizes = counted(self.operations[0], "operation") if self.graphs == 1 else f"{', '.join(map(str, self.operations))} operations"
        lines = [
            f"{self.function}: {counted(self.graphs, 'graph')}{f' of {sizes}' if self.operations else ''}, "
            f"{counted(len(self.breaks), 'graph break')}, {counted(len(self.fallbacks), 'frame')} uncompiled",
            "time: " + ", ".join(f"{stage} {seconds * 1000:.1f} ms" for stage, seconds in self.seconds.items()),
        ]
        for number, stop in enumerate(self.breaks, 1):
            after = " and ".join(map(str, stop.after)) or "no"
            lines += ["", f"break {number}: {stop.id} {stop.reason}", stop.text, f"Cost: {counted(stop.before, 'operation')} before it, {after} behind it"]
        for stop in self.fallbacks:
            lines += ["", f"{stop.function} runs uncompiled: {stop.id} {stop.reason}", stop.text]
        for entry in self.entries:
            size = "no graph" if entry.operations is None else counted(entry.operations, "operation")
            lines += ["", f"{entry.function} ({entry.place}): {size}, {counted(len(entry.guards), 'guard')}"]
            lines += [entry.left_to_autograd] if entry.left_to_autograd else []
            lines += [f"  {guard}" for guard in entry.guards]
        return "\n".join(lines)


@untraced
def explain(
    target: Callable[..., Any],
    *,
    backend: str | BackendFn | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Explanation]:
    """`explain(fn, **options)(*args, **kwargs)` compiles fn anew, calls it once, and tells what that came to.

    The call is real: it has fn's side effects, and raises what fn raises. What was compiled is thrown away; fn's own compiled entries,
    if it has any, stay as they are. Takes the options of `compile`. Without them, what has been compiled is compiled as it was, with its own
    backend, and a plain function with the backend "eager", which compiles nothing: Inductor takes its time, and is only used where it is asked
    for. Graph breaks are told, also of what was compiled with `fullgraph=True`, unless that is given here.

    Raises:
        BadArgument: fn is a class, or nothing that `compile` takes. The errors of `compile` for its options.
        Unsupported: at a graph break, with `fullgraph=True`.
    """
    if isinstance(target, type):
        raise BadArgument(f"explain() takes what is called; got the class {target.__qualname__}: pass an instance of it")
    call = raw_call(type(target))
    if isinstance(call, CompiledFunction) and not isinstance(target, nn.Module):
        target = call.__get__(target)
    if backend is None:
        backend = backend_of(target, configured=mode is not None or bool(options))
    compiled = compile(target, backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options, isolate_recompiles=True)
    name = getattr(target, "__qualname__", type(target).__qualname__)

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        with recording() as notes:
            compiled(*args, **kwargs)
        return explanation(name, notes)

    return explained


def backend_of(target: Any, configured: bool) -> Any:
    """The backend that the target was compiled with; for what hasn't been compiled, the default one if it is to be `configured`, else a cheap one."""
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


def explanation(function: str, notes: list[FrameNote]) -> Explanation:
    """What notes of compilations say together."""
    operations = [note.operations for note in notes if note.operations is not None]
    broken = [note.broke for note in notes if note.broke is not None]
    return Explanation(
        function=function,
        graphs=len(operations),
        operations=operations,
        breaks=[stop(broke.reason, broke.stack, broke.before, tuple(broke.after)) for broke in broken],
        fallbacks=[stop(note.fallback, note.fallback_stack, function=behind_break(note.function)) for note in notes if note.fallback is not None],
        entries=[
            CompiledEntry(behind_break(note.function), f"{note.filename}:{note.lineno}", note.operations, note.guards, note.seconds, note.left_to_autograd)
            for note in notes
            if note.fallback is None
        ],
        seconds={stage: sum(note.seconds.get(stage, 0.0) for note in notes) for stage in STAGES},
    )


def stop(reason: Break, stack: tuple[UserFrame, ...], before: int = 0, after: tuple[int, ...] = (), function: str = "") -> Stop:
    return Stop(reason.id, reason.text(), place(stack), explain_break(reason, stack), before, after, function)
