"""The programs of the break pages: each is run before and after the cure, and framejit reports what the page says."""

from __future__ import annotations

import functools
import json
import platform
import sys

import pytest
import torch

from framejit.breaks import CATALOGUE
from framejit.reporting import catalogue, programs
from tools.bench import cures
from tools.measure import largest_error

pytestmark = pytest.mark.only_eager("counts graphs and their operations as the pages do")

WITH_OTHERS = {"FJ028": {"FJ012"}, "FJ030": {"FJ012", "FJ018"}}
"""Reasons that come with others: one that concerns what follows a break, and iterators that are made natively and then come from outside."""

HERE = platform.python_version().rpartition(".")[0], torch.__version__.partition("+")[0]

shown = pytest.mark.parametrize("id", cures.runnable())


@functools.cache
def run(id: str, form: str):
    return cures.run(id, form)


def test_every_reason_has_a_program_or_a_reason_for_having_none():
    assert set(cures.identifiers()) | set(programs.WITHOUT) == set(CATALOGUE)
    assert not set(cures.identifiers()) & set(programs.WITHOUT)
    assert {path.stem for path in cures.PROGRAMS.glob("*.py")} == {f"{id}_{form}" for id in cures.identifiers() for form in cures.FORMS}


@shown
def test_the_program_breaks_for_this_reason_alone(id):
    found = run(id, "before")[0]
    assert id in found.ids and set(found.ids) <= {id, *WITH_OTHERS.get(id, ())}


@shown
def test_the_cured_program_has_no_such_break(id):
    before, after = run(id, "before")[0], run(id, "after")[0]
    assert id not in after.ids and set(after.ids) <= WITH_OTHERS.get(id, set()) and not after.raises
    assert len(after.breaks) + len(after.uncompiled) < len(before.breaks) + len(before.uncompiled)
    assert after.operations


@shown
def test_both_programs_compute_what_they_compute_uncompiled(id):
    expected, printed, raised = cures.run_uncompiled(id, "before")
    for form in cures.FORMS:
        if form == "before" or not raised:
            found, result, output = run(id, form)
            assert largest_error(expected, result) < 1e-6 and output == printed and found.raises == raised
    if raised:
        result, printed, nothing = cures.run_uncompiled(id, "after")
        assert largest_error(result, run(id, "after")[1]) < 1e-6 and run(id, "after")[2] == printed and not nothing


@shown
def test_the_page_says_what_framejit_reports(id):
    row = programs.outcomes()[id]
    for form in cures.FORMS:
        found = run(id, form)[0]
        noted = cures.Outcome(**row[form])
        assert (noted.ids, len(noted.operations)) == (found.ids, len(found.operations)), "run: python -m tools.bench.cures"
        if (row["python"], row["torch"]) == HERE:
            assert noted == found, "run: python -m tools.bench.cures"


def test_a_page_shows_both_programs_with_reports_and_costs():
    page = catalogue.page(CATALOGUE["FJ012"])
    before, after = ((cures.PROGRAMS / f"FJ012_{form}.py").read_text() for form in cures.FORMS)
    places = [page.index(text) for text in ("## Before", before, "FJ012 print() is a side effect\n    print(f", "**Why.**", "**What to do.**",
                                            "## After", after, ", without a break.", "## What it costs", "| graph breaks | 1 | 0 |")]  # fmt: skip
    assert places == sorted(places)


def test_a_page_without_programs_has_the_rest():
    page = catalogue.page(CATALOGUE["FJ080"])
    assert "## Before" not in page and "## What it costs" not in page and "**What to do.**" in page and "## In detail" in page
    assert programs.WITHOUT["FJ080"] in page


def test_a_page_shows_no_advice_of_which_nothing_is_known():
    page = catalogue.page(CATALOGUE["FJ019"])
    assert "{advice_on_it}." in CATALOGUE["FJ019"].hints and "advice_on_it" not in page and "- Do what the report says about it." in page


def test_a_report_names_no_folder_of_a_machine():
    text = cures.OUTCOMES.read_text()
    assert "site-packages" not in text and "/lib/" not in text and "logging/__init__.py)" in text


def test_the_command_keeps_what_it_does_not_run(tmp_path, monkeypatch, capsys):
    path = tmp_path / "outcomes.json"
    path.write_text(cures.OUTCOMES.read_text())
    monkeypatch.setattr(cures, "OUTCOMES", path)
    monkeypatch.setattr(sys, "argv", ["cures", "--only", "FJ008"])
    threads = torch.get_num_threads()
    cures.main()
    torch.set_num_threads(threads)
    assert capsys.readouterr().out.startswith("FJ008 {")
    written = json.loads(path.read_text())
    assert list(written) == cures.identifiers() and written["FJ008"]["before"] == programs.outcomes()["FJ008"]["before"]
    assert {id: row for id, row in written.items() if id != "FJ008"} == {id: row for id, row in programs.outcomes().items() if id != "FJ008"}
