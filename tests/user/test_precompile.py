"""precompile() and load(): code for given calls in one file, and what happens to calls that it has none for."""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import itertools
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import weakref
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import framejit
from framejit import __main__, config
from framejit.driver import portable
from framejit.driver.declared import DeclaredShapes, parse
from framejit.guards.source import Call

pytestmark = pytest.mark.only_eager("code of the backend aot_eager can't be saved")
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


def test_threads_share_what_is_loaded(models: Any) -> None:
    """Calls of several threads at once take the same entry, and compile nothing."""
    model = models.build()
    artifact = framejit.precompile(model, (X,), shapes={"input": (up_to("rows", 9, 1), 4)}, backend="eager")
    framejit.reset()
    compiled, expected = artifact.bind(model), model(X)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda rows: (rows, compiled(X[:rows])), [3, 1, 2, 3] * 8))
    for rows, result in found:
        torch.testing.assert_close(result, expected[:rows])
    assert compiled_frames() == 0 and len(type(compiled).__call__.entries) == 2  # type: ignore[attr-defined]


def test_models_and_artifacts_are_freed(models: Any) -> None:
    """Neither precompiling nor calling keeps a model; files of an artifact go with it and what is bound to it."""
    model = models.build()
    with torch.no_grad():
        artifact = framejit.precompile(model, (X,))
        compiled = artifact.bind(model)
        compiled(X)
    references = [weakref.ref(each) for each in (model, compiled, artifact, artifact._unpacked)]
    folder = artifact._unpacked.folder
    assert list(folder.rglob("*.so"))
    del model, compiled, artifact
    gc.collect()
    assert [reference() for reference in references] == [None] * 4
    assert not folder.exists()


# What can't be precompiled.


def test_what_is_left_out_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def by_address(x: torch.Tensor) -> torch.Tensor:
        return x + id(nn.Linear) % 7 if x.shape[0] == 3 else x + 1

    with pytest.raises(framejit.ArtifactError, match=r"nothing that can be saved\n.*by_address: .*address"):
        framejit.precompile(by_address, (X,), backend="eager")
    artifact = framejit.precompile(by_address, [(X,), (torch.ones(2, 4),)], backend="eager", dynamic=False)
    (left,) = artifact.left_out
    assert "address" in left.why and "leaves out" in caplog.text and "left out: " in str(artifact)
    with pytest.raises(framejit.Unsupported):
        framejit.precompile(Decides(prints=True), (X,), backend="eager", fullgraph=True)


def test_calls_with_graph_breaks(tmp_path: pathlib.Path) -> None:
    """They run once while they are precompiled, so that all pieces are compiled."""
    seen: list[Any] = []
    noted = framejit.disable(lambda what: seen.append(what))

    def splits(x: torch.Tensor) -> torch.Tensor:
        for n in range(2):
            x = x * 2 + n
            noted(n)
        return x.sum()

    artifact = framejit.precompile(splits, (X,), backend="eager")
    assert not artifact.left_out and len(artifact.entries) == 3 and seen == [0, 1]
    artifact.save(tmp_path / "artifact")
    framejit.reset()
    loaded = framejit.load(tmp_path / "artifact", splits)
    for _ in range(2):
        assert torch.equal(loaded(X), splits(X))
    assert framejit.statistics()["frames"] == 0 and seen == [0, 1] * 5
    with pytest.raises(framejit.NotPrecompiled):
        loaded(X.double())


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
    with torch.no_grad():
        artifact = framejit.precompile(model, (X,))
        open_to_any = [framejit.precompile(model, (X,), options={"cpp.dynamic_threads": True}), framejit.precompile(model, (X,), backend="eager")]
    try:
        torch.set_num_threads(threads + 1)
        with pytest.raises(framejit.ArtifactError, match=rf"call torch.set_num_threads\({threads}\) before"):
            artifact.bind(model)
        with torch.no_grad():
            for other in open_to_any:
                torch.testing.assert_close(other.bind(model)(X), model(X))
    finally:
        torch.set_num_threads(threads)
    artifact.bind(model)


