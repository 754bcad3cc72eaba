"""torch's own tracer, left alone: the functions that torch hides from it run without it, and are torch's own again afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import _compile
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

from framejit.torch_state import peer


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tracer isn't there: it is in this process, but not inside a test with this fixture."""
    monkeypatch.setattr(peer, "is_there", lambda: False)


def hiding(function: Any) -> Any:
    """A function as torch hides it."""
    return _compile._disable_dynamo(function)


def test_hidden_kernels_and_modes_are_found() -> None:
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    found = peer.hidden_functions()
    assert len(peer.of_kernels()) > 50
    assert any(function.__qualname__.endswith("Mode.__torch_dispatch__") and function.__module__ == __name__ for function in found)
    reached, waiting = set[int](), [decomposition_table[torch.ops.aten.add.Tensor], decomposition_table[torch.ops.aten.mul.Tensor]]
    while waiting:
        function = waiting.pop()
        if callable(function) and hasattr(function, "__closure__") and id(function) not in reached:
            reached.add(id(function))
            waiting += peer.closed_over(function).values()
    assert len(reached & {id(function) for function in found}) == 2


def test_nothing_asks_the_tracer_inside(absent: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("asked")

    for function in peer.hidden_functions():
        monkeypatch.delattr(function, peer.ANSWER, raising=False)
    monkeypatch.setattr(torch._dynamo, "disable", fails)
    with peer.left_alone():
        assert (torch.ones(3, device="meta") * 2 + 1).shape == (3,)
    with pytest.raises(AssertionError, match="asked"):
        torch.ones(3, device="meta") * 2 + 1


def test_torchs_own_answers_stay(absent: None) -> None:
    kernel = peer.of_kernels()[0]
    before = getattr(kernel, peer.ANSWER, None)
    setattr(kernel, peer.ANSWER, "torch's")
    try:
        with peer.left_alone():
            assert getattr(kernel, peer.ANSWER) == "torch's"
        assert getattr(kernel, peer.ANSWER) == "torch's"
    finally:
        delattr(kernel, peer.ANSWER) if before is None else setattr(kernel, peer.ANSWER, before)


def test_a_function_is_hidden_once_the_tracer_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function is hidden from torch's tracer from the first call after the import of the tracer on, even if it was made before."""
    asked: list[Any] = []
    monkeypatch.setattr(torch._dynamo, "disable", lambda function, **kwargs: asked.append(function) or function)
    answer = peer.calling(lambda value: value + 1)
    monkeypatch.setattr(peer, "is_there", lambda: False)
    assert answer(1) == 2 and not asked
    monkeypatch.setattr(peer, "is_there", lambda: True)
    assert answer(1) == 2 and len(asked) == 1


def test_nothing_is_changed_where_the_tracer_is_there() -> None:
    assert peer.is_there() or peer.bring() is None  # type: ignore[func-returns-value]
    before = {function: getattr(function, peer.ANSWER, None) for function in peer.hidden_functions()}
    with peer.left_alone():
        assert before == {function: getattr(function, peer.ANSWER, None) for function in peer.hidden_functions()}


def test_what_a_hidden_function_is_told_by() -> None:
    def plain() -> None: ...

    assert peer.hides(hiding(plain)) and peer.hidden_by(hiding(plain)) is plain
    assert not peer.hides(plain)
