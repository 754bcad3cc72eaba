"""Measures the seconds of CPU that deep models need until their first result, with Inductor and without caches, beside torch.compile.

Each figure is that of a fresh process.

    python -m tools.bench.start                                  every model, inference and training, the first traces and the growth
    python -m tools.bench.start --only bert24,vit24 --measure inference
    python -m tools.bench.start --markdown docs/start-table.md   replaces the rows of the page that the run has measured

The compilers: framejit; framejit without regions (`regions=False`); torch.compile; and torch.compile with each layer marked `nested_compile_region`.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import framejit
from tools.bench import fresh, markdown
from tools.models import WIDE, Example, decoder, encoder, image_model, scalar_loss, vision

COMPILERS = ("framejit", "whole", "torch", "marked")
PROBE = """
import framejit, torch
for compiler in torch.compile, framejit.compile:
    compiler(lambda x: (x.sin() * x.cos()).exp().sum(0))(torch.randn(7, 5))
"""
CACHES_OFF = {"FRAMEJIT_CACHE": "0", "TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
ARTIFACT = "BENCH_ARTIFACT"
"""The variable that names the file of an artifact (tools/bench/second.py)."""
MEASURES = ("inference", "training", "trace", "growth")
TRACED = ("bert36", "llama36", "vit36", "flux36")
"""The models of the measure `trace`: backend `eager`, and no C++ compiler."""
GROWTH = (12, 24, 48, 96)
"""The numbers of layers of the measure `growth`."""
HEADER = ("model", "measure", "framejit, s", "without regions, s", "torch, s", "torch with marks, s", "ratio", "ratio to marks", "call", "to eager's result")
WIDTHS = (9, 9, 11, 18, 8, 19, 6, 14, 6, 17)
SHORT_HEADER = ("model", "framejit, s", "torch, s", "ratio")


class FluxBlock(nn.Module):
    """A block of a diffusion transformer: attention over text and image, each of which is scaled and shifted by an embedding of the time."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.shifts = nn.ModuleList([nn.Linear(width, 6 * width) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(width, elementwise_affine=False) for _ in range(2)])
        self.mixes = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(2)])
        self.ends = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.feeds = nn.ModuleList([nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)) for _ in range(2)])
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(width // heads)) for _ in range(4)])

    def forward(self, image: torch.Tensor, text: torch.Tensor, time: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        streams, shifts, queries = [image, text], [], []
        for index, stream in enumerate(streams):
            shift = self.shifts[index](nn.functional.silu(time))[:, None].chunk(6, -1)
            mixed = self.mixes[index](self.norms[index](stream) * (1 + shift[1]) + shift[0])
            query, key, value = mixed.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            query = nn.functional.rms_norm(query, query.shape[-1:], self.scales[2 * index])
            key = nn.functional.rms_norm(key, key.shape[-1:], self.scales[2 * index + 1])
            shifts.append(shift)
            queries.append((query, key, value))
        query, key, value = [torch.cat(both, 2) for both in zip(*queries)]
        attended = nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        parts = attended.split([image.shape[1], text.shape[1]], 1)
        for index, (stream, part, shift) in enumerate(zip(streams, parts, shifts)):
            stream = stream + shift[2] * self.ends[index](part)
            fed = self.feeds[index](self.norms[index](stream) * (1 + shift[4]) + shift[3])
            streams[index] = stream + shift[5] * fed
        return streams[0], streams[1]


class Flux(nn.Module):
    """Blocks like Flux's, of width 256."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([FluxBlock() for _ in range(count)])
        self.last = nn.Linear(256, 16)

    def forward(self, image: torch.Tensor, text: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            image, text = block(image, text, time)
        return self.last(image)


def flux(count: int) -> Callable[[], Example]:
    return lambda: Example(Flux(count), (torch.randn(2, 64, 256), torch.randn(2, 32, 256), torch.randn(2, 256)))


def deep(build: Callable[..., Callable[[], Example]], prefix: str, count: int, **sizes: Any) -> Callable[[], Example]:
    return build(prefix, **{**WIDE, **sizes, "num_hidden_layers": count})


MODELS: dict[str, Callable[[], Example]] = {
    "resnet50": image_model("resnet50"),
    **{
        f"{name}{count}": build(count)
        for count in (24, 36)
        for name, build in (
            ("bert", lambda count: deep(encoder, "Bert", count)),
            ("llama", lambda count: deep(decoder, "Llama", count, num_key_value_heads=2)),
            ("vit", lambda count: deep(vision, "ViT", count, image_size=32, patch_size=4)),
            ("flux", flux),
        )
    },
}
GROWING = {f"bert{count}": deep(encoder, "Bert", count) for count in GROWTH}


def layers(model: nn.Module) -> list[nn.Module]:
    """The layers of a model: the members of its outermost lists of at least two modules that have children themselves."""
    for module in model.children():
        if isinstance(module, (nn.ModuleList, nn.Sequential)) and len(module) > 1 and any(True for _ in module[0].children()):
            return [*module] + [found for other in model.children() if other is not module for found in layers(other)]
    return [found for child in model.children() for found in layers(child)]


def used() -> float:
    """The seconds of CPU that this process and its children have used."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def precompiled(example: Example, path: Path) -> Any:
    """The model with the code of an artifact, which is made for inference if there is none."""
    if not path.exists():
        with torch.no_grad():
            framejit.precompile(example.model, example.args, example.kwargs).save(path)
    return framejit.load(path, example.model)


def run_one(name: str, measure: str, compiler: str, seconds: float) -> dict[str, float]:
    """The figures of this process: the CPU seconds until the first result, the milliseconds of a later call, the largest error of the result."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    example = {**GROWING, **MODELS}[name]()
    model = example.model.train(measure == "training")
    backend = "eager" if measure == "trace" else "inductor"
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0

    def call(run: Any) -> Any:
        if measure != "training":
            with torch.no_grad():
                return run(*example.args, **example.kwargs)
        model.zero_grad()
        scalar_loss(run(*example.args, **example.kwargs)).backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    def tensors(value: Any) -> list[torch.Tensor]:
        leaves = torch.utils._pytree.tree_leaves(dict(value) if hasattr(value, "keys") else value)
        return [leaf.detach().clone() for leaf in leaves if isinstance(leaf, torch.Tensor)]

    expected = tensors(call(model))
    marked: set[type] = set()
    if compiler == "marked":
        for layer in layers(model):
            cls = type(layer)
            cls.forward = torch.compiler.nested_compile_region(cls.forward) if "forward" in vars(cls) and cls not in marked else cls.forward
            marked.add(cls)
    start = used()
    if compiler in ("torch", "marked"):
        compiled: Any = torch.compile(model, backend=backend)
    elif compiler == "artifact":
        compiled = precompiled(example, Path(os.environ[ARTIFACT]))
    else:
        compiled = framejit.compile(model, backend=backend, **({"regions": False} if compiler == "whole" else {}))
    result = call(compiled)
    first = used() - start
    found = tensors(result)
    error = max(float((one - other).abs().max() / other.abs().max().clamp(min=1e-6)) for one, other in zip(found, expected) if one.is_floating_point())
    calls, best, end = 0, math.inf, time.perf_counter() + seconds
    while calls < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        call(compiled)
        best, calls = min(best, time.perf_counter() - start), calls + 1
    return {"first": first, "call": best * 1000, "error": error}


@contextlib.contextmanager
def without_caches() -> Iterator[dict[str, str]]:
    """The environment of a process that finds only what each compiler makes once on each machine: tests of the C++ compiler, and a precompiled header."""
    folder = Path(tempfile.gettempdir()) / f"framejit-start-{os.getpid()}"
    probed = folder.with_suffix(".probed")
    environment = {**fresh.environment(), **CACHES_OFF, "TORCHINDUCTOR_CACHE_DIR": str(folder)}
    if not probed.exists():
        subprocess.run([sys.executable, "-c", PROBE], env=environment, check=True)
        shutil.copytree(folder, probed)
        atexit.register(shutil.rmtree, probed)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(probed, folder)
    try:
        yield environment
    finally:
        shutil.rmtree(folder)


def measured(name: str, measure: str, compiler: str, seconds: float) -> dict[str, float]:
    """The figures of a fresh process without caches."""
    with without_caches() as environment:
        command = [sys.executable, "-m", "tools.bench.start", "--one", name, measure, compiler, str(seconds)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return {"first": math.nan, "call": math.nan, "error": math.nan}
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str, measure: str, seconds: float, compilers: Sequence[str]) -> tuple[str, ...]:
    """The cells of one model. The last two: a call's time beside that without regions, and the error of the first result."""
    found = {compiler: measured(name, measure, compiler, seconds) for compiler in compilers}
    first = {compiler: found[compiler]["first"] if compiler in found else math.nan for compiler in COMPILERS}
    call = found["framejit"]["call"] / found["whole"]["call"] if "whole" in found else math.nan
    ratios = (first["framejit"] / first["torch"], first["framejit"] / first["marked"], call)
    return name, measure, *(f"{first[compiler]:.1f}" for compiler in COMPILERS), *(f"{ratio:.2f}" for ratio in ratios), f"{found['framejit']['error']:.0e}"


def short_row(name: str, measure: str) -> tuple[str, ...]:
    """The cells of one model for which only the two compilers are compared."""
    ours, theirs = (measured(name, measure, compiler, 0)["first"] for compiler in ("framejit", "torch"))
    return name, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}"


def document(rows: Sequence[Sequence[str]], traces: Sequence[Sequence[str]], growth: Sequence[Sequence[str]]) -> str:
    """The Markdown page."""
    machine = f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"
    return "\n".join([
        "# The start of deep models, beside torch.compile",
        "",
        "![Seconds of CPU until the first result, framejit beside torch.compile: shorter is better](start.svg)",
        "",
        f"Written by `python -m tools.bench.start --markdown docs/start-table.md` ({machine}).",
        "",
        "Seconds of CPU, of the process and of the C++ compilers that it starts, until the first result (or the first gradients) with Inductor, in a fresh",
        "process without caches. The tests of the C++ compiler that are made once on each machine don't count.",
        "",
        "`ratio`: framejit's beside torch.compile's; `ratio to marks`: beside torch.compile's with each layer marked as a",
        "`nested_compile_region`, which framejit needs no marks for; `call`: the time of a later call beside that without regions.",
        "",
        markdown.table(HEADER, rows, right=tuple(range(2, len(HEADER)))),
        "",
        "## First traces",
        "",
        "The same with the backend `eager`, which compiles nothing. In a fresh process, each compiler loads itself first, which takes framejit some 0.15 s.",
        "",
        markdown.table(SHORT_HEADER, traces, right=(1, 2, 3)),
        "",
        "## Growth",
        "",
        "Inference with Inductor, as in the first table, for numbers of equal layers.",
        "",
        markdown.table(SHORT_HEADER, growth, right=(1, 2, 3)),
        "",
    ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"comma-separated models: {', '.join(MODELS)}")
    parser.add_argument("--measure", choices=MEASURES)
    parser.add_argument("--compilers", help=f"comma-separated: {', '.join(COMPILERS)}", default=",".join(COMPILERS))
    parser.add_argument("--seconds", type=float, default=2, help="how long later calls are timed (default 2)")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, measure, compiler, seconds = options.one
        print(json.dumps(run_one(name, measure, compiler, float(seconds))))
        return 0
    measures = [options.measure] if options.measure else MEASURES
    print(markdown.fixed(HEADER, WIDTHS))
    rows = []
    for name in options.only.split(",") if options.only else MODELS:
        for measure in [measure for measure in measures if measure in MEASURES[:2]]:
            rows.append(row(name, measure, options.seconds, options.compilers.split(",")))
            print(markdown.fixed(rows[-1], WIDTHS), flush=True)
    short: dict[str, list[tuple[str, ...]]] = {"trace": [], "growth": []}
    for measure, names in (("trace", TRACED), ("growth", GROWING)):
        for name in names if measure in measures and not options.only else ():
            short[measure].append(short_row(name, measure))
            print(measure, markdown.fixed(short[measure][-1], (9, 6, 6, 6)), flush=True)
    for column in (6, 8):
        figures = [float(cells[column]) for cells in rows if cells[column] != "nan"]
        if figures:
            print(f"{HEADER[column]}: geometric mean {statistics.geometric_mean(figures):.3f}, largest {max(figures):.2f}")
    if options.markdown:
        before = options.markdown.read_text(encoding="utf-8") if options.markdown.exists() else ""
        first, traces, growth = [*before.split("\n## "), "", ""][:3]
        page = document(
            markdown.merged(first, rows, 2, list(MODELS)),
            markdown.merged(traces, short["trace"], 1, TRACED),
            markdown.merged(growth, short["growth"], 1, list(GROWING)),
        )
        options.markdown.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
