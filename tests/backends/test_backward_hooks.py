"""Hooks of modules on their backward, and modules whose operators a backend can't differentiate, against eager."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from agreement import close
from torch import nn
from torch.nn.modules import module as global_hooks

import framejit

IN_THE_PLACE_OF_EAGER = ["eager", "aot_eager"]
Seen = list[Any]


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 2))


def noted(seen: Seen, *values: Any) -> None:
    seen.append([[None if v is None else v.clone() for v in value] if isinstance(value, tuple) else value for value in values])


def on_a_submodule(m: Any, seen: Seen) -> None:
    m[0].register_full_backward_hook(lambda module, gi, go: noted(seen, "hook", gi, go))


def that_changes_the_gradient(m: Any, seen: Seen) -> None:
    m[0].register_full_backward_hook(lambda module, gi, go: (None if gi[0] is None else gi[0] * 3,))
    m[2].register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,))


def before_the_backward(m: Any, seen: Seen) -> None:
    m[2].register_full_backward_pre_hook(lambda module, go: (go[0] * 2,))
    m[2].register_full_backward_pre_hook(lambda module, go: noted(seen, "pre", go))


def on_the_module_itself(m: Any, seen: Seen) -> None:
    m.register_full_backward_hook(lambda module, gi, go: noted(seen, "itself", gi, go))
    m.register_full_backward_pre_hook(lambda module, go: (go[0] + 1,))


def of_the_old_kind(m: Any, seen: Seen) -> None:
    m[0].register_backward_hook(lambda module, gi, go: noted(seen, "old", gi, go))
    m[1].register_backward_hook(lambda module, gi, go: (gi[0] * 2,))


def with_forward_hooks(m: Any, seen: Seen) -> None:
    m[1].register_forward_hook(lambda module, args, result: result * 2)
    m[1].register_full_backward_hook(lambda module, gi, go: noted(seen, "hook", gi, go))
    m[1].register_forward_pre_hook(lambda module, args: (args[0] + 1,))


def on_a_result_in_a_forward_hook(m: Any, seen: Seen) -> None:
    def hook(module: Any, args: Any, result: Any) -> None:
        if result.requires_grad:
            result.register_hook(lambda g: noted(seen, "result", (g,)))

    m[0].register_forward_hook(hook)


def on_parameters(m: Any, seen: Seen) -> None:
    m[0].weight.register_hook(lambda g: g * 2)
    m[3].bias.register_post_accumulate_grad_hook(lambda p: noted(seen, "accumulated", (p.grad,)))


@pytest.mark.parametrize("needs_grad", [True, False])
@pytest.mark.parametrize(
    "register", [on_a_submodule, that_changes_the_gradient, before_the_backward, on_the_module_itself, of_the_old_kind, with_forward_hooks,
                 on_a_result_in_a_forward_hook, on_parameters],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Full backward hook is firing", "ignore:Using a non-full backward hook")
def test_hooks(register: Callable[[Any, Seen], None], needs_grad: bool) -> None:
    check(register, needs_grad)


def check(register: Callable[[Any, Seen], None], needs_grad: bool) -> None:
    told = []
    for compile in (lambda m: m, lambda m: framejit.compile(m, backend="eager")):
        m, seen = net(), Seen()
        register(m, seen)
        f = compile(m)
        for _ in range(2):
            x = torch.arange(6.0).reshape(2, 3).requires_grad_(needs_grad)
            result = f(x)
            (result * result).sum().backward()
            told.append([result.detach(), x.grad, *[p.grad.clone() for p in m.parameters()], len(seen), seen[:]])
            with torch.no_grad():
                told.append(f(x))
    close(told[4:], told[:4], None)


@pytest.fixture
def handles() -> Iterator[list[Any]]:
    made: list[Any] = []
    yield made
    for handle in made:
        handle.remove()


def test_global_hooks(handles: list[Any]) -> None:
    def register(m: Any, seen: Seen) -> None:
        while handles:
            handles.pop().remove()
        names = {id(part): name for name, part in m.named_modules()}
        told = lambda kind: lambda module, *grads: noted(seen, kind, names.get(id(module), ""), *grads)
        handles.append(global_hooks.register_module_full_backward_hook(told("hook")))
        handles.append(global_hooks.register_module_full_backward_pre_hook(told("pre")))

    check(register, True)


class Fails(nn.Module):
    def forward(self, x: Any) -> Any:
        y = x * 2
        if x.shape[0] == 3:
            raise ValueError("on purpose")
        return y


class Handles(nn.Module):
    """Its part has hooks, and what that raises is handled."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.inner = Fails()
        self.inner.register_forward_hook(lambda module, args, result: seen.append(("always", result is None)), always_call=True)
        self.inner.register_forward_hook(lambda module, args, result: seen.append(("usual", result is None)))

    def forward(self, x: Any) -> Any:
        try:
            return self.inner(x)
        except ValueError:
            return x - 1


def test_hooks_that_are_always_called() -> None:
    """torch leaves them out where it is told that it is compiled."""
    told = []
    for compile in (lambda m: m, lambda m: framejit.compile(m, backend="eager")):
        seen = Seen()
        m = compile(Handles(seen))
        told.append([[m(torch.ones(n)) for n in (2, 3, 2, 3)], seen])
    close(told[1], told[0], None)


RECURRENT: dict[str, Callable[[], nn.Module]] = {
    "LSTM": lambda: nn.LSTM(3, 4),
    "LSTM-batch_first": lambda: nn.LSTM(3, 4, batch_first=True),
    "LSTM-two-layers-both-ways": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True, bias=False),
    "LSTM-dropout": lambda: nn.LSTM(3, 4, num_layers=2, dropout=0.5),
    "LSTM-projected": lambda: nn.LSTM(3, 4, proj_size=2),
    "LSTM-double": lambda: nn.LSTM(3, 4).double(),
    "GRU": lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True),
    "GRU-dropout": lambda: nn.GRU(3, 4, num_layers=2, dropout=0.5),
    "RNN": lambda: nn.RNN(3, 4),
    "RNN-relu-dropout": lambda: nn.RNN(3, 4, num_layers=2, nonlinearity="relu", dropout=0.5),
}


class Tagger(nn.Module):
    """A recurrent network between other layers; `packed`: over sequences of several lengths."""

    def __init__(self, inner: nn.Module, packed: bool) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 3).to(next(inner.parameters()).dtype)
        self.inner = inner
        self.packed = packed

    def forward(self, x: Any) -> Any:
        x = torch.tanh(self.embed(x))
        if self.packed:
            x = nn.utils.rnn.pack_padded_sequence(x, [3, 2], enforce_sorted=False)
        out, state = self.inner(x)
        if self.packed:
            out = nn.utils.rnn.pad_packed_sequence(out)[0]
        return out * 2, state


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_networks(name: str, packed: bool) -> None:
    torch.manual_seed(0)
    theirs = Tagger(RECURRENT[name](), packed and "batch_first" not in name)
    mine = copy.deepcopy(theirs)
    compiled = framejit.compile(mine, backend="eager")
    for training in (True, True, False):
        told = []
        for m, f in ((theirs, theirs), (mine, compiled)):
            m.train(training)
            m.zero_grad()
            torch.manual_seed(1)
            x = torch.randn(3, 2, 3, dtype=m.embed.weight.dtype, requires_grad=True)
            out, state = f(x)
            (out.sum() + (state[0] if isinstance(state, tuple) else state).sum()).backward()
            with torch.no_grad():
                told.append([out.detach(), x.grad, [p.grad for p in m.parameters()], torch.rand(1), f(x)[0]])
        close(told[1], told[0], None)
