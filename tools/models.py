"""The registry of models that the demo, the zoo and the benchmarks run: real architectures, small sizes, random weights.

Nothing is downloaded: every model is built from a configuration. Attention implementation, caching and dropout are
the library's defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from tools.libraries import timm, transformers

VOCABULARY = 512
BATCH = 2
LENGTH = 32

# The names under which the configurations of transformers know the sizes of a small text model.
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
WIDE: dict[str, Any] = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 4}
TOKENS: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@dataclass
class Example:
    """A model and one call of it, or several calls with inputs of other sizes.

    batches: the keyword arguments of each of several calls, instead of args and kwargs. graphs: how often a compiler compiles the model.
    """

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    batches: tuple[dict[str, Any], ...] = ()
    graphs: int = 1

    def to(self, device: str) -> Example:
        """This example with the model and all tensors of the call on `device`."""

        def move(value: Any) -> Any:
            return value.to(device) if isinstance(value, torch.Tensor) else value

        return Example(
            self.model.to(device),
            tuple(move(value) for value in self.args),
            {name: move(value) for name, value in self.kwargs.items()},
            tuple({name: move(value) for name, value in batch.items()} for batch in self.batches),
            self.graphs,
        )


@dataclass(frozen=True)
class Architecture:
    """One row of the demo or of the zoo.

    `tolerance` bounds the error of outputs relative to the size of the tensor compared (see `tools.measure.largest_error`);
    gradients may differ by ten times as much.
    """

    name: str
    family: str
    builder: Callable[[], Example]
    tolerance: float = 1e-4

    def build(self, device: str = "cpu") -> Example:
        """A fresh model with the same random weights, and the same random inputs, on every call."""
        torch.manual_seed(0)
        return self.builder().to(device)


def scalar_loss(output: Any) -> torch.Tensor:
    """The model's own loss if it computed one, or the mean of several, and otherwise the mean square of every floating-point tensor in `output`."""
    loss = getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss.mean() if loss.dim() else loss
    terms = [tensor.float().square().mean() for tensor in differentiable(output)]
    if not terms:
        raise ValueError(f"no tensor to differentiate in an output of type {type(output).__name__}")
    return torch.stack(terms).sum()


def differentiable(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested tuples, lists and mappings through which a gradient flows."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad and value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from differentiable(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from differentiable(item)


# -- builders -------------------------------------------------------------------------------------------------------


def _tokens(length: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, length))


