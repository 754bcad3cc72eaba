"""Builds framejit for one Python and one torch: the only parts of its metadata that aren't in pyproject.toml.

The extension module reads torch's structures, so a build fits one minor version of torch, and the metadata requires that one. pip
imports this file as the build backend (the hooks at the end), and setuptools then runs it as a script.
"""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
PYTHON_TAG = f"py{sys.version_info[0]}{sys.version_info[1]}"
LAYOUTS = ROOT / "runtime_c" / "cpython"
"""A file for each Python whose frames the extension can read."""

if not (LAYOUTS / f"{PYTHON_TAG}.c").exists() or sys.implementation.name != "cpython":
    known = ", ".join(sorted(path.stem.replace("py3", "3.") for path in LAYOUTS.glob("py3*.c")))
    sys.exit(f"framejit needs CPython {known}; this is {sys.implementation.name} {sys.version.split()[0]}, {sys.executable}")
FREE_THREADED = runpy.run_path(str(ROOT / "jit" / "build_check.py"))["free_threaded"]()
if FREE_THREADED:
    sys.exit(FREE_THREADED)

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit(f"framejit needs a Python with a GIL; this one has none: {sys.executable}")

from setuptools import Extension, build_meta, setup  # noqa: E402
from setuptools.build_meta import *  # noqa: E402, F403  # the hooks that pip calls
from setuptools.command.build import build  # noqa: E402
from setuptools.command.build_ext import build_ext  # noqa: E402

FOLDERS = {"framejit": "jit", "framejit.guards": "guards"}
OLDEST_TORCH, TOO_NEW_TORCH = (2, 11), (2, 16)
ANY_TORCH = "torch>={}.{},<{}.{}".format(*OLDEST_TORCH, *TOO_NEW_TORCH)
DEPENDENCIES = ["numpy", "sympy", "tqdm"]
"""What framejit imports besides torch."""
STANDARDS = {".c": "-std=c11", ".cpp": "-std=c++20"}
SILENCED_WARNINGS = ["-Wno-unused-parameter", "-Wno-missing-field-initializers"]  # CPython's calling conventions and static types


@dataclass(frozen=True)
class Torch:
    """An installed torch: the folder of the package, and its version with the local label (`2.13.0+cpu`)."""

    folder: Path
    version: str

    @property
    def minor(self) -> tuple[int, int]:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    def supported(self) -> bool:
        return OLDEST_TORCH <= self.minor < TOO_NEW_TORCH

    def requirement(self) -> str:
        """Any patch level and local label of this minor version; its pre-releases only where this is one."""
        major, minor = self.minor
        released = re.fullmatch(r"[\d.]+(\.post\d+)?(\+.*)?", self.version)
        return f"torch>={major}.{minor}{'' if released else '.0.dev0'},<{major}.{minor + 1}"


def find_torch() -> Torch | None:
    """The torch to build against, found without importing it (an import costs seconds).

    It is the one that this process would import. Where there is none, because pip shows a build only what the build requires, it is
    the one that the interpreter would import otherwise: what is built must fit the environment that it goes to.
    """
    spec = importlib.util.find_spec("torch")
    origin = spec.origin if spec is not None else None
    if origin is None:
        hidden = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
        program = "import importlib.util; found = importlib.util.find_spec('torch'); print(found and found.origin or '')"
        origin = subprocess.run([sys.executable, "-P", "-c", program], env=hidden, capture_output=True, text=True).stdout.strip()
    if not origin:
        return None
    folder = Path(origin).parent
    return Torch(folder, runpy.run_path(str(folder / "version.py"))["__version__"])


def needed_torch() -> Torch:
    """The torch to build against; ends the build where there is none that framejit works with."""
    torch = find_torch()
    if torch is None:
        sys.exit(f"framejit is built against an installed torch, and {sys.executable} has none: pip install '{ANY_TORCH}'")
    if not torch.supported():
        sys.exit(f"framejit needs {ANY_TORCH}; torch {torch.version} is installed in {torch.folder}")
    return torch


def find_packages() -> list[str]:
    """Every folder under the mapped ones that holds Python files, as a dotted import name."""
    found = []
    for name, folder in FOLDERS.items():
        for directory, _, files in os.walk(ROOT / folder):  # links are not followed
            if any(file.endswith(".py") for file in files):
                below = Path(directory).relative_to(ROOT / folder).parts
                found.append(".".join((name, *below)))
    return sorted(set(found))


def native_sources() -> list[str]:
    """The C and C++ files of the runtime; of those about one Python only the running version's."""
    of_all = [path for path in LAYOUTS.glob("*.c") if not path.stem.startswith("py3")]
    files = [*sorted((ROOT / "runtime_c").glob("*.c")), *sorted(of_all), LAYOUTS / f"{PYTHON_TAG}.c", *sorted((ROOT / "guards" / "native").glob("*.cpp"))]
    return [str(path.relative_to(ROOT)) for path in files]


