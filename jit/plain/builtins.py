"""Builtins in plain Python: iteration by calling, iteration from the end, str.format with values that are not constants, print() to a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framejit.plain.support import END, NULL


def call_until_step(self: Any) -> Any:
    """A step of `iter(function, sentinel)` (Objects/iterobject.c: calliter_iternext)."""
    if self.callable is NULL:
        return END
    try:
        value = self.callable()
    except StopIteration:
        self.callable = self.sentinel = NULL
        return END
    if self.sentinel is NULL:
        return END
    if self.sentinel is value or self.sentinel == value:
        self.callable = self.sentinel = NULL
        return END
    return value


def format_template(pieces: tuple[Any, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """`template.format(*args, **kwargs)`, for the pieces of the template."""
    texts = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        argument, steps, conversion, spec = piece
        value = args[argument] if isinstance(argument, int) else kwargs[argument]
        for is_attribute, step in steps:
            value = getattr(value, str(step)) if is_attribute else value[step]
        if conversion == "r":
            value = repr(value)
        elif conversion == "s":
            value = str(value)
        elif conversion == "a":
            value = ascii(value)
        texts.append(format(value, spec if isinstance(spec, str) else format_template(spec, args, kwargs)))
    return "".join(texts)


def print_to(file: Any, values: tuple[Any, ...], sep: Any, end: Any, flush: Any) -> None:
    """`print(*values, sep=sep, end=end, file=file, flush=flush)` (Python/bltinmodule.c: builtin_print)."""
    if sep is not None and not isinstance(sep, str):
        raise TypeError(f"sep must be None or a string, not {type(sep).__name__}")
    if end is not None and not isinstance(end, str):
        raise TypeError(f"end must be None or a string, not {type(end).__name__}")
    is_first = True
    for value in values:
        if not is_first:
            file.write(" " if sep is None else sep)
        is_first = False
        file.write(str(value))
    file.write("\n" if end is None else end)
    if flush:
        file.flush()
