"""setup.py, pyproject.toml and build_check: what is installed fits what is there, and importing it is cheap."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import framejit
import setup
from framejit import _runtime, build_check
from framejit.bytecode import versions
from tools import constraints, wheels

ROOT = Path(__file__).parent.parent


def test_the_extension_names_what_it_was_built_for():
    assert build_check.minor_version(_runtime.built_for_torch) == build_check.minor_version(torch.__version__)
    assert _runtime.built_for_python == f"{sys.version_info.major}.{sys.version_info.minor}"
    build_check.check_build()


def test_another_torch_is_refused_with_the_command_that_builds_again():
    build_check.check_versions("2.13.0+cpu", "3.11", "2.13.1", "3.11")
    with pytest.raises(ImportError, match=r"built for torch 2\.13\.0\+cpu, but torch 2\.11\.0 is installed; .* -m pip install "):
        build_check.check_versions("2.13.0+cpu", "3.11", "2.11.0", "3.11")
    with pytest.raises(ImportError, match=r"built for torch 2\.1\.0, but torch 2\.11\.0"):
        build_check.check_versions("2.1.0", "3.11", "2.11.0", "3.11")


def test_another_python_is_refused():
    with pytest.raises(ImportError, match=r"built for Python 3\.11, but this is Python 3\.12; .* -m pip install "):
        build_check.check_versions("2.13.0", "3.11", "2.13.0", "3.12")


@pytest.mark.parametrize(("recorded", "said"), [
    ({"dir_info": {"editable": True}, "url": "file://{folder}"}, "build it again: .* --editable {folder}$"),
    ({"dir_info": {}, "url": "file://{folder}"}, "build it again: .* --no-cache-dir {folder}$"),
    ({"dir_info": {}, "url": "file:///no/such/folder"}, r"install a wheel that was built for torch 2\.11, or build one .* \.$"),
    ({"archive_info": {}, "url": "file:///tmp/framejit.whl"}, r"install a wheel that was built for torch 2\.11, or build one .* \.$"),
    ({"vcs_info": {"vcs": "git"}, "url": "https://example.org/framejit.git"}, r"build it again: .* git\+https://example\.org/framejit\.git$"),
    (None, r"install a wheel that was built for torch 2\.11, or build one .* \.$"),
])  # fmt: skip
def test_the_command_names_what_pip_installed_from(recorded: Any, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = json.dumps(recorded).replace("{folder}", str(tmp_path)) if recorded else None
    monkeypatch.setattr(build_check.importlib.metadata, "distribution", lambda _: types.SimpleNamespace(read_text=lambda _: text))
    assert re.search(said.replace("{folder}", re.escape(str(tmp_path))), build_check.remedy("2.11.0"))


def test_a_missing_extension_names_the_command_that_builds_it(monkeypatch):
    load = importlib.import_module

    def fail(name: str) -> Any:
        if name == "framejit._runtime":
            raise ImportError("undefined symbol: c10")
        return load(name)

    monkeypatch.setattr(build_check.importlib, "import_module", fail)
    # The checkout's own metadata are those of the last build, which may have been for another environment.
    monkeypatch.setattr(build_check.importlib.metadata, "requires", lambda _: [f"torch>={build_check.minor_version(torch.__version__)}"])
    with pytest.raises(ImportError, match=r"cannot be loaded \(undefined symbol: c10\); .* -m pip install "):
        build_check.check_build()
    monkeypatch.setattr(build_check.importlib.metadata, "requires", lambda _: ["torchvision", "torch<2.10,>=2.9", "numpy"])
    with pytest.raises(ImportError, match=r"built for torch 2\.9, but torch .* is installed; .* -m pip install "):
        build_check.check_build()


FREE_THREADED = "import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1"
REFUSED = r"framejit does not support free-threaded builds of Python yet, and \S+ is one: use python(3\.\d+), which has a GIL, instead of python\1t"
PRETENDED = "import torch; torch.__version__ = '2.99.0'"
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None"


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120, env={**os.environ, **variables})


def test_importing_framejit_refuses_another_torch_and_none():
    done = run("-c", f"{PRETENDED}; import framejit")
    assert done.returncode == 1
    assert "ImportError: framejit was built for torch" in done.stderr and " -m pip install " in done.stderr
    done = run("-c", f"{WITHOUT_TORCH}; import framejit")
    assert done.returncode == 1
    assert "ImportError: framejit needs torch, which is not installed: pip install torch" in done.stderr


def test_a_free_threaded_python_is_refused_before_anything_native_is_loaded():
    """Loading the extension would turn its GIL on."""
    program = "import sys\ntry: import framejit\nexcept ImportError as error: print(error, {'torch', 'framejit._runtime'} & set(sys.modules))"
    done = run("-c", f"{FREE_THREADED}\n{program}")
    assert re.fullmatch(rf"{REFUSED} set\(\)\n", done.stdout), done.stdout + done.stderr


def test_nothing_is_built_for_a_free_threaded_python():
    done = run("-c", f"{FREE_THREADED}; import runpy; runpy.run_path({str(ROOT / 'setup.py')!r}, run_name='__main__')")
    assert done.returncode == 1 and re.fullmatch(rf"{REFUSED}\n", done.stderr), done.stderr


def test_the_version_is_printed():
    assert run("-m", "framejit", "--version").stdout == f"framejit {framejit.__version__}\n"


def test_the_environment_is_reported():
    done = run("-m", "framejit", "env", FRAMEJIT_RECOMPILE_LIMIT="9", TORCHINDUCTOR_CACHE_DIR=str(ROOT / "guards"))
    rows = dict(re.findall(r"^([^:]+): +(.*)$", done.stdout, re.MULTILINE))
    assert done.returncode == 0
    assert rows["built for"] == f"Python {_runtime.built_for_python}, torch {_runtime.built_for_torch}"
    assert rows["torch"].startswith(f"{torch.__version__}, in ") and rows["devices"].startswith("cpu (")
    assert re.fullmatch(r".*guards, \d+ files, \d+\.\d MiB", rows["Inductor's cache"]) and rows["Triton's cache"].endswith("not there")
    assert "FRAMEJIT_RECOMPILE_LIMIT=9" in rows["variables"].split()


@pytest.mark.parametrize(("given", "problem"), [
    (PRETENDED, "framejit was built for torch "),
    (WITHOUT_TORCH, "framejit needs torch, which is not installed"),
    (FREE_THREADED, "framejit does not support free-threaded builds of Python yet"),
])  # fmt: skip
def test_the_environment_is_reported_where_framejit_cannot_be_imported(given: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(given)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    done = run("-m", "framejit", "env", PYTHONPATH=path)
    assert done.returncode == 1 and not done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"framejit can't be imported: {problem}")
    assert done.stdout.startswith(f"framejit:         {framejit.__version__}, in ")
    assert run("-m", "framejit", "--version", PYTHONPATH=path).stdout == f"framejit {framejit.__version__}\n"
    assert "Traceback" in run("-m", "framejit", "logs", PYTHONPATH=path).stderr


def test_importing_framejit_after_torch_imports_little():
    """None of torch's compilers, and no package that torch itself hasn't imported: that would take seconds."""
    program = "import sys, torch; before = set(sys.modules); import framejit; print(*sorted(set(sys.modules) - before))"
    imported = run("-c", program).stdout.split()
    ours = [name for name in imported if name.partition(".")[0] == "framejit"]
    others = [name for name in imported if name.partition(".")[0] not in {"framejit", *sys.stdlib_module_names} and not name.startswith("_sysconfigdata")]
    assert 10 < len(ours) < 110 and len(others) < 5, others
    assert not [name for name in others if name.startswith(("torch._dynamo", "torch._functorch", "torch._inductor", "torch.fx", "sympy", "triton", "z3"))]


def test_metadata():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert framejit.__version__ == project["version"] == "0.1.0"
    for name in ("demo", "test"):
        assert project["optional-dependencies"][name]


HERE = "{}.{}".format(*sys.version_info[:2])


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Variables of a machine without any Python: of an empty folder on the path, and of other empty folders."""
    (tmp_path / "bin").mkdir()
    return {"PATH": str(tmp_path / "bin"), "PYENV_ROOT": str(tmp_path / "pyenv"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}


def imitate(file: Path, program: str = "") -> str:
    """Writes a launcher of the running Python, which runs a program beforehand; returns its path."""
    file.parent.mkdir(parents=True)
    (file.parent / "sitecustomize.py").write_text(program)
    file.write_text(f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(file.parent))} exec {shlex.quote(sys.executable)} \"$@\"\n")
    file.chmod(0o755)
    return str(file)


