"""The programs that the benchmarks run: small functions, deep transformers, a deep convolutional network, a function of containers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from tools.libraries import transformers
from tools.models import SMALL, VOCABULARY, WIDE, Example, decoder, encoder, encoder_decoder, image_model, padding

LAYERS = 36
DEEPER = 82
ENTRIES = 50
PROMPT, TOKENS = 6, 40
SIZES = ((2, 17), (4, 33), (3, 64), (8, 24))

Built = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A callable, its positional arguments and its keyword arguments."""
Builder = Callable[[str], Built]
"""Builds for a device."""


@dataclass(frozen=True)
class Case:
    """A callable to compile, and one call of it.

    overhead: the ratio framejit / torch.compile that the overhead of a call is to reach, if that is measured.
    variants: further last arguments; a measured call is one call with each of them in turn, so that what was compiled for one of them
    was last used longest ago.
    """

    name: str
    about: str
    builder: Builder
    overhead: float | None
    variants: tuple[Any, ...] = ()

    def build(self, device: str = "cpu") -> Built:
        """The callable, its positional arguments and its keyword arguments, the same on every call."""
        torch.manual_seed(0)
        return self.builder(device)

    @property
    def entries(self) -> int:
        """The number of times that a compiler compiles the callable."""
        return len(self.variants) or 1

    def calls(self, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
        """Return the function that is measured: it makes one call, or one call with each of the variants."""
        if not self.variants:
            return partial(compiled, *args, **kwargs)
        return partial(_in_turn, [partial(compiled, *args, variant, **kwargs) for variant in self.variants])


@dataclass(frozen=True)
class Sizes(Case):
    """A model that one compilation serves for inputs of all sizes. The builder's arguments are tuples of arguments, one for each of
    several sizes; a measured call is one call with each of them in turn."""

    def calls(self, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
        return partial(_in_turn, [partial(compiled, *sized, **kwargs) for sized in args])


def _in_turn(calls: list[Callable[[], Any]]) -> list[Any]:
    return [call() for call in calls]


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The smallest graph there is."""
    return x + y


def total(items: list[torch.Tensor], table: dict[str, torch.Tensor]) -> torch.Tensor:
    """The sum over a list and a dict of tensors of one shape."""
    result = torch.zeros_like(items[0])
    for item in items:
        result = result + item
    for value in table.values():
        result = result + value
    return result


def activate(x: torch.Tensor, how: str) -> torch.Tensor:
    """A function that is compiled once for each value of `how`."""
    if how == "relu":
        return torch.relu(x)
    if how == "tanh":
        return torch.tanh(x)
    if how == "sigmoid":
        return torch.sigmoid(x)
    return x * 2 if how == "double" else -x


def ask(tensors: list[torch.Tensor]) -> torch.Tensor:
    """A function that compares each size of each tensor with a number."""
    asked = 0
    for tensor in tensors:
        for size in tensor.shape:
            if size > 4:
                asked += 1
    return tensors[0] + asked


class DecoderLayer(nn.Module):
    """Attention and a feed-forward part, with numbers of its own among its attributes, as many models have them."""

    def __init__(self, width: int, heads: int, index: int) -> None:
        super().__init__()
        self.index = index
        self.heads = heads
        self.head_width = width // heads
        self.scaling = self.head_width**-0.5
        self.epsilon = 1e-6 * (1 + index)
        self.residual = 1 / (2 * index + 2) ** 0.5
        self.limit = 30.0 + index
        self.weight = nn.Parameter(torch.ones(width))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        """Root mean square normalisation."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From and to (batch, length, width)."""
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, self.head_width).permute(2, 0, 3, 1, 4)
        scores = torch.tanh(q @ k.transpose(-1, -2) * self.scaling / self.limit) * self.limit
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed) * self.residual
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x)))) * self.residual


