"""Branches on data of which one way is exceptional: no break, eager's results and effects on either way, and a break once the way is taken often."""

from __future__ import annotations

import copy
import logging
import math
import random
import warnings

import numpy as np
import pytest
import torch
from agreement import Comparison
from torch import nn
from torch.utils import _pytree as pytree

import framejit
from framejit.process.exceptional import ALLOWED, LEAVES, NOT_FINITE, RARE

BACKENDS = ("eager", "aot_eager")
WITH_INDUCTOR = (*BACKENDS, pytest.param("inductor", marks=pytest.mark.slow))
LOGGER = logging.getLogger("tests.exceptional_ways")
NAN = float("nan")


def tensors(*numbers: float) -> list[torch.Tensor]:
    """One-element tensors, from outside and too large for a guard on their data."""
    return [torch.full((300,), number) for number in numbers]


def prints(x, log):
    y = x.sin()
    if y.sum() > 100:
        print("large", y.shape)
    log.append(1)
    return y * 2


def warns(x, log):
    y = x.sin()
    if y.sum() > 100:
        warnings.warn("large", stacklevel=1)
    log.append(1)
    return y * 2


def logs(x, log):
    y = x.sin()
    if y.sum() > 100:
        LOGGER.warning("large: %s", y.sum().item())
    log.append(1)
    return y * 2


def prints_and_returns(x, log):
    y = x.sin()
    if y.sum() > 100:
        print("large")
        return None
    log.append(1)
    return y * 2


def helper_raises(value):
    raise ValueError(f"too large: {value.item():.2f}")


def raises_in_a_helper(x, log):
    y = x.sin()
    log.append(1)
    if y.sum() > 100:
        helper_raises(y.sum())
    return y * 2


def else_prints(x, log):
    y = x.sin()
    if y.sum() <= 100:
        log.append("small")
    else:
        print("large")
    z = y * 2  # more than CPython 3.12 copies to the end of each way
    return z + y


def in_a_loop(x, log):
    for factor in range(3):
        y = (x * factor).sin()
        if y.sum() > 200:
            print("large", factor)
            continue
        log.append(factor)
    return y * 2


def at_the_end_of_a_loop(x, log):
    for factor in range(3):
        y = (x * factor).sin()
        log.append(factor)
        if y.sum() > 200:
            print("large", factor)
    return y * 2


def in_a_function(x, log):
    return prints(x, log) + prints(x + 1, log)


def on_an_item(x, log):
    y = x.sin()
    if y.sum().item() > 100:
        print("large")
    log.append(1)
    return y * 2


def returns_early(x, log):
    y = x.sin()
    if y.sum() > 100:
        return None
    log.append(1)
    return y * 2


def helper_returns_early(x):
    if not (x > 0).any():
        return None
    return x * 3


def calls_what_returns_early(x, log):
    found = helper_returns_early(-x)
    if found is None:
        log.append("none")
        return x
    return found * 2


ORDINARY, EXCEPTIONAL = -1.0, 1.0
PROGRAMS = [
    returns_early, calls_what_returns_early, prints, warns, logs,
    prints_and_returns, raises_in_a_helper, else_prints, in_a_loop, at_the_end_of_a_loop, in_a_function, on_an_item,
]  # fmt: skip


def skips_if_not_finite(x, log):
    y = x.exp().sum()
    if not torch.isfinite(y):
        return None
    log.append(1)
    return y * 2


def any_nan(x, log):
    y = x.exp()
    if torch.isnan(y).any():
        log.append("nan")
    return y * 2


def any_nan_or_infinity(x, log):
    y = x.exp()
    if (y.isnan() | y.isinf()).any().item():
        log.append("bad")
        return y
    return y * 2


def counts_nans(x, log):
    y = x.exp()
    if torch.isnan(y).sum().item() > 0:
        log.append("nan")
    return y * 2


def python_asks(x, log):
    y = x.exp().sum()
    if not math.isfinite(y.item()):
        log.append("bad")
    return y * 2


def python_asks_a_tensor(x, log):
    y = x.exp().sum()
    loss = y.detach()
    if math.isnan(loss) or math.isinf(loss):
        log.append("bad")
    return y * 2


def numpy_asks(x, log):
    y = x.exp().sum()
    if np.isnan(y.item()):
        log.append("bad")
    return y * 2


def compares_with_itself(x, log):
    y = x.exp()
    total = y.sum().item()
    if total != total or (y != y).any():
        log.append("nan")
    return y * 2