def find_python(machine: dict[str, str], *versions: str) -> str:
    done = subprocess.run([ROOT / "tools" / "python.sh", "--here", *versions], capture_output=True, text=True, env=machine)
    assert not done.stderr and done.returncode == (0 if done.stdout else 1)
    return done.stdout.strip()


def test_the_first_python_that_runs_is_found(machine: dict[str, str], tmp_path: Path) -> None:
    assert find_python(machine, HERE) == ""
    launcher = tmp_path / "bin" / f"python{HERE}"
    launcher.write_text("#!/bin/sh\nexit 127\n")
    launcher.chmod(0o755)
    fetched = imitate(tmp_path / "cache" / "framejit" / f"python{HERE}" / "usr" / "bin" / f"python{HERE}")
    assert find_python(machine, HERE) == ""  # it is not complete yet
    (tmp_path / "cache" / "framejit" / f"python{HERE}" / "complete").touch()
    assert find_python(machine, "3.99", HERE) == fetched
    works = imitate(tmp_path / "pyenv" / "versions" / f"{HERE}.1" / "bin" / f"python{HERE}")
    assert find_python(machine, "3.99", HERE) == works
    assert find_python(machine, "3.99") == ""


@pytest.mark.parametrize("program", [
    pytest.param(FREE_THREADED, id="free-threaded"),
    pytest.param("import sys; sys.modules['ensurepip'] = None", id="without ensurepip"),
    pytest.param("import sys; sys.implementation.name = 'pypy'", id="pypy"),
])  # fmt: skip
def test_pythons_that_framejit_cannot_use_are_passed_over(program: str, machine: dict[str, str], tmp_path: Path) -> None:
    imitate(tmp_path / "pyenv" / "versions" / f"{HERE}.0t" / "bin" / f"python{HERE}", program)
    assert find_python(machine, HERE) == ""
    works = imitate(tmp_path / "pyenv" / "versions" / f"{HERE}.1" / "bin" / f"python{HERE}")
    assert find_python(machine, HERE) == works


