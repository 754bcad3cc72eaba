"""The exceptions that framejit raises itself, the texts about breaks and stacks that they contain, and suggestions for misspelt names."""

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
    """Base class of all exceptions that are framejit's own, and not the program's."""


RESUMED = " (resumed at "
"""A resume function, which continues a function after a graph break, has the name of that function followed by this text and a place."""


def program_name(name: str) -> str:
    """The name of a function as in the program: for a resume function, the name of the function that it continues."""
    return name.partition(RESUMED)[0]


def after_break(text: str) -> str:
    """Replace the name of each resume function in a text: `f (resumed at file.py:7)` becomes `f from line 7 on`."""
    return re.sub(rf"([\w.<>]+){re.escape(RESUMED)}[^)]*:(\d+)\)", r"\1 from line \2 on", text)


@dataclass(frozen=True, slots=True)
class UserFrame:
    """The position of one frame of the user's program. Lines count from 1; columns are UTF-8 byte offsets, as in `co_positions`."""

    filename: str
    function: str
    lineno: int
    end_lineno: int | None = None
    col_offset: int | None = None
    end_col_offset: int | None = None

    @property
    def range(self) -> tuple[Any, ...]:
        """The file and the range of source text. The function isn't part of it, since a resume function has another name than its original."""
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
        """The source line, or "" if the source can't be found."""
        return linecache.getline(self.filename, self.lineno).rstrip("\n")

    @property
    def expression(self) -> str:
        """The source text between the columns, or the stripped line if the columns are unknown."""
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
    """The text that a traceback shows for these frames of the user's, which are given outermost first."""
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
    """The text of a break, in several lines: where it happened, why, and what to do."""
    parts = [render_stack(stack)] if stack else []
    parts.append(f"Why: {reason.explanation}")
    parts += [f"{'      or' if number else 'What to do'}: {hint}" for number, hint in enumerate(reason.advice())]
    return "\n".join(parts)


WHILE = "while framejit traced "
"""The beginning of a note, on an error inside framejit, that says where the traced program was."""


def note_place(error: BaseException, stack: Sequence[UserFrame]) -> None:
    """Add a note to an error inside framejit that says where the traced program was, unless the error has one."""
    if stack and not place_noted(error):
        error.add_note(f"{WHILE}{stack[-1].filename}:{stack[-1].lineno}")


def place_noted(error: BaseException) -> str:
    """The place that `note_place` has noted on an error, as file:line; empty if there is none."""
    return next((note.removeprefix(WHILE) for note in getattr(error, "__notes__", ()) if note.startswith(WHILE)), "")


class InternalError(FramejitError):
    """An error inside framejit itself, raised under FRAMEJIT_STRICT=1; the cause is the original exception."""


class CheckError(InternalError):
    """FRAMEJIT_CHECK found a difference: native guards disagree with their reference in Python, or compiled code disagrees with eager."""


class RecompileError(FramejitError):
    """A call would have to be compiled, and `fail_on_recompile` or a stance makes that an error.

    Attributes:
        function: the name of the function.
        failures: for each entry, why it doesn't match: the guard that failed, what it expected and found, and the user's line
            (framejit.guards.explain.Failure).
    """

    def __init__(self, message: str, function: str, failures: Sequence[Any] = ()) -> None:
        super().__init__(message, function, failures)
        self.function = function
        self.failures = tuple(failures)

    def __str__(self) -> str:
        return str(self.args[0])


class NotPrecompiled(RecompileError):
    """A call of precompiled code for which its artifact has no entry. The message says why each entry doesn't fit."""


class ArtifactError(FramejitError):
    """A file isn't an artifact, is damaged, or was made under other circumstances: for another version, processor, or other sources. Or something can't be
    precompiled."""


class ConstraintViolation(FramejitError):
    """A declaration of symbolic sizes (`mark_dynamic`, `shapes=`) doesn't hold: the code needs one particular size, or a size is out of its range."""


class ResumeError(InternalError):
    """An error inside framejit while a trace restored the frames after a graph break. It is always raised, with or without FRAMEJIT_STRICT=1."""


class BadArgument(FramejitError, TypeError):
    """One of framejit's functions got an argument that it doesn't take. For example, `compile` got something that can't be called."""


class ConfigError(FramejitError, ValueError):
    """An option or an environment variable of framejit's has a value that it can't have."""


class UnknownOption(ConfigError):
    """There is no option of this name, of framejit or of a backend. The message suggests the nearest name."""


class UnknownMode(ConfigError):
    """The backend has no such `mode=`. The message suggests the nearest name and lists all of them."""


class UnknownLog(ConfigError):
    """FRAMEJIT_LOGS or `set_logs` names a log that does not exist. The message suggests the nearest name and lists all of them."""


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


class UnknownOperator(FramejitError, ValueError):
    """No operator of torch's has this name, or no kernel can be compiled for it."""


def suggestion(name: str, known: Iterable[str], listing: bool = False) -> str:
    """The end of an error message about an unknown `name`: it suggests the nearest of the `known` names, and with `listing` lists all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    text = f"; did you mean {near[0]!r}?" if near else ""
    if listing:
        text += f"{'' if near else ';'} known: {', '.join(names)}"
    return text


CHECK_FAILED = "a check of the program's fails"
"""The message of the RuntimeError that a graph raises if a check in the program, such as `torch._check`, fails."""