def headers() -> list[str]:
    found = [*(ROOT / "runtime_c").rglob("*.h"), *(ROOT / "guards" / "native").glob("*.h")]
    return [str(path.relative_to(ROOT)) for path in found]


class BuildAfresh(build):
    """Builds in an empty folder: what an earlier build left there, of other sources or for another torch, is never packed."""

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class BuildRuntime(build_ext):
    """Compiles each file under its language's standard, in parallel, and only those that changed; links always. A file of two modules is compiled once."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.force = True  # else a library that was linked for another torch is taken for up to date
        self.torch = needed_torch()
        # pip hands over a temporary folder; a lasting one keeps the objects of files that didn't change.
        self.build_temp = os.path.join("build", f"native-{PYTHON_TAG}-torch{self.torch.version}")

    def run(self) -> None:
        print(f"framejit: building for Python {sys.version.split()[0]} and torch {self.torch.version} in {self.torch.folder}", flush=True)
        super().run()

    def build_extension(self, ext: Extension) -> None:
        ext.include_dirs.append(str(self.torch.folder / "include"))
        ext.library_dirs.append(str(self.torch.folder / "lib"))
        ext.define_macros.append(("FRAMEJIT_BUILT_FOR_TORCH", f'"{self.torch.version}"'))
        compile_one = self.compiler._compile
        newest_header = max(os.path.getmtime(path) for path in ["setup.py", self.torch.folder / "version.py", *ext.depends])

        def compile_file(obj: str, src: str, suffix: str, cc_args: list[str], extra_postargs: list[str], pp_opts: list[str]) -> None:
            if os.path.exists(obj) and os.path.getmtime(obj) > max(os.path.getmtime(src), newest_header):
                return
            compile_one(obj, src, suffix, cc_args, [*extra_postargs, STANDARDS[suffix]], pp_opts)

        def compile_all(
            sources: list[str],
            output_dir: str | None = None,
            macros: Any = None,
            include_dirs: Any = None,
            debug: bool = False,
            extra_preargs: Any = None,
            extra_postargs: Any = None,
            depends: Any = None,
        ) -> list[str]:
            setup_compile = self.compiler._setup_compile
            _, objects, post, pp_opts, build = setup_compile(output_dir, macros, include_dirs, sources, depends, extra_postargs)
            cc_args = self.compiler._get_cc_args(pp_opts, debug, extra_preargs)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(lambda obj: compile_file(obj, *build[obj], cc_args, post, pp_opts), build))
            return list(objects)

        self.compiler.compile = compile_all
        super().build_extension(ext)


def extension(name: str, sources: list[str], libraries: list[str]) -> Extension:
    """An extension module, without what depends on torch, which only a build needs."""
    return Extension(
        name,
        sources=sources,
        depends=headers(),
        include_dirs=["runtime_c", os.path.join("guards", "native")],
        libraries=libraries,  # no rpath: torch is imported first and has them loaded
        define_macros=[("FRAMEJIT_BUILT_FOR_PYTHON", f'"{sys.version_info[0]}.{sys.version_info[1]}"')],
        extra_compile_args=["-O2", "-g0", "-fvisibility=hidden", "-fno-plt", "-Wall", "-Wextra", *SILENCED_WARNINGS, *os.environ.get("CFLAGS", "").split()],
        language="c++",
    )


def extensions() -> list[Extension]:
    """The runtime, and the kernels of operators: that module is loaded only where the program asks for them, since it needs more of torch's libraries."""
    of_operators = sorted((ROOT / "runtime_c" / "operators").glob("*.cpp"))
    programs_over_sizes = os.path.join("guards", "native", "shape_vm.cpp")
    return [
        extension("framejit._runtime", native_sources(), ["c10"]),
        extension("framejit._operators", [*(str(path.relative_to(ROOT)) for path in of_operators), programs_over_sizes], ["c10", "torch_cpu", "torch_python"]),
    ]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What a build needs besides setuptools: torch, where the environment has none that is supported."""
    torch = find_torch()
    needed: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    return needed if torch is not None and torch.supported() else [*needed, ANY_TORCH]


get_requires_for_build_editable = get_requires_for_build_wheel

if __name__ == "__main__":
    found = find_torch()
    setup(
        packages=find_packages(),
        package_dir=FOLDERS,
        package_data={"framejit": ["py.typed", "*.pyi", "breaks/programs/*.json"], "framejit.guards": ["*.pyi"]},
        install_requires=[found.requirement() if found is not None else ANY_TORCH, *DEPENDENCIES],
        ext_modules=extensions(),
        cmdclass={"build": BuildAfresh, "build_ext": BuildRuntime},
        # Wheels of one version for different torches have different names.
        options={"bdist_wheel": {"build_number": "{}{:02}torch".format(*found.minor)}} if found is not None else {},
    )
