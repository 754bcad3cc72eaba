"""The cost of a call of an operator that is called eagerly: torch's kernel, the one that torch has AOTInductor compile, and framejit's.

    python -m tools.bench.operators            # python -m tools.bench.operators --only bitwise_not,softmax --markdown table.md

Microseconds of processor time for each call, the least of several repetitions, one thread. Each way to compile runs in a process of its own, since torch can't
take its kernels out of force again. Kernels are compiled before that, which takes seconds for each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import framejit
from tools.compilers import quiet

REPEATS = 7
SECONDS = 0.2
"""The time that one repetition takes."""


def ints(*size: int) -> torch.Tensor:
    return torch.randint(0, 100, size)


def floats(*size: int) -> torch.Tensor:
    return torch.randn(size)


Call = tuple[str, Callable[..., Any], Callable[[], tuple[Any, ...]]]
CASES: dict[str, Call] = {
    "bitwise_not [32, 32]": ("bitwise_not", torch.bitwise_not, lambda: (ints(32, 32),)),
    "silu [32, 32]": ("silu", torch.nn.functional.silu, lambda: (floats(32, 32),)),
    "add [32, 32] + [32]": ("add.Tensor", torch.add, lambda: (floats(32, 32), floats(32))),
    "mul [32, 32] * number": ("mul.Tensor", torch.mul, lambda: (floats(32, 32), 2.5)),
    "sum [32, 32], dim 1": ("sum.dim_IntList", lambda x: x.sum(1), lambda: (floats(32, 32),)),
    "var_mean [32, 32], dim 1": ("var_mean.correction", lambda x: torch.var_mean(x, 1), lambda: (floats(32, 32),)),
    "aminmax [32, 32], dim 1": ("aminmax", lambda x: torch.aminmax(x, dim=1), lambda: (floats(32, 32),)),
    "softmax [32, 32], dim 1": ("_softmax", lambda x: torch.softmax(x, 1), lambda: (floats(32, 32),)),
    "layer_norm [32, 32]": ("native_layer_norm", lambda x: torch.nn.functional.layer_norm(x, (32,)), lambda: (floats(32, 32),)),
    "logaddexp [512, 512]": ("logaddexp", torch.logaddexp, lambda: (floats(512, 512), floats(512, 512))),
    "var_mean [512, 512], dim 0": ("var_mean.correction", lambda x: torch.var_mean(x, 0), lambda: (floats(512, 512),)),
}
WAYS = ("eager", "torch", "framejit")


def microseconds(run: Callable[[], Any]) -> float:
    """Processor time of a call: the least of several repetitions."""
    calls, best = 1, float("inf")
    while True:
        start = time.process_time()
        for _ in range(calls):
            run()
        spent = time.process_time() - start
        if spent > SECONDS / 4:
            break
        calls *= 4
    for _ in range(REPEATS):
        start = time.process_time()
        for _ in range(calls):
            run()
        best = min(best, (time.process_time() - start) / calls)
    return best * 1e6


def measure(way: str, case: str) -> float | str:
    """The microseconds of a case in this process; why there are none, if the operator isn't compiled."""
    operator, call, make = CASES[case]
    inputs = make()
    if way == "torch":
        library = torch.library.Library("aten", "IMPL")
        library._impl_with_aoti_compile(operator, "CPU")
    compiled = framejit.compile_eager_operators(operator) if way == "framejit" else None
    for _ in range(3):
        call(*inputs)
    if compiled is not None and not compiled.kernels:
        return "; ".join(sum(map(list, compiled.refusals.values()), []))
    return microseconds(lambda: call(*inputs))


def measured_apart(way: str, case: str) -> str:
    """The cell of the table, measured in a process of its own."""
    command = [sys.executable, "-m", "tools.bench.operators", "--measure", json.dumps([way, case])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return "fails: " + (done.stderr.strip().splitlines() or ["?"])[-1][:60]
    found = json.loads(done.stdout.splitlines()[-1])
    return f"{found:.2f}" if isinstance(found, float) else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated beginnings of names of cases")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        quiet()
        torch.set_num_threads(1)
        print(json.dumps(measure(*json.loads(options.measure))))
        return
    wanted = tuple(options.only.split(",")) if options.only else ("",)
    lines = ["| call | eager | torch's AOTInductor kernels | framejit |", "| --- | ---: | ---: | ---: |"]
    print(*lines, sep="\n")
    for case in [name for name in CASES if name.startswith(wanted)]:
        lines.append(f"| {case} | {' | '.join(measured_apart(way, case) for way in WAYS)} |")
        print(lines[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
