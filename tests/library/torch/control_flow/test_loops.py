"""`while_loop`, `map` and `scan` in compiled code, against loops in plain Python: results, gradients, and what is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operators import BACKENDS, compare, compare_refused
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import ScanAutogradImpl
from torch._higher_order_ops.scan import scan as torch_scan
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._higher_order_ops.while_loop import while_loop as torch_while_loop
from torch.utils import _pytree as pytree

import framejit
from framejit.errors import Unsupported

MOVES_BACK = "movedim(elem, 0, dim)" in inspect.getsource(torch_scan)
"""Whether `scan` over another dimension than the first stacks along that dimension: before torch 2.13 it always stacked along the first."""


class Operators:
    """Reference implementations of the control-flow operators in plain Python."""

    @staticmethod
    def while_loop(condition: Any, body: Any, carried: Any) -> Any:
        while condition(*carried):
            carried = body(*carried)
        return carried

    @staticmethod
    def map(function: Any, xs: Any, *args: Any) -> Any:
        rows = zip(*[leaf.unbind() for leaf in pytree.tree_leaves(xs)])
        given = [function(pytree.tree_unflatten(row, pytree.tree_structure(xs)), *args) for row in rows]
        return pytree.tree_map(lambda *leaves: torch.stack(leaves), *given)

    @staticmethod
    def scan(step: Any, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
        rows = list(zip(*[leaf.unbind(dim) for leaf in pytree.tree_leaves(xs)]))
        given = []
        for row in reversed(rows) if reverse else rows:
            init, out = step(init, pytree.tree_unflatten(row, pytree.tree_structure(xs)))
            given.append(out)
        return init, pytree.tree_map(lambda *leaves: torch.stack(leaves[::-1] if reverse else leaves).movedim(0, dim if MOVES_BACK else 0), *given)


class InTorch:
    while_loop = staticmethod(torch_while_loop)
    map = staticmethod(torch_map)
    scan = staticmethod(torch_scan)


def calls(requires_grad: bool = True) -> list[tuple[torch.Tensor, ...]]:
    torch.manual_seed(1)
    return [((torch.rand(3, 4) + i).requires_grad_(requires_grad), torch.rand(4, requires_grad=requires_grad)) for i in (0, 2, 0)]


LAYER = nn.Linear(4, 4)


def a_loop(ops, x, w):
    return ops.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 1.5), (torch.tensor(0), x))


def a_loop_that_depends_on_data(ops, x, w):
    return ops.while_loop(lambda y: y.sum() < 100, lambda y: (y * 2 + w,), (x,))[0]


def a_loop_that_is_never_run(ops, x, w):
    return [part + 1 for part in ops.while_loop(lambda i, y: i.bool(), lambda i, y: (i + 1, y.sin()), (torch.tensor(0), x))]


def a_loop_with_a_tree(ops, x, w):
    return ops.while_loop(lambda i, state: i < 3, lambda i, state: (i + 1, {"a": state["b"] * 1, "b": state["a"] + w}), (torch.tensor(0), {"a": x, "b": x * 2}))


def a_loop_with_a_module(ops, x, w):
    return ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, LAYER(y).tanh()), (torch.tensor(0), x))[1]


def a_loop_that_gives_what_it_takes(ops, x, w):
    return ops.while_loop(lambda i, y, z: i < 3, lambda i, y, z: (i + 1, z, z), (torch.tensor(0), x, x * 2))[1] + 1


def a_loop_over_what_it_closes_over(ops, x, w):
    return ops.while_loop(lambda i, y, z: i < 3, lambda i, y, z: (i + 1, y + x, z + y), (torch.tensor(0), x, x))[1]


def a_loop_with_a_counter(ops, x, w):
    """An int that is carried, looked at in the condition, computed with, and used after the loop."""
    count, y = ops.while_loop(lambda i, y: 2 * i < x.shape[1] + 3, lambda i, y: (i + 1, y * 1.5 + i), (0, x))
    return y * count, count + 1


def a_loop_with_counters_in_a_tree(ops, x, w):
    return ops.while_loop(lambda state: state["i"] < 5, lambda state: ({"i": state["i"] + 2, "n": state["n"] * 2 + state["i"], "y": state["y"] * w},),
                          ({"i": 0, "n": x.shape[0], "y": x},))  # fmt: skip


def a_loop_that_asks_for_numbers(ops, x, w):
    return ops.while_loop(lambda i, y: y.max().item() < 50.0, lambda i, y: (i + 1, y * (2 + w.sum().item())), (torch.tensor(0), x))


def numbers_in_rows(ops, x, w):
    top = x.max().item()
    rows = ops.map(lambda row: row * row.sum().item(), x)
    return rows, ops.scan(lambda total, row: (total + row.max().item(), total * w), x[0], x), x.max().item() + top


def a_loop_in_a_loop(ops, x, w):
    def body(i, y):
        return i + 1, ops.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z * w), (torch.tensor(0), y))[1]

    return ops.while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x))[1]


def a_map(ops, x, w):
    return ops.map(lambda row, w: (row * w).cumsum(0), x, w)


def a_map_of_trees(ops, x, w):
    def function(rows, scale):
        return {"sum": rows[0] + rows[1]["x"], "same": rows[0]}, (x.sum() * w * scale)

    return ops.map(function, (x, {"x": x * 2}), 3)


def a_map_in_a_map(ops, x, w):
    return ops.map(lambda row: ops.map(lambda item, row: item * row, row, w), x)


def a_scan(ops, x, w):
    return ops.scan(lambda total, row: (total + row, (total * row).sin()), w, x)


def a_scan_from_the_end(ops, x, w):
    def step(carry, row):
        new = torch.tanh(LAYER(row) + carry["h"])
        return {"h": new, "n": carry["n"] + 1}, (new, row * w)

    return ops.scan(step, {"h": torch.zeros(4), "n": torch.tensor(0.0)}, x, reverse=True)


def a_scan_of_columns(ops, x, w):
    return ops.scan(lambda total, column: (total + column, total * 2), x.sum(1), x, dim=1)


def in_place(ops, x, w):
    return ops.map(lambda row: row.clone().mul_(2).add_(w), x)


CORRECT_GRADIENTS = pytest.mark.skipif(
    not hasattr(ScanAutogradImpl, "_break_bw_input_output_aliasing"), reason="this torch's scan loses gradients, or raises, where its init needs none"
)
NUMBERS_IN_MAPS = map_impl in registered_hop_fake_fns
"""Whether torch runs a map on fakes, in eager too, of a function that takes a number out of a tensor: before torch 2.13 it raised."""
FORWARD = (a_loop_that_is_never_run, a_loop_in_a_loop)
"""Not trained: torch's own backward of loops needs a first round, and knows no loop inside a loop."""
WHOLE = (
    a_loop, a_loop_that_depends_on_data, a_loop_with_a_tree, a_loop_with_a_module, a_loop_that_gives_what_it_takes, a_loop_over_what_it_closes_over,
    a_loop_with_a_counter, a_loop_with_counters_in_a_tree, a_loop_that_asks_for_numbers, numbers_in_rows,
    a_map, a_map_of_trees, a_map_in_a_map, a_scan, a_scan_from_the_end, a_scan_of_columns, in_place,
)  # fmt: skip