@pytest.mark.parametrize(("given", "kept"), [
    ("# releases on this machine's disk\ntorch<=2.14.1\nnumpy<3\ntorchvision<=0.29.1\n", "# releases on this machine's disk\nnumpy<3\n"),
    ("torch-geometric<2\n triton == 3.1\nTorch<2\n", "torch-geometric<2\n"),
    ("numpy<3\n", None),
], ids=["a cap on torch", "names that look alike", "none on torch"])  # fmt: skip
def test_constraints_on_torch_are_lifted_and_others_kept(
    given: str, kept: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "configured.txt").write_text(given)
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "configured.txt"))
    assert constraints.main([str(tmp_path / "cache")]) == 0
    said = capsys.readouterr()
    if kept is None:
        assert said.out == "\n" and not said.err
    else:
        assert Path(said.out.strip()).read_text() == kept
        assert said.err == f"pip's constraints on torch are lifted here, where versions are named ({tmp_path / 'configured.txt'})\n"


def test_a_wheel_is_for_the_torch_that_is_asked_for_or_the_oldest_that_its_python_has():
    assert wheels.torch_for("3.14", "2.13.0") == "2.13.0"
    assert wheels.torch_for("3.15", "2.13.0") == "2.15.0"
    assert wheels.torch_for("3.15", "2.16.1") == "2.16.1"


def test_the_same_pythons_are_named_everywhere():
    known = [f"{major}.{minor}" for major, minor in versions.SUPPORTED]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    makefile = (ROOT / "Makefile").read_text()
    assert wheels.SUPPORTED == known
    assert re.findall(r"^PYTHONS = (.*)$", makefile, re.MULTILINE) == [" ".join(known)]
    assert {pair.partition(":")[0] for pair in re.findall(r"^MATRIX \?= (.*)$", makefile, re.MULTILINE)[0].split()} == set(known)
    assert re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"])) == known
    assert project["requires-python"] == f">={known[0]},<3.{int(known[-1].partition('.')[2]) + 1}"
    for page in ("README.md", "docs/index.md", "docs/quick-start.md", "docs/faq.md", "docs/from-torch-compile.md", "docs/guide/deployment.md"):
        assert f"{known[0]} to {known[-1]}" in (ROOT / page).read_text(), page


NOT_THERE = "import sys; sys.modules['z3'] = None; import torch, framejit; print('imported')"


