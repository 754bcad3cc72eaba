"""docs/internals/tiny, the tiny JIT: it gives what eager gives, compiles again when a guard fails, and its page shows its own code."""

from __future__ import annotations

import ast
import contextlib
import dis
import inspect
import itertools
import os
import re
import subprocess
import sys
import textwrap
import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

INTERNALS = Path(__file__).resolve().parents[2] / "docs" / "internals"
sys.path.insert(0, str(INTERNALS))
import tiny  # noqa: E402
from tiny import bytecode, operations  # noqa: E402

PAGE = INTERNALS / "tiny.md"


def compiled(function: Callable[..., Any], *calls: tuple[Any, ...]) -> Any:
    """The function, compiled, after each call has given what eager gives: result or exception."""
    fast = tiny.compile(function)
    for args in calls:
        assert outcome(fast, args) == outcome(function, args)
    return fast


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    torch.manual_seed(0)
    try:
        return plain(function(*args))
    except Exception as error:
        return type(error), str(error)


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    return type(value)(map(plain, value)) if isinstance(value, (list, tuple)) else value


def entries(fast: Any) -> list[int]:
    """Return the numbers of entries of the function and of each of its resume functions."""
    return [len(part.entries) for part in (fast, *fast.resumes.values())]


def nodes(fast: Any) -> list[str]:
    return [node.name for node in fast.entries[0].graph.graph.nodes if node.op.startswith("call")]


x = torch.tensor([-2.0, 0.5, 1.0])


def test_operators_become_a_graph():
    def f(x, y):
        return (x + y).relu() * 2 - x[0]

    fast = compiled(f, (x, x), (x * 2, x))
    assert entries(fast) == [1]
    assert nodes(fast) == ["add", "relu", "mul", "getitem", "sub"]


def test_slices_attributes_and_several_results():
    def f(x):
        low, high = torch.cat([x[1:], -x[:1]]).chunk(2)
        return low[-1], high, x.ndim, x.size(0)

    fast = compiled(f, (x,))
    assert entries(fast) == [1]


def test_an_attribute_is_read_when_the_program_reads_it():
    def f(x):
        before = x._version
        x += 1
        return x._version - before

    assert tiny.compile(f)(x.clone()) == f(x.clone())


def test_branches_on_python_values_are_guarded():
    def f(x, n):
        if n > 2:
            return x * n
        return -x

    fast = compiled(f, (x, 1), (x, 1), (x, 3))
    assert entries(fast) == [2]
    assert fast.recompiles == [f"n: ('int', '1')  # test_tiny.py:{f.__code__.co_firstlineno + 1}"]


@pytest.mark.parametrize("other", [torch.zeros(3, dtype=torch.int64), torch.zeros(4), torch.zeros(3, requires_grad=True), torch.zeros(6)[::2], 1.5])
def test_another_kind_of_argument_gets_an_entry_of_its_own(other):
    def f(x):
        return x + x

    assert entries(compiled(f, (x,), (x.clone(),), (other,))) == [2]


def test_numbers_are_told_apart_by_type_and_sign():
    def f(x, n):
        return x / n, n

    assert entries(compiled(f, (x, 1), (x, 1.0), (x, True), (x, 0.0), (x, -0.0))) == [5]


def test_what_nobody_asks_for_is_not_guarded():
    def f(x, n):
        return x.sin(), n

    assert entries(compiled(f, (x, 1), (x, 2), (x, "text"))) == [1]


def test_a_break_at_print_splits_the_call(capsys):
    def f(x):
        y = x.sin()
        print("half", y.shape[0])
        return y.cos()

    fast = compiled(f, (x,), (x,))
    assert capsys.readouterr().out == "half 3\n" * 4
    assert entries(fast) == [1, 1]
    assert nodes(fast) == ["sin"]
    (resume,) = fast.resumes.values()
    assert nodes(resume) == ["cos"]


