"""Inputs for models of transformers, made from the names of what `forward` takes and the sizes in the configuration."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tools.bench.corpus_configs import parts

BATCH = 2
LENGTH = 24
ANSWER = 12
"""Tokens of a decoder's input."""
LARGE_IMAGE = 288
"""Height and width of the largest image that is tried, in pixels."""
SAMPLES = 8000
"""Samples of a waveform."""
FRAMES = 96
"""Frames of a spectrogram, where the configuration doesn't say how many there are."""
GRID = (1, 4, 4)
"""The patches of an image in time, height and width, for models that take images of any size as rows of patches."""
FIRST_WORD = 8
"""Tokens below this number have a meaning of their own more often than others."""

Inputs = dict[str, Any]


MOST_PICTURE_TOKENS = 3000
"""Tokens for the parts of one picture."""


class NoInput(Exception):
    """There is no rule for what `forward` takes under this name."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of inputs, as a configuration gives them; `get` looks a size up in it, and then in the configurations nested in it."""

    config: Any

    def get(self, *names: str, default: Any = None) -> Any:
        """The first value under one of the names that isn't None."""
        for part in parts(self.config):
            for name in names:
                value = getattr(part, name, None)
                if value is not None and not callable(value):
                    return value
        return default

    def number(self, *names: str, default: int = 0) -> int:
        """The same as an int: of a list the last."""
        value = self.get(*names, default=default)
        if isinstance(value, (list, tuple)):
            value = value[-1] if value else default
        return int(value)

    def text(self) -> Any:
        """The configuration of the part that reads tokens."""
        try:
            return self.config.get_text_config(decoder=True)
        except ValueError:
            return self.config

    def vocabulary(self) -> int:
        """Numbers of tokens lie below it."""
        size = getattr(self.text(), "vocab_size", None) or self.number("vocab_size", "decoder_vocab_size", default=64)
        return int(size[-1] if isinstance(size, (list, tuple)) else size)

    def special(self) -> set[int]:
        """The numbers of tokens that mean something other than a word."""
        found = set(range(min(FIRST_WORD, self.vocabulary() // 2)))
        for part in parts(self.config):
            for name, value in vars(part).items():
                if name.endswith(("_token_id", "_token_index")):
                    found |= {value} if isinstance(value, int) else set(value if isinstance(value, (list, tuple)) else ())
        return found

    def image(self) -> tuple[int, int]:
        """Height and width of an image, in pixels."""
        size = self.get("image_size", "img_size", "input_image_size", "resolution", default=64)
        if isinstance(size, dict):
            size = (size.get("height", 64), size.get("width", 64))
        return (int(size[-2]), int(size[-1])) if isinstance(size, (list, tuple)) and len(size) > 1 else (int(size if isinstance(size, int) else 64),) * 2

    def channels(self) -> int:
        """Channels of an image."""
        value = self.get("num_channels", "in_channels", "in_chans", "num_image_channels", default=3)
        return value if isinstance(value, int) and value <= 4 else 3

    def patch_row(self) -> int:
        """Numbers in a row that holds one patch of an image."""
        patch = self.number("patch_size", default=14)
        return self.channels() * self.number("temporal_patch_size", default=1) * patch * patch


def words(sizes: Sizes, *shape: int) -> torch.Tensor:
    """Random numbers of tokens that are words."""
    allowed = torch.tensor([number for number in range(sizes.vocabulary()) if number not in sizes.special()] or [0])
    return allowed[torch.randint(0, len(allowed), shape)]


def _text(sizes: Sizes, model: nn.Module) -> torch.Tensor:
    shape = (BATCH, 2, LENGTH) if "MultipleChoice" in type(model).__name__ else (BATCH, LENGTH)
    return words(sizes, *shape)


def _mask(sizes: Sizes, model: nn.Module) -> torch.Tensor:
    """Ones, except at the end of the last row."""
    mask = torch.ones_like(_text(sizes, model))
    mask[-1, ..., LENGTH - LENGTH // 4 :] = 0
    return mask


def _boxes(sizes: Sizes, model: nn.Module) -> torch.Tensor:
    corners = torch.randint(0, 100, (BATCH, LENGTH, 2))
    return torch.cat([corners, corners + torch.randint(1, 100, (BATCH, LENGTH, 2))], dim=-1)


def _images(sizes: Sizes, model: nn.Module) -> Iterator[torch.Tensor]:
    height, width = sizes.image()
    names = inspect.signature(model.forward).parameters
    if "image_grid_thw" in names or "image_grid_hws" in names or "grid_thw" in names:
        yield torch.randn(BATCH * GRID[0] * GRID[1] * GRID[2], sizes.patch_row())
    frames = sizes.number("num_frames", "frames_per_clip", default=0)
    if frames:
        yield torch.randn(BATCH, frames, sizes.channels(), height, width)
    yield torch.randn(BATCH, sizes.channels(), height, width)
    yield torch.randn(BATCH, 1, sizes.channels(), height, width)
    yield torch.randn(BATCH, 2, sizes.channels(), height, width)
    # Detectors choose the best of many places.
    yield torch.randn(BATCH, sizes.channels(), LARGE_IMAGE, LARGE_IMAGE)


def _sound(sizes: Sizes, model: nn.Module) -> Iterator[torch.Tensor]:
    bands = sizes.number("num_mel_bins", "n_mels", "input_feat_size", "feature_size")
    if bands and sizes.get("max_length", "frequency_stride") is not None and sizes.get("time_stride") is not None:
        yield torch.randn(BATCH, sizes.number("max_length", default=FRAMES), bands)
    yield torch.randn(BATCH, SAMPLES)
    yield torch.randn(BATCH, 1, SAMPLES)
    if bands:
        yield torch.randn(BATCH, FRAMES, bands)


def _spectrogram(sizes: Sizes, model: nn.Module) -> Iterator[torch.Tensor]:
    bands = sizes.number("num_mel_bins", "feature_projection_input_dim", "input_feat_size", "feature_size", "n_mels", "input_dim", default=80)
    frames = 2 * sizes.number("max_source_positions", "n_ctx", default=FRAMES // 2)
    if frames <= 4000:
        yield torch.randn(BATCH, bands, frames)
    yield torch.randn(BATCH, FRAMES, bands)
    yield torch.randn(BATCH, FRAMES, sizes.number("feature_projection_input_dim", "input_feat_size", "input_size", default=bands))
    yield torch.randn(BATCH, bands, FRAMES)
    spec = sizes.number("spec_size")
    if spec:
        yield torch.randn(BATCH, 1, 4 * spec, bands)


def _past(sizes: Sizes) -> int:
    """Steps of a time series before the ones to predict."""
    lags = sizes.get("lags_sequence", default=[0]) or [0]
    return sizes.number("context_length", "prediction_length", default=32) + max(lags)


def _past_values(sizes: Sizes, model: nn.Module) -> Iterator[torch.Tensor]:
    channels = sizes.number("num_input_channels", "input_size", default=1)
    if channels > 1 or "Patch" in type(model).__name__:
        yield torch.randn(BATCH, _past(sizes), channels)
    yield torch.randn(BATCH, _past(sizes))


Rule = Callable[[Sizes, nn.Module], Any]
RULES: dict[str, Rule] = {
    "input_ids": _text,
    "attention_mask": _mask,
    "bbox": _boxes,
    "pixel_values": _images,
    "pixel_values_videos": lambda sizes, model: torch.randn(BATCH, sizes.number("num_frames", "frames_per_clip", default=8), sizes.channels(), *sizes.image()),
    "hidden_states": lambda sizes, model: torch.randn(GRID[0] * GRID[1] * GRID[2], sizes.patch_row()),
    "grid_thw": lambda sizes, model: torch.tensor([GRID]),
    "image_grid_thw": lambda sizes, model: torch.tensor([GRID] * BATCH),
    "image_grid_hws": lambda sizes, model: torch.tensor([GRID[1:]] * BATCH),
    "input_values": _sound,
    "input_features": _spectrogram,
    "input_features_mask": lambda sizes, model: torch.ones(BATCH, FRAMES, dtype=torch.long),
    "decoder_input_ids": lambda sizes, model: words(sizes, BATCH, ANSWER),
    "decoder_inputs": lambda sizes, model: words(sizes, BATCH, ANSWER),
    "past_values": _past_values,
    "past_time_features": lambda sizes, model: torch.randn(BATCH, _past(sizes), sizes.number("num_time_features", default=1) or 1),
    "past_observed_mask": lambda sizes, model: torch.ones(BATCH, _past(sizes)),
    "past_values_padding": lambda sizes, model: torch.zeros(BATCH, _past(sizes), dtype=torch.long),
    "freq": lambda sizes, model: torch.zeros(BATCH, 1, dtype=torch.long),
    "future_values": lambda sizes, model: torch.randn(BATCH, sizes.number("prediction_length", default=8)),
    "future_time_features": lambda sizes, model: torch.randn(
        BATCH, sizes.number("prediction_length", default=8), sizes.number("num_time_features", default=1) or 1
    ),
    "spectrogram": lambda sizes, model: torch.randn(BATCH, FRAMES, sizes.number("model_in_dim", "num_mel_bins", default=80)),
    "flattened_patches": lambda sizes, model: torch.cat(
        [
            torch.randint(1, 4, (BATCH, 16, 2)).float(),
            torch.randn(BATCH, 16, sizes.number("patch_embed_hidden_size", default=768)),
        ],
        dim=-1,
    ),
    "qformer_input_ids": lambda sizes, model: torch.randint(FIRST_WORD, 64, (BATCH, LENGTH)),
    "audio_values": lambda sizes, model: torch.randn(BATCH, sizes.number("num_audio_channels", default=1), SAMPLES),
    "inputs_embeds": lambda sizes, model: torch.randn(BATCH, LENGTH, sizes.number("hidden_size", "d_model", default=64)),
    "visual_feats": lambda sizes, model: torch.randn(BATCH, 8, sizes.number("visual_feat_dim", default=64)),
    "visual_pos": lambda sizes, model: torch.rand(BATCH, 8, sizes.number("visual_pos_dim", default=4)),
    "visual_embeds": lambda sizes, model: torch.randn(BATCH, 8, sizes.number("visual_embedding_dim", default=64)),
}
BESIDE_IMAGES = ("image_grid_thw", "image_grid_hws")
"""The names of arguments that belong to an image in rows of patches."""
LANGUAGE = re.compile(r"For(CausalLM|MaskedLM|ConditionalGeneration|SpeechToText|TextToText|BlockDiffusion)$|LMHead(Model)?$|MTModel$")


def _labels(sizes: Sizes, model: nn.Module, given: Inputs) -> Inputs:
    """The labels with which a class computes a loss; nothing if the loss takes more than labels by the names of classes."""
    name = type(model).__name__
    takes = inspect.signature(model.forward).parameters
    if "start_positions" in takes:
        return {"start_positions": torch.randint(0, LENGTH, (BATCH,)), "end_positions": torch.randint(0, LENGTH, (BATCH,))}
    if "return_loss" in takes and "input_ids" in given and "pixel_values" in given:
        return {"return_loss": True}
    if "labels" not in takes:
        return {}
    classes = max(1, sizes.number("num_labels", default=2))
    if name.endswith("ForCTC"):
        return {"labels": torch.randint(1, max(2, min(sizes.vocabulary(), 30)), (BATCH, 5))}
    if name.endswith("TokenClassification"):
        return {"labels": torch.randint(0, classes, (BATCH, LENGTH))}
    if name.endswith("MultipleChoice"):
        return {"labels": torch.randint(0, 2, (BATCH,))}
    if name.endswith(("SequenceClassification", "ImageClassification", "AudioClassification", "VideoClassification")):
        return {"labels": torch.randint(0, classes, (BATCH,))}
    if LANGUAGE.search(name):
        return {"labels": words(sizes, BATCH, ANSWER) if model.config.is_encoder_decoder or "input_ids" not in given else given["input_ids"].clone()}
    return {}


def attempts(model: nn.Module) -> Iterator[Inputs]:
    """Inputs that a model of transformers may run with, those that use most of it first. Random numbers are torch's: seed it before.

    Raises:
        NoInput: `forward` insists on something that no rule makes.
    """
    sizes = Sizes(model.config)
    takes = {
        name: parameter
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }
    needed = [name for name, parameter in takes.items() if parameter.default is inspect.Parameter.empty]
    main = getattr(model, "main_input_name", "input_ids")
    mains = [name for name in ([main] if isinstance(main, str) else list(main)) if name in takes]
    for extra in _beside(takes, mains, needed):
        names = list(dict.fromkeys([*needed, *mains, *extra]))
        unknown = [name for name in names if name not in RULES]
        if unknown:
            raise NoInput(f"there is no rule for {', '.join(unknown)}")
        yield from _filled(model, sizes, names)


def _beside(takes: dict[str, Any], mains: list[str], needed: list[str]) -> Iterator[list[str]]:
    """Yield the names of what may be given beside what is needed, such as pictures with text, masks, or the decoder's tokens."""
    text = "input_ids" in [*mains, *needed]
    mask = ["attention_mask"] if text and "attention_mask" in takes else []
    decoder = ["decoder_input_ids"] if "decoder_input_ids" in takes else []
    boxes = ["bbox"] if "bbox" in takes else []
    pictures = [name for name in ("pixel_values", "visual_feats", "visual_pos", "input_features") if name in takes and name not in mains]
    grids = [name for name in BESIDE_IMAGES if name in takes]
    tokens = ["input_ids"] if "input_ids" in takes and not text else []
    if tokens:
        yield [*tokens, *(["attention_mask"] if "attention_mask" in takes else []), *boxes, *grids]
        yield [*tokens, *boxes]
    if text and pictures:
        yield [*pictures, *grids, *mask, *boxes]
        yield [*pictures, *grids, *boxes]
    yield [*mask, *boxes]
    if decoder:
        yield [*mask, *decoder]
    if mask:
        yield [*boxes]
    yield [name for name in ("future_values", "future_time_features") if name in takes]
    if not text and not mains and "inputs_embeds" in takes:
        yield ["inputs_embeds"]


def _filled(model: nn.Module, sizes: Sizes, names: list[str]) -> Iterator[Inputs]:
    """Values under the names, for each shape that the first one with several of them may have; with labels, and without."""
    alternatives: list[Inputs] = [{}]
    for name in names:
        value = RULES[name](sizes, model)
        if isinstance(value, torch.Tensor):
            alternatives = [{**given, name: value} for given in alternatives]
        else:
            shapes = list(value)
            alternatives = [{**given, name: shape} for given in alternatives for shape in shapes]
    for given in alternatives:
        labels = _labels(sizes, model, given)
        if labels:
            yield {**given, **labels}
        if model.config.is_encoder_decoder and "decoder_input_ids" in inspect.signature(model.forward).parameters and "decoder_input_ids" not in given:
            yield {**given, "decoder_input_ids": words(sizes, BATCH, ANSWER)}
        yield given


COUNTS = re.compile(r"tokens: (\d+),? (?:and )?features:? (\d+)|image tokens.*?(\d+).*?features.*?(\d+)", re.IGNORECASE | re.DOTALL)


def with_picture_tokens(model: nn.Module, given: Inputs, error: str) -> Inputs | None:
    """The inputs with as many of the tokens that stand for parts of a picture as an error message of transformers asks for; None if it asks for none."""
    match = COUNTS.search(error)
    sizes = Sizes(model.config)
    token = sizes.get("image_token_id", "image_token_index", "audio_token_id", "audio_token_index")
    if "input_features" in given:
        token = sizes.get("audio_token_id", "audio_token_index", default=token)
    if match is None or token is None or "input_ids" not in given:
        return None
    features = int(match.group(2) or match.group(4)) // BATCH
    width = Sizes(sizes.text()).number("hidden_size", "d_model", "n_embd", default=1)
    # Some messages count the numbers in the features instead of the features.
    wanted = features if features <= MOST_PICTURE_TOKENS else features // width
    if not 0 < wanted <= MOST_PICTURE_TOKENS or (given["input_ids"] == token).any():
        return None
    text = given["input_ids"]
    longer = torch.cat([text[:, :4], torch.full((BATCH, wanted), int(token)), text[:, 4:]], dim=1)
    changed: Inputs = {**given, "input_ids": longer}
    if "attention_mask" in given:
        mask = given["attention_mask"]
        changed["attention_mask"] = torch.cat([torch.ones(BATCH, wanted, dtype=mask.dtype), mask], dim=1)
    if "labels" in given and given["labels"].shape == text.shape:
        changed["labels"] = torch.where(longer == token, -100, longer)
    return changed
