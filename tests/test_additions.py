"""A kind of tensor, an operator and a source are each added by a package outside of framejit, of as few files as CONTRIBUTING.md says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parent.parent

BOX = '''
"""A wrapper of one tensor, with a factor that its operators use."""

import torch
from torch.utils import _pytree as pytree


class Box(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, factor=1):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner, factor=1):
        self.inner, self.factor = inner, factor

    def __tensor_flatten__(self):
        return ["inner"], self.factor

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Box(inner["inner"], context)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        factor = max(box.factor for box in pytree.tree_leaves(args) if isinstance(box, Box))
        return Box(func(*pytree.tree_map_only(Box, lambda box: box.inner, args), **(kwargs or {})) * factor, factor)
'''
BOXES = '''
"""Boxes go into graphs as themselves, for one factor."""

from framejit.graph.wrappers import Wrappers
from framejit.objects.core import abstract
from framejit.objects.tensors.tensorkind import TensorKind, tensor_kind
from toy.box import Box


@tensor_kind(45)
class Boxes(TensorKind):
    name = "boxes"
    stays_itself = True
    wraps = True

    def holds_class(self, cls):
        return cls is Box

    def make_input(self, inputs, source, tensor, plain):
        inputs.state.part(Wrappers).meet(self)
        return inputs.add_sized(source, tensor, plain, inputs.state.fakes.of_input(tensor, None), None, True)

    def guard_contents(self, vm, made):
        vm.observe(abstract.getattr_(vm, made, "factor")).constant(vm)

    def parts(self, fake):
        return [fake.inner]
'''
BOXES_AT_WORK = """
    import framejit, torch
    from toy.box import Box
    import toy.boxes

    def doubled(box):
        return (box + 1) * 2

    compiled = framejit.compile(doubled, backend="eager", fullgraph=True)
    for factor, graphs in ((3, 1), (3, 1), (4, 2)):
        box = Box(torch.randn(3), factor)
        found, expected = compiled(box), doubled(box)
        assert type(found) is Box and found.factor == factor and torch.equal(found.inner, expected.inner)
        assert framejit.statistics()["graphs"] == graphs
"""

SCALED = '''
"""toy_scaled: a tensor times a number, with a gradient."""

import torch

from framejit.torch_state.own_operators import declare_operator


@declare_operator("toy_scaled(Tensor x, float factor) -> Tensor")
def scaled(x, factor):
    return x * factor


@scaled.fake
def without_data(x, factor):
    return torch.empty_like(x)


def remember(ctx, inputs, output):
    _, ctx.factor = inputs


@scaled.gradient(remember)
def differentiate(ctx, gradient):
    return scaled(gradient, ctx.factor), None
'''
SCALED_AT_WORK = """
    import framejit, torch
    from toy.scaled import scaled

    def f(x):
        return scaled(x.sin(), 3.0).sum()

    for backend in ("eager", "aot_eager"):
        x = torch.arange(4.0, requires_grad=True)
        framejit.compile(f, backend=backend, fullgraph=True)(x).backward()
        assert torch.allclose(x.grad, 3 * torch.arange(4.0).cos())
"""

VIEWED = '''
"""The object that a memoryview is a view of."""

from framejit.guards.source import MISSING, Source


class Viewed(Source):
    __slots__ = ()
    accessor = "toy_viewed"
    form = "{0}.obj"

    def step(self, value):
        try:
            return value.obj if type(value) is memoryview else MISSING
        except ValueError:
            return MISSING
'''
VIEWED_NATIVELY = """
/* viewed.cpp: the object that a memoryview is a view of, until it is released. */
#include "tree.h"

