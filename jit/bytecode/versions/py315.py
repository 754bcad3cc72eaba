"""CPython 3.15: its opcodes as canonical operations, and its form of the words that framejit writes."""

from __future__ import annotations

from framejit.bytecode.versions import py314
from framejit.bytecode.versions.py313 import PREFIXES
from framejit.bytecode.versions.py314 import COMMON_CONSTANTS, common_constant
from framejit.bytecode.versions.rows import Part, Raw, Row, View, sequence
from framejit.bytecode.versions.version import Version

LAZY = 1
"""The bit of IMPORT_NAME's argument that says that the import is lazy."""


def _get_iter(raw: Raw, view: View) -> tuple[Part, ...]:
    # A NULL above the iterator. (CPython may leave an iterable itself and an index instead, which no frame that framejit reads or writes has.)
    return (Part("GET_YIELD_FROM_ITER" if raw.arg else "GET_ITER", 1),)


def _with_null(op: str) -> Row:
    row = py314.TABLE[op]

    def expand(raw: Raw, view: View) -> tuple[Part, ...]:
        (part,) = row.expand(raw, view)
        return (part._replace(arg=1),)

    return Row((op,), expand)


def _import_name(raw: Raw, view: View) -> tuple[Part, ...]:
    name = view.code.co_names[raw.arg >> 2]
    return (Part("IMPORT_LAZILY" if raw.arg & LAZY else "IMPORT_NAME", None, name),)


TABLE: dict[str, Row] = {name: row for name, row in py314.TABLE.items() if name != "GET_YIELD_FROM_ITER"} | {
    "LOAD_COMMON_CONSTANT": common_constant((*COMMON_CONSTANTS, list, set, None, "", True, False, -1)),
    "IMPORT_NAME": Row(("IMPORT_NAME", "IMPORT_LAZILY"), _import_name),
    # Iterators have a NULL above them, which jumps out of loops pop too.
    "GET_ITER": Row(("GET_ITER", "GET_YIELD_FROM_ITER"), _get_iter),
    "FOR_ITER": _with_null("FOR_ITER"),
    "SEND": _with_null("SEND"),
    "POP_ITER": sequence(Part("POP_TOP"), Part("POP_TOP")),
    "END_SEND": sequence(Part("END_SEND", 1)),
    "CLEANUP_THROW": sequence(Part("CLEANUP_THROW", 1)),
}

CACHES = py314.CACHES | {"CALL_FUNCTION_EX": 1, "GET_ITER": 1, "RESUME": 1}

VERSION = Version((3, 15), TABLE, py314.WORDS, PREFIXES, CACHES)
