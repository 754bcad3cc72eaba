"""Builtins in plain Python: iteration by calling, iteration from the end, str.format with values that are not constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from framejit.modules.app.parsing import field_parts, template_parts


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


def format_template(template: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """`template.format(*args, **kwargs)`."""
    pieces = []
    automatic = 0
    for literal, name, spec, conversion in template_parts(template):
        pieces.append(literal)
        if name is None:
            continue
        if name == "" or name[0] in ".[":
            name = str(automatic) + name
            automatic += 1
        first, rest = field_parts(name)
        value = args[first] if isinstance(first, int) else kwargs[first]
        for is_attribute, part in rest:
            value = getattr(value, str(part)) if is_attribute else value[part]
        if conversion == "r":
            value = repr(value)
        elif conversion == "s":
            value = str(value)
        elif conversion == "a":
            value = ascii(value)
        pieces.append(format(value, format_template(spec, args, kwargs) if "{" in spec else spec))
    return "".join(pieces)
