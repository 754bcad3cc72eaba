"""The names under which a later process finds objects again."""

from __future__ import annotations

import dataclasses
import itertools
import os
import sys
from types import ModuleType
from typing import Any

import pytest

from framejit.saved import names


def wrapped(cls: Any) -> Any:
    made = cls.__init__
    cls.__init__ = lambda self, *args: made(self, *args)
    return cls


@wrapped
@dataclasses.dataclass
class Made:
    size: int


def test_the_code_of_a_function_is_as_near_as_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many objects are near: the search ends here after the object that holds the function."""
    inner = Made.__init__.__closure__[0].cell_contents  # type: ignore[attr-defined]
    reached = list(names.Namer([Made])._all_steps())
    monkeypatch.setattr(names, "MOST_REACHED", reached.index(id(inner)) + 1)
    namer = names.Namer([Made])
    assert names.find(namer.name_of(inner.__code__)) is inner.__code__


def test_functions_of_os_environ_have_names() -> None:
    code = os.environ.encodekey.__code__  # type: ignore[attr-defined]
    assert names.find(names.Namer([Made]).name_of(code)) is code


@pytest.mark.parametrize("method", [object.__new__, dict.fromkeys, itertools.chain.from_iterable], ids=lambda method: method.__qualname__)
def test_methods_of_classes_in_c_are_named_by_their_class(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that has one under another name may be missing in the later process."""
    other = ModuleType("a_module_that_has_it")
    other.its_name = method  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, other.__name__, other)
    kind, owner, key = names.Namer().name_of(method)
    assert kind == "bound" and names.find(owner) is method.__self__ and key == method.__name__
