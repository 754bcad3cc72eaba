"""Libraries as their users meet them: einops, jaxtyping with beartype, pydantic, torchao, diffusers, torchmetrics."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import nn

from tools.bench.feature_cases.feature import feature


@feature("einops: rearrange, reduce, repeat, einsum", lambda: (torch.randn(2, 3, 4, 6, requires_grad=True),), ("einops",))
def einops_functions(x: torch.Tensor) -> Any:
    import einops

    y = einops.rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3)
    z = einops.reduce(y, "b n d -> b d", "mean")
    return einops.repeat(z, "b d -> b k d", k=2), einops.einsum(y, z, "b n d, b d -> b n")


def einops_model() -> tuple[Any, ...]:
    from einops.layers.torch import Rearrange, Reduce

    return nn.Sequential(Rearrange("b c h w -> b (h w) c"), nn.Linear(3, 5), Reduce("b n d -> b d", "max")), torch.randn(2, 3, 4, 6)


@feature("einops: layers", einops_model, ("einops",))
def einops_layers(model: nn.Module, x: torch.Tensor) -> Any:
    return model(x)


@feature("einops: pack and unpack", lambda: (torch.randn(2, 3, 4), torch.randn(2, 4)), ("einops",))
def einops_packing(x: torch.Tensor, y: torch.Tensor) -> Any:
    import einops

    packed, shapes = einops.pack([x, y], "b * d")
    return [part + 1 for part in einops.unpack(packed * 2, shapes, "b * d")]


@feature("jaxtyping with beartype", lambda: (torch.randn(2, 3), torch.randn(3, 4)), ("jaxtyping", "beartype"))
def typed(x: torch.Tensor, y: torch.Tensor) -> Any:
    return TYPED(x, y)


def make_typed() -> Any:
    try:
        from beartype import beartype
        from jaxtyping import Float, jaxtyped
    except ImportError:
        return None

    def product(x: Any, y: Any) -> Any:
        return x @ y

    product.__annotations__ = {"x": Float[torch.Tensor, "b d"], "y": Float[torch.Tensor, "d e"], "return": Float[torch.Tensor, "b e"]}
    return jaxtyped(typechecker=beartype)(product)


TYPED = make_typed()


def make_settings() -> Any:
    try:
        import pydantic
    except ImportError:
        return None
    return pydantic.create_model("Settings", scale=(float, 2.0), width=(int, 3), names=(list[str], ["a"]))


Settings = make_settings()


@feature("pydantic: a model's fields", lambda: (torch.randn(2, 3), Settings(scale=3)), ("pydantic",))
def pydantic_fields(x: torch.Tensor, settings: Any) -> Any:
    return x * settings.scale + settings.width, len(settings.names)


@feature("pydantic: a model made in the region", packages=("pydantic",))
def pydantic_made(x: torch.Tensor) -> Any:
    settings = Settings(scale=4.0, width=2)
    return x * settings.scale + settings.width


def quantized() -> tuple[Any, ...]:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
    quantize_(model, Int8WeightOnlyConfig())
    return model, torch.randn(4, 32)


@feature("torchao: int8 weights", quantized, ("torchao",))
def int8_weights(model: nn.Module, x: torch.Tensor) -> Any:
    return model(x)


def unet() -> tuple[Any, ...]:
    import diffusers

    model = diffusers.UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).eval()  # fmt: skip
    scheduler = diffusers.DDIMScheduler(num_train_timesteps=20)
    scheduler.set_timesteps(3)
    return model, scheduler, torch.randn(1, 3, 8, 8)


@feature("diffusers: a UNet", lambda: (unet()[0], torch.randn(1, 3, 8, 8), torch.tensor([3])), ("diffusers",))
def diffusion_model(model: nn.Module, x: torch.Tensor, step: torch.Tensor) -> Any:
    return model(x, step).sample


@feature("diffusers: the loop of a pipeline", unet, ("diffusers",))
def diffusion_loop(model: nn.Module, scheduler: Any, x: torch.Tensor) -> Any:
    with torch.no_grad():
        for step in scheduler.timesteps:
            noise = model(x, step).sample
            x = scheduler.step(noise, step, x).prev_sample
    return x


def metric() -> tuple[Any, ...]:
    import torchmetrics

    return torchmetrics.classification.MulticlassAccuracy(num_classes=4), torch.randn(8, 4), torch.randint(0, 4, (8,))


@feature("torchmetrics: forward and compute", metric, ("torchmetrics",))
def metrics(measure: Any, logits: torch.Tensor, target: torch.Tensor) -> Any:
    return measure(logits, target), measure.compute()


@feature("torchmetrics: functional", lambda: (torch.randn(8, 4), torch.randint(0, 4, (8,))), ("torchmetrics",))
def functional_metrics(logits: torch.Tensor, target: torch.Tensor) -> Any:
    from torchmetrics.functional import mean_squared_error
    from torchmetrics.functional.classification import multiclass_f1_score

    return multiclass_f1_score(logits, target, num_classes=4), mean_squared_error(logits, logits * 2)


@dataclasses.dataclass
class Output:
    """The result of a library's model."""

    logits: torch.Tensor
    parts: tuple[torch.Tensor, ...] = ()
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)


@feature("dataclasses: made, replaced, as dicts")
def data_classes(x: torch.Tensor) -> Any:
    made = dataclasses.replace(Output(x * 2, (x,)), extra={"n": 1})
    return made.logits + 1, dataclasses.asdict(Output(torch.ones(2)))["logits"], len(dataclasses.fields(made))
