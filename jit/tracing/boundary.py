"""Moves a graph break inside library code to the program's call of the library.

    def forward(self, x):
        y = x.sin()
        logger.info("step %d", 3)      # breaks ten calls deeper, in TextIOWrapper.write: the call is split here, once
        return y.cos()

Hardly any tensors are used inside such a call, so splitting the library's own frames would only make many useless pieces. What the trace has
done since the call began is undone; the call runs natively as a whole, and functions of the program that it calls back are compiled on
their own (upcalls.py). So the frames of a break are examined from the program's innermost one inwards:

- The standard library's are never split, nor are those of `torch.autograd.functional`, which run a backward pass for each number, nor those of
  `torch.func`'s transforms.
- Its wrappers (`contextlib`, `functools`), torch's machinery, installed packages that don't use torch, and generated code are split
  only if an operation has entered the graph since they were called: otherwise it would run outside of graphs.
- Frames of tensor code (`torch.nn`, models in packages) are split as the program's, unless one of the above lies around them. So are wrappers that
  a decorator has put around such code, or around the program's: otherwise most of what they call would run outside of graphs.
- Functions that compute no tensors, no matter whose, run natively as a whole if what they draw or compute decides how they continue.

Frames that no resume function could reach, because their results pass through other code first, don't count: the calling code runs natively anyway.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from types import CellType, CodeType, FunctionType

import torch

from framejit import breaks
from framejit.bytecode.splice import original_offset
from framejit.ceval.frame import Frame
from framejit.codegen.recorder import CannotGenerate
from framejit.driver.tensorless import ATOMS, is_plain, is_tensorless_code
from framejit.objects.core.object import Object, settle
from framejit.objects.core.registry import CODES
from framejit.objects.types.cellobject import CellObject
from framejit.process.when_needed import when_needed
from framejit.program import classes
from framejit.program.code_kinds import MODULE_CALLS, CodeKind, importable, kind_of
from framejit.program.naming import imported_name
from framejit.tracing.app_namespace import AppNamespace
from framejit.tracing.predictions import RAISES
from framejit.tracing.stops import GraphBreak
from framejit.tracing.trace import Trace

# Only breaks need these.
resume = when_needed("framejit.codegen.resume")
splitting = when_needed("framejit.tracing.splitting")

ENOUGH = 2
"""After this many traces have had to break inside one call, others break at it without tracing it. Two, because a warning is shown only once."""

ON_ARRAYS = (breaks.DataDependent, breaks.UnknownNumber, breaks.Random, breaks.ForeignArray, breaks.ArrayOperation, breaks.UnsupportedCall)
"""Reasons to stop that are, or may be, about numbers that the program has drawn, or has computed with arrays."""


TELLING = ("absl", "logging", "loguru", "pprint", "rich", "structlog", "tqdm", "traceback", "warnings")
"""Packages whose functions produce output, so that a program may do without their calls."""
EMPTY = CellType()
"""An empty cell, which is equal to all other empty ones."""


def outside(tracer: Trace, stop: GraphBreak) -> GraphBreak:
    """The break as the program sees it: one inside library code becomes one at the program's call of the library."""
    if isinstance(stop.reason, (*RAISES, breaks.Debugger)):
        return stop
    reach = splitting.within_reach(stop.frames)
    index = library_frame(tracer, reach)
    if isinstance(stop.reason, ON_ARRAYS):
        outer = tensorless_frame(reach if index is None else reach[:index])
        if outer is not None:
            return GraphBreak(stop.reason, tracer.user_stack(stop.frames[outer - 1]), stop.frames[:outer])
    if index is None or (isinstance(stop.reason, breaks.SkippedFrame) and index == len(stop.frames) - 1):
        return stop
    caller, called = stop.frames[index - 1 : index + 1]
    reason = stop.reason
    if isinstance(reason, (breaks.FirstStep, breaks.LazyModuleCall, breaks.InnerFunction, breaks.InsideTransform)):
        return GraphBreak(reason, tracer.user_stack(caller), stop.frames[:index])
    if not isinstance(reason, breaks.InsideLibrary):
        file, line = (stop.stack[-1].filename, f":{stop.stack[-1].lineno}") if stop.stack else (called.code.co_filename, "")
        reason = breaks.InsideLibrary(name_of(called), str(reason), f"{importable(file)}{line}", gives(caller, called))
    remember(caller, called.code, reason)
    return GraphBreak(reason, tracer.user_stack(caller), stop.frames[:index])


def reason_to_skip(tracer: Trace, frame: Frame) -> breaks.Break | None:
    """The reason why a frame isn't traced, for code that is registered as such; None for other code."""
    meaning = CODES.get(id(frame.code))
    if meaning is None or meaning.skipped is None:
        return None
    reason, unless = meaning.skipped
    is_traced = frame.function is not None and unless(tracer, settle(frame.function).value)
    return None if is_traced else reason


def library_frame(tracer: Trace, frames: Sequence[Frame]) -> int | None:
    """The index of the outermost frame that the program's innermost one has called and that isn't split; None if there is none."""
    found = None
    for index, frame in enumerate(frames[1:], 1):
        if isinstance(frame.globals, AppNamespace):
            continue
        kind = kind_of(frame.code, frame.globals.value)
        if kind is CodeKind.PROGRAM:
            found = None
        elif found is None and (kind is CodeKind.MACHINERY or (kind is CodeKind.WRAPPER and not splits(tracer, frame))):
            found = index
    return found


