"""Import statements in compiled functions: of what is loaded already, of what isn't yet, and under import hooks of the program's."""

from __future__ import annotations

import builtins
import importlib
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from agreement import Comparison, outcome

import framejit

x = torch.arange(6.0).reshape(2, 3)

FILES = {
    "__init__.py": "from . import early\nLOG = []\nshadowed = 7\n",
    "early.py": "value = 2\n",
    "late.py": "from . import LOG\nLOG.append(__name__)\nvalue = 3\n",
    "shadowed.py": "from . import LOG\nLOG.append('never')\n",
    "fails.py": "from . import LOG\nLOG.append(__name__)\nraise ValueError('at import')\n",
    "needs.py": "import framejit_test_no_such_module\n",
    "lazy.py": """
        import importlib
        def __getattr__(name):
            if name == "late":
                return importlib.import_module(".late", __package__)
            raise AttributeError(f"no {name}")
        """,
    "circle_a.py": "from . import circle_b\nvalue = 5\n",
    "circle_b.py": "import {name}\nfrom . import LOG\nLOG.append(__name__)\ndef get():\n    from .circle_a import value\n    return value\n",
    "deep/__init__.py": "",
    "deep/deeper/__init__.py": "",
    "deep/deeper/leaf.py": "value = 11\n",
    "plain.py": "import framejit_test_no_such_module_either if False else None\n",
    "uses.py": """
        def relative(t):
            from . import late
            return t * late.value, late

        def name_in_relative(t):
            from .late import value
            return t * value

        def above(t):
            from ..{name} import late
            return t * late.value
        """,
}
FILES["plain.py"] = "value = 13\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package that `forget` unloads."""
    name = "framejit_test_package"
    for path, text in FILES.items():
        file = tmp_path / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).replace("{name}", name))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("framejit_test_package")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def submodule(t):
    from framejit_test_package import late

    return t * late.value


def two_submodules(t):
    from framejit_test_package import early, late, plain

    return t * late.value + early.value, plain.value


def submodule_beside_an_attribute(t):
    from framejit_test_package import late, shadowed

    return t * late.value + shadowed


def name_of_a_submodule(t):
    from framejit_test_package.late import value

    return t * value


def dotted(t):
    import framejit_test_package.deep.deeper.leaf

    return t * framejit_test_package.deep.deeper.leaf.value


def dotted_as(t):
    import framejit_test_package.deep.deeper.leaf as leaf

    return t * leaf.value


def package_of_a_package(t):
    from framejit_test_package.deep import deeper
    from framejit_test_package.deep.deeper import leaf

    return t * leaf.value, deeper.__name__


def by_importlib(t):
    return t * importlib.import_module("framejit_test_package.late").value


def by_importlib_relative(t):
    return t * importlib.import_module(".late", "framejit_test_package").value


def by_dunder_import(t):
    return t * __import__("framejit_test_package.late").late.value, __import__("framejit_test_package", fromlist=["plain"]).plain.value


def through_a_lazy_module(t):
    from framejit_test_package import lazy

    return t * lazy.late.value


def attribute_that_the_lazy_module_lacks(t):
    from framejit_test_package import lazy

    return t, hasattr(lazy, "nothing")


def a_module_that_raises(t):
    try:
        from framejit_test_package import fails
    except ValueError as error:
        return t + 1, str(error)
    return t, fails


def a_module_that_raises_uncaught(t):
    from framejit_test_package import fails

    return t, fails


def a_name_that_is_not_there(t):
    try:
        from framejit_test_package import nothing
    except ImportError as error:
        return t + 1, str(error), error.name
    return t, nothing


def a_submodule_that_is_not_there(t):
    try:
        import framejit_test_package.nothing
    except ModuleNotFoundError as error:
        return t + 1, str(error), error.name
    return t, framejit_test_package


def a_submodule_of_what_is_no_package(t):
    try:
        import framejit_test_package.early.nothing
    except ModuleNotFoundError as error:
        return t + 1, str(error)
    return t, framejit_test_package


def a_module_that_needs_another(t):
    try:
        from framejit_test_package import needs
    except ModuleNotFoundError as error:
        return t + 1, str(error), error.name
    return t, needs


def in_a_circle(t):
    from framejit_test_package import circle_a
    from framejit_test_package.circle_b import get

    return t * circle_a.value, get()


def optional(t):
    try:
        import framejit_test_package.nothing as found
    except ImportError:
        found = None
    return t + 1 if found is None else t


def in_a_loop(t):
    for name in ("late", "plain", "early"):
        t = t * importlib.import_module(f"framejit_test_package.{name}").value
    return t


