"""Entries on disk for calls that graph breaks split: a later process runs all pieces, and compiles what has changed."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_flatten

import framejit
from framejit import config
from framejit.saved import folder
from tests.driver.test_kept import Programs, on_disk, programs, run  # noqa: F401

X = torch.linspace(-2, 2, 12).reshape(3, 4)


def noted(seen: list[Any], what: Any) -> None:
    """A function that runs natively, at a break."""
    seen.append(what)


noted = framejit.disable(noted)


def helper(x: torch.Tensor, seen: list[Any], first: bool) -> torch.Tensor:
    """Breaks at one of two places, with the same variables."""
    if first:
        noted(seen, "first")
        return x + 1
    noted(seen, "second")
    return x - 1


def in_a_loop(x: torch.Tensor, seen: list[Any]) -> torch.Tensor:
    for n in range(3):
        x = x * 2 + n
        noted(seen, n)
    return x.sum()


def in_a_helper(x: torch.Tensor, seen: list[Any]) -> torch.Tensor:
    return helper(helper(x * 2, seen, True), seen, False) * len(seen)


def at_either_place(x: torch.Tensor, seen: list[Any]) -> torch.Tensor:
    return helper(x, seen, len(seen) == 0) * 3


def in_a_block(x: torch.Tensor, seen: list[Any]) -> torch.Tensor:
    with torch.no_grad():
        y = x * 2
        noted(seen, y)
        y = y + 1
    return y + x


def in_a_try(x: torch.Tensor, seen: list[Any]) -> torch.Tensor:
    try:
        y = x + 1
        noted(seen, y)
        [][len(seen)]
    except IndexError as error:
        noted(seen, str(error))
        y = x - 1
    finally:
        noted(seen, "finally")
    return y * 2


def on_data(x: torch.Tensor, seen: list[Any]) -> torch.Tensor:
    if x.sum() > 100:
        return x
    for _ in range(int((x > 0).sum())):
        x = x + 1
    return x


def with_cells(x: torch.Tensor, seen: list[Any]) -> Any:
    total = x.sum()

    def add(y: torch.Tensor) -> None:
        nonlocal total
        total = total + y.sum()

    noted(seen, "cells")
    add(x * 2)
    noted(seen, total)
    add(x)
    return total, [add.__code__.co_freevars, seen[0]]


def over_a_generator(x: torch.Tensor, seen: list[Any]) -> torch.Tensor:
    def numbers() -> Iterator[torch.Tensor]:
        for n in range(3):
            noted(seen, n)
            yield x * n

    return sum(numbers(), x)


def in_arguments(x: torch.Tensor, seen: list[Any]) -> list[torch.Tensor]:
    return [torch.add(x, n, alpha=seen.append(n) or noted(seen, n) or 2) for n in (1, 2)]


CASES: list[Callable[[torch.Tensor, list[Any]], Any]] = [
    in_a_loop, in_a_helper, at_either_place, in_a_block, in_a_try, on_data, with_cells, over_a_generator, in_arguments,
]  # fmt: skip


def same(found: Any, expected: Any) -> bool:
    """Return whether two structures hold equal tensors and equal other values."""
    (left, form), (right, other) = tree_flatten(found), tree_flatten(expected)
    return form == other and all(torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b for a, b in zip(left, right))


def outcomes(case: Callable[..., Any], x: torch.Tensor = X, calls: int = 2) -> tuple[list[Any], dict[str, Any]]:
    """The results and effects of a few calls in what stands for a new process, and what was compiled."""
    framejit.reset()
    compiled = framejit.compile(case, backend="eager")
    found = []
    for _ in range(calls):
        seen: list[Any] = []
        found.append((compiled(x, seen), seen))
    return found, framejit.statistics()


@pytest.mark.parametrize("case", CASES)
def test_the_next_process_compiles_no_piece(on_disk: pathlib.Path, case: Callable[..., Any]) -> None:  # noqa: F811
    seen: list[Any] = []
    expected = case(X, seen)
    first, of_first = outcomes(case)
    second, of_second = outcomes(case)
    for found in (*first, *second):
        assert same(found, (expected, seen))
    assert of_first["frames"] > 1 and of_second["frames"] == 0
    assert of_second["graph_breaks"] == of_first["graph_breaks"] and of_second["reasons"] == of_first["reasons"]


def test_places_in_one_line_are_told_apart(on_disk: pathlib.Path) -> None:  # noqa: F811
    """The two resume functions of the outer frame differ only in the inner one that they call."""
    for kept in (False, True):
        framejit.reset()
        compiled = framejit.compile(at_either_place, backend="eager")
        assert torch.equal(compiled(X, []), (X + 1) * 3)
        assert torch.equal(compiled(X, [0]), (X - 1) * 3)
        assert (framejit.statistics()["frames"] == 0) is kept


def test_pieces_that_are_missing_are_compiled(on_disk: pathlib.Path) -> None:  # noqa: F811
    """A resume function that comes from disk can be traced, and split again."""
    _, of_first = outcomes(in_a_helper)
    entries = sorted(on_disk.rglob(f"*{folder.ENTRY}"))
    assert len(entries) == of_first["frames"]
    expected = in_a_helper(X, [])
    for entry in entries:
        data = entry.read_bytes()
        entry.unlink()
        ((found, seen), _), counts = outcomes(in_a_helper)
        assert same(found, expected)
        assert seen == ["first", "second"] and counts["frames"] == 1
        entry.write_bytes(data)


def test_other_calls_of_pieces_are_compiled(on_disk: pathlib.Path) -> None:  # noqa: F811
    outcomes(in_a_loop)
    other = X.double().t()
    (found, _), counts = outcomes(in_a_loop, other)
    torch.testing.assert_close(found[0], in_a_loop(other, []), rtol=0, atol=0)
    assert counts["frames"] > 1
    assert outcomes(in_a_loop, other)[1]["frames"] == 0


SPLIT = """
import torch
import framejit
import HELPERS as helpers

