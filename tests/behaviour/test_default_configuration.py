"""A slice of the tests in the configuration that users run: not strict, no checks; an internal error would be counted, and none may be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SLICE = {
    "breaks": ("behaviour/test_language.py", "codegen/test_resume.py", "objects/types/test_abandoned_generators.py"),
    "calls": ("codegen/test_direct.py", "driver/test_compiled_module.py", "guards/test_guard_changes.py"),
}


@pytest.mark.parametrize("files", [pytest.param(SLICE["breaks"], marks=pytest.mark.slow), SLICE["calls"]], ids=SLICE)
def test_as_users_run(files: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--as-users-run", *(str(TESTS / file) for file in files)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FRAMEJIT_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
