"""What framejit tells the user while it works: standard logging under "framejit", switched by name with FRAMEJIT_LOGS.

A name is a child logger: `graph_breaks` is `framejit.graph_breaks`. Switched on, it logs at INFO; `+name` adds DEBUG, `-name`
leaves only errors. Fallbacks are reported in a line at WARNING without being asked for: nothing runs uncompiled in silence.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType

from framejit import config
from framejit.breaks import Break
from framejit.directives import untraced
from framejit.errors import (
    BadArgument,
    ConfigError,
    FramejitError,
    UnknownLog,
    UserFrame,
    explain_break,
    place_noted,
    program_name,
    suggestion,
)
from framejit.report import STATISTICS, BreakNote, counted, place, record_internal_error

_break_numbers = itertools.count(1)
NAMES: dict[str, str] = {
    "fallbacks": "calls that run uncompiled: one line each without being asked for, -fallbacks: none, fallbacks: what to do about it",
    "graph_breaks": "where tracing stopped, why, what it cost and what to do about it",
    "recompiles": "why a call matched no compiled entry: the guard that failed, the line that needs it, how to avoid it (+recompiles: all of them)",
    "dynamic": "which sizes and numbers were seen to vary, and are symbolic in what is compiled from then on",
    "checks": "the calls that FRAMEJIT_CHECK=results compared with eager, and why others could not be",
    "guards": "the guards of each entry",
    "graph_code": "the code of each graph",
    "bytecode": "the bytecode of each frame, original and compiled",
    "trace": "the instructions as they are interpreted, with the depth of inlined calls",
    "resume": "the resume functions that calls go on in after a graph break, and where a call could not be split (+resume: their bytecode)",
    "backends": "what each backend was given, and how long it took",
    "effects": "the changes of outside values and modes that compiled code makes after its graph",
}
"""Every log name, with what it shows."""
HELP = "help"
"""The word that lists them."""

_root = logging.getLogger("framejit")
_LOGGERS: dict[str, logging.Logger] = {name: _root.getChild(name) for name in NAMES}
_lock = threading.Lock()
_reported: set[tuple[object, ...]] = set()
_handler: logging.Handler | None = None


def help_text() -> str:
    """The names of all logs with what they show."""
    width = max(map(len, NAMES))
    lines = [f"  {name:<{width}}  {shows}" for name, shows in NAMES.items()]
    return "\n".join([
        "Logs of framejit, for FRAMEJIT_LOGS and framejit.set_logs, separated by commas (+name: more, -name: only errors):", *lines,
        "FRAMEJIT_LOGS_OUT names a file to write them to, in place of stderr.",
    ])  # fmt: skip


Complain = Callable[[FramejitError], object]
"""What is called with an error in the place of raising it."""


def refuse(error: FramejitError) -> None:
    """The `Complain` that raises."""
    raise error


def parse(text: str, origin: str = "FRAMEJIT_LOGS", complain: Complain = refuse) -> dict[str, int]:
    """The level of each log named in `text`, as in FRAMEJIT_LOGS: "guards,+graph_breaks,-recompiles".

    Complains of a name that does not exist (UnknownLog), and goes on with the others.
    """
    levels: dict[str, int] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name = word.lstrip("+-")
        if name == HELP:
            continue
        if name not in NAMES:
            complain(UnknownLog(f"{origin}: there is no log {name!r}{suggestion(name, [*NAMES, HELP], listing=True)}"))
            continue
        levels[name] = {"+": logging.DEBUG, "-": logging.ERROR}.get(word[0], logging.INFO)
    return levels


def configure(
    text: str,
    out: str = "",
    origin: str = "FRAMEJIT_LOGS",
    out_origin: str = "FRAMEJIT_LOGS_OUT",
    complain: Complain = refuse,
) -> None:
    """Switch logs on and off as `text` says (the form of FRAMEJIT_LOGS); names that it leaves out return to their default.

    They are appended to the file `out` where one is named, else shown on stderr unless the program has configured a handler.
    The word `help` lists them on stderr. Complains of a name that does not exist (UnknownLog) and of a file that can't be written (ConfigError).
    """
    global _handler
    levels = parse(text, origin, complain)
    handler: logging.Handler | None = file_handler(out, out_origin, complain) if out else None
    if HELP in (part.strip() for part in text.split(",")):
        print(help_text(), file=sys.stderr)
    for name, logger in _LOGGERS.items():
        logger.setLevel(levels.get(name, logging.NOTSET))
    if _handler is not None:
        _root.removeHandler(_handler)
        _handler.close()
        _handler = None
    if handler is None and levels and not _root.hasHandlers():
        handler = logging.StreamHandler()
    if handler is not None:
        handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        _root.addHandler(handler)
        _handler = handler


def file_handler(out: str, origin: str, complain: Complain) -> logging.Handler | None:
    """What appends records to the file `out`; None where it can't be written, which is complained of."""
    try:
        return logging.FileHandler(out)
    except OSError as error:
        complain(ConfigError(f"{origin}: {out} can't be written: {error.strerror}"))
        return None


@untraced
def set_logs(*names: str, out: str | None = None) -> None:
    """Show the logs of these names ("graph_breaks", "+guards" for more, "-recompiles" for errors only), and no others.

    Each may hold several, separated by commas, as FRAMEJIT_LOGS does; "help" lists them. Without names, all return to their default.

    Args:
        out: a file that they are appended to, in place of stderr.

    Raises:
        UnknownLog: a name that does not exist, with a suggestion. BadArgument: a name that is no string. ConfigError: `out` can't be written.
    """
    for name in names:
        if not isinstance(name, str):
            raise BadArgument(f"set_logs() takes names of logs; got {name!r}")
    configure(",".join(names), out or "", "set_logs()", "set_logs(out=)")


