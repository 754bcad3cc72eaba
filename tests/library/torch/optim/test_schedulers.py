"""Learning rate schedulers in compiled training steps: made after the graph where nothing tells the difference, against eager, rate for rate."""

from __future__ import annotations

import contextlib
import functools
import math
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer, swa_utils
from torch.optim import lr_scheduler as schedulers

import framejit

SETTINGS = types.SimpleNamespace(warm=4)


def warm_up(step: int, *, total: int) -> float:
    """A schedule as transformers writes it."""
    if step < SETTINGS.warm:
        return float(step) / float(max(1, SETTINGS.warm))
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * (step - SETTINGS.warm) / total)))


def in_turn(optimizer: Optimizer) -> Any:
    parts: list[Any] = [schedulers.LinearLR(optimizer, total_iters=4), schedulers.CosineAnnealingLR(optimizer, 10)]
    return schedulers.SequentialLR(optimizer, parts, [4])


SCHEDULES: dict[str, Callable[[Optimizer], Any]] = {
    "LambdaLR": lambda optimizer: schedulers.LambdaLR(optimizer, [functools.partial(warm_up, total=9), lambda step: [1.0, 0.5][step % 2]]),
    "MultiplicativeLR": lambda optimizer: schedulers.MultiplicativeLR(optimizer, lambda step: 0.9),
    "MultiStepLR": lambda optimizer: schedulers.MultiStepLR(optimizer, [3, 7]),
    "CosineAnnealingLR": lambda optimizer: schedulers.CosineAnnealingLR(optimizer, 5),
    "CosineAnnealingWarmRestarts": lambda optimizer: schedulers.CosineAnnealingWarmRestarts(optimizer, 4),
    "OneCycleLR": lambda optimizer: schedulers.OneCycleLR(optimizer, 0.1, total_steps=25),
    "CyclicLR": lambda optimizer: schedulers.CyclicLR(optimizer, 0.01, 0.1, step_size_up=3),
    "PolynomialLR": lambda optimizer: schedulers.PolynomialLR(optimizer, 9, 2.0),
    "SequentialLR": in_turn,
    "ChainedScheduler": lambda optimizer: schedulers.ChainedScheduler([schedulers.ConstantLR(optimizer), schedulers.ExponentialLR(optimizer, 0.9)]),
    "SWALR": lambda optimizer: swa_utils.SWALR(optimizer, 0.01),
}


class Training:
    """A model of two groups of parameters, its optimizer and its scheduler."""

    def __init__(self, schedule: Callable[[Optimizer], Any]) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(3, 2)
        groups = [{"params": [self.model.weight]}, {"params": [self.model.bias], "lr": 0.3}]
        self.optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
        self.scheduler = schedule(self.optimizer)
        self.inputs = torch.randn(4, 3)
        self.log: list[Any] = []

    def learn(self) -> torch.Tensor:
        loss: torch.Tensor = self.model(self.inputs).pow(2).sum()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def step(self) -> Any:
        loss = self.learn()
        self.scheduler.step()
        self.optimizer.zero_grad()
        return loss

    def seen(self) -> Any:
        rates = [{key: value for key, value in group.items() if key != "params"} for group in self.optimizer.param_groups]
        numbers = {key: value for key, value in vars(self.scheduler).items() if isinstance(value, (int, float, list)) and key != "_schedulers"}
        return [p.tolist() for p in self.model.parameters()], rates, {k: v for k, v in numbers.items() if k != "lr_lambdas"}, self.scheduler.get_last_lr()


def trained(schedule: Callable[[Optimizer], Any], step: Callable[[Training], Any], calls: int, wrap: Callable[[Any], Any]) -> list[Any]:
    """Return for each call of a step its result or exception, the state and the log after it, and the warnings."""
    training, told = Training(schedule), []
    run = wrap(step)
    for _ in range(calls):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                result = run(training)
            except ValueError as error:
                result = type(error), str(error)
        told.append((result, *training.seen(), list(training.log), [str(warning.message) for warning in warned]))
    return told


def compared(schedule: Callable[[Optimizer], Any], step: Callable[[Training], Any], calls: int = 12, backend: str = "eager") -> dict[str, Any]:
    """Compare a step with eager's; what has been counted."""
    framejit.reset()
    expected = trained(schedule, step, calls, lambda f: f)
    assert trained(schedule, step, calls, lambda f: framejit.compile(f, backend=backend)) == expected
    return framejit.statistics()


