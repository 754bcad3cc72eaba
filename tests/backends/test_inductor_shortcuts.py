"""Shortcuts through Inductor's work: the results are those of the long way, and what is remembered on disk is noticed to have changed."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
import sympy
import torch

import framejit
from framejit.backends import inductor_shortcuts
from framejit.backends.inductor_shortcuts import is_linear, shortcuts

PROGRAM = """
import subprocess, torch, framejit
started = []
start = subprocess.Popen.__init__
def note(self, args, *rest, **options):
    started.append([str(arg) for arg in args])
    start(self, args, *rest, **options)
subprocess.Popen.__init__ = note
x = torch.randn(40)
assert torch.equal(framejit.compile(lambda x: x.relu() + 1)(x), x.relu() + 1)
print("loads", sum("LoadLibrary" in " ".join(command) for command in started))
"""


def loads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of libraries that Inductor loads as a test, in a fresh process that uses this folder."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
    for cache in ("FRAMEJIT_CACHE", "TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"):
        monkeypatch.setenv(cache, "0")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


@pytest.mark.slow
def test_instruction_sets_are_tried_once_on_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loads(tmp_path, monkeypatch) > 0
    assert loads(tmp_path, monkeypatch) == 0


class Isa:
    """An instruction set with flags of its own."""

    def __init__(self, flags: str = "-mavx2") -> None:
        self.flags = flags

    def build_arch_flags(self) -> str:
        return self.flags

    def __str__(self) -> str:
        return "avx2"


def test_a_no_is_asked_again_and_other_flags_are_another_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, asked = iter([False, True, True]), []

    def build(isa: Isa, code: str) -> bool:
        asked.append((isa.flags, code))
        return next(answers)

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(inductor_shortcuts, "BUILD", build)
    assert not inductor_shortcuts.works(Isa(), "code")
    assert inductor_shortcuts.works(Isa(), "code")
    assert inductor_shortcuts.works(Isa(), "code")
    assert len(asked) == 2
    assert inductor_shortcuts.works(Isa("-mavx512f"), "code")
    assert len(asked) == 3


def test_a_folder_that_cannot_be_written_only_costs_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(inductor_shortcuts, "BUILD", lambda isa, code: True)
    monkeypatch.setattr(inductor_shortcuts, "get_path", lambda *args: ("", "", str(tmp_path / "file" / "name.works")))
    assert inductor_shortcuts.works(Isa(), "code")


def test_sums_of_multiples_are_simple() -> None:
    numbers = random.Random(5)
    symbols = [sympy.Symbol(f"x{index}", integer=True, nonnegative=index % 2 == 0) for index in range(4)]
    for _ in range(300):
        chosen = numbers.sample(symbols, numbers.randint(0, 4))
        index = sum((numbers.choice([1, -1, 2, -3, 64, 12288]) * symbol for symbol in chosen), sympy.Integer(numbers.choice([0, 1, -5, 64])))
        assert is_linear(index)
        assert str(sympy.simplify(index)) == str(index)


def test_other_expressions_are_simplified_as_sympy_does() -> None:
    x, y = sympy.symbols("x y", integer=True)
    for expression in (x * (x + 1) - x**2, x * y + x, sympy.floor(x + 2) - x, (x + y) / 1 - y, sympy.Eq(x, x + 0), 0.5 * x + 0.5 * x, x**2 / x):
        with shortcuts():
            found = sympy.simplify(expression)
        assert found == sympy.simplify(expression)
        assert sympy.simplify is inductor_shortcuts.SIMPLIFY


def test_kernels_with_strides_of_many_forms() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.transpose(1, 2).relu() + 1, x.unfold(2, 4, 2).sum(-1), x.roll(3, 2) * x.flip(1), torch.nn.functional.pixel_shuffle(x[:, :, :, None], 2)

    x = torch.randn(3, 8, 18)
    for found, expected in zip(framejit.compile(f)(x), f(x)):
        torch.testing.assert_close(found, expected)
