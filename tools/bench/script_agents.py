"""Training scripts on graphs and environments that need torch alone, as their authors write them: message passing, PPO, a replay buffer."""

from __future__ import annotations

import collections
import random
from typing import Any, NamedTuple

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

from tools.bench.script_way import STEPS, Trained, Way, state_of


class Graph(NamedTuple):
    """Nodes of all graphs of a batch, edges between them, and the graph of each node."""

    x: torch.Tensor
    edges: torch.Tensor
    batch: torch.Tensor


class Messages(nn.Module):
    """Attention over the edges that lead to a node."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.value, self.score = nn.Linear(inputs, outputs), nn.Linear(2 * inputs, 1)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges
        scores = F.leaky_relu(self.score(torch.cat([x[source], x[target]], dim=-1)).squeeze(-1), 0.2)
        largest = torch.full((x.size(0),), float("-inf")).scatter_reduce(0, target, scores, "amax", include_self=True)
        weights = (scores - largest[target]).exp()
        total = torch.zeros(x.size(0)).index_add(0, target, weights)
        weights = weights / (total[target] + 1e-9)
        out = x.new_zeros(x.size(0), self.value.out_features)
        return out.index_add_(0, target, self.value(x)[source] * weights.unsqueeze(-1))


class GraphNet(nn.Module):
    """Two rounds of messages, and the mean over the nodes of each graph."""

    def __init__(self, inputs: int = 6, width: int = 16, classes: int = 3) -> None:
        super().__init__()
        self.layers, self.norm, self.head = nn.ModuleList([Messages(inputs, width), Messages(width, width)]), nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, graph: Graph, graphs: int) -> torch.Tensor:
        x = graph.x
        for layer in self.layers:
            x = F.dropout(F.elu(layer(x, graph.edges)), 0.1, self.training)
        pooled = torch.zeros(graphs, x.size(1)).index_add_(0, graph.batch, self.norm(x))
        return self.head(pooled / torch.bincount(graph.batch, minlength=graphs).clamp(min=1).unsqueeze(-1))


def messages(way: Way) -> Trained:
    """Message passing on batches of graphs, whose nodes and edges are as many as they happen to be."""
    raw, sizes = GraphNet(), random.Random(0)
    optimizer = torch.optim.Adam(raw.parameters(), lr=5e-3)
    model = way.model(raw)

    def collate(count: int) -> tuple[Graph, torch.Tensor]:
        xs, edges, batch, first = [], [], [], 0
        for index in range(count):
            n = sizes.randint(3, 7)
            pairs = torch.randint(0, n, (2, 2 * n))
            loops = torch.arange(n).repeat(2, 1)
            xs.append(torch.randn(n, 6))
            edges.append(torch.cat([pairs[:, pairs[0] != pairs[1]], loops], dim=1) + first)
            batch += [index] * n
            first += n
        return Graph(torch.cat(xs), torch.cat(edges, dim=1), torch.tensor(batch)), torch.randint(0, 3, (count,))

    @way.step
    def train_step(graph: Graph, y: torch.Tensor) -> torch.Tensor:
        out = model(graph, len(y))
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Trained([train_step(*collate(4)).item() for _ in range(STEPS)], state_of(raw, optimizer))


class Corridor:
    """An agent walks along a corridor; it pays for each step and is rewarded at the right end."""

    def __init__(self, length: int = 6, seed: int = 0) -> None:
        self.length, self.random = length, numpy.random.default_rng(seed)
        self.reset()

    def reset(self) -> numpy.ndarray[Any, Any]:
        self.place, self.time = int(self.random.integers(0, 3)), 0
        return self.observation()

    def observation(self) -> numpy.ndarray[Any, Any]:
        return numpy.array([self.place / self.length, self.time / 20, self.random.normal()], dtype=numpy.float32)

    def step(self, action: int) -> tuple[numpy.ndarray[Any, Any], float, bool]:
        self.place = max(0, self.place + (1 if action == 1 else -1))
        self.time += 1
        done = self.place >= self.length or self.time >= 20
        return self.observation(), (1.0 if self.place >= self.length else -0.05), done


class ActorCritic(nn.Module):
    """A distribution over actions, and the value of a state."""

    def __init__(self, inputs: int = 3, actions: int = 2) -> None:
        super().__init__()
        self.body, self.actor, self.critic = nn.Sequential(nn.Linear(inputs, 16), nn.Tanh()), nn.Linear(16, actions), nn.Linear(16, 1)

    def forward(self, state: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        hidden = self.body(state)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(-1)


def ppo(way: Way) -> Trained:
    """PPO: a rollout, generalised advantages, minibatches in random order, a clipped objective, an early end by the KL divergence."""
    raw, environment = ActorCritic(), Corridor()
    optimizer = torch.optim.Adam(raw.parameters(), lr=3e-3, eps=1e-5)
    model = way.model(raw)

    @way.step
    def act(observation: numpy.ndarray[Any, Any]) -> tuple[int, torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            policy, value = model(torch.from_numpy(observation).unsqueeze(0))
            action = policy.sample()
            return action.item(), policy.log_prob(action)[0], value[0]

    def rollout(count: int) -> dict[str, torch.Tensor]:
        rows, state = collections.defaultdict(list), environment.reset()
        for _ in range(count):
            action, chance, value = act(state)
            following, reward, done = environment.step(action)
            step = {"state": state, "action": action, "chance": chance, "value": value, "reward": reward, "done": done}
            for name, item in step.items():
                rows[name].append(torch.as_tensor(item))
            state = environment.reset() if done else following
        rows["value"].append(act(state)[2])
        return {name: torch.stack(items) for name, items in rows.items()}

    @way.step
    def advantages(reward: torch.Tensor, value: torch.Tensor, done: torch.Tensor, discount: float = 0.99, trace: float = 0.95) -> torch.Tensor:
        found, last = torch.zeros_like(reward), 0.0
        for t in reversed(range(len(reward))):
            going = 1.0 - done[t].float()
            delta = reward[t] + discount * value[t + 1] * going - value[t]
            last = delta + discount * trace * going * last
            found[t] = last
        return found

    @way.step
    def update(state: torch.Tensor, action: torch.Tensor, chance: torch.Tensor, advantage: torch.Tensor, target: torch.Tensor) -> tuple[float, float]:
        policy, value = model(state)
        change = policy.log_prob(action) - chance
        ratio, advantage = change.exp(), (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        loss = -gain + 0.5 * F.mse_loss(value, target) - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(raw.parameters(), 0.5)
        optimizer.step()
        return loss.item(), ((ratio - 1) - change).mean().item()

    losses = []
    for _ in range(3):
        rows = rollout(24)
        rows["advantage"] = advantages(rows["reward"], rows["value"], rows["done"])
        rows["target"] = rows["advantage"] + rows["value"][:-1]
        for _ in range(2):
            for part in torch.randperm(24).split(8):
                losses.append(update(*(rows[name][part] for name in ("state", "action", "chance", "advantage", "target"))))
            if losses[-1][1] > 0.05:
                break
    return Trained(losses, state_of(raw, optimizer))


class Transition(NamedTuple):
    """One step in the environment."""

    state: numpy.ndarray[Any, Any]
    action: int
    reward: float
    following: numpy.ndarray[Any, Any]
    done: bool


class Replay:
    """The last transitions, of which batches are drawn."""

    def __init__(self, capacity: int) -> None:
        self.memory: collections.deque[Transition] = collections.deque(maxlen=capacity)

    def push(self, *parts: Any) -> None:
        self.memory.append(Transition(*parts))

    def sample(self, count: int) -> Transition:
        return Transition(*zip(*random.sample(self.memory, count), strict=True))

    def __len__(self) -> int:
        return len(self.memory)


def replay(way: Way) -> Trained:
    """Double DQN: a replay buffer, an exploration that fades, a target network that follows slowly."""
    raw, target = (nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2)) for _ in range(2))
    target.load_state_dict(raw.state_dict())
    optimizer, memory, environment = torch.optim.RMSprop(raw.parameters(), lr=1e-2), Replay(40), Corridor(seed=1)
    model, follower, losses = way.model(raw), way.model(target), []

    @way.step
    def act(state: numpy.ndarray[Any, Any], epsilon: float) -> int:
        if random.random() < epsilon:
            return random.randrange(2)
        with torch.no_grad():
            return int(model(torch.as_tensor(state)).argmax())

    @way.step
    def optimize(batch_size: int) -> float | None:
        if len(memory) < batch_size:
            return None
        batch = memory.sample(batch_size)
        state, following = torch.from_numpy(numpy.stack(batch.state)), torch.from_numpy(numpy.stack(batch.following))
        action, reward, done = torch.tensor(batch.action), torch.tensor(batch.reward), torch.tensor(batch.done)
        value = model(state).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = model(following).argmax(1, keepdim=True)
            wanted = reward + 0.95 * follower(following).gather(1, best).squeeze(1) * (~done)
        loss = F.smooth_l1_loss(value, wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(raw.parameters(), 100)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), raw.parameters(), strict=True):
                slow.mul_(0.9).add_(0.1 * fast)
        return loss.item()

    state = environment.reset()
    for step in range(30):
        action = act(state, max(0.1, 0.9 - 0.03 * step))
        following, reward, done = environment.step(action)
        memory.push(state, action, reward, following, done)
        state = environment.reset() if done else following
        losses.append((action, optimize(8)))
    return Trained(losses, state_of(raw, target, optimizer))