@pytest.mark.only_eager("with AOTAutograd, first steps of optimizers run uncompiled")
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_whole_step_is_one_graph(name: str) -> None:
    found = compared(SCHEDULES[name], Training.step, 20)
    assert (found["graph_breaks"], found["fallbacks"]) == (0, 0) and found["recompiles"] <= 2, found


@pytest.mark.only_eager("the test names its backend")
def test_a_whole_step_with_aot_eager() -> None:
    found = compared(SCHEDULES["CosineAnnealingLR"], Training.step, backend="aot_eager")
    assert [reason[:5] for reason in found["reasons"]] == ["FJ040"], found


def looks_at_the_rate(self: Training) -> Any:
    loss = self.step()
    return loss, self.scheduler.get_last_lr()[0] * 2, self.optimizer.param_groups[1]["lr"]


def passes_the_rate_on(self: Training) -> Any:
    loss = self.step()
    return loss, [group["lr"] for group in self.optimizer.param_groups]


def copies_the_group(self: Training) -> Any:
    loss = self.step()
    return loss, {key: value for key, value in self.optimizer.param_groups[0].items() if key != "params"}


def counts_the_steps(self: Training) -> Any:
    loss = self.step()
    self.log.append(self.scheduler.last_epoch)
    return loss


def twice(self: Training) -> Any:
    return self.step() + self.step()


def changes_the_group_behind_it(self: Training) -> Any:
    loss = self.step()
    self.optimizer.param_groups[0]["weight_decay"] = 0.25
    self.optimizer.param_groups[1]["lr"] = 0.125
    return loss


def changes_the_group_before_it(self: Training) -> Any:
    self.optimizer.param_groups[0]["lr"] = 0.5
    return self.step()


def before_the_optimizer(self: Training) -> Any:
    self.scheduler.step()
    return self.learn()


def under_a_handler(self: Training) -> Any:
    loss = self.learn()
    try:
        self.scheduler.step()
    except ValueError as error:
        self.log.append(str(error))
    return loss + 1


def of_an_epoch(self: Training) -> Any:
    loss = self.learn()
    self.scheduler.step(3)
    return loss


def takes_the_state(self: Training) -> Any:
    loss = self.step()
    return loss, self.scheduler.state_dict()["last_epoch"], sorted(vars(self.scheduler))


def changes_the_list_of_rates(self: Training) -> Any:
    loss = self.step()
    rates = self.scheduler.get_last_lr()
    rates.append(loss.item())
    rates[0] = 7.0
    return loss, rates, rates is self.scheduler._last_lr


@pytest.mark.parametrize("step", [
    looks_at_the_rate, passes_the_rate_on, copies_the_group, counts_the_steps, twice, changes_the_group_behind_it, changes_the_group_before_it,
    before_the_optimizer, under_a_handler, of_an_epoch, takes_the_state, changes_the_list_of_rates,
])  # fmt: skip
def test_what_tells_the_difference(step: Callable[[Training], Any]) -> None:
    compared(lambda optimizer: schedulers.OneCycleLR(optimizer, 0.1, total_steps=4), step, 6)


def keeps_the_rate_before_changing_it(self: Training) -> Any:
    loss = self.step()
    group = self.optimizer.param_groups[0]
    rate, epoch = group["lr"], self.scheduler.last_epoch
    group["lr"] = rate / 2
    self.scheduler.last_epoch = epoch + 1
    return loss, rate, epoch, rate > 0.05


def tells_the_rate(self: Training) -> Any:
    loss = self.step()
    self.log.append({"rates": self.scheduler.get_last_lr(), "text": f"{loss.item():.3f} at {self.scheduler.get_last_lr()[1]:.2e}"})
    return loss


@pytest.mark.only_eager("with AOTAutograd, first steps of optimizers run uncompiled")
@pytest.mark.parametrize("name", ["LambdaLR", "OneCycleLR", "SequentialLR"])
@pytest.mark.parametrize("step", [looks_at_the_rate, passes_the_rate_on, counts_the_steps, tells_the_rate])
def test_new_rates_are_passed_on_computed_with_and_told_without_a_break(name: str, step: Callable[[Training], Any]) -> None:
    found = compared(SCHEDULES[name], step, 20)
    assert (found["reasons"], found["fallbacks"]) == ([], 0) and found["recompiles"] <= 2, found


