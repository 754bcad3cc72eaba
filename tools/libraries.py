"""Imports transformers and timm beside any build of torch; everything in tools/ gets the two libraries from here."""

from __future__ import annotations

import importlib.metadata

import torch

__all__ = ["timm", "transformers"]


def _torchvision_cannot_load_its_operators() -> bool:
    """Return whether the installed torchvision is a CUDA build beside a CPU-only torch."""
    try:
        version = importlib.metadata.version("torchvision")
    except importlib.metadata.PackageNotFoundError:
        return False
    return torch.version.cuda is None and not version.endswith("+cpu")


if _torchvision_cannot_load_its_operators():
    # torchvision registers fake kernels for these two when it is imported, which fails if its shared object
    # can't be loaded; no model here calls them, so declaring them is enough. The library object must stay alive.
    _DECLARED = torch.library.Library("torchvision", "DEF")
    _DECLARED.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import timm  # noqa: E402
import transformers  # noqa: E402

# Advice about missing accelerated kernels and about token numbers of configurations would drown the tables.
transformers.logging.set_verbosity_error()
