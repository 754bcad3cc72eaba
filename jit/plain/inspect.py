"""Functions of the module `inspect` in plain Python."""

from __future__ import annotations

import inspect
from types import GetSetDescriptorType
from typing import Any


class WithDict:
    """A class whose instances have a dict."""


OWNER: Any = object if vars(WithDict)["__dict__"].__objclass__ is object else None
"""From Python 3.15 on, the descriptors of instances' dicts belong to the class `object`."""


def shadowed_dict(cls: Any) -> Any:
    """Find the class attribute that hides the `__dict__` of instances, as `inspect._shadowed_dict` of newer Pythons does, but without its cache."""
    for entry in inspect._static_getmro(cls):  # type: ignore[attr-defined]
        found = inspect._get_dunder_dict_of_class(entry).get("__dict__", inspect._sentinel)  # type: ignore[attr-defined]
        its_own = type(found) is GetSetDescriptorType and found.__name__ == "__dict__" and (found.__objclass__ is entry or found.__objclass__ is OWNER)
        if found is not inspect._sentinel and not its_own:  # type: ignore[attr-defined]
            return found
    return inspect._sentinel  # type: ignore[attr-defined]
