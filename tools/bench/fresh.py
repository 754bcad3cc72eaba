"""The environment of the processes whose start is measured."""

from __future__ import annotations

import compileall
import functools
import os
from pathlib import Path

import framejit


@functools.cache
def environment() -> dict[str, str]:
    """The environment variables of a fresh process, which finds framejit's modules compiled to bytecode, as an installation leaves them.

    Nothing that makes every process compile all modules anew, and no checks of framejit's, is inherited.
    """
    compileall.compile_dir(Path(framejit.__file__).parent, quiet=1)
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "FRAMEJIT_CHECK")}
