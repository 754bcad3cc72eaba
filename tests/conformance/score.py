"""CPython's own test package, each test method called from a compiled function and compared with the plain run of the same method.

    python tests/conformance/score.py                       every module of MODULES against the recorded table
    python tests/conformance/score.py test_int test_dict    some of them
    python tests/conformance/score.py test_int --only pow   some methods, with the tracebacks of those that differ (nothing is compared)
    python tests/conformance/score.py --write               ... and record the scores, which may only rise

A method's verdict is `same` (passes, fails or is skipped in both runs), `wrong` (passes as written, not compiled), `internal` (framejit
counted an internal error), `slow` (ran into the limit, compiled only) or `crash`. A method that can't be the same is in listed.toml, by
its name or as `*.name` for every class, with its reason. `whole` counts the methods whose
calls were compiled in one piece. scores.json has the number of methods that are the same, for each Python version and module.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SCORES, LISTED = FOLDER / "scores.json", FOLDER / "listed.toml"
WORK = FOLDER.parent.parent / "build" / "conformance"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
VERDICTS = ("same", "wrong", "internal", "slow", "crash")
SLOW_EXIT = "Timeout ("
"""How faulthandler's watchdog begins what it writes."""

FAMILIES: dict[str, str] = {
    "numbers": "test_int test_long test_float test_complex test_bool test_numeric_tower test_math test_pow test_hash test_index test_fractions",
    "containers": """test_dict test_dictviews test_list test_tuple test_set test_deque test_range test_slice test_ordered_dict test_defaultdict
        test_userdict test_userlist test_userstring test_collections test_array test_copy test_heapq test_bisect test_sort test_weakset test_weakref""",
    "text": "test_unicode test_bytes test_string test_format test_fstring test_struct test_str test_repr test_reprlib",
    "iteration": """test_iter test_iterlen test_itertools test_enumerate test_generators test_genexps test_listcomps test_dictcomps test_setcomps
        test_unpack test_unpack_ex test_generator_stop test_yield_from test_contextlib test_with test_patma""",
    "operators": "test_operator test_compare test_richcmp test_contains test_augassign test_binop test_opcodes test_isinstance test_named_expressions",
    "exceptions": """test_exceptions test_baseexception test_except_star test_exception_group test_exception_variations test_exception_hierarchy
        test_raise test_traceback test_warnings""",
    "classes": """test_class test_descr test_descrtut test_super test_metaclass test_property test_dynamicclassattribute test_subclassinit test_abc
        test_enum test_dataclasses test_typechecks test_types test_genericalias test_genericclass test_typing test_funcattrs test_finalization""",
    "functions": """test_call test_extcall test_keywordonlyarg test_positional_only_arg test_scope test_closure test_decorators test_functools
        test_lambda test_global test_syntax test_grammar test_dynamic test_builtin test_inspect test_unary""",
    "coroutines": "test_coroutines test_asyncgen",
}
"""Modules of the test package by what they are about; names that a Python version doesn't have are left out."""


@dataclass
class Report:
    """The outcomes of the methods of one module, by method.

    `verdicts`: see above. `details`: tracebacks of those that are not the same. `reasons`: why a compiled method was split or ran uncompiled; none if it was
    compiled whole. Methods that were skipped have no entry there.
    """

    module: str
    verdicts: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, list[str]] = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0

    def count(self) -> Counter[str]:
        return Counter(self.verdicts.values())

    def whole(self) -> int:
        """The number of methods whose calls were compiled in one piece."""
        return sum(not reasons for reasons in self.reasons.values())

    def unlisted(self, listed: dict[str, str]) -> dict[str, str]:
        """The methods that are not the same without a reason."""
        return {method: verdict for method, verdict in self.verdicts.items() if verdict != "same" and not is_listed(method, listed)}


