"""The report of `python -m framejit env`: versions, the build, devices, caches and variables, to paste into an issue.

Needs neither the extension module nor torch, and reports on an installation without them.
"""

from __future__ import annotations

import getpass
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from framejit.build_check import free_threaded, required_torch

VERSION = "0.1.0"
PACKAGES = ("numpy", "sympy", "triton", "z3-solver", "transformers")
"""Packages whose versions matter to framejit, besides torch."""
VARIABLES = re.compile(r"(FRAMEJIT_|TORCH_COMPILE|TORCHDYNAMO_|TORCHINDUCTOR_|TRITON_|CUDA_VISIBLE_DEVICES$|CXX$|OMP_NUM_THREADS$)")
"""Names of environment variables that are reported."""


def asked(arguments: list[str], original: list[str]) -> str:
    """`env` or `--version` where the process is `python -m framejit` of it, and is still importing the package; else an empty string."""
    by_module = arguments[:1] == ["-m"] and any(pair == ("-m", "framejit") for pair in zip(original, original[1:]))
    return arguments[1] if by_module and arguments[1:] in (["env"], ["--version"]) else ""


def version() -> str:
    """The text that `--version` prints."""
    return f"framejit {VERSION}"


def report(problem: str = "") -> str:
    """All that `env` prints; `problem` says why framejit can't be imported."""
    rows = list(facts())
    width = max(len(name) for name, _ in rows)
    lines = [f"{name + ':':<{width + 1}} {home_hidden(value)}" for name, value in rows]
    return "\n".join([*lines, *([f"framejit can't be imported: {home_hidden(problem)}"] if problem else [])])


def facts() -> Iterator[tuple[str, str]]:
    """The names and values of the report's lines."""
    yield "framejit", f"{VERSION}, in {os.path.dirname(__file__)}"
    yield "built for", built_for()
    yield "Python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    torch, why = installed_torch()
    yield "torch", f"{torch.__version__}, in {os.path.dirname(torch.__file__)}" if torch is not None else why
    yield "packages", ", ".join(f"{name} {found}" for name in PACKAGES if (found := installed_version(name))) or "none of " + ", ".join(PACKAGES)
    yield "system", f"{platform.platform()}, {os.cpu_count()} cores"
    yield "compiler", compiler()
    yield "devices", "; ".join(devices(torch)) if torch is not None else "unknown"
    for name, folder in caches(os.environ):
        yield name, f"{folder}, {size_of(folder)}"
    named = [f"{name}={value}" for name, value in sorted(os.environ.items()) if VARIABLES.match(name)]
    yield "variables", " ".join(named) or "none"


def built_for() -> str:
    """The torch and Python that the extension module was compiled for, or the reason why they aren't known."""
    if free_threaded():
        return "another Python: the extension module is not loaded in a free-threaded one"
    try:
        runtime: Any = importlib.import_module("framejit._runtime")
    except Exception as error:
        built = required_torch()
        return f"torch {built}, by the metadata; the extension module can't be loaded" if built else f"unknown: the extension module can't be loaded ({error})"
    return f"Python {runtime.built_for_python}, torch {runtime.built_for_torch}"


def installed_torch() -> tuple[Any, str]:
    """torch, or None and why it can't be imported."""
    try:
        return importlib.import_module("torch"), ""
    except Exception as error:
        return None, "not installed" if isinstance(error, ModuleNotFoundError) and error.name == "torch" else f"can't be imported ({error})"


def installed_version(name: str) -> str:
    """The version of a package; empty where it isn't installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def compiler() -> str:
    """The C++ compiler that Inductor and a build of framejit would call, by the first line of its own words."""
    command = os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")), "")
    try:
        answer = subprocess.run([*command.split(), "--version"], capture_output=True, text=True, timeout=20) if command else None
    except (OSError, subprocess.SubprocessError) as error:
        return f"{command}: {error}"
    return answer.stdout.partition("\n")[0] if answer is not None else "none (no c++, g++ or clang++ on the path)"


def devices(torch: Any) -> Iterator[str]:
    """The devices that torch computes on."""
    yield f"cpu ({torch.get_num_threads()} threads)"
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        yield f"cuda:{index} ({properties.name}, {properties.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda or torch.version.hip})"
    if hasattr(torch, "xpu") and torch.xpu.device_count():
        yield f"{torch.xpu.device_count()} xpu"


def caches(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The folders in which Inductor and Triton store what they compile, by what they are called in the report."""
    try:
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError, ModuleNotFoundError):  # a user without a name, as in containers
        user = f"uid_{os.getuid()}"
    inductor = environ.get("TORCHINDUCTOR_CACHE_DIR") or os.path.join(tempfile.gettempdir(), f"torchinductor_{user}")
    yield "Inductor's cache", inductor
    yield "Triton's cache", environ.get("TRITON_CACHE_DIR") or os.path.join(inductor, "triton")


def size_of(folder: str) -> str:
    """Describe how many files are in a folder, and how much space they take; "not there" if it is no folder."""
    sizes = []
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append(os.lstat(os.path.join(directory, name)).st_size)
            except OSError:  # another process has just removed it
                continue
    return f"{len(sizes)} files, {sum(sizes) / 2**20:.1f} MiB" if os.path.isdir(folder) else "not there"


def home_hidden(text: str) -> str:
    """A text in which the user's home folder is written `~`: the report is for others to read."""
    home = os.path.expanduser("~")
    return text.replace(home + os.sep, "~" + os.sep) if len(home) > 1 else text
