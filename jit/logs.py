"""The logs of framejit: loggers of the standard library under "framejit", switched on and off by name with FRAMEJIT_LOGS.

Each name is a child logger: `graph_breaks` is `framejit.graph_breaks`. A log that is switched on logs at INFO; `+name` adds DEBUG, `-name`
leaves only errors. A function that runs uncompiled is reported at WARNING, in one line, by default: nothing runs uncompiled in silence.
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
from framejit.said.directives import untraced

_break_numbers = itertools.count(1)
NAMES: dict[str, str] = {
    "fallbacks": "functions that run uncompiled: one line each by default (fallbacks: also why, and what to do about it; -fallbacks: nothing)",
    "graph_breaks": "where tracing stopped, why, what it cost and what to do about it",
    "recompiles": "why a call matched no compiled entry: the guard that failed, the line that needs it, how to avoid it (+recompiles: all of them)",
    "dynamic": "which sizes and numbers were seen to vary, and are symbolic in what is compiled from then on",
    "checks": "the calls that FRAMEJIT_CHECK=results compared with eager, and why others could not be",
    "guards": "the guards of each entry",
    "graph_code": "the code of each graph",
    "bytecode": "the bytecode of each frame, original and compiled",
    "trace": "the instructions as they are interpreted, with the depth of inlined calls",
    "resume": "the resume functions in which calls continue after a graph break, and where a call could not be split (+resume: their bytecode)",
    "backends": "what each backend was given, and how long it took",
    "cache": "which compiled code is written to disk or taken from there, and why other code isn't",
    "operators": "of operators that are called eagerly, which kernels were compiled, and why others weren't (compile_eager_operators)",
    "effects": "the changes of outside values and modes that compiled code makes after its graph",
}
"""For each name of a log, the words that say what the log shows."""
HELP = "help"
"""The word in FRAMEJIT_LOGS that prints a list of all logs."""

_root = logging.getLogger("framejit")
_LOGGERS: dict[str, logging.Logger] = {name: _root.getChild(name) for name in NAMES}
_lock = threading.Lock()
_reported: set[tuple[object, ...]] = set()
_handler: logging.Handler | None = None


def help_text() -> str:
    """The text that FRAMEJIT_LOGS=help prints: all logs, each with the words that say what it shows."""
    width = max(map(len, NAMES))
    lines = [f"  {name:<{width}}  {shows}" for name, shows in NAMES.items()]
    return "\n".join([
        "Logs of framejit, for FRAMEJIT_LOGS and framejit.set_logs, separated by commas (+name: more, -name: only errors):", *lines,
        "FRAMEJIT_LOGS_OUT names a file to write them to, in place of stderr.",
    ])  # fmt: skip


Complain = Callable[[FramejitError], object]
"""A function that is called with an error which might be raised: it raises the error, or only warns of it."""


def raise_error(error: FramejitError) -> None:
    """A `Complain` function that raises the error."""
    raise error


def parse(text: str, origin: str = "FRAMEJIT_LOGS", complain: Complain = raise_error) -> dict[str, int]:
    """The level of each log named in `text`, as in FRAMEJIT_LOGS: "guards,+graph_breaks,-recompiles".

    For a name that does not exist, `complain` is called with an UnknownLog error. If that returns, the name is left out.
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
    complain: Complain = raise_error,
) -> None:
    """Switch logs on and off as `text` says, which has the form of FRAMEJIT_LOGS. Logs that it doesn't name return to their default.

    The logs are appended to the file `out` if one is named. Otherwise they are shown on stderr, unless the program has configured a handler. The word
    `help` prints a list of the logs on stderr. `complain` is called for a name that does not exist (UnknownLog), and for a file that can't be
    written (ConfigError).
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
    """A handler that appends records to the file `out`. If the file can't be written, `complain` is called, and the result is None."""
    try:
        return logging.FileHandler(out)
    except OSError as error:
        complain(ConfigError(f"{origin}: {out} can't be written: {error.strerror}"))
        return None


@untraced
def set_logs(*names: str, out: str | None = None) -> None:
    """Show the logs with these names ("graph_breaks", "+guards" for more, "-recompiles" for errors only), and no others.

    Each argument may hold several names, separated by commas, as in FRAMEJIT_LOGS; "help" prints a list of all logs. Without names, all logs return
    to their default.

    Args:
        out: a file to which the logs are appended, instead of stderr.

    Raises:
        UnknownLog: a name does not exist; the message suggests one. BadArgument: a name isn't a string. ConfigError: `out` can't be written.
    """
    for name in names:
        if not isinstance(name, str):
            raise BadArgument(f"set_logs() takes names of logs; got {name!r}")
    configure(",".join(names), out or "", "set_logs()", "set_logs(out=)")


