"""The signatures of functions, one object for each function as long as its parameters stay, so that compiled code can refer to a signature by its function."""

from __future__ import annotations

import inspect
import weakref
from types import FunctionType, MethodType
from typing import Any

_signatures: weakref.WeakKeyDictionary[FunctionType, dict[bool, inspect.Signature]] = weakref.WeakKeyDictionary()


def signature_of(function: FunctionType, bound: bool = False) -> inspect.Signature:
    """The signature of a function, or of a method that is bound to it. Raises TypeError and ValueError as `inspect.signature` does."""
    found = inspect.signature(MethodType(function, object()) if bound else function)
    known = _signatures.setdefault(function, {})
    if bound not in known or not same(known[bound], found):
        known[bound] = found
    return known[bound]


def same(one: inspect.Signature, other: inspect.Signature) -> bool:
    """Return whether two signatures have the same parameters, with the same objects as defaults and annotations. It runs none of the program's code."""
    return facts(one) == facts(other)


def facts(signature: inspect.Signature) -> list[Any]:
    parameters = [(found.name, int(found.kind), id(found.default), id(found.annotation)) for found in signature.parameters.values()]
    return [*parameters, id(signature.return_annotation)]


def function_with(signature: Any) -> tuple[FunctionType, bool] | None:
    """The function of which an object is the signature, and whether it is that of a bound method; None if it comes from elsewhere."""
    for function, known in list(_signatures.items()):
        for bound, found in known.items():
            if found is signature:
                return function, bound
    return None