def test_a_branch_on_data_splits_the_call_and_goes_on_either_way():
    def f(x):
        y = x + 1
        if y.sum() > 0:
            y = y * 2
        return y - 1

    fast = compiled(f, (x,), (x - 9,), (x,))
    assert entries(fast) == [1, 1, 1]


def test_pending_calls_wait_across_a_break():
    def f(x):
        return torch.add(x.sin(), torch.full((3,), 2.0), alpha=x.size(0))

    fast = compiled(f, (x,))
    assert entries(fast) == [1, 1]


def test_a_variable_that_is_unbound_stays_so_across_a_break():
    def f(x, n):
        if n:
            y = x
        torch.manual_seed(0)
        return x + y

    compiled(f, (x, 1), (x, 0))


def test_a_loop_over_a_list_is_unrolled():
    def f(xs, n):
        total = 0
        for i in range(n):
            total = total + i
        out = []
        for each in xs:
            total = each + total
            out.append(total)
        return out

    fast = compiled(f, ([x, x], 3), ([x + 1, x], 3), ([x], 3))
    assert entries(fast) == [2]
    assert nodes(fast) == ["add"]


def test_a_loop_that_breaks_has_as_many_entries_as_places_where_it_breaks(capsys):
    def f(xs):
        out = []
        for each in xs:
            print(each.shape)
            out.append(each.sin())
        return out

    short, long = entries(compiled(f, ([x] * 3,))), entries(compiled(f, ([x] * 9,)))
    assert long == short == [1] * len(short)
    assert len(capsys.readouterr().out.splitlines()) == 24


def test_a_long_range_is_not_unrolled():
    def f(x):
        for i in range(10**12):
            if i == 2:
                return x + i

    assert nodes(compiled(f, (x,))) == []


def helper(x, scale=2):
    return x * scale


def helper_that_breaks(out, x):
    out.append(x.sin())
    print("inside")
    return x.cos()


def test_functions_are_inlined_with_their_defaults():
    def f(x):
        return helper(x) + helper(x, scale=3)

    fast = compiled(f, (x,))
    assert nodes(fast) == ["mul", "mul_1", "add"]
    helper.__defaults__ = (5,)
    try:
        assert plain(fast(x)) == plain(f(x))
    finally:
        helper.__defaults__ = (2,)
    assert entries(fast) == [2]


def test_a_break_in_an_inlined_function_undoes_what_that_has_done(capsys):
    def f(x):
        out = []
        y = helper_that_breaks(out, x)
        return out, y

    fast = compiled(f, (x,))
    assert entries(fast) == [1, 1]
    assert nodes(fast) == []
    assert capsys.readouterr().out == "inside\n" * 2


def swapped(n, x):
    return helper(x, n)


swapped.__wrapped__ = helper


def test_a_functions_own_signature_counts():
    def f(x):
        return swapped(3, x=x)

    assert nodes(compiled(f, (x,))) == ["mul"]


class Odd:
    value = 1

    def __getattribute__(self, name):
        return 5 if name == "value" else object.__getattribute__(self, name)

    @property
    def computed(self):
        return len(vars(self))

    @staticmethod
    def static(x):
        return x + 1


def test_attributes_that_run_code_are_read_natively():
    def f(x, odd):
        return x * odd.value + odd.computed + Odd.static(x)

    odd = Odd()
    odd.value = 2
    fast = compiled(f, (x, odd), (x, odd))
    odd.other = 1
    assert plain(fast(x, odd)) == plain(f(x, odd))
    assert entries(fast)[0] == 1


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Tanh()])
        self.scale = 2.0

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.half(x)

    def half(self, x):
        return x * self.scale


def test_a_module_call_is_inlined_and_guarded():
    block = Block()

    def f(x, block):
        return block(x)

    fast = compiled(f, (x, block))
    assert nodes(fast) == ["linear", "tanh", "mul"]
    fast(x, block).sum().backward()
    assert block.layers[0].weight.grad is not None
    for change in (lambda: setattr(block, "scale", 3.0), lambda: block.layers.append(torch.nn.ReLU()), lambda: setattr(block.layers[1], "forward", torch.cos),
                   lambda: block.register_forward_hook(lambda module, args, result: result + 1)):
        before = len(fast.entries)
        change()
        assert plain(fast(x, block)) == plain(block(x))
        assert len(fast.entries) == before + 1


