"""Graph breaks beside torch.compile: graphs and operations left outside for each construct; loops; time per call and of the first call."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import platform
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch.overrides import TorchFunctionMode

from tools import isolate
from tools.bench import break_cases, markdown
from tools.compilers import COMPILERS, Compiler
from tools.measure import alternate, elapsed

OURS, DEFAULT, NESTED = "framejit", "torch", "torch, nested breaks"
SUBJECTS = (OURS, DEFAULT, NESTED)
LOOPS = (5, 50, 1_000, 100_000)
CALLS = 3


def prepared(subject: str) -> Compiler:
    """The compiler, with the setting that its name states; for a process of its own."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if subject == NESTED:
        torch._dynamo.config.nested_graph_breaks = True  # type: ignore[attr-defined]
    for name in ("torch", "framejit"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return COMPILERS["framejit" if subject == OURS else "torch"]()


class Counting:
    """A backend that runs graphs as they are, and counts them and the operations that they run."""

    def __init__(self) -> None:
        self.graphs = self.operations = 0

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        self.graphs += 1
        size = sum(map(is_operation, graph.graph.nodes))

        def run(*inputs: Any) -> Any:
            self.operations += size
            return graph.forward(*inputs)

        return run


def is_operation(node: torch.fx.Node) -> bool:
    """Return whether a node computes a tensor: arithmetic on symbolic sizes doesn't, nor do switches of modes."""
    made = node.meta.get("example_value", node.meta.get("val"))
    return node.op in ("call_function", "call_method") and isinstance(made, torch.Tensor)


class Eager(TorchFunctionMode):
    """Counts the operations of torch that a program runs; reading a property doesn't count."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += function.__name__ not in ("__get__", "__hash__", "__len__")
        return function(*args, **(kwargs or {}))


def argument() -> torch.Tensor:
    return torch.arange(1.0, 5.0)


def constructs(subject: str) -> dict[str, tuple[int, int] | str]:
    """For each construct the graphs of three calls and the operations that the last one runs outside of graphs; or what went wrong."""
    compiler = prepared(subject)
    found: dict[str, tuple[int, int] | str] = {}
    for name, function in break_cases.CONSTRUCTS.items():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            x = argument()
            with Eager() as eager:
                expected = function(x)
            compiler.reset()
            backend = Counting()
            compiled = compiler.compile(function, backend)
            try:
                for _ in range(CALLS):
                    backend.operations = 0
                    result = compiled(argument())
            except Exception as error:
                found[name] = type(error).__name__
                continue
        same = torch.allclose(expected, result)
        found[name] = (backend.graphs, eager.operations - backend.operations) if same else "wrong result"
    return found


class Messages(logging.Handler):
    """A handler that counts the warnings of a compiler about limits."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.limits = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.limits += "limit" in record.getMessage()


def loop(subject: str, iterations: int) -> tuple[int, float, float, float, str]:
    """Graphs, seconds of the first and the second call, growth of the peak of resident memory in MiB, and what went wrong."""
    compiler = prepared(subject)
    messages = Messages()
    for name in ("torch", "framejit"):
        logging.getLogger(name).setLevel(logging.WARNING)
        logging.getLogger(name).addHandler(messages)
    compiler.compile(lambda x: x + 1, "eager")(argument())
    compiler.reset()
    backend = Counting()
    function = break_cases.loop_of(iterations)
    compiled = compiler.compile(function, backend)
    before = peak()
    trouble = ""
    times = [float("nan")] * 2
    try:
        for i in range(2):
            times[i], result = elapsed(lambda: compiled(argument()))
        if not torch.equal(result, function(argument())):
            trouble = "wrong result"
    except Exception as error:
        trouble = type(error).__name__
    return backend.graphs, *times, peak() - before, trouble or ("limit of recompiles" if messages.limits else "")


def peak() -> float:
    """The highest resident size of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def per_call(seconds: float) -> dict[str, float]:
    """Seconds of a call with five nested breaks, by compiler; both in one process, taking turns."""
    function = break_cases.five_nested
    calls: dict[str, Callable[[], Any]] = {}
    x = argument()
    calls["eager"] = lambda: function(x)
    for subject in (OURS, DEFAULT):
        compiled = prepared(subject).compile(function, "eager")
        calls[subject] = lambda compiled=compiled: compiled(x)
    return alternate(calls, seconds)


def nested_per_call(seconds: float) -> dict[str, float]:
    """Seconds of a call with five nested breaks, by torch with its nested breaks, for a process of its own."""
    x = argument()
    compiled = prepared(NESTED).compile(break_cases.five_nested, "eager")
    return alternate({NESTED: lambda: compiled(x)}, seconds)


def first_call(subject: str, repeat: int) -> dict[str, float]:
    """Seconds of the first call of a function with twenty breaks: the best of several fresh compiles."""
    compiler = prepared(subject)
    x = argument()
    best = float("inf")
    for _ in range(repeat + 1):
        compiler.reset()
        compiled = compiler.compile(break_cases.twenty_breaks, "eager")
        best = min(best, elapsed(lambda compiled=compiled: compiled(x))[0])
    return {subject: best}


def run(function: Callable[..., Any], *args: Any, timeout: float) -> Any:
    """A measurement in a process of its own; a string says what went wrong."""
    try:
        return isolate.call(function, *args, timeout=timeout, fresh=True)
    except isolate.Crash as crash:
        return str(crash).strip().splitlines()[-1]


def construct_rows(timeout: float) -> list[tuple[str, ...]]:
    """The cells of the table of constructs."""
    found = {subject: run(constructs, subject, timeout=timeout) for subject in SUBJECTS}
    rows = []
    for name in break_cases.CONSTRUCTS:
        cells = [found[subject] if isinstance(found[subject], str) else found[subject][name] for subject in SUBJECTS]
        left = [cell[1] for cell in cells if not isinstance(cell, str)]
        ours = cells[0]
        verdict = "yes" if not isinstance(ours, str) and ours[1] <= min(left) else "no"
        pairs = [(cell, "") if isinstance(cell, str) else (str(cell[0]), str(cell[1])) for cell in cells]
        rows.append((name, *(text for pair in pairs for text in pair), verdict))
    return rows


def loop_rows(timeout: float) -> list[tuple[str, ...]]:
    """The cells of the table of loops."""
    rows = []
    for iterations in LOOPS:
        for subject in SUBJECTS:
            found = run(loop, subject, iterations, timeout=timeout)
            if isinstance(found, str):
                rows.append((f"{iterations:,}", subject, "", "", "", "", found))
            else:
                graphs, first, second, memory, trouble = found
                rows.append((f"{iterations:,}", subject, str(graphs), f"{first:.3g}", f"{second:.3g}", f"{memory:.0f}", trouble or "none"))
            print(markdown.fixed(rows[-1], (8, 22, 5, 9, 9, 5, 30)), flush=True)
    return rows


def time_rows(repeat: int, timeout: float) -> list[tuple[str, ...]]:
    """The cells of the table of times."""
    rows = []
    first = [run(first_call, subject, repeat, timeout=timeout) for subject in SUBJECTS]
    calls = [run(per_call, float(repeat), timeout=timeout), run(nested_per_call, 1.0, timeout=timeout)]
    for about, unit, scale, parts in (("call with 5 nested breaks", "us", 1e6, calls), ("first call with 20 breaks", "ms", 1e3, first)):
        found: dict[str, float] = {}
        for part in parts:
            found.update(part if isinstance(part, dict) else {})
        cells = [f"{found[name] * scale:.3g}" if name in found else "failed" for name in ("eager", *SUBJECTS) if name in found or name != "eager"]
        ratio = found[OURS] / found[DEFAULT] if OURS in found and DEFAULT in found else None
        cells = cells if "eager" in found else ["", *cells]
        verdict = "" if ratio is None else "reached" if ratio <= 0.5 else "missed"
        rows.append((about, unit, *cells, "-" if ratio is None else f"{ratio:.2f}", "0.5", verdict))
    return rows


CONSTRUCT_HEADER = ("construct", *(f"{subject}: {what}" for subject in SUBJECTS for what in ("graphs", "left out")), "never more left out")
LOOP_HEADER = ("iterations", "compiler", "graphs", "first call s", "second call s", "memory MiB", "messages and errors")
TIME_HEADER = ("measure", "unit", "eager", *SUBJECTS, "ratio", "target", "verdict")


def document(constructs_: list[tuple[str, ...]], loops: list[tuple[str, ...]], times: list[tuple[str, ...]]) -> str:
    """The Markdown page."""
    machine = f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"
    return "\n".join(
        [
            "# Graph breaks beside torch.compile",
            "",
            f"Written by `python tools/bench/breaks.py --markdown docs/breaks-table.md` ({machine}).",
            "",
            "Compared are framejit, torch.compile with its default settings, and torch.compile with",
            "`torch._dynamo.config.nested_graph_breaks = True`. The constructs are the functions of `tools/bench/break_cases.py`.",
            "",
            "## Constructs with a break inside",
            "",
            "*graphs* are those that three calls with equal arguments compile. *left out* are the operations of torch in the third call that",
            "run outside of graphs: those of eager, less those that graphs run. What can't be in a graph, such as `.item()`, counts for all.",
            "",
            markdown.table(CONSTRUCT_HEADER, constructs_, right=(1, 2, 3, 4, 5, 6)),
            "",
            "## A helper with a break in its middle, called in a loop",
            "",
            "*memory* is how far the peak of resident memory rises in both calls. *messages and errors*: whether a limit of recompiles was",
            "reported, or what the calls raised.",
            "",
            markdown.table(LOOP_HEADER, loops, right=(0, 2, 3, 4, 5)),
            "",
            "## Time",
            "",
            "With the backend that runs graphs as they are; the best of several. *ratio* is framejit / torch.compile with default settings.",
            "",
            markdown.table(TIME_HEADER, times, right=(2, 3, 4, 5, 6, 7)),
            "",
        ]
    )


def main() -> int:
    """Runs everything; the exit status is 1 if framejit leaves more operations out than torch.compile or misses a target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="fresh compiles, and seconds of timing (default 5)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which one measurement is given up (default 300)")
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file, such as docs/breaks-table.md")
    options = parser.parse_args()
    start = time.perf_counter()
    constructs_ = construct_rows(options.timeout)
    for row in constructs_:
        print(markdown.fixed(row, (34, 7, 7, 7, 7, 7, 7, 5)), flush=True)
    times = time_rows(options.repeat, options.timeout)
    for row in times:
        print(markdown.fixed(row, (28, 4, 8, 8, 8, 20, 6, 6, 8)), flush=True)
    loops = loop_rows(options.timeout)
    print(f"{time.perf_counter() - start:.0f} s")
    if options.markdown:
        options.markdown.write_text(document(constructs_, loops, times), encoding="utf-8")
    ours = [row for row in loops if row[1] == OURS]
    good = all(row[-1] == "yes" for row in constructs_) and all(row[-1] == "reached" for row in times) and all(row[-1] == "none" for row in ours)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