def need_numbers_in_maps(program: Callable[..., Any], backend: str) -> None:
    """Skip the test where torch lacks what the program does, unless the graph runs as it is."""
    if not NUMBERS_IN_MAPS and backend != "eager" and program in (numbers_in_rows, mapped):
        pytest.skip("this torch's map can't take a number out of a tensor")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [*WHOLE, *FORWARD])
def test_inference(program: Callable[..., Any], backend: str) -> None:
    need_numbers_in_maps(program, backend)
    with torch.no_grad():
        compare(program, InTorch, Operators, calls(requires_grad=False), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [
    pytest.param(program, marks=CORRECT_GRADIENTS) if program is a_scan_from_the_end else program for program in WHOLE
])  # fmt: skip
def test_training(program: Callable[..., Any], backend: str) -> None:
    need_numbers_in_maps(program, backend)
    compare(program, InTorch, Operators, calls(), backend, exact=False)


def test_a_step_with_its_backward_pass() -> None:
    """The gradients are computed in the same graph."""

    def step(ops, x, w):
        last, rows = ops.scan(lambda total, row: (total * row, total + row), w, x)
        return torch.autograd.grad((last * w).sum() + (rows * rows).sum(), [w, x])

    compare(step, InTorch, Operators, calls(), "eager", exact=False)


def prints(ops, x, w):
    def body(i, y):
        print(end="")
        return i + 1, y * 2

    return ops.while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x))


