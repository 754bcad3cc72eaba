"""Whole training steps, as their authors write them: zero_grad, forward, loss, backward, clip, the optimizer's step and the schedule's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler

from tools.models import SMALL, VOCABULARY, encoder, image_model
from tools.models import decoder as decoder_model

Batch = tuple[torch.Tensor, ...]
ROWS = 4


@dataclass
class Training:
    """The parts of a training loop. `step(*batch)` returns the loss; `batch()` draws the next batch."""

    modules: nn.Module
    optimizers: tuple[torch.optim.Optimizer, ...]
    step: Callable[..., torch.Tensor]
    batch: Callable[[], Batch]

    def state(self) -> list[Any]:
        """All that training changes."""
        return [
            [value.detach().clone() for value in (*self.modules.parameters(), *self.modules.buffers())],
            [optimizer.state_dict()["state"] for optimizer in self.optimizers],
            [group["lr"] for optimizer in self.optimizers for group in optimizer.param_groups],
        ]


def plain(model: nn.Module, loss_of: Callable[..., torch.Tensor], batch: Callable[[], Batch], clip: float | None = 1.0) -> Training:
    """The usual loop: AdamW and a cosine schedule."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = lr_scheduler.CosineAnnealingLR(optimizer, 100)

    def step(*args: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, *args)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        schedule.step()
        return loss.detach()

    return Training(model, (optimizer,), step, batch)


def tokens() -> Batch:
    return (torch.randint(3, VOCABULARY, (ROWS, 32)),)


def of_transformers(build: Callable[[], Any]) -> Callable[[], Training]:
    def training() -> Training:
        return plain(build().model.train(), lambda model, ids: model(input_ids=ids, labels=ids).loss, tokens)

    return training


def resnet() -> Training:
    def batch() -> Batch:
        return torch.randn(ROWS, 3, 64, 64), torch.randint(0, 10, (ROWS,))

    return plain(image_model("resnet18")().model.train(), lambda model, x, y: F.cross_entropy(model(x), y), batch, clip=None)


class LanguageModel(nn.Module):
    """An LSTM over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 64)
        self.lstm = nn.LSTM(64, 64, 2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(64, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(ids))[0])


def lstm() -> Training:
    def loss_of(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    return plain(LanguageModel(), loss_of, tokens)


def layers(*widths: int) -> nn.Sequential:
    pairs = zip(widths, widths[1:], strict=False)
    return nn.Sequential(*[layer for into, out in pairs for layer in (nn.Linear(into, out), nn.LeakyReLU(0.2))][:-1])


def gan() -> Training:
    generator, critic = layers(8, 32, 16), layers(16, 32, 1)
    of_generator, of_critic = torch.optim.Adam(generator.parameters(), 1e-3), torch.optim.Adam(critic.parameters(), 1e-3)

    def step(real: torch.Tensor) -> torch.Tensor:
        fake = generator(torch.randn(real.shape[0], 8))
        of_critic.zero_grad()
        found = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
        found.backward()
        of_critic.step()
        of_generator.zero_grad()
        fooled = F.softplus(-critic(fake)).mean()
        fooled.backward()
        of_generator.step()
        return found.detach() + fooled.detach()

    return Training(nn.ModuleList([generator, critic]), (of_generator, of_critic), step, lambda: (torch.randn(ROWS, 16),))


def vae() -> Training:
    encode, decode = layers(16, 32, 8), layers(4, 32, 16)
    both = nn.ModuleList([encode, decode])

    def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        mean, log_variance = encode(x).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        distance = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
        return F.mse_loss(decode(code), x) + distance

    return plain(both, loss_of, lambda: (torch.randn(ROWS, 16),))


def maml() -> Training:
    model = layers(4, 32, 1)

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for task in range(2):
            params = dict(model.named_parameters())
            inner = F.mse_loss(torch.func.functional_call(model, params, (x[task],)), y[task])
            grads = torch.autograd.grad(inner, tuple(params.values()), create_graph=True)
            moved = {name: p - 0.01 * grad for (name, p), grad in zip(params.items(), grads, strict=True)}
            total = total + F.mse_loss(torch.func.functional_call(model, moved, (x[task],)), y[task])
        return total

    return plain(model, loss_of, lambda: (torch.randn(2, ROWS, 4), torch.randn(2, ROWS, 1)))


def accumulating() -> Training:
    """Four batches for each step, under autocast."""
    model = layers(16, 32, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for part, labels in zip(x.chunk(4), y.chunk(4), strict=True):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(part), labels) / 4
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return total

    return Training(model, (optimizer,), step, lambda: (torch.randn(4 * ROWS, 16), torch.randint(0, 4, (4 * ROWS,))))


CASES: dict[str, Callable[[], Training]] = {
    "bert": of_transformers(encoder("Bert")),
    "llama": of_transformers(decoder_model("Llama", **SMALL, num_key_value_heads=2, use_cache=False)),
    "resnet": resnet,
    "lstm": lstm,
    "gan": gan,
    "vae": vae,
    "maml": maml,
    "accumulating": accumulating,
}
"""By name: makes the same weights and the same stream of batches for the same seed."""


def select(only: str | None) -> Iterable[str]:
    """The names in a comma-separated list, or all. Raises ValueError."""
    names = [name.strip() for name in only.split(",")] if only else list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise ValueError(f"unknown case {', '.join(unknown)}; known: {', '.join(CASES)}")
    return names
