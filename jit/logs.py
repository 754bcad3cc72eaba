"""What framejit tells the user while it works: standard logging under "framejit", switched by name with FRAMEJIT_LOGS.

A name is a child logger: `graph_breaks` is `framejit.graph_breaks`. Switched on, it logs at INFO; `+name` adds DEBUG, `-name`
leaves only errors. Fallbacks are reported at WARNING without being asked for: nothing runs uncompiled in silence.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from types import CodeType

from framejit import config
from framejit.breaks import Break
from framejit.errors import ConfigError, UserFrame, explain_break, suggestion

NAMES: dict[str, str] = {
    "graph_breaks": "where tracing stopped, why, and what to do about it",
    "recompiles": "why a call matched no compiled entry: the guard that failed, and the line that needs it",
    "guards": "the guards of each entry",
    "graph_code": "the code of each graph",
    "bytecode": "the bytecode of each frame, as written and as compiled",
}
"""Every log name, with what it shows."""

_root = logging.getLogger("framejit")
_LOGGERS: dict[str, logging.Logger] = {name: _root.getChild(name) for name in NAMES}
_lock = threading.Lock()
_reported: set[tuple[str, str, int]] = set()
_handler: logging.Handler | None = None


class UnknownLog(ConfigError):
    """FRAMEJIT_LOGS names a log that does not exist; the message suggests the nearest one and lists them all."""


def parse(text: str) -> dict[str, int]:
    """The level of each log named in `text`, as in FRAMEJIT_LOGS: "guards,+graph_breaks,-recompiles".

    Raises UnknownLog for a name that does not exist.
    """
    levels: dict[str, int] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name = word.lstrip("+-")
        if name not in NAMES:
            raise UnknownLog(f"FRAMEJIT_LOGS: there is no log {name!r}{suggestion(name, NAMES, listing=True)}")
        levels[name] = {"+": logging.DEBUG, "-": logging.ERROR}.get(word[0], logging.INFO)
    return levels


def configure(text: str) -> None:
    """Switch logs on and off as `text` says (the form of FRAMEJIT_LOGS); names that it leaves out return to their default.

    A handler on stderr is added only where the program has configured none. Raises UnknownLog.
    """
    global _handler
    levels = parse(text)
    for name, logger in _LOGGERS.items():
        logger.setLevel(levels.get(name, logging.NOTSET))
    if levels and _handler is None and not _root.hasHandlers():
        _handler = logging.StreamHandler()
        _handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        _root.addHandler(_handler)


def enabled(name: str, detail: bool = False) -> bool:
    """Whether the log is switched on (with `detail`: by `+name`), so that its text is worth making."""
    return _LOGGERS[name].isEnabledFor(logging.DEBUG if detail else logging.INFO)


def info(name: str, title: str, text: str = "") -> None:
    """Write to a log: a title, and perhaps a text of several lines below it."""
    _LOGGERS[name].info("%s\n%s" if text else "%s%s", title, text)


def graph_break(reason: Break, stack: Sequence[UserFrame]) -> None:
    """Tracing stopped here, and goes on behind it in a resume function."""
    if enabled("graph_breaks"):
        info("graph_breaks", f"graph break: {reason}", explain_break(reason, stack))


def fallback(code: CodeType, reason: Break, stack: Sequence[UserFrame]) -> None:
    """The frame of `code` runs as written. A warning, once for each place and kind of reason."""
    where = stack[-1] if stack else UserFrame(code.co_filename, code.co_qualname, code.co_firstlineno)
    with _lock:
        key = (reason.id, where.filename, where.lineno)
        known = key in _reported
        _reported.add(key)
    if not known:
        _LOGGERS["graph_breaks"].warning("%s runs as written: %s\n%s", code.co_qualname, reason, explain_break(reason, stack))


def internal_error(code: CodeType, error: BaseException) -> None:
    """framejit itself failed on the frame of `code`, which runs as written. A warning, once for each code object's place."""
    with _lock:
        key = ("internal", code.co_filename, code.co_firstlineno)
        known = key in _reported
        _reported.add(key)
    if not known:
        _root.warning(
            "%s (%s:%d) runs as written because of an error inside framejit, %s: %s. Results are right, only not compiled. "
            "Set FRAMEJIT_STRICT=1 to see the traceback, and please report it.",
            code.co_qualname, code.co_filename, code.co_firstlineno, type(error).__name__, error,
        )  # fmt: skip
        _root.debug("traceback of the internal error", exc_info=error)


def forget() -> None:
    """Report again what was reported before: part of `framejit.reset()`."""
    with _lock:
        _reported.clear()


configure(config.current().logs)
