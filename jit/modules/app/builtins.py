"""Builtins in plain Python: iteration by calling, iteration from the end, str.format with values that are not constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def call_until(function: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    """`iter(function, sentinel)`."""
    while True:
        try:
            value = function()
        except StopIteration:
            return
        if value == sentinel:
            return
        yield value


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
