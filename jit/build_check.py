"""Checks at import that the extension was built for the running Python and the installed torch."""

from __future__ import annotations

import importlib

import torch

from framejit.bytecode.versions import CURRENT  # raises for a Python that it doesn't know

REBUILD = "rebuild it with 'make build', or: pip install --no-build-isolation --no-deps --force-reinstall framejit"


def minor_version(version: str) -> str:
    """`major.minor` of a version string: `2.13.0+cpu` gives `2.13`."""
    return ".".join(version.split("+")[0].split(".")[:2])


def check_versions(built_for_torch: str, built_for_python: str, torch_version: str, python_version: str) -> None:
    """Raises ImportError, naming the command that rebuilds, unless the extension was built for these versions.

    TensorImpl's layout and the numbering of dispatch keys differ between minor versions of torch, so the extension reads
    tensors rightly only under the minor version it was compiled against. Patch levels and local labels (`+cpu`) may differ.
    """
    if built_for_python != python_version:
        raise ImportError(f"framejit was built for Python {built_for_python}, but this is Python {python_version}; {REBUILD}")
    if minor_version(built_for_torch) != minor_version(torch_version):
        raise ImportError(f"framejit was built for torch {built_for_torch}, but torch {torch_version} is installed; {REBUILD}")


def check_build() -> None:
    """Raises ImportError unless `framejit._runtime` can be loaded and fits the running Python and the installed torch."""
    try:
        runtime = importlib.import_module("framejit._runtime")
    except ImportError as error:  # not built, or built against another torch whose symbols are missing here
        raise ImportError(f"framejit's extension module cannot be loaded ({error}); {REBUILD}") from error
    python = ".".join(map(str, CURRENT.number))
    check_versions(runtime.built_for_torch, runtime.built_for_python, torch.__version__, python)
