"""Finds running statistics that normalisations change in training, although neither their schemas nor the tensors' version counters show it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

NATIVE_NORM = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps", "cudnn_enabled")
BATCH_NORMS = {F.batch_norm: tuple(inspect.signature(F.batch_norm).parameters), torch.batch_norm: NATIVE_NORM}
"""The functions that normalise, with the names of their arguments."""
NORMS = {**BATCH_NORMS, F.instance_norm: tuple(inspect.signature(F.instance_norm).parameters), torch.instance_norm: NATIVE_NORM}
STATISTICS = ("running_mean", "running_var")
ATEN = torch.ops.aten
OPERATORS = frozenset({
    ATEN.native_batch_norm.default, ATEN.cudnn_batch_norm.default, ATEN.miopen_batch_norm.default, ATEN.batch_norm_update_stats.default,
    ATEN.batch_norm_gather_stats.default, ATEN.batch_norm_gather_stats_with_counts.default,
})  # fmt: skip
"""The operators that these functions call in the end."""


def changing(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments by name of a normalisation that changes running statistics; None for any other function."""
    target = getattr(target, "runs", target)  # with torch's switches set
    names = NORMS.get(target) if callable(target) else None
    if names is None:
        return None
    given = {**dict(zip(names, args)), **kwargs}
    trains = given.get("training", given.get("use_input_stats", target is F.instance_norm))
    return given if trains and given.get("running_mean") is not None else None


def statistics_of(node: fx.Node) -> dict[str, Any] | None:
    """The arguments by name of a node that changes running statistics; None for any other node."""
    return changing(node.target, node.args, node.kwargs)


def changed_statistics(node: fx.Node) -> list[torch.Tensor]:
    """The fakes of the running statistics that a node changes."""
    given = statistics_of(node) or {}
    return [part.meta["example_value"] for name in STATISTICS if isinstance(part := given.get(name), fx.Node)]


def writes_statistics(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether an operator changes running statistics."""
    if func not in OPERATORS:
        return False
    given = {**dict(zip([argument.name for argument in func._schema.arguments], args)), **kwargs}
    return bool(given.get("training", True)) and given.get("running_mean") is not None