SCALE = 2

@framejit.disable
def natively(x):
    return x + 1

def called(x):
    y = x * SCALE
    y = natively(y)
    return y * helpers.OFFSET + SCALE

class Made(torch.nn.Module):
    def forward(self, x):
        return called(x) * 2

def made():
    return Made()
"""
EDITS_OF_SPLIT = {
    "before the break": ("y = x * SCALE", "y = x * SCALE + 1"),
    "the call at the break": ("y = natively(y)", "y = natively(y * 2)"),
    "the function that runs natively": ("return x + 1", "return x + 2"),
    "after the break": ("* helpers.OFFSET + SCALE", "* helpers.OFFSET - SCALE"),
    "a global": ("SCALE = 2", "SCALE = 3"),
    "in the outer frame": ("return called(x) * 2", "return called(x) * 3"),
    "more lines": ("class Made", "# a comment\n\nclass Made"),
}


def split_outcome(module: Any) -> int:
    expected = module.made()(X)
    found = framejit.compile(module.made(), backend="eager")(X)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    return int(framejit.statistics()["frames"])


@pytest.mark.parametrize("edit", EDITS_OF_SPLIT)
def test_edits_are_noticed(programs: Programs, edit: str) -> None:  # noqa: F811
    programs.texts = [SPLIT.replace("HELPERS", programs.names[1]), "OFFSET = 5"]
    assert split_outcome(programs.start()) == 2
    assert split_outcome(programs.start()) == 0
    programs.edit(*EDITS_OF_SPLIT[edit])
    split_outcome(programs.start())
    assert split_outcome(programs.start()) == 0
    programs.edit("OFFSET = 5", "OFFSET = 7", which=1)
    assert split_outcome(programs.start()) >= 1
    assert split_outcome(programs.start()) == 0


def test_exceptions_after_a_break_lead_to_the_programs_line(on_disk: pathlib.Path) -> None:  # noqa: F811
    def fails(x: torch.Tensor, seen: list[Any]) -> torch.Tensor:
        noted(seen, 1)
        y = x + 1
        noted(seen, 2)
        return y.view(5, 7) if y.sum() is not None else y

    for _ in range(2):
        framejit.reset()
        with pytest.raises(RuntimeError) as raised:
            framejit.compile(fails, backend="eager")(X, [])
        assert "y.view(5, 7)" in str(raised.traceback[-1].statement)


def test_a_module_takes_the_pieces_with_it(programs: Programs) -> None:  # noqa: F811
    import gc
    import weakref

    programs.texts = [SPLIT.replace("HELPERS", programs.names[1]), "OFFSET = 5"]
    split_outcome(programs.start())
    model = programs.start().made()
    framejit.compile(model, backend="eager")(X)
    assert framejit.statistics()["frames"] == 0
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_breaks_are_logged_by_each_process(on_disk: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    for _ in range(2):
        caplog.clear()
        with caplog.at_level("INFO", "framejit.graph_breaks"):
            outcomes(in_a_loop)
        assert "graph break" in caplog.text


WITH_INDUCTOR = """
    import sys
    import torch
    import framejit
    from framejit.driver import kept

    kept.LEAST_SECONDS = 0

    class Block(torch.nn.Module):
        def __init__(self, breaks):
            super().__init__()
            self.norm, self.up, self.down = torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
            self.unused = torch.nn.Linear(8, 8)
            self.breaks = breaks

        def forward(self, x):
            y = torch.nn.functional.gelu(self.up(self.norm(x)))
            if self.breaks:
                framejit.graph_break()
            return x + self.down(torch.nn.functional.dropout(y, 0.5)), y.detach() + 1

    def loss(model, x, scale):
        y, rest = model(x)
        return (y * scale).square().mean(), rest

    taken = []
    for breaks in (False, True):
        torch.manual_seed(0)
        model, twin = Block(breaks), Block(breaks)
        twin.load_state_dict(model.state_dict())
        compiled = framejit.compile(loss)
        x = torch.randn(6, 8, requires_grad=True)
        for step in range(3):
            torch.manual_seed(step)
            with torch.autocast("cpu", torch.bfloat16, enabled=step == 2):
                found, rest = compiled(model, x, 2.0)
            assert not rest.requires_grad and found.grad_fn is not None
            found.backward(retain_graph=True)
            before = model.up.weight.grad.clone()
            model.zero_grad()
            found.backward()
            assert torch.equal(model.up.weight.grad, before)
            assert model.unused.weight.grad is None and x.grad is not None
            taken += [round(found.item(), 6), round(float(before.abs().sum()), 4), round(float(x.grad.sum()), 4), float(model.norm.running_mean.sum())]
            with torch.no_grad():
                model.up.weight -= 0.1 * before
            model.zero_grad()
            found, _ = compiled(model, x, 2.0)
            (gradient,) = torch.autograd.grad(found, model.up.weight, create_graph=True)
            try:
                gradient.sum().backward()
            except RuntimeError as error:
                assert "does not currently support double backward" in str(error), error
            else:
                raise AssertionError
            model.zero_grad()
    loaded = [name for name in ("torch._inductor.compile_fx", "torch._functorch.aot_autograd", "framejit.compiler.compile") if name in sys.modules]
    print(framejit.statistics()["frames"], loaded, *taken, sep=";")
