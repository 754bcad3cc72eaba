"""Observers of quantisation-aware training, compiled: their statistics get their size in the first call."""

from __future__ import annotations

import pytest
import torch
from agreement import close
from torch import nn
from torch.ao import quantization

import framejit

IN_THE_PLACE_OF_EAGER = ["eager", "aot_eager"]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.layer, self.out = quantization.QuantStub(), nn.Linear(2, 2), quantization.DeQuantStub()

    def forward(self, x):
        return self.out(self.layer(self.into(x)))


class Convolution(Linear):
    def __init__(self):
        super().__init__()
        self.layer, self.norm, self.relu = nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.ReLU()

    def forward(self, x):
        return self.out(self.relu(self.norm(self.layer(self.into(x.repeat(2, 1, 2, 2))))))


def fused():
    return quantization.fuse_modules_qat(Convolution().train(), [["layer", "norm", "relu"]])


EACH_BY_ITSELF = quantization.QConfig(
    activation=quantization.FakeQuantize.with_args(observer=quantization.MovingAverageMinMaxObserver),
    weight=quantization.FakeQuantize.with_args(
        observer=quantization.MovingAveragePerChannelMinMaxObserver, dtype=torch.qint8, qscheme=torch.per_channel_symmetric, quant_min=-128, quant_max=127
    ),
)


def prepared(make, config):
    torch.manual_seed(0)
    model = make().train()
    model.qconfig = config if isinstance(config, quantization.QConfig) else quantization.get_default_qat_qconfig(config)
    return quantization.prepare_qat(model, inplace=True)


def trained(model, called):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for step in range(3):
        if step == 2:
            model.apply(quantization.disable_observer)
        optimizer.zero_grad()
        loss = called(torch.arange(4.0).view(2, 2) + step).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, dict(model.state_dict())


@pytest.mark.parametrize(("make", "config"), [(Linear, "fbgemm"), (Linear, "qnnpack"), (Convolution, "x86"), (fused, "fbgemm"), (Linear, EACH_BY_ITSELF)])
def test_training_with_observers(make, config):
    plain, model = prepared(make, config), prepared(make, config)
    close(trained(model, framejit.compile(model, backend="eager")), trained(plain, plain))


def test_later_calls_are_one_graph():
    framejit.reset()
    model = prepared(Linear, "fbgemm")
    compiled = framejit.compile(model, backend="eager")
    compiled(torch.ones(2, 2))
    compiled(torch.ones(2, 2))
    before = framejit.statistics()
    compiled(torch.ones(2, 2)).sum().backward()
    after = framejit.statistics()
    assert after == before and after["graph_breaks"] == 0


def test_the_size_of_the_statistics_is_known_behind_the_operator():
    def f(x, lowest, highest, scale, zero):
        on = torch.tensor([1])
        y = torch.fused_moving_avg_obs_fake_quant(x, on, on, lowest, highest, scale, zero, 0.01, 0, 255, ch_axis=0, per_row_fake_quant=True)
        return y, lowest.shape[0] + scale.shape[0] * 10

    def call(function):
        state = [torch.tensor([]), torch.tensor([]), torch.tensor([1.0]), torch.tensor([0], dtype=torch.int32)]
        return [(function(torch.arange(6.0).view(3, 2), *state), [tensor.clone() for tensor in state]) for _ in range(2)]

    close(call(framejit.compile(f, backend="eager")), call(f))
