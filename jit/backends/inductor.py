"""The backend `inductor`: torch's `compile_fx`, and the checking of its modes and options."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import _inductor
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx

from framejit.backends.registry import Backend
from framejit.errors import ConfigError, UnknownMode, UnknownOption, suggestion


@dataclass(frozen=True)
class InductorBackend(Backend):
    """Inductor with a mode's or the user's settings, which are in force for the backward pass too."""

    @property
    def patches(self) -> Mapping[str, Any]:
        return self.kwargs.get("config_patches", {})

    def configured(self, mode: str | None, options: Mapping[str, Any] | None) -> Backend:
        patches = mode_options(mode) if mode is not None else {}
        patches |= check_options(options or {})
        return replace(self, kwargs={"config_patches": patches} if patches else {})

    def freezes(self) -> bool:
        return bool(self.patches.get("freezing", config.freezing))

    def cudagraphs(self) -> bool:
        return bool(self.patches.get("triton.cudagraphs", config.triton.cudagraphs))


def mode_options(mode: str) -> dict[str, Any]:
    """The options that `mode` stands for. Raises UnknownMode."""
    modes = _inductor.list_mode_options()
    if mode not in modes:
        raise UnknownMode(f"backend 'inductor' has no mode {mode!r}{suggestion(mode, modes, listing=True)}")
    return dict(modes[mode])


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` with torch's spelling of the names ('-' for '_' is accepted). Raises UnknownOption, ConfigError."""
    known = config.get_config_copy() if options else {}
    result = {}
    for name, value in options.items():
        key = str(name).replace("-", "_")
        if key not in known:
            raise UnknownOption(f"backend 'inductor' has no option {name!r}{suggestion(key, known)}")
        if not _fits(value, kind := config.get_type(key)):
            wanted = kind.__name__ if isinstance(kind, type) else str(kind)
            raise ConfigError(f"option {name!r} of backend 'inductor' is of type {wanted}; got {value!r} of type {type(value).__name__}")
        result[key] = value
    return result


def _fits(value: Any, kind: Any) -> bool:
    """Whether `value` is of the annotated type `kind`, as far as can be told without looking inside containers."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(kind))
    if origin is typing.Literal:
        return value in typing.get_args(kind)
    kind = origin or kind
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else True


BACKEND = InductorBackend("inductor", compile_fx, inputs="fake", trusted=True, takes_unbacked=True, takes_gradients=True)
