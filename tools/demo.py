"""`make demo`: real models compiled and run, compared with eager, timed, in a table that grows as it goes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

# An error inside framejit must fail its row here, not fall back to eager.
os.environ.setdefault("FRAMEJIT_STRICT", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch._inductor.config
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tools import models
from tools.check import Outcome, check
from tools.compilers import COMPILERS, quiet

PHASES = {
    "bert": ("inference", "training"),
    "llama": ("inference", "training"),
    "resnet18": ("inference", "training"),
    "mlp": ("inference", "training", "loop"),
    "ragged": ("batches", "epoch"),
}
"""The phases in which a model is run, by its name, if these aren't inference alone."""
COLUMNS = (
    ("model", 10, "left"),
    ("phase", 10, "left"),
    ("graphs", 6, "right"),
    ("guards", 6, "right"),
    ("correct (max error)", 19, "left"),
    ("first call s", 12, "right"),
    ("eager ms", 9, "right"),
    ("compiled ms", 11, "right"),
    ("speed-up", 8, "right"),
)


def rows(only: str | None) -> list[tuple[models.Architecture, str]]:
    """The rows of the table: models in inference, some in training, the plain-Python one in a loop with an optimizer, one with batches of many sizes."""
    architectures = models.select(models.DEMO, only)
    return [(architecture, phase) for architecture in architectures for phase in PHASES.get(architecture.name, ("inference",))]


def cells(outcome: Outcome) -> tuple[str, ...]:
    """One outcome as the table's cells."""

    def number(value: float | None, form: str, scale: float = 1.0) -> str:
        return "-" if value is None else format(value * scale, form)

    found = outcome.statistics
    return (
        outcome.model,
        outcome.phase,
        str(found.graphs),
        "-" if found.guards is None else str(found.guards),
        ("NO" if outcome.failure else "yes") + ("" if outcome.error is None else f" ({outcome.error:.1e})"),
        number(outcome.first_call, ".2f"),
        number(outcome.eager, ".2f", 1e3),
        number(outcome.compiled, ".2f", 1e3),
        number(outcome.speedup, ".2f") + ("x" if outcome.speedup else ""),
    )


class Display:
    """The table on the way: redrawn in place on a terminal, one line after the other elsewhere."""

    def __init__(self, title: str, total: int) -> None:
        self.console = Console()
        self.title = title
        self.total = total
        self.outcomes: list[Outcome] = []
        self.live = Live(console=self.console, auto_refresh=self.console.is_terminal) if self.console.is_terminal else None

    def __enter__(self) -> Display:
        if self.live:
            self.live.start()
        else:
            print(self.title)
            self._line(tuple(name for name, _, _ in COLUMNS))
        return self

    def __exit__(self, *exception: object) -> None:
        if self.live:
            self.live.update(self._table(), refresh=True)
            self.live.stop()

    def start(self, architecture: models.Architecture, phase: str) -> None:
        """Says what runs now."""
        if self.live:
            text = f" {len(self.outcomes) + 1}/{self.total}  {architecture.name}, {phase}: compiling and running"
            self.live.update(Group(self._table(), Spinner("dots", text)), refresh=True)

    def add(self, outcome: Outcome) -> None:
        """Adds a finished row."""
        self.outcomes.append(outcome)
        if self.live:
            self.live.update(self._table(), refresh=True)
        else:
            self._line(cells(outcome))

    def _table(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        for name, width, side in COLUMNS:
            table.add_column(name, justify="right" if side == "right" else "left", min_width=min(width, 8))
        for outcome in self.outcomes:
            texts = [Text(cell) for cell in cells(outcome)]
            texts[4].stylize("bold red" if outcome.failure else "green")
            table.add_row(*texts)
        return table

    def _line(self, texts: tuple[str, ...]) -> None:
        parts = [
            f"{text:>{width}}" if side == "right" else f"{text:<{width}}" for text, (_, width, side) in zip(texts, COLUMNS, strict=True)
        ]
        print("  ".join(parts).rstrip(), flush=True)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="inductor", help="inductor (the default), eager, aot_eager, or any registered backend")
    parser.add_argument(
        "--compiler", default="framejit", choices=sorted(COMPILERS), help="what compiles; torch and eager are for comparison"
    )
    parser.add_argument("--device", default="cpu", help="cpu (the default) or cuda")
    parser.add_argument("--only", help=f"comma-separated models: {', '.join(row.name for row in models.DEMO)}")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each row is timed (default 1)")
    options = parser.parse_args()
    try:
        models.select(models.DEMO, options.only)
    except ValueError as error:
        parser.error(str(error))
    return options


def main() -> int:
    """Runs the demo; the exit status is 1 if any row is wrong, isn't one graph, or fell back."""
    options = arguments()
    # Dropout must draw what eager draws, or gradients couldn't be compared.
    torch._inductor.config.fallback_random = True
    torch.set_float32_matmul_precision("highest")
    compiler = COMPILERS[options.compiler]()
    quiet()
    work = rows(options.only)
    threads = f"{torch.get_num_threads()} threads" if options.device == "cpu" else options.device
    title = f"{compiler.name}, backend {options.backend}, torch {torch.__version__}, {threads}"
    start = time.perf_counter()
    with Display(title, len(work)) as display:
        for architecture, phase in work:
            display.start(architecture, phase)
            display.add(check(architecture, phase, compiler, options.backend, options.device, options.seconds))
    bad = [outcome for outcome in display.outcomes if outcome.failure]
    for outcome in bad:
        print(f"{outcome.model}, {outcome.phase}: {outcome.failure}")
    print(f"{len(work) - len(bad)} of {len(work)} rows right, in no more graphs than needed, without fallback; {time.perf_counter() - start:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
