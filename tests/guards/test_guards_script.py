"""Guards on TorchScript's objects: the C++ accessors agree with their Python reference, and code counts as the same if it does the same."""

from __future__ import annotations

import copy
import gc
import io
import threading
import weakref
from typing import Any

import pytest
import torch
from guarding import HERE, agrees, call_of, matched, slot
from torch import nn

from framejit.guards.build import build
from framejit.guards.kinds import Equals, TypeIs
from framejit.guards.script_code import ScriptCode, code_of
from framejit.guards.script_source import ScriptAnswer, ScriptCodeOf, ScriptRequest
from framejit.guards.source import MISSING, CAttr, Index, Referent, Root, SlotMember


class Scaled(nn.Module):
    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = scale

    def forward(self, x: torch.Tensor, n: int = 1) -> torch.Tensor:
        return self.linear(x) * self.scale * n


class Shifted(Scaled):
    def forward(self, x: torch.Tensor, n: int = 1) -> torch.Tensor:
        return self.linear(x) + self.scale * n


def method_of(module: Any) -> Any:
    return module._c._get_method("forward")


def loaded(module: Any) -> Any:
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file)


QUESTIONS = [ScriptRequest("getattr", "scale"), ScriptRequest("hasattr", "linear"), ScriptRequest("hasattr", "x"), ScriptRequest("_has_method", "forward")]


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_of_a_scripted_module(question: ScriptRequest) -> None:
    source = slot(Root()).child(ScriptAnswer, question)
    built = build([TypeIs(source.base, HERE, torch._C.ScriptModule)], [source], [])
    for module in (torch.jit.script(Scaled()), torch.jit.script(Scaled(3.0)), torch.jit.trace(Scaled(), torch.ones(2, 3))):
        expected = source.fetch(call_of(module._c))
        found = matched(built, module._c)
        assert found == [expected] if expected is not MISSING else found is None
    assert matched(built, 3) is None and matched(built, nn.Linear(2, 2)) is None


def test_an_answer_needs_a_guard_on_the_type() -> None:
    with pytest.raises(ValueError, match="exact type"):
        build([], [slot(Root()).child(ScriptAnswer, ScriptRequest("getattr", "scale"))], [])


MAKERS = {
    "script": lambda scale=2.0: torch.jit.script(Scaled(scale)),
    "trace": lambda scale=2.0: torch.jit.trace(Scaled(scale), torch.ones(2, 3)),
    "load": lambda scale=2.0: loaded(torch.jit.script(Scaled(scale))),
    "freeze": lambda scale=2.0: torch.jit.freeze(torch.jit.script(Scaled(scale).eval())),
    "copy": lambda scale=2.0: copy.deepcopy(torch.jit.script(Scaled(scale))),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_code_of_modules_that_are_made_alike_is_the_same(make: Any) -> None:
    base = slot(Root())
    digest = base.child(ScriptCodeOf).child(SlotMember, ScriptCode.__dict__["digest"])
    first = method_of(make())
    built = build([TypeIs(base, HERE, torch._C.ScriptMethod), Equals(digest, HERE, code_of(first).digest)], [], [])
    for _ in range(2):
        assert agrees(built, first) and agrees(built, method_of(make()))
    others = [torch.jit.script(Shifted()), torch.jit.trace(Shifted(), torch.ones(2, 3)), torch.jit.trace(Scaled(), torch.ones(3, 3))]
    for other in others:
        assert not agrees(built, method_of(other)) and code_of(method_of(other)).digest != code_of(first).digest
    assert not agrees(built, 3)


def test_numbers_in_code_count() -> None:
    """Those of traced code are written to so many places only where it is shown."""
    digests = {code_of(method_of(torch.jit.trace(Scaled(scale), torch.ones(2, 3)))).digest for scale in (2.0, 2.000000000001, 3.0, 2.0)}
    assert len(digests) == 3


def test_constants_are_found_and_not_kept() -> None:
    base = slot(Root())
    first = base.child(ScriptCodeOf).child(SlotMember, ScriptCode.__dict__["constants"]).child(Index, 0).child(Referent)
    built = build([TypeIs(base, HERE, torch._C.ScriptMethod)], [first], [])
    for _ in range(2):
        module = loaded(MAKERS["freeze"]())  # what torch compiles itself, it keeps for good
        method = method_of(module)
        (found,) = matched(built, method)
        assert found is first.fetch(call_of(method)) and found.shape in ((3,), (3, 3))
        gone = weakref.ref(found)
        del module, method, found
        gc.collect()
        assert gone() is None


def test_attributes_are_found_from_a_method() -> None:
    base = slot(Root())
    owner = base.child(CAttr, "owner")
    linear = owner.child(ScriptAnswer, ScriptRequest("getattr", "linear"))
    weight = linear.child(ScriptAnswer, ScriptRequest("getattr", "weight"))
    types = [TypeIs(base, HERE, torch._C.ScriptMethod), *[TypeIs(source, HERE, torch._C.ScriptModule) for source in (owner, linear)]]
    built = build(types, [weight], [])
    module = torch.jit.script(Scaled())
    for _ in range(2):
        (found,) = matched(built, method_of(module))
        assert found is module.linear.weight
        module.linear.weight = nn.Parameter(torch.ones(3, 3))
    assert weight.name_in_reports().endswith(".linear.weight")


def test_code_that_is_met_in_several_threads() -> None:
    base = slot(Root())
    digest = base.child(ScriptCodeOf).child(SlotMember, ScriptCode.__dict__["digest"])
    expected = code_of(method_of(MAKERS["trace"]())).digest
    built = build([TypeIs(base, HERE, torch._C.ScriptMethod), Equals(digest, HERE, expected)], [], [])
    wrong: list[bool] = []

    def meet(alike: list[Any], others: list[Any]) -> None:
        for same, other in zip(alike, others):
            matched(built, method_of(same))  # one that another thread's walk gets in the way of doesn't match
            wrong.append(matched(built, method_of(other)) is not None)

    makers = MAKERS["trace"], lambda: torch.jit.trace(Shifted(), torch.ones(2, 3))
    threads = [threading.Thread(target=meet, args=[[make() for _ in range(10)] for make in makers]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 40 and not any(wrong) and agrees(built, method_of(MAKERS["trace"]()))
