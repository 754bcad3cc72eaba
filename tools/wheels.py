"""Builds a wheel of framejit for each supported Python that is installed, and tries each in an empty environment outside the repository.

python -m tools.wheels --torch 2.13.0                 all of them, into dist/
python -m tools.wheels --torch 2.15.0 --python 3.12   one of them

torch is several gigabytes: an environment with it is made once for each Python, below --cache, and lends it to the empty ones by a .pth file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools import constraints

ROOT = Path(__file__).resolve().parent.parent
SUPPORTED = sorted(f"3.{path.stem.removeprefix('py3')}" for path in (ROOT / "runtime_c" / "cpython").glob("py3*.c"))
FIRST_TORCH = {"3.15": "2.15.0"}
"""The oldest torch that there is for a Python, where framejit supports older ones on others."""
TRIAL = """
import sys, torch, framejit

@framejit.compile(backend="eager", fullgraph=True)
def step(x, y):
    return torch.relu(x @ y) + 1

x, y = torch.randn(4, 8), torch.randn(8, 2)
assert framejit.__file__.startswith(sys.prefix), framejit.__file__
assert torch.equal(step(x, y), torch.relu(x @ y) + 1)
assert framejit.statistics()["graphs"] == 1 and not framejit.statistics()["fallbacks"], framejit.statistics()
print(f"framejit {framejit.__version__} runs on Python {sys.version.split()[0]} and torch {torch.__version__}")
"""


def ask(python: str | Path, program: str) -> str:
    """Return what a program prints in an interpreter; empty if it fails."""
    done = subprocess.run([python, "-P", "-c", program], capture_output=True, text=True, env=clean(), cwd=tempfile.gettempdir())
    return done.stdout.strip() if done.returncode == 0 else ""


def clean() -> dict[str, str]:
    """The environment variables, without those that would make a process import another framejit or torch, or compile differently, or not at all."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("FRAMEJIT_")}
    return kept | {"FRAMEJIT_CACHE": "0"}


def interpreters(versions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The first usable interpreter of each version that the machine has, those that tools/python.sh has fetched included."""
    for version in versions:
        done = subprocess.run([ROOT / "tools" / "python.sh", "--here", version], capture_output=True, text=True)
        if done.returncode == 0:
            yield version, done.stdout.strip()


def torch_for(version: str, torch: str) -> str:
    """The torch to build for: the one asked for, or the oldest that there is for this Python."""
    oldest = FIRST_TORCH.get(version, torch)
    return max(torch, oldest, key=lambda text: [int(part) for part in text.split(".")[:2]])


def lender(version: str, python: str, torch: str, cache: Path) -> Path:
    """The interpreter of an environment with torch and what building needs: the running one if it fits, else one below `cache`, made if it doesn't exist."""
    program = "import sys, torch, setuptools; print('%d.%d' % sys.version_info[:2], torch.__version__.partition('+')[0])"
    path = cache / f"py{version}-torch{torch}" / "venv" / "bin" / "python"
    for candidate in (Path(sys.executable), path):
        if candidate.exists() and ask(candidate, program) == f"{version} {torch}":
            return candidate
    subprocess.run([python, "-m", "venv", path.parent.parent], check=True)
    lifted = {**os.environ, "PIP_CONSTRAINT": constraints.without_torch(cache)}
    subprocess.run([path, "-m", "pip", "install", "--quiet", f"torch=={torch}", "setuptools>=77", "numpy", "sympy"], check=True, env=lifted)
    return path


def empty_environment(folder: Path, python: str | Path) -> Path:
    """Makes an environment without any package, in which those of another interpreter's environment can be imported; returns its interpreter."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    borrowed = ask(python, "import sys; print(*(path for path in sys.path if path.endswith('-packages')), sep='\\n')")
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "borrowed.pth").write_text(borrowed + "\n")
    return folder / "bin" / "python"


def attempt(python: Path, program: str = TRIAL) -> subprocess.CompletedProcess[str]:
    """Runs a program that is in a file, as compiled code wants, with an environment's interpreter and outside the repository."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trial.py")
        file.write_text(program)
        return subprocess.run([python, "-P", file], capture_output=True, text=True, env=clean(), cwd=folder)


def build(builder: Path, into: Path) -> tuple[bool, str]:
    """Builds a wheel with an environment's interpreter, tries it in an empty environment, and moves it into a folder if it works.

    Returns whether it does, and one line or more that say so.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [builder, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, str(ROOT)]
        if subprocess.run(command, env=clean()).returncode != 0:
            return False, "it could not be built"
        (wheel,) = Path(folder).glob("*.whl")
        trial = empty_environment(Path(folder, "environment"), builder)
        subprocess.run([trial, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True, env=clean(), cwd=folder)
        done = attempt(trial)
        if done.returncode != 0:
            return False, f"{wheel.name} doesn't work:\n{done.stderr}"
        into.mkdir(parents=True, exist_ok=True)
        return True, f"{shutil.move(wheel, into / wheel.name)}: {done.stdout.strip()}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--torch", default="2.13.0", help="the version of torch to build for (default: %(default)s)")
    parser.add_argument("--python", action="append", choices=SUPPORTED, help="build for this Python only; may be given again")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="the folder for the wheels (default: dist)")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "framejit", help="where environments with torch are kept")
    asked = parser.parse_args(arguments)
    built: dict[str, bool] = {}
    for version, python in interpreters(asked.python or SUPPORTED):
        torch = torch_for(version, asked.torch)
        built[version], said = build(lender(version, python, torch, asked.cache), asked.into)
        print(f"Python {version}, torch {torch}: {said}", flush=True)
    for version in asked.python or SUPPORTED:
        if version not in built:
            print(f"there is no Python {version} here, so no wheel for it; tools/python.sh {version} fetches one")
    return 0 if built and all(built.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