def all_finite_first(x, log):
    y = x.exp()
    if torch.isfinite(y).all():
        log.append("good")
        y = y * 3
    return y * 2


FINITE = [
    skips_if_not_finite, any_nan, any_nan_or_infinity, counts_nans, python_asks, python_asks_a_tensor, numpy_asks, compares_with_itself, all_finite_first,
]  # fmt: skip


def outcome(function, x, training, capsys, caplog):
    """The result, the error, gradients, and everything that a call prints, warns of and logs."""
    torch.manual_seed(0)
    random.seed(0)
    x, log = x.clone().requires_grad_(training), []
    caplog.clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = function(x, log)
        except ValueError as error:
            result = str(error)
    if training and isinstance(result, torch.Tensor):
        result.sum().backward()
    logged = [record.getMessage() for record in caplog.records if record.name == LOGGER.name]
    shown = [str(warning.message) for warning in warned if warning.category is UserWarning]  # Inductor imports what is deprecated
    return result, x.grad, log, shown, capsys.readouterr().out, logged, torch.rand(1), random.random()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("program", [*PROGRAMS, *FINITE], ids=lambda program: program.__name__)
def test_programs(program, training, backend, capsys, caplog):
    numbers = (ORDINARY, EXCEPTIONAL, ORDINARY, EXCEPTIONAL) if program in PROGRAMS else (0.0, NAN, math.inf, 0.0, 1.0)
    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for x in tensors(*numbers):
        expected = outcome(program, x, training, capsys, caplog)
        Comparison().same(expected, outcome(compiled, x, training, capsys, caplog), str(x[0].item()))
    found = framejit.statistics()
    assert (found["graph_breaks"], found["graphs"], found["recompiles"]) == (0, 1, 0), found["reasons"]


def prints_the_rest(x, log):
    """The way that prints is everything that follows, which isn't exceptional."""
    y = x.sin()
    if y.sum() > 100:
        log.append("large")
        return None
    log.append(1)
    print("small")
    return y * 2


def prints_always(x, log):
    y = x.sin()
    if y.sum() > 100:
        print("large")
    else:
        print("small")
    return y * 2


def returns_constants(x, log):
    y = x.sin()
    if y.sum() > 100:
        return 1
    return "small"


def has_effects(x, log):
    y = x.sin()
    if y.sum() > 100:
        log.append("large")
    return y * 2


def catches(x, log):
    y = x.sin()
    try:
        if y.sum() > 100:
            helper_raises(y.sum())
        log.append("small")
    except ValueError:
        log.append("large")
    return y * 2


def changed_before(x, log):
    y = x.sin()
    x.add_(1)
    if y.sum() > 100:
        print("large")
    return y * 2


def also_other_data(x, log):
    y = x.sin()
    if torch.isfinite(y).all() and y.sum() > 100:
        log.append("large")
    if (torch.isfinite(y) & (y > 0)).any():
        log.append("positive")
    return y * 2


@pytest.mark.parametrize("program", [prints_the_rest, prints_always, returns_constants, has_effects, catches, changed_before, also_other_data])
def test_no_way_is_exceptional(program, capsys, caplog):
    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for x in tensors(ORDINARY, EXCEPTIONAL):
        expected = outcome(program, x, False, capsys, caplog)
        Comparison().same(expected, outcome(compiled, x, False, capsys, caplog), str(x[0].item()))
    assert framejit.statistics()["graph_breaks"]


@pytest.mark.parametrize("backend", WITH_INDUCTOR)
def test_a_way_that_is_taken_often_is_no_exception(backend, capsys, caplog):
    framejit.reset()
    compiled = framejit.compile(prints, backend=backend)
    for x in tensors(*[EXCEPTIONAL] * 10, ORDINARY, EXCEPTIONAL):
        check_alike(outcome(prints, x, False, capsys, caplog), outcome(compiled, x, False, capsys, caplog), backend)
    found = framejit.statistics()
    assert found["graph_breaks"] == 2, found  # at the branch, and at the print() after it
    framejit.reset()  # forgets that
    compiled(*tensors(ORDINARY), [])
    assert framejit.statistics()["graph_breaks"] == 0


def test_a_frequent_way_of_one_branch_leaves_others_alone(capsys):
    def two(x, log):
        y = x.sin()
        if y.sum() > 100:
            print("large")
        if y.sum() > 1000:
            print("very large")
        return y * 2

    framejit.reset()
    compiled = framejit.compile(two, backend="eager")
    for x in tensors(EXCEPTIONAL, EXCEPTIONAL, ORDINARY):
        compiled(x, [])
    assert framejit.statistics()["graph_breaks"] == 1
    assert capsys.readouterr().out == "large\n" * 2