def test_a_global_that_changes_is_noticed():
    namespace = {"factor": 2}
    exec("def f(x):\n    return x * factor\n", namespace)
    fast = compiled(namespace["f"], (x,))
    namespace["factor"] = 3
    assert plain(fast(x)) == plain(x * 3)


def test_changes_in_place_and_identity_are_the_programs():
    def f(x, keep):
        x += 1
        keep.append(x)
        return x

    a, keep = x.clone(), []
    assert tiny.compile(f)(a, keep) is a
    assert keep[0] is a
    assert plain(a) == plain(x + 1)


def test_errors_are_the_programs():
    def f(x, n):
        return x + torch.ones(4) if n else x.no_such_method()

    compiled(f, (x, 1), (x, 0))


def test_a_call_with_the_wrong_arguments_raises_what_eager_raises():
    def f(x):
        return helper(x, factor=3)

    compiled(f, (x,))


def test_a_list_that_grows_in_place_is_the_programs():
    def f(xs, x):
        ys = xs
        xs += [x]
        return ys

    keep = [x]
    assert tiny.compile(f)(keep, x) is keep
    assert len(keep) == 2


def deep(x, n):
    return deep(x + 1, n - 1) if n else x


def test_a_recursion_too_deep_to_be_traced_runs_natively():
    def f(x):
        return deep(x, 300)

    compiled(f, (x,))


def test_a_sparse_tensor_is_no_input_of_a_graph():
    def f(x):
        return (x + x).to_dense()

    assert entries(compiled(f, (x.to_sparse(),), (x,), (x.to_sparse(),)))[0] > 1


def test_tensors_and_empty_tuples_as_operands():
    def f(x, n):
        return x[:n], x.sum(()), x[..., None]

    compiled(f, (x, torch.tensor(2)), (x, 1))


class Sized(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Tanh()])

    def forward(self, x):
        for i in range(len(self.layers)):
            x = self.layers[i](x)
        return x


def test_a_list_of_modules_has_a_length():
    def f(x, block):
        return block(x)

    compiled(f, (x, Sized()), (x, Sized()))


def test_what_the_interpreter_does_not_know_runs_uncompiled():
    def f(x):
        try:
            return x.item()
        except RuntimeError:
            return [each.sin() for each in x]

    fast = compiled(f, (x,), (x[:1],))
    assert fast.entries[0].how == f"uncompiled, Break: {f.__qualname__} has handlers or a closure, yields, or takes *args"


def test_an_operation_without_a_handler_leaves_the_rest_of_the_call_uncompiled():
    def f(x):
        torch.manual_seed(0)
        return f"{x.shape}"

    fast = compiled(f, (x,))
    assert [part.entries[0].how.split()[0] for part in (fast, *fast.resumes.values())] == ["Break:", "uncompiled,"]


def test_a_call_is_split_between_two_instructions_of_cpython():
    """A resume function starts at an instruction, so only the last of an instruction's operations may be one that splits a call."""
    functions = [each for module in (dis, inspect, textwrap) for each in vars(module).values() if inspect.isfunction(each)]
    splits = 0
    for function in functions:
        with contextlib.suppress(bytecode.Break):
            for op, after in itertools.pairwise(bytecode.decode(function.__code__)):
                assert op.name not in operations.ON_OBJECTS or op.offset < after.offset, (function, op)
                splits += op.name in operations.ON_OBJECTS
    assert splits > 500


def test_the_limit_of_entries_is_not_exceeded():
    def f(x, n):
        return x * n

    fast = compiled(f, *((x, n) for n in range(12)))
    assert entries(fast) == [tiny.driver.LIMIT]


