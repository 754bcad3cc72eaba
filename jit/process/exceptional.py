"""The branches on data of which compiled code takes one way to be exceptional, and how often calls have gone it.

The graph checks that a call goes the other way; a call that doesn't runs uncompiled. If that happens often, the way isn't exceptional: the branch is in
`OFTEN`, which compiled code guards, and the next trace breaks the graph there.
"""

from __future__ import annotations

from collections import Counter
from types import FunctionType
from typing import Protocol

from framejit.errors import CHECK_FAILED

ALLOWED = {"a way that leaves compiled code, of ": 1, "a way that only returns, of ": 1, "numbers that aren't finite, at ": 8}
"""What is exceptional about a way, as the beginning of its branch's name, and how many calls may go it, however few calls there are: a GradScaler often begins
with some that do."""
RARE = 8
"""More calls may go it if there are this many times as many calls."""

OFTEN = {"": False}
"""The branches whose exceptional way is no exception, by name. It is never empty, so that guards are about single branches."""

LEAVES, RETURNS, NOT_FINITE = ALLOWED
_MESSAGE = f"{CHECK_FAILED}: "
_exceptional: Counter[str] = Counter()


class CompiledCode(Protocol):
    """What is known of all compiled code."""

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
    """Note that the graph of a call of a function raised this error. It may be that of a check: Inductor's code has other messages for them, which don't tell
    the branch, so all branches of the function are meant then."""
    text = str(error.args[0]).partition("\n")[0] if error.args else ""  # torch may add C++ frames
    branch = text.removeprefix(_MESSAGE)
    for code in _code if type(error) is RuntimeError else ():
        checked = code.checked_by(function)
        for each in checked & {branch} if branch != text else checked:
            _exceptional[each] += 1
            allowed = next(number for what, number in ALLOWED.items() if each.startswith(what))
            if _exceptional[each] > allowed and _exceptional[each] * RARE > code.calls_of(function):
                OFTEN[each] = True
                code.drop(each)


def forget() -> None:
    """Forget everything: part of `reset()`."""
    _exceptional.clear()
    for branch in filter(None, [*OFTEN]):
        del OFTEN[branch]
