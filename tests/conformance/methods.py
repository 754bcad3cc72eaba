"""Runs the test methods of one module of CPython's `test` package in this process, as written or each called from a compiled function.

    python methods.py test_int compiled results.jsonl

Each method leaves two lines of JSON in the results file: one when it starts, so that the parent process knows at which one this process
died, and one with its outcome and, if compiled, the reasons for which it was split or ran uncompiled. Methods that have a line there already are
left out, so that a run can go on behind a crash. A method that takes more seconds of the processor than the limit, or ten times as many by the
clock, ends the process. Both are C code's doing, which nothing that a test does can hold up.
"""

from __future__ import annotations

import argparse
import builtins
import faulthandler
import json
import os
import signal
import sys
import tempfile
import traceback
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

KEPT_LINES = 12
"""Of the traceback of a failure."""
PATIENCE = 10
"""Seconds by the clock for each second of the processor that a method may take: the machine may be busy."""


def compiled_call(method: Callable[[], object]) -> None:
    """Replace `TestCase._callTestMethod`: the method is called from a compiled function, which knows nothing of earlier ones."""
    import framejit

    framejit.reset()
    framejit.compile(lambda: method(), backend="eager", isolate_recompiles=True)()


def statistics() -> dict[str, Any]:
    """Return the statistics of framejit since the method began; empty if it isn't loaded."""
    report = sys.modules.get("framejit.report")
    return {} if report is None else report.statistics()


def forget_statistics() -> None:
    """Begin to count anew."""
    report = sys.modules.get("framejit.report")
    if report is not None:
        report.reset_statistics()


def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """The test cases of a suite, in order."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def names(tests: list[unittest.TestCase], module: str) -> list[str]:
    """A name for each test case: its id without the module's, numbered where several have the same."""
    seen: Counter[str] = Counter()
    found = []
    for test in tests:
        name = test.id().removeprefix(f"test.{module}.")
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return found


class Results(unittest.TestResult):
    """Writes the outcome of each test case as a line of JSON: pass, fail, skip, or internal (framejit counted an internal error)."""

    def __init__(self, file: Any, known: dict[int, str], limit: float) -> None:
        super().__init__()
        self.file = file
        self.known = known
        self.limit = limit
        self.outcome = "pass"
        self.detail = ""
        self.builtins = dict(vars(builtins))

    def write(self, **line: Any) -> None:
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.outcome, self.detail = "pass", ""
        forget_statistics()
        self.write(start=self.known[id(test)])
        signal.setitimer(signal.ITIMER_PROF, self.limit)
        faulthandler.dump_traceback_later(self.limit * PATIENCE, exit=True, file=sys.__stderr__)

    def stopTest(self, test: unittest.TestCase) -> None:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
        super().stopTest(test)
        counted = statistics()
        if counted.get("internal_errors"):
            self.outcome = "internal"  # it counts even where the test has caught what was raised
        self.write(method=self.known[id(test)], outcome=self.outcome, detail=self.detail, reasons=counted.get("reasons", []))

    def failed(self, test: Any, error: Any) -> None:
        vars(builtins).update(self.builtins)  # a test that was cut off has not put back what it has replaced there
        lines = "".join(traceback.format_exception(*error)).splitlines()
        detail = "\n".join(lines[-KEPT_LINES:])
        if id(test) in self.known or isinstance(test, unittest.case._SubTest):
            self.outcome, self.detail = "fail", detail
        else:
            self.write(fixture=str(test), detail=detail)  # setUpClass or setUpModule: its tests don't run

    def addError(self, test: Any, err: Any) -> None:
        self.failed(test, err)

    def addFailure(self, test: Any, err: Any) -> None:
        self.failed(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.failed(subtest, err)

    def addSkip(self, test: Any, reason: str) -> None:
        if self.outcome == "pass":
            self.outcome, self.detail = "skip", reason

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.outcome, self.detail = "fail", "unexpected success"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module")
    parser.add_argument("how", choices=("plain", "compiled"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--limit", type=float, default=60, help="seconds of the processor for one method")
    parser.add_argument("--only", action="append", default=[], help="methods whose name contains this")
    parser.add_argument("--leave-out", action="append", default=[], help="the name of a method not to run, or *.name for those of every class")
    arguments = parser.parse_args()
    results = arguments.results.absolute()
    lines = map(json.loads, results.read_text().splitlines()) if results.exists() else ()
    done = {line.get("method") for line in lines} | set(arguments.leave_out)
    if arguments.how == "compiled":
        compiled_call(lambda: None)  # loading the compiler takes seconds, which are not the first method's
    with tempfile.TemporaryDirectory() as folder, results.open("a") as file:
        os.chdir(folder)
        from test import support

        faulthandler.register(signal.SIGPROF, file=sys.__stderr__, chain=True)  # and then what it does by itself: end the process
        support.use_resources = []
        support.verbose = False
        tests = list(flat(unittest.defaultTestLoader.loadTestsFromName(f"test.{arguments.module}")))
        chosen = []
        known = {}
        for test, name in zip(tests, names(tests, arguments.module)):
            if name in done or f"*.{name.rpartition('.')[2]}" in done or (arguments.only and not any(part in name for part in arguments.only)):
                continue
            known[id(test)] = name
            if arguments.how == "compiled":
                test._callTestMethod = compiled_call  # type: ignore[method-assign]
            chosen.append(test)
        outcome = Results(file, known, arguments.limit)
        unittest.TestSuite(chosen).run(outcome)
        outcome.write(end=True)
        os.chdir("/")
    os._exit(0)  # threads and atexit functions of the tests have had their time


if __name__ == "__main__":
    main()
