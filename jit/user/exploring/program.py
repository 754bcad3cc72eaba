"""`Program`, the program that is explored: it is compiled for one set of sizes after another without being run, and run uncompiled."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from types import FunctionType, MethodType
from typing import Any, NoReturn

import torch
from torch import fx, nn

from framejit import config
from framejit._runtime import CompiledFunction, Entry, set_thread_disabled
from framejit.backends.registry import lookup
from framejit.driver.callback import Compiler, call_of
from framejit.driver.compiled_module import Function, module_in
from framejit.driver.options import Options
from framejit.driver.request import Origin
from framejit.driver.second_run import random_state, set_random_state
from framejit.errors import BadArgument, FramejitError, UserFrame
from framejit.guards.dynamic import NONE, Dynamic
from framejit.guards.source import Call, Source
from framejit.program.code_kinds import OURS
from framejit.quick_dataclass import dataclass
from framejit.report import FrameNote, place, recording
from framejit.said import stance
from framejit.user.api import compile_target
from framejit.user.exploring.conditions import Condition, Conditions, position_of
from framejit.user.exploring.example_inputs import ExampleInputs, Position, places_of_arguments
from framejit.user.exploring.regions import Sizes


class NotRun(FramejitError):
    """Signal: a call has been compiled, and must not run."""


@contextlib.contextmanager
def compiling_anyway() -> Iterator[None]:
    """Have calls compiled in the `with` block whatever the program says to framejit about that, and end the block at a call that must not run."""
    enabled = set_thread_disabled(False)
    stance.enter("default")
    try:
        yield
    except NotRun:
        pass
    finally:
        stance.leave()
        set_thread_disabled(enabled)


@dataclass(frozen=True, slots=True)
class ChosenSizes(Dynamic):
    """The sizes and ints that vary. `tensors`: dimensions, by the tensor's id; `ints`: positions in the frame's arguments."""

    tensors: Mapping[int, frozenset[int]] = field(default_factory=dict)
    ints: frozenset[Position] = frozenset()

    def dimensions(self, source: Source, tensor: torch.Tensor) -> frozenset[int]:
        return self.tensors.get(id(tensor), NONE)

    def has_number(self, source: Source, value: float) -> bool:
        return position_of(source) in self.ints


class PrivateCompiler(Compiler):
    """Compiles each call of a function again, with symbols for the sizes and ints that vary, and never lets it run.

    `bound`: the number of arguments before the call's own. `compiled`: the last call, with its entry; None if none was made.
    """

    def __init__(self, options: Options, example: ExampleInputs, bound: int) -> None:
        super().__init__(options)
        self.example = example
        self.bound = bound
        self.tensors: Sequence[torch.Tensor] = ()
        self.compiled: tuple[Call, Entry | None] | None = None

    def __call__(self, function: FunctionType, args: tuple[Any, ...]) -> NoReturn:
        call = call_of(function, args)
        module = module_in(call.locals[0]) if call.locals else None
        origin = Origin(self.history.next_number(), None, None if module is None else weakref.ref(module))
        self.compiled = call, self._compile(self._subject(call, module, ()), origin)
        raise NotRun

    def dynamic(self, call: Call) -> Dynamic:
        tensors = {id(made): frozenset(tensor.symbols) for made, tensor in zip(self.tensors, self.example.tensors, strict=True)}
        return ChosenSizes(tensors=tensors, ints=frozenset(self.int_symbols(call)))

    def int_symbols(self, call: Call) -> dict[Position, str]:
        """The names of the ints that vary, by their positions in the frame's arguments."""
        signature = inspect.signature(call.function, follow_wrapped=False)
        places = places_of_arguments(signature, self.bound, len(self.example.args), self.example.kwargs)
        return {(*places[first], *steps): number.symbol for number in self.example.ints for first, *steps in number.positions}


@dataclass(frozen=True, slots=True)
class Found:
    """The result of compiling one call. `conditions` is None if the guards don't say for which calls the result holds."""

    conditions: tuple[Condition, ...] | None
    graphs: tuple[fx.GraphModule, ...]
    stopped: str
    stopped_at: UserFrame | None
    unfollowed: tuple[str, ...]


