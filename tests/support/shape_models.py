"""Models of transformers from small configurations, with random weights, whose inputs come in many sizes; see shape_programs.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tools.libraries import transformers

WORDS = 32
TEXT: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
TOKENS: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False}


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, WORDS, (batch, length))


def padding(batch: int, length: int) -> torch.Tensor:
    """Return a mask of ones, with padding at the end of the last row."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, length - length // 4 :] = 0
    return mask


def bert() -> nn.Module:
    return transformers.BertModel(transformers.BertConfig(**TEXT, pad_token_id=0)).eval()


def distilbert() -> nn.Module:
    config = transformers.DistilBertConfig(vocab_size=WORDS, dim=16, hidden_dim=32, n_layers=1, n_heads=2, max_position_embeddings=64)
    return transformers.DistilBertModel(config).eval()


def gpt2() -> nn.Module:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**TEXT, **TOKENS)).eval()


def llama() -> nn.Module:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**TEXT, **TOKENS, num_key_value_heads=1)).eval()


def t5() -> nn.Module:
    sizes = {"vocab_size": WORDS, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 1}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **TOKENS)).eval()


def bart() -> nn.Module:
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    config = transformers.BartConfig(vocab_size=WORDS, d_model=16, max_position_embeddings=64, decoder_start_token_id=1, **sizes, **TOKENS)
    return transformers.BartForConditionalGeneration(config).eval()


def resnet() -> nn.Module:
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=4)
    return transformers.ResNetForImageClassification(config).eval()


def wav2vec2() -> nn.Module:
    convolutions = {"conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 4), "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
    return transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(**TEXT, **convolutions)).eval()


def whisper() -> nn.Module:
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    places = {"num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 64, "decoder_start_token_id": 1}
    return transformers.WhisperModel(transformers.WhisperConfig(vocab_size=WORDS, d_model=16, **sizes, **places, **TOKENS)).eval()


LIBRARY_MODELS: tuple[tuple[str, Callable[[], nn.Module], Callable[[int, int], tuple[Any, ...]]], ...] = (
    ("bert", bert, lambda b, s: (tokens(b, s), padding(b, s))),
    ("distilbert", distilbert, lambda b, s: (tokens(b, s),)),
    ("gpt2", gpt2, lambda b, s: (tokens(b, s),)),
    ("llama", llama, lambda b, s: (tokens(b, s), padding(b, s))),
    ("t5", t5, lambda b, s: (tokens(b, s), padding(b, s), tokens(b, s // 2))),
    ("bart", bart, lambda b, s: (tokens(b, s), padding(b, s), tokens(b, s // 2))),
    ("resnet", resnet, lambda b, s: (torch.randn(b, 3, 2 * s, s + 21),)),
    ("wav2vec2", wav2vec2, lambda b, s: (torch.randn(b, 40 * s),)),
    ("whisper", whisper, lambda b, s: (torch.randn(b, 8, 40), None, tokens(b, s))),
)
"""Names, models, and inputs of a batch and a length."""
