"""Inductor's C++ kernels: compiled together, and by themselves where they can't be."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import CppPythonBindingsCodeCache
from torch._inductor.exc import CppCompileError

import framejit
from framejit.backends import translation_units
from framejit.backends.translation_units import BATCH, INCLUDE, LOADED, Batch, Kernel, cpp_pybinding, several_together, together, units

ONE = Kernel(("float*",), f'{INCLUDE}\nextern "C"  void  kernel(float* out_ptr0)\n{{\n    out_ptr0[0] = 1.0;\n}}\n')
TWO = Kernel(
    ("float*", "int64_t"),
    f'{INCLUDE}\nextern "C"  void  kernel(float* out_ptr0,\n    int64_t ks0)\n{{\n    {{\n        out_ptr0[0] = ks0;\n    }}\n}}\n',
)
CLASHING = [
    Kernel(
        ("float*",), f'{INCLUDE}\nextern "C"  void  kernel(float* out_ptr0)\n{{\n    {kind} clashing(int);\n    out_ptr0[0] = {n};\n}}\n'
    )
    for kind, n in (("int", 3), ("float", 4))
]
WRONG = Kernel(("float*",), f'{INCLUDE}\nextern "C"  void  kernel(float* out_ptr0)\n{{\n    out_ptr0[0] = nothing;\n}}\n')


def written(function: Any, *args: int) -> float:
    result = torch.zeros(1)
    function(result, *args)
    return result.item()


def test_the_kernels_of_a_graph_are_one_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start = translation_units.start

    def watched(unit: Sequence[Kernel]) -> Any:
        started.append(len(unit))
        return start(unit)

    monkeypatch.setattr(translation_units, "start", watched)

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        y = torch.relu(x @ x) @ x
        return torch.softmax(y, -1) @ x // n

    x = torch.randn(8, 8)
    compiled = framejit.compile(f, backend="inductor", dynamic=True)
    torch.testing.assert_close(compiled(x, 2), f(x, 2))
    torch.testing.assert_close(compiled(x, -3), f(x, -3))
    assert len(started) == 1 and started[0] >= 2


def refused(*args: Any) -> None:
    raise AssertionError("a kernel is compiled by itself")


def test_functions_and_types_of_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels are in one library, which the C++ compiler takes as it is."""
    monkeypatch.setattr(CppPythonBindingsCodeCache, "load_pybinding", refused)
    with together():
        one, two = (cpp_pybinding(None, kernel.argtypes, kernel.source) for kernel in (ONE, TWO))  # type: ignore[arg-type]
        assert BATCH.get() is not None
        assert written(one.result()) == 1 and written(two.result(), 7) == 7
        with pytest.raises(RuntimeError, match="requires 2 args"):
            two.result()(torch.zeros(1))
        with pytest.raises(RuntimeError, match="expected int arg"):
            two.result()(torch.zeros(1), "7")
    assert BATCH.get() is None


def test_a_function_is_kept_for_as_long_as_it_is_used() -> None:
    batch = Batch()
    waiting = [batch.add(ONE), batch.add(TWO)]
    function = waiting[0].result()
    assert batch.add(ONE).result() is function and LOADED[ONE] is function
    del function, batch, waiting
    gc.collect()
    assert ONE not in LOADED


def test_sources_that_clash_are_compiled_one_by_one() -> None:
    batch = Batch()
    three, four = [batch.add(kernel) for kernel in CLASHING]
    assert written(four.result()) == 4 and written(three.result()) == 3


def test_a_source_with_more_than_a_function_is_left_to_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(translation_units, "one_by_one", lambda compiler, argtypes, source: asked.append(source))
    sources = [
        ONE.source.replace("extern", "static int n;\nextern"),
        ONE.source.replace("    out", "#define A 1\n    out"),
        ONE.source + "static int n;\n",
        "#include <map>\n" + ONE.source,
    ]
    with together():
        for source in sources:
            cpp_pybinding(None, ["float*"], source)  # type: ignore[arg-type]
    assert asked == sources
    cpp_pybinding(None, ["float*"], ONE.source)  # type: ignore[arg-type]  # not in a compilation of framejit's
    assert asked[-1] == ONE.source


def test_what_the_compiler_refuses_is_raised_for_each_kernel() -> None:
    batch = Batch()
    for waiting in [batch.add(ONE), batch.add(WRONG)]:
        with pytest.raises(CppCompileError, match="nothing"):
            waiting.result()


def test_units_are_of_about_the_same_size() -> None:
    kernels = [Kernel((), " " * size) for size in (60_000, 50_000, 40_000, 30_000, 1_000)]
    assert [[len(kernel.source) for kernel in part] for part in units(kernels, 2)] == [[60_000, 30_000, 1_000], [50_000, 40_000]]
    assert len(units(kernels, 8)) == 3
    assert len(units(kernels[-2:], 8)) == 1


def scope_with(kernels: dict[str, Kernel]) -> dict[str, Any]:
    """The globals of a graph's code after it has waited for these kernels."""
    compiler = AsyncCompile()
    scope: dict[str, Any] = {name: cpp_pybinding(compiler, list(kernel.argtypes), kernel.source) for name, kernel in kernels.items()}
    compiler.wait(scope)
    return scope


def test_the_kernels_of_several_graphs_are_one_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    start = translation_units.start
    monkeypatch.setattr(translation_units, "start", lambda unit: (sizes.append(len(unit)), start(unit))[1])
    with several_together():
        first = scope_with({"one": ONE})
        second = scope_with({"two": TWO, "again": ONE})
        assert not sizes
    assert sizes == [2] and written(first["one"]) == 1.0 and written(second["two"], 5) == 5.0 and second["again"] is first["one"]


def test_an_interrupt_leaves_kernels_that_are_compiled_when_they_are_called() -> None:
    scope: dict[str, Any] = {}
    with pytest.raises(KeyboardInterrupt), several_together():
        scope = scope_with({"one": ONE, "two": TWO})
        raise KeyboardInterrupt
    assert written(scope["two"], 7) == 7.0 and written(scope["one"]) == 1.0
    assert not isinstance(scope["one"], translation_units.Postponed)


def test_a_kernel_that_is_wrong_among_those_of_several_graphs() -> None:
    scope: dict[str, Any] = {}
    with pytest.raises(CppCompileError), several_together():
        scope = scope_with({"one": ONE, "wrong": WRONG})
    with pytest.raises(CppCompileError):
        scope["wrong"](torch.zeros(1))