@pytest.mark.skipif("avx2" not in portable.instructions(), reason="the processor has no AVX2")
def test_code_for_other_processors() -> None:
    """Inductor's code uses what this processor has, unless its options name a level of x86-64, and vectors, that other processors have too."""
    model, options = nn.Linear(4, 2), {"cpp.march": "x86-64-v3", "cpp.simdlen": 256}
    with torch.no_grad():
        here = framejit.precompile(model, (X,))
        if not hasattr(torch._inductor.config.cpp, "march"):
            pytest.skip("this torch's Inductor compiles for the processor that is there")
        elsewhere = framejit.precompile(model, (X,), options=options)
        torch.testing.assert_close(elsewhere.bind(model)(X), model(X))
        nowhere = framejit.precompile(model, (X,), backend="eager")
    needs = [set(artifact._contents.circumstances[portable.FEATURES]) for artifact in (here, elsewhere, nowhere)]
    assert needs[0] == set(portable.instructions()) and {"avx2", "fma", "bmi2"} <= needs[1] and needs[2] == set()
    assert not any(name.startswith(("avx512", "amx")) for name in needs[1])


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
    models.GAIN = 2.0
    with pytest.raises(framejit.NotPrecompiled, match=r"input.size\(0\): 3 -> 2"):  # by the name that forward has for it
        compiled(X[:2])
    framejit.reset()
    torch.testing.assert_close(compiled(X), model(X))


# What it covers.


