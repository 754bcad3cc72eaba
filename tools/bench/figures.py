"""The headline figures: README's table and docs/figures.svg, made from the pages that the benchmarks have written. Nothing is measured here.

python -m tools.bench.figures            writes these, and docs/start.svg, the picture of docs/start-table.md and docs/second-table.md
python -m tools.bench.figures --check    says whether they are what the pages say; exits with 1 if they aren't
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tools.bench import markdown

ROOT = Path(__file__).parent.parent.parent
README, PLOT, START = ROOT / "README.md", ROOT / "docs" / "figures.svg", ROOT / "docs" / "start.svg"
BEGIN, END = "<!-- figures: written by python -m tools.bench.figures -->", "<!-- end of figures -->"
HEADER = ("BERT", "eager", "torch.compile", "framejit", "ratio", "command")
BENCH, TRAINING, ZOO = "`make bench`", "`tools/bench/training.py`", "`make zoo`"

# What is shown of docs/bench.md: a label, the case, the measure.
BENCHED = (
    ("first call without Inductor", "bert36", "first call, backend eager"),
    ("first call without Inductor, `dynamic=True`", "bert36", "first call, dynamic=True"),
    ("overhead of a call", "bert36", "overhead of a call, stored outputs"),
    ("overhead of a call, `dynamic=True`", "bert36", "overhead of a call, dynamic=True"),
    ("call with Inductor", "bert36", "call with Inductor"),
    ("calls with Inductor, `dynamic=True`", "bert", "calls with Inductor, dynamic=True"),
    ("peak memory", "bert36", "peak memory of the process"),
)
# What is shown of the training of BERT in docs/training.md, with Inductor: a label, the column, the unit.
TRAINED = (
    ("training step: graphs", "graphs", ""),
    ("training step with Inductor", "step ms", "ms"),
    ("its first three steps", "first steps s", "s"),
)


@dataclass(frozen=True)
class Headline:
    """One figure of both compilers, and of eager if it has one; smaller is better, unless `plotted` is false."""

    label: str
    unit: str
    eager: str
    torch: str
    framejit: str
    command: str
    plotted: bool = True

    def ratio(self) -> float:
        """framejit's figure over torch.compile's."""
        return float(self.framejit) / float(self.torch)

    def row(self) -> tuple[str, ...]:
        """Its row of README's table."""
        figures = (f"{figure} {self.unit}".strip() if figure else "" for figure in (self.eager, self.torch, self.framejit))
        return (self.label, *figures, f"{self.ratio():.2f}" if self.plotted else "", self.command)


def headlines(docs: Path) -> list[Headline]:
    """All headline figures, from the pages in a folder. Raises KeyError for one that its page no longer has."""
    return [*benched((docs / "bench.md").read_text()), *trained((docs / "training.md").read_text()), zoo((docs / "zoo.md").read_text())]


def benched(page: str) -> Iterator[Headline]:
    """Figures of docs/bench.md, each of which has a row with both compilers."""
    rows = {(row[0], row[1]): row for row in markdown.cells(page.partition("\n## ")[0])}
    for label, case, measure in BENCHED:
        _, _, unit, eager, torch, framejit, *_ = rows[case, measure]
        yield Headline(label, unit.replace("us", "µs"), eager if unit == "ms" else "", torch, framejit, BENCH)


def trained(page: str) -> Iterator[Headline]:
    """Figures of docs/training.md, which has a row for each compiler."""
    section = page.partition("\n## Backend `inductor`\n")[2].partition("\n## ")[0]
    header = next(line for line in section.splitlines() if line.startswith("|"))
    columns = [cell.strip() for cell in header.split("|")[1:-1]]
    rows = {(row[0], row[1]): dict(zip(columns, row, strict=True)) for row in markdown.cells(section)}
    ours, theirs = rows["bert", "framejit"], rows["bert", "torch"]
    for label, column, unit in TRAINED:
        yield Headline(label, unit, ours["eager ms"] if column == "step ms" else "", theirs[column], ours[column], TRAINING)


def zoo(page: str) -> Headline:
    """Return how many models of docs/zoo.md are one graph, both in inference and in training, as a headline."""
    rows = markdown.cells(page.partition("\n## ")[0])
    ours = sum(row[2] == row[5] == "1 graph" for row in rows)
    theirs = sum(row[10] == row[12] == "1 graph" for row in rows)
    return Headline(f"of {len(rows)} architectures: one graph in inference and in training", "", "", str(theirs), str(ours), ZOO, plotted=False)