PROGRAMS = [
    submodule, two_submodules, submodule_beside_an_attribute, name_of_a_submodule, dotted, dotted_as, package_of_a_package, by_importlib,
    by_importlib_relative, by_dunder_import, through_a_lazy_module, attribute_that_the_lazy_module_lacks, a_module_that_raises, a_module_that_raises_uncaught,
    a_name_that_is_not_there, a_submodule_that_is_not_there, a_submodule_of_what_is_no_package, a_module_that_needs_another, in_a_circle, optional, in_a_loop,
]  # fmt: skip


@pytest.mark.parametrize("loaded", [False, True], ids=["nothing loaded", "package loaded"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_imports_do_what_they_do_in_eager(program, loaded, package):
    runs = []
    for fn in (program, framejit.compile(program, backend="eager")):
        forget()
        if loaded:
            importlib.import_module(package)
        outcomes = [outcome(fn, (x,), {}) for _ in range(3)]
        modules = {name for name in sys.modules if name.startswith(package)}
        runs.append((outcomes, sys.modules[package].LOG[:], modules))
    Comparison().same(*runs)


@pytest.mark.parametrize("name", ["relative", "name_in_relative", "above"])
def test_relative_imports_of_what_is_not_loaded(name, package):
    runs = []
    for wrap in (lambda fn: fn, lambda fn: framejit.compile(fn, backend="eager")):
        forget()
        fn = wrap(getattr(importlib.import_module(f"{package}.uses"), name))
        found = [outcome(fn, (x,), {}) for _ in range(3)]
        runs.append([(kind, str(value) if kind == "raised" else value[0] if isinstance(value, tuple) else value) for kind, value in found])
    Comparison().same(*runs)


@pytest.mark.parametrize("program", [submodule, name_of_a_submodule, dotted, dotted_as, by_importlib, by_dunder_import], ids=lambda p: p.__name__)
def test_only_the_first_import_breaks_the_graph(program, package):
    importlib.import_module(package)
    compiled = framejit.compile(program, backend="eager")
    framejit.reset()
    before = framejit.statistics()["graph_breaks"]
    compiled(x)
    assert framejit.statistics()["graph_breaks"] > before
    before = framejit.statistics()
    compiled(x)  # once more: the module is there now
    compiled(x)
    after = framejit.statistics()
    assert after["graph_breaks"] == before["graph_breaks"]
    assert after["recompiles"] == before["recompiles"] + 1
    assert "FJ037" in before["reasons"][-1]


def test_a_module_is_imported_where_the_statement_is(package):
    importlib.import_module(package)
    log = []

    def program(t, early):
        log.append("before")
        if early:
            return t
        from framejit_test_package import late

        log.append(list(sys.modules[late.__name__.rpartition(".")[0]].LOG))
        return t * late.value

    compiled = framejit.compile(program, backend="eager")
    compiled(x, True)
    assert sys.modules[package].LOG == [] and f"{package}.late" not in sys.modules
    compiled(x, False)
    assert log == ["before", "before", [f"{package}.late"]]


def test_modules_that_are_swapped_are_noticed(package, monkeypatch):
    importlib.import_module(f"{package}.late")
    other = types.ModuleType(f"{package}.late")
    other.value = 40
    for program in (dotted_late, submodule):
        compiled = framejit.compile(program, backend="eager")
        assert compiled(x).equal(x * 3)
        with monkeypatch.context() as patched:
            for module in (other, None):
                patched.setitem(sys.modules, f"{package}.late", module)
                Comparison().same(outcome(program, (x,), {}), outcome(compiled, (x,), {}))
            patched.delitem(sys.modules, f"{package}.late")
            Comparison().same(outcome(program, (x,), {}), outcome(compiled, (x,), {}))


def dotted_late(t):
    from framejit_test_package.late import value

    return t * value


def imports_math(t):
    import math

    return t + math.floor(1.5)


@pytest.mark.parametrize("program", [imports_math, submodule, by_importlib], ids=lambda program: program.__name__)
def test_an_import_function_of_the_programs_is_called(program, package, monkeypatch):
    importlib.import_module(f"{package}.late")
    original = builtins.__import__
    runs = []
    for fn in (program, framejit.compile(program, backend="eager")):
        seen = []

        def importing(name, *args, seen=seen, **kwargs):
            if sys._getframe(1).f_code.co_filename == __file__:
                seen.append((name, args[2:]))
            return original(name, *args, **kwargs)

        plain = fn(x)
        with monkeypatch.context() as patched:
            patched.setattr(builtins, "__import__", importing)
            hooked = [fn(x), fn(x)]
        runs.append((plain, hooked, seen, fn(x)))
    Comparison().same(*runs)


def test_hooks_on_the_meta_path_see_the_import(package, monkeypatch):
    importlib.import_module(package)
    seen = []

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            seen.append(name)
            return None

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    compiled = framejit.compile(submodule, backend="eager")
    for _ in range(3):
        compiled(x)
    assert seen == [f"{package}.late"]
