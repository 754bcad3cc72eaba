"""Small configurations of large models, by a rule about the names of sizes: few layers, few experts, narrow layers, a small vocabulary."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

VOCABULARY = 512
EXPERTS = 4
LARGEST_IMAGE = 128

LAYERS = re.compile(
    r"^(num_(hidden_|encoder_|decoder_|transformer_)?(layers|blocks|hidden_layers)|n_layers?|(\w+_)?(encoder|decoder)_layers|(enc|dec)_layers|depth|layers"
    r"|num_layers_per_block|\w*_num_hidden_layers|num_single_layers|num_refiner_layers)$"
)
LAYERS_OF_STAGES = re.compile(
    r"^(depths|layer_depths|num_blocks_per_stage|blocks_per_stage|num_block_repeats|layers_per_block|stage_numb_of_layers|num_conv_blocks)$"
)
WIDTHS = re.compile(
    r"^(d_model|d_ff|d_kv|d_inner|n_embd|n_inner|hidden|dim|(\w+_)?(hidden_size|hidden_sizes|intermediate_size|embedding_size|embed_dims?|ffn_dim|head_dim|dim|dims"
    r"|hidden_dim|projection_dim|proj_dim|mlp_dim|output_size|hidden_channels|feedforward_dim|lora_rank|d_model|dim_feedforward|units|state_size|rank))$"
)
NOT_WIDTHS = re.compile(r"tubelet|patch|window|image|kernel|vocab|conv|tdnn|codebook|input|num_|max_|fft|mel|spec|crop|in_dim|adapter|time_step")
EXPERT_COUNTS = re.compile(r"^(num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts)$")
VOCABULARIES = re.compile(r"^(\w+_)?vocab_size(_\w+)?$")
TOKENS = re.compile(r"(_token_id|_token_index|_tok_id|_token_ids)$")
IMAGES = re.compile(r"^(image_size|img_size|input_image_size|sample_size)$")


@dataclass(frozen=True)
class Scale:
    """The scale of a smaller configuration: the number of layers that remain, None for all, and the number by which widths are divided."""

    layers: int | None
    divisor: int


SCALES = (Scale(2, 8), Scale(2, 4), Scale(4, 4), Scale(None, 8), Scale(2, 1), Scale(None, 1))
"""The scales that are tried, in this order: what divides the widths of one architecture leaves another without a whole number of groups."""


def small(config: Any, scale: Scale) -> Any:
    """A small copy of a configuration of transformers, its nested configurations included.

    Args:
        config: the configuration, which isn't changed.
        scale: by how much.

    Raises:
        Exception: whatever the configuration raises where it accepts no such value.
    """
    shrunk = copy.deepcopy(config)
    tokens: dict[int, int] = {}
    for part in parts(shrunk):
        _shrink(part, scale, tokens)
    return shrunk


def parts(config: Any) -> Iterator[Any]:
    """A configuration and the ones nested in it."""
    yield config
    for value in list(vars(config).values()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield from parts(value)


def _shrink(config: Any, scale: Scale, tokens: dict[int, int]) -> None:
    attributes = vars(config)
    before = {name: value for name, value in attributes.items() if LAYERS.match(name) and isinstance(value, int)}
    changed = smaller_values(attributes, scale)
    for name, value in attributes.items():
        if TOKENS.search(name) or name in ("pad_token_id", "eos_token_id"):
            changed[name] = _smaller_token(value, tokens)
    # A list with something for each layer is cut with the layers; of different kinds of layers each remains, if there is room.
    for name, count in before.items():
        if name not in changed:
            continue
        lists = {
            key: value for key, value in attributes.items() if isinstance(value, (list, tuple)) and len(value) == count and key not in changed and count > 1
        }
        chosen = _kinds_of_layers(lists, count, changed[name])
        changed.update({key: type(value)(value[index] for index in chosen) for key, value in lists.items()})
    for name, value in changed.items():
        if value != attributes[name]:
            setattr(config, name, value)


def smaller_values(values: Mapping[str, Any], scale: Scale) -> dict[str, Any]:
    """Smaller values for those of `values` that are sizes by their names."""
    changed: dict[str, Any] = {}
    stages = {len(value) for name, value in values.items() if LAYERS_OF_STAGES.match(name) and isinstance(value, (list, tuple))}
    for name, value in values.items():
        if name == "num_layers" and value in stages:
            continue  # the number of stages
        if LAYERS.match(name) and isinstance(value, int) and not isinstance(value, bool) and scale.layers is not None:
            changed[name] = min(value, scale.layers)
        elif LAYERS_OF_STAGES.match(name) and isinstance(value, (list, tuple)) and scale.layers is not None:
            changed[name] = type(value)(min(item, scale.layers) if isinstance(item, int) else item for item in value)
        elif EXPERT_COUNTS.match(name) and isinstance(value, int):
            changed[name] = min(value, EXPERTS)
        elif name in ("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts") and isinstance(value, int):
            changed[name] = min(value, 2)
        elif name in ("n_group", "topk_group") and isinstance(value, int):
            changed[name] = min(value, 2 if name == "n_group" else 1)
        elif VOCABULARIES.match(name) and (value is None or isinstance(value, int)):
            changed[name] = min(value or VOCABULARY, VOCABULARY)
        elif IMAGES.match(name):
            changed[name] = _smaller_image(value)
        elif WIDTHS.match(name) and not NOT_WIDTHS.search(name):
            changed[name] = _divided(value, scale.divisor)
        elif name in ("rope_parameters", "rope_scaling") and isinstance(value, Mapping):
            changed[name] = {key: _divided(item, scale.divisor) if key == "mrope_section" else item for key, item in value.items()}
    return changed


def _divided(value: Any, divisor: int) -> Any:
    """A width, or each in a list of them, divided; one that is small already, or would have a remainder, stays."""
    if isinstance(value, (list, tuple)):
        return type(value)(_divided(item, divisor) for item in value)
    if isinstance(value, int) and not isinstance(value, bool) and value % divisor == 0 and value // divisor >= 2:
        return value // divisor
    return value


def _smaller_image(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_smaller_image(item) for item in value)
    if isinstance(value, int):
        while value > LARGEST_IMAGE and value % 2 == 0:
            value //= 2
    return value


def _smaller_token(value: Any, tokens: dict[int, int]) -> Any:
    """A number of the small vocabulary for a special token: the same for equal ones, others for others."""
    if isinstance(value, (list, tuple)):
        return type(value)(_smaller_token(item, tokens) for item in value)
    if not isinstance(value, int) or isinstance(value, bool) or value < VOCABULARY // 2:
        return value
    return tokens.setdefault(value, VOCABULARY - 1 - len(tokens))


def _kinds_of_layers(lists: Mapping[str, Sequence[Any]], count: int, remaining: int) -> list[int]:
    """The numbers of the layers that remain: of each kind of layer the first, then the first of all."""
    seen: dict[str, int] = {}
    for index in range(count):
        seen.setdefault(repr([value[index] for value in lists.values()]), index)
    chosen = list(seen.values())[:remaining]
    chosen += [index for index in range(count) if index not in chosen][: remaining - len(chosen)]
    return sorted(chosen)