def splits(tracer: Trace, frame: Frame) -> bool:
    """Return whether a wrapper's frame is split like those of the program: an operation has entered the graph, or the wrapped function has most of them."""
    function = None if frame.function is None else settle(frame.function).value
    return has_computed(tracer, frame) or (type(function) is FunctionType and decorates(function, set()))


def decorates(function: FunctionType, seen: set[int]) -> bool:
    """Return whether a decorator has put this function around one of the program's or of tensor code, possibly through other wrappers."""
    seen.add(id(function))
    for cell in function.__closure__ or ():
        held = None if cell == EMPTY else cell.cell_contents
        if type(held) is FunctionType and id(held) not in seen:
            kind = kind_of(held.__code__, held.__globals__)
            if kind in (CodeKind.PROGRAM, CodeKind.TENSORS) or (kind is CodeKind.WRAPPER and decorates(held, seen)):
                return True
    return False


def tensorless_frame(frames: Sequence[Frame]) -> int | None:
    """The index of the outermost of the innermost frames that compute no tensors; None if the innermost one does."""
    index = len(frames)
    while index > 1 and is_tensorless(frames[index - 1]):
        index -= 1
    return index if index < len(frames) else None


def is_tensorless(frame: Frame) -> bool:
    """Return whether a frame, which has run from its beginning, computes no tensors, and holds none."""
    if original_offset(frame.code, 0) is not None or isinstance(frame.globals, AppNamespace):
        return False
    owners = {}
    for name, value in zip(frame.decoded.slots, frame.locals):
        value = settle(value.content if isinstance(value, CellObject) and value.content is not None else value) if value is not None else None
        if value is not None and not holds_no_tensor(value):
            if value.source is None or issubclass(value.cls, torch.Tensor):
                return False
            owners[name] = value.value
    return is_tensorless_code(frame.code, frame.globals.value, owners)


def holds_no_tensor(value: Object, steps: int = 4) -> bool:
    """Return whether a value in a frame is a number, a text, an array, or contains only such. Guards nothing."""
    value = settle(value)
    if issubclass(value.cls, ATOMS):
        return True
    if value.source is not None:
        return is_plain(value.value)
    if not steps or (classes.module(value.cls) != "builtins" and value.cls is not torch.Size):
        return False
    return value.cls is FunctionType or all(holds_no_tensor(held, steps - 1) for held in value.referents())


def has_computed(tracer: Trace, frame: Frame) -> bool:
    """Return whether an operation has entered a graph since the frame was called."""
    assert frame.parent is not None
    return original_offset(frame.code, 0) is not None or tracer.graph.has_grown_since(frame.parent.mark)


def name_of(frame: Frame) -> str:
    """The name of a library's function, as its users know it: that of the wrapped function, rather than the wrapper's."""
    function = None if frame.function is None else settle(frame.function).value
    if type(function) is FunctionType:
        return f"{imported_name(function)}()"
    module = frame.globals.value.get("__name__")
    return f"{module}.{frame.code.co_qualname}()" if isinstance(module, str) else f"{frame.code.co_qualname}()"


def gives(caller: Frame, called: Frame) -> str:
    """The purpose of the program's call of a library, in the form that InsideLibrary has."""
    module = called.globals.value.get("__name__")
    if isinstance(module, str) and module.partition(".")[0] in TELLING:
        return "a message"
    if caller.code.co_filename == MODULE_CALLS:
        return "a hook"
    following = caller.decoded.instructions[caller.pc + 1 : caller.pc + 2]
    return "an effect" if [instruction.op for instruction in following] == ["POP_TOP"] else "a result"


class BrokenCalls:
    """The calls of one library function that ended in breaks: for each place, the number of traces. The latest reason is kept for all."""

    def __init__(self, code: CodeType) -> None:
        self.code = weakref.ref(code, lambda gone, key=id(code): _known.pop(key, None))  # type: ignore[misc]
        self.places: Counter[tuple[weakref.ref[CodeType], int]] = Counter()
        self.reason: breaks.InsideLibrary | None = None


_known: dict[int, BrokenCalls] = {}
"""By the `id` of the library function's code."""


def remember(caller: Frame, code: CodeType, reason: breaks.InsideLibrary) -> None:
    """Note that a trace has ended inside a call of a library function."""
    place = place_of(caller)
    if place is not None:
        known = _known.get(id(code))
        if known is None:
            known = _known[id(code)] = BrokenCalls(code)
        known.places[place] += 1
        known.reason = reason


def foreseen(caller: Frame | None, code: CodeType) -> breaks.InsideLibrary | None:
    """The reason why the call of a library function will end in a break, if earlier traces of the same call did."""
    known = _known.get(id(code))
    if known is None or caller is None:
        return None
    place = place_of(caller)
    return known.reason if place is not None and known.places[place] >= ENOUGH else None


def place_of(frame: Frame) -> tuple[weakref.ref[CodeType], int] | None:
    """The place of a frame in the program's code for it; None in stand-ins, which all programs share."""
    if isinstance(frame.globals, AppNamespace):
        return None
    try:
        code, index = resume.original_place(frame.code, frame.pc)
    except CannotGenerate:  # the frame is still in its prologue
        return None
    return weakref.ref(code), index


def forget() -> None:
    """Forget everything: part of `reset()`."""
    _known.clear()
