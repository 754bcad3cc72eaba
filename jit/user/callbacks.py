"""framejit.on_compile: callbacks at the start and at the end of each compilation."""

from __future__ import annotations

from typing import Any

from framejit.errors import BadArgument
from framejit.process.underway import CALLBACKS, Callback


class on_compile:
    """Call functions whenever framejit compiles something: `start` before and `end` after it. Each is given a `Compilation`.

    A `Compilation` has `function`, `filename`, `lineno`, `why` ("first call", "recompile", "graph break" or "backward pass"), `seconds`, `stage`, `stages`,
    `layer`, `operations`, `uncompiled` (why the function runs uncompiled, or an empty string), `beside` and, while `end` is called, `error` (what it raised, or
    None). The functions are called on the thread that compiles. If one raises an exception, that is logged, and the program goes on.

    They are called until `remove()` is called, or until the end of the `with` block, if the object is used as a context manager.

    Raises:
        BadArgument: no function is given, or something that can't be called.
    """

    def __init__(self, start: Callback | None = None, end: Callback | None = None) -> None:
        if start is None and end is None:
            raise BadArgument("on_compile() needs a function: on_compile(end=...) or on_compile(start=...)")
        for name, callback in (("start", start), ("end", end)):
            if callback is not None and not callable(callback):
                raise BadArgument(f"on_compile({name}=...) must be a function that takes a Compilation; got {type(callback).__name__}")
        CALLBACKS.add(self, start, end)

    def remove(self) -> None:
        """Stop calling the functions. Doing this twice is no error."""
        CALLBACKS.remove(self)

    def __enter__(self) -> on_compile:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.remove()
