"""The vocabulary of the code that framejit writes: words, and each word as the instructions of a Python version.

A word is the same on every version, as canonical operations are for code that is read. It takes one argument, that of its instruction: an
index into `co_consts` or `co_names`, a slot, a count, a depth, an operator's symbol, a distance in code units; 0 where it takes none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framejit.bytecode.versions.rows import BINARY_SYMBOLS

Written = tuple[tuple[str, int], ...]
"""Instructions of a Python version: (opcode, argument)."""
Word = Callable[[Any], Written]


def one(opcode: str) -> Word:
    """A word that is one instruction, with the same argument."""
    return lambda argument: ((opcode, argument),)


def load_callable(index: int) -> Written:
    """A constant that is called: its arguments follow, then `call` or `call_with_tuple`."""
    return ("PUSH_NULL", 0), ("LOAD_CONST", index)


SHARED_WORDS: dict[str, Word] = {
    "start": one("RESUME"),
    "nop": one("NOP"),
    # stack
    "load_const": one("LOAD_CONST"),
    "load_global": lambda index: (("LOAD_GLOBAL", index << 1),),
    "pop": one("POP_TOP"),
    "copy": one("COPY"),
    "swap": one("SWAP"),
    "push_null": one("PUSH_NULL"),
    # local variables
    "load_local": one("LOAD_FAST"),
    "store_local": one("STORE_FAST"),
    "delete_local": one("DELETE_FAST"),
    "make_cell": one("MAKE_CELL"),
    "copy_free_variables": one("COPY_FREE_VARS"),
    # operators, items, attributes
    "binary_op": lambda symbol: (("BINARY_OP", BINARY_SYMBOLS.index(symbol)),),
    "is": lambda _: (("IS_OP", 0),),
    "subscript": one("BINARY_SUBSCR"),
    "store_subscript": one("STORE_SUBSCR"),
    "store_attr": one("STORE_ATTR"),
    "delete_attr": one("DELETE_ATTR"),
    # containers
    "build_tuple": one("BUILD_TUPLE"),
    "build_list": one("BUILD_LIST"),
    "build_set": one("BUILD_SET"),
    "build_map": one("BUILD_MAP"),
    "build_slice": one("BUILD_SLICE"),
    "list_append": one("LIST_APPEND"),
    "set_add": one("SET_ADD"),
    "map_add": one("MAP_ADD"),
    "unpack": one("UNPACK_SEQUENCE"),
    # calls
    "load_callable": load_callable,
    "call_with_tuple": lambda _: (("CALL_FUNCTION_EX", 0),),
    # control
    "jump": one("JUMP_FORWARD"),
    "for_iter": one("FOR_ITER"),
    "return": one("RETURN_VALUE"),
    "return_generator": one("RETURN_GENERATOR"),
    # exceptions
    "raise": lambda _: (("RAISE_VARARGS", 1),),
    "reraise": one("RERAISE"),
    "push_handled": one("PUSH_EXC_INFO"),
    "pop_handled": one("POP_EXCEPT"),
}
"""Words that most versions have in common. Each version also has `call` (argument: the number of arguments), `load_attr`, `list_to_tuple`, `jump_if_true` and
`jump_if_false` (forward, on any value), `to_bool`, which makes a value what a conditional jump of the program takes, `enter_covered`, which stands first where
a handler covers instructions that may call a Python function, and `end_for`, which stands where an exhausted `for_iter` continues."""
