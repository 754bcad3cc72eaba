"""Programs with x-transformers: decoders, encoders and their wrappers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from x_transformers import (
    AutoregressiveWrapper,
    Decoder,
    TransformerWrapper,
    XTransformer,
)

from tools.bench.library_programs.program import Compile, model, program

LENGTHS = (16, 24, 20, 28)


def tokens(turn: int) -> tuple[torch.Tensor]:
    return (torch.randint(0, 64, (2, LENGTHS[turn])),)


def next_token(network: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(network(ids).transpose(1, 2), ids)


def own_loss(network: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    """The loss that a wrapper computes itself."""
    return network(*inputs)


def language_model(**options: Any) -> TransformerWrapper:
    return TransformerWrapper(num_tokens=64, max_seq_len=64, attn_layers=Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, **options))


@model(tokens, next_token)
def decoder() -> nn.Module:
    """A decoder with absolute positions"""
    return language_model()


@model(tokens, next_token)
def layer_dropout() -> nn.Module:
    """A decoder with a relative bias of positions that drops layers at random"""
    return language_model(rel_pos_bias=True, attn_qk_norm=True, layer_dropout=0.1, attn_dropout=0.1, ff_dropout=0.1)


@model(lambda turn: (*tokens(turn), *tokens(turn)), own_loss)
def encoder_decoder() -> nn.Module:
    """XTransformer, an encoder and a decoder with shared embeddings"""
    sizes = {f"{part}_{name}": value for part in ("enc", "dec") for name, value in (("num_tokens", 64), ("depth", 1), ("heads", 2), ("max_seq_len", 64))}
    return XTransformer(dim=32, tie_token_emb=True, **sizes)


@model(tokens, own_loss)
def masked_autoregression() -> nn.Module:
    """AutoregressiveWrapper, which masks a part of the tokens"""
    return AutoregressiveWrapper(language_model(), mask_prob=0.15)


@program
def generation(compiled: Compile) -> Iterator[Any]:
    """Generation of six tokens, with the network compiled and the loop left alone."""
    wrapper = AutoregressiveWrapper(language_model(rotary_pos_emb=True)).eval()
    wrapper.net = compiled(wrapper.net)
    for length in (4, 5, 6):
        yield wrapper.generate(torch.randint(0, 64, (2, length)), 6)