def test_z3_is_asked_for_where_it_is_needed():
    """It is no dependency: nothing that compiles and runs needs it."""
    assert run("-c", NOT_THERE, FRAMEJIT_CHECK="").stdout == "imported\n"
    done = run("-c", f"{NOT_THERE}; framejit.valid_inputs(torch.sin, (torch.ones(2),))", FRAMEJIT_CHECK="")
    assert done.stderr.endswith("FramejitError: valid_inputs() needs z3, which is not installed: pip install z3-solver\n")
    assert "shapes needs z3, which is not installed: pip install z3-solver" in run("-c", NOT_THERE, FRAMEJIT_CHECK="shapes").stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that git knows, new ones included, as a clone has them."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("this isn't a checkout")
    folder = tmp_path_factory.mktemp("checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("docs/", "tests/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def pip(python: Path | str, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """pip with the packages that are here, unoptimised code and no isolation, for which it would download setuptools."""
    given = {**wheels.clean(), "PIP_NO_BUILD_ISOLATION": "0", "CFLAGS": "-O0", **variables}
    done = subprocess.run([python, "-m", "pip", *arguments], capture_output=True, text=True, env=given, cwd="/", timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def pretend(folder: Path, version: str) -> Path:
    """A folder with a package `torch` that has the installed torch's headers and libraries, but says that it is another version."""
    package = folder / "torch"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "version.py").write_text(f"__version__ = {version!r}\n")
    for name in ("include", "lib"):
        (package / name).symlink_to(Path(torch.__file__).parent / name)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_checkout_is_packed_installed_and_built_again_beside_another_torch(checkout: Path, tmp_path: Path) -> None:
    """A build is always for the torch that is installed, and the command in the message about a wrong build mends it."""
    environment = wheels.empty_environment(tmp_path / "environment", sys.executable)
    major, minor = map(int, build_check.minor_version(torch.__version__).split("."))
    near = minor + 1 if (major, minor + 1) < setup.TOO_NEW_TORCH else minor - 1

    pip(environment, "wheel", "--no-deps", "--wheel-dir", tmp_path / "dist", checkout)
    (wheel,) = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as packed:
        names = {name.partition("/")[2] for name in packed.namelist() if name.startswith("framejit/")}
        (metadata,) = (packed.read(name).decode() for name in packed.namelist() if name.endswith("/METADATA"))
    (required,) = re.findall(r"^Requires-Dist: torch(\S*)$", metadata, re.MULTILINE)
    assert set(required.split(",")) == {f">={major}.{minor}", f"<{major}.{minor + 1}"}
    assert re.findall(r"^Requires-Dist: ([^;\s]+)$", metadata, re.MULTILINE)[1:] == setup.DEPENDENCIES
    python_files = {str(path.relative_to(checkout / "jit")) for path in (checkout / "jit").rglob("*.py")}
    python_files |= {f"guards/{path.relative_to(checkout / 'guards')}" for path in (checkout / "guards").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == python_files
    assert {"py.typed", "_runtime.pyi", "_operators.pyi"} < names
    assert {name.partition(".")[0] for name in names if name.endswith(".so")} == {"_runtime", "_operators"}

    pip(environment, "install", "--no-deps", wheel)
    done = wheels.attempt(environment)
    assert done.returncode == 0, done.stderr

    (next((checkout / "build").glob("lib*")) / "framejit" / "removed.py").touch()  # as a module that an earlier version had
    other = pretend(tmp_path, f"{major}.{near}.0.dev20300101+cpu")
    pip(environment, "install", "--no-deps", "--force-reinstall", checkout, PYTHONPATH=str(other))
    installed = next((tmp_path / "environment").glob("lib/*/site-packages/framejit"))
    assert not (installed / "removed.py").exists()
    assert f"torch<{major}.{near + 1},>={major}.{near}.0.dev0" in (next(installed.parent.glob("framejit-*")) / "METADATA").read_text()
    done = wheels.attempt(environment)
    assert f"ImportError: framejit was built for torch {major}.{near}.0.dev20300101+cpu, but torch {torch.__version__} is installed" in done.stderr

    python, *command = shlex.split(done.stderr.rpartition("build it again: ")[2])
    assert command[:2] == ["-m", "pip"]
    pip(python, *command[2:])
    done = wheels.attempt(environment)
    assert done.returncode == 0, done.stderr
