"""Small models of diffusers: the arguments of `__init__` are made smaller by their names, and those without a value get one."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from tools.bench import corpus_configs, corpus_diffusers_inputs
from tools.bench.corpus_configs import Scale

HEADS = re.compile(r"^(num_(attention_|key_value_|kv_)?heads|n_(kv_)?heads|num_key_value_attention_heads)$")
CHANNELS = re.compile(r"(^|_)(block_out_channels|stage_channels|base_channels|model_channels|base_dim|channels)$")
ENDS = re.compile(r"^(in|out|latent|input|output|num|image|audio)_channels$")
"""Channels of what goes into a model or comes out of it, which stay as they are."""
GROUP = 32
"""Channels are a multiple of it: the usual number of groups divides them."""
LARGE = 64
"""Channels above this number are made fewer."""
FEW_HEADS = 2
UNSAID: dict[str, Any] = {
    "in_channels": 4,
    "out_channels": 4,
    "latent_channels": 4,
    "block_out_channels": (32, 64),
    "layers_per_block": 1,
    "spatial_compression_ratio": 2,
    "sample_size": 32,
    "patch_size": 2,
}
"""Values of arguments that have no default, or None."""

Values = dict[str, Any]
CheckSize = Callable[[Callable[[], nn.Module]], None]


def attempts(cls: type[nn.Module], check_size: CheckSize) -> Iterator[tuple[nn.Module | Exception, Values]]:
    """Models in several scales with inputs of several shapes; an exception in place of a model says why it isn't there.

    Args:
        cls: the class.
        check_size: raises an exception for models of too many parameters.
    """
    for arguments in _arguments(cls):
        try:
            check_size(lambda arguments=arguments: cls(**arguments))
            torch.manual_seed(0)
            model = cls(**arguments)
        except Exception as error:
            yield error, {}
            continue
        for given in corpus_diffusers_inputs.attempts(model, arguments):
            yield (model, given) if isinstance(given, dict) else (given, {})


def _arguments(cls: type[nn.Module]) -> Iterator[Values]:
    """Arguments of the class, in one scale after another: narrow heads, few heads, and each with values for what is unsaid."""
    parameters = {name: parameter for name, parameter in inspect.signature(cls.__init__).parameters.items() if name != "self"}
    said = {name: parameter.default for name, parameter in parameters.items() if parameter.default is not inspect.Parameter.empty}
    # Without a default an argument needs a value, and None may mean that there is one.
    needed = {name: UNSAID[name] for name in parameters if name in UNSAID and name not in said}
    unsaid = {name: UNSAID[name] for name, value in said.items() if value is None and name in UNSAID and name != "out_channels"}
    needed |= {name: [part] for name in parameters if name in ("controlnets", "adapters") and (part := _part(cls)) is not None}
    everything = {**said, **needed}
    # Axes of positions share the width of a head.
    makes = (_with_few_heads, _with_narrow_heads) if any(re.search("axes|rope_dim", name) for name in said) else (_with_narrow_heads, _with_few_heads)
    tried: list[Values] = []
    for more in ({}, unsaid) if unsaid else ({},):
        for scale in corpus_configs.SCALES:
            for make in makes:
                arguments = make({**everything, **more}, scale)
                if arguments not in tried:
                    tried.append(arguments)
                    yield arguments


def _part(cls: type[nn.Module]) -> nn.Module | None:
    """A small model of what several of make a model of this class, by their names: FluxControlNetModel of FluxMultiControlNetModel."""
    name = cls.__name__.replace("Multi", "")
    one = getattr(sys.modules["diffusers"], name, None) or getattr(sys.modules["diffusers"], "T2I" + name, None)
    if one is None or one is cls:
        return None
    for arguments in _arguments(one):
        with contextlib.suppress(Exception):
            return one(**arguments)  # type: ignore[no-any-return]
    return None


def _with_narrow_heads(arguments: Values, scale: Scale) -> Values:
    """All widths divided alike."""
    return {**arguments, **corpus_configs.smaller_values(arguments, scale), **_fewer_channels(arguments, scale)}


def _with_few_heads(arguments: Values, scale: Scale) -> Values:
    """As many channels in a head as before, and few heads; widths of all heads together shrink with their number."""
    counts = {name: value for name, value in arguments.items() if HEADS.match(name) and isinstance(value, int) and not isinstance(value, bool)}
    if not counts or scale.divisor == 1:
        return _with_narrow_heads(arguments, scale)
    most = max(counts.values())
    changed = {**corpus_configs.smaller_values(arguments, scale), **_fewer_channels(arguments, scale)}
    for name, value in arguments.items():
        if name in counts:
            changed[name] = min(value, FEW_HEADS) if value == most else 1
        elif re.search(r"head_dim|rope|axes", name):
            changed[name] = value
        elif name in changed and re.search(r"hidden_size|^dim$|inner_dim|caption_projection_dim", name) and isinstance(value, int) and value % most == 0:
            changed[name] = value // most * min(most, FEW_HEADS)
    return {**arguments, **changed}


def _fewer_channels(arguments: Values, scale: Scale) -> Values:
    """Fewer channels of convolutions, where there are many."""

    def fewer(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(fewer(item) for item in value)
        if isinstance(value, int) and value > LARGE and value % scale.divisor == 0:
            return -(-value // (scale.divisor * GROUP)) * GROUP
        return value

    return {name: fewer(value) for name, value in arguments.items() if CHANNELS.search(name) and not ENDS.match(name)}