namespace framejit {
namespace {

const PyMemoryViewObject *view_in(PyObject *base) {
    return Py_IS_TYPE(base, &PyMemoryView_Type) ? reinterpret_cast<const PyMemoryViewObject *>(base) : nullptr;
}

const Registered<AccessorKind> toy_viewed({
    .name = "toy_viewed",
    .step = [](GuardTree &, Node &, PyObject *base, const CallView &) -> PyObject * {
        const PyMemoryViewObject *found = view_in(base);
        return found == nullptr || (found->flags & _Py_MEMORYVIEW_RELEASED) != 0 ? nullptr : found->view.obj;
    },
    .vouch = [](Memo &memo, const Node &node, PyObject *base, PyObject *) {
        const PyMemoryViewObject *found = view_in(base);
        if (!memo.has_type(node.parent, base)) return false;
        if (found != nullptr) {
            memo.add(&found->flags);
            memo.add(&found->view.obj);
        }
        return true;
    },
});

}  // namespace
}  // namespace framejit
"""
VIEWED_AT_WORK = """
    import torch
    from framejit import _runtime
    from framejit.guards.build import build, check_all
    from framejit.guards.explain import describe, explain_failure
    from framejit.guards.kinds import Length, TypeIs
    from framejit.guards.source import SOURCES, Call, Index, Local, Root, Slot, UserLine
    from toy.viewed import Viewed

    assert SOURCES["toy_viewed"] is Viewed and "toy_viewed" in _runtime.ACCESSORS and _runtime.__file__.startswith(BUILT)
    here = UserLine("model.py", 7, "forward")
    def forward(): ...

    view = Root().child(Local, Slot(0, "values")).child(Index, 0)
    viewed = view.child(Viewed)
    built = build([TypeIs(view, here, memoryview), TypeIs(viewed, here, bytearray)], [viewed], [])

    def found(values):
        expected = check_all(built.guards, Call((values,), forward))
        captured = built.tree.match((values,), forward)
        assert (captured is None) == (expected is not None) and built.tree.failing((values,), forward) == (expected and built.guards.index(expected))
        return captured

    buffer = bytearray(3)
    values = [memoryview(buffer)]
    for _ in range(4):
        assert found(values)[0] is buffer
    assert built.tree.visited <= 2, "words of memory vouch for the view and for what it is of"
    values[0].release()
    assert found(values) is None
    values[0] = memoryview(buffer)
    assert found(values)[0] is buffer
    for other in ([memoryview(b"abc")], [buffer], []):
        assert found(other) is None
    failure = str(explain_failure(built.guards, Call(([memoryview(b"abc")],), forward)))
    assert failure.startswith("values[0].obj: expected that it is exactly a bytearray; found b'abc'"), failure
    assert "values[0].obj is exactly a bytearray" in describe(built.guards), describe(built.guards)
"""


CHECKSUMS = '''
"""Functions of zlib and unicodedata in C, which say what they compute in a trace."""

import unicodedata
import zlib

from framejit.objects.core import abstract
from framejit.objects.core.registry import models, pure

pure(zlib.crc32)


@models(unicodedata.numeric)
def numeric(vm, character, default=None):
    return vm.const(unicodedata.numeric(vm.observe(character).constant(vm)))
'''
CHECKSUMS_AT_WORK = """
    import unicodedata, zlib
    import framejit, torch

    def f(x, data, character):
        return x * (zlib.crc32(data) % 7) + unicodedata.numeric(character)

    x = torch.ones(2)
    breaks = framejit.explain(f, backend="eager")(x, b"abc", "5").breaks
    assert len(breaks) == 2, breaks
    framejit.reset()

    import toy.checksums

    compiled = framejit.compile(f, backend="eager", fullgraph=True)
    for data, character, graphs in ((b"abc", "5", 1), (b"abd", "5", 2), (b"abd", "\\u00bd", 3), (b"abc", "5", 3)):
        assert torch.equal(compiled(x, data, character), f(x, data, character)) and framejit.statistics()["graphs"] == graphs
"""

COUNTING = '''
"""A backend that counts the graphs it is given."""

graphs = []


def counting(gm, example_inputs):
    graphs.append(gm)
    return gm.forward
'''
COUNTING_AT_WORK = """
    import framejit, torch

    compiled = framejit.compile(lambda x: x.sin() + 1, backend="counting")
    x = torch.randn(3)
    assert torch.equal(compiled(x), x.sin() + 1)

    from toy.counting import graphs

    assert len(graphs) == 1 and "counting" in framejit.list_backends()
