"""The names under which a later process finds objects again."""

from __future__ import annotations

import dataclasses
import os
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
