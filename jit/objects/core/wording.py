"""The texts of errors that versions of Python word differently. They are read once, from errors that the running Python raises here."""

from __future__ import annotations

from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any


def said(function: Callable[[], Any]) -> str:
    """The text of the exception that the function raises."""
    try:
        function()
    except Exception as error:
        return str(error)
    raise AssertionError("no error")


class Slotted:
    """A class whose one slot is empty."""

    __slots__ = ("slot",)


ANYTHING: Any = 1
NOT_HASHABLE: Any = []
NOT_MAPPED: Any = Slotted()

NO_DICT = said(lambda: setattr(object(), "name", 1)).partition("'name'")[2]
"""The end of the text of the error for an attribute that can't be stored because the object has no `__dict__`; the name comes before it."""
HAS_FULL_NAMES = said(lambda: Slotted().slot).startswith(f"'{__name__}.")  # type: ignore[attr-defined]
"""True if the error of an empty slot names the class with its module."""
COUNTS_SURPLUS = "got 3" in said(lambda: exec("a, b = [1, 2, 3]"))
"""True if the error of unpacking too many values says how many there are, for a list, tuple or dict."""
NOT_ITERABLE_IN_SLICE = said(lambda: [1].__setitem__(slice(0, 1), ANYTHING))
"""The text of the error for a value that isn't iterable and is assigned to a slice of step 1."""
NO_SLICE_BOUND = said(lambda: (1,)[NOT_HASHABLE:])
"""The text of the error for a start, stop or step of a slice that is no integer."""
NAMES_OF_SUPER = "(instance of int)" in said(lambda: super(Slotted, ANYTHING))
"""True if the error of super() names the types of its arguments."""
NAMES_MISSING_ITEM = said(lambda: [0].index(1)).startswith("1")
"""True if the errors of `index` and `remove` of lists and deques name the item that is missing."""
NO_CONTAINER = said(lambda: ANYTHING in ANYTHING).partition("'int'")[2]
"""The end of the text of the error of `in` for what is no container; the name of the type comes before it."""
NAMES_ARGUMENT_OF_NOTE = "argument" in said(lambda: ValueError().add_note(ANYTHING))
"""True if the error for a note that isn't a string speaks of an argument."""
UNSURE: Any = type("Unsure", (), {"__bool__": lambda self: 5})()
"""An object whose `__bool__` returns an int, which is an error."""
NAMES_METHOD_IN_FULL = "Unsure" in said(lambda: bool(UNSURE))
"""True if the error for a special method that returns a value of a wrong type names the method's class."""
NOT_A_SEQUENCE = said(lambda: dict([ANYTHING]))
"""The text of the error for an item, in what a dict is made from, that isn't a pair because it isn't iterable."""
NAMES_ITEM_IN_NOTE = "#0" not in NOT_A_SEQUENCE
"""True if a note of that error, instead of its text, has the item's number."""
NO_MAPPING_IN_FULL = __name__ in said(lambda: {**NOT_MAPPED})
"""True if the errors for a `**` of what is no mapping name its class with its module."""
NAMES_CALLED_IN_STARS = "len" in said(lambda: len(*ANYTHING))
"""True if the errors for a `*` or `**` of a wrong type name the function that is called."""
NAMES_USE_OF_HASH = "dict" in said(lambda: {NOT_HASHABLE: 1})
"""True if the error for an unhashable value says that it was used as a dict's key or a set's element."""


def too_many(expected: int, cls: type, size: int | None) -> str:
    """The text of the error of unpacking more values than expected. `size`: how many there are, if that is known."""
    got = f", got {size}" if COUNTS_SURPLUS and cls in (list, tuple, dict) and size is not None else ""
    return f"too many values to unpack (expected {expected}{got})"


def unexpected_keyword(code: CodeType, qualname: str, key: str) -> str:
    """The text of the error for a keyword argument that a function doesn't have. Some Pythons suggest another one, so a function with this code is asked; the
    call fails before any of the code runs."""
    function = FunctionType(code, {}, code.co_name, None, tuple([CellType() for _ in code.co_freevars]))
    function.__qualname__ = qualname
    try:
        function(**{key: None})
    except TypeError as error:
        return str(error)
    raise AssertionError(key)
