"""Parsing of format templates: the function here is called for real on constants, not traced."""

from __future__ import annotations

import _string
import string
from typing import Any

DEPTH = 2
"""The nesting depth of templates: the format spec of a field may be one, but that of a field in there may not."""


class Numbering:
    """Numbers the fields of a template that have no number (Objects/stringlib/unicode_format.h: AutoNumber)."""

    def __init__(self, positions: int) -> None:
        self.positions = positions
        self.automatic: bool | None = None
        self.used = 0

    def number(self, first: int | str) -> int | str:
        """The position or the name of the argument that a field refers to. Raises ValueError and IndexError, with arbitrary messages."""
        if isinstance(first, str) and first:
            return first
        automatic = first == ""
        if self.automatic not in (None, automatic):
            raise ValueError(first)
        self.automatic = automatic
        if isinstance(first, str):
            first, self.used = self.used, self.used + 1
        if first >= self.positions:
            raise IndexError(first)
        return first


def template_fields(template: str, positions: int) -> tuple[Any, ...] | None:
    """The pieces of a template for a call of str.format with so many positional arguments; None if it rejects the template.

    A piece is a literal or a field: the argument, its attributes (True) and items (False) that follow, the conversion, and the format spec. The spec is
    text, or consists of pieces itself.
    """
    try:
        return pieces_of(template, Numbering(positions), DEPTH)
    except (ValueError, IndexError):
        return None


def pieces_of(template: str, numbering: Numbering, depth: int) -> tuple[Any, ...]:
    if depth == 0:
        raise ValueError(template)
    pieces: list[Any] = []
    for literal, name, spec, conversion in string.Formatter().parse(template):
        pieces.append(literal)
        if name is not None:
            first, rest = _string.formatter_field_name_split(name)
            argument, steps = numbering.number(first), tuple(rest)
            if conversion not in (None, "r", "s", "a"):
                raise ValueError(conversion)
            spec = spec or ""
            pieces.append((argument, steps, conversion, pieces_of(spec, numbering, depth - 1) if "{" in spec else spec))
    return tuple(pieces)
