"""Maps the top-level folders to import names and builds the one extension module, framejit._runtime."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
FOLDERS = {"framejit": "jit", "framejit.guards": "guards"}
PYTHON_TAG = f"py{sys.version_info.major}{sys.version_info.minor}"
STANDARDS = {".c": "-std=c11", ".cpp": "-std=c++20"}
SILENCED_WARNINGS = ["-Wno-unused-parameter", "-Wno-missing-field-initializers"]  # CPython's calling conventions and static types


def find_packages() -> list[str]:
    """Every folder under the mapped ones that holds Python files, as a dotted import name."""
    found = []
    for name, folder in FOLDERS.items():
        for directory, _, files in os.walk(ROOT / folder):  # links are not followed
            if any(file.endswith(".py") for file in files):
                below = Path(directory).relative_to(ROOT / folder).parts
                found.append(".".join((name, *below)))
    return sorted(set(found))


def torch_folder() -> Path:
    """Where torch is installed, found without importing it (an import costs seconds)."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise SystemExit("framejit is built against the installed torch, and there is none: pip install 'torch>=2.11,<2.16' first "
                         "(and pip install --no-build-isolation), or use 'make build'")
    return Path(spec.origin).parent


def native_sources() -> list[str]:
    """The C and C++ files of the extension; of runtime_c/cpython only the running version's."""
    frame_layout = ROOT / "runtime_c" / "cpython" / f"{PYTHON_TAG}.c"
    if not frame_layout.exists():
        known = ", ".join(sorted(path.stem.replace("py3", "3.") for path in frame_layout.parent.glob("py*.c")))
        raise SystemExit(f"framejit knows the frame layout of CPython {known}; this is {sys.version.split()[0]}")
    files = [*sorted((ROOT / "runtime_c").glob("*.c")), frame_layout, *sorted((ROOT / "guards" / "native").glob("*.cpp"))]
    return [str(path.relative_to(ROOT)) for path in files]


def headers() -> list[str]:
    found = [*(ROOT / "runtime_c").rglob("*.h"), *(ROOT / "guards" / "native").glob("*.h")]
    return [str(path.relative_to(ROOT)) for path in found]


class BuildRuntime(build_ext):
    """Compiles each file under its language's standard, in parallel, and only those that changed."""

    def finalize_options(self) -> None:
        super().finalize_options()
        # pip hands over a temporary folder; a lasting one keeps the objects of files that didn't change.
        self.build_temp = os.path.join("build", f"native-{PYTHON_TAG}-torch{importlib.metadata.version('torch')}")

    def build_extension(self, ext: Extension) -> None:
        compile_one = self.compiler._compile
        newest_header = max(os.path.getmtime(path) for path in ["setup.py", *ext.depends])

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


def runtime_extension() -> Extension:
    torch = torch_folder()
    return Extension(
        "framejit._runtime",
        sources=native_sources(),
        depends=headers(),
        include_dirs=["runtime_c", os.path.join("guards", "native"), str(torch / "include")],
        library_dirs=[str(torch / "lib")],
        libraries=["c10"],  # no rpath: torch is imported first and has it loaded
        define_macros=[
            ("FRAMEJIT_BUILT_FOR_TORCH", f'"{importlib.metadata.version("torch")}"'),
            ("FRAMEJIT_BUILT_FOR_PYTHON", f'"{sys.version_info.major}.{sys.version_info.minor}"'),
        ],
        extra_compile_args=["-O2", "-g0", "-fvisibility=hidden", "-Wall", "-Wextra", *SILENCED_WARNINGS],
        language="c++",
    )


setup(
    packages=find_packages(),
    package_dir=FOLDERS,
    package_data={"framejit": ["py.typed", "*.pyi", "breaks/programs/*.json"], "framejit.guards": ["*.pyi"]},
    ext_modules=[runtime_extension()],
    cmdclass={"build_ext": BuildRuntime},
)
