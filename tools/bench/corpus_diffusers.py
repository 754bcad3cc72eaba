"""Small models of diffusers with inputs: the arguments of `__init__` are made smaller by their names, and inputs made from the names of `forward`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from tools.bench import corpus_configs

BATCH = 1
SIZE = 16
"""Height and width of a latent image, in pixels."""
TOKENS = 8
TEXT_WIDTHS = ("cross_attention_dim", "joint_attention_dim", "caption_channels", "text_dim", "text_embed_dim")
"""Names of the arguments that say how wide the embeddings of a text are."""

Values = dict[str, Any]


def attempts(cls: type[nn.Module], check_size: Callable[[Callable[[], nn.Module]], None]) -> Iterator[tuple[nn.Module | Exception, Values]]:
    """Models in several scales with inputs of several shapes; an exception in place of a model says why it isn't there.

    Args:
        cls: the class.
        check_size: raises an exception for models of too many parameters.
    """
    for scale in corpus_configs.SCALES:
        parameters = inspect.signature(cls.__init__).parameters
        arguments = {name: parameter.default for name, parameter in parameters.items() if parameter.default is not inspect.Parameter.empty}
        changed = corpus_configs.smaller_values(arguments, scale)
        try:
            check_size(lambda changed=changed: cls(**changed))
            torch.manual_seed(0)
            model = cls(**changed)
        except Exception as error:
            yield error, {}
            continue
        sizes = {**arguments, **changed}
        for shape in _shapes(sizes):
            given = _inputs(model, sizes, shape)
            yield (model, given) if isinstance(given, dict) else (given, {})


def _shapes(sizes: Values) -> Iterator[tuple[int, ...]]:
    """Shapes of the sample: images, videos, rows of tokens."""
    channels = next((value for name in ("in_channels", "latent_channels", "num_channels") if isinstance(value := sizes.get(name), int)), 4)
    size = sizes.get("sample_size")
    side = size if isinstance(size, int) and size <= 64 else 32
    yield BATCH, channels, side, side
    yield BATCH, channels, 4, SIZE, SIZE
    yield BATCH, SIZE, channels
    yield BATCH, 5, channels, SIZE, SIZE
    yield BATCH, channels, 64


def _inputs(model: nn.Module, sizes: Values, shape: tuple[int, ...]) -> Values | Exception:
    """Values for what `forward` insists on, and for what says which text a picture is of."""
    takes = inspect.signature(model.forward).parameters
    text = next((sizes[name] for name in TEXT_WIDTHS if sizes.get(name)), 32)
    text = text[0] if isinstance(text, (list, tuple)) else text
    pooled = sizes.get("pooled_projection_dim") or 32
    rules: dict[str, Callable[[], Any]] = {
        "sample": lambda: torch.randn(shape),
        "hidden_states": lambda: torch.randn(shape),
        "x": lambda: torch.randn(shape),
        "timestep": lambda: torch.tensor([7] * BATCH),
        "timesteps": lambda: torch.tensor([7] * BATCH),
        "encoder_hidden_states": lambda: torch.randn(BATCH, TOKENS, text),
        "encoder_attention_mask": lambda: torch.ones(BATCH, TOKENS),
        "pooled_projections": lambda: torch.randn(BATCH, pooled),
        "pooled_projection": lambda: torch.randn(BATCH, pooled),
        "img_ids": lambda: torch.zeros(shape[1], 3),
        "txt_ids": lambda: torch.zeros(TOKENS, 3),
        "guidance": lambda: torch.tensor([3.5] * BATCH),
        "class_labels": lambda: torch.tensor([1] * BATCH),
        "num_frames": lambda: shape[2] if len(shape) == 5 else 1,
        "image_rotary_emb": lambda: None,
        "added_time_ids": lambda: torch.zeros(BATCH, 3),
        "controlnet_cond": lambda: torch.randn(BATCH, 3, 8 * shape[-1], 8 * shape[-1]),
        "conditioning_scale": lambda: 1.0,
    }
    given: Values = {}
    for name, parameter in takes.items():
        if parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            continue
        wanted = parameter.default is inspect.Parameter.empty or name in ("encoder_hidden_states", "timestep", "pooled_projections", "img_ids", "txt_ids")
        if wanted and name not in rules:
            return ValueError(f"there is no rule for {name}")
        if wanted:
            given[name] = rules[name]()
    return given