def test_print_says_what_is_covered(models: Any, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = models.build()
    artifact = framejit.precompile(model, (X,), backend="eager")
    text = str(artifact)
    assert text.startswith("artifact of the module Sequential, made with framejit ")
    assert "1 entry, 0 libraries of kernels" in text and "made from the source of models_to_precompile, " in text
    assert "the module Sequential, grad mode True, inference mode False:" in text
    assert "input is a Tensor([3, 4], strides (4, 1), torch.float32, cpu)" in text
    assert " guards\n" in text and " on the module" in text and "1 on torch's modes and settings" in text
    artifact.save(tmp_path / "made")
    assert __main__.main(["artifact", str(tmp_path / "made")]) == 0
    assert capsys.readouterr().out == text + "\n"
    assert __main__.main(["artifact", str(tmp_path / "none")]) == 1
    (entry,) = artifact.entries
    assert any("GAIN" in guard for guard in entry.guards) and entry.calls == ("input is a Tensor([3, 4], strides (4, 1), torch.float32, cpu)",)


# All calls with sizes in given ranges.


def head(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x @ y if x.shape[0] <= 10 else x.sum()


def unrolled(x: torch.Tensor) -> Any:
    return sum(x[row] for row in range(x.shape[0]))


def masked(ids: torch.Tensor, mask: list[torch.Tensor], *, more: dict[str, torch.Tensor] | None = None) -> torch.Tensor:
    return (ids * mask[0]).sum(1) if more is None else (ids * more["a"]).sum(1)


def up_to(name: str, most: int, least: int = 0) -> torch.export.Dim:
    return torch.export.Dim(name, min=least, max=most)


A, B = torch.randn(3, 4), torch.randn(4, 5)
DOMAINS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], dict[str, Any], int]] = {
    "one size": (scaled, (A, 2), {}, {"x": (up_to("rows", 6), 4)}, 4),
    "one size from 3 on": (scaled, (A, 2), {}, {"x": (up_to("rows", 6, 3), 4)}, 1),
    "two tensors": (head, (A, B), {}, {"x": ("rows", 4), "y": (4, "columns")}, 10),
    "a size in both": (head, (A, B), {}, {"x": (up_to("rows", 12), "inner"), "y": ("inner", 5)}, 12),
    "a loop over a size": (unrolled, (A,), {}, {"x": (up_to("rows", 5, 1), 4)}, 5),
    "containers": (masked, (A, [A]), {}, {"ids": ("rows", 4), "mask": [("rows", 4)]}, 3),
    "keywords": (masked, (A, []), {"more": {"a": A}}, {"ids": ("rows", 4), "more": {"a": ("rows", 4)}}, 3),
    "nothing varies": (scaled, (A, 2), {}, {"x": (3, 4)}, 1),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_every_call_of_a_domain_has_an_entry(name: str) -> None:
    """z3 proves it, and calls of all small sizes agree."""
    target, args, kwargs, shapes, entries = DOMAINS[name]
    artifact = framejit.precompile(target, args, kwargs, shapes=shapes, backend="eager")
    assert artifact.domain is not None and artifact.domain.proved and not artifact.domain.raising, str(artifact)
    assert len(artifact.entries) == entries and "proved by z3: each of the calls with " in str(artifact)
    compiled = artifact.bind(target)
    declared = parse(shapes)
    framejit.reset()
    served = 0
    for first, second in itertools.product(range(8), repeat=2):
        for given, named in calls_like(target, args, kwargs, first, second):
            if fits(declared, target, given, named):
                torch.testing.assert_close(compiled(*given, **named), target(*given, **named))
                served += 1
    assert served and compiled_frames() == 0


def calls_like(target: Any, args: Any, kwargs: Any, first: int, second: int) -> Iterator[tuple[Any, Any]]:
    """Calls whose tensors have other sizes: the first dimension of all, or the second one, or those between two matrices."""
    if target is head:
        yield (torch.ones(first, 4), torch.ones(4, second)), {}
        yield (torch.ones(first, second), torch.ones(second, 5)), {}
    else:
        tensor = torch.arange(first * 4.0).reshape(first, 4)
        given = tuple([tensor if isinstance(each, torch.Tensor) else [tensor] if each and isinstance(each, list) else each for each in args])
        yield given, {name: {"a": tensor} for name in kwargs}


def fits(declared: DeclaredShapes, target: Any, args: Any, kwargs: Any) -> bool:
    """Return whether a call is in the declared domain."""
    defaults = inspect.signature(target).bind(*args, **kwargs)
    defaults.apply_defaults()
    code = target.__code__
    slots = tuple(defaults.arguments[name] for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    try:
        declared.find(Call(slots, target))
    except framejit.ConstraintViolation:
        return False
    return True


def test_calls_outside_of_a_domain_are_errors() -> None:
    compiled = framejit.precompile(scaled, (A, 2), shapes={"x": (up_to("rows", 6, 3), 4)}, backend="eager").bind(scaled)
    with pytest.raises(framejit.NotPrecompiled, match=r"x.size\(0\) >= 3"):
        compiled(torch.ones(2, 4), 2)
    with pytest.raises(framejit.NotPrecompiled, match="strides"):
        compiled(torch.ones(4, 5).t(), 2)


def test_sizes_for_which_the_program_raises_are_named() -> None:
    artifact = framejit.precompile(head, (A, B), shapes={"x": (up_to("rows", 20, 2), 4), "y": (up_to("inner", 9, 2), 5)}, backend="eager")
    assert artifact.domain is not None and artifact.domain.proved and len(artifact.entries) == 2
    (raising,) = artifact.domain.raising
    assert "rows <= 10" in raising and "inner != 4" in raising
    assert "mat1 and mat2 shapes cannot be multiplied" in raising and "except where the program raises" in str(artifact)
    compiled = artifact.bind(head, on_miss="eager")
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        compiled(torch.ones(2, 4), torch.ones(5, 5))


def test_what_isnt_proved_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def splits(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 5:
            print(end="")
        return x + 1

    artifact = framejit.precompile(splits, (A,), shapes={"x": (up_to("rows", 9, 2), 4)}, backend="eager")
    assert artifact.domain is not None and not artifact.domain.proved
    (unproved,) = artifact.domain.unproved
    assert "rows >= 6" in unproved and "FJ012" in unproved
    assert "not proved" in str(artifact) and "rows >= 6" in caplog.text


WRONG_DOMAINS: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "no such argument": (framejit.BadArgument, {"z": ("rows", 4)}),
    "no tensor": (framejit.BadArgument, {"n": ("rows", 4)}),
    "other dimensions": (framejit.BadArgument, {"x": ("rows", 4, 1)}),
    "not passed": (framejit.BadArgument, {"by": ("rows",)}),
    "another size": (framejit.ConstraintViolation, {"x": (4, 4)}),
    "outside of the bounds": (framejit.ConstraintViolation, {"x": (up_to("rows", 2), 4)}),
    "one name for two sizes": (framejit.ConstraintViolation, {"x": ("rows", "rows")}),
}


@pytest.mark.parametrize("name", WRONG_DOMAINS)
def test_declarations_that_dont_fit_the_example(name: str) -> None:
    error, shapes = WRONG_DOMAINS[name]
    with pytest.raises(error):
        framejit.precompile(scaled, (A, 2), shapes=shapes, backend="eager")


def test_a_tensor_that_is_passed_twice() -> None:
    """It is one tensor in all calls of the domain, and has the sizes of both declarations."""
    artifact = framejit.precompile(torch.add, (A, A), shapes={}, backend="eager")
    assert artifact.domain is not None and artifact.domain.proved
    artifact = framejit.precompile(added, (A, A), shapes={"x": ("n", 4), "y": (up_to("m", 9, 2), up_to("k", 9, 2))}, backend="eager")
    assert artifact.domain is not None and artifact.domain.proved and artifact.domain.calls == ("x of (n, k)",)


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def test_a_domain_has_one_example() -> None:
    with pytest.raises(framejit.BadArgument, match="one call"):
        framejit.precompile(scaled, [(A, 2), (A, 3)], shapes={"x": ("rows", 4)}, backend="eager")


# Models without weights.


@pytest.fixture
def fake() -> FakeTensorMode:
    return FakeTensorMode()


def test_a_model_without_weights(models: Any, fake: FakeTensorMode, tmp_path: pathlib.Path) -> None:
    """An artifact made from fake tensors serves the same model with real weights. The fake model stays unchanged."""
    with fake:
        model, x = models.build(), torch.randn(3, 4)
        inside = framejit.precompile(model, (x,), backend="eager")
    shapes = {"input": (up_to("rows", 9, 1), 4)}
    outside = framejit.precompile(model, (x,), shapes=shapes, backend="eager")
    assert outside.domain is not None and outside.domain.proved
    assert all(type(parameter) is FakeTensor for parameter in model.parameters())
    framejit.reset()
    real = models.build()
    for artifact in (inside, outside):
        artifact.save(tmp_path / "made")
        torch.testing.assert_close(framejit.load(tmp_path / "made", real)(X), real(X))
    assert compiled_frames() == 0


class Decides(nn.Module):
    """A module whose code depends on the data of a buffer, and prints if asked to."""

    def __init__(self, prints: bool) -> None:
        super().__init__()
        self.register_buffer("flag", torch.tensor(True))
        self.prints = prints
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.prints:
            print("before the break")
        self.calls += 1
        return x + 1 if self.flag else x - 1


@pytest.mark.parametrize("prints", [False, True])
def test_fake_tensors_have_no_data_to_decide_by(fake: FakeTensorMode, prints: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with fake:
        model, x = Decides(prints), torch.randn(3, 4)
    with pytest.raises(framejit.ArtifactError, match="nothing that can be saved") as raised:
        framejit.precompile(model, (x,), backend="eager")
    assert ("FJ012" if prints else "it depends on the data of self.flag, which is a fake tensor's") in str(raised.value)
    assert model.calls == 0 and capfd.readouterr().out == ""


def test_other_devices() -> None:
    with pytest.raises(framejit.ArtifactError, match="only code for CPUs can be saved"):
        framejit.precompile(nn.Linear(4, 2, device="meta"), (X,))
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(3, 4, device="meta")
    with pytest.raises(framejit.ArtifactError, match="only code for CPUs can be saved"):
        framejit.precompile(torch.sin, (x,))


# Processes, with Inductor.

PROGRAM = """
    import sys
    import torch
    import framejit
    import models_to_precompile

    model, x = models_to_precompile.build(), torch.arange(12.0).reshape(3, 4)
    with torch.no_grad():
        if sys.argv[1] == "make":
            artifact = framejit.precompile(model, (x,), shapes={"input": (torch.export.Dim("batch", min=1, max=64), 4)})
            assert artifact.domain.proved
            artifact.save(sys.argv[2])
        else:
            compiled = framejit.load(sys.argv[2], model)
            for batch in (x, x + 1, x[:1], torch.randn(64, 4)):
                assert torch.allclose(compiled(batch), model(batch), atol=1e-5)
        names = ("torch._dynamo", "torch._inductor", "sympy", "z3", "framejit.compiler.compile")
        print(framejit.statistics()["frames"], *[name for name in names if name in sys.modules])
"""

TRAINING = """
    import sys
    import torch
    import framejit
    import models_to_precompile

    model, x = models_to_precompile.build(), torch.arange(12.0).reshape(3, 4)
    if sys.argv[1] == "make":
        framejit.precompile(model, (x,), shapes={"input": (torch.export.Dim("batch", min=1, max=64), 4)}).save(sys.argv[2])
    else:
        compiled = framejit.load(sys.argv[2], model)
        for batch in (x, x[:1], torch.randn(64, 4)):
            gradients = []
            for call in (compiled, model):
                model.zero_grad()
                call(batch).square().mean().backward()
                gradients.append([parameter.grad.clone() for parameter in model.parameters()])
            for found, expected in zip(*gradients, strict=True):
                torch.testing.assert_close(found, expected)
    print(*[name for name in ("torch._inductor.compile_fx", "framejit.compiler.compile") if name in sys.modules])
"""


def run(folder: pathlib.Path, program: str, *args: str, **variables: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "FRAMEJIT_CHECK": "", "FRAMEJIT_CACHE": "0", "PYTHONPATH": str(folder), **variables}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), *args], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_models_are_trained_in_another_process_without_a_compiler(tmp_path: pathlib.Path) -> None:
    (tmp_path / "models_to_precompile.py").write_text(textwrap.dedent(MODELS))
    path = str(tmp_path / "made")
    assert len(run(tmp_path, TRAINING, "make", path).split()) == 2
    assert run(tmp_path, TRAINING, "load", path, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "empty")).split() == []


def test_inductors_code_runs_in_another_process_without_a_compiler(tmp_path: pathlib.Path) -> None:
    (tmp_path / "models_to_precompile.py").write_text(textwrap.dedent(MODELS))
    path = str(tmp_path / "made")
    assert run(tmp_path, PROGRAM, "make", path, PYTHONHASHSEED="1").split()[0] == "2"
    assert run(tmp_path, PROGRAM, "load", path, PYTHONHASHSEED="2", TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "empty")).split() == ["0"]
