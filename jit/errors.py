"""The exceptions that framejit raises itself, and how they suggest the name that was meant."""

from __future__ import annotations

import difflib
import linecache
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from framejit.breaks import Break


class FramejitError(Exception):
    """Base class of every exception that framejit raises on its own behalf."""


RESUMED = " (resumed at "
"""What follows a function's name in that of a function that goes on after a graph break."""


def program_name(name: str) -> str:
    """The name of a code object as the program has it."""
    return name.partition(RESUMED)[0]


def behind_break(text: str) -> str:
    """A text in which each resume function is named by the function that it goes on with, and from where."""
    return re.sub(rf"([\w.<>]+){re.escape(RESUMED)}[^)]*:(\d+)\)", r"\1 from line \2 on", text)


@dataclass(frozen=True, slots=True)
class UserFrame:
    """Where one frame of the user's program was. Lines count from 1; columns are UTF-8 byte offsets, as in `co_positions`."""

    filename: str
    function: str
    lineno: int
    end_lineno: int | None = None
    col_offset: int | None = None
    end_col_offset: int | None = None

    @property
    def range(self) -> tuple[Any, ...]:
        """The piece of source text, without the function: a resume function's name is another one than that of its original."""
        return self.filename, self.lineno, self.end_lineno, self.col_offset, self.end_col_offset

    @classmethod
    def of(cls, code: CodeType, position: Sequence[int | None] | None) -> UserFrame:
        """From a code object and one row of its `co_positions()` (line, last line, column, last column), None if unknown."""
        name = program_name(code.co_qualname)
        if position is None or position[0] is None:
            return cls(code.co_filename, name, code.co_firstlineno)
        return cls(code.co_filename, name, position[0], *position[1:])

    @property
    def line(self) -> str:
        """The source line, or "" where the source is not to be found."""
        return linecache.getline(self.filename, self.lineno).rstrip("\n")

    @property
    def expression(self) -> str:
        """The text between the columns; the stripped line where they are unknown."""
        first, last = self._columns()
        return self.line[first:last] if last > first else self.line.strip()

    def _columns(self) -> tuple[int, int]:
        """First and last column in characters, on the first line; (0, 0) if unknown."""
        if self.col_offset is None or self.end_col_offset is None:
            return 0, 0
        line = self.line.encode()
        end = self.end_col_offset if self.end_lineno in (None, self.lineno) else len(line)
        return len(line[: self.col_offset].decode(errors="replace")), len(line[:end].decode(errors="replace"))

    def render(self) -> str:
        """The frame as a traceback entry: file, line and function; the source line; carets under the expression."""
        text = f'  File "{self.filename}", line {self.lineno}, in {self.function}'
        line = self.line
        if not line.strip():
            return text
        indent = len(line) - len(line.lstrip())
        text += f"\n    {line.strip()}"
        first, last = self._columns()
        first = max(first, indent)
        if last > first:
            text += "\n    " + " " * (first - indent) + "^" * (last - first)
        return text


def render_stack(stack: Sequence[UserFrame]) -> str:
    """The user's frames, outermost first, as a traceback shows them."""
    return "\n".join(frame.render() for frame in stack)


class Unsupported(FramejitError):
    """A graph break where none is allowed: with `fullgraph=True`, or under `error_on_graph_break(True)`.

    Attributes:
        reason: what stopped it, a `framejit.breaks.Break`.
        stack: the user's frames, outermost first; the last one is where it happened.
    """

    def __init__(self, reason: Break, stack: Sequence[UserFrame] = ()) -> None:
        super().__init__(reason, stack)
        self.reason = reason
        self.stack = tuple(stack)

    def __str__(self) -> str:
        return f"{self.reason}\n{explain_break(self.reason, self.stack)}"


def explain_break(reason: Break, stack: Sequence[UserFrame]) -> str:
    """A break in several lines: where it happened, why, and what to do."""
    parts = [render_stack(stack)] if stack else []
    parts.append(f"Why: {reason.explanation}")
    parts += [f"{'      or' if number else 'What to do'}: {hint}" for number, hint in enumerate(reason.advice())]
    return "\n".join(parts)


WHILE = "while framejit traced "
"""How a note begins that says, with an error inside framejit, where the program was."""


def note_place(error: BaseException, stack: Sequence[UserFrame]) -> None:
    """Note with an error inside framejit where the traced program was, unless that is noted already."""
    if stack and not place_noted(error):
        error.add_note(f"{WHILE}{stack[-1].filename}:{stack[-1].lineno}")


def place_noted(error: BaseException) -> str:
    """Where the program was when framejit failed, as file:line; empty if that isn't known."""
    return next((note.removeprefix(WHILE) for note in getattr(error, "__notes__", ()) if note.startswith(WHILE)), "")


class InternalError(FramejitError):
    """An error inside framejit itself, raised under FRAMEJIT_STRICT=1; the cause is the original exception."""


class CheckError(InternalError):
    """A difference that FRAMEJIT_CHECK found: native guards and their reference disagree, or compiled code and eager do."""


class RecompileError(FramejitError):
    """A function would have to be compiled (once more) where `fail_on_recompile` or a stance says that this is an error.

    Attributes:
        function: its name.
        failures: why no entry matches, for each entry: which guard failed, expected and found, the user's line
            (framejit.guards.explain.Failure).
    """

    def __init__(self, message: str, function: str, failures: Sequence[Any] = ()) -> None:
        super().__init__(message, function, failures)
        self.function = function
        self.failures = tuple(failures)

    def __str__(self) -> str:
        return str(self.args[0])


class ConstraintViolation(FramejitError):
    """A declaration of symbolic sizes (`mark_dynamic`) that doesn't hold: the code needs one particular size, or a size is out of its range."""


class ResumeError(InternalError):
    """An error inside framejit while a trace restored the frames after a graph break: always raised, strict or not."""


class BadArgument(FramejitError, TypeError):
    """A function of framejit's was given an argument that it doesn't take, such as something to compile that can't be called."""


class ConfigError(FramejitError, ValueError):
    """An option, or an environment variable of framejit's, was given a value that it can't have."""


class UnknownOption(ConfigError):
    """An option's name, framejit's or a backend's, that does not exist; the message suggests the nearest one."""


class UnknownMode(ConfigError):
    """A `mode=` that the backend does not have; the message suggests the nearest one and lists them all."""


class UnknownLog(ConfigError):
    """FRAMEJIT_LOGS or `set_logs` names a log that does not exist; the message suggests the nearest one and lists them all."""


class UnsupportedTorch(FramejitError):
    """The installed torch lacks a name that a part of framejit needs, or has it with another signature."""


class BackendError(FramejitError):
    """A backend raised, or broke its contract: `(GraphModule, example_inputs) -> callable returning a tuple or list`.

    Attributes:
        backend: the backend's name.
    """

    def __init__(self, backend: str, message: str) -> None:
        super().__init__(backend, message)
        self.backend = backend

    def __str__(self) -> str:
        return "backend {!r} {}".format(*self.args)


class UnknownBackend(FramejitError):
    """No backend of this name is built in, registered, or installed as an entry point."""


def suggestion(name: str, known: Iterable[str], listing: bool = False) -> str:
    """The end of an error message about the unknown `name`: the nearest of `known`, and all of them where `listing`."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    text = f"; did you mean {near[0]!r}?" if near else ""
    if listing:
        text += f"{'' if near else ';'} known: {', '.join(names)}"
    return text


CHECK_FAILED = "a check of the program's fails"
"""What a graph says, with a RuntimeError, where something that the program checks doesn't hold."""
