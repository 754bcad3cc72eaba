"""Recurrent networks in compiled code: values, gradients, random streams and what is kept for the backward pass, against eager, bit for bit."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import framejit
from framejit.library.torch.recurrent import recurrent as operators
from framejit.library.torch.recurrent.recurrent import RECURRENT, Arguments

BACKENDS = ("eager", "aot_eager")
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "rnn": lambda: nn.RNN(3, 4),
    "rnn with relu": lambda: nn.RNN(3, 4, nonlinearity="relu", num_layers=2),
    "gru": lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True),
    "gru with dropout": lambda: nn.GRU(3, 4, num_layers=3, dropout=0.5),
    "lstm": lambda: nn.LSTM(3, 4),
    "lstm batch first": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True),
    "lstm with dropout": lambda: nn.LSTM(3, 4, num_layers=2, dropout=0.5),
    "lstm with projections": lambda: nn.LSTM(3, 4, proj_size=2, bias=False),
    "lstm in evaluation": lambda: nn.LSTM(3, 4, num_layers=2, dropout=0.5).eval(),
    "lstm in double precision": lambda: nn.LSTM(3, 4).double(),
    "lstm without gradients": lambda: nn.LSTM(3, 4).requires_grad_(False),
}
FORMS: dict[str, Callable[[nn.RNNBase, torch.Tensor], Any]] = {}
"""How a network is called, with a batch of sequences."""


def form(fn: Callable[..., Any]) -> Callable[..., Any]:
    FORMS[fn.__name__] = fn
    return fn


@form
def from_nothing(net, x):
    return net(x)


@form
def of_one_sequence(net, x):
    return net(x[0] if net.batch_first else x[:, 0])


@form
def from_given_states(net, x):
    batch, layers = x.shape[0 if net.batch_first else 1], net.num_layers * (2 if net.bidirectional else 1)
    h = torch.full((layers, batch, net.proj_size or net.hidden_size), 0.5, dtype=x.dtype)
    return net(x, (h, torch.ones(layers, batch, net.hidden_size, dtype=x.dtype)) if isinstance(net, nn.LSTM) else h)


@form
def twice(net, x):
    _, state = net(x)
    output, state = net(x * 2, state)
    return output.tanh(), state


@form
def packed(net, x):
    output, state = net(pack_padded_sequence(x, torch.tensor([4, 2]), batch_first=net.batch_first))
    return pad_packed_sequence(output, batch_first=net.batch_first), state


@form
def packed_out_of_order(net, x):
    output, state = net(pack_padded_sequence(x, [2, 4], batch_first=net.batch_first, enforce_sorted=False))
    return output, state


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value if item is not None for tensor in tensors_in(item)]


def loss_of(result: Any) -> torch.Tensor:
    return sum(tensor.pow(2).sum() for tensor in tensors_in(result) if tensor.is_floating_point())


def trained(net: nn.RNNBase, form: Callable[..., Any], compile: Callable[..., Any], inside: bool) -> list[Any]:
    """Return results, parameters and gradients of three steps. `inside`: the backward pass and the optimizer's step are compiled too."""
    optimizer = torch.optim.SGD([*net.parameters(), torch.nn.Parameter(torch.ones(1))], lr=0.1)

    def step(x: torch.Tensor) -> Any:
        result = form(net, x)
        if inside:
            loss_of(result).backward()
            optimizer.step()
        return result

    call, seen = compile(step), []
    for seed in range(3):
        torch.manual_seed(seed)
        optimizer.zero_grad()
        x = torch.randn(2, 4, 3, dtype=net.weight_ih_l0.dtype, requires_grad=True)
        result = call(x if net.batch_first else x.transpose(0, 1).detach().requires_grad_())
        if not inside:
            loss_of(result).backward()
            optimizer.step()
        looks = [(tensor.stride(), tensor.requires_grad) for tensor in tensors_in(result)]
        seen.append([isinstance(result[0], PackedSequence), looks, *[tensor.detach() for tensor in tensors_in(result)]])
        seen.append([*[p.detach().clone() for p in net.parameters()], *[p.grad for p in net.parameters()], torch.rand(2)])
    return seen


