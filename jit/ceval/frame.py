"""The interpreter's frame: slots, value stack, cells and position of one running (or suspended) code object.

Conventions
- `pc` is the index of the instruction being executed, or, in a suspended generator, of its YIELD_VALUE.
- While an instruction runs, `stack` still holds its operands: they are replaced by its results only when it has succeeded.
  So a frame stopped by a break stands at the beginning of the instruction at fault, and needs no undoing.
- None in a slot is an unbound variable; None on the stack is CPython's NULL.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from types import CodeType
from typing import Any

from framejit.bytecode.decode import decode
from framejit.bytecode.instruction import Instruction, Position
from framejit.bytecode.liveness import JUMPS
from framejit.bytecode.splice import spliced
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import Namespace, Object, settle
from framejit.objects.types.funcobject import MethodObject
from framejit.program.code_kinds import OURS
from framejit.quick_dataclass import dataclass


class State(enum.Enum):
    """The stage of a frame's life; CPython's `gi_frame_state`."""

    CREATED = enum.auto()
    RUNNING = enum.auto()
    SUSPENDED = enum.auto()
    FINISHED = enum.auto()


@dataclass(frozen=True, slots=True)
class LastInstruction:
    """The value that the exception table's `lasti` pushes below the exception: the instruction that raised."""

    index: int


@dataclass(frozen=True, slots=True, eq=False)
class ExceptionState:
    """The value that PUSH_EXC_INFO pushes below the exception: the exception handled from there on, and the one to which POP_EXCEPT returns."""

    handled: Object
    outer: Object | None


@dataclass(frozen=True, slots=True)
class FrameSnapshot:
    """A frame's state, to return to."""

    pc: int
    stack: tuple[Any, ...]
    locals: tuple[Object | None, ...]
    handled: Object | None
    parent: Frame | None
    state: State


class Frame:
    """One activation of a code object.

    `locals`: a value, or None if unbound, for each slot of `decoded.slots`; cell and free slots hold cell objects.
    `namespace`: the dict that LOAD_NAME and STORE_NAME use first, in class bodies; None in functions.
    `handled`: the exception whose handler is running in this frame, as `sys.exc_info()` sees it.
    `mark`: the trail's position at the beginning of the instruction at `pc`.
    `delivery`: how the frame's return value becomes the result of the parent's instruction; None if other code uses it first.
    `as_object`: the frame as the program sees it, once it has asked for it.
    `parent`: the frame that called (or, for a generator, that resumed) this one; None at the bottom of the trace.
    """

    __slots__ = (
        "code",
        "decoded",
        "locals",
        "stack",
        "globals",
        "builtins",
        "function",
        "closure",
        "namespace",
        "pc",
        "handled",
        "parent",
        "state",
        "mark",
        "delivery",
        "as_object",
    )

    def __init__(
        self,
        code: CodeType,
        bound: Mapping[str, Object | None],
        globals: Namespace,
        builtins: Namespace,
        function: Object | None = None,
        closure: Sequence[Object] = (),
        namespace: Namespace | None = None,
        parent: Frame | None = None,
    ) -> None:
        """`bound`: the parameters' values by name; `closure`: the cells of the free variables, in `co_freevars` order."""
        self.code = code
        self.decoded = decode(code)
        self.locals: list[Object | None] = [bound.get(name) for name in self.decoded.slots]
        self.stack: list[Any] = []
        self.globals = globals
        self.builtins = builtins
        self.function = function
        self.closure = closure
        self.namespace = namespace
        self.pc = 0
        self.handled: Object | None = None
        self.parent = parent
        self.state = State.CREATED
        self.mark = 0
        self.delivery: Delivery | None = None
        self.as_object: Object | None = None

    @property
    def instruction(self) -> Instruction:
        """The instruction at `pc`."""
        return self.decoded.instructions[self.pc]

    @property
    def lineno(self) -> int:
        """The line being executed."""
        return self.instruction.position.lineno or self.code.co_firstlineno

    @property
    def code_of_program(self) -> CodeType:
        """The code as the program has it: for a resume function, that of the function that it continues."""
        resumed = spliced(self.code)
        return self.code if resumed is None else resumed.code

    def is_in_loop(self) -> bool:
        """Return whether a loop of the frame may reach the instruction at `pc` again."""
        rest = self.decoded.instructions[self.pc :]
        return any(later.op in JUMPS and later.value <= self.pc for later in rest)

    def position(self) -> Position:
        """The source range being executed; its file is `code.co_filename`."""
        return self.instruction.position

    @property
    def delegate(self) -> Any:
        """The iterator to which a suspended generator's frame delegates. The SEND before its YIELD_VALUE says how many NULLs are above it."""
        return self.stack[-1 - (self.decoded.instructions[self.pc - 1].arg or 0)]

    @property
    def has_ended(self) -> bool:
        """True if the frame has returned or raised, for good."""
        return self.state is State.FINISHED

    @property
    def created_at(self) -> int:
        """The offset of the instruction that makes the generator whose frame this is."""
        return next(instruction.offset for instruction in self.decoded.instructions if instruction.op == "RETURN_GENERATOR")

    @property
    def cells(self) -> dict[str, Object]:
        """Cell and free variables by name: their cell objects, once the prologue (MAKE_CELL, COPY_FREE_VARS) has run."""
        slots = (*self.decoded.cells, *self.decoded.frees)
        return {self.decoded.slots[slot]: cell for slot in slots if (cell := self.locals[slot]) is not None}

    def current_exception(self) -> Object | None:
        """The exception being handled here or, if none, in the nearest caller that handles one: `_PyErr_GetTopmostException`."""
        frame: Frame | None = self
        while frame is not None:
            if frame.handled is not None:
                return frame.handled
            frame = frame.parent
        return None

    def callers(self) -> Iterable[Frame]:
        """This frame and those from which it was called, innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.parent

    def leave(self, state: State) -> None:
        """Stop running, for now or for good. A suspended generator has no caller, which it would otherwise keep alive."""
        self.state = state
        self.parent = None

    def direct_caller(self) -> Frame | None:
        """The frame that has called this one by an instruction that calls its function, if the trace isn't in a stand-in of framejit."""
        outer = self.parent
        if outer is None or self.delivery is None or not outer.instruction.op.startswith("CALL"):
            return None
        called = [settle(value) for value in outer.stack if isinstance(value, Object)]
        functions = [settle(value.function) if isinstance(value, MethodObject) else value for value in called]
        is_called = any(value is self.function for value in functions)
        return outer if is_called and not any(frame.code.co_filename.startswith(OURS) for frame in (self, outer)) else None

    def snapshot(self) -> FrameSnapshot:
        """The state to return to with `restore`."""
        return FrameSnapshot(self.pc, tuple(self.stack), tuple(self.locals), self.handled, self.parent, self.state)

    def restore(self, snapshot: FrameSnapshot) -> None:
        """Return to an earlier state of this same frame. The lists stay the same objects."""
        self.pc = snapshot.pc
        self.stack[:] = snapshot.stack
        self.locals[:] = snapshot.locals
        self.handled = snapshot.handled
        self.parent = snapshot.parent
        self.state = snapshot.state

    def __repr__(self) -> str:
        return f"<Frame {self.code.co_qualname} at {self.code.co_filename}:{self.lineno}, {self.state.name.lower()}>"
