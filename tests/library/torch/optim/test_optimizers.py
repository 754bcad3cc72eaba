"""torch.optim's optimizers in compiled code: steps, schedulers and state against eager, bit for bit."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import close
from torch import nn
from torch.optim import lr_scheduler, swa_utils
from torch.optim.adam import adam

import framejit

STEPS = 12
CASES: dict[str, tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {}
for _name, _settings in {
    "SGD": [
        {},
        {"momentum": 0.9, "nesterov": True},
        {"foreach": True, "momentum": 0.5},
        {"fused": True},
        {"maximize": True, "weight_decay": 0.1},
    ],
    "Adam": [{}, {"foreach": True}, {"fused": True}, {"amsgrad": True, "foreach": True}, {"maximize": True}],
    "AdamW": [{}, {"foreach": True}, {"fused": True}, {"amsgrad": True}, {"foreach": False, "lr": torch.tensor(0.01)}],
    "NAdam": [{}, {"foreach": True}, {"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "Adamax": [{}, {"foreach": True}],
    "RAdam": [{}, {"foreach": True}],
    "Adagrad": [{}, {"foreach": True}, {"fused": True}],
    "Adadelta": [{}, {"foreach": True}],
    "RMSprop": [{}, {"foreach": True, "centered": True, "momentum": 0.9}],
    "ASGD": [{"t0": 3}, {"foreach": True, "t0": 3}],
    "Rprop": [{}, {"foreach": True}],
    "Adafactor": [{}, {"foreach": True, "weight_decay": 0.1}, {"eps": (1e-10, 1e-3), "maximize": True}],
    "Muon": [{}],
    "LBFGS": [{"max_iter": 3}],
    "SparseAdam": [{}],
}.items():
    for _kwargs in _settings:
        CASES["-".join([_name, *map(str, _kwargs)])] = getattr(torch.optim, _name), {"lr": 0.01, **_kwargs}
"""By name: the class and its settings."""


class Run:
    """A model, its optimizer and its scheduler. `scheduled`: the learning rate changes with each step."""

    def __init__(self, name: str, scheduled: bool) -> None:
        torch.manual_seed(0)
        cls, kwargs = CASES[name]
        sparse = name.startswith("SparseAdam")
        self.model = nn.Embedding(5, 3, sparse=True) if sparse else nn.Linear(3, 2, bias=cls is not torch.optim.Muon)
        self.inputs = torch.tensor([0, 3, 3]) if sparse else torch.randn(4, 3)
        self.optimizer = cls(self.model.parameters(), **{key: copy.deepcopy(value) for key, value in kwargs.items()})
        self.scheduler = lr_scheduler.LambdaLR(self.optimizer, lambda epoch: 1 / (epoch + 1)) if scheduled else None
        self.takes_closure = cls is torch.optim.LBFGS

    def loss(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss: torch.Tensor = self.model(self.inputs).pow(2).sum()
        loss.backward()
        return loss

    def seen(self) -> Any:
        state = self.optimizer.state_dict()
        return copy.deepcopy([list(self.model.parameters()), state["state"], [group["lr"] for group in self.optimizer.param_groups]])


def steps(run: Run, step: Callable[..., Any]) -> list[Any]:
    """Steps of the optimizer, compiled by themselves."""
    told = []
    for _ in range(STEPS):
        if run.takes_closure:
            step(run.loss)
        else:
            run.loss()
            step()
        if run.scheduler is not None:
            run.scheduler.step()
        told.append(run.seen())
    return told


def training_step(run: Run) -> Any:
    """One step of a training loop."""
    if run.takes_closure:
        loss = run.optimizer.step(run.loss)
    else:
        loss = run.loss()
        run.optimizer.step()
    if run.scheduler is not None:
        run.scheduler.step()
    return loss.detach() * 1


@pytest.mark.parametrize(
    "name, scheduled", [*((name, True) for name in CASES), ("SGD", False), ("Adam-foreach", False), ("LBFGS-max_iter", False)]
)
@pytest.mark.only_eager("AOTAutograd's graphs round otherwise in the last bit")
def test_steps(name: str, scheduled: bool) -> None:
    expected, run = Run(name, scheduled), Run(name, scheduled)
    framejit.reset()
    close(steps(run, framejit.compile(run.optimizer.step, backend="eager")), steps(expected, expected.optimizer.step))
    assert framejit.statistics()["recompiles"] <= 1


AS_WRITTEN = ("LBFGS", "SparseAdam")
"""Of these optimizers, steps run uncompiled."""
BY_TENSORS = ("RAdam", "ASGD", "Adafactor", "fused")
"""Of these, AOTAutograd traces other operations than eager runs: they round otherwise."""

MAKE_NO_STATE = ("SGD", "SGD-fused", "SGD-maximize-weight_decay", "Adagrad", "Adagrad-foreach", "Adagrad-fused")
"""Of these, the first step is like all others."""


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", CASES)
def test_training_steps(name: str, backend: str, scheduled: bool) -> None:
    expected, run = Run(name, scheduled), Run(name, scheduled)
    framejit.reset()
    compiled = framejit.compile(training_step, backend=backend)
    tolerance = 1e-5 if backend != "eager" and any(part in name for part in BY_TENSORS) else 0.0
    for _ in range(STEPS):
        close([compiled(run), run.seen()], [training_step(expected), expected.seen()], tolerance)
    found = framejit.statistics()
    if name.startswith(AS_WRITTEN):  # torch.compile, where the process has used it, marks the steps of LBFGS and SparseAdam as not to be compiled
        assert any(id in reason for reason in found["reasons"] for id in ("FJ036", "FJ009", "FJ003"))
    else:
        first = backend != "eager" and name not in MAKE_NO_STATE
        changes_tensor = scheduled and name.endswith("-lr")
        ids = sorted(id for reason in found["reasons"] for id in ("FJ040", "FJ079") if id in reason)
        assert ids == ["FJ040"] * first + ["FJ079"] * changes_tensor and len(ids) == len(found["reasons"])
        assert found["graphs"] <= 2 + changes_tensor - first, found


@pytest.mark.slow
@pytest.mark.only_eager("the test names its backend")
@pytest.mark.parametrize("name", ["RAdam", "ASGD-foreach-t0", "Adafactor-foreach-weight_decay", "AdamW-fused", "SGD-momentum-nesterov"])
def test_training_steps_with_inductor(name: str) -> None:
    expected, run = Run(name, True), Run(name, True)
    framejit.reset()
    compiled = framejit.compile(training_step, backend="inductor")
    for _ in range(STEPS):
        close([compiled(run), run.seen()], [training_step(expected), expected.seen()], 1e-5)
    found = framejit.statistics()
    assert found["graphs"] <= 2 and found["graph_breaks"] <= 1 and found["internal_errors"] == 0, found


def in_a_loop(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> None:
    for index in range(3):
        (parameter * index).sum().backward()
        optimizer.step()


def made_in_the_call(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> None:
    optimizer = torch.optim.Adam([parameter])
    (parameter * 2).sum().backward()
    optimizer.step()


def behind_a_break(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> None:
    loss = (parameter * 2).sum()
    framejit.graph_break()
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize("calls, graphs, program", [(1, 1, in_a_loop), (4, 2, made_in_the_call), (3, 2, behind_a_break)])
def test_first_steps(program: Callable[..., None], calls: int, graphs: int) -> None:
    """A loop is compiled in its first call, a call that makes its optimizer both without and with a `.grad`, a step after a break from the second call on."""
    told = []
    for compile in (lambda f: f, lambda f: framejit.compile(f, backend="aot_eager")):
        framejit.reset()
        parameter = nn.Parameter(torch.ones(3))
        optimizer, compiled = torch.optim.Adam([parameter]), compile(program)
        for _ in range(calls):
            compiled(optimizer, parameter)
        told.append([parameter, parameter.grad, optimizer.state_dict()["state"]])
    close(told[1], told[0])
    assert framejit.statistics()["graphs"] == graphs, framejit.statistics()


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name, varying", [("SGD-momentum-nesterov", "momentum"), ("AdamW", "betas"), ("RMSprop-foreach-centered-momentum", "momentum")])
def test_settings_that_change_in_each_step(name: str, varying: str, backend: str) -> None:
    """As OneCycleLR changes momentum and betas. A weight decay that ends at 0 is compiled once more."""
    expected, run = Run(name, False), Run(name, False)
    framejit.reset()
    compiled = framejit.compile(training_step, backend=backend)
    for step in range(STEPS):
        for group in (run.optimizer.param_groups[0], expected.optimizer.param_groups[0]):
            group["weight_decay"], group["lr"] = max(0.0, 0.1 - step / 80), 0.01 / (step + 1)
            group[varying] = (0.9 - step / 100, 0.999 - step / 100) if varying == "betas" else 0.9 - step / 100
        close([compiled(run), run.seen()], [training_step(expected), expected.seen()])
    found = framejit.statistics()
    assert found["graphs"] <= 3 and found["graph_breaks"] == 0, found


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["AdamW", "Adam-foreach"])
def test_weights_of_averages_that_change_in_each_step(name: str, backend: str) -> None:
    """As OneCycleLR changes betas: one graph has them as symbols. Inductor computes an average by a weight of at least a half in another way."""
    expected, run = Run(name, False), Run(name, False)
    framejit.reset()
    compiled = framejit.compile(training_step, backend=backend)
    for beta in (0.9, 0.85, 0.8, 0.3, 0.7, 0.95):
        for group in (run.optimizer.param_groups[0], expected.optimizer.param_groups[0]):
            group["betas"] = (beta, 0.999 - beta / 100)
        close([compiled(run), run.seen()], [training_step(expected), expected.seen()], 1e-5)
    found = framejit.statistics()
    assert (found["graphs"], found["graph_breaks"], found["recompiles"]) == (2, 0, 1), found


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_momentum_of_muon_that_changes_in_each_step(backend: str) -> None:
    """It is the weight of two averages, m and 1 - m. One below a half is compiled as a constant. Muon computes in bfloat16."""
    expected, run = Run("Muon", False), Run("Muon", False)
    framejit.reset()
    compiled = framejit.compile(training_step, backend=backend)
    for momentum in (0.9, 0.85, 0.8, 0.3, 0.7, 0.95):
        for group in (run.optimizer.param_groups[0], expected.optimizer.param_groups[0]):
            group["momentum"] = momentum
        close([compiled(run), run.seen()], [training_step(expected), expected.seen()], 1e-2)
    found = framejit.statistics()
    assert (found["graphs"], found["graph_breaks"], found["recompiles"]) == (2, 0, 1), found


SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "OneCycleLR": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20),
    "ReduceLROnPlateau": lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, patience=1),
    "SequentialLR": lambda optimizer: lr_scheduler.SequentialLR(optimizer, [lr_scheduler.ConstantLR(optimizer), lr_scheduler.LinearLR(optimizer)], [3]),
}


def scaled_step(model: Any, optimizer: Any, scheduler: Any, scaler: Any, average: Any, x: torch.Tensor) -> Any:
    """A training step with all that torch offers around an optimizer."""
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step(*([loss] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
    average.update_parameters(model)
    return loss.detach(), norm


@pytest.mark.parametrize("name, backend", [*((name, "eager") for name in SCHEDULERS), ("OneCycleLR", "aot_eager")])
@pytest.mark.filterwarnings("ignore:Detected call of")
def test_what_surrounds_an_optimizer(name: str, backend: str) -> None:
    told: list[Any] = []
    for compile in (lambda f: f, lambda f: framejit.compile(f, backend=backend)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        scheduler, scaler = SCHEDULERS[name](optimizer), torch.amp.GradScaler("cpu")
        average = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
        step, seen = compile(scaled_step), []
        for i in range(8):
            results = step(model, optimizer, scheduler, scaler, average, torch.ones(2, 3) * i)
            state = [*model.parameters(), *average.parameters(), optimizer.state_dict()["state"], optimizer.param_groups[0]["lr"]]
            seen.append(copy.deepcopy([results, state, scaler.get_scale()]))
        told.append(seen)
    close(told[1], told[0])


def test_hooks_of_steps() -> None:
    seen = []
    for compile in (lambda f: f, lambda f: framejit.compile(f, backend="eager")):
        run = Run("Adam", False)
        run.optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: seen.append("pre"))
        run.optimizer.register_step_post_hook(lambda optimizer, args, kwargs: seen.append(run.seen()))
        compile(training_step)(run)
    assert seen[0] == seen[2] == "pre"
    close(seen[3], seen[1])


class Plain(torch.optim.Optimizer):
    """A user's optimizer."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                count = self.state[p].setdefault("step", torch.zeros(()))
                count += 1
                p.add_(p.grad, alpha=-group["lr"] / count.item())


