"""The branches on data of which compiled code takes one way to be exceptional, and how often calls have gone it.

The graph checks that a call goes the other way; a call that doesn't runs uncompiled. If that has happened LIMIT times at one branch, the way isn't exceptional:
the branch is in `OFTEN`, which compiled code guards, and the next trace breaks the graph there.
"""

from __future__ import annotations

from collections import Counter

from framejit.errors import CHECK_FAILED

LIMIT = 8
"""So many calls that go the exceptional way run uncompiled."""

OFTEN: dict[str, bool] = {}
"""The branches whose exceptional way is no exception, by name."""

_calls: Counter[str] = Counter()


_MESSAGE = f"{CHECK_FAILED}: the exceptional way of the branch in "


def message(branch: str) -> str:
    """The error message of a check that a branch goes the ordinary way."""
    return _MESSAGE + branch


def count(error: BaseException) -> None:
    """Count a call whose graph raised this error, if the call has gone the exceptional way of a branch."""
    text = str(error.args[0]) if error.args else ""
    branch = text.removeprefix(_MESSAGE)
    if branch == text:
        return
    _calls[branch] += 1
    if _calls[branch] >= LIMIT:
        OFTEN[branch] = True


def forget() -> None:
    """Forget everything: part of `reset()`."""
    _calls.clear()
    OFTEN.clear()