"""


def test_training_runs_without_loading_a_compiler(tmp_path: pathlib.Path) -> None:
    variables = {"FRAMEJIT_CACHE": "1", "FRAMEJIT_CACHE_DIR": str(tmp_path), "FRAMEJIT_CHECK": ""}
    frames, loaded, *first = run(WITH_INDUCTOR, **variables).strip().split(";")
    assert int(frames) > 2 and "compile_fx" in loaded
    frames, loaded, *second = run(WITH_INDUCTOR, **variables).strip().split(";")
    assert (frames, loaded) == ("0", "[]")
    assert second == first


def test_models_are_trained_alike(on_disk: pathlib.Path) -> None:  # noqa: F811
    """A backend that leaves gradients to autograd."""
    losses = []
    for frames in (1, 0):
        framejit.reset()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        compiled = framejit.compile(model, backend="eager")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            compiled(X).square().mean().backward()
            optimizer.step()
        losses.append(float(model(X).sum()))
        assert framejit.statistics()["frames"] == frames
    assert losses[0] == losses[1]


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def test_fields_and_environment_variables(on_disk: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Named tuples' fields are known by their indices, and the functions of `os.environ` by the steps that lead to them."""

    def reads(x: torch.Tensor, pair: Pair) -> torch.Tensor:
        return x * pair.right - pair.left if os.environ.get("KEPT_FACTOR", "1") == "1" else pair.left

    for value, frames in [("1", 1), ("1", 0), ("2", 1), ("2", 0)]:
        monkeypatch.setenv("KEPT_FACTOR", value)
        framejit.reset()
        pair = Pair(X + 1, X + 2)
        assert torch.equal(framejit.compile(reads, backend="eager")(X, pair), reads(X, pair))
        assert framejit.statistics()["frames"] == frames


