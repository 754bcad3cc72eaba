"""Long runs that must not grow: a million calls, ten thousand functions compiled and dropped, a thousand models created and deleted.

    python tools/stress.py                    the three runs, each in a process of its own; about half an hour
    python tools/stress.py models --share 10  one run at a tenth of its length
    python tools/stress.py torch              what torch's own fake tensors leave behind, without framejit

Each row: how far the run is, the bytes allocated (Python's too: its allocator is switched off), the memory of the process, and the
objects that the garbage collector knows, and how much of each a single step has added since the second row. The process
may grow although nothing more is allocated, because of holes between allocations.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import framejit

ROWS = 10
Step = Callable[[int], object]


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class MallocFigures(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


LIBC = ctypes.CDLL(None)
LIBC.mallinfo2.restype = MallocFigures


def allocated() -> int:
    """Bytes that malloc has given out."""
    figures = LIBC.mallinfo2()
    return int(figures.uordblks + figures.hblkhd)


def calls() -> Step:
    """Calls that find an entry: arguments of many kinds, a module's state, a mutation, a result that is built."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    x, items = torch.ones(2, 3), [torch.ones(3)]

    def program(t, n, items, scale=2.0):
        items[0] = t[0]
        return model(t), n, {"t": t * scale}

    compiled = framejit.compile(program, backend="eager")
    return lambda i: compiled(x, i, items, scale=2.0)


def functions() -> Step:
    """A function is made, compiled, called and dropped; every tenth with a graph break."""
    x = torch.ones(2, 3)

    def step(i: int) -> None:
        if i % 10:
            framejit.compile(lambda t, n=i: t * 2 + n % 7, backend="eager")(x)
        else:
            framejit.compile(lambda t: (t * 2).sum().item() + t, backend="eager")(x)

    return step


class Net(nn.Module):
    """A model with layers, a buffer, a hook and state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8)])
        self.norm = nn.BatchNorm1d(8)
        self.count = 0
        self.layers[0].register_forward_hook(lambda module, args, output: output + 1)

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        self.count += 1
        for layer in self.layers:
            t = torch.relu(layer(t))
        return self.norm(t)


def models() -> Step:
    """A model is made, compiled, called, trained one step, and deleted."""
    x = torch.ones(2, 8)

    def step(i: int) -> None:
        model = Net()
        fast = framejit.compile(model, backend="eager")
        fast(x)
        fast(x).sum().backward()

    return step


def fakes() -> Step:
    """Make a step that does with torch's fake tensors what a trace does, and nothing else."""
    x = torch.ones(2, 3)

    def step(i: int) -> None:
        mode = FakeTensorMode(allow_non_fake_inputs=False)
        fake = mode.from_tensor(x)
        with mode:
            torch.relu(fake * 2 + 1)

    return step


RUNS: dict[str, tuple[Callable[[], Step], int]] = {
    "calls": (calls, 1_000_000), "functions": (functions, 10_000), "models": (models, 1_000), "torch": (fakes, 10_000),
}  # fmt: skip


def run(name: str, share: int) -> float:
    """Run and print one of RUNS. Returns how many allocated bytes each step of the second half has left."""
    make, times = RUNS[name]
    times //= share
    step = make()
    print(f"{name}: {times:,} steps. {make.__doc__}", flush=True)
    rows: list[tuple[int, int, int, int]] = []
    start = time.perf_counter()
    for row in range(ROWS + 1):
        for i in range(times // ROWS if row else min(200, times // ROWS)):
            step(i)
        gc.collect()
        rows.append((row * (times // ROWS), allocated(), resident(), len(gc.get_objects())))
        done, *now = rows[-1]
        line = f"  {done:>9,}  allocated {now[0] / 1e6:8.3f} MB  process {now[1] / 1e6:8.2f} MB  {now[2]:>8,} objects"
        if row > 1:
            each = [(value - before) / (done - rows[1][0]) for value, before in zip(now, rows[1][1:])]
            line += f"   a step: {each[0]:.2f} B, {each[1]:.2f} B, {each[2]:.4f} objects"
        print(line, flush=True)
    print(f"  {(time.perf_counter() - start) / times * 1e6:.1f} us for each step", flush=True)
    middle, last = rows[ROWS // 2], rows[-1]
    return (last[1] - middle[1]) / (last[0] - middle[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", help=f"of {', '.join(RUNS)}; all but torch without any")
    parser.add_argument("--share", type=int, default=1, help="run only one in SHARE of the steps")
    parser.add_argument("--limit", type=float, help="fail where a step of the second half leaves more bytes allocated than this")
    options = parser.parse_args()
    names = options.runs or ["calls", "functions", "models"]
    for name in names:
        if name not in RUNS:
            parser.error(f"no such run: {name}; there are {', '.join(RUNS)}")
    if os.environ.get("PYTHONMALLOC") == "malloc" and len(names) == 1:
        left = run(names[0], options.share)
        if options.limit is not None and left > options.limit:
            sys.exit(f"{names[0]}: each step left {left:.1f} bytes; at most {options.limit:g} are allowed")
        return
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    limit = [] if options.limit is None else ["--limit", str(options.limit)]
    for name in names:
        command = [sys.executable, __file__, name, "--share", str(options.share), *limit]
        if subprocess.run(command, env=environment, check=False).returncode:
            sys.exit(1)


if __name__ == "__main__":
    main()
