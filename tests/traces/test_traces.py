"""Golden files: what a call of a small program compiles to (*.md, beside this file): its source, graphs, guards and breaks.

`pytest tests/traces --write-traces` writes them anew. Read the difference before you commit it.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from traces.programs import PROGRAMS

import framejit

FOLDER = Path(__file__).parent
LINE = re.compile(r" from line \d+ on")
LEFT_OUT = ("torch's global state", "torch/nn/modules/module.py", "_error_on_graph_break")
"""Lines of guards that are the same in every entry, or torch's own affair, and differ between versions of torch."""


def page(name: str) -> str:
    """Return a page in Markdown about a program's call: its source, graphs, guards and breaks."""
    program, arguments = PROGRAMS[name]
    graphs: list[str] = []

    def keep(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(listing(gm))
        return gm

    report = framejit.explain(program, backend=keep)(*arguments())
    source = type(program) if isinstance(program, torch.nn.Module) else program
    parts = [f"# {name}", " ".join((source.__doc__ or "").split()), fenced("python", without_docstring(inspect.getsource(source)))]
    waiting = iter(graphs)
    for number, entry in enumerate(report.entries, 1):
        name_of_entry = LINE.sub(" from the break on", entry.function)
        parts.append(f"## Entry {number}: {name_of_entry}")
        parts.append(fenced("python", next(waiting)) if entry.operations is not None else "No graph.")
        parts.append(f"{len(entry.guards)} guards, among them:")
        parts.append("\n".join(f"- {line}" for line in map(guard, entry.guards) if line))
    for stop in report.breaks:
        parts.append(f"## Break {stop.id}")
        parts.append(f"At `{line_of(stop.place)}`: {stop.reason}.")
    return "\n\n".join(parts) + "\n"


def listing(gm: torch.fx.GraphModule) -> str:
    """A graph as code, a line for each operator."""
    lines = []
    for node in gm.graph.nodes:
        value = node.meta.get("example_value")
        shape = f"  # {list(value.shape)}" if isinstance(value, torch.Tensor) else ""
        if node.op == "placeholder":
            lines.append(f"{node.name} = input{shape}")
        elif node.op == "output":
            lines.append(f"return {node.args[0]}")
        else:
            called = node.target if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))
            named = [f"{key}={value}" for key, value in node.kwargs.items()]
            lines.append(f"{node.name} = {called}({', '.join([*map(str, node.args), *named])}){shape}")
    return "\n".join(lines)


def guard(line: str) -> str:
    """A guard as the report has it, without the name of its kind and the line that needs it; empty for what is left out."""
    if any(text in line for text in LEFT_OUT):
        return ""
    return LINE.sub(" from the break on", re.sub(r"^\w+ +", "", line.partition("  # ")[0]))


def line_of(place: str) -> str:
    """The source line at file:line."""
    path, _, number = place.rpartition(":")
    return Path(path).read_text().splitlines()[int(number) - 1].strip()


def without_docstring(source: str) -> str:
    return re.sub(r'\n +""".*?"""\n', "\n", source, count=1, flags=re.S).strip()


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def without_numbers(text: str) -> str:
    """The text with names such as `sum_2` cut to `sum`."""
    return re.sub(r"(\w)_\d+\b", r"\1", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_trace(name, request):
    path, found = FOLDER / f"{name}.md", page(name)
    if request.config.getoption("--write-traces"):
        path.write_text(found)
    expected = path.read_text()
    if request.config.getoption("--undo"):  # FX gives no name out twice, not even that of a node which was taken back
        found, expected = without_numbers(found), without_numbers(expected)
    assert found == expected


def test_each_page_has_a_program():
    assert {path.stem for path in FOLDER.glob("*.md")} == set(PROGRAMS)
