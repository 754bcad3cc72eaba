"""Stand-ins for the modules of symbols answer torch's kernels as the modules do, and nobody else can tell that they are there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest
import torch
from torch.fx.experimental import symbolic_shapes

from framejit.torch_state import no_symbols
from framejit.torch_state.symbols import SHAPES

PLAIN: dict[str, list[tuple[Any, ...]]] = {
    "guard_or_false": [(True,), (False,)], "guard_or_true": [(True,), (False,)], "statically_known_true": [(True,), (False,)],
    "expect_true": [(True,), (False,)], "guard_size_oblivious": [(True,), (False,)],
    "sym_and": [(True,), (True, True), (True, False, True)], "sym_or": [(False,), (False, True), (False, False)],
    "sym_eq": [(2, 2), (2, 3), ((2, 3), [2, 3]), (torch.Size([2]), (3,)), ([1], [1, 2]), ((), [])],
    "guard_int": [(3,)], "is_nested_int": [(3,), (2.0,)], "is_symbolic": [(3,), (2.0,), (True,)], "has_guarding_hint": [(3,), (2.0,)],
    "has_hint": [(3,), (2.0,)], "has_free_symbols": [(3,), (torch.ones(2),)],
    "has_free_unbacked_symbols": [(3,), (torch.ones(2),), ([1, 2],)], "free_unbacked_symbols": [(3,), (torch.ones(2),)],
    "guarding_hint_or_throw": [(3,)], "optimization_hint": [(3,)], "size_hint": [(3,)],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:guard_size_oblivious:FutureWarning")
@pytest.mark.parametrize("name", PLAIN)
def test_answers_are_torchs(name: str) -> None:
    if not hasattr(symbolic_shapes, name):
        pytest.skip("this torch has no such function")
    for args in PLAIN[name]:
        ours, torchs = no_symbols.ANSWERS[SHAPES][name](*args), getattr(symbolic_shapes, name)(*args)
        assert ours == torchs and type(ours) in (type(torchs), set)


@pytest.mark.parametrize(("name", "args"), [("guard_or_false", (1,)), ("statically_known_true", ("x",)), ("sym_eq", (1, "x")), ("sym_eq", (1, (1,)))])
def test_wrong_arguments_are_torchs_to_refuse(name: str, args: tuple[Any, ...]) -> None:
    with pytest.raises(AssertionError):
        getattr(symbolic_shapes, name)(*args)
    with pytest.raises(AssertionError):
        no_symbols.ANSWERS[SHAPES][name](*args)


def run(program: str) -> Any:
    """Run a program in a process of its own, where nothing has imported the modules; return the value that it leaves in `found`."""
    begin = "import sys, threading, torch, framejit\nfrom framejit.torch_state import no_symbols\nSHAPES = 'torch.fx.experimental.symbolic_shapes'\n"
    text = f"{begin}assert not {{'sympy', SHAPES}} & set(sys.modules)\n{textwrap.dedent(program)}\nimport json; print(json.dumps(found))"
    inherited = {name: value for name, value in os.environ.items() if name != "FRAMEJIT_CHECK"} | {"FRAMEJIT_STRICT": "1", "FRAMEJIT_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", text], env=inherited, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_nothing_stays_after_the_block() -> None:
    assert run("""
        try:
            with no_symbols.standing_in():
                inside = "sympy" in sys.modules, hasattr(torch.fx.experimental, "symbolic_shapes")
                raise KeyError
        except KeyError:
            pass
        found = [*inside, "sympy" in sys.modules, hasattr(torch.fx.experimental, "symbolic_shapes"), len(no_symbols.STAND_INS)]
    """) == [True, True, False, False, 0]


IMPORTS = {
    "a function": "from torch.fx.experimental.symbolic_shapes import guard_or_false as got\nfound = got.__module__",
    "the module": "import torch.fx.experimental.symbolic_shapes as got\nfound = got.guard_or_false.__module__",
    "the package": "import torch.fx.experimental.symbolic_shapes\nfound = torch.fx.experimental.symbolic_shapes.guard_or_false.__module__",
    "sympy": "import sympy\nfound = sympy.Symbol('x').name and type(sympy.Basic).__name__ and sympy.Basic.__module__",
    "a part of sympy": "import sympy.core.basic\nfound = sympy.core.basic.Basic.__module__",
    "torch's own functions": "from torch.utils._sympy.functions import Max\nfound = Max.__module__",
}
MODULES = {"sympy": "sympy.core.basic", "a part of sympy": "sympy.core.basic", "torch's own functions": "torch.utils._sympy.functions"}


@pytest.mark.parametrize("thread", ["this", "another"])
@pytest.mark.parametrize("name", IMPORTS)
def test_others_get_the_modules(name: str, thread: str) -> None:
    """Code that isn't torch's, on the thread of the trace and on another one."""
    run_there = "exec(program, space)" if thread == "this" else "other = threading.Thread(target=exec, args=(program, space)); other.start(); other.join()"
    found = run(f"""
        program, space = {IMPORTS[name]!r}, {{"torch": torch}}
        with no_symbols.standing_in():
            {run_there}
        import sympy, torch.fx.experimental.symbolic_shapes as real
        found = [space["found"], sympy is sys.modules["sympy"], real is torch.fx.experimental.symbolic_shapes]
        assert type(sympy) is type(real) is type(sys) and issubclass(sympy.Symbol, sympy.Basic)
    """)
    assert found == [MODULES.get(name, SHAPES), True, True]


def test_who_keeps_a_stand_in_has_the_module() -> None:
    assert run("""
        with no_symbols.standing_in():
            kept = sys.modules["sympy"]
        first = kept.Symbol("x")
        import sympy
        assert first == sympy.Symbol("x") and kept.Basic is sympy.Basic
        found = "fine"
    """) == "fine"


def test_a_module_is_set_and_deleted_from() -> None:
    assert run("""
        with no_symbols.standing_in():
            kept = sys.modules["torch.fx.experimental.symbolic_shapes"]
            kept.marked = 1
        import torch.fx.experimental.symbolic_shapes as real
        found = [real.marked]
        del kept.marked
        found += [hasattr(real, "marked")]
    """) == [1, False]


def test_a_traced_function_imports_the_module() -> None:
    """The guard on `sys.modules` is about what is there after the trace."""
    assert run("""
        def program(x):
            from torch.fx.experimental.symbolic_shapes import guard_or_false
            return x + 1 if guard_or_false(x.dim() == 1) else x

        compiled = framejit.compile(program, backend="eager")
        found = [compiled(torch.ones(1)).item() for _ in range(3)]
        assert type(sys.modules[SHAPES]) is type(sys)
    """) == [2.0, 2.0, 2.0]


LOOKS = {
    "in": "'sympy' in sys.modules", "get": "sys.modules.get(SHAPES) is not None", "item": "len(sys.modules['sympy.core'].__name__)",
    "of Python": "'_pydecimal' in sys.modules", "of nobody": "'framejit_no_such_module' in sys.modules", "there": "'torch' in sys.modules",
    "any": "any(name == 'sympy' for name in list(sys.modules))",
}  # fmt: skip
"""Questions to `sys.modules` in a process that hasn't imported the modules."""


