"""`Version`, the description of one Python version's bytecode, which each version file provides."""

from __future__ import annotations

from collections.abc import Mapping

from framejit.bytecode.versions.rows import Row
from framejit.bytecode.versions.words import Word
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Version:
    """Everything that framejit knows about the bytecode of one Python version. Only decode.py and encode.py use it to read and write."""

    number: tuple[int, int]
    table: Mapping[str, Row]
    """For reading: each opcode as canonical operations."""
    words: Mapping[str, Word]
    """For writing: each word of the vocabulary as instructions."""
    prefixes: frozenset[str]
    """Opcodes of instructions that belong to the one after them."""
    caches: Mapping[str, int]
    """The number of inline cache entries after each instruction that has any."""
