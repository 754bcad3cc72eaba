"""README.md: its examples run, one after the other, and give what is written beside them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
GIVEN = """
import linecache, sys, types
import torch, framejit
from framejit import error_on_graph_break

def fn(x):
    return x.sin() + 1

def encoder(ids, mask):
    return ids + mask

model, x, batch = torch.nn.Linear(8, 8), torch.randn(3), torch.randn(32, 8)
loader = [torch.randn(rows, 8) for rows in (32, 32, 7)]
library = types.SimpleNamespace(in_c=torch.sin)

def run(name, source):
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), globals())
    framejit.set_stance("default")
    framejit.reset()
"""
"""What the examples use without saying what it is."""


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path) -> None:
    told = [f"run('example{i}.py', {checked(example)!r})" for i, example in enumerate(EXAMPLES)]
    program = tmp_path / "examples.py"
    program.write_text(GIVEN + "\n".join(told))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=280, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for printed in re.findall(r"^# (region .*|  smallest: .*|  raises .*)$", README.read_text(), re.MULTILINE):
        assert printed in done.stdout.splitlines(), done.stdout


def checked(example: str) -> str:
    """An example in which what is said to be True is asserted."""
    return re.sub(r"^(\S.*?) +# True(?=$|:)", r"assert \1  # True", example, flags=re.MULTILINE)
