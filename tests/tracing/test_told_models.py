"""Models of transformers that raise where they are told that they are compiled: called without a mask, they are one graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framejit
from tools.libraries import transformers

SIZES: dict[str, Any] = {
    "vocab_size": 64, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 4, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("name", "more"),
    [("SwitchTransformers", {"num_experts": 2}), ("LongT5", {}), ("LongT5", {"encoder_attention_type": "transient-global"})],
)
def test_without_a_mask_a_model_is_one_graph(name: str, more: dict[str, Any], backend: str) -> None:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **more)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    tokens = torch.randint(3, 64, (2, 16))
    given = {"input_ids": tokens, "decoder_input_ids": tokens[:, :6], "use_cache": False}
    framejit.reset()
    compiled = framejit.compile(model, backend=backend)
    with torch.no_grad():
        expected = model(**given).logits
        for _ in range(2):
            assert torch.equal(compiled(**given).logits, expected)
    found = framejit.statistics()
    assert (found["graphs"], found["graph_breaks"], found["fallbacks"], found["reasons"]) == (1, 0, 0, [])
