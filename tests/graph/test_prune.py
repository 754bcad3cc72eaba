"""Graphs keep operators that draw random numbers even if nobody needs their results, so that later numbers are the same as in eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from named import Programs
from torch import nn
from torch.utils.checkpoint import checkpoint

import framejit

LIBRARY = torch.library.Library("framejit_test_prune", "FRAGMENT")
LIBRARY.define("noise(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
LIBRARY.impl("noise", lambda x: x + torch.rand(()), "CompositeExplicitAutograd")
torch.library.register_fake("framejit_test_prune::noise", torch.empty_like, lib=LIBRARY)
SEQUENCE = torch.ones(3, 1, 2)
LSTM, GRU, RNN = nn.LSTM(2, 2, 2, dropout=0.5), nn.GRU(2, 2, 2, dropout=0.5), nn.RNN(2, 2, 2, dropout=0.5)
ATTENTION = nn.MultiheadAttention(4, 2, dropout=0.5)
DRAWS = Programs()
"""By name: takes a vector, and computes from random numbers what nobody needs."""
draw = DRAWS.add


@torch.compiler.nested_compile_region
def dropping_region(x):
    return F.dropout(x, 0.5)


@draw
def lstm(x):
    return LSTM(SEQUENCE)


@draw
def gru(x):
    return GRU(SEQUENCE)


@draw
def rnn(x):
    return RNN(SEQUENCE)


@draw
def lstm_of_packed_sequence(x):
    return LSTM(nn.utils.rnn.pack_padded_sequence(SEQUENCE, torch.tensor([3])))


@draw
def attention(x):
    return ATTENTION(torch.ones(2, 1, 4), torch.ones(2, 1, 4), torch.ones(2, 1, 4))


@draw
def scaled_dot_product_attention(x):
    return F.scaled_dot_product_attention(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4), dropout_p=0.5)


@draw
def dropout(x):
    return F.dropout(x, 0.5)


@draw
def dropout_with_its_mask(x):
    return torch.native_dropout(x, 0.5, True)


@draw
def alpha_dropout(x):
    return F.alpha_dropout(x, 0.5, True)


@draw
def feature_dropout(x):
    return F.feature_alpha_dropout(x.expand(2, 2, 2), 0.5, True)


@draw
def rand_like(x):
    return torch.rand_like(x)


@draw
def multinomial(x):
    return torch.multinomial(x.abs() + 1, 1)


@draw
def uniform(x):
    return torch.empty(3).uniform_()


@draw
def rrelu(x):
    return F.rrelu(-x.abs() - 1, training=True)


@draw
def fractional_max_pool(x):
    return F.fractional_max_pool2d(torch.ones(1, 1, 8, 8), 2, output_ratio=(0.5, 0.5))


@draw
def operator_of_the_programs(x):
    return torch.ops.framejit_test_prune.noise(x)


@draw
def region(x):
    return dropping_region(x)


@draw
def checkpointed(x):
    return checkpoint(lambda t: F.dropout(t, 0.5), x, use_reentrant=False)


@draw
def branch(x):
    return torch.cond(x.sum() > -100, lambda t: F.dropout(t, 0.5), lambda t: t + 0, (x,))


@draw
def mapped(x):
    return torch.func.vmap(lambda t: t + torch.rand_like(t), randomness="different")(x)


@draw
def differentiated(x):
    return torch.func.grad(lambda t: F.dropout(t, 0.5).sum())(x)


ONLY_FALLBACK = ("lstm", "rnn", "dropout", "multinomial", "mapped", "branch")
BACKENDS = [("eager", DRAWS), ("aot_eager", DRAWS), ("inductor", ONLY_FALLBACK)]
ROWS = [pytest.param(backend, name, marks=pytest.mark.slow if backend == "inductor" else ()) for backend, names in BACKENDS for name in names]


@pytest.mark.only_eager("the backends are named")
@pytest.mark.parametrize(("backend", "name"), ROWS)
@pytest.mark.parametrize("trains", [False, True])
def test_dead_draws_move_the_generator_as_in_eager(backend, name, trains):
    def program(x):
        DRAWS[name](x)
        return x + 1

    def drawn_next(call):
        torch.manual_seed(0)
        call(torch.ones(2, requires_grad=trains))
        return torch.rand(())

    options = {"fallback_random": True} if backend == "inductor" else None
    compiled = framejit.compile(program, backend=backend, fullgraph=True, options=options)
    assert drawn_next(compiled) == drawn_next(program)


@pytest.mark.parametrize("trains", [False, True])
def test_checkpoint_that_drops_and_requires_no_gradient(trains):
    """AOTAutograd refuses a checkpoint that draws in a graph without a backward pass."""

    def program(x, y):
        return checkpoint(lambda t: F.dropout(t, 0.5), x, use_reentrant=False) * y

    def found(call):
        torch.manual_seed(0)
        return call(torch.ones(8), torch.ones(8, requires_grad=trains))

    assert torch.equal(found(framejit.compile(program, backend="aot_eager", fullgraph=True)), found(program))
