"""Inputs for models of diffusers, made from the names of what `forward` takes; errors about widths say how wide an input has to be."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

BATCH = 1
SIZE = 16
"""Height and width of a latent image or video, in pixels."""
FRAMES = 9
"""Frames of a long video: one, and a multiple of what is put together in time."""
SAMPLES = 8192
"""Samples of sound."""
TOKENS = 8
"""Tokens of a text."""
SIDE = 4
"""Height and width of an image whose patches are tokens: SIZE of them."""
WIDTH = 32
"""The width of what no argument says how wide it is."""
TEXT_WIDTHS = ("cross_attention_dim", "joint_attention_dim", "caption_channels", "text_dim", "text_embed_dim", "cap_feat_dim", "in_text_dim", "context_in_dim")
"""Names of the arguments that say how wide the embeddings of a text are."""
OPTIONAL = ("encoder_hidden_states", "timestep", "pooled_projections", "img_ids", "txt_ids")
"""The arguments that are given even if `forward` doesn't require them."""
MOST_CORRECTIONS = 6

Values = dict[str, Any]
Shape = tuple[int, ...]


def attempts(model: nn.Module, sizes: Mapping[str, Any]) -> Iterator[Values | Exception]:
    """Inputs of several shapes: first what `forward` needs, then everything that there is a rule for. An exception says what there is no rule for.

    Args:
        model: the model.
        sizes: the arguments that it was made with.
    """
    for everything in (False, True):
        for shape in _shapes(sizes):
            yield _inputs(model, sizes, shape, everything)


def corrected(given: Values, error: str) -> Values | None:
    """The inputs with one changed so that an error about its width, its channels or its type doesn't come again; None if the error isn't about these."""
    if match := re.search(r"shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x\d+\)", error):
        rows, width, wanted = map(int, match.groups())
        same = [name for name, value in given.items() if isinstance(value, torch.Tensor) and value.is_floating_point() and value.shape[-1:] == (width,)]
        same.sort(key=lambda name: given[name].numel() != rows * width)
        return {**given, same[0]: torch.randn(*given[same[0]].shape[:-1], wanted)} if same else None
    if match := re.search(r"Given normalized_shape=\[(\d+)\], expected input with shape \[\*, \d+\], but got input of size\[([\d, ]+)\]", error):
        wanted, shape = int(match.group(1)), tuple(map(int, match.group(2).split(", ")))
        return next(({**given, name: torch.randn(*shape[:-1], wanted)} for name, value in given.items() if getattr(value, "shape", None) == shape), None)
    if match := re.search(r"expected input\[([\d, ]+)\] to have (\d+) channels, but got (\d+) channels", error):
        shape, wanted, channels = tuple(map(int, match.group(1).split(", "))), int(match.group(2)), int(match.group(3))
        return _with_channels(given, shape, channels, wanted)
    if re.search(r"same dtype, but got Long|Long.* and .*Float|Float.* and .*Long", error):
        times = {name: value for name, value in given.items() if re.search("time|sigma", name) and isinstance(value, torch.Tensor)}
        changed = {name: value.float() for name, value in times.items() if not value.is_floating_point()}
        return {**given, **changed} if changed else None
    if re.search(r"must be.*bool|[Bb]ool.*(dtype|tensor)|logical_and|bitwise", error):
        changed = {name: value.bool() for name, value in given.items() if "mask" in name and isinstance(value, torch.Tensor) and value.dtype is not torch.bool}
        return {**given, **changed} if changed else None
    return None


def _with_channels(given: Values, shape: Shape, channels: int, wanted: int) -> Values | None:
    """The inputs with another number of channels in the one that a convolution was given, or that has these channels."""
    tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor) and value.dim() > 2}
    for name, value in sorted(tensors.items(), key=lambda item: (item[1].shape != shape, item[1].numel() != torch.Size(shape).numel())):
        for place in (1, 2):
            if value.shape[place] == channels:
                return {**given, name: torch.randn(*value.shape[:place], wanted, *value.shape[place + 1 :])}
    return None


def _shapes(sizes: Mapping[str, Any]) -> Iterator[Shape]:
    """Shapes of the sample: images, videos, rows of tokens, sound."""
    names = ("in_channels", "in_visual_dim", "latent_channels", "num_channels", "audio_channels", "input_channels", "in_dim")
    channels = next((value for name in names if isinstance(value := sizes.get(name), int)), 4)
    size = sizes.get("sample_size")
    side = size if isinstance(size, int) and size <= 64 else 32
    yield BATCH, channels, side, side
    yield BATCH, channels, 4, SIZE, SIZE
    yield BATCH, SIZE, channels
    yield BATCH, 5, channels, SIZE, SIZE
    yield BATCH, channels, 64
    yield BATCH, channels, FRAMES, 2 * SIZE, 2 * SIZE
    yield BATCH, channels, SAMPLES