def enabled(name: str, detail: bool = False) -> bool:
    """Return whether a log is switched on (with `detail`: by `+name`). Callers make a text for the log only if it is."""
    return _LOGGERS[name].isEnabledFor(logging.DEBUG if detail else logging.INFO)


def info(name: str, title: str, text: str = "") -> None:
    """Write a title to a log, and perhaps a text of several lines below it."""
    _LOGGERS[name].info("%s\n%s" if text else "%s%s", title, text)


def debug(name: str, title: str, text: str = "") -> None:
    """Write a title to a log, and perhaps a text of several lines below it, which are shown only if the log is switched on by `+name`."""
    _LOGGERS[name].debug("%s\n%s" if text else "%s%s", title, text)


def warn(text: str) -> None:
    """Warn the program of something. The same text is shown only once."""
    warn_once(text, text)


def warn_once(key: str, text: str) -> None:
    """Warn the program of something. Of several texts with the same key, only the first is shown."""
    if _is_new("warning", key):
        _root.warning("%s%s", sender(_root), text)


def sender(logger: logging.Logger) -> str:
    """The prefix "framejit: " of a warning, or nothing if the program has a handler: without one, Python prints only the text."""
    return "" if logger.hasHandlers() else "framejit: "


def _is_new(*key: object) -> bool:
    """Return whether a report with this key hasn't been made before. The key is noted."""
    with _lock:
        known = key in _reported
        _reported.add(key)
    return not known


def graph_break(broke: BreakNote) -> None:
    """Log a graph break: tracing stopped at a place, and a resume function continues after it. Each place and reason is logged once."""
    if not enabled("graph_breaks"):
        return
    where = broke.stack[-1].range if broke.stack else None
    if _is_new("break", str(broke.reason), where):
        broke.number = next(_break_numbers)
        cost = f"Cost: the graph ends here, after {counted(broke.before, 'operation')}, and another begins after it; the two are not optimized together."
        info("graph_breaks", f"graph break {broke.number}: {broke.reason}", f"{explain_break(broke.reason, broke.stack)}\n{cost}")


def after_break(broke: BreakNote, count: int | None) -> None:
    """Log that the code after a break was compiled, into a graph with `count` operations, or without a graph if that is None."""
    if enabled("graph_breaks") and broke.number is not None and _is_new("behind", broke.number):
        found = "no graph, since there are no tensor operations" if count is None else f"a graph of {counted(count, 'operation')}"
        before = f"{counted(broke.before, 'operation')} {'was' if broke.before == 1 else 'were'} before it"
        info("graph_breaks", f"after graph break {broke.number} ({place(broke.stack)}): {found}; {before}")


def fallback(code: CodeType, reason: Break, stack: Sequence[UserFrame], expected: bool = False) -> None:
    """Count that a frame with this code runs uncompiled, and report it.

    There is a warning of one line, once for each place and kind of reason; the logs say more. If the fallback was `expected`, only the logs say so.
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
    """Count and report that framejit itself failed on a frame with this code, which runs uncompiled. There is one warning for each code object's place."""
    found = place_noted(error)
    text = (
        f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) runs uncompiled because of an error inside framejit, {type(error).__name__}: {error}"
        f"{f' ({found})' if found else ''}. Its results are right. Set FRAMEJIT_STRICT=1 to see the traceback, and please report it."
    )
    record_internal_error(text)
    if not counted_already:
        STATISTICS.fallback(f"internal error: {type(error).__name__}: {error}{f' at {found}' if found else ''}", text)
    if _is_new("internal", code.co_filename, code.co_firstlineno):
        _root.warning("%s%s", sender(_root), text)
        _root.debug("traceback of the internal error", exc_info=error)


def forget() -> None:
    """Forget what was reported, so that it is reported again. This is part of `framejit.reset()`."""
    with _lock:
        _reported.clear()


def configure_from_environment() -> None:
    """Apply FRAMEJIT_LOGS and FRAMEJIT_LOGS_OUT, and warn of wrong FRAMEJIT_ variables: an error would stop a program that worked."""
    complaints: list[str] = []
    configure(config.current().logs, config.current().logs_out, complain=lambda error: complaints.append(f"{error}. It is ignored."))
    for text in [*config.complaints, *complaints, *config.misspelt(os.environ)]:
        warn(text)


configure_from_environment()