def begins_a_log_before(self: Training) -> Any:
    self.log.append("begin")
    return tells_the_rate(self)


@pytest.mark.only_eager("with AOTAutograd, first steps of optimizers run uncompiled")
def test_a_rate_goes_into_what_was_changed_before_the_step() -> None:
    assert compared(SCHEDULES["OneCycleLR"], begins_a_log_before, 20)["reasons"] == []
    assert [reason[:5] for reason in compared(SCHEDULES["LambdaLR"], begins_a_log_before, 20)["reasons"]] == ["FJ079"]


@pytest.mark.only_eager("with AOTAutograd, first steps of optimizers run uncompiled")
def test_a_rate_is_taken_before_the_program_changes_it() -> None:
    assert compared(SCHEDULES["CosineAnnealingLR"], keeps_the_rate_before_changing_it)["reasons"] == []


@pytest.mark.only_eager("with AOTAutograd, first steps of optimizers run uncompiled")
def test_a_decision_by_the_new_rate_is_a_break_in_the_program() -> None:
    def step(self: Training) -> Any:
        loss = self.step()
        if self.scheduler.get_last_lr()[0] < 0.05:
            self.log.append(self.scheduler.last_epoch)
        return loss

    found = compared(SCHEDULES["CosineAnnealingLR"], step)
    assert [reason[:5] for reason in found["reasons"]] == ["FJ078"] and found["fallbacks"] == 0, found


@pytest.mark.only_eager("with AOTAutograd, first steps of optimizers run uncompiled")
def test_a_break_behind_it_sees_its_changes() -> None:
    def step(self: Training) -> Any:
        loss = self.step()
        framejit.graph_break()
        return loss * self.optimizer.param_groups[0]["lr"]

    assert [reason[:5] for reason in compared(SCHEDULES["CosineAnnealingLR"], step)["reasons"]] == ["FJ008"]


@pytest.mark.only_eager("with AOTAutograd, first steps of optimizers run uncompiled")
@pytest.mark.parametrize("name", ["CosineAnnealingLR", "OneCycleLR"])
def test_in_a_with_block(name: str) -> None:
    """As in `with accelerator.accumulate(model)`: nothing that torch's own schedules raise could reach the block's end."""

    @contextlib.contextmanager
    def accumulate(log: list[Any]) -> Any:
        log.append("begin")
        yield
        log.append("end")

    def step(self: Training) -> Any:
        with accumulate(self.log):
            return self.step()

    assert compared(SCHEDULES[name], step)["reasons"] == []


def test_a_group_that_the_scheduler_does_not_know() -> None:
    def step(self: Training) -> Any:
        loss = self.learn()
        if len(self.optimizer.param_groups) < 3:
            self.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
        try:
            self.scheduler.step()
        except ValueError as error:
            self.log.append(str(error))
        return loss

    compared(SCHEDULES["CosineAnnealingLR"], step, 4)


@pytest.mark.only_eager("with AOTAutograd, first steps of optimizers run uncompiled")
def test_the_optimizer_is_found_behind_a_break() -> None:
    """Schedulers put a wrapper around its `step`, which refers to it weakly."""

    def step(self: Training) -> Any:
        loss = self.model(self.inputs).pow(2).sum()
        loss.backward()
        framejit.graph_break()
        self.optimizer.step()
        self.scheduler.step()
        return loss.detach()

    assert [reason[:5] for reason in compared(SCHEDULES["CosineAnnealingLR"], step)["reasons"]] == ["FJ008"]


@pytest.mark.only_eager("with AOTAutograd, first steps of optimizers run uncompiled")
def test_a_scheduler_that_looks_at_the_loss_is_one_break() -> None:
    def step(self: Training) -> Any:
        loss = self.learn()
        self.scheduler.step(loss)
        self.optimizer.zero_grad()
        return loss

    found = compared(lambda optimizer: schedulers.ReduceLROnPlateau(optimizer, patience=1), step)
    assert len(found["reasons"]) == 1 and "FJ036" in found["reasons"][0] and found["graph_breaks"] <= 3, found


