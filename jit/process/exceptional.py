"""The branches on data of which compiled code takes one way to be exceptional, and how often calls have gone it.

The graph checks that a call goes the other way; a call that doesn't runs uncompiled. If that happens often, the way isn't exceptional: the branch is in
`OFTEN`, which compiled code guards, and the next trace breaks the graph there.
"""

from __future__ import annotations

from collections import Counter
from types import FunctionType
from typing import Protocol

from framejit.errors import CHECK_FAILED

ALLOWED = {"a way that leaves compiled code, of ": 1, "a way that only returns, of ": 1, "numbers that aren't finite, or a factorization that fails, at ": 8}
"""The kinds of exceptional ways, with which the names of branches begin, and the number of calls that may go one, however few calls there are: the first steps
with a GradScaler often have gradients that aren't finite."""
RARE = 8
"""A way is exceptional if at most one call in so many goes it."""

OFTEN = {"": False}
"""The branches whose exceptional way is no exception, by name. It is never empty, so that guards are about single branches."""

LEAVES, RETURNS, NOT_FINITE = ALLOWED
_MESSAGE = f"{CHECK_FAILED}: "
_exceptional: Counter[str] = Counter()


class CompiledCode(Protocol):
    """Tells about the code that is compiled for functions, and drops it."""

    def calls_of(self, function: FunctionType) -> int:
        """The number of calls of a function that compiled code has served."""

    def checked_by(self, function: FunctionType) -> set[str]:
        """The branches, by name, of which compiled code for a function checks that calls go the other way."""

    def drop(self, branch: str) -> None:
        """Drop the code that checks a branch."""


_code: list[CompiledCode] = []
register = _code.append


def message(branch: str) -> str:
    """The error message of a check that a branch goes the other way."""
    return _MESSAGE + branch


def note(error: BaseException, function: FunctionType) -> None:
    """Note that the graph of a call of a function raised this error, which may be that of a check.

    Inductor has messages of its own for checks, which don't tell the branch. Such an error counts for all branches of the function.
    """
    if type(error) is not RuntimeError or not error.args:
        return
    text = str(error.args[0]).partition("\n")[0]  # torch may add C++ frames
    for code in _code:
        checked = code.checked_by(function)
        for branch in checked & {text.removeprefix(_MESSAGE)} if text.startswith(_MESSAGE) else checked:
            _count(branch, code, code.calls_of(function))


def _count(branch: str, code: CompiledCode, calls: int) -> None:
    """Count a call that goes the exceptional way of a branch. `calls`: the number of calls of its function."""
    _exceptional[branch] += 1
    allowed = next(number for what, number in ALLOWED.items() if branch.startswith(what))
    if _exceptional[branch] > max(allowed, calls // RARE):
        OFTEN[branch] = True
        code.drop(branch)


def forget() -> None:
    """Forget everything: part of `reset()`."""
    _exceptional.clear()
    for branch in filter(None, [*OFTEN]):
        del OFTEN[branch]