def enabled(name: str, detail: bool = False) -> bool:
    """Whether the log is switched on (with `detail`: by `+name`), so that its text is worth making."""
    return _LOGGERS[name].isEnabledFor(logging.DEBUG if detail else logging.INFO)


def info(name: str, title: str, text: str = "") -> None:
    """Write to a log: a title, and perhaps a text of several lines below it."""
    _LOGGERS[name].info("%s\n%s" if text else "%s%s", title, text)


def debug(name: str, title: str, text: str = "") -> None:
    """Write to a log what only `+name` shows: a title, and perhaps a text of several lines below it."""
    _LOGGERS[name].debug("%s\n%s" if text else "%s%s", title, text)


def warn(text: str) -> None:
    """Something that the program should know, once."""
    warn_once(text, text)


def warn_once(key: str, text: str) -> None:
    """Something that the program should know. Only the first text of this key is shown."""
    if _is_new("warning", key):
        _root.warning("%s%s", sender(_root), text)


def sender(logger: logging.Logger) -> str:
    """Says whose warning it is, where no handler of the program's does: then Python prints the bare text."""
    return "" if logger.hasHandlers() else "framejit: "


def _is_new(*key: object) -> bool:
    """Whether this is reported for the first time."""
    with _lock:
        known = key in _reported
        _reported.add(key)
    return not known


def graph_break(broke: BreakNote) -> None:
    """Tracing stopped here, and goes on after it in a resume function. Once for each place and reason."""
    if not enabled("graph_breaks"):
        return
    where = broke.stack[-1].range if broke.stack else None
    if _is_new("break", str(broke.reason), where):
        broke.number = next(_break_numbers)
        cost = f"Cost: the graph ends here, after {counted(broke.before, 'operation')}, and another begins after it; the two are not optimized together."
        info("graph_breaks", f"graph break {broke.number}: {broke.reason}", f"{explain_break(broke.reason, broke.stack)}\n{cost}")


def behind_break(broke: BreakNote, count: int | None) -> None:
    """The code after a break was compiled: into a graph of so many operations; None: into none."""
    if enabled("graph_breaks") and broke.number is not None and _is_new("behind", broke.number):
        found = "no graph, for it has no tensor operations" if count is None else f"a graph of {counted(count, 'operation')}"
        before = f"{counted(broke.before, 'operation')} {'was' if broke.before == 1 else 'were'} before it"
        info("graph_breaks", f"after graph break {broke.number} ({place(broke.stack)}): {found}; {before}")


def fallback(code: CodeType, reason: Break, stack: Sequence[UserFrame], expected: bool = False) -> None:
    """The frame of `code` runs uncompiled: it is counted. A warning of one line, once for each place and kind of reason; the logs say more. Where it was
    `expected`, only they say so.
    """
    where = stack[-1] if stack else UserFrame(code.co_filename, code.co_qualname, code.co_firstlineno)
    name, logger = program_name(code.co_qualname), _LOGGERS["fallbacks"]
    advice = "".join(f". What to do: {hint.removesuffix('.')}" for hint in reason.advice()[:1])
    text = f"{name} runs uncompiled: {reason} ({place((where,))}){advice}"
    STATISTICS.fallback(f"{reason}{f' at {place(stack)}' if stack else ''}", text)
    if not _is_new(reason.id, where.filename, where.lineno) or _LOGGERS["graph_breaks"].level > logging.WARNING:
        return
    if enabled("fallbacks") or enabled("graph_breaks"):
        level = logging.WARNING if not expected or not enabled("fallbacks") else logging.INFO
        logger.log(level, "%s runs uncompiled: %s\n%s", name, reason, explain_break(reason, stack))
    elif not expected:
        logger.warning("%s%s. FRAMEJIT_LOGS=fallbacks says more.", sender(logger), text)


def internal_error(code: CodeType, error: BaseException, counted_already: bool = False) -> None:
    """framejit itself failed on the frame of `code`, which runs uncompiled, and is counted. A warning, once for each code object's place."""
    found = place_noted(error)
    text = (
        f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) runs uncompiled because of an error inside framejit, {type(error).__name__}: {error}"
        f"{f' ({found})' if found else ''}. Results are right, only not compiled. Set FRAMEJIT_STRICT=1 to see the traceback, and please report it."
    )
    record_internal_error(text)
    if not counted_already:
        STATISTICS.fallback(f"internal error: {type(error).__name__}: {error}{f' at {found}' if found else ''}", text)
    if _is_new("internal", code.co_filename, code.co_firstlineno):
        _root.warning("%s%s", sender(_root), text)
        _root.debug("traceback of the internal error", exc_info=error)


def forget() -> None:
    """Report again what was reported before: part of `framejit.reset()`."""
    with _lock:
        _reported.clear()


def configure_from_environment() -> None:
    """Do what FRAMEJIT_LOGS and FRAMEJIT_LOGS_OUT say, and warn of variables of framejit's that can't be followed: a program that worked goes on."""
    complaints: list[str] = []
    configure(config.current().logs, config.current().logs_out, complain=lambda error: complaints.append(f"{error}. It is ignored."))
    for text in [*config.complaints, *complaints, *config.misspelt(os.environ)]:
        warn(text)


configure_from_environment()
