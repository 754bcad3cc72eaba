"""The `__dict__` of classes in compiled code: what is read of it is guarded, and nothing else."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree

import framejit

X = torch.arange(3.0)


class Settings:
    scale = 3.0
    note: int = 3

    def shift(self) -> int:
        return 1


class Derived(Settings):
    extra = 2


def its_names(x: torch.Tensor) -> Any:
    return x * Settings.__dict__["scale"], [name for name in vars(Settings) if not name.startswith("_")]


def as_a_mapping(x: torch.Tensor) -> Any:
    own = Derived.__dict__
    told = {name: value for name, value in own.items() if not name.startswith("__")}
    return x, len(own), "scale" in own, own.get("scale", 4), told, list(own.keys())[0], type(own)


def along_the_bases(x: torch.Tensor) -> Any:
    return x, [base.__name__ for base in Derived.__mro__ if "scale" in base.__dict__]


def a_missing_name(x: torch.Tensor) -> Any:
    try:
        return Derived.__dict__["scale"]
    except KeyError as error:
        return error.args, x


@pytest.mark.parametrize("program", [its_names, as_a_mapping, along_the_bases, a_missing_name], ids=lambda program: program.__name__)
def test_reads(program: Callable[..., Any]) -> None:
    framejit.reset()
    agree(program, X)
    assert framejit.statistics()["graph_breaks"] == 0


def test_a_change_of_what_was_read_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * Settings.__dict__["scale"] + ("other" in vars(Settings))

    framejit.reset()
    compiled = framejit.compile(scaled, backend="eager", fullgraph=True)
    for name, value, recompiles in (("scale", 3.0, 0), ("unread", 1, 0), ("scale", 4.0, 1), ("other", 1, 2)):
        monkeypatch.setattr(Settings, name, value, raising=False)
        for _ in range(2):
            assert torch.equal(compiled(X), scaled(X))
        assert framejit.statistics()["recompiles"] == recompiles, name


def test_reads_and_changes_in_one_call() -> None:
    def changed(x: torch.Tensor) -> Any:
        own = Derived.__dict__
        Derived.extra = own["extra"] + 1
        found = own["extra"], Derived.__dict__["extra"], x
        Derived.extra = 2
        return found

    agree(changed, X, fullgraph=False)


def test_a_class_of_a_function_is_not_kept_alive() -> None:
    def read(x: torch.Tensor, cls: type) -> Any:
        return x, sorted(name for name in cls.__dict__ if not name.startswith("_"))

    class Local:
        size = 1

    framejit.reset()
    assert framejit.compile(read, backend="eager")(X, Local)[1] == ["size"]
    assert framejit.statistics()["graph_breaks"] > 0


def local_class() -> type:
    class Local(Settings):
        scale = 2.0
        kinds = ("a", "b")

        def shift(self) -> int:
            return 5

    return Local


def test_a_class_that_no_module_has_is_looked_up_by_name() -> None:
    def reads(x: torch.Tensor, cls: Any) -> Any:
        own = vars(cls)
        try:
            found = own["note"]
        except KeyError as error:
            found = error.args
        return x * own["scale"], own.get("kinds"), own.get("extra", 7), "note" in own, "shift" in own, found, own["shift"](None), own["__module__"], cls

    framejit.reset()
    compiled = framejit.compile(reads, backend="eager", fullgraph=True)
    cls = local_class()
    for change in (lambda: None, lambda: setattr(cls, "scale", 4.0), lambda: setattr(cls, "note", 1), lambda: delattr(cls, "kinds"), lambda: None):
        change()
        assert repr(compiled(X, cls)) == repr(reads(X, cls))
    assert framejit.statistics()["graphs"] == 4


def test_a_class_that_no_module_has_may_end() -> None:
    def reads(x: torch.Tensor, cls: Any) -> Any:
        return x * cls.__dict__["scale"], cls.__dict__

    compiled = framejit.compile(reads, backend="eager", fullgraph=True)
    cls = local_class()
    _, own = compiled(X, cls)
    assert own["scale"] == 2.0 and type(own) is type(vars(cls))
    ended = weakref.ref(cls)
    del cls, own
    gc.collect()
    assert ended() is None


def test_all_attributes_of_a_class_that_no_module_has_are_read_natively() -> None:
    def reads(x: torch.Tensor, cls: Any) -> Any:
        own = vars(cls)
        return x + 1, [name for name in own if not name.startswith("_")], len(own), sorted(own.keys())[-1], {**own}["scale"], own == dict(own), 3 in own

    framejit.reset()
    cls = local_class()
    assert repr(framejit.compile(reads, backend="eager")(X, cls)) == repr(reads(X, cls))
    assert framejit.statistics()["graph_breaks"] > 0
