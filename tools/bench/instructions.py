"""Counts the instructions that a call of a compiled function executes besides its graph, under callgrind: a number that no other process disturbs.

    python -m tools.bench.instructions                      the cases of CASES beside what is recorded
    python -m tools.bench.instructions bert36 --write       ... and record the numbers in instructions.json
    python -m tools.bench.instructions bert36 --profile 30  the functions that execute most of them

The graph is replaced by its stored outputs, as for the overhead in `tools.bench`. A process counts the instructions of some calls, and those of twice as many:
the difference is that of the calls. The numbers depend on the Python, torch and C compiler in use.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

import framejit
from tools.bench.cases import select
from tools.bench.measures import stored_outputs

CASES = ("add", "containers", "entries5", "conv36", "bert36", "qwen36", "decoder82")
RECORDED = Path(__file__).parent / "instructions.json"
TOLERANCE = 0.03
"""By how much a count may exceed the recorded one, as a part of it."""
CALLS = 200
WARM = 10


def key() -> str:
    """Return the versions of Python and torch, for which numbers are recorded."""
    return f"python {platform.python_version()}, torch {torch.__version__.partition('+')[0]}"


def count(case: str, keep: Path | None = None) -> float:
    """The number of instructions of one call. `keep`: a file for callgrind's profile of the calls.

    Raises:
        RuntimeError: callgrind is missing, or the process failed; its output is in the message.
    """
    if shutil.which("callgrind_control") is None:
        raise RuntimeError("callgrind is missing: it is part of valgrind")
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FRAMEJIT_")}  # such as checks of each call
        environment = {**inherited, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={profile}"]
        ran = subprocess.run([*command, sys.executable, "-m", __spec__.name, "--inside", case], env=environment, capture_output=True, text=True)
        dumps = [Path(f"{profile}.{number}") for number in (1, 2)]
        if ran.returncode or not all(map(Path.exists, dumps)):
            raise RuntimeError(f"{case} under callgrind: exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}")
        if keep is not None:
            shutil.copy(dumps[1], keep)
        once, twice = (total(dump.read_text()) for dump in dumps)
        return (twice - once) / CALLS


def total(profile: str) -> int:
    """Return the number of instructions in a profile of callgrind's. Raises RuntimeError if it has none."""
    found = re.search(r"^totals: (\d+)", profile, re.MULTILINE)
    if found is None:
        raise RuntimeError("callgrind's profile has no totals")
    return int(found[1])


def control(*arguments: str) -> None:
    """Tell callgrind something about this process."""
    subprocess.run(["callgrind_control", *arguments, str(os.getpid())], check=True, stdout=subprocess.DEVNULL)


@torch.no_grad()
def inside(case: str) -> None:
    """Make the calls. Runs in the process under callgrind."""
    chosen = select(case)[0]
    function, args, kwargs = chosen.build("cpu")
    call = chosen.calls(framejit.compile(function, backend=stored_outputs), args, kwargs)
    for _ in range(WARM):
        call()
    gc.collect()
    gc.disable()
    control("-i", "on")
    for calls in (CALLS, 2 * CALLS):
        control("-z")
        for _ in range(calls):
            call()
        control("-d")
    control("-i", "off")


def recorded() -> dict[str, float]:
    """The recorded numbers for the versions in use, by case."""
    return json.loads(RECORDED.read_text()).get(key(), {}) if RECORDED.exists() else {}  # type: ignore[no-any-return]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--write", action="store_true", help="record the numbers")
    parser.add_argument("--profile", type=int, metavar="N", help="show the N functions that execute most")
    parser.add_argument("--inside", metavar="CASE", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.inside:
        inside(asked.inside)
        return 0
    known, found = recorded(), {}
    print(f"{'case':<12} {'instructions':>12} {'recorded':>12} {'ratio':>7}   of a call; {key()}")
    with tempfile.TemporaryDirectory() as folder:
        for case in asked.cases:
            profile = Path(folder) / case
            found[case] = count(case, profile)
            before = known.get(case)
            compared = f"{before:>12,.0f} {found[case] / before:>7.3f}" if before else f"{'none':>12} {'-':>7}"
            print(f"{case:<12} {found[case]:>12,.0f} {compared}", flush=True)
            if asked.profile:
                shown = subprocess.run(["callgrind_annotate", profile], capture_output=True, text=True).stdout.splitlines()
                first = next(i for i, line in enumerate(shown) if "file:function" in line)
                print("\n".join(shown[first : first + 2 + asked.profile]))
    if asked.write:
        everything = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
        everything[key()] = {**known, **{case: round(number) for case, number in found.items()}}
        RECORDED.write_text(json.dumps(everything, indent=1) + "\n")
    return int(any(known.get(case, number) * (1 + TOLERANCE) < number for case, number in found.items()))


if __name__ == "__main__":
    sys.exit(main())
