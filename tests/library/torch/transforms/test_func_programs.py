"""Programs that people write with torch.func, as whole steps: values, gradients, changed parameters and random streams, against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import framejit

BACKENDS = ("eager", "aot_eager")


class Perceptron(nn.Module):
    def __init__(self, inputs: int = 3, outputs: int = 2) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(inputs, 5), nn.Linear(5, outputs)

    def forward(self, x: Any) -> Any:
        return self.out(torch.tanh(self.into(x)))


class Ensemble:
    """Some networks whose parameters are stacked, and a batch for each."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        models = [Perceptron() for _ in range(3)]
        self.parameters, self.buffers = stack_module_state(models)
        self.base, self.x, self.y = models[0], torch.randn(3, 4, 3), torch.randn(3, 4, 2)

    def step(self) -> Any:
        """Changes the parameters in place: the losses that it gives require a gradient, but have lost the way to it."""

        def loss(parameters: Any, buffers: Any, x: Any, y: Any) -> Any:
            return F.mse_loss(functional_call(self.base, (parameters, buffers), (x,)), y)

        gradients, losses = vmap(grad_and_value(loss))(self.parameters, self.buffers, self.x, self.y)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.sub_(0.1 * gradients[name])
        return losses


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_ensemble_is_trained_in_place(backend: str) -> None:
    """AOTAutograd was asked for a backward of the losses, and the backend raised an error."""
    framejit.reset()
    expected, found = Ensemble(), Ensemble()
    compiled = framejit.compile(Ensemble.step, backend=backend, fullgraph=True)
    for _ in range(2):
        losses, others = compiled(found), expected.step()
        torch.testing.assert_close(losses, others)
        assert losses.requires_grad
        for result in (losses, others):
            with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
                result.sum().backward()
    torch.testing.assert_close(pytree.tree_map(torch.detach, found.parameters), pytree.tree_map(torch.detach, expected.parameters))
    assert framejit.statistics()["graphs"] == 1


def langevin(energy: Any, x: Any) -> Any:
    """Samples of an energy by noisy steps on the data of a leaf, as in a well-known tutorial on energy-based models."""
    for parameter in energy.parameters():
        parameter.requires_grad_(False)
    x = x.clone().requires_grad_(True)
    noise = torch.empty_like(x)
    for _ in range(3):
        noise.normal_(0, 0.005)
        x.data.add_(noise.data).clamp_(-1, 1)
        energy(x).sum().backward()
        x.grad.data.clamp_(-0.03, 0.03)
        x.data.add_(-10 * x.grad.data)
        x.grad.detach_()
        x.grad.zero_()
    for parameter in energy.parameters():
        parameter.requires_grad_(True)
    return x.detach()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_energy_is_sampled(backend: str) -> None:
    """With AOTAutograd, `detach_()` of a gradient split the graph, though that has no record."""
    framejit.reset()
    torch.manual_seed(0)
    energy, x = Perceptron(outputs=1), torch.randn(4, 3)
    compiled = framejit.compile(langevin, backend=backend, fullgraph=True)
    for seed in range(2):
        torch.manual_seed(seed)
        expected = langevin(energy, x)
        torch.manual_seed(seed)
        torch.testing.assert_close(compiled(energy, x), expected)
    assert framejit.statistics()["graphs"] == 1