"""

ASCII = '''
"""That a str has only ASCII characters."""

from typing import ClassVar

from framejit.guards.kinds import Guard
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, eq=False)
class IsAscii(Guard):
    leaf: ClassVar[str] = "toy_ascii"
    cost: ClassVar[int] = 1
    advice: ClassVar[str] = "pass ASCII only"

    def check(self, value, call):
        return type(value) is str and value.isascii()

    def expected(self):
        return "is ASCII"
'''
ASCII_NATIVELY = """
/* ascii.cpp: that a str has only ASCII characters. */
#include "tree.h"

namespace framejit {
namespace {

const Registered<LeafKind> toy_ascii({
    .name = "toy_ascii",
    .holds = [](const Leaf &, PyObject *value) { return PyUnicode_CheckExact(value) && PyUnicode_IS_ASCII(value); },
});

}  // namespace
}  // namespace framejit
"""
ASCII_AT_WORK = """
    from framejit.guards.build import build, check_all
    from framejit.guards.explain import explain_failure
    from framejit.guards.source import Call, Local, Root, Slot, UserLine
    from toy.ascii import IsAscii

    def forward(): ...
    built = build([IsAscii(Root().child(Local, Slot(0, "name")), UserLine("model.py", 7, "forward"))], [], [])
    for value in ("abc", "", "\\u00e4", b"abc", None):
        expected = check_all(built.guards, Call((value,), forward)) is None
        assert (built.tree.match((value,), forward) is not None) == expected == (type(value) is str and value.isascii())
    failure = str(explain_failure(built.guards, Call(("\\u00e4",), forward)))
    assert failure.startswith("name: expected that it is ASCII; found") and "pass ASCII only" in failure, failure
"""


def package(folder: Path, **files: str) -> int:
    """Write a package `toy` of these modules, and return how many files an addition that consists of them has."""
    (folder / "toy").mkdir()
    for name, text in files.items():
        (folder / "toy" / f"{name}.py").write_text(text)
    return len(files)


def run(program: str, *path: Path) -> None:
    """Run a program in a process of its own, with these folders in front of the module path."""
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "FRAMEJIT_STRICT": "1"}
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, env=given, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_kind_of_tensor_takes_two_files_of_which_one_is_the_class(tmp_path: Path) -> None:
    assert package(tmp_path, box=BOX, boxes=BOXES) == 2
    run(BOXES_AT_WORK, tmp_path)


def test_an_operator_takes_one_file(tmp_path: Path) -> None:
    assert package(tmp_path, scaled=SCALED) == 1
    run(SCALED_AT_WORK, tmp_path)


def test_a_model_of_a_function_takes_one_file(tmp_path: Path) -> None:
    assert package(tmp_path, checksums=CHECKSUMS) == 1
    run(CHECKSUMS_AT_WORK, tmp_path)


def test_a_backend_takes_one_file_and_its_entry_point(tmp_path: Path) -> None:
    assert package(tmp_path, counting=COUNTING) == 1
    installed = tmp_path / "toy-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[torch_dynamo_backends]\ncounting = toy.counting:counting\n")
    run(COUNTING_AT_WORK, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_source_and_a_guard_take_a_class_in_python_and_a_definition_in_native_code(tmp_path: Path) -> None:
    """The extension is built of copies of the native files, and of one more for each, without optimisation."""
    for name in ("jit", "guards", "runtime_c"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    native = {"viewed.cpp": VIEWED_NATIVELY, "ascii.cpp": ASCII_NATIVELY}
    for name, text in native.items():
        (tmp_path / "guards" / "native" / name).write_text(text)
    assert package(tmp_path, viewed=VIEWED, ascii=ASCII) + len(native) == 2 * 2
    given = {**os.environ, "CFLAGS": "-O0"}
    done = subprocess.run([sys.executable, "setup.py", "-q", "build", "--build-lib", "built"], cwd=tmp_path, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    run(VIEWED_AT_WORK.replace("BUILT", repr(str(tmp_path))), tmp_path / "built", tmp_path)
    run(ASCII_AT_WORK, tmp_path / "built", tmp_path)