def test_a_backend_gets_the_graph():
    graphs = []

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph

    def f(x):
        return x.sin()

    assert plain(tiny.compile(f, backend)(x)) == plain(x.sin())
    assert "sin" in graphs[0].code


class Vague:
    """Comparisons with it give what is neither True nor False."""

    def __lt__(self, other):
        return []

    def __eq__(self, other):
        return None


def noted(*args):
    notes.extend(args)
    return args[0]


notes: list[Any] = []


def test_conditions_that_break_are_converted_to_booleans():
    """From Python 3.13 on, the instruction of a branch takes True and False alone."""

    def f(x, odd):
        y = x + 1 if odd < 3 else x - 1
        if not odd == 3:
            y = y * 2
        if not noted(0):
            y = y * 3
        return y + 4 if noted(1) else y

    fast = compiled(f, (x, Vague()))
    assert all(part.entries[0].end is not None for part in (fast, *fast.resumes.values()))


def test_arguments_that_break_keep_what_the_call_has_on_the_stack():
    def f(x, model):
        model.hook(noted(x.sum().item()), x.dim())
        return helper(x, scale=noted(3)) + x

    def helper_hook(value, dimensions):
        noted(value * dimensions)

    model = torch.nn.Module()
    model.hook = helper_hook
    fast = compiled(f, (x, model), (x, model))
    assert len(fast.resumes) > 2


def test_loops_that_break_may_be_left():
    def f(x, xs):
        for i in range(3):
            for j in range(2):
                x = x + noted(j)
            else:
                break
        for a in xs:
            if a.sum() > 2:
                break
            for b in xs:
                x = x + a * b
        return x, i

    compiled(f, (x, [torch.ones(1), torch.ones(1) * 2, torch.ones(1) * 3]), (x, []))


def program(text: str) -> dict[str, Any]:
    """The names that a program defines."""
    names: dict[str, Any] = {"__builtins__": __builtins__}
    exec(compile(text, __file__, "exec"), names)
    return names


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated where they stand")
def test_annotations_are_not_evaluated():
    f = program("def f(x: no_such_name): return x + 1")["f"]
    assert nodes(compiled(f, (x,))) == ["add"]


@pytest.mark.skipif(sys.version_info < (3, 15), reason="there are no lazy imports")
def test_a_lazy_import_is_the_programs():
    f = program("lazy import fractions\ndef f(x): return x + fractions.Fraction(1, 2).numerator")["f"]
    compiled(f, (x,), (x,))


BLOCKS = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL) if PAGE.exists() else []


def test_the_page_shows_the_code_as_it_is():
    text = "\n".join(path.read_text() for path in sorted(INTERNALS.glob("tiny/*.py")))
    excerpts = [block for language, _, block in BLOCKS if language == "python"][1:]
    assert len(excerpts) > 8
    for excerpt in excerpts:
        for part in re.split(r"^ *\.\.\.\n", excerpt, flags=re.MULTILINE):
            assert part.strip("\n") in text, part


def test_the_page_shows_what_its_first_program_prints(tmp_path):
    program = tmp_path / "example.py"
    program.write_text(next(block for language, _, block in BLOCKS if language == "python"))
    environment = {**os.environ, "PYTHONPATH": str(INTERNALS)}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    shown = next(block for language, _, block in BLOCKS if language == "text")
    assert re.sub(r"f_from_\d+", "f_from_N", done.stdout) == re.sub(r"f_from_\d+", "f_from_N", shown)


def test_the_page_says_how_many_lines_of_code_there_are():
    lines = sum(len(lines_of_code(path)) for path in INTERNALS.glob("tiny/*.py"))
    assert f"in {len(list(INTERNALS.glob('tiny/*.py'))) - 1} files and {lines} lines of code" in re.sub(r"\s+", " ", PAGE.read_text())
    assert lines <= 470


def lines_of_code(path: Path) -> set[int]:
    """The lines that hold more than comments and docstrings."""
    with path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.string.strip() and token.type not in (tokenize.COMMENT, tokenize.ENCODING)]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return lines