def padding(batch: int = BATCH, length: int = LENGTH) -> torch.Tensor:
    """A mask of ones, except at the end of the last row."""
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[-1, length - length // 4 :] = 0
    return mask


def _from_config(prefix: str, head: str, sizes: Mapping[str, Any]) -> nn.Module:
    config = getattr(transformers, f"{prefix}Config")(**sizes)
    return getattr(transformers, f"{prefix}{head}")(config)


def encoder(prefix: str, head: str = "ForMaskedLM", **sizes: Any) -> Callable[[], Example]:
    """A bidirectional text model, called with padding and labels."""

    def build() -> Example:
        model = _from_config(prefix, head, {**SMALL, "pad_token_id": 0, **sizes})
        tokens = _tokens()
        return Example(model, kwargs={"input_ids": tokens, "attention_mask": padding(), "labels": tokens})

    return build


def ragged() -> Example:
    """BERT over batches of texts of similar length, filled up to about 256 tokens: each has a different length and number of rows, and the last
    one has what is left. It is compiled for the first batch, and once more for all the others.
    """
    model = _from_config("Bert", "ForMaskedLM", {**SMALL, "pad_token_id": 0})
    batches = []
    for rows, length in ((8, 32), (5, 48), (12, 21), (4, 64), (7, 37), (3, 28)):
        tokens = torch.randint(3, VOCABULARY, (rows, length))
        batches.append({"input_ids": tokens, "attention_mask": padding(rows, length), "labels": tokens})
    return Example(model, batches=tuple(batches), graphs=2)


def decoder(prefix: str, head: str = "ForCausalLM", **sizes: Any) -> Callable[[], Example]:
    """A causal text model, called with labels."""

    def build() -> Example:
        model = _from_config(prefix, head, {**SMALL, **TOKENS, **sizes})
        if model.loss_type is None:
            # transformers can't tell the loss from some heads' class names, and would log a warning from inside forward.
            model.loss_type = "ForCausalLM"
        tokens = _tokens()
        return Example(model, kwargs={"input_ids": tokens, "labels": tokens})

    return build


def encoder_decoder(prefix: str, head: str = "ForConditionalGeneration", **sizes: Any) -> Callable[[], Example]:
    """A text-to-text model, called with padding and labels."""

    def build() -> Example:
        model = _from_config(prefix, head, {"vocab_size": VOCABULARY, **TOKENS, "decoder_start_token_id": 1, **sizes})
        return Example(model, kwargs={"input_ids": _tokens(), "attention_mask": padding(), "labels": _tokens(24)})

    return build


def vision(prefix: str, head: str = "ForImageClassification", image: int = 32, **sizes: Any) -> Callable[[], Example]:
    """An image model of transformers, called with pixels only."""

    def build() -> Example:
        model = _from_config(prefix, head, sizes)
        return Example(model, kwargs={"pixel_values": torch.randn(BATCH, 3, image, image)})

    return build


def speech(prefix: str, head: str = "ForCTC", **sizes: Any) -> Callable[[], Example]:
    """A speech model that reads the waveform, called with labels."""

    def build() -> Example:
        common = {
            "vocab_size": 32,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "conv_dim": (32, 32, 32),
            "conv_stride": (5, 4, 2),
            "conv_kernel": (10, 3, 2),
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
            "pad_token_id": 0,
        }
        model = _from_config(prefix, head, {**common, **sizes})
        return Example(model, kwargs={"input_values": torch.randn(BATCH, 3200), "labels": torch.randint(1, 32, (BATCH, 8))})

    return build


def image_model(name: str, image: int = 64, layout: torch.memory_format = torch.contiguous_format, **options: Any) -> Callable[[], Example]:
    """An image model of timm, with weights and pixels in the memory format `layout`."""

    def build() -> Example:
        model = timm.create_model(name, pretrained=False, num_classes=16, **options).to(memory_format=layout)
        return Example(model, (torch.randn(BATCH, 3, image, image).to(memory_format=layout),))

    return build


def _whisper() -> Example:
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        num_mel_bins=16,
        max_source_positions=50,
        max_target_positions=64,
        decoder_start_token_id=1,
        **TOKENS,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    return Example(model, kwargs={"input_features": torch.randn(BATCH, 16, 100), "labels": _tokens(24)})


def _clip() -> Example:
    text = {**SMALL, **TOKENS, "projection_dim": 32}
    image = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 32,
        "patch_size": 8,
    }
    config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=32)
    kwargs = {
        "input_ids": torch.cat([_tokens(15), torch.full((BATCH, 1), 2)], dim=1),
        "pixel_values": torch.randn(BATCH, 3, 32, 32),
        "return_loss": True,
    }
    return Example(transformers.CLIPModel(config), kwargs=kwargs)