def test_a_rate_that_is_a_tensor() -> None:
    def schedule(optimizer: Optimizer) -> Any:
        for group in optimizer.param_groups:
            group["lr"] = torch.tensor(0.5)
        return schedulers.ExponentialLR(optimizer, 0.5)

    def step(self: Training) -> Any:
        loss = self.step()
        return loss, float(self.optimizer.param_groups[0]["lr"] * 3)

    told = [trained(schedule, step, 3, wrap) for wrap in (lambda f: f, lambda f: framejit.compile(f, backend="eager"))]
    assert [[row[0] for row in rows] for rows in told][0] == [[row[0] for row in rows] for rows in told][1]


class OfTheProgram(schedulers.LRScheduler):
    def get_lr(self) -> Any:
        return [base / (1 + self.last_epoch) for base in self.base_lrs]


CALLS: list[int] = []


def with_rates_of_its_own(optimizer: Optimizer) -> Any:
    found = schedulers.StepLR(optimizer, 1)
    found.get_lr = lambda: CALLS.append(len(CALLS)) or [0.5, 0.25]  # type: ignore[method-assign]
    return found


def with_an_update_of_its_own(optimizer: Optimizer) -> Any:
    found = schedulers.StepLR(optimizer, 1)
    found._update_lr = lambda epoch=None: CALLS.append(len(CALLS))  # type: ignore[method-assign]
    return found


def with_a_part_of_its_own(optimizer: Optimizer) -> Any:
    found: Any = SCHEDULES["ChainedScheduler"](optimizer)
    found._schedulers[0].step = lambda: CALLS.append(len(CALLS))
    return found


class GroupOfTheProgram(dict[str, Any]):
    def __setitem__(self, key: str, value: Any) -> None:
        CALLS.append(len(CALLS))
        super().__setitem__(key, value)


def with_groups_of_its_own(optimizer: Optimizer) -> Any:
    optimizer.param_groups[:] = map(GroupOfTheProgram, optimizer.param_groups)
    return schedulers.StepLR(optimizer, 1)


@pytest.mark.parametrize("schedule", [
    OfTheProgram,
    with_groups_of_its_own,
    with_rates_of_its_own,
    with_an_update_of_its_own,
    with_a_part_of_its_own,
    lambda optimizer: schedulers.LambdaLR(optimizer, lambda step: CALLS.append(step) or 0.5),
    lambda optimizer: schedulers.LambdaLR(optimizer, lambda step: len(CALLS) / (step + 1)),
    lambda optimizer: schedulers.CyclicLR(optimizer, 0.01, 0.1, scale_fn=lambda x: CALLS.append(x) or 0.5),
])  # fmt: skip
def test_code_of_the_program(schedule: Callable[[Optimizer], Any]) -> None:
    def step(self: Training) -> Any:
        CALLS.append(1)
        loss = self.step()
        CALLS.append(2)
        return loss, len(CALLS)

    told = []
    for wrap in (lambda f: f, lambda f: framejit.compile(f, backend="eager")):
        CALLS.clear()
        told.append((trained(schedule, step, 6, wrap), list(CALLS)))
    assert told[0] == told[1]


def test_rates_that_the_program_replaces_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def step(self: Training) -> None:
        self.step()
        seen.append(0)

    training, run = Training(SCHEDULES["PolynomialLR"]), framejit.compile(step, backend="eager")
    for _ in range(3):
        run(training)
    monkeypatch.setattr(schedulers.PolynomialLR, "get_lr", lambda self: seen.append(len(seen)) or [0.5, 0.25])
    run(training)
    assert seen == [0, 0, 0, 3, 0] and training.scheduler.get_last_lr() == [0.5, 0.25]


class Halving(schedulers.LRScheduler):
    """A schedule of the program's own class."""

    def get_lr(self) -> list[Any]:
        return [rate * 0.5 for rate in self.base_lrs] if self.last_epoch > 3 else list(self.base_lrs)


class Counting(schedulers.StepLR):
    """A schedule whose step is the program's, and calls torch's."""

    steps = 0

    def step(self, epoch: int | None = None) -> None:
        self.steps += 1
        super().step()


def noted(optimizer: Optimizer) -> Any:
    seen: list[int] = []
    return schedulers.LambdaLR(optimizer, lambda step: seen.append(step) or 0.9**step)  # type: ignore[func-returns-value]


def with_tensors(optimizer: Optimizer) -> Any:
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(0.1)
    return schedulers.ExponentialLR(optimizer, 0.9)