CASES = [
    *((name, "from_nothing", False) for name in NETWORKS), *(("lstm", form, False) for form in FORMS), ("lstm batch first", "of_one_sequence", False),
    ("gru with dropout", "packed", False), ("rnn", "packed_out_of_order", False),
    ("rnn", "from_nothing", True), ("lstm with dropout", "from_given_states", True), ("gru", "twice", True), ("lstm batch first", "packed", True),
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "form", "inside"), CASES)
def test_training(name: str, form: str, backend: str, inside: bool) -> None:
    told = []
    for compile in (lambda fn: fn, lambda fn: framejit.compile(fn, backend=backend)):
        framejit.reset()
        torch.manual_seed(0)
        told.append(trained(NETWORKS[name](), FORMS[form], compile, inside))
    is_exact = form != "twice" or backend == "eager"  # AOTAutograd adds up the gradients of each of the two calls first
    torch.testing.assert_close(told[1], told[0], rtol=0 if is_exact else 1e-5, atol=0 if is_exact else 1e-7)
    statistics = framejit.statistics()
    assert statistics["graphs"] <= 2 and not statistics["reasons"], statistics  # two: with the first gradients
    assert not statistics["fallbacks"], statistics


@pytest.mark.parametrize("name", NETWORKS)
def test_looks_of_results(name: str) -> None:
    """The sizes, strides and dtypes that a trace assumes for the results are those of the real operators."""
    net = NETWORKS[name]()
    looked = []

    def look(kind: str, operator: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            results = operator(*args)
            looked.append([(x.shape, x.stride(), x.dtype) for x in results] == [(x.shape, x.stride(), x.dtype) for x in Arguments.of(args).empty_results()])
            return results

        return run

    with pytest.MonkeyPatch.context() as patch:
        for operator, kind in RECURRENT.items():
            patch.setattr(torch._VF, kind, look(kind, operator))
        patch.setattr("torch.nn.modules.rnn._rnn_impls", {"RNN_TANH": torch._VF.rnn_tanh, "RNN_RELU": torch._VF.rnn_relu})
        x = torch.randn(5, 2, 3, dtype=net.weight_ih_l0.dtype)
        net(x)
        net(pack_padded_sequence(x, torch.tensor([2] * (5 if net.batch_first else 2)), batch_first=net.batch_first))
    assert looked == [True, True]


@pytest.mark.parametrize("name", ["lstm", "gru with dropout"])
def test_a_lost_record_is_made_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients are the same where the tensor that has the record comes back as a copy, as from hooks on saved tensors."""
    framejit.reset()
    net = NETWORKS[name]()
    compiled = framejit.compile(net, backend="aot_eager")
    x, told, made = torch.randn(5, 2, 3), [], []
    monkeypatch.setattr(operators, "RecordedNetwork", lambda *args, record=operators.RecordedNetwork: made.append(record(*args)) or made[-1])
    for unpack in (lambda tensor: tensor, lambda tensor: tensor.clone()):
        torch.manual_seed(0)
        net.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            loss_of(compiled(x)).backward()
        told.append([p.grad for p in net.parameters()] + [torch.rand(2)])
    torch.testing.assert_close(told[1], told[0], rtol=0, atol=0)
    assert len(made) == 3


def test_a_second_backward_pass() -> None:
    net = nn.LSTM(3, 4)
    compiled = framejit.compile(net, backend="aot_eager")
    x = torch.randn(5, 2, 3)
    loss = loss_of(compiled(x))
    loss.backward(retain_graph=True)
    first = [p.grad.clone() for p in net.parameters()]
    loss.backward()
    torch.testing.assert_close([p.grad for p in net.parameters()], [grad * 2 for grad in first], rtol=0, atol=0)


def test_records_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the loss, whether it is differentiated or not."""
    net = nn.LSTM(3, 4)
    compiled = framejit.compile(net, backend="aot_eager")
    records: list[weakref.ref[Any]] = []
    record = operators.recorded
    monkeypatch.setattr(operators, "recorded", lambda *args: (made := record(*args), records.append(weakref.ref(made)))[0])
    loss_of(compiled(torch.randn(5, 2, 3))).backward()
    compiled(torch.randn(5, 2, 3))
    gc.collect()
    assert [found() for found in records] == [None, None]


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_arguments_raise(backend: str) -> None:
    """As they do in eager: sizes that don't fit, and another dtype."""
    net = nn.GRU(3, 4)
    compiled = framejit.compile(lambda x, h: net(x, h), backend=backend)
    for x, h in [(torch.randn(5, 2, 7), None), (torch.randn(5, 2, 3), torch.zeros(1, 3, 4)), (torch.randn(5, 2, 3).double(), None)]:
        said = []
        for call in (net, compiled):
            with pytest.raises((RuntimeError, ValueError)) as raised:
                call(x, h)
            said.append((raised.type, str(raised.value)))
        assert said[0] == said[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast(backend: str) -> None:
    net = nn.GRU(3, 4)

    def run(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return net(x)[0]

    x = torch.randn(5, 2, 3)
    expected = run(x)
    found = framejit.compile(run, backend=backend)(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
