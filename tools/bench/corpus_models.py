"""The architectures of the corpus, as the installed transformers, timm and diffusers have them, and the classes that each can be built from."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from tools.libraries import timm, transformers

LIBRARIES = ("transformers", "timm", "diffusers")
PER_FAMILY = 2
"""So many of timm's models are taken of each of its modules; there are about 75."""
HEADS = (
    "ForConditionalGeneration",
    "ForMaskedLM",
    "ForCausalLM",
    "LMHeadModel",
    "ForPreTraining",
    "ForImageClassification",
    "ForCTC",
    "ForObjectDetection",
    "ForSemanticSegmentation",
    "ForDepthEstimation",
)
"""Ends of the names of transformers' classes, the preferred first: they compute a loss, or run all parts of a model."""
SMALL_NAMES = ("test_", "pico", "femto", "atto", "nano", "tiny", "mini", "xxs", "small", "_050", "_s", "_b0", "_18")
"""Parts of the names of timm's small models, the smallest first."""


@dataclass(frozen=True, order=True)
class Entry:
    """One row of the corpus: an architecture of a library.

    `name` is the package of transformers that holds it, timm's name of the model, or the name of diffusers' class.
    """

    library: str
    name: str

    @property
    def key(self) -> str:
        """The name with its library, which tells entries apart."""
        return f"{self.library}:{self.name}"


def entries() -> list[Entry]:
    """All entries, in the order of libraries and names."""
    return [*_of_transformers(), *_of_timm(), *_of_diffusers()]


def select(only: str | None, sample: int | None) -> list[Entry]:
    """The entries named in a comma-separated list, and of these about `sample`, spread evenly; all where neither is given.

    A name may be that of a library, such as `timm`.

    Raises:
        ValueError: no entry has one of the names.
    """
    found = entries()
    if only:
        names = [name.strip() for name in only.split(",") if name.strip()]
        unknown = [name for name in names if not any(name in (entry.library, entry.name, entry.key) for entry in found)]
        if unknown:
            raise ValueError(f"unknown model {', '.join(unknown)}; names are packages of transformers.models, timm's models and diffusers' classes")
        found = [entry for entry in found if {entry.library, entry.name, entry.key} & set(names)]
    if sample and sample < len(found):
        found = [found[index * len(found) // sample] for index in range(sample)]
    return found


# -- transformers ---------------------------------------------------------------------------------------------------


def _of_transformers() -> Iterator[Entry]:
    for module in pkgutil.iter_modules(transformers.models.__path__):
        folder = Path(transformers.models.__path__[0]) / module.name
        if module.ispkg and any(folder.glob("modeling_*.py")) and module.name != "auto":
            yield Entry("transformers", module.name)


def classes(name: str) -> list[type[nn.Module]]:
    """The public model classes of a package of transformers, the one that shows most of the architecture first.

    Raises:
        ImportError: the package needs another one that is not installed.
    """
    found: list[type[nn.Module]] = []
    for path in sorted((Path(transformers.models.__path__[0]) / name).glob("modeling_*.py")):
        module = importlib.import_module(f"transformers.models.{name}.{path.stem}")
        found += _public_models(module)
    return sorted(found, key=lambda cls: _rank(cls.__name__))


def _public_models(module: ModuleType) -> list[type[nn.Module]]:
    named = getattr(module, "__all__", ())
    return [
        cls
        for cls in vars(module).values()
        if inspect.isclass(cls)
        and issubclass(cls, transformers.PreTrainedModel)
        and cls.__module__ == module.__name__
        and cls.__name__ in named
        and not re.search(r"Pre[tT]rained", cls.__name__)
        and cls.config_class is not None
    ]


def _rank(name: str) -> int:
    """The place of a class among those of its package. Classes whose names say Text or Vision are parts of a larger one."""
    part = 100 if re.search(r"Text|Vision|Audio|Encoder|Decoder|Backbone|VQVAE", name) else 0
    for place, head in enumerate(HEADS):
        if name.endswith(head):
            return part + place
    return part + (len(HEADS) if "For" in name else len(HEADS) + 1)


# -- timm -----------------------------------------------------------------------------------------------------------


def _of_timm() -> Iterator[Entry]:
    for family in sorted(timm.list_modules()):
        names = timm.list_models(module=family)
        for name in sorted(names, key=_size)[:PER_FAMILY]:
            yield Entry("timm", name)


def _size(name: str) -> tuple[int, int, str]:
    """Sorts names of timm's models about as large as these are; the models for timm's own tests come last."""
    places = [place for place, part in enumerate(SMALL_NAMES) if part in name]
    return (min(places, default=len(SMALL_NAMES)) if not name.startswith("test_") else len(SMALL_NAMES) + 1, len(name), name)


# -- diffusers ------------------------------------------------------------------------------------------------------


def diffusers_classes() -> dict[str, type[nn.Module]]:
    """diffusers' models by name; none if the package isn't installed."""
    if importlib.util.find_spec("diffusers") is None:
        return {}
    diffusers: Any = importlib.import_module("diffusers")
    models = importlib.import_module("diffusers.models")
    names: Sequence[str] = sorted(name for name in dir(models) if name[0].isupper())
    found = {name: getattr(diffusers, name, None) for name in names}
    return {name: cls for name, cls in found.items() if inspect.isclass(cls) and issubclass(cls, diffusers.ModelMixin) and cls is not diffusers.ModelMixin}


def _of_diffusers() -> Iterator[Entry]:
    for name in diffusers_classes():
        yield Entry("diffusers", name)
