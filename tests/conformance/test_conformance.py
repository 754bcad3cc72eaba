"""CPython's own tests of a few modules, called from compiled functions; `make conformance` runs all of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import score

QUICK = ("test_bool", "test_binop", "test_augassign")

pytestmark = pytest.mark.skipif(importlib.util.find_spec("test.support") is None, reason="this Python comes without its test package")


@pytest.mark.parametrize("module", QUICK)
def test_cpythons_own_tests_pass_compiled(module):
    listed = score.listed_of(module)
    report = score.compare(module, leave_out=listed)
    assert not score.faults(report, listed), report.details


def test_a_method_that_is_not_the_same_is_a_fault_unless_it_is_listed():
    report = score.Report("test_nothing", {"A.test_a": "same", "A.test_b": "wrong", "A.test_c": "slow"})
    assert score.faults(report, {"A.test_c": "takes long"}) == ["test_nothing: A.test_b is wrong"]


def test_a_score_may_only_rise(monkeypatch):
    monkeypatch.setattr(score, "recorded", lambda: {score.VERSION: {"test_nothing": 2}})
    fallen = score.Report("test_nothing", {"A.test_a": "same", "A.test_b": "slow"})
    assert score.faults(fallen, {"A.test_b": "takes long"}) == ["test_nothing: 1 methods are the same; 2 are recorded"]
    assert score.faults(score.Report("test_nothing", {"A.test_a": "same", "A.test_b": "same"}), {}) == []


@pytest.mark.slow
def test_what_differs_is_seen(tmp_path, monkeypatch):
    """A method that looks at its own caller passes as written and fails compiled."""
    module = tmp_path / "test_of_ours.py"
    module.write_text(
        "import sys, unittest\n"
        "class T(unittest.TestCase):\n"
        "    def test_same(self): self.assertEqual(1 + 1, 2)\n"
        "    def test_fails_both_ways(self): self.fail()\n"
        "    def test_leaves_builtins_changed(self):\n"
        "        __import__('builtins').len = None\n"
        "        self.fail()\n"
        "    def test_wrong(self): self.assertNotIn('framejit', sys.modules)\n"
        "    def test_dies(self):\n"
        "        if 'framejit' in sys.modules: __import__('os')._exit(3)\n"
        "    def test_hangs(self):\n"
        "        if 'framejit' in sys.modules: [None for _ in iter(int, 1)]\n"
    )
    hook = "import test; test.__path__.append(%r)\n" % str(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(hook)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    report = score.compare("test_of_ours", limit=3)
    assert report.verdicts.pop("T.test_leaves_builtins_changed") in ("same", "internal")  # the compiler calls len
    assert report.verdicts == {"T.test_same": "same", "T.test_fails_both_ways": "same", "T.test_wrong": "wrong", "T.test_dies": "crash", "T.test_hangs": "slow"}
    assert "AssertionError" in report.details["T.test_wrong"]


def test_methods_compiled_whole_are_counted():
    printed = [f"FJ012 print() is a side effect at /{name}.py:1" for name in "ab"]
    report = score.Report("test_nothing", reasons={"A.test_a": [], "A.test_b": printed})
    assert report.whole() == 1 and "1/2" in score.row(report)
    assert score.commonest([report, report]) == [("FJ012 print() is a side effect", 2)]
