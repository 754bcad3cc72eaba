"""`requires_grad` set inside compiled code: parameters frozen and thawed, inputs and intermediates made leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison
from torch import nn

import framejit

BACKENDS = ("eager", "aot_eager")


def trained(make: Callable[[], tuple[list[Any], Callable[..., Any], Callable[[], tuple[Any, ...]]]], backend: str | None, steps: int = 4) -> Any:
    """Make a training anew and run some steps; return the results of the steps, and the parameters and gradients at the end."""
    torch.manual_seed(0)
    parts, step, batch = make()
    if backend is not None:
        step = framejit.compile(step, backend=backend)
    results = [step(*batch()) for _ in range(steps)]
    tensors = [p for part in parts for p in (part.parameters() if isinstance(part, nn.Module) else [part])]
    return [[(r.detach(), r.requires_grad) if isinstance(r, torch.Tensor) else r for r in result] for result in results], [
        (p.detach(), p.requires_grad, p.grad) for p in tensors
    ]


def agree(make: Callable[[], Any], backend: str, breaks: int = 0) -> dict[str, Any]:
    framejit.reset()
    Comparison().same(trained(make, None), trained(make, backend))
    found: dict[str, Any] = framejit.statistics()
    assert found["graph_breaks"] == breaks, found["reasons"]
    return found


def critic() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))


@pytest.mark.parametrize("thawed_at_first", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_discriminator_is_frozen_for_the_step_of_the_generator(backend: str, thawed_at_first: bool) -> None:
    def make() -> Any:
        generator, discriminator = nn.Linear(3, 4), critic().requires_grad_(thawed_at_first)
        optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (generator, discriminator)]

        def step(real: torch.Tensor, z: torch.Tensor) -> Any:
            for p in discriminator.parameters():
                p.requires_grad = True
            optimizers[1].zero_grad()
            fake = generator(z)
            critic_loss = discriminator(fake.detach()).mean() - discriminator(real).mean()
            critic_loss.backward()
            optimizers[1].step()
            discriminator.requires_grad_(False)
            optimizers[0].zero_grad()
            loss = -discriminator(fake).mean()
            loss.backward()
            optimizers[0].step()
            if thawed_at_first:
                discriminator.requires_grad_()
            return critic_loss, loss

        return [generator, discriminator], step, lambda: (torch.randn(2, 4), torch.randn(2, 3))

    agree(make, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_penalty_asks_for_the_gradient_of_an_intermediate(backend: str) -> None:
    def make() -> Any:
        net = critic()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(real: torch.Tensor, fake: torch.Tensor) -> Any:
            part = torch.rand(real.size(0), 1)
            between = (part * real + (1 - part) * fake).requires_grad_(True)
            out = net(between)
            (gradient,) = torch.autograd.grad(out, between, torch.ones_like(out), create_graph=True)
            loss = out.mean() + ((gradient.norm(2, dim=1) - 1) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return (loss.detach(),)

        return [net], step, lambda: (torch.randn(2, 4), torch.randn(2, 4))

    agree(make, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_is_made_a_leaf_for_the_sign_of_its_gradient(backend: str) -> None:
    def make() -> Any:
        net = critic().requires_grad_(False)

        def step(x: torch.Tensor) -> Any:
            x.requires_grad = True
            loss = net(x).sum()
            loss.backward()
            assert x.grad is not None
            return loss, x.detach() + 0.1 * x.grad.sign(), x.grad, x

        return [net], step, lambda: (torch.randn(2, 4),)

    agree(make, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_leaves_the_graph_leads_to_the_tensors_that_were_thawed(backend: str) -> None:
    def make() -> Any:
        net, layer = critic().requires_grad_(False), nn.Linear(4, 4)

        @framejit.disable
        def backward(loss: torch.Tensor) -> None:
            loss.backward()

        def step(x: torch.Tensor) -> Any:
            net.requires_grad_()
            loss = net(layer(x)).sum()
            backward(loss)
            net.requires_grad_(False)
            frozen = net(layer(x))
            backward(frozen.sum())
            return loss, frozen

        return [net, layer], step, lambda: (torch.randn(2, 4),)

    framejit.reset()
    Comparison().same(trained(make, None), trained(make, backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_frozen_embeddings_are_made_leaves_for_checkpoints(backend: str) -> None:
    def make() -> Any:
        table, layer = nn.Embedding(5, 4).requires_grad_(False), nn.Linear(4, 4)
        table.register_forward_hook(lambda module, args, out: out.requires_grad_(True))

        def step(ids: torch.Tensor) -> Any:
            x = torch.utils.checkpoint.checkpoint(layer, table(ids), use_reentrant=True)
            loss = F.mse_loss(x, torch.ones_like(x))
            loss.backward()
            return (loss,)

        return [table, layer], step, lambda: (torch.tensor([1, 2, 0]),)

    agree(make, backend)


def test_leaves_made_inside_a_graph_that_is_one_node_stay_inside() -> None:
    def leaves(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).requires_grad_()

    def leads_to_it(x: torch.Tensor) -> torch.Tensor:
        return leaves(x) * 3

    for fn in (leaves, leads_to_it):
        framejit.reset()
        found = framejit.compile(fn, backend="aot_eager")(torch.ones(2))
        assert found.requires_grad and found.is_leaf is (fn is leaves)
        found.sum().backward()
        assert framejit.statistics()["graph_breaks"] == 1


def test_a_tensor_that_is_thawed_before_a_break_is_a_leaf_behind_it() -> None:
    def fn(p: torch.Tensor, x: torch.Tensor) -> Any:
        y = p * x
        p.requires_grad_()
        framejit.graph_break()
        return y.requires_grad, p.requires_grad, p * x

    for backend in BACKENDS:
        p = torch.ones(2)
        *flags, out = framejit.compile(fn, backend=backend)(p, torch.ones(2))
        assert flags == [False, True] and p.requires_grad
        out.sum().backward()
        assert p.grad is not None
