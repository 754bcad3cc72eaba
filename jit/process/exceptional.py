"""The branches on data of which compiled code takes one way to be exceptional, and how often calls have gone it.

The graph checks that a call goes the other way; a call that doesn't runs uncompiled. If that happens often, the way isn't exceptional: the branch is in
`OFTEN`, which compiled code guards, and the next trace breaks the graph there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import FunctionType

from framejit.errors import CHECK_FAILED

ALLOWED = {"a way that leaves compiled code, of ": 1, "a way that only returns, of ": 1, "numbers that aren't finite, at ": 8}
"""What is exceptional about a way, for messages, and how many calls may go it, however few calls there are: a GradScaler often begins with some that do."""
RARE = 8
"""More calls may go it if there are this many times as many calls."""

OFTEN = {"": False}
"""The branches whose exceptional way is no exception, by name. It is never empty, so that guards are about single branches."""

LEAVES, RETURNS, NOT_FINITE = ALLOWED
_exceptional: Counter[str] = Counter()
_compiled: list[tuple[Callable[[FunctionType], int], Callable[[str], None]]] = []


def message(what: str, branch: str) -> str:
    """The error message of a check that a branch goes the ordinary way. `what`: LEAVES, RETURNS or NOT_FINITE."""
    return f"{CHECK_FAILED}: {what}{branch}"


def register(calls_of: Callable[[FunctionType], int], drop: Callable[[str], None]) -> None:
    """Register the functions that say how often compiled code has served calls of a function, and that drop the code which guards that a key is in no dict."""
    _compiled.append((calls_of, drop))


def note(error: BaseException, function: FunctionType) -> None:
    """Note that the graph of a call raised this error, if it did because the call goes the exceptional way of a branch."""
    text = str(error.args[0]).partition("\n")[0] if error.args else ""  # torch may add C++ frames
    for what, allowed in ALLOWED.items():
        branch = text.removeprefix(message(what, ""))
        if branch != text:
            _exceptional[branch] += 1
            if _exceptional[branch] > allowed and _exceptional[branch] * RARE > sum(calls_of(function) for calls_of, _ in _compiled):
                OFTEN[branch] = True
                for _, drop in _compiled:
                    drop(branch)


def forget() -> None:
    """Forget everything: part of `reset()`."""
    _exceptional.clear()
    for branch in filter(None, [*OFTEN]):
        del OFTEN[branch]
