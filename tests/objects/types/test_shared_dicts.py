"""Instances that share their `__dict__`: with all of their class, with another instance, with a dict of the program's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framejit


class Shared:
    """The state of accelerate's PartialState is kept in this way."""

    state: dict[str, Any] = {}

    def __init__(self, scale: float = 2.0) -> None:
        self.__dict__ = self.state
        if not self.ready:
            self.scale = scale
            self.uses = 0

    @property
    def ready(self) -> bool:
        return self.__dict__ != {}


def reads(x: Any) -> Any:
    return x * Shared().scale, Shared(5.0).uses


def writes(x: Any) -> Any:
    first = Shared()
    first.uses += 1
    second = Shared()
    second.seen = x.shape
    return x + second.uses, first.seen, first.__dict__ is second.__dict__ is Shared.state, vars(first) is Shared.state


def keeps(x: Any) -> Any:
    made = Shared()
    made.scale = 7
    return made, x


class Plain:
    pass


def shares_with_another(x: Any) -> Any:
    one, other = Plain(), Plain()
    one.a = x + 1
    other.__dict__ = one.__dict__
    other.b = 3
    return one.b, other.a, one, other, vars(one) is vars(other)


def shares_a_dict(x: Any) -> Any:
    made, kept = Shared.__new__(Shared), {"scale": x}
    made.__dict__ = kept
    kept["more"] = 1
    made.less = 2
    return made.more, kept["less"], made, kept, vars(made) is kept


def keeps_its_first(x: Any) -> Any:
    made = Plain()
    made.a, first = x, vars(made)
    made.__dict__ = {"b": 1}
    made.c, first["d"] = 2, 3
    return first, made, vars(made) is first


def breaks_between(x: Any) -> Any:
    made = Shared()
    made.uses += 1
    framejit.graph_break()
    made.uses += 1
    return x + made.uses, Shared.state["uses"], made


def is_refused(x: Any) -> Any:
    made = Shared()
    told = []
    for value in ([], None, 3):
        try:
            made.__dict__ = value
        except TypeError as error:
            told.append(str(error))
    made.__dict__ = {"scale": 3}
    return x * made.scale, told, Shared.state


def portrait(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [portrait(item) for item in value]
    return vars(value) if hasattr(value, "__dict__") and not isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("program, breaks", [
    (reads, 0), (writes, 0), (keeps, 0), (shares_with_another, 0), (shares_a_dict, 0), (keeps_its_first, 0), (breaks_between, 1), (is_refused, None),
])  # fmt: skip
def test_shared_dicts(program: Any, breaks: int | None) -> None:
    framejit.reset()
    told = []
    for function in (program, framejit.compile(program, backend="eager")):
        Shared.state.clear()
        told.append([str((portrait(function(torch.ones(2))), Shared.state)) for _ in range(3)])
    assert told[0] == told[1]
    assert breaks is None or len(framejit.statistics()["reasons"]) == breaks