def with_two(self: Training) -> Any:
    loss = self.learn()
    self.scheduler.step()
    if not self.log:
        self.log.append(schedulers.StepLR(self.optimizer, 2, 0.5))
    self.log[0].step()
    self.optimizer.zero_grad()
    return loss


def with_an_epoch(self: Training) -> Any:
    loss = self.learn()
    self.scheduler.step(3)
    return loss


def under_a_handler(self: Training) -> Any:
    loss = self.learn()
    try:
        self.scheduler.step()
    except ValueError:
        loss = loss + 1
    return loss


def by_what_is_measured(self: Training) -> Any:
    loss = self.learn()
    self.scheduler.step(loss)
    return loss


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("schedule", "step"),
    [
        (SCHEDULES["MultiStepLR"], with_two),
        (SCHEDULES["LambdaLR"], with_two),
        (noted, Training.step),
        (Halving, Training.step),
        (functools.partial(Counting, step_size=2), Training.step),
        (with_tensors, Training.step),
        (SCHEDULES["PolynomialLR"], with_an_epoch),
        (SCHEDULES["LambdaLR"], under_a_handler),
        (functools.partial(schedulers.ReduceLROnPlateau, patience=1), by_what_is_measured),
    ],
)
def test_a_step_that_cannot_wait_splits_the_call_and_leaves_the_rest_compiled(
    schedule: Callable[[Optimizer], Any], step: Callable[[Training], Any], backend: str
) -> None:
    def counted(wrap: Callable[[Any], Any]) -> list[Any]:
        training, told = Training(schedule), []
        run = wrap(step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(6):
                told.append((run(training).tolist(), [p.tolist() for p in training.model.parameters()], [g["lr"] for g in training.optimizer.param_groups]))
        return told

    framejit.reset()
    assert counted(lambda f: framejit.compile(f, backend=backend)) == counted(lambda f: f)
    found = framejit.statistics()
    first_steps = sum(reason.startswith("FJ040") for reason in found["reasons"])
    assert found["graphs"] and found["graph_breaks"] and found["fallbacks"] == first_steps, found["reasons"]


class Epoch(Training):
    """Training of which one call makes several steps."""

    def learn_all(self) -> list[Any]:
        losses = []
        for index in range(4):
            self.optimizer.zero_grad()
            losses.append(float(self.learn()) + index)
            self.scheduler.step()
        return losses

    def learn_all_but_one(self) -> list[Any]:
        """A step of the scheduler may raise in the loop, which ends there."""
        try:
            return self.learn_all() + self.learn_all()
        except ValueError as error:
            return [str(error)]

    def set_the_rate(self) -> list[Any]:
        losses = []
        for index in range(4):
            losses.append(self.step())
            for group in self.optimizer.param_groups:
                group["lr"] = 0.1 / (index + 1)
        return losses

    def in_turn(self) -> Any:
        advance = self.scheduler.step
        for run in (self.learn, advance, self.learn, advance):
            run()
        return self.model.weight.sum().detach()


def epochs_of(program: Callable[[Any], Any], name: str, wrap: Callable[[Any], Any]) -> list[Any]:
    """Return what calls of a program give, and the state after each. They may make more steps than OneCycleLR has."""
    training, told = Epoch(SCHEDULES[name]), []
    run = wrap(program)
    for call in range(5):
        told.append((run(training), *training.seen()))
        if call == 1:
            training.optimizer.param_groups[0]["lr"] = 0.02  # the program, between two calls
    return told


@pytest.mark.only_eager("with AOTAutograd, first steps of optimizers run uncompiled")
@pytest.mark.parametrize("name", ["CosineAnnealingLR", "OneCycleLR", "SequentialLR", "LambdaLR"])
@pytest.mark.parametrize("program, broken", [(Epoch.learn_all, True), (Epoch.learn_all_but_one, True), (Epoch.in_turn, True), (Epoch.set_the_rate, False)])
def test_the_next_step_of_the_optimizer_is_compiled_after_the_schedulers(program: Callable[[Any], Any], broken: bool, name: str) -> None:
    """The scheduler's step is made between two graphs, and each step of the optimizer is in one."""
    framejit.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = epochs_of(program, name, lambda f: f)
        assert epochs_of(program, name, lambda f: framejit.compile(f, backend="eager")) == expected
    found = framejit.statistics()
    assert not any("Adam.step" in reason or "SGD.step" in reason for reason in found["reasons"]), found
    assert not broken or "FJ079" in str(found["reasons"]), found