def starts(docs: Path) -> Iterator[Headline]:
    """The start of deep models in a first process and in a second one, whose columns end in `, s`: seconds of CPU."""
    for page, kinds in (("start-table.md", ("inference", "training")), ("second-table.md", ("second process",))):
        section = (docs / page).read_text().partition("\n## ")[0]
        header = next(line for line in section.splitlines() if line.startswith("|"))
        columns = [cell.strip() for cell in header.split("|")[1:-1]]
        for row in markdown.cells(section):
            found = dict(zip(columns, row, strict=True))
            kind = found.get("measure", kinds[0])
            yield Headline(f"{found['model']}, {kind}", "s", "", found["torch, s"], found["framejit, s"], "`tools/bench/start.py`")


def table(figures: Sequence[Headline]) -> str:
    """README's table, between the lines that mark where it is."""
    return "\n".join([BEGIN, markdown.table(HEADER, [figure.row() for figure in figures], right=(1, 2, 3, 4)), END])


LEFT, WIDTH, RIGHT, ROW, TOP, BAR = 290, 800, 90, 46, 46, 15
COLOURS = {"torch": ("#8c959f", "#6e7681"), "framejit": ("#0969da", "#58a6ff"), "text": ("#24292f", "#e6edf3")}
"""The colours of what is drawn, by class, on light and on dark pages."""


def plot(figures: Sequence[Headline], title: str, caption: str, shared_scale: bool = False) -> str:
    """Two bars for each figure, the longer of them as wide as the picture (the longest of all with a `shared_scale`): an SVG that is readable on light and on
    dark pages."""
    plotted = [figure for figure in figures if figure.plotted]
    height = TOP + ROW * len(plotted)
    dark = " ".join(f".{name} {{ fill: {colour} }}" for name, (_, colour) in COLOURS.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="13" role="img">',
        f"<title>{title}: shorter is better</title>",
        f"<style>@media (prefers-color-scheme: dark) {{ {dark} }}</style>",
        text(LEFT, 21, f"{caption}; shorter is better"),
        *bar(LEFT + 250, 9, BAR, "torch", "torch.compile"),
        *bar(LEFT + 380, 9, BAR, "framejit", "framejit"),
    ]
    for index, figure in enumerate(plotted):
        top = TOP + ROW * index
        longest = max(float(value) for each in (plotted if shared_scale else [figure]) for value in (each.torch, each.framejit))
        parts.append(text(LEFT - 10, top + 20, figure.label.replace("`", ""), "end"))
        for name, value, y in (("torch", figure.torch, top), ("framejit", figure.framejit, top + BAR + 1)):
            parts += bar(LEFT, y, (WIDTH - LEFT - RIGHT) * float(value) / longest, name, f"{value} {figure.unit}".strip())
    return "\n".join([*parts, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text class="text" x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="{COLOURS["text"][0]}">{escape(words)}</text>'


def bar(x: float, y: float, width: float, name: str, words: str) -> list[str]:
    """A bar with a text after it."""
    drawn = f'<rect class="{name}" x="{x}" y="{y}" width="{max(width, 1):.1f}" height="{BAR}" fill="{COLOURS[name][0]}"/>'
    return [drawn, text(x + width + 6, y + 12, words)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.figures", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the table or the plot isn't what the pages say")
    check = parser.parse_args(arguments).check
    figures = headlines(ROOT / "docs")
    readme = README.read_text()
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        parser.exit(1, f"{README.name} has no place for the table: it goes between the lines {BEGIN} and {END}\n")
    wanted = {
        README: re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: table(figures), readme, flags=re.DOTALL),
        PLOT: plot(figures, "framejit beside torch.compile on BERT", "BERT on a CPU"),
        START: plot([*starts(ROOT / "docs")], "Seconds of CPU until the first result", "Until the first result, on a CPU", shared_scale=True),
    }
    outdated = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in outdated:
        if check:
            print(f"{path.relative_to(ROOT)} isn't what the pages of the benchmarks say: python -m tools.bench.figures")
        else:
            path.write_text(wanted[path])
    return int(check and bool(outdated))


if __name__ == "__main__":
    sys.exit(main())
