"""precompile() and load(): code for given calls in one file, and what happens to calls that it has none for."""

from __future__ import annotations

import functools
import importlib
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import framejit
from framejit import config
from framejit.driver import portable

X = torch.arange(12.0).reshape(3, 4)

MODELS = """
    import torch
    from torch import nn

    GAIN = 2.0

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(4), nn.Linear(4, 8), nn.Linear(8, 4)

        def forward(self, x, scale=1.0):
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x)))) * scale * GAIN

    def build():
        torch.manual_seed(0)
        return nn.Sequential(*[Block() for _ in range(2)]).eval()
"""


@pytest.fixture
def models(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module in a file of its own, with a model."""
    (tmp_path / "models_to_precompile.py").write_text(textwrap.dedent(MODELS))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module("models_to_precompile")
    finally:
        sys.modules.pop("models_to_precompile", None)


def compiled_frames() -> int:
    return int(framejit.statistics()["frames"])


def scaled(x: torch.Tensor, n: int, *, by: float = 2.0) -> torch.Tensor:
    return x * n * by if x.shape[0] > 2 else x - n


class Adder:
    def __init__(self) -> None:
        self.weight = torch.ones(4)

    def add(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight

    __call__ = add


ADDER = Adder()
TARGETS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "function": (scaled, (X, 2)),
    "method": (ADDER.add, (X,)),
    "callable": (ADDER, (X,)),
    "partial": (functools.partial(scaled, n=3), (X,)),
    "module": (nn.Linear(4, 2), (X,)),
    "compiled": (framejit.compile(scaled, backend="eager"), (X, 3)),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_saved_artifact_serves_the_call_that_it_was_made_for(name: str, tmp_path: pathlib.Path) -> None:
    target, args = TARGETS[name]
    framejit.precompile(target, args, backend="eager").save(tmp_path / "made")
    framejit.reset()
    loaded = framejit.load(tmp_path / "made", target)
    found = [loaded(*args) for _ in range(2)]
    assert compiled_frames() == 0
    torch.testing.assert_close(found, [target(*args)] * 2)


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.add_(1)
        return x * 2


def test_a_call_doesnt_run() -> None:
    model = Counts()
    artifact = framejit.precompile(model, (X,), backend="eager")
    assert model.calls == 0 and model.seen == 0
    torch.testing.assert_close(artifact.bind(model)(X), X * 2)
    assert model.calls == 1 and model.seen == 1


def test_several_calls() -> None:
    """Sizes that vary become symbols, as in calls of compiled functions, and entries whose calls others serve aren't saved."""
    artifact = framejit.precompile(scaled, [(X, 2), (torch.ones(5, 4), 2), (torch.ones(7, 4), 2)], [{}, {}, {"by": 2.0}], backend="eager")
    assert len(artifact.entries) == 1
    compiled = artifact.bind(scaled)
    framejit.reset()
    for rows in (3, 5, 7, 9):
        torch.testing.assert_close(compiled(torch.ones(rows, 4), 2), scaled(torch.ones(rows, 4), 2))
    assert compiled_frames() == 0
    with pytest.raises(framejit.NotPrecompiled, match=r"x satisfies|expected that it satisfies"):
        compiled(torch.ones(2, 4), 2)


def test_modules_share_an_artifact() -> None:
    """An artifact has no weights, and may be bound to several modules of a class."""
    first, second = nn.Linear(4, 2), nn.Linear(4, 2)
    artifact = framejit.precompile(first, (X,), backend="eager")
    framejit.reset()
    for model in (first, second):
        torch.testing.assert_close(artifact.bind(model)(X), model(X))
    with pytest.raises(framejit.NotPrecompiled, match="weight"):
        artifact.bind(nn.Linear(4, 3))(X)
    assert compiled_frames() == 0


# Calls without an entry.


def test_a_call_without_an_entry_is_an_error_that_says_why() -> None:
    compiled = framejit.precompile(scaled, (X, 2), backend="eager").bind(scaled)
    with pytest.raises(framejit.NotPrecompiled) as raised:
        compiled(X.double(), 2)
    assert "no entry for this call of scaled" in str(raised.value) and "torch.float64" in str(raised.value)
    assert isinstance(raised.value, framejit.RecompileError) and raised.value.failures
    with pytest.raises(framejit.NotPrecompiled, match="grad mode"), torch.no_grad():
        compiled(X, 2)
    torch.testing.assert_close(compiled(X, 2), scaled(X, 2))


def test_another_functions_artifact() -> None:
    compiled = framejit.precompile(scaled, (X, 2), backend="eager").bind(lambda x, n: x)
    with pytest.raises(framejit.NotPrecompiled, match="none for this function; it was made for scaled"):
        compiled(X, 2)


def test_calls_without_an_entry_may_run_uncompiled_or_be_compiled() -> None:
    artifact = framejit.precompile(scaled, (X, 2), backend="eager")
    framejit.reset()
    for on_miss, frames in (("eager", 0), ("compile", 1)):
        compiled = artifact.bind(scaled, on_miss)
        for _ in range(2):
            torch.testing.assert_close(compiled(X, 3), scaled(X, 3))
            torch.testing.assert_close(compiled(X, 2), scaled(X, 2))
        assert compiled_frames() == frames


def test_stances_dont_keep_an_artifact_from_serving_calls() -> None:
    compiled = framejit.precompile(scaled, (X, 2), backend="eager").bind(scaled)
    for stance in ("fail_on_recompile", "eager_on_recompile", "eager_while_compiling"):
        framejit.reset()
        with framejit.set_stance(stance):
            torch.testing.assert_close(compiled(X, 2), scaled(X, 2))
            with pytest.raises(framejit.NotPrecompiled):
                compiled(X, 3)
    assert compiled_frames() == 0


# What can't be precompiled.


def test_what_is_left_out_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def prints(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 3:
            print(end="")
        return x + 1

    with pytest.raises(framejit.ArtifactError, match=r"nothing that can be saved\n.*prints: .*FJ012"):
        framejit.precompile(prints, (X,), backend="eager")
    artifact = framejit.precompile(prints, [(X,), (torch.ones(2, 4),)], backend="eager", dynamic=False)
    (left,) = artifact.left_out
    assert "FJ012" in left.why and "leaves out" in caplog.text and "left out: " in str(artifact)
    with pytest.raises(framejit.Unsupported):
        framejit.precompile(prints, (X,), backend="eager", fullgraph=True)


WRONG: dict[str, Callable[[], Any]] = {
    "a class": lambda: framejit.precompile(nn.Linear, (X,)),
    "no callable": lambda: framejit.precompile(3, ()),  # type: ignore[arg-type]
    "a tensor for args": lambda: framejit.precompile(scaled, X),  # type: ignore[arg-type]
    "other numbers of kwargs": lambda: framejit.precompile(scaled, [(X, 2)], [{}, {}]),
    "no such on_miss": lambda: framejit.precompile(scaled, (X, 2), backend="eager").bind(scaled, "egaer"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    with pytest.raises(framejit.BadArgument):
        WRONG[name]()


def test_other_backends_and_modes() -> None:
    for asked in ({"backend": "aot_eager"}, {"mode": "reduce-overhead"}, {"options": {"freezing": True}}):
        with pytest.raises(framejit.ArtifactError, match="can't be saved"):
            framejit.precompile(scaled, (X, 2), **asked)  # type: ignore[arg-type]
    with pytest.raises(framejit.ArtifactError, match="compiled"), config.replace(disable=True):
        framejit.precompile(scaled, (X, 2), backend="eager")


# Files, and other circumstances.


def test_damaged_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "made"
    framejit.precompile(scaled, (X, 2), backend="eager").save(path)
    data = path.read_bytes()
    for damaged in (b"", b"nonsense", data[: len(data) // 2], data[:100] + bytes([data[100] ^ 1]) + data[101:]):
        path.write_bytes(damaged)
        with pytest.raises(framejit.ArtifactError, match="damaged"):
            framejit.load(path)
    with pytest.raises(FileNotFoundError):
        framejit.load(tmp_path / "nothing")


def edited(path: pathlib.Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest of an artifact."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, json.dumps(manifest) if name == "manifest.json" else data)


OTHERS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "format": (lambda manifest: manifest.update(format=7), "has format 7"),
    "torch": (lambda manifest: manifest["circumstances"].update(torch="1.0"), "torch: it was made with 1.0, and this process has 2"),
    "processor": (lambda manifest: manifest["circumstances"][portable.FEATURES].append("avx9"), r"instructions that this processor lacks \(avx9\)"),
    "framejit": (lambda manifest: manifest["circumstances"].update({"framejit's build": "x"}), "framejit's build"),
    "hash of an entry": (lambda manifest: manifest["entries"][0].update(data="0"), "damaged"),
    "an entry more": (lambda manifest: manifest["entries"].append(manifest["entries"][0]), "damaged"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_artifacts_made_elsewhere(name: str, tmp_path: pathlib.Path) -> None:
    change, message = OTHERS[name]
    framejit.precompile(scaled, (X, 2), backend="eager").save(tmp_path / "made")
    framejit.load(tmp_path / "made", scaled)
    edited(tmp_path / "made", change)
    with pytest.raises(framejit.ArtifactError, match=message):
        framejit.load(tmp_path / "made", scaled)


def test_other_settings_of_torch() -> None:
    """The number of threads is part of Inductor's code, unless that is asked to leave it open."""
    model, threads = nn.Linear(4, 2), torch.get_num_threads()
    artifact = framejit.precompile(model, (X,), backend="eager")
    try:
        torch.set_num_threads(threads + 1)
        with pytest.raises(framejit.ArtifactError, match=rf"call torch.set_num_threads\({threads}\) before"):
            artifact.bind(model)
    finally:
        torch.set_num_threads(threads)
    artifact.bind(model)


def test_a_changed_source(models: Any, tmp_path: pathlib.Path) -> None:
    model = models.build()
    artifact = framejit.precompile(model, (X,), backend="eager")
    torch.testing.assert_close(artifact.bind(model)(X), model(X))
    path = tmp_path / "models_to_precompile.py"
    path.write_text(path.read_text().replace("GAIN = 2.0", "GAIN = 3.0"))
    with pytest.raises(framejit.ArtifactError, match="models_to_precompile .* is another than when the artifact was made"):
        artifact.bind(model)


def test_the_source_may_lie_elsewhere(models: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is found by its name: on another machine, its file may lie in another folder."""
    framejit.precompile(models.build(), (X,), backend="eager").save(tmp_path / "made")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "models_to_precompile.py").rename(tmp_path / "elsewhere" / "models_to_precompile.py")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    sys.modules.pop("models_to_precompile")
    importlib.invalidate_caches()
    other = importlib.import_module("models_to_precompile")
    framejit.reset()
    model = other.build()
    torch.testing.assert_close(framejit.load(tmp_path / "made", model)(X), model(X))
    assert compiled_frames() == 0


def test_changed_globals_are_guarded(models: Any) -> None:
    model = models.build()
    compiled = framejit.precompile(model, (X,), backend="eager").bind(model)
    models.GAIN = 3.0
    with pytest.raises(framejit.NotPrecompiled, match="GAIN"):
        compiled(X)


# Processes, with Inductor.

PROGRAM = """
    import sys
    import torch
    import framejit
    import models_to_precompile

    model, x = models_to_precompile.build(), torch.arange(12.0).reshape(3, 4)
    with torch.no_grad():
        if sys.argv[1] == "make":
            framejit.precompile(model, (x,)).save(sys.argv[2])
        else:
            compiled = framejit.load(sys.argv[2], model)
            assert torch.allclose(compiled(x), model(x), atol=1e-6)
            assert torch.allclose(compiled(x + 1), model(x + 1), atol=1e-6)
        names = ("torch._dynamo", "torch._inductor", "sympy", "z3", "framejit.compiler.compile")
        print(framejit.statistics()["frames"], *[name for name in names if name in sys.modules])
"""


def run(folder: pathlib.Path, program: str, *args: str, **variables: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "FRAMEJIT_CHECK": "", "FRAMEJIT_CACHE": "0", "PYTHONPATH": str(folder), **variables}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), *args], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_inductors_code_runs_in_another_process_without_a_compiler(tmp_path: pathlib.Path) -> None:
    (tmp_path / "models_to_precompile.py").write_text(textwrap.dedent(MODELS))
    path = str(tmp_path / "made")
    assert run(tmp_path, PROGRAM, "make", path, PYTHONHASHSEED="1").split()[0] == "1"
    assert run(tmp_path, PROGRAM, "load", path, PYTHONHASHSEED="2", TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "empty")).split() == ["0"]