def appends(ops, x, w):
    seen: list[int] = []

    def function(row):
        seen.append(1)
        return row * 2

    return ops.map(function, x), seen


def a_float_that_is_carried(ops, x, w):
    return ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (0.0, x))


def a_tensor_for_an_int(ops, x, w):
    return ops.while_loop(lambda i, y: i < 3, lambda i, y: (torch.tensor(1), y * 2), (0, x))


def an_item_by_a_number(ops, x, w):
    return ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + x[i]), (0, w))


def another_type(ops, x, w):
    return ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y.double()), (torch.tensor(0), x))


def another_number_of_values(ops, x, w):
    return ops.scan(lambda total, row: ((total, row), row), w, x)


def changes_what_it_closes_over(ops, x, w):
    y = x.detach() * 2
    return ops.map(lambda row: row + y.add_(1).sum(), x)


def a_condition_of_many(ops, x, w):
    return ops.while_loop(lambda y: y < 3, lambda y: (y * 2,), (x,))


REFUSED = {
    prints: "print", appends: "map of a function with side effects", a_float_that_is_carried: "the carried value 0.0",
    a_tensor_for_an_int: "something else than ints in the place of ints",
    another_type: r"gives float64\[3, 4\] .* in the place of float32", another_number_of_values: "gives 2 values where 1 is carried",
    changes_what_it_closes_over: "changes tensors in place", a_condition_of_many: r"a condition that gives bool\[3, 4\]",
}  # fmt: skip


@pytest.mark.parametrize("program", REFUSED)
def test_refused(program: Callable[..., Any]) -> None:
    """The error names the line, and says what is wrong with the function."""
    with pytest.raises(Unsupported, match=f"(?s){REFUSED[program]}") as raised:
        framejit.compile(lambda *args: program(InTorch, *args), backend="eager", fullgraph=True)(*calls()[0])
    assert "test_loops.py" in str(raised.value) and program.__name__ in str(raised.value)


@pytest.mark.parametrize("program", [an_item_by_a_number, changes_what_it_closes_over])
def test_what_is_refused_runs_as_in_eager(program: Callable[..., Any]) -> None:
    """The call of the operator is a break: the rest is compiled."""
    compare_refused(program, InTorch, lambda: calls(requires_grad=False)[0])


def test_what_a_body_reads_is_guarded() -> None:
    setting = {"scale": 2.0}
    compiled = framejit.compile(lambda x: torch_map(lambda row: row * setting["scale"], x), backend="eager")
    framejit.reset()
    x = torch.rand(3)
    for scale in (2.0, 3.0, 3.0, 2.0):
        setting["scale"] = scale
        torch.testing.assert_close(compiled(x), x * scale)
    assert framejit.statistics()["graphs"] == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary(backend: str) -> None:
    compare(lambda ops, x: ops.scan(lambda total, row: (total + row, total * 2), x[0], x), InTorch, Operators,
            [(torch.rand(n, 2, requires_grad=True),) for n in (3, 4, 5, 6)], backend, graphs=2, exact=False)  # fmt: skip


def counted(x: torch.Tensor) -> Any:
    """The counter begins as a constant, of which fakes know the value: it was taken for the value in each step, and the loop had no end."""
    return torch_while_loop(
        lambda i, y: (i < 3) & (y.sum() < 1e6),
        lambda i, y: (torch.full((), i.item() + 1, dtype=torch.int64), y * 2),
        (torch.tensor(0), x),
    )


def mapped(x: torch.Tensor) -> Any:
    return torch_map(lambda row, y: y * row.item(), torch.tensor([3.0]), x)


@pytest.mark.parametrize("program", [counted, mapped])
def test_a_constant_to_begin_with(program: Callable[..., Any]) -> None:
    need_numbers_in_maps(program, "bounded")
    function = framejit.compile(program, backend=lambda graph, examples: bounded(graph))
    x = torch.ones(2)
    expected = (torch.tensor(3), x * 8) if program is counted else (x * 3)[None]
    torch.testing.assert_close(function(x), expected)


def bounded(graph: torch.fx.GraphModule) -> Callable[..., Any]:
    """A graph whose loops must not be without end: none may carry a counter that its body doesn't compute from."""
    for name, inner in graph.named_modules():
        if name and inner.graph.find_nodes(op="call_function", target=torch.full):
            raise AssertionError(f"the value of a counter is a constant in {inner.code}")
    return graph
