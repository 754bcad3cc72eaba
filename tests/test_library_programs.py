"""The programs of libraries (`tools/bench/libraries.py`): they are listed without the libraries, compared with eager, and the page has a row for each."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tools.bench import libraries, libraries_page, library_programs, library_runs, markdown, records
from tools.bench.library_programs import LIBRARIES, listed, select
from tools.bench.library_programs.program import Compile, Program, training
from tools.bench.library_runs import Runner, Timed, observed
from tools.bench.snapshots import snapshot
from tools.compilers import Compiler, Framejit

ROOT = Path(__file__).parents[1]
HERE = Path("libraries")


def test_programs_are_listed_without_their_libraries() -> None:
    program = "from tools.bench import libraries, library_programs as l; import sys; l.listed(); print(*(name for name in l.LIBRARIES if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_names_are_single_and_all_programs_say_what_they_do() -> None:
    keys = [found.key for found in listed()]
    assert len(set(keys)) == len(keys) >= 100
    assert [found.key for found in listed() if not found.about] == []
    assert {found.library for found in listed()} == set(LIBRARIES)


def test_selection_by_library_and_program() -> None:
    names = [found.key for found in select("kornia:canny,jaxtyping")]
    assert names == ["jaxtyping:checked_network_forward", "jaxtyping:checked_network_steps", "kornia:canny"]
    with pytest.raises(ValueError, match="unknown program korna"):
        select("korna")


@pytest.mark.skipif(not importlib.util.find_spec("jaxtyping"), reason="jaxtyping isn't installed")
def test_what_a_file_registers_is_what_is_listed() -> None:
    for found in select("jaxtyping"):
        assert callable(library_programs.loaded(found.key))


def test_the_page_has_a_row_for_each_program() -> None:
    text = (ROOT / "docs" / "libraries.md").read_text(encoding="utf-8")
    for library in LIBRARIES:
        section = text.split(f"\n## {library}\n")[1].split("\n## ")[0]
        assert [(row[0], row[1]) for row in markdown.cells(section)] == [(found.name, found.about) for found in listed() if found.library == library]


def test_libraries_are_pinned_by_version_alone() -> None:
    lines = (ROOT / "tools/bench/libraries.txt").read_text(encoding="utf-8").splitlines()
    assert all(line.count("==") == 1 and "/" not in line for line in lines if line and not line.startswith("#"))
    assert libraries_page._versions().count(", ") == len(LIBRARIES) - 1


# -- runs -----------------------------------------------------------------------------------------------------------


def trained(compiled: Compile) -> Iterator[Any]:
    yield from training(compiled, nn.Linear(3, 2), lambda network, x: network(x).square().mean(), ((torch.randn(count, 3),) for count in (2, 2, 4)))


def broken(compiled: Compile) -> Iterator[Any]:
    @compiled
    def chosen(x: torch.Tensor) -> torch.Tensor:
        return x * len(set(x.tolist()))

    for _ in range(3):
        yield chosen(torch.randn(3))


class Changed(Compiler):
    """Compiles to eager and then something else."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def compile(self, function: Any, backend: Any, dynamic: bool | None = None) -> Any:
        return lambda *args: self.change(function(*args))


class Here(Runner):
    """Runs in this process."""

    def __init__(self, program: Program, compiler: Compiler) -> None:
        super().__init__("test:program", HERE, 0)
        self.program, self.compiler = program, compiler

    def observed(self, compiler: str, backend: str, asks: bool = False) -> library_runs.Observation:
        self.compiler.reset()
        return observed(self.program, Timed(Compiler() if compiler == "eager" else self.compiler, backend), HERE, asks)


def test_training_is_whole_and_as_in_eager() -> None:
    result = Here(trained, Framejit()).compared("framejit", "eager")
    assert (result.verdict, result.breaks, result.wrong, result.rounding) == ("whole", 0, "", 0.0)
    assert result.first_call is not None