def _axes(sizes: Mapping[str, Any]) -> int:
    """The numbers that say where a token is."""
    return next((len(value) for name, value in sizes.items() if re.search("axes", name) and isinstance(value, (list, tuple))), 3)


def _rules(sizes: Mapping[str, Any], shape: Shape) -> dict[str, Callable[[], Any]]:
    """By the name of an argument of `forward`, the function that makes its value. Names that stand for several arguments are patterns."""
    text = next((sizes[name] for name in TEXT_WIDTHS if sizes.get(name)), WIDTH)
    text = text[0] if isinstance(text, (list, tuple)) else text
    pooled = sizes.get("pooled_projection_dim") or WIDTH
    tokens = len(shape) == 3
    rows, columns = (SIDE, SIDE) if tokens else shape[-2:]
    return {
        r"sample|hidden_states|x|z|mel|(\w+_)?latents|(audio|control)_hidden_states": lambda: torch.randn(shape),
        r"(\w+_)?(timesteps?|sigma|t)|timestep_r|timestep_ratio": lambda: torch.tensor([7] * BATCH),
        r"encoder_hidden_states(_\w+)?|audio_encoder_hidden_states|cap_feats|text_bth|source_hidden_states|image_embed\w*|clip_\w+": lambda: (
            torch.randn(BATCH, TOKENS, text)
        ),
        r"encoder_(\w+_)?mask(_2)?|text_embedding_mask(_t5)?|(\w+_)?encoder_attention_mask": lambda: torch.ones(BATCH, TOKENS),
        r"text_lens": lambda: torch.tensor([TOKENS] * BATCH),
        r"pooled_\w+|proj_embedding": lambda: torch.randn(BATCH, pooled),
        r"global_hidden_states": lambda: torch.randn(BATCH, 1, WIDTH),
        r"img_ids": lambda: torch.zeros(shape[1], _axes(sizes)),
        r"txt_ids": lambda: torch.zeros(TOKENS, _axes(sizes)),
        r"(target_)?input_ids": lambda: torch.randint(8, 64, (BATCH, TOKENS)),
        r"guidance": lambda: torch.tensor([3.5] * BATCH),
        r"class_labels|style": lambda: torch.tensor([1] * BATCH),
        r"num_frames": lambda: shape[2] if len(shape) == 5 else 1,
        r"height": lambda: rows,
        r"width": lambda: columns,
        r"fps": lambda: torch.tensor([8] * BATCH),
        r"scale": lambda: 2,
        r"(original|target)_size": lambda: torch.full((BATCH, 2), 128.0),
        r"crop_coords": lambda: torch.zeros(BATCH, 2),
        r"image_meta_size": lambda: torch.full((BATCH, 6), 128.0),
        r"img_shapes": lambda: [(1, rows, columns)] * BATCH,
        r"added_time_ids": lambda: torch.zeros(BATCH, 3),
        r"added_cond_kwargs": lambda: {
            "resolution": torch.full((BATCH, 2), 128.0),
            "aspect_ratio": torch.ones(BATCH, 1),
            "time_ids": torch.zeros(BATCH, 6),
            "text_embeds": torch.randn(BATCH, WIDTH),
        },
        r"control(net)?_cond": lambda: torch.randn(shape) if tokens or "conditioning_embedding_out_channels" not in sizes else _picture(shape),
        r"conditioning_scale": lambda: 1.0,
        r"inputs_embeds": lambda: torch.randn(BATCH, TOKENS, WIDTH),
        r"position_ids": lambda: torch.zeros(TOKENS + SIZE, _axes(sizes)),
    }


def _picture(shape: Shape) -> torch.Tensor:
    """An image in pixels for latent values of this shape."""
    return torch.randn(BATCH, 3, 8 * shape[-2], 8 * shape[-1])


def _inputs(model: nn.Module, sizes: Mapping[str, Any], shape: Shape, everything: bool) -> Values | Exception:
    """Values for what `forward` insists on, and for what says which text a picture is of. `everything`: for all that there are rules for."""
    rules = _rules(sizes, shape)
    given: Values = {}
    for name, parameter in inspect.signature(model.forward).parameters.items():
        if parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            continue
        needed = parameter.default is inspect.Parameter.empty
        rule = next((rule for pattern, rule in rules.items() if re.fullmatch(pattern, name)), None)
        if rule is not None and (needed or name in OPTIONAL or (everything and parameter.default is None)):
            value = rule()
            listed = isinstance(value, (torch.Tensor, float)) and re.match(r"(Optional\[)?list", str(parameter.annotation), re.IGNORECASE)
            given[name] = value if not listed else [value] if isinstance(value, float) or name.startswith("control") else list(value)
        elif needed and "rotary" in name:
            given[name] = None
        elif needed:
            return ValueError(f"there is no rule for {name}")
    return given