def keeping(graphs: list[fx.GraphModule]) -> Callable[..., Any]:
    """A backend that adds each graph to a list."""

    def backend(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(gm)
        return gm.forward

    return backend


def privately(compilers: list[PrivateCompiler], example: ExampleInputs, bound: int) -> Callable[[Function, Options, bool], CompiledFunction]:
    """A function that makes CompiledFunctions, and adds the PrivateCompiler of each to a list. It doesn't lead to what is compiled, which would keep that."""

    def make(function: Function, settings: Options, pooled: bool) -> CompiledFunction:
        compilers.append(PrivateCompiler(settings, example, bound))
        return compilers[-1].attach(function)

    return make


class Program:
    """The program that is explored. It can be compiled for sizes, without being run, and run uncompiled."""

    def __init__(self, target: Any, example: ExampleInputs) -> None:
        self.target = target
        self.example = example
        self._graphs: list[fx.GraphModule] = []
        self._compilers: list[PrivateCompiler] = []
        eager = lookup("eager")
        takes = dataclasses.replace(eager.takes, joins_branches=False, guards_data=False)
        backend = dataclasses.replace(eager, name="valid_inputs", call=keeping(self._graphs), takes=takes)
        own = config.current()
        checks = ",".join(sorted(own.checks() - {"results", "guards"}))  # which are about calls that run
        settings = Options(backend, fullgraph=False, config=dataclasses.replace(own, check=checks), isolated=True)
        self._compiled = compile_target(target, settings, make=privately(self._compilers, example, int(isinstance(target, (MethodType, nn.Module)))))
        if not self._compilers:
            raise BadArgument(f"valid_inputs(): {target!r:.80} is not compiled: it is disabled, or compiling is")

    def compile(self, sizes: Sizes) -> Found:
        """Compile for these sizes, and run nothing."""
        (args, kwargs), tensors = self.example.make(sizes)
        compiler = self._compilers[0]
        compiler.tensors, compiler.compiled = tensors, None
        self._graphs.clear()
        with recording() as found, compiling_anyway():
            self._compiled(*args, **kwargs)
        if compiler.compiled is None:
            raise BadArgument(f"valid_inputs(): {self.target!r:.80} is not compiled here: something keeps framejit from it")
        (call, entry), compiler.compiled, compiler.tensors = compiler.compiled, None, ()
        stopped, at = why_stopped(found.frames)
        if entry is None or not entry.spec.guards:
            return Found(None, (), stopped or "the call runs uncompiled", at, ())
        conditions = Conditions(self.example, call, tensors, compiler.int_symbols(call))
        return Found(tuple(conditions.of(entry.spec.guards)), tuple(self._graphs), stopped, at, tuple(conditions.unfollowed))

    def run(self, sizes: Sizes) -> Exception | None:
        """Run the program uncompiled, and return the error that it raises, or None."""
        (args, kwargs), _ = self.example.make(sizes)
        seeds = random_state()
        disabled = set_thread_disabled(True)
        try:
            self.target(*args, **kwargs)
        except Exception as error:
            return error
        finally:
            set_thread_disabled(disabled)
            set_random_state(seeds)
        return None


def why_stopped(notes: Sequence[FrameNote]) -> tuple[str, UserFrame | None]:
    """The reason why a trace has stopped, and the place; an empty text and None if it has reached the end."""
    for note in notes:
        reason, stack = (note.broke.reason, note.broke.stack) if note.broke is not None else (note.fallback, note.fallback_stack)
        if reason is not None:
            return f"{reason} ({place(stack)})", stack[-1] if stack else None
    return "", None


def frames_of(error: BaseException) -> list[UserFrame]:
    """The frames that an error came through, outermost first, without framejit's."""
    frames, traceback = [], error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(OURS):
            frames.append(UserFrame.of(code, next(itertools.islice(code.co_positions(), traceback.tb_lasti // 2, None), None)))
        traceback = traceback.tb_next
    return frames