def is_listed(method: str, listed: Iterable[str]) -> bool:
    """Return whether a method is listed by its name, or as `*.name`, which applies to all classes."""
    return any(method == name or (name.startswith("*.") and method.rpartition(".")[2] == name[2:]) for name in listed)


def modules() -> list[str]:
    """The modules of FAMILIES that this Python has."""
    import test

    here = Path(test.__file__).parent
    return [name for text in FAMILIES.values() for name in text.split() if (here / f"{name}.py").exists() or (here / name).is_dir()]


def listed_of(module: str) -> dict[str, str]:
    """Methods of a module that can't be the same, each with its reason."""
    return tomllib.loads(LISTED.read_text()).get(module, {})


def folder_of(only: list[str]) -> Path:
    """The folder of the records. Those of some methods of a module don't replace those of all."""
    folder = WORK / "only" if only else WORK
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run(module: str, how: str, limit: float, only: list[str], leave_out: list[str]) -> tuple[dict[str, dict[str, Any]], str]:
    """The outcomes of a module's methods, run uncompiled or compiled, and what went wrong outside them. A process that dies goes on in a new one."""
    folder = folder_of(only)
    results, log = folder / f"{module}.{how}.jsonl", folder / f"{module}.{how}.log"
    results.unlink(missing_ok=True)
    environment = {**os.environ, "FRAMEJIT_STRICT": "1", "FRAMEJIT_CACHE": "0", "PYTHONHASHSEED": "1"}
    environment["FRAMEJIT_LOGS_OUT"] = str(folder / f"{module}.framejit.log")
    environment.setdefault("FRAMEJIT_CHECK", "compile,guards,shapes")
    command = [sys.executable, str(FOLDER / "methods.py"), module, how, str(results), f"--limit={limit}"]
    command += [f"--only={part}" for part in only] + [f"--leave-out={name}" for name in leave_out]
    found: dict[str, dict[str, Any]] = {}
    error = ""
    while True:
        with log.open("w") as output:
            process = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        found |= {line["method"]: line for line in lines if "method" in line}
        error = "".join(f"{line['fixture']}: {line['detail']}\n" for line in lines if "fixture" in line)
        if lines and "end" in lines[-1]:
            return found, error
        said = log.read_text(errors="replace")
        if not lines or "start" not in lines[-1]:
            return found, f"{error}the process ended with {process.returncode}:\n{said[-2000:]}"
        outcome = "slow" if SLOW_EXIT in said or process.returncode == -signal.SIGPROF else "crash"
        died = {"method": lines[-1]["start"], "outcome": outcome, "detail": f"exit {process.returncode}\n{said[-2000:]}"}
        with results.open("a") as file:
            file.write(json.dumps(died) + "\n")


def compare(module: str, limit: float = 30, only: list[str] | None = None, leave_out: dict[str, str] | None = None) -> Report:
    """Run a module both ways."""
    began = time.perf_counter()
    out = list(leave_out or ())
    plain, error = run(module, "plain", limit, only or [], out)
    compiled, compiled_error = run(module, "compiled", limit, only or [], out)
    report = Report(module, error="" if error == compiled_error else compiled_error, seconds=time.perf_counter() - began)
    for method, outcome in plain.items():
        other = compiled.get(method, {"outcome": "crash", "detail": "did not run"})
        verdict = other["outcome"]
        if verdict == outcome["outcome"]:
            verdict = "same"
        elif verdict not in VERDICTS:
            verdict = "wrong" if outcome["outcome"] in ("pass", "skip") else "same"
        elif verdict == "slow" and outcome["outcome"] != "pass":
            verdict = "same"
        report.verdicts[method] = verdict
        if "reasons" in other and other["outcome"] != "skip":
            report.reasons[method] = other["reasons"]
        if verdict != "same":
            report.details[method] = other["detail"]
    return report


def recorded() -> dict[str, dict[str, int]]:
    """The recorded scores by Python version and module."""
    return json.loads(SCORES.read_text()) if SCORES.exists() else {}