def test_pieces_from_disk_learn_with_their_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry brings resume functions of its own. What varies in a loop is learnt for all that are equal, and not for each of them."""

    def grows(x: torch.Tensor, seen: list[Any]) -> torch.Tensor:
        total = 0
        for n in range(20):
            total += n
            noted(seen, total)
            x = x + total
        return x

    frames = []
    for checks in ("", "cache"):
        monkeypatch.setattr(config, "_base", dataclasses.replace(config.current(), check=checks, cache=False))
        ((found, _), _), counts = outcomes(grows)
        assert torch.equal(found, grows(X, []))
        frames.append(counts["frames"])
    assert frames[0] == frames[1] < 30


OWN_GRADIENT = """
import torch
import HELPERS as helpers

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return helpers.scaled(gradient)

class Made(torch.nn.Module):
    def forward(self, x):
        return Scaled.apply(x) + 1
"""


@pytest.mark.only_eager(reason="names its backend itself")
def test_what_a_backward_pass_uses_is_noticed(programs: Programs) -> None:  # noqa: F811
    programs.texts = [OWN_GRADIENT.replace("HELPERS", programs.names[1]), "def scaled(x):\n    return x * 5"]

    def compiled_frames() -> int:
        gradients = []
        model = programs.start().Made()
        for call in (model, framejit.compile(model, backend="inductor")):
            x = X.clone().requires_grad_()
            call(x).sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients, rtol=0, atol=0)
        return int(framejit.statistics()["frames"])

    assert [compiled_frames() for _ in range(2)] == [1, 0]
    programs.edit("return helpers.scaled(gradient)", "return helpers.scaled(gradient) + 1")
    assert [compiled_frames() for _ in range(2)] == [1, 0]
    programs.edit("x * 5", "x * 7", which=1)
    assert [compiled_frames() for _ in range(2)] == [1, 0]


REGISTERED = """
import abc
import torch

class Base(abc.ABC):
    pass

class Other(abc.ABC):
    pass

class Given:
    pass

class Registered:
    pass

Base.register(Registered)

class Made(torch.nn.Module):
    def forward(self, x):
        x = x * 2 if isinstance(Given(), Base) else x + 1
        return x * 3 if isinstance(Registered(), Base) else x + 5

def made():
    return Made()
"""


def test_classes_that_are_registered_are_noticed(programs: Programs) -> None:  # noqa: F811
    programs.texts[0] = REGISTERED
    assert [split_outcome(programs.start()) for _ in range(2)] == [1, 0]
    module = programs.start()
    module.Other.register(module.Given)  # abc's counter moves on, and the answers are the same
    assert split_outcome(module) == 0
    module = programs.start()
    module.Base.register(module.Given)
    assert split_outcome(module) == 1
    programs.edit("Base.register(Registered)", "")
    assert split_outcome(programs.start()) == 1


def drawn_by_numpy(x: torch.Tensor) -> torch.Tensor:
    numpy.random.seed(0)
    return x * float(numpy.random.rand())


def test_functions_that_cython_has_made(on_disk: pathlib.Path) -> None:  # noqa: F811
    """Their type's `__module__` is a descriptor."""
    for _ in range(2):
        framejit.reset()
        assert torch.equal(framejit.compile(drawn_by_numpy, backend="eager")(X), drawn_by_numpy(X))