@pytest.mark.parametrize(("program", "what"), [(prints, LEAVES), (skips_if_not_finite, NOT_FINITE)])
def test_a_rare_way_stays_exceptional(program, what, capsys):
    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    exceptional, ordinary = tensors(EXCEPTIONAL if program is prints else NAN, ORDINARY)
    for _ in range(ALLOWED[what] + 2):
        compiled(exceptional, [])
        for _ in range(2 * RARE):
            compiled(ordinary, [])
    assert framejit.statistics()["graph_breaks"] == 0
    for _ in range(20):
        compiled(exceptional, [])
    assert framejit.statistics()["graph_breaks"]


def test_the_first_calls_may_have_infinite_gradients():
    framejit.reset()
    compiled = framejit.compile(skips_if_not_finite, backend="eager")
    for x in tensors(*[math.inf] * ALLOWED[NOT_FINITE], 0.0):
        compiled(x, [])
    assert framejit.statistics()["graph_breaks"] == 0


def test_fullgraph(capsys):
    compiled = framejit.compile(prints, backend="eager", fullgraph=True)
    ordinary, exceptional = tensors(ORDINARY, EXCEPTIONAL)
    torch.testing.assert_close(compiled(ordinary, []), ordinary.sin() * 2)
    torch.testing.assert_close(compiled(exceptional, []), exceptional.sin() * 2)
    assert "large" in capsys.readouterr().out


