"""A family of the random programs' grammar: what one part of the language adds to the tables that programs are written from."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Family:
    """Templates by what they stand for.

    In a template `{t}` is a place for an expression of the kind "t" and `{bt}` for one with a graph break; `{one;another}` is a choice, whose
    alternatives may hold places; braces of the program's are doubled. The first template of each kind is a plain one, without places.
    """

    prelude: str = ""
    """Text at the beginning of programs with this family."""
    variables: dict[str, str] = field(default_factory=dict)
    """Variables of functions that use them: the line that makes each."""
    expressions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By kind: "i" are numbers, "t" tensors of three, "c" conditions, "e" exceptions; a family may have kinds of its own."""
    breaking: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Expressions that break the graph, by kind."""
    statements: tuple[str, ...] = ()
    breaking_statements: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    """Compound statements: a line `BLOCK` is a place for statements, and `NEW` for a name that nothing else has."""
    loops: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()
    handlers: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    """What a handler does with the exception that it names `error`."""
    methods: tuple[tuple[str, str, str], ...] = ()
    """Of classes that programs define: decorator, name with parameters, and how the body begins; the rest is a random body."""
    members: tuple[str, ...] = ()
    """Other lines of the bodies of such classes."""
    bases: tuple[str, ...] = ()
    """What such classes may derive from."""