class DecoderStack(nn.Module):
    """A loop over decoder layers."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(width, heads, index) for index in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From and to (batch, length, width)."""
        for layer in self.layers:
            x = layer(x)
        return x


class AttentionBlock(nn.Module):
    """A transformer's block of width 64 with four heads."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.after = nn.LayerNorm(64), nn.LayerNorm(64)
        self.q, self.k, self.v, self.out = (nn.Linear(64, 64) for _ in range(4))
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From and to (batch, length, 64)."""
        y = self.norm(x)
        heads = [part(y).unflatten(-1, (4, 16)).transpose(1, 2) for part in (self.q, self.k, self.v)]
        x = x + self.out(nn.functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


class RegionBlock(AttentionBlock):
    """A block whose calls are regions, compiled once for all blocks."""

    forward = torch.compiler.nested_compile_region(AttentionBlock.forward)


class ConvolutionBlock(nn.Module):
    """Convolution, batch normalisation, ReLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.normalisation = nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From and to (batch, width, height, width of the image)."""
        return torch.relu(self.normalisation(self.convolution(x)))


def _add(device: str) -> Built:
    return add, (torch.randn(8, device=device), torch.randn(8, device=device)), {}


def _total(device: str) -> Built:
    items = [torch.randn(4, device=device) for _ in range(ENTRIES)]
    table = {f"entry{index}": torch.randn(4, device=device) for index in range(ENTRIES)}
    return total, (items, table), {}


def _blocks(device: str) -> Built:
    model = nn.Sequential(*(ConvolutionBlock(8) for _ in range(LAYERS))).to(device).eval()
    return model, (torch.randn(1, 8, 16, 16, device=device),), {}


def _activate(device: str) -> Built:
    return activate, (torch.randn(8, device=device),), {}


def _asks(count: int, device: str) -> Built:
    """No two sizes are equal: equal ones would be one symbol."""
    if count == 1:
        return ask, ([torch.randn(5, device=device)],), {}
    return ask, ([torch.randn(5 + i, 5 + i + count, device=device) for i in range(count // 2)],), {}


def _stacked(block: type[nn.Module], device: str) -> Built:
    model = nn.Sequential(*(block() for _ in range(LAYERS))).to(device)
    return model, (torch.randn(2, 16, 64, device=device),), {}


def _layers(device: str) -> Built:
    return DecoderStack(32, 2, DEEPER).to(device).eval(), (torch.randn(1, 4, 32, device=device),), {}


def _text(build: Callable[[], Example]) -> Builder:
    def builder(device: str) -> Built:
        example = build().to(device)
        return example.model.eval(), example.args, example.kwargs

    return builder


def _generating(name: str, cache: str | None, **sizes: Any) -> Builder:
    def builder(device: str) -> Built:
        settings = {**SMALL, "num_hidden_layers": 8, "num_key_value_heads": 2, "pad_token_id": 0, "eos_token_id": None, **sizes}
        model = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**settings)).to(device).eval()
        ids = torch.randint(3, model.config.vocab_size, (2, PROMPT), device=device)
        return model, (ids,), {"do_sample": False, "max_new_tokens": TOKENS, "cache_implementation": cache}

    return builder


def _sized(build: Callable[[], Example], inputs: Callable[[int, int], tuple[torch.Tensor, ...]]) -> Builder:
    """A model, and its arguments for each of the sizes."""

    def builder(device: str) -> Built:
        model = build().model.to(device).eval()
        return model, tuple(tuple(value.to(device) for value in inputs(batch, length)) for batch, length in SIZES), {}

    return builder


def _tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (batch, length))


def _text_of(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    return _tokens(batch, length), padding(batch, length)


def _texts_of(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    return _tokens(batch, length), padding(batch, length), _tokens(batch, length // 2)


def _image_of(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 3, length + 32, 2 * length).contiguous(memory_format=torch.channels_last),)


_DEEP: dict[str, Any] = {**SMALL, "num_hidden_layers": LAYERS}

OVERHEAD = 0.05
"""The ratio framejit / torch.compile that the overhead of a call is to reach."""

CASES: tuple[Case, ...] = (
    Case("add", "`x + y` on two tensors of 8 elements", _add, OVERHEAD),
    Case("containers", f"the sum of {ENTRIES} tensors in a list and {ENTRIES} in a dict", _total, OVERHEAD),
    Case(
        "entries5",
        "a function compiled for five values of a string; a call is one with each of them, and what it needs was used longest ago",
        _activate,
        OVERHEAD,
        ("relu", "tanh", "sigmoid", "double", "negative"),
    ),
    Case("conv36", f"{LAYERS} blocks of convolution, batch normalisation and ReLU, 8 channels", _blocks, OVERHEAD),
    Case("bert36", f"BERT with {LAYERS} layers of width 64, with padding and labels", _text(encoder("Bert", **_DEEP)), OVERHEAD),
    Case(
        "qwen36",
        f"Qwen3 with {LAYERS} layers of width 64, with labels and cache",
        _text(decoder("Qwen3", num_key_value_heads=2, head_dim=16, **_DEEP)),
        OVERHEAD,
    ),
    Case("decoder82", f"{DEEPER} decoder layers of width 32 with four floats among the attributes of each", _layers, OVERHEAD),
)

GUARD_CASES = tuple(
    Case(f"guards{count}", f"a function with {count} comparison{'s' * (count > 1)} of sizes, each a guard", partial(_asks, count), None)
    for count in (1, 20, 100)
)
"""Cases of the measure of shape guards only."""
GENERATION_CASES = tuple(
    Case(name, f"`generate()` of {TOKENS} tokens by a decoder of 8 layers, {about}", build, None)
    for name, about, build in (
        ("growing", "whose cache grows", _generating("Llama", None)),
        ("static", "whose cache is as long as the text from the start", _generating("Llama", "static")),
        ("sliding", "whose cache holds the last 16 tokens", _generating("Mistral", None, sliding_window=16)),
    )
)
"""Cases of the measure of `generate()` only."""
REGION_CASES = (
    Case("blocks36", f"{LAYERS} blocks of attention and a feed-forward part, of width 64", partial(_stacked, AttentionBlock), None),
    Case("regions36", "the same, each block a `nested_compile_region`", partial(_stacked, RegionBlock), None),
)
"""Cases of the measure of regions only."""
_SEVERAL = f"{len(SIZES)} sizes of batch and length"

SIZE_CASES = (
    Sizes("bert", f"BERT with 2 layers of width 256, with padding, {_SEVERAL}", _sized(encoder("Bert", **WIDE), _text_of), None),
    Sizes(
        "llama",
        f"Llama with 2 layers of width 256, with padding, {_SEVERAL}",
        _sized(decoder("Llama", **WIDE, num_key_value_heads=2, use_cache=False), _text_of),
        None,
    ),
    Sizes(
        "t5",
        f"T5 with 2 and 2 layers of width 256, with padding, {_SEVERAL}",
        _sized(encoder_decoder("T5", d_model=256, d_kv=64, d_ff=1024, num_layers=2, num_heads=4, use_cache=False), _texts_of),
        None,
    ),
    Sizes("resnet", f"ResNet-18, {len(SIZES)} sizes of batch, height and width", _sized(image_model("resnet18", layout=torch.channels_last), _image_of), None),
)
"""Cases of the measure of Inductor with symbolic sizes only."""
EVERY = (*CASES, *GUARD_CASES, *GENERATION_CASES, *REGION_CASES, *SIZE_CASES)


def select(only: str | None) -> list[Case]:
    """The cases named in the comma-separated list `only`, or all; raises ValueError at an unknown name."""
    if not only:
        return list(EVERY)
    known = {case.name: case for case in EVERY}
    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown case {', '.join(unknown)}; known: {', '.join(known)}")
    return [known[name] for name in names]
