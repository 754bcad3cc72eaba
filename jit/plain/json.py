"""json in plain Python: the C encoder and scanner by the functions in Python that the library has for them."""

from __future__ import annotations

import json.decoder
import json.encoder
import json.scanner
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

iterencode: Callable[..., Any] = vars(json.encoder)["_make_iterencode"]
scanner_of: Callable[..., Any] = vars(json.scanner)["py_make_scanner"]


def text_of_float(value: float, allow_nan: bool) -> str:
    """The text of an exact float by the C encoder, whose error differs between versions. Called while tracing, and by generated code."""
    encoder: Any = vars(json.encoder)["c_make_encoder"]
    return "".join(encoder(None, None, str, None, ":", ",", False, False, allow_nan)(value, 0))


def text_of_int(value: int) -> str:
    """`int.__repr__`, for a symbolic number too."""
    return repr(value) if type(value) is int else int.__repr__(value)


TEXTS_OF_INTS: dict[str, Any] = {"_intstr": text_of_int} if "_intstr" in iterencode.__code__.co_varnames else {}
"""Until Python 3.14, the library's function can be told how to write ints."""


def make_encoder(
    markers: Any, default: Any, encoder: Any, indent: Any, key_separator: str, item_separator: str, sort_keys: bool, skipkeys: bool, allow_nan: bool
) -> Callable[[Any, int], Iterator[str]]:
    """Modules/_json.c: encoder_new."""

    def text_of(value: float) -> str:
        return text_of_float(value if type(value) is float else float.__pos__(value), allow_nan)

    return iterencode(
        markers, default, encoder, indent, text_of, key_separator, item_separator, sort_keys, skipkeys, True, **TEXTS_OF_INTS
    )  # fmt: skip


def scan_once(scanner: Any, text: str, index: int) -> tuple[Any, int]:
    """Modules/_json.c: scanner_call, of a scanner from outside."""
    decoder: Any = json.decoder
    context = SimpleNamespace(
        parse_object=decoder.JSONObject, parse_array=decoder.JSONArray, parse_string=decoder.scanstring, memo={}, strict=scanner.strict,
        object_hook=scanner.object_hook, object_pairs_hook=scanner.object_pairs_hook, parse_float=scanner.parse_float, parse_int=scanner.parse_int,
        parse_constant=scanner.parse_constant,
    )  # fmt: skip
    return scanner_of(context)(text, index)