class Perceptron(nn.Module):
    """A multilayer perceptron in plain Python: a loop over layers, a branch on each, and the loss in the same function."""

    def __init__(self, sizes: tuple[int, ...] = (64, 256, 256, 256, 10)) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in zip(sizes, sizes[1:], strict=False))
        self.last = len(self.layers) - 1

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of shape (batch, classes), and their cross entropy with `labels` of shape (batch,)."""
        hidden = inputs
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden)
            if index != self.last:
                hidden = torch.nn.functional.gelu(hidden) * 1.5
        return {"logits": hidden, "loss": nn.functional.cross_entropy(hidden, labels)}


def _perceptron() -> Example:
    return Example(Perceptron(), (torch.randn(256, 64), torch.randint(10, (256,))))


# -- the registry ---------------------------------------------------------------------------------------------------

_GROUPED: dict[str, Any] = {"num_key_value_heads": 2}
_VIT: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
_LED: dict[str, Any] = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "attention_window": 8,
    "max_encoder_position_embeddings": 64,
    "max_decoder_position_embeddings": 64,
}
_BART: dict[str, Any] = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 64,
}
_T5: dict[str, Any] = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}

DEMO: tuple[Architecture, ...] = (
    Architecture("bert", "encoder", encoder("Bert", **WIDE), 1e-3),
    Architecture("gpt2", "decoder", decoder("GPT2", "LMHeadModel", **WIDE), 1e-3),
    Architecture("llama", "decoder", decoder("Llama", **WIDE, **_GROUPED), 1e-3),
    Architecture("qwen3", "decoder", decoder("Qwen3", **WIDE, **_GROUPED, head_dim=64), 1e-3),
    Architecture("t5", "encoder-decoder", encoder_decoder("T5", d_model=256, d_kv=64, d_ff=1024, num_layers=2, num_heads=4), 1e-3),
    Architecture("vit", "vision", vision("ViT", image=64, **{**_VIT, **WIDE, "image_size": 64}), 1e-3),
    Architecture("resnet18", "convolutional", image_model("resnet18", layout=torch.channels_last), 1e-3),
    Architecture("convnext", "convolutional", image_model("convnext_atto", layout=torch.channels_last), 1e-3),
    Architecture("mlp", "plain Python", _perceptron, 1e-3),
    Architecture("ragged", "encoder", ragged, 1e-3),
)

ZOO: tuple[Architecture, ...] = (
    # encoders
    Architecture("roberta", "encoder", encoder("Roberta", pad_token_id=1)),
    Architecture("electra", "encoder", encoder("Electra", embedding_size=32)),
    Architecture("deberta-v2", "encoder", encoder("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16)),
    Architecture("distilbert", "encoder", encoder("DistilBert", dim=64, hidden_dim=128, n_layers=2, n_heads=4)),
    Architecture("albert", "encoder", encoder("Albert", embedding_size=32)),
    Architecture("mpnet", "encoder", encoder("MPNet", pad_token_id=1)),
    Architecture("squeezebert", "encoder", encoder("SqueezeBert", embedding_size=64)),
    Architecture("modernbert", "encoder", encoder("ModernBert", global_attn_every_n_layers=2, local_attention=16, **TOKENS)),
    Architecture("fnet", "encoder", encoder("FNet", type_vocab_size=2)),
    Architecture("big-bird", "encoder", encoder("BigBird", attention_type="block_sparse", block_size=4, num_random_blocks=1)),
    Architecture("longformer", "encoder", encoder("Longformer", attention_window=8, pad_token_id=1)),
    # decoders
    Architecture("opt", "decoder", decoder("OPT", ffn_dim=128, word_embed_proj_dim=64)),
    Architecture(
        "gpt-neo", "decoder", decoder("GPTNeo", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=16)
    ),
    Architecture("gpt-neox", "decoder", decoder("GPTNeoX")),
    Architecture("gptj", "decoder", decoder("GPTJ", n_embd=64, n_layer=2, n_head=4, n_positions=64, rotary_dim=8)),
    Architecture("mistral", "decoder", decoder("Mistral", sliding_window=16, **_GROUPED)),
    Architecture("gemma", "decoder", decoder("Gemma", head_dim=16, **_GROUPED)),
    Architecture("gemma2", "decoder", decoder("Gemma2", head_dim=16, sliding_window=16, **_GROUPED)),
    Architecture("phi", "decoder", decoder("Phi")),
    Architecture("phi3", "decoder", decoder("Phi3", **_GROUPED)),
    Architecture("falcon", "decoder", decoder("Falcon")),
    Architecture("bloom", "decoder", decoder("Bloom", n_layer=2, n_head=4)),
    Architecture("qwen2", "decoder", decoder("Qwen2", **_GROUPED)),
    Architecture("stablelm", "decoder", decoder("StableLm", **_GROUPED)),
    Architecture("olmo2", "decoder", decoder("Olmo2", **_GROUPED)),
    Architecture("cohere", "decoder", decoder("Cohere", **_GROUPED)),
    # encoder-decoders
    Architecture("bart", "encoder-decoder", encoder_decoder("Bart", **_BART)),
    Architecture("pegasus", "encoder-decoder", encoder_decoder("Pegasus", **_BART)),
    Architecture("marian", "encoder-decoder", encoder_decoder("Marian", "MTModel", **_BART)),
    Architecture("mt5", "encoder-decoder", encoder_decoder("MT5", **_T5)),
    Architecture("m2m-100", "encoder-decoder", encoder_decoder("M2M100", **_BART)),
    Architecture("led", "encoder-decoder", encoder_decoder("LED", **_LED)),
    # mixture of experts
    Architecture("mixtral", "mixture of experts", decoder("Mixtral", num_local_experts=4, num_experts_per_tok=2, **_GROUPED)),
    Architecture(
        "qwen2-moe",
        "mixture of experts",
        decoder("Qwen2Moe", moe_intermediate_size=64, shared_expert_intermediate_size=64, num_experts=4, num_experts_per_tok=2, **_GROUPED),
    ),
    Architecture("switch", "mixture of experts", encoder_decoder("SwitchTransformers", num_experts=4, num_sparse_encoder_layers=1, **_T5)),
    # state space and recurrent
    Architecture("mamba", "state space", decoder("Mamba", state_size=8)),
    Architecture("mamba2", "state space", decoder("Mamba2", state_size=8, num_heads=8, head_dim=16, n_groups=1, chunk_size=16)),
    Architecture("rwkv", "state space", decoder("Rwkv", attention_hidden_size=64, context_length=64)),
    # vision
    Architecture(
        "swin",
        "vision",
        vision("Swin", image=64, image_size=64, patch_size=4, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4),
    ),
    Architecture("deit", "vision", vision("DeiT", **_VIT)),
    Architecture("beit", "vision", vision("Beit", **_VIT)),
    Architecture("dinov2", "vision", vision("Dinov2", **_VIT)),
    Architecture(
        "segformer", "vision", vision("Segformer", image=64, hidden_sizes=[16, 32, 40, 64], depths=[1, 1, 1, 1], decoder_hidden_size=64)
    ),
    Architecture("clip", "vision and text", _clip),
    Architecture("clip-vision", "vision", vision("CLIPVision", "Model", **_VIT)),
    Architecture("siglip-vision", "vision", vision("SiglipVision", "Model", **_VIT)),
    # speech
    Architecture("wav2vec2", "speech", speech("Wav2Vec2")),
    Architecture("hubert", "speech", speech("Hubert")),
    Architecture("whisper", "speech", _whisper),
    # timm: convolution
    Architecture("timm-efficientnet", "convolutional", image_model("efficientnet_b0")),
    Architecture("timm-mobilenetv3", "convolutional", image_model("mobilenetv3_small_050")),
    Architecture("timm-regnet", "convolutional", image_model("regnetx_002")),
    Architecture("timm-densenet", "convolutional", image_model("densenet121", growth_rate=8, block_config=(2, 2, 2, 2))),
    Architecture("timm-repvgg", "convolutional", image_model("repvgg_a0")),
    # timm: attention
    Architecture("timm-deit", "attention", image_model("deit_tiny_patch16_224", img_size=64, depth=2)),
    Architecture("timm-cait", "attention", image_model("cait_xxs24_224", img_size=64, depth=2)),
    Architecture(
        "timm-swin",
        "attention",
        image_model("swin_tiny_patch4_window7_224", img_size=64, window_size=4, embed_dim=24, depths=(2, 2), num_heads=(2, 4)),
    ),
    # timm: MLP
    Architecture("timm-mixer", "MLP", image_model("mixer_s32_224", img_size=64)),
    Architecture("timm-resmlp", "MLP", image_model("resmlp_12_224", img_size=64)),
    Architecture("timm-gmlp", "MLP", image_model("gmlp_ti16_224", img_size=64)),
)


def select(architectures: tuple[Architecture, ...], only: str | None) -> list[Architecture]:
    """The architectures named in the comma-separated list `only`, or all; raises ValueError at an unknown name."""
    if not only:
        return list(architectures)
    known = {architecture.name: architecture for architecture in architectures}
    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown model {', '.join(unknown)}; known: {', '.join(known)}")
    return [known[name] for name in names]