def test_off_with_the_other_branches(capsys):
    framejit.reset()
    compiled = framejit.compile(prints, backend="eager", branches="break")
    compiled(*tensors(ORDINARY), [])
    assert framejit.statistics()["graph_breaks"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers_are_drawn_once(backend, capsys, caplog):
    def draws(x, log):
        noise = torch.randn_like(x)
        chance = random.random()
        y = (x + noise).sin()
        if y.sum() > 100:
            print("large")
        log.append(chance)
        return y + torch.rand(1)

    compiled = framejit.compile(draws, backend=backend)
    for x in tensors(ORDINARY, EXCEPTIONAL, ORDINARY, EXCEPTIONAL):
        Comparison().same(outcome(draws, x, False, capsys, caplog), outcome(compiled, x, False, capsys, caplog), "")


def check_alike(expected, found, backend):
    """Inductor rounds otherwise."""
    if backend != "inductor":
        Comparison().same(expected, found, "")
        return
    for left, right in zip(pytree.tree_leaves(expected), pytree.tree_leaves(found), strict=True):
        if isinstance(left, (torch.Tensor, float)):
            torch.testing.assert_close(right, left, equal_nan=True, rtol=1e-4, atol=1e-5)
        else:
            assert left == right


class Step(nn.Module):
    """A training step that skips batches whose loss isn't finite."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 1)
        self.skipped = 0
        self.losses: list[float] = []
        self.optimizer = torch.optim.AdamW(self.inner.parameters(), lr=0.1)

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.inner(x).square().mean()
        if not torch.isfinite(loss):
            print("skipped")
            self.skipped += 1
            return None
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.inner.parameters(), 1.0)
        if norm > 1e3:
            LOGGER.warning("norm %s", norm)
        self.optimizer.step()
        self.losses.append(loss.item())
        return loss.detach()


@pytest.mark.parametrize("backend", WITH_INDUCTOR)
def test_a_training_step(backend, capsys, caplog):
    torch.manual_seed(0)
    eager = Step()
    other = copy.deepcopy(eager)
    other.optimizer = torch.optim.AdamW(other.inner.parameters(), lr=0.1)
    framejit.reset()
    compiled = framejit.compile(other.step, backend=backend)
    batches = [torch.randn(8, 4) for _ in range(6)]
    batches[2][0, 0], batches[4] = math.inf, batches[4] * 1e6
    for batch in batches:
        check_alike(eager.step(batch), compiled(batch), backend)
        assert capsys.readouterr().out in ("", "skipped\nskipped\n")
    check_alike(*[(each.losses, each.skipped, dict(each.inner.state_dict())) for each in (eager, other)], backend)
    assert eager.skipped == 1 and sum(record.name == LOGGER.name for record in caplog.records) == 2
    assert framejit.statistics()["graph_breaks"] == 0, framejit.statistics()["reasons"]


class Scaled(nn.Module):
    """A training step with a GradScaler, which leaves out the optimizer's step if a gradient isn't finite."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 1)
        self.optimizer = torch.optim.AdamW(self.inner.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.inner(x).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.inner.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()


@pytest.mark.parametrize("backend", WITH_INDUCTOR)
def test_a_grad_scaler(backend):
    found = []
    batches = [torch.randn(8, 4) for _ in range(6)]
    batches[3][0, 0] = math.inf
    for way in ("uncompiled", backend):
        torch.manual_seed(0)
        framejit.reset()
        model = Scaled()
        step = model.step if way == "uncompiled" else framejit.compile(model.step, backend=backend)
        losses = [step(batch) for batch in batches]
        found.append((losses, dict(model.inner.state_dict()), model.optimizer.state_dict(), model.scaler.state_dict()))
    check_alike(*found, backend)
    assert found[0][3]["scale"] == 2.0
    assert framejit.statistics()["graph_breaks"] == 0, framejit.statistics()["reasons"]


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("program", [prints, skips_if_not_finite, in_a_loop], ids=lambda program: program.__name__)
def test_inductor(program, training, capsys, caplog):
    numbers = (ORDINARY, EXCEPTIONAL, ORDINARY) if program in PROGRAMS else (0.0, NAN, 1.0)
    framejit.reset()
    compiled = framejit.compile(program)
    for x in tensors(*numbers):
        check_alike(outcome(program, x, training, capsys, caplog), outcome(compiled, x, training, capsys, caplog), "inductor")
    found = framejit.statistics()
    assert (found["graph_breaks"], found["graphs"]) == (0, 1), found["reasons"]


@pytest.mark.slow
def test_a_check_that_fails_keeps_inductor_from_changing_inputs(capsys):
    """The sum and the change of `state` could be one loop, and the check would come after it."""

    def step(x, state):
        y = x.sin()
        ok = torch.isfinite(y.sum())
        state.add_(y)
        state[0] = 3.0
        if not ok:
            print("not finite")
        return state.sum()

    def late(x, state):
        state.add_(x)
        if not torch.isfinite(state.sum()):
            print("not finite")
            return None
        return state.sum()

    for program in (step, late):
        framejit.reset()
        compiled = framejit.compile(program)
        states = [torch.zeros(300), torch.zeros(300)]
        for x in tensors(1.0, 2.0, math.inf, 0.0):
            check_alike(program(x, states[0]), compiled(x, states[1]), "inductor")
            check_alike(*states, "inductor")
        assert framejit.statistics()["graph_breaks"] == 0, framejit.statistics()["reasons"]
    assert capsys.readouterr().out.count("not finite") == 2 * 3


@pytest.mark.slow
def test_a_check_of_a_number_that_is_used_elsewhere_splits_a_graph_that_changes_inputs(capsys):
    def step(x, state):
        fine = bool(torch.isfinite(x.sum()))
        if not fine:
            print("not finite")
        state.add_(x)
        return state.sum(), fine

    framejit.reset()
    compiled, states = framejit.compile(step), [torch.zeros(300), torch.zeros(300)]
    for x in tensors(1.0, math.inf, 2.0):
        check_alike(step(x, states[0]), compiled(x, states[1]), "inductor")
        check_alike(*states, "inductor")


def made_definite(x):
    factor, info = torch.linalg.cholesky_ex(x, out=None)
    if not torch.any(info):
        return factor
    for i in range(3):
        factor, info = torch.linalg.cholesky_ex(x + 10.0**i * torch.eye(2))
        if not torch.any(info):
            return factor
    raise ValueError("not positive definite")


def inverted_if_possible(x):
    found = torch.linalg.inv_ex(x)
    return torch.linalg.pinv(x) * 2 if (found.info > 0).any().item() else found.inverse


def factored(x):
    _, _, info = torch.linalg.lu_factor_ex(x)
    return x * 2 if info == 0 else x * 3


@pytest.mark.parametrize("program", [made_definite, inverted_if_possible, factored])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_factorizations_that_fail_are_exceptional(program, backend):
    framejit.reset()
    compiled = framejit.compile(program, backend=backend, fullgraph=True)
    for x in (torch.eye(2) * 4, torch.eye(2), torch.zeros(2, 2), torch.ones(2, 2), torch.eye(2) * 3):
        assert torch.equal(compiled(x), program(x))
    assert framejit.statistics()["graphs"] == 1
