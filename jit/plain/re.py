"""Substitution in plain Python, for replacements that are functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def substitute(pattern: Any, repl: Callable[[Any], Any], string: Any, count: int) -> tuple[Any, int]:
    """`pattern.subn(repl, string, count)` of a text or bytes (Modules/_sre/sre.c: pattern_subx)."""
    parts, end, number = [], 0, 0
    for match in pattern.finditer(string):
        if count and number >= count:
            break
        if end < match.start():
            parts.append(string[end : match.start()])
        text = repl(match)
        if text is not None:
            parts.append(text)
        end = match.end()
        number += 1
    if end < len(string):
        parts.append(string[end:])
    return string[:0].join(parts), number
