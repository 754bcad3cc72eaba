"""`float(loss)` of tensors that require gradients: in the graph, with torch's warning once in a process, for the program's line."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from printed_warnings import own_printer

import framejit


def train(w: torch.Tensor, x: torch.Tensor) -> Any:
    loss = (w * x).pow(2).mean()
    loss.backward()
    return x + float(loss), float(loss) / 2, int(loss), w.grad


def without_gradients(w: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.no_grad():
        return x * float(w)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [train, without_gradients], ids=lambda program: program.__name__)
def test_numbers_out_of_tensors_that_require_gradients_split_no_graph(program: Any, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "_showwarnmsg_impl", own_printer())
    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for value in (2.0, 3.5):
        expected, found = (function(torch.tensor(value, requires_grad=True), torch.arange(3.0)) for function in (program, compiled))
        for left, right in zip(expected, found, strict=True):
            assert torch.equal(torch.as_tensor(left), torch.as_tensor(right))
    assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0)


def test_filters_that_make_warnings_errors_raise_where_eager_does() -> None:
    def run(w: torch.Tensor) -> float:
        return float(w * 2)

    compiled = framejit.compile(run, backend="eager")
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="requires_grad=True"):
                compiled(torch.tensor(1.0, requires_grad=True))
    finally:
        torch.set_warn_always(always)


PROGRAM = """
import sys, torch, framejit

def run(w):
    y = w * 2
    return (
        float(y),
        int(y),
    )

fast = run if sys.argv[1] == "eager" else framejit.compile(run, backend="eager", fullgraph=True)
w = torch.tensor(1.5, requires_grad=True)
with torch.no_grad():
    fast(w)
torch.set_warn_always(len(sys.argv) > 2)
print([fast(w) for _ in range(3)])
"""


@pytest.mark.parametrize("always", [[], ["always"]], ids=["once", "always"])
def test_torch_warns_as_often_and_for_the_lines_of_eager(always: list[str], tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    environment = {**os.environ, "FRAMEJIT_CACHE": "0"}
    eager, compiled = (
        subprocess.run([sys.executable, "-W", "always", str(file), how, *always], capture_output=True, text=True, env=environment, check=True)
        for how in ("eager", "compiled")
    )
    assert eager.stderr.count("requires_grad=True to a scalar") == (3 if always else 1)
    assert (compiled.stdout, compiled.stderr) == (eager.stdout, eager.stderr)
