"""What containers, attributes and cells from outside let go of: code that runs at its end runs between what comes before and what follows."""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

log: list[str] = []
in_global: Any = None
x = torch.ones(2)


class Noisy:
    def __del__(self) -> None:
        log.append("end")


class Slots:
    __slots__ = ("a",)


class Attributes:
    a: Any


def noted(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A program that makes the change, notes that it has, and gives the notes."""

    def program(owner: Any) -> list[str]:
        change(owner)
        log.append("after")
        return list(log)

    program.__name__ = change.__name__
    return program


def store_item(owner: Any) -> None:
    owner["a"] = None


def delete_item(owner: Any) -> None:
    del owner["a"]


def update(owner: Any) -> None:
    owner.update(b=1, a=2)


def merge(owner: Any) -> None:
    owner |= {"a": 1}


def store_attribute(owner: Any) -> None:
    owner.a = None


def delete_attribute(owner: Any) -> None:
    del owner.a


def store_first(owner: Any) -> None:
    owner[0] = None


def delete_first(owner: Any) -> None:
    del owner[0]


def store_slice(owner: Any) -> None:
    owner[:] = [1]


def clear(owner: Any) -> None:
    owner.clear()


def pop(owner: Any) -> None:
    owner.pop()


def pop_key(owner: Any) -> None:
    owner.pop("a")


def pop_item(owner: Any) -> None:
    owner.popitem()


def store_global(owner: Any) -> None:
    global in_global
    in_global = None


def call(owner: Any) -> None:
    owner()


def in_attribute(cls: type) -> Any:
    owner = cls()
    owner.a = Noisy()
    return owner


def in_module() -> Any:
    global in_global
    in_global = Noisy()


def in_cell() -> Any:
    held: Any = Noisy()

    def let_go() -> None:
        nonlocal held
        held = None

    return let_go


def with_callback() -> Any:
    held = Attributes()
    return {"a": held, "reference": weakref.ref(held, lambda reference: log.append("end"))}


def waiting() -> Any:
    def wait() -> Any:
        try:
            yield 1
        finally:
            log.append("end")

    generator = wait()
    next(generator)
    return {"a": generator}


def in_dict() -> Any:
    return {"a": Noisy()}


def in_list() -> Any:
    return [Noisy()]


OWNERS: list[tuple[Callable[[Any], None], Callable[[], Any]]] = [
    *((change, in_dict) for change in (store_item, delete_item, update, merge, clear, pop_key, pop_item)),
    *((change, lambda: collections.OrderedDict(a=Noisy())) for change in (store_item, delete_item, clear, pop_item)),
    *((change, in_list) for change in (store_first, delete_first, store_slice, clear, pop)),
    *((change, lambda: collections.deque([Noisy()])) for change in (store_first, delete_first, clear, pop)),
    *((change, lambda: {Noisy()}) for change in (clear, pop)),
    *((change, lambda: in_attribute(Attributes)) for change in (store_attribute, delete_attribute)),
    *((change, lambda: in_attribute(Slots)) for change in (store_attribute, delete_attribute)),
    (store_attribute, lambda: in_attribute(torch.nn.Module)),
    (store_global, in_module),
    (call, in_cell),
    (store_item, waiting),
    (store_item, with_callback),
    (store_item, lambda: {"a": [1, (Noisy(),)]}),
]


@pytest.mark.parametrize(("change", "make"), OWNERS, ids=[f"{change.__name__}-{position}" for position, (change, _) in enumerate(OWNERS)])
def test_code_at_the_end_runs_in_its_place(change, make):
    program = noted(change)
    log.clear()
    expected = program(make())
    assert expected == ["end", "after"]
    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        log.clear()
        assert compiled(make()) == expected


def test_code_at_the_end_changes_what_is_iterated_over():
    class Clears(int):
        def __del__(self) -> None:
            items.clear()

    def program() -> Any:
        for key, _ in items.items():
            if key == 2:
                items[2] = None

    items: Any = {}
    for function in (program, framejit.compile(program, backend="eager")):
        items.update({i: Clears(i) for i in range(8)})
        with pytest.raises(RuntimeError, match="changed size"):
            function()
    items.clear()


def test_what_only_moves_is_let_go_of_by_nobody():
    def program(items: list[Any], t: torch.Tensor) -> torch.Tensor:
        items.reverse()
        items.append(t)
        return t + 1

    items: list[Any] = [Noisy(), Noisy()]
    assert torch.equal(framejit.compile(program, backend="eager", fullgraph=True)(items, x), x + 1)


def test_what_runs_nothing_at_its_end_is_replaced_in_the_graph():
    def program(owner: dict[str, Any], t: torch.Tensor) -> torch.Tensor:
        owner["a"] = owner["b"] = owner["c"] = owner["d"] = t
        return owner["a"] + 1

    def make() -> dict[str, Any]:
        return {"a": [1, 2], "b": Attributes(), "c": torch.nn.Linear(2, 2), "d": lambda: None}

    assert torch.equal(framejit.compile(program, backend="eager", fullgraph=True)(make(), x), x + 1)