def test_a_program_that_looks_for_modules_finds_no_stand_in() -> None:
    found = run(f"""
        found = {{}}
        for name, look in {LOOKS}.items():
            scope = globals() | {{"x": torch.ones(3)}}
            exec(f"def f():\\n    y = x * 2\\n    try:\\n        return y + 1, {{look}}\\n    except KeyError:\\n        return y + 2, 0", scope)
            compiled = framejit.compile(scope["f"], backend="eager")
            results = [(tensor.tolist(), answer) for tensor, answer in (scope["f"](), compiled(), compiled(), scope["f"]())]
            found[name] = [results.count(results[0]), len(framejit.explain(scope["f"], backend="eager")().breaks)]
    """)
    assert {name: same for name, (same, _) in found.items()} == dict.fromkeys(LOOKS, 4)
    assert {name for name, (_, splits) in found.items() if not splits} == {"of nobody", "there"}


def test_a_program_that_goes_through_the_finders_of_modules_finds_none_of_framejits() -> None:
    assert run("""
        import importlib

        def f(x):
            importlib.invalidate_caches()
            return x + len(sys.meta_path)

        count = len(sys.meta_path)
        compiled = framejit.compile(f, backend="eager")
        found = [compiled(torch.ones(1)).item() - count, len(sys.meta_path) - count]
        with no_symbols.standing_in():
            import sympy.core.basic
        found += [len(sys.meta_path) - count, sympy.core.basic.Basic.__name__]
    """) == [1.0, 0, 0, "Basic"]


def test_the_import_of_a_module_that_something_stands_in_for() -> None:
    assert run("""
        def f(x):
            y = x * 2
            import sympy
            return y + sympy.Integer(2).p

        compiled = framejit.compile(f, backend="eager")
        found = [compiled(torch.ones(1)).item(), compiled(torch.ones(1)).item(), framejit.statistics()["graph_breaks"]]
    """) == [4.0, 4.0, 1]


def test_a_kernel_of_others_for_fakes_has_the_module() -> None:
    assert run("""
        from torch.library import custom_op

        @custom_op("tests_no_symbols::double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @double.register_fake
        def _(x):
            from torch.fx.experimental.symbolic_shapes import guard_or_false
            assert guard_or_false.__module__ == SHAPES
            return torch.empty_like(x)

        found = framejit.compile(lambda x: double(x) + 1, backend="eager", fullgraph=True)(torch.ones(1)).item()
    """) == 3.0


def test_an_operator_with_symbols_after_some_without() -> None:
    assert run("""
        def program(x):
            y = (x * 2).relu()
            return y, y.nonzero().sum(0)

        y, indices = framejit.compile(program, backend="eager", fullgraph=True)(torch.eye(2))
        found = [y.sum().item(), indices.tolist()]
    """) == [4.0, [1, 1]]
