"""Profiles: a second process takes as symbols, from its first compilation on, what has varied in the first."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from torch import nn

import framejit
from framejit.driver import profile

PROGRAM = """
import sys, torch, framejit

class Model(torch.nn.Module):
    scale = 1
    def forward(self, x, d):
        y = x * d["n"] * self.scale
        framejit.graph_break()
        return y + x * 0.5

model = framejit.compile(Model(), backend="eager")
for n in (3, 4, 5):
    model.scale = n
    assert torch.equal(model(torch.ones(n), {"n": n, "t": 0.5 * n}), torch.full((n,), n * n + 0.5))
print(framejit.statistics()["frames"])
if len(sys.argv) > 1:
    framejit.save_profile(sys.argv[1])
"""


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    monkeypatch.setattr(profile, "_loaded", {})
    monkeypatch.setattr(profile, "_read_from", set())
    framejit.reset()


@pytest.mark.slow
def test_a_second_process_begins_with_symbols(tmp_path, monkeypatch) -> None:
    program, saved = tmp_path / "program.py", tmp_path / "sizes.json"
    program.write_text(PROGRAM)

    def frames(*args: str) -> int:
        return int(subprocess.run([sys.executable, str(program), *args], capture_output=True, text=True, check=True).stdout)

    first = frames(str(saved))
    assert any("Model" in name for name in json.loads(saved.read_text())["varying"])
    monkeypatch.setenv("FRAMEJIT_PROFILE", str(saved))
    assert frames() == 2 < first, "the frame and what follows its break, each compiled once"


def compiled_for(sizes) -> int:
    framejit.reset()
    compiled = framejit.compile(nn.Flatten(), backend="eager")
    for n in sizes:
        assert compiled(torch.ones(n, 2, 3)).shape == (n, 6)
    return framejit.statistics()["graphs"]


def test_loading_in_the_same_process(tmp_path) -> None:
    assert compiled_for((3, 4, 5)) == 2
    framejit.save_profile(tmp_path / "p")
    framejit.load_profile(tmp_path / "p")
    assert compiled_for((3, 4, 5)) == 1
    with framejit.config.replace(automatic_dynamic=False):
        assert compiled_for((3, 4, 5)) == 3, "nothing is symbolic, whatever a profile says"


def test_what_was_loaded_is_saved_again_and_reset_throws_away_what_was_learnt(tmp_path) -> None:
    compiled_for((3, 4))
    framejit.save_profile(tmp_path / "p")
    text = (tmp_path / "p").read_text()
    framejit.reset()
    framejit.save_profile(tmp_path / "empty")
    assert json.loads((tmp_path / "empty").read_text())["varying"] == {} != json.loads(text)["varying"]
    framejit.load_profile(tmp_path / "p")
    framejit.save_profile(tmp_path / "again")
    assert (tmp_path / "again").read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no profile"),
        ("[]", "is no profile"),
        ('{"framejit_profile": 99}', "is of version 99; this framejit reads version 1"),
        ('{"framejit_profile": 1, "varying": {"f": [[[["no such step", "plain", 1]], null]]}}', "is no profile"),
        ('{"framejit_profile": 1, "varying": {"f": [3]}}', "is no profile"),
    ],
)
def test_files_that_are_no_profiles(tmp_path, text: str, message: str) -> None:
    (tmp_path / "p").write_text(text)
    with pytest.raises(framejit.ConfigError, match=message):
        framejit.load_profile(tmp_path / "p")
    assert profile._loaded == {}


def test_a_file_that_is_not_there(tmp_path, warnings_logged) -> None:
    framejit.reset()
    with framejit.config.replace(profile=str(tmp_path / "p")):
        assert framejit.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).sum() == 4
        framejit.compile(lambda x: x + 2, backend="eager")(torch.ones(2))
    [warning] = warnings_logged()
    assert "FRAMEJIT_PROFILE" in warning and "can't be read: No such file" in warning and "It is ignored." in warning


def test_a_profile_that_is_wrong_does_no_harm(tmp_path) -> None:
    """Of another program's function with the same name: what isn't there, or has fewer dimensions, is not looked at."""

    def program(x, n):
        return x * n

    paths = [[[["local", "slot", [0, "x"]]], [0, 5]], [[["local", "slot", [7, "y"]], ["index", "plain", 3]], None]]
    name = f"{program.__qualname__}, {program.__qualname__} (test_profiles.py)"
    (tmp_path / "p").write_text(json.dumps({"framejit_profile": 1, "varying": {name: paths}}))
    framejit.load_profile(tmp_path / "p")
    compiled = framejit.compile(program, backend="eager")
    for n in (3, 4, 5):
        assert torch.equal(compiled(torch.ones(n), 2), torch.full((n,), 2.0))
    assert framejit.statistics()["graphs"] == 1
