"""The compilers that are interchangeable in the demo, the zoo and the benchmarks: framejit, torch and eager."""

from __future__ import annotations

import gc
import importlib
import logging
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

PROJECT = Path(__file__).resolve().parents[1]
Backend = str | Callable[..., Any]
MOST_REASONS = 4
"""At most this many reasons are shown for a bad result."""


def quiet() -> None:
    """Silences the compilers' warnings, which would break up the tables; the tables say what went wrong."""
    warnings.simplefilter("ignore")
    for name in ("torch", "framejit"):
        logging.getLogger(name).setLevel(logging.ERROR)


def one_line(text: str, limit: int = 300) -> str:
    """A message on one line, shortened, with relative paths: those of libraries to where they are installed, those of this project's files to its folder."""
    text = re.sub(r"[^\s\"'()]*/(site-packages|lib/python3\.\d+)/", "", " ".join(text.split())).replace(f"{PROJECT}/", "")
    return text if len(text) <= limit else text[:limit] + " ..."


@dataclass(frozen=True)
class Statistics:
    """A compiler's statistics since the last reset; `guards` is None if the compiler doesn't report it, and `uncompiled` has the frames that run uncompiled."""

    graphs: int = 0
    graph_breaks: int = 0
    recompiles: int = 0
    fallbacks: int = 0
    guards: int | None = None
    reasons: tuple[str, ...] = field(default=())
    uncompiled: tuple[str, ...] = field(default=())

    def complaint(self, entries: int = 1) -> str:
        """The reason why this isn't exactly one graph for each of `entries`; empty if it is."""
        found = []
        if self.fallbacks:
            found.append(f"{self.fallbacks} fallback(s)")
        if self.graph_breaks:
            found.append(f"{self.graph_breaks} graph break(s)")
        if self.recompiles >= entries:
            found.append(f"{self.recompiles} recompile(s)")
        if self.graphs != entries:
            found.append(f"{self.graphs} graphs")
        reasons = list(dict.fromkeys(one_line(reason) for reason in self.reasons))
        more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
        return ", ".join(found) + (": " + "; ".join(reasons[:MOST_REASONS]) + more if found and reasons else "")


class Compiler:
    """A compiler under its name: compile, reset, statistics."""

    name = "eager"

    def compile(self, function: Any, backend: Backend, dynamic: bool | None = None) -> Any:
        """The compiled form of a function or module. `dynamic`: whether sizes are symbolic; None leaves it to the compiler."""
        return function

    def reset(self) -> None:
        """Forgets everything compiled and collects garbage."""
        gc.collect()

    def statistics(self) -> Statistics:
        """Return the statistics since the last reset."""
        return Statistics(graphs=1)


class Recompiles(logging.Handler):
    """Collects the messages of framejit's log of recompiles, which is written only if somebody listens."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.texts: list[str] = []
        logger = logging.getLogger("framejit.reporting.recompiles")
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class Framejit(Compiler):
    """framejit through its public surface."""

    name = "framejit"

    def __init__(self) -> None:
        self.module = importlib.import_module("framejit")
        self.recompiles = Recompiles()

    def compile(self, function: Any, backend: Backend, dynamic: bool | None = None) -> Any:
        return self.module.compile(function, backend=backend, dynamic=dynamic)

    def reset(self) -> None:
        self.module.reset()
        self.recompiles.texts.clear()
        super().reset()

    def statistics(self) -> Statistics:
        found = self.module.statistics()
        return Statistics(
            graphs=found["graphs"],
            graph_breaks=found["graph_breaks"],
            recompiles=found["recompiles"],
            fallbacks=found["fallbacks"],
            guards=found.get("guards"),
            reasons=(*found["reasons"], *self.recompiles.texts),
            uncompiled=tuple(found["uncompiled"]),
        )


def is_recompile(metrics: Any) -> bool:
    """Return whether torch.compile compiled a frame again: its id is 'frame/number', or longer where the compilation belongs to a backward pass."""
    return bool(metrics.co_name and metrics.compile_id) and int(metrics.compile_id.rpartition("/")[2].partition("_")[0]) > 0


class Torch(Compiler):
    """torch.compile, counted by its own counters."""

    name = "torch"

    def __init__(self) -> None:
        self.utils = importlib.import_module("torch._dynamo.utils")
        self.utils.set_compilation_metrics_limit(100_000)

    def compile(self, function: Any, backend: Backend, dynamic: bool | None = None) -> Any:
        return torch.compile(function, backend=backend, dynamic=dynamic)

    def reset(self) -> None:
        torch.compiler.reset()
        self.utils.counters.clear()
        self.utils.clear_compilation_metrics()
        super().reset()

    def statistics(self) -> Statistics:
        counters = self.utils.counters
        breaks = counters["graph_break"]
        return Statistics(
            graphs=counters["stats"]["unique_graphs"],
            graph_breaks=sum(breaks.values()),
            recompiles=sum(map(is_recompile, self.utils.get_compilation_metrics())),
            reasons=tuple(reason.splitlines()[0] for reason in breaks),
        )


COMPILERS: dict[str, type[Compiler]] = {compiler.name: compiler for compiler in (Framejit, Torch, Compiler)}
