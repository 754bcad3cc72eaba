"""Checks at import that the extension was built for the running Python and the installed torch, and says how to build it for them.

Imports nothing but the standard library: `python -m framejit env` reports on an installation whose extension doesn't load.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import sys
import sysconfig
from typing import Any
from urllib.parse import unquote, urlsplit


def minor_version(version: str) -> str:
    """`major.minor` of a version string: `2.13.0+cpu` gives `2.13`."""
    return ".".join(version.split("+")[0].split(".")[:2])


def required_torch() -> str:
    """The minor version of torch that the installed metadata require, which is the one that the build was for; empty where nothing is installed."""
    try:
        required = importlib.metadata.requires("framejit") or []
    except importlib.metadata.PackageNotFoundError:
        required = []
    found = next(filter(None, (re.match(r"torch\b.*>=(\d+\.\d+)", text) for text in required)), None)
    return found.group(1) if found else ""


def source() -> tuple[str, bool]:
    """The place from which pip installed framejit, as pip takes it (empty where that isn't known), and whether the installation is editable."""
    try:
        text = importlib.metadata.distribution("framejit").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        text = None
    recorded: dict[str, Any] = json.loads(text) if text else {}
    if "vcs_info" in recorded:
        return f"{recorded['vcs_info']['vcs']}+{recorded['url']}", False
    if "dir_info" in recorded:
        folder = unquote(urlsplit(recorded["url"]).path)
        return (folder if os.path.isdir(folder) else ""), bool(recorded["dir_info"].get("editable"))
    return "", False


def remedy(torch_version: str) -> str:
    """The command that installs a framejit for this torch and this Python, as one types it in any folder."""
    origin, editable = source()
    python = "python" if shutil.which("python") == sys.executable else shlex.quote(sys.executable)
    command = f"{python} -m pip install --no-deps --force-reinstall"
    if editable and origin:
        return f"build it again: {command} --config-settings editable_mode=strict --editable {shlex.quote(origin)}"
    if origin:  # --no-cache-dir: pip keeps wheels of repositories, whatever torch they were built for
        return f"build it again: {command} --no-cache-dir {shlex.quote(origin)}"
    return f"install a wheel that was built for torch {minor_version(torch_version)}, or build one in a checkout of framejit: {command} ."


def free_threaded() -> str | None:
    """The reason why framejit can't be built or imported here, if this Python is a free-threaded build; else None.

    What the native code does between two calls of Python is safe only under the GIL. Where a module doesn't say that it needs none, such a
    Python turns the GIL on again as it loads it: this is asked before anything is loaded.
    """
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    name = f"python{sysconfig.get_python_version()}"
    return f"framejit does not support free-threaded builds of Python yet, and {sys.executable} is one: use {name}, which has a GIL, instead of {name}t"


def check_versions(built_for_torch: str, built_for_python: str, torch_version: str, python_version: str) -> None:
    """Raises ImportError, naming the command that builds again, unless the extension was built for these versions.

    TensorImpl's layout and the numbering of dispatch keys differ between minor versions of torch, so the extension reads
    tensors rightly only under the minor version it was compiled against. Patch levels and local labels (`+cpu`) may differ.
    """
    if built_for_python != python_version:
        raise ImportError(f"framejit was built for Python {built_for_python}, but this is Python {python_version}; {remedy(torch_version)}")
    if minor_version(built_for_torch) != minor_version(torch_version):
        raise ImportError(f"framejit was built for torch {built_for_torch}, but torch {torch_version} is installed; {remedy(torch_version)}")


def check_build() -> None:
    """Raises ImportError unless the running Python is supported, torch is installed, and `framejit._runtime` can be loaded and fits both."""
    problem = free_threaded()
    if problem:
        raise ImportError(problem)
    versions: Any = importlib.import_module("framejit.bytecode.versions")  # raises for a Python that it doesn't know
    try:
        torch: Any = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError("framejit needs torch, which is not installed: pip install torch, and then framejit, which is built for one torch") from error
    try:
        runtime: Any = importlib.import_module("framejit._runtime")
    except ImportError as error:  # not built, or built against another torch whose symbols are missing here
        built = required_torch()
        if built and built != minor_version(torch.__version__):
            raise ImportError(f"framejit was built for torch {built}, but torch {torch.__version__} is installed; {remedy(torch.__version__)}") from error
        raise ImportError(f"framejit's extension module cannot be loaded ({error}); {remedy(torch.__version__)}") from error
    python = ".".join(map(str, versions.CURRENT.number))
    check_versions(runtime.built_for_torch, runtime.built_for_python, torch.__version__, python)
