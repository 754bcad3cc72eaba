"""Programs with TorchRL: actors, losses of reinforcement learning, and replay buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.data import LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
from torchrl.modules import MLP, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss, DDPGLoss, DQNLoss, LossModule, SACLoss, SoftUpdate, TD3Loss, ValueEstimators
from torchrl.objectives.value import GAE

from tools.bench.library_programs.program import Compile, model, program

ROWS = (6, 8, 7, 9)


def observations(turn: int) -> tuple[TensorDict]:
    return (TensorDict({"observation": torch.randn(ROWS[turn], 4)}, [ROWS[turn]]),)


def rollout(turn: int) -> TensorDict:
    """What a collector gives: observations, actions, rewards, and the observations after them."""
    rows = ROWS[turn]
    flags = {name: torch.zeros(rows, 1, dtype=torch.bool) for name in ("done", "terminated")}
    after = {"observation": torch.randn(rows, 4), "reward": torch.randn(rows, 1), **flags}
    policy = {"action": torch.rand(rows, 2) * 1.6 - 0.8, "action_log_prob": torch.randn(rows), "sample_log_prob": torch.randn(rows)}
    values = {"advantage": torch.randn(rows, 1), "value_target": torch.randn(rows, 1)}
    return TensorDict({"observation": torch.randn(rows, 4), **policy, **values, "next": after}, [rows])


def chosen(turn: int) -> TensorDict:
    """The same with one of three actions."""
    data = rollout(turn)
    data["action"] = F.one_hot(torch.randint(0, 3, (ROWS[turn],)), 3)
    return data


def stochastic() -> ProbabilisticActor:
    network = nn.Sequential(MLP(in_features=4, out_features=4, depth=1, num_cells=16, activation_class=nn.Tanh), NormalParamExtractor())
    module, bounds = TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]), {"low": -1.0, "high": 1.0}
    return ProbabilisticActor(module, in_keys=["loc", "scale"], distribution_class=TanhNormal, distribution_kwargs=bounds, return_log_prob=True)


def deterministic() -> TensorDictModule:
    return TensorDictModule(nn.Sequential(nn.Linear(4, 2), nn.Tanh()), in_keys=["observation"], out_keys=["action"])


def critic() -> ValueOperator:
    return ValueOperator(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)), in_keys=["observation"])


class Quality(nn.Module):
    """The value of an action after an observation."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        return self.layers(torch.cat([observation, action], -1))


def qualities() -> ValueOperator:
    return ValueOperator(Quality(), in_keys=["observation", "action"])


def learned(
    compiled: Compile, loss: LossModule, data: Callable[[int], TensorDict] = rollout, target: SoftUpdate | None = None, before: Any = None
) -> Iterator[Any]:
    """Training steps of a loss module. `target`: what updates target networks; `before`: what adds advantages to the data."""
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)

    @compiled
    def step(batch: TensorDict) -> TensorDict:
        if before is not None:
            with torch.no_grad():
                before(batch)
        losses = loss(batch)
        sum(value for name, value in losses.items() if name.startswith("loss")).backward()
        nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if target is not None:
            target.step()
        return losses.detach()

    for turn in range(4):
        yield step(data(turn))
    yield loss, optimizer


def discounted(loss: LossModule, kind: ValueEstimators = ValueEstimators.TD0) -> LossModule:
    loss.make_value_estimator(kind, gamma=0.9)
    return loss


@model(observations, lambda network, data: network(data)["loc"].square().mean())
def actor() -> nn.Module:
    """A stochastic actor"""
    return stochastic()


@program
def ppo_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps of ClipPPOLoss."""
    yield from learned(compiled, ClipPPOLoss(stochastic(), critic(), clip_epsilon=0.2, entropy_coeff=1e-3, loss_critic_type="smooth_l1"))


@program
def ppo_with_advantages_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps of ClipPPOLoss that compute the advantages with GAE."""
    values = critic()
    advantages = GAE(gamma=0.99, lmbda=0.95, value_network=values, average_gae=True)
    yield from learned(compiled, ClipPPOLoss(stochastic(), values), lambda turn: rollout(turn).exclude("advantage", "value_target"), before=advantages)


def dqn() -> LossModule:
    actor = QValueActor(MLP(in_features=4, out_features=3, depth=1, num_cells=16), in_keys=["observation"], action_space="one-hot")
    return discounted(DQNLoss(actor, action_space="one-hot", delay_value=True))


@program
def dqn_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps of DQNLoss with a target network."""
    loss = dqn()
    yield from learned(compiled, loss, chosen, SoftUpdate(loss, eps=0.99))


@program
def ddpg_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps of DDPGLoss with target networks."""
    loss = discounted(DDPGLoss(deterministic(), qualities()))
    yield from learned(compiled, loss, target=SoftUpdate(loss, eps=0.99))


@program
def sac_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps of SACLoss, whose two critics are called by vmap."""
    loss = discounted(SACLoss(stochastic(), qualities(), num_qvalue_nets=2, loss_function="smooth_l1", target_entropy=-2.0))
    yield from learned(compiled, loss, target=SoftUpdate(loss, eps=0.99))


@program
def td3_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps of TD3Loss, whose two critics are called by vmap."""
    loss = discounted(TD3Loss(deterministic(), qualities(), num_qvalue_nets=2, bounds=(-1.0, 1.0)))
    yield from learned(compiled, loss, target=SoftUpdate(loss, eps=0.99))


@program
def replay(compiled: Compile) -> Iterator[Any]:
    """A ReplayBuffer that is extended and sampled in the compiled function."""
    buffer = ReplayBuffer(compilable=True, storage=LazyTensorStorage(20, compilable=True), batch_size=4)

    @compiled
    def step(data: TensorDict) -> tuple[torch.Tensor, torch.Tensor]:
        buffer.extend(data)
        sample = buffer.sample(4)
        return sample["observation"].sum(), sample["action"].mean(0)

    for turn in range(4):
        yield step(rollout(turn))
    yield len(buffer)


@program
def dqn_from_replay_steps(compiled: Compile) -> Iterator[Any]:
    """A function that extends a buffer and takes two training steps of DQNLoss on samples."""
    loss, buffer = dqn(), TensorDictReplayBuffer(compilable=True, storage=LazyTensorStorage(50, compilable=True), batch_size=4)
    target, optimizer = SoftUpdate(loss, eps=0.99), torch.optim.Adam(loss.parameters())

    @compiled
    def step(data: TensorDict) -> torch.Tensor:
        buffer.extend(data)
        for _ in range(2):
            value = loss(buffer.sample())["loss"]
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            target.step()
        return value.detach()

    for turn in range(4):
        yield step(chosen(turn))
    yield loss, optimizer
