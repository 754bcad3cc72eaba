"""setup.py, pyproject.toml and build_check: what is installed fits what is there, and importing it is cheap."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import framejit
from framejit import _runtime, build_check

ROOT = Path(__file__).parent.parent


def test_the_extension_names_what_it_was_built_for():
    assert build_check.minor_version(_runtime.built_for_torch) == build_check.minor_version(torch.__version__)
    assert _runtime.built_for_python == f"{sys.version_info.major}.{sys.version_info.minor}"
    build_check.check_build()


def test_another_torch_is_refused_with_the_command_that_rebuilds():
    build_check.check_versions("2.13.0+cpu", "3.11", "2.13.1", "3.11")
    with pytest.raises(ImportError, match=r"built for torch 2\.13\.0\+cpu, but torch 2\.11\.0 is installed; rebuild it with 'make build'"):
        build_check.check_versions("2.13.0+cpu", "3.11", "2.11.0", "3.11")
    with pytest.raises(ImportError, match=r"built for torch 2\.1\.0, but torch 2\.11\.0"):
        build_check.check_versions("2.1.0", "3.11", "2.11.0", "3.11")


def test_another_python_is_refused():
    with pytest.raises(ImportError, match=r"built for Python 3\.11, but this is Python 3\.12; .*make build"):
        build_check.check_versions("2.13.0", "3.11", "2.13.0", "3.12")


def test_a_missing_extension_names_the_command_that_builds_it(monkeypatch):
    def fail(name: str) -> None:
        raise ImportError("undefined symbol: c10")

    monkeypatch.setattr(build_check.importlib, "import_module", fail)
    with pytest.raises(ImportError, match=r"cannot be loaded \(undefined symbol: c10\); rebuild it with 'make build'"):
        build_check.check_build()


def test_importing_framejit_refuses_another_torch():
    program = "import torch; torch.__version__ = '2.99.0'; import framejit"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "ImportError: framejit was built for torch" in done.stderr and "make build" in done.stderr


def test_importing_framejit_after_torch_takes_a_tenth_of_a_second_at_most():
    """The garbage collector, whose walk over all that torch has made falls into the import or not, is left out."""
    program = "import gc, time, torch; gc.disable(); start = time.process_time(); import framejit; print(time.process_time() - start)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # from the second time on, nothing is compiled
    times: list[float] = []
    while len(times) < 6 and min(times, default=1.0) > 0.1:  # a busy machine makes it slower, never faster
        times.append(float(subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True).stdout))
    assert min(times) <= 0.1, times


def test_metadata():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert framejit.__version__ == project["version"] == "0.1.0"
    for name in ("demo", "test"):
        assert project["optional-dependencies"][name]
