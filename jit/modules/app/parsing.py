"""The parsing of format templates, done for real: the functions here are called on constants, not traced."""

from __future__ import annotations

import _string
import string


def template_parts(template: str) -> tuple[tuple[str, str | None, str, str | None], ...]:
    """(literal, field name, spec, conversion) for each piece of a str.format template."""
    return tuple([(literal, name, spec or "", conversion) for literal, name, spec, conversion in string.Formatter().parse(template)])


def field_parts(name: str) -> tuple[int | str, tuple[tuple[bool, int | str], ...]]:
    """The first part of a field name, and the attributes (True) and items (False) that follow."""
    first, rest = _string.formatter_field_name_split(name)
    return first, tuple(rest)