def faults(report: Report, listed: dict[str, str]) -> list[str]:
    """Return a line of text for each result of a module that is worse than the lists and records allow."""
    found = [f"{report.module}: {method} is {verdict}" for method, verdict in report.unlisted(listed).items()]
    least = recorded().get(VERSION, {}).get(report.module, 0)
    same = report.count()["same"]
    if same < least:
        found.append(f"{report.module}: {same} methods are the same; {least} are recorded")
    if report.error:
        found.append(f"{report.module}: {report.error}")
    return found


def row(report: Report) -> str:
    counts = report.count()
    whole = f"{report.whole()}/{len(report.reasons)}"
    return f"{report.module:28}" + "".join(f"{counts[verdict] or '-':>10}" for verdict in VERDICTS) + f"{whole:>10}{report.seconds:9.0f} s"


def commonest(reports: Iterable[Report]) -> list[tuple[str, int]]:
    """The reasons for which methods were split or ran uncompiled, without the places, and the number of methods for each; the commonest first."""
    counts: Counter[str] = Counter()
    for report in reports:
        for reasons in report.reasons.values():
            counts.update({reason.partition(" at /")[0] for reason in reasons})
    return counts.most_common()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="modules of CPython's test package, or families: " + ", ".join(FAMILIES))
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="methods whose name contains this; their tracebacks are shown")
    parser.add_argument("--limit", type=float, default=30, help="seconds of the processor for one method (default 30)")
    parser.add_argument("--jobs", type=int, default=1, help="modules at the same time")
    parser.add_argument("--all", action="store_true", help="run the listed methods too, and say which of them are the same by now")
    parser.add_argument("--breaks", type=int, default=0, metavar="N", help="show the N commonest reasons for which methods were split")
    parser.add_argument("--write", action="store_true", help="record the scores; one that would fall is an error")
    arguments = parser.parse_args()
    wanted = [module for name in arguments.modules for module in FAMILIES.get(name, name).split()] or modules()
    wanted = [module for module in wanted if module in modules() or module in arguments.modules]
    print(f"{'module':28}" + "".join(f"{column:>10}" for column in (*VERDICTS, "whole")), flush=True)
    problems = []
    reports: list[Report] = []
    found: dict[str, int] = {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        leave_out = {module: {} if arguments.all else listed_of(module) for module in wanted}
        for report in pool.map(lambda module: compare(module, arguments.limit, arguments.only, leave_out[module]), wanted):
            print(row(report), flush=True)
            reports.append(report)
            listed = listed_of(report.module)
            (folder_of(arguments.only) / f"{report.module}.report.json").write_text(json.dumps(dataclasses.asdict(report), indent=1))
            for method, verdict in report.unlisted({} if arguments.only else listed).items():
                print(f"    {verdict}: {method}")
                if arguments.only:
                    print(report.details[method])
            if arguments.all:
                same = [method for method, verdict in report.verdicts.items() if verdict == "same" and is_listed(method, listed)]
                print(*(f"    listed, and the same: {method}" for method in same), sep="\n")
            if not arguments.only:
                problems += faults(report, listed)
                found[report.module] = report.count()["same"]
    print(f"{sum(report.whole() for report in reports)} of {sum(len(report.reasons) for report in reports)} methods were compiled whole")
    for reason, count in commonest(reports)[: arguments.breaks]:
        print(f"{count:6}  {reason}")
    if arguments.only:
        return
    fallen = [problem for problem in problems if "are recorded" in problem]
    if arguments.write and not fallen:
        scores = recorded()  # as they are now: other runs may have written theirs
        scores[VERSION] = scores.get(VERSION, {}) | found
        SCORES.write_text(json.dumps({version: dict(sorted(scores[version].items())) for version in sorted(scores)}, indent=1) + "\n")
    if problems:
        print("\n" + "\n".join(problems))
        sys.exit(1)


if __name__ == "__main__":
    main()