def test_breaks_and_their_reasons_are_noted() -> None:
    result = Here(broken, Framejit()).compared("framejit", "eager")
    assert result.verdict == "broken" and result.breaks
    assert any("FJ" in reason for reason in result.reasons)


def drawn(value: Any) -> Any:
    random.random()
    return value


def raising(value: Any) -> Any:
    raise ValueError("not in eager")


@pytest.mark.parametrize(
    ("change", "verdict", "rounding", "words"),
    [
        (lambda value: value, "whole", False, ""),
        (lambda value: value * (1 + 2**-20), "whole", True, ""),
        (lambda value: value * 1.01, "wrong", False, "the largest error is"),
        (lambda value: value.double(), "wrong", False, "dtype"),
        (drawn, "wrong", False, ""),
        (raising, "failed", False, "ValueError: not in eager"),
    ],
)
def test_differences_from_eager(change: Any, verdict: str, rounding: bool, words: str) -> None:
    result = Here(trained, Changed(change)).compared("framejit", "eager")
    assert (result.verdict, bool(result.rounding)) == (verdict, rounding)
    assert words in result.wrong + result.error


def test_a_program_that_asks_whether_it_is_compiled_is_compared_with_its_answer() -> None:
    def asking(compiled: Compile) -> Iterator[Any]:
        call = compiled(lambda x: x * 3 if torch.compiler.is_compiling() else x * 2)
        yield call(torch.ones(3))

    result = Here(asking, Framejit()).compared("framejit", "eager")
    assert (result.verdict, result.asks) == ("whole", True)


def test_a_program_that_raises_in_eager_is_not_counted() -> None:
    def fails(compiled: Compile) -> Iterator[Any]:
        yield compiled(raising)(torch.ones(3))

    assert Here(fails, Framejit()).compared("framejit", "eager").excluded == "ValueError: not in eager"


def test_snapshots_are_of_the_moment() -> None:
    network, x = nn.Linear(2, 2), torch.ones(2)
    before = snapshot([network, {"x": x}, (1, "a")])
    with torch.no_grad():
        network.weight.add_(1)
        x.add_(1)
    after = snapshot([network, {"x": x}, (1, "a")])
    same = library_runs.Observation([before], "", records.Result())
    assert library_runs.difference(same, same) == ("", 0.0)
    assert library_runs.difference(same, library_runs.Observation([after], "", records.Result()))[0]


def test_sums_are_of_what_both_compilers_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run goes on where it ended; a program that took too long has a line in its cells and isn't counted."""
    ran: list[tuple[str, str]] = []

    def compared(self: Runner, compiler: str, backend: str) -> records.Result:
        ran.append((self.key, compiler))
        if (self.key, compiler) == ("kornia:canny", "torch"):
            return records.Result(error=f"{library_runs.TOO_LONG}: more than 60 s of processor time")
        return records.Result(graphs=2, breaks=1 if compiler == "framejit" else 3, reasons=["FJ039 `if x:`"], first_call=0.5)

    monkeypatch.setattr(Runner, "compared", compared)
    monkeypatch.setattr(libraries.isolate, "preload", lambda *modules: None)
    results, page = tmp_path / "results.jsonl", tmp_path / "libraries.md"
    for only in ("kornia:canny", "kornia:canny,kornia:colors"):
        monkeypatch.setattr(sys, "argv", ["libraries", "--only", only, "--results", str(results), "--markdown", str(page)])
        assert libraries.main() == 0
    assert ran == [(key, compiler) for key in ("kornia:canny", "kornia:colors") for compiler in ("framejit", "torch")]
    text = page.read_text()
    assert "| kornia | framejit | 1 | 0 | 1 | 0 | 0 | 0 | 0 | 0.50 |" in text and "| kornia | torch | 1 | 0 | 3 | 0 | 0 | 0 | 1 | 0.50 |" in text
    row = next(row for row in markdown.cells(text.split("\n## kornia\n")[1]) if row[0] == "canny")
    assert row[2:] == ["1/0", "-", "same", "-", "0.50", "-"]
    assert "- canny: FJ039 `if x:`" in text