def test_an_optimizer_of_the_program() -> None:
    CASES["Plain"] = Plain, {"lr": 0.1}
    try:
        expected, run = Run("Plain", True), Run("Plain", True)
    finally:
        del CASES["Plain"]
    compiled = framejit.compile(training_step, backend="eager")
    for _ in range(STEPS):
        close([compiled(run), run.seen()], [training_step(expected), expected.seen()])


class AdamByHand(torch.optim.Optimizer):
    """As many programs have it: the number of steps is a Python int, and the state is made in the first step."""

    def __init__(self, params: Any, lr: float, betas: tuple[float, float] = (0.9, 0.99)) -> None:
        super().__init__(params, {"lr": lr, "betas": betas})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, average=torch.zeros_like(p), squares=torch.zeros_like(p))
                state["step"] += 1
                state["average"].lerp_(p.grad, 1 - beta1)
                state["squares"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                denominator = (state["squares"].sqrt() / math.sqrt(1 - beta2 ** state["step"])).add_(1e-8)
                p.addcdiv_(state["average"], denominator, value=-group["lr"] / (1 - beta1 ** state["step"]))


class Lookahead(torch.optim.Optimizer):
    """An optimizer around another one, whose groups it shares."""

    def __init__(self, params: Any, lr: float) -> None:
        self.base = torch.optim.SGD(params, lr=lr)
        super().__init__(self.base.param_groups, {})
        self.param_groups = self.base.param_groups
        self.count, self.slow = 0, [p.detach().clone() for p in self.param_groups[0]["params"]]

    def step(self, closure: Any = None) -> None:
        self.base.step(closure)
        self.count += 1
        if self.count % 5 == 0:
            with torch.no_grad():
                for p, slow in zip(self.param_groups[0]["params"], self.slow, strict=True):
                    p.copy_(slow.add_(p - slow, alpha=0.5))


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("cls", [AdamByHand, Lookahead])
def test_steps_that_the_program_has_written_are_part_of_the_graph(cls: Any, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CASES, "by hand", (cls, {"lr": 0.1}))
    expected, run = Run("by hand", False), Run("by hand", False)
    framejit.reset()
    compiled = framejit.compile(training_step, backend=backend)
    for step in range(STEPS):
        run.optimizer.param_groups[0]["lr"] = expected.optimizer.param_groups[0]["lr"] = 0.1 / (step + 1)
        close([compiled(run), run.seen()], [training_step(expected), expected.seen()])
    found = framejit.statistics()
    assert found["graphs"] <= 3 and found["graph_breaks"] == 0, found


def test_functions_of_torch_optim_are_not_told_that_they_are_compiled() -> None:
    """They would leave the step's count a tensor, and compute with it."""

    def fn(p: Any, g: Any, m: Any, v: Any, s: Any) -> None:
        adam(
            [p],
            [g],
            [m],
            [v],
            [],
            [s],
            foreach=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=0.1,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )

    def run(f: Any) -> Any:
        torch.manual_seed(0)
        args = [torch.randn(4) for _ in range(2)] + [torch.zeros(4), torch.zeros(4), torch.tensor(0.0)]
        for _ in range(STEPS):
            f(*args)
        return args

    close(run(framejit.compile(fn, backend="eager")), run(fn))


@pytest.mark.only_eager("with AOTAutograd, first steps of optimizers run uncompiled")
def test_marks_of_torchs_own_tracer() -> None:
    """torch.compile marks parts of torch.optim as not to be compiled when it first runs in a process; framejit compiles a step all the same."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
    run = Run("Adam", False)
    framejit.reset()
    compiled = framejit.compile(training_step, backend="eager")
    for _ in range(3):
        compiled(run)
    assert framejit.statistics()["reasons"] == []


@pytest.mark.parametrize("cls", [torch.optim.SGD, torch.optim.Adam])
def test_steps_that_autograd_records(cls: Any) -> None:
    """They run uncompiled, and the gradient goes through them."""

    def learn(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        inner = weight.clone()
        optimizer = cls([inner], lr=0.1, differentiable=True)
        for _ in range(2):
            (inner.grad,) = torch.autograd.grad((x @ inner).pow(2).mean(), inner, create_graph=True)
            optimizer.step()
        return (x @ inner).pow(2).mean()

    told = []
    for compile in (lambda f: f, lambda f: framejit.compile(f, backend="eager")):
        weight = torch.full((3, 2), 0.5, requires_grad=True)
        loss = compile(learn)(weight, torch.ones(4, 3))
        loss.backward()
        told.append([loss.detach(), weight.grad])
    close(told[1], told[0])


def interrupted(compile: Callable[[Any], Any], cls: Any, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """A run that goes back to an earlier state once, and later trains one more parameter; one parameter never has a gradient."""
    torch.manual_seed(0)
    model, late, unused = nn.Linear(3, 4), nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(5))
    optimizer = cls([*model.parameters(), unused], lr=0.01, **kwargs)

    @compile
    def train(x: torch.Tensor, more: bool) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).pow(2).sum() + ((late * 3).sum() if more else 0.0)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = []
    for step in range(10):
        losses.append(train(torch.ones(5, 3), step > 6))
        if step == 2:
            saved = copy.deepcopy(optimizer.state_dict())
        if step == 4:
            optimizer.load_state_dict(saved)
        if step == 6:
            optimizer.add_param_group({"params": [late], "lr": 0.1})
    return [*losses, *(parameter.detach() for parameter in (*model.parameters(), late))]


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("cls, kwargs", [(torch.optim.AdamW, {"foreach": True}), (torch.optim.RAdam, {})])
def test_states_that_are_loaded_and_groups_that_are_added(cls: Any, kwargs: dict[str, Any], backend: str) -> None:
    framejit.reset()
    found = interrupted(lambda f: framejit.compile(f, backend=backend), cls, kwargs)
    close(found, interrupted(lambda f: f, cls, kwargs), 1e-6 if (cls, backend) == (torch.optim.RAdam, "aot_eager") else 0.0)
    statistics = framejit.statistics()
    assert statistics["graphs"] <= 4 and statistics["recompiles"] <= 3, statistics


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_adafactor_of_an_empty_parameter(backend: str) -> None:
    """torch divides by the number of its elements and raises; what AOTAutograd traced in the place of torch's arithmetic made it a NaN."""

    def program(parameter: Any) -> None:
        optimizer = torch.optim.Adafactor([parameter])
        for _ in range(2):
            parameter.sum().backward()
            optimizer.step()

    with pytest.raises(ZeroDivisionError, match="division by zero"):
        framejit.compile(program, backend=backend)(torch.nn.Parameter(torch.empty(0)))
