"""The tracer: the VM that objects and the interpreter see, for one trace of one frame and everything it calls."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, NoReturn, TypeVar

from framejit import breaks
from framejit.bytecode.abort import has_handler
from framejit.bytecode.instruction import Instruction, Position
from framejit.bytecode.splice import original_offset
from framejit.ceval.closing import drops_silently, is_kept, not_held_by_callers, real_waiting_generator, waiting_generator
from framejit.ceval.frame import Frame, State
from framejit.ceval.handlers import meets_handler
from framejit.ceval.loop import resume, run
from framejit.ceval.signals import Yield
from framejit.config import Config
from framejit.effects import Effects
from framejit.errors import FramejitError, ResumeError, UserFrame, note_place, program_name
from framejit.graph.builder import GraphBuilder
from framejit.graph.demands import Demands
from framejit.graph.metadata import UserPlace
from framejit.guards.dynamic import STATIC, Dynamic
from framejit.guards.kinds import Guard, TypeIs, ValueIs
from framejit.guards.recorder import GuardRecorder
from framejit.guards.relations import Relation, Same
from framejit.guards.source import (
    MISSING,
    Call,
    FrameFunction,
    InstanceDict,
    Local,
    Path,
    Pinned,
    Root,
    Slot,
    Source,
    UserLine,
)
from framejit.objects.core import build, differences
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.finalizers import held
from framejit.objects.core.object import LazyObject, NotConstant, Object, Raise, settle
from framejit.objects.core.registry import CODES, wrapper_for
from framejit.objects.core.vm import PlainCode
from framejit.objects.types import exceptions
from framejit.objects.types.builtinobject import bound_method
from framejit.objects.types.constobject import const_object
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.exceptions import ExceptionObject
from framejit.objects.types.funcobject import FunctionObject, bind
from framejit.objects.types.genobject import GeneratorObject, OutsideGenerator
from framejit.objects.types.instancedict import InstanceDictObject
from framejit.objects.types.madeclass import retire
from framejit.process import interrupts
from framejit.process.when_needed import when_needed
from framejit.program import classes, code_kinds
from framejit.program.code_kinds import OURS
from framejit.reporting import stacks
from framejit.said import directives
from framejit.torch_state.symbols import need_data
from framejit.tracing import boundary, giving_up, looks, passage, plain_code
from framejit.tracing.app_namespace import AppNamespace
from framejit.tracing.classlookup import SCALARS, ClassLookups
from framejit.tracing.is_compiling import Answers, Withheld
from framejit.tracing.keys import Keys
from framejit.tracing.stops import Ahead, GraphBreak, Place, Restart, RestartForGood
from framejit.tracing.watches import Watches
from framejit.trail import Trail

branches = when_needed("framejit.tracing.branches")
splitting = when_needed("framejit.tracing.splitting")
suspended = when_needed("framejit.tracing.suspended")

T = TypeVar("T")
COROUTINE_FLAGS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def is_of_program(frame: Frame) -> bool:
    """Return whether a frame is shown to the user: it is neither a stand-in of framejit nor one of its wrappers."""
    return type(frame.globals) is not AppNamespace and frame.code.co_filename != code_kinds.REGIONS


class Tracer:
    """One trace. `args`: the frame's raw argument slots (MISSING if unset). `changing`: values, by path, whose contents must not be guarded.

    `breaks_at`: the places (see Restart) at which it must break, and why. `names`: the names in reports for the values in a resumed frame's state.
    `ways`: the number of branches on data around the present instruction of which both ways are traced. `dynamic`, `demands`: see GraphBuilder.
    `withheld`: where the program isn't told that it is compiled.
    """

    _met_in_copies: tuple[Object, ...] = ()

    def __init__(
        self,
        function: FunctionType,
        args: Sequence[Any],
        config: Config,
        changing: Container[Path] = (),
        breaks_at: Mapping[Place, breaks.Break] | None = None,
        names: Mapping[Path, str] | None = None,
        dynamic: Dynamic = STATIC,
        demands: Demands = Demands(),
        withheld: Withheld = Withheld(),
    ) -> None:
        self.function = function
        self.changing = changing
        self.breaks_at = breaks_at or {}
        self.files: set[str] = set()
        self.args = args
        self.call = Call(tuple(args), function)
        self.handled_by_caller = self.call.handled
        self.config = config
        self.checking = "compile" in config.checks()
        self.trail = Trail()
        self.root_source = Root(names)
        self.guards = GuardRecorder(self.trail, self.root_source, self.user_line)
        self.graph = GraphBuilder(self, dynamic=dynamic, demands=demands)
        self.graph.copies_calls = config.copy_repeated and not changing and not dynamic.gives_symbols()
        self.effects = Effects(self)
        self.directives = self.directives_before = directives.CURRENT.get()
        self.answers = Answers(self, withheld)
        self.frame: Frame | None = None
        self.root: Frame | None = None
        self.depth = self.ways = 0
        self.jumps_back = 0
        self.handled = has_handler(function)
        self.resumed = original_offset(function.__code__, 0) is not None
        self.has_generators = real_waiting_generator(tuple(args)) is not None
        self.guarded_generators: list[Frame] = []
        self.failed_stand_ins: list[Frame] = []
        self.rebuilt: list[Frame] = []
        self.asks_for_end: Frame | None = None  # the frame that `next_with_end` runs in
        self._wrapped: dict[Source, Object] = {}
        self._shared: dict[int, Object] = {}
        self._watches = Watches()
        self._constants: dict[int, Object] = {}
        lookups = self.lookups = ClassLookups(self)
        self.raw_type_lookup, self.type_lookup = lookups.raw, lookups.object_of
        self.rest_on_bases, self.store_on_class = lookups.rest_on_bases, lookups.store
        keys = Keys(self)
        self.identity_key, self.tell_apart = keys.identity_key, keys.tell_apart
        self._namespaces: dict[int, DictObject] = {}
        self._lines: dict[tuple[Instruction, Instruction | None], UserLine] = {}
        self._frames: dict[Instruction, UserFrame] = {}

    # Running the traced frame.

    def run(self) -> Object:
        """Trace the frame to its end. Raises GraphBreak, or Raise if the traced program raises."""
        code = self.function.__code__
        names = code.co_varnames
        bound: dict[str, Object | None] = {}
        for index, value in enumerate(self.args):
            bound[names[index]] = None if value is MISSING else self.wrap(value, self.root_source.child(Local, Slot(index, names[index])))
        source = self.root_source.child(FrameFunction)
        root = FunctionObject(code, self.globals_of(self.function.__globals__), self.function.__qualname__, source, self.function)
        root.checked = True
        self._shared[id(self.function)] = root
        self.root = self.new_frame(root, bound)
        self.graph.function_modes.begin(passage.modes_of_caller(self))
        return self.run_frame(self.root)

    def new_frame(self, function: FunctionObject, bound: dict[str, Object | None]) -> Frame:
        self.files.add(function.code.co_filename)
        namespace = function.globals
        own_builtins = function.builtins or self.globals_of(function.value.__builtins__)
        return Frame(function.code, bound, namespace, own_builtins, function, function.cells(self), None, self.frame)

    def run_frame(self, frame: Frame) -> Object:
        caller, self.frame = self.frame, frame
        self.depth += 1
        try:
            if self.depth > self.config.inline_depth_limit:
                giving_up.too_deep(self, frame)
            skipped = boundary.reason_to_skip(self, frame)
            if skipped is not None:
                self.unsupported(skipped)
            return self.answers.returned(frame, run(self, frame))
        except NotConstant as needed:
            self.unsupported(breaks.UnsupportedValue(repr(needed.obj)))
        except need_data() as needed:
            self.unsupported(self.graph.unbacked.reason(needed.cond))
        except Exception as error:
            if not isinstance(error, (Raise, GraphBreak, FramejitError)):
                if self.resumed and splitting.is_restoring(frame):
                    raise ResumeError(f"framejit failed to go on in {frame.code.co_name}: {type(error).__name__}: {error}") from error
                note_place(error, self.user_stack())
            raise
        finally:
            self.depth -= 1
            self.frame = caller

    def run_function(
        self, function: Object, bound: dict[str, Object | None], delivery: Delivery | None = None, namespace: Object | None = None
    ) -> Object:
        assert isinstance(function, FunctionObject)
        assert namespace is None or isinstance(namespace, DictObject)
        code = function.code
        if code.co_flags & COROUTINE_FLAGS:
            self.unsupported(breaks.GeneratorFrame(code.co_qualname))
        if code in self.breaks_at:
            self.unsupported(self.breaks_at[code])
        foreseen = boundary.foreseen(self.frame, code) or looks.by_debugger(code, function.globals.value)
        if foreseen is not None:
            self.unsupported(foreseen)
        frame = self.new_frame(function, bound)
        frame.delivery = delivery
        frame.namespace = namespace
        return self.run_frame(frame)

    def resume_generator(self, generator: Object, sent: Object, exc: Object | None) -> tuple[Object, bool]:
        assert isinstance(generator, GeneratorObject) and self.frame is not None
        frame: Frame = suspended.frame_of(self, generator, self.frame) if isinstance(generator, OutsideGenerator) else generator.frame
        if frame.state is State.RUNNING:
            if not generator.is_generator():
                self.unsupported(breaks.UnsupportedOperation(f"a step of a {classes.qualname(generator.cls)} inside a step of it"))
            self.raise_(ValueError, "generator already executing")
        if frame.state is State.FINISHED:
            if frame in self.failed_stand_ins:
                self.restart_without(generator)
            if exc is not None:
                raise Raise(exc, thrown=True)
            return self.const(None), True
        if frame.state is State.CREATED and exc is None and self.observe(sent).cls is not type(None):
            self.raise_(TypeError, "can't send non-None value to a just-started generator")
        frame.delivery = None
        self.effects.mutated(generator)
        self.trail.changed(frame, frame.restore, frame.snapshot())
        caller, self.frame = self.frame, frame
        self.depth += 1
        try:
            signal = resume(self, frame, sent, exc, caller)
        except Raise as raised:
            if not generator.is_generator():
                if exceptions.is_stop_iteration_of_generator(raised.exc):
                    self.restart_without(generator)
                self.failed_stand_ins.append(frame)
                self.trail.learned(self, self.failed_stand_ins.pop)
            raise
        finally:
            self.depth -= 1
            self.frame = caller
        if type(signal) is Yield:
            self.check_waiting(generator)
        return signal.value, type(signal) is not Yield

    def check_waiting(self, generator: GeneratorObject) -> None:
        """A generator waits at a `yield`. If closing it runs something there, it must be closed at its moment."""
        frame: Frame = generator.frame
        if isinstance(generator, OutsideGenerator):
            suspended.check_left(self, frame)
        if frame.decoded.handler_at[frame.pc] is None and not frame.instruction.value:  # the iterator that it delegates to may have a `close()`
            return
        if generator.source is None and frame not in self.guarded_generators:
            self.guarded_generators.append(frame)
            self.trail.learned(self, self.guarded_generators.pop)
        elif generator.source is not None and self.has_generators and not is_kept(self, self.frame, generator):
            self.unsupported(breaks.RunsAtEnd(f"a generator of {frame.code.co_qualname}"))

    def next_with_end(self, iterator: Object) -> Object | None:
        before, self.asks_for_end = self.asks_for_end, self.frame
        try:
            return iterator.next(self)
        finally:
            self.asks_for_end = before

    def hands_on_ends(self) -> bool:
        frame = self.frame
        while frame is not None and frame is not self.asks_for_end and frame.code.co_filename.startswith(OURS):
            frame = frame.parent  # a stand-in for an iterator in C
        return frame is not None and frame is self.asks_for_end

    def restart_without(self, stand_in: GeneratorObject) -> NoReturn:
        """Restart without a stand-in that has raised: an iterator in C continues after an exception, and ends at StopIteration; its stand-in doesn't."""
        raise Restart(stand_in.frame.code, breaks.InterruptedIterator(f"a {classes.qualname(stand_in.cls)} that has raised"))

    def check_generators(self) -> None:
        """Restart for a generator that is dropped inside a `try`, `with` or `yield from`: it runs handlers, or closes its iterator, at an unknown moment."""
        for frame in self.guarded_generators:
            if frame.state is State.SUSPENDED and frame not in self.rebuilt and not drops_silently(self, frame):
                raise Restart(frame.code, breaks.RunsAtEnd(f"a generator of {frame.code.co_qualname}"))

    def lets_go(self, values: Iterable[Any]) -> None:
        """An instruction releases values, of which callers may hold some. If one has a generator that must be closed, the instruction runs natively."""
        generator = waiting_generator(self, not_held_by_callers(self.frame, values))
        if generator is not None:
            self.unsupported(breaks.RunsAtEnd(f"a generator of {generator.gi_code.co_qualname}"))

    def held_arguments(self) -> list[Source]:
        """The sources of values that the replacement code must keep alive until it ends: those that a resumed frame had when it was resumed.

        What the variables of the outermost frame no longer hold comes first, and then what they hold, in the order in which CPython lets go of variables.
        """
        if not self.resumed:
            return []
        assert self.root is not None
        slots = {id(settle(value)): slot for slot, value in enumerate(self.root.locals) if value is not None}
        values = [part for source in self.call_sources()[1:] for part in held(self._wrapped[source])]
        sign = -1 if differences.LAST_VARIABLE_ENDS_FIRST else 1
        values.sort(key=lambda value: sign * slots[id(value)] if id(value) in slots else -math.inf)
        return [value.source for value in values if value.source is not None]

    def note_handlers(self) -> bool:
        """An operation enters the graph, whose exceptions come late. Return whether the program has a handler for these, or
        can see where they are raised, because the exception being handled there becomes their context."""
        found = self.has_handler()
        if found:
            self.note_handled()
        return found

    def note_handled(self) -> None:
        """Note that the program has a handler for what an operation in the graph raises."""
        if not self.handled:
            self.trail.set(self, "handled", True)

    def has_handler(self) -> bool:
        """Return whether the program has a handler for what is raised here, or can see where it is raised, as in `note_handlers`."""
        return meets_handler(self.frame) or (self.frame is not None and self.frame.current_exception() is not None)

    def call_sources(self) -> list[Source]:
        """The sources of the function and of its argument slots, with which it can be called again."""
        code = self.function.__code__
        slots = [self.root_source.child(Local, Slot(index, name)) for index, name in enumerate(code.co_varnames[: len(self.args)])]
        return [self.root_source.child(FrameFunction), *slots]

    def call_app(self, function: Callable[..., Any], args: Sequence[Object], kwargs: dict[str, Object] | None = None) -> Object:
        assert isinstance(function, FunctionType)
        made = self.pin_app(function)
        result = self.run_function(made, bind(self, made, list(args), kwargs or {}))
        if isinstance(result, GeneratorObject):
            meaning = CODES.get(id(function.__code__))
            result.cls = result.cls if meaning is None else meaning.gives or result.cls
        return result

    def pin_app(self, function: FunctionType) -> FunctionObject:
        found = self._constants.get(id(function))
        if found is None:
            namespace = self._namespaces.get(id(function.__globals__))
            if namespace is None:
                namespace = AppNamespace(dict, None, function.__globals__)
                self._namespaces[id(function.__globals__)] = namespace
                self.trail.learned(self, self._namespaces.pop, id(function.__globals__))
            found = self._constants[id(function)] = FunctionObject(function.__code__, namespace, function.__qualname__, None, function)
            self.trail.learned(self, self._constants.pop, id(function))
        assert isinstance(found, FunctionObject)
        return found

    # Stopping.

    def unsupported(self, reason: breaks.Break) -> NoReturn:
        frames = [] if self.frame is None else list(self.frame.callers())
        raise GraphBreak(reason, self.user_stack(), frames[::-1])

    def attempt(self, run: Callable[[], Any]) -> Any:
        mark = self.trail.mark()
        try:
            result = run()
        except (GraphBreak, NotConstant):
            result = None
        if result is None:
            self.trail.undo_to(mark)
        return result

    def raise_(self, cls: type[BaseException], *args: Any, **fields: Any) -> NoReturn:
        exc = ExceptionObject(cls, [self.from_real(arg) for arg in args])
        exc.fields = {name: self.from_real(value) for name, value in fields.items()}
        raise Raise(exc)

    def handled_exception(self) -> Object | None:
        assert self.frame is not None
        return self.frame.current_exception() or passage.handled_by_caller(self)

    def is_handling(self) -> bool:
        return self.frame is not None and self.frame.current_exception() is not None

    def chain_context(self, exc: Object, handled: Object | None) -> None:
        handled = handled or (self.frame and self.frame.current_exception()) or passage.context_of_caller(self, exc)
        if handled is not None:
            exceptions.chain_context(self, exc, handled)

    def add_traceback(self, exc: Object, frame: Frame, reraised: bool) -> None:
        passage.note(self, self.observe(exc), frame, reraised)

    def count_iteration(self) -> None:
        """A loop begins again. A trace that would not end is given up."""
        interrupts.heed()
        self.jumps_back += 1
        if self.jumps_back > self.config.unroll_limit:
            assert self.frame is not None
            giving_up.too_long(self, self.frame)

    def choose_way(self, frame: Frame, condition: Object, if_true: int, if_false: int) -> int:
        return branches.choose_way(self, frame, condition, if_true, if_false)

    def dispose(self) -> None:
        """Release everything: a trace is full of reference cycles, and would keep its inputs alive until they are collected."""
        self.trail.forget()
        retire(self.trail)
        for lazy in self._wrapped.values():  # plans are full of cycles too
            real = settle(lazy)
            if real.source is not None:
                real.value = None
            lazy.value = lazy.real = None  # type: ignore[attr-defined]
        self.graph.dispose()
        self.root_source.forget_children()
        self.__dict__.clear()

    def where(self) -> str:
        """The path of the innermost module that is being traced; empty outside modules. Another thread may ask, also after the trace has ended."""
        graph = self.__dict__.get("graph")
        modules = getattr(graph, "module_stack", None)
        return next(reversed(modules), "") if modules else ""

    def place(self) -> tuple[CodeType, int]:
        assert self.frame is not None
        place = self.frame.code, self.frame.pc
        if place in self.breaks_at:
            self.unsupported(self.breaks_at[place])
        return place

    def user_range(self) -> tuple[Any, ...]:
        return self.user_stack()[-1].range

    def break_known_at(self, text_range: tuple[Any, ...]) -> breaks.Break | None:
        return self.breaks_at.get(text_range)

    def restart(self, place: tuple[CodeType, int], reason: breaks.Break) -> NoReturn:
        raise Restart(place, reason)

    def restart_for_good(self, text_range: tuple[Any, ...], reason: breaks.Break) -> NoReturn:
        raise RestartForGood(text_range, reason)

    def ahead(self, run: Callable[[], object], reason: breaks.Break) -> NoReturn:
        raise Ahead(run, self.place(), reason)

    def rebuild_generator(self, generator: Object) -> tuple[Callable[[tuple[Any, ...]], Any], Object]:
        return splitting.rebuild_generator(self, generator)

    # Positions.

    def user_stack(self, frame: Frame | None = None) -> list[UserFrame]:
        """The frames of the traced program, outermost first, down to the innermost one or to the given one; framejit's own stand-ins and
        wrappers are left out."""
        stack = []
        known = self._frames
        frame = frame or self.frame
        while frame is not None:
            if is_of_program(frame):
                instruction = frame.decoded.instructions[frame.pc]
                found = known.get(instruction)
                if found is None:
                    found = known[instruction] = UserFrame.of(frame.code, instruction.position)
                stack.append(found)
            frame = frame.parent
        stack.reverse()
        return stack

    def user_places(self) -> tuple[UserPlace, ...]:
        places: list[UserPlace] = []
        frame = self.frame
        while frame is not None:
            if is_of_program(frame):
                places.append((None if frame is self.root else frame.code, frame.instruction.offset))
            frame = frame.parent
        return tuple(reversed(places))

    def root_position(self) -> Position:
        assert self.root is not None
        return self.root.position()

    def is_in_loop(self) -> bool:
        """Return whether a loop of the program may reach this place again; loops of library machinery don't count."""
        frame = self.frame
        while frame is not None and not giving_up.loops(frame):
            frame = frame.parent
        return frame is not None

    def caller(self, level: int) -> tuple[Frame, int] | None:
        frame = self.frame
        while frame is not None and (level > 0 or type(frame.globals) is AppNamespace):
            meaning = CODES.get(id(frame.code))
            level -= 1 if type(frame.globals) is not AppNamespace else 0 if meaning is None else meaning.frames
            frame = frame.parent
        return None if frame is None or level < 0 else (frame, frame.lineno)

    @property
    def plain_code(self) -> PlainCode:
        return plain_code

    def uses_up_result(self) -> bool:
        return self.frame is not None and looks.uses_up_result(self.frame)

    def user_line(self) -> UserLine | None:
        """The program's present place, for guards."""
        frame = self.frame
        while frame is not None and type(frame.globals) is AppNamespace:
            frame = frame.parent
        if frame is None:
            return None
        if frame.code.co_filename.startswith(code_kinds.HIDDEN):
            frame = stacks.caller(frame)
        caller = frame.parent if code_kinds.is_library_file(frame.code.co_filename) else None
        while caller is not None and code_kinds.is_library_file(caller.code.co_filename):
            caller = caller.parent
        return self._line(frame, caller)

    def _line(self, frame: Frame, caller: Frame | None) -> UserLine:
        """The place of a frame; for a library's function, together with the program's line that led there."""
        instruction = frame.decoded.instructions[frame.pc]
        key = instruction, None if caller is None else caller.decoded.instructions[caller.pc]
        line = self._lines.get(key)
        if line is None:
            columns = (instruction.position.end_lineno, instruction.position.column, instruction.position.end_column)
            led_here = None if caller is None else self._line(caller, None)
            line = UserLine(frame.code.co_filename, frame.lineno, program_name(frame.code.co_qualname), columns, led_here)
            self._lines[key] = line
        return line

    # Guards.

    def rest_on_directives(self) -> None:
        """Guard the directives to the tracer that were in force when the trace began."""
        self.guards.directives(self.directives_before)

    def guard(self, guard_class: type[Guard], source: Source, *payload: Any) -> None:
        self.rest_on(guard_class(source, self.user_line(), *payload))

    def rest_on(self, guard: Guard) -> None:
        if self.changing and (changing := [source for source in guard.contents() if source.path() in self.changing]):
            self.unsupported(breaks.ChangesFromCallToCall(changing[0].name_in_reports()))
        self.guards.add(guard)

    def rest_on_all(self, guards: Sequence[Guard]) -> None:
        assert not self.changing  # such a trace copies no calls
        self.guards.adopt(guards)

    def relate(self, guard_class: type[Relation], source: Source, *payload: Any) -> None:
        self.guards.relation(guard_class, source, *payload)

    # Values.

    def wrap(self, value: Any, source: Source) -> Object:
        found = self._wrapped.get(source)
        if found is None:
            found = self._wrapped[source] = LazyObject(value, source)
        return found

    def observe(self, obj: Object) -> Object:
        if type(obj) is not LazyObject:
            return obj
        real = obj.real
        if real is None:
            assert obj.source is not None
            real = self.observe_at(obj.value, obj.source, True)
            obj.real = real
            self.trail.learned(obj, setattr, obj, "real", None)
        return real

    def noting_looks(self, run: Callable[[], T]) -> tuple[T, list[Object]]:
        """The result of `run`, and the values from outside that it has observed, even if not for the first time."""
        looked_at: list[Object] = []
        observe, around = self.observe, vars(self).get("observe")

        def noted(obj: Object) -> Object:
            if obj.source is not None:
                looked_at.append(obj)
            return observe(obj)

        self.observe = noted  # type: ignore[method-assign]  # only on this trace, and only for now, so that observing costs nothing otherwise
        try:
            return run(), looked_at
        finally:
            if around is None:
                del self.observe
            else:
                self.observe = around  # type: ignore[method-assign]

    def noting_whether(self, run: Callable[[], T], values: Sequence[Object], lists: Sequence[Object] = ()) -> tuple[T, bool]:
        """The result of `run`, and whether it has observed one of these values, even if not for the first time, or one of `lists`, other than for an item."""
        watches, observe, around = self._watches, self.observe, vars(self).get("observe")

        def noted(obj: Object) -> Object:
            real = observe(obj)
            if id(real) in watches.values:
                watches.note(real, self.frame)
            return real

        if is_first := not watches.begun:
            self.observe = noted  # type: ignore[method-assign]  # as in `noting_looks`; one function serves all calls that are inside one another
        watch = watches.begin(values, lists)
        try:
            return run(), watch.seen
        finally:
            watches.end()
            if is_first and around is None:
                del self.observe
            elif is_first:
                self.observe = around  # type: ignore[assignment, method-assign]

    def observe_at(self, value: Any, source: Source, check: bool) -> Object:
        """The Object of the value at a source. `check`: whether its type, or its identity, must be guarded."""
        if not classes.known_by_identity(type(value)):
            self.unsupported(breaks.UnsupportedValue(f"a {classes.qualname(type(value))}, whose class hashes or compares by code of its metaclass"))
        wrapper = wrapper_for(type(value))
        if wrapper.shared:
            known = self._shared.get(id(value))
            if known is not None and not (wrapper.separable and self.graph.tells_apart):
                if known.source is not source and known.source is not None:
                    self.relate(Same, source, known.source)
                return known
        if check and not isinstance(source, Pinned):
            if wrapper.by_identity:
                if issubclass(type(value), BuiltinFunctionType) and (method := bound_method(self, value, source)) is not None:
                    return method
                self.guard(ValueIs, source, value)
                if classes.is_metaclass(type(value)):
                    self.guard(TypeIs, source, type(value))
            else:
                self.guard(TypeIs, source, type(value))
        obj = wrapper.wrap(self, value, source)
        if wrapper.shared and id(value) not in self._shared:
            self._shared[id(value)] = obj
            self.trail.learned(self, self._shared.pop, id(value))
        return obj

    def const(self, value: Any) -> Object:
        cls = type(value)
        if cls in SCALARS:
            return const_object(self, value)
        found = self._constants.get(id(value))
        if found is None or found.value is not value:
            found = const_object(self, value)
            if found.value is value:
                # The values that it refers to (a function's globals) may be known only from here on.
                self._constants[id(value)] = found
                self.trail.learned(self, self._constants.pop, id(value))
        return found

    def pin(self, value: Any) -> Object:
        if type(value) is FunctionType and code_kinds.is_stand_in(value):
            return self.pin_app(value)
        wrapper = wrapper_for(type(value))
        if wrapper.by_identity or type(value) in SCALARS:
            return self.const(value)
        source = self.root_source.child(Pinned, value)
        if classes.instances_change_class(type(value)):
            self.guard(TypeIs, source, type(value))
        return self.observe_at(value, source, False)

    def from_real(self, value: Any) -> Object:
        return build.from_real(self, value)

    def shared_values(self) -> list[Object]:
        """Every value from outside that is mutable or compared by identity and has been observed, or would have been if a call hadn't been copied."""
        return [*self._shared.values(), *self._met_in_copies]

    def meet_in_copy(self, values: Sequence[Object], inputs: Sequence[Object]) -> None:
        for obj in inputs:
            self._shared[id(obj.value)] = obj
            self.trail.learned(self, self._shared.pop, id(obj.value))
        self.trail.set(self, "_met_in_copies", (*self._met_in_copies, *values))

    def met(self, value: object) -> Object | None:
        return self._shared.get(id(value))

    def globals_of(self, namespace: dict[str, Any]) -> DictObject:
        found = self._namespaces.get(id(namespace))
        if found is None:
            source = self.root_source.child(Pinned, namespace)
            known = self._shared.get(id(namespace))
            found = known if isinstance(known, DictObject) else DictObject(type(namespace), source, namespace)
            self._namespaces[id(namespace)] = found
            self.trail.learned(self, self._namespaces.pop, id(namespace))
            if found is not known:
                self._shared[id(namespace)] = found
                self.trail.learned(self, self._shared.pop, id(namespace))
        return found

    def instance_dict_of(self, obj: Object) -> DictObject | None:
        if classes.dictoffset(obj.cls) == 0:
            return None
        if obj.source is None:
            return InstanceDictObject(obj)
        source = obj.source.child(InstanceDict)
        namespace = source.step(obj.value)
        if namespace is MISSING:  # asyncio's futures and tasks
            self.unsupported(breaks.UnsupportedValue(f"a {classes.qualname(obj.cls)}, which has attributes but no __dict__ to read them from"))
        found = self.observe(self.wrap(namespace, source))
        assert isinstance(found, DictObject)
        return found
