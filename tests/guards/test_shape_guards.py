"""guards/shapes.py, guards/tensor_source.py and native/shapes.cpp: sizes and numbers of calls, captured and checked."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from guarding import HERE, STRANGE, agrees, call_of, frame_function, matched, slot
from torch.utils._sympy import functions as F

from framejit.guards.build import BuiltGuards, build
from framejit.guards.explain import describe, explain_failure, notes
from framejit.guards.kinds import Equals, TensorMatch, TypeIs
from framejit.guards.relations import Distinct, Same
from framejit.guards.shape_program import shapes_hold
from framejit.guards.shapes import Read
from framejit.guards.source import MISSING, Index, InstanceDict, Item, Root, Source, UserLine
from framejit.guards.tensor_source import TensorItem, TensorOffset, TensorSize, TensorStride
from framejit.guards.tensor_spec import TensorSpec, tensor_spec

S, T = sympy.symbols("s t", integer=True, positive=True)
N = sympy.Symbol("n", integer=True)
X = sympy.Symbol("x", real=True)
ELSEWHERE = UserLine("model.py", 9, "forward")


class Sub(torch.Tensor):
    """With sizes that guards may read: what Python says of them isn't asked."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("the user's Python ran")


class Wrapper(torch.Tensor):
    """With sizes or strides that Python gives."""

    @staticmethod
    def __new__(cls, policy: str) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, (2, 3), dispatch_sizes_strides_policy=policy)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("the user's Python ran")


TENSORS = [
    torch.ones(2, 3), torch.ones(()), torch.ones(0, 5), torch.ones(6, 4).T[1:, ::2], torch.ones(1, 1, 1, 1, 1, 1, 7), torch.nn.Parameter(torch.ones(4)),
    torch.ones(2, 3).as_subclass(Sub), torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr(), torch.ones(2, 3, device="meta"), Wrapper("sizes"),
    Wrapper("strides"), torch.ones(3).expand(5, 3), torch.empty(2**31, 4, device="meta"),
]  # fmt: skip


@pytest.mark.parametrize("kind,dim", [(TensorSize, 0), (TensorSize, 1), (TensorSize, 6), (TensorStride, 0), (TensorStride, 1), (TensorOffset, None)])
@pytest.mark.filterwarnings("ignore")
def test_numbers_of_tensors(kind: type[Source], dim: int | None) -> None:
    root = Root()
    source = slot(root).child(kind, dim)
    built = build([], [source], [])
    found = set()
    for value in [*TENSORS, *STRANGE]:
        expected = source.fetch(call_of(value))
        got = matched(built, value)
        assert got == (None if expected is MISSING else [expected]), value
        found.add(None if got is None else got[0])
    assert None in found and len(found) >= 2


ITEMS = [
    torch.tensor(3), torch.tensor([[-7]], dtype=torch.int32), torch.arange(9, dtype=torch.int32)[5:6], torch.arange(9)[5], torch.tensor(True),
    torch.tensor(2**63 - 1), torch.tensor([False, True])[1], torch.tensor(3.0), torch.tensor(3, dtype=torch.int16), torch.tensor([1, 2]), torch.arange(0),
    torch.tensor(3, device="meta"), torch.tensor(3).as_subclass(Sub),
]  # fmt: skip


def test_items_of_tensors() -> None:
    source = slot(Root()).child(TensorItem)
    built = build([], [source], [])
    values = []
    for value in [*ITEMS, *TENSORS, *STRANGE]:
        expected = source.fetch(call_of(value))
        got = matched(built, value)
        assert got == (None if expected is MISSING else [expected]) and (got is None or type(got[0]) is type(expected)), value
        values.append(None if got is None else got[0])
    assert values[:7] == [3, -7, 5, 5, True, 2**63 - 1, True] and set(values[7:]) == {None, 1.0, 3.0}
    emptied = torch.tensor(3)
    emptied.untyped_storage().resize_(0)
    assert matched(built, emptied) is None and source.fetch(call_of(emptied)) is MISSING


def test_text_of_numbers() -> None:
    x = slot(Root())
    texts = [x.child(TensorSize, 0).name_in_reports(), x.child(TensorStride, 1).name_in_reports(), x.child(TensorOffset).name_in_reports()]
    assert texts == ["x0.size(0)", "x0.stride(1)", "x0.storage_offset()"]


def of_sizes(*expressions: Any) -> BuiltGuards:
    """s and t are sizes 0 and 1 of the first argument, n is the second one, x the third."""
    root = Root()
    tensor = slot(root)
    reads = {S: tensor.child(TensorSize, 0), T: tensor.child(TensorSize, 1), N: slot(root, 1), X: slot(root, 2)}
    guard = shapes_hold([(expression, HERE) for expression in expressions], reads)
    assert guard is not None
    return build([guard], [], [])


def test_sizes_and_numbers() -> None:
    built = of_sizes(sympy.Eq(F.Mod(S, 8), 0), S * T <= N, X < 2.5)
    assert agrees(built, torch.ones(8, 2), 16, 1.0)
    assert agrees(built, torch.ones(16, 1), 16, -1.0)
    assert not agrees(built, torch.ones(9, 1), 16, 1.0)
    assert not agrees(built, torch.ones(8, 3), 16, 1.0)
    assert not agrees(built, torch.ones(8, 2), 16, 2.5)
    assert not agrees(built, torch.ones(8, 2), 16, 2)
    assert not agrees(built, torch.ones(8, 2), 16.0, 1.0)
    assert not agrees(built, torch.ones(8, 2), True, 1.0)
    assert not agrees(built, torch.ones(8, 2), 2**63, 1.0)
    assert agrees(built, torch.ones(8, 2), 2**63 - 1, 1.0)
    assert not agrees(built, torch.ones(8), 16, 1.0)
    assert not agrees(built, 3, 16, 1.0)
    assert not agrees(built, MISSING, 16, 1.0)
    assert not agrees(built, torch.ones(0, 2), 16, 1.0)  # s is positive


@pytest.mark.parametrize("value", STRANGE, ids=lambda v: type(v).__name__)
def test_strange_values(value: Any) -> None:
    assert not agrees(of_sizes(S >= 2, T >= 2, N > 0), value, 3)
    root = Root()
    guard = shapes_hold([(N > 0, HERE)], {N: slot(root)})
    assert guard is not None and agrees(build([guard], [], []), value) == (type(value) is int)


@pytest.mark.filterwarnings("ignore")
def test_strides_and_offsets_of_all_tensors() -> None:
    root = Root()
    x = slot(root)
    reads = {sympy.Symbol("a", integer=True): x.child(TensorStride, 0), sympy.Symbol("b", integer=True): x.child(TensorOffset)}
    a, b = reads
    guard = shapes_hold([(a + b < 5, HERE)], reads)
    assert guard is not None
    found = {agrees(build([guard], [], []), tensor) for tensor in TENSORS}
    assert found == {True, False}


def test_sources_that_share_a_symbol_are_equal() -> None:
    root = Root()
    x, y = slot(root), slot(root, 1)
    guard = shapes_hold([(S >= 2, HERE)], {S: [x.child(TensorSize, 0), y.child(TensorSize, 1), slot(root, 2)]})
    assert guard is not None and len(guard.paths) == 3
    built = build([guard], [], [])
    assert agrees(built, torch.ones(5), torch.ones(3, 5), 5)
    assert not agrees(built, torch.ones(5), torch.ones(3, 4), 5)
    assert not agrees(built, torch.ones(5), torch.ones(3, 5), 4)
    assert not agrees(built, torch.ones(1), torch.ones(3, 1), 1)


def test_nothing_to_check() -> None:
    x = slot(Root())
    k = sympy.Symbol("k", integer=True, nonnegative=True)
    assert shapes_hold([(sympy.true, HERE), (k >= 0, HERE)], {k: x.child(TensorSize, 0)}) is None


def test_which_expression_fails_and_for_which_line() -> None:
    root = Root()
    x = slot(root)
    reads = {S: x.child(TensorSize, 0), T: x.child(TensorSize, 1), N: slot(root, 1)}
    guard = shapes_hold([(S >= 2, HERE), (sympy.Eq(F.Mod(S, 8), 0), ELSEWHERE), (S * T < N, None)], reads)
    assert guard is not None
    failure = explain_failure([guard], call_of(torch.ones(9, 2), 100))
    assert failure is not None
    assert failure.difference == "x0.size(0): expected that it satisfies x0.size(0) % 8 == 0; found x0.size(0) is 9"
    assert failure.line == ELSEWHERE and failure.hint
    failure = explain_failure([guard], call_of(torch.ones(8, 2), 16))
    assert failure is not None and failure.found == "x0.size(0) is 8, x0.size(1) is 2, x1 is 16" and failure.line is None
    failure = explain_failure([guard], call_of(torch.ones(8), "text"))
    assert failure is not None and failure.found == "no x0.size(1), no x1"
    assert guard.expected() == "satisfies x0.size(0) >= 2, x0.size(0) % 8 == 0, x0.size(1) >= 1, x0.size(0) * x0.size(1) < x1"
    assert len(notes([guard])) == 1 and "x0.size(0) % 8 == 0" in describe([guard])


def test_equal_guards_are_one() -> None:
    x = slot(Root())
    guards = [shapes_hold([(S >= 2, HERE)], {S: x.child(TensorSize, 0)}) for _ in range(2)]
    assert guards[0] is not None and guards[1] is not None
    assert len(build([guards[0], guards[1]], [], []).guards) == 1


def test_reads_take_exact_types_only() -> None:
    class Int(int): ...

    class Float(float): ...

    assert [Read(0, "int").of(value) for value in (3, True, Int(3), 3.0, None)] == [3, None, None, None, None]
    assert [Read(0, "float").of(value) for value in (3.5, 3, Float(3.5), None)] == [3.5, None, None, None]


def free(tensor: torch.Tensor, *dims: int) -> TensorSpec:
    """A spec for tensors that differ from one in some sizes, laid out in any way."""
    spec = tensor_spec(tensor)
    sizes = tuple(None if dim in dims else size for dim, size in enumerate(spec.sizes))
    return TensorSpec(**{**vars(spec), "sizes": sizes, "strides": (None,) * len(sizes)})


class Module:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.weight = tensor
        self.cache = tensor


def of_module(root: Root) -> tuple[Source, Source]:
    inside = slot(root).child(InstanceDict)
    return inside.child(Item, "weight"), inside.child(Item, "cache")


def test_what_is_vouched_for_stays_so_beside_sizes() -> None:
    """Reading a size of a tensor that an object holds doesn't make its chunk be visited in every walk."""
    root = Root()
    weight, cache = of_module(root)
    tensor = torch.ones(4, 3)
    guards = [TypeIs(slot(root), HERE, Module), TensorMatch(weight, HERE, free(tensor, 0)), TensorMatch(cache, HERE, free(tensor, 0))]
    plain, beside = build(guards, [weight], [cache]), build(guards, [weight], [cache, cache.child(TensorSize, 0), weight.child(TensorSize, 1)])
    module = Module(tensor)
    for rows in (4, 5, 6, 7):
        module.weight.data = torch.ones(rows, 3)
        assert matched(plain, module) == [tensor, tensor]
        assert matched(beside, module) == [tensor, tensor, rows, 3]
    assert plain.tree.visited == beside.tree.visited == 1  # the argument
    module.weight = torch.ones(9, 3)
    found = matched(beside, module)
    assert found is not None and found[2:] == [7, 3]
    module.weight = torch.ones(9, 4)
    assert matched(beside, module) is None


def test_many_sizes_leave_nothing_behind() -> None:
    root = Root()
    weight, cache = of_module(root)
    module = Module(torch.ones(1, 3))
    guard = shapes_hold([(S >= 1, HERE)], {S: weight.child(TensorSize, 0)})
    assert guard is not None
    tensors = [TensorMatch(weight, HERE, free(module.weight, 0)), TensorMatch(cache, HERE, tensor_spec(module.cache))]
    built = build([TypeIs(slot(root), HERE, Module), *tensors, guard], [weight], [cache])
    module.weight = torch.ones(1, 3)
    storage = torch.ones(20_000, 3)
    for rows in range(1, 10_001):
        module.weight.data = storage[:rows]
        assert matched(built, module) is not None
    assert built.tree.looks <= 2
    assert built.tree.visited == 1


def test_identity_is_not_looked_at_again_for_sizes() -> None:
    """Relations about identity go on being remembered when a tensor that only the program reads is another one."""
    root = Root()
    x, module = slot(root), slot(root, 1)
    weight, cache = (module.child(InstanceDict).child(Item, name) for name in ("weight", "cache"))
    guard = shapes_hold([(S >= 2, HERE)], {S: x.child(TensorSize, 0)})
    built = build([Distinct(weight, HERE, (x,)), Same(weight, HERE, cache), guard], [], [])
    held = Module(torch.ones(2))
    assert agrees(built, torch.ones(2), held)
    assert not agrees(built, held.weight, held)
    assert agrees(built, torch.ones(3), held)
    assert not agrees(built, torch.ones(1), held)
    held.cache = torch.ones(2)
    assert not agrees(built, torch.ones(3), held)


def test_sizes_of_tensors_in_lists() -> None:
    root = Root()
    items = [slot(root).child(Index, i) for i in range(2)]
    guard = shapes_hold([(sympy.Eq(S, T), HERE)], {S: items[0].child(TensorSize, 0), T: items[1].child(TensorSize, 0)})
    assert guard is not None
    built = build([guard], [item.child(TensorSize, 0) for item in items], [])
    values = [torch.ones(3), torch.ones(3)]
    for _ in range(3):
        assert matched(built, values) == [3, 3]
        values[0] = torch.ones(4)
        assert matched(built, values) is None
        values[1] = torch.ones(4)
        assert matched(built, values) == [4, 4]
        values[:] = [torch.ones(3), torch.ones(3)]
    values.pop()
    assert matched(built, values) is None


def test_a_guard_keeps_no_tensor() -> None:
    built = of_sizes(S >= 2)
    tensor = torch.ones(3, 3)
    assert agrees(built, tensor)
    before = sys.getrefcount(tensor)
    for _ in range(100):
        built.tree.match((tensor,), frame_function)
    assert sys.getrefcount(tensor) == before


def test_ints_that_are_captured_are_released() -> None:
    x = slot(Root())
    built = build([], [x.child(TensorSize, 0)], [])
    tensor = torch.empty(1_000_003, device="meta")
    (found,) = matched(built, tensor) or [None]
    assert found == 1_000_003
    gc.collect()
    assert sys.getrefcount(found) <= 3


def test_a_failing_demand_is_a_change_of_the_number_that_it_is_about() -> None:
    root = Root()
    x, n = slot(root), slot(root, 1)
    reads = {S: x.child(TensorSize, 0), T: x.child(TensorStride, 1), X: x.child(TensorOffset), N: n}
    k = sympy.Symbol("k", integer=True)
    guard = shapes_hold([(S >= 2, HERE), (T < 9, HERE), (k < 1, HERE), (N > 0, HERE)], {**reads, k: x.child(TensorOffset)})
    assert guard is not None
    base = torch.ones(40, 20)
    calls = {
        reads[S].path(): (base[:1, :4], 1), reads[T].path(): (base.t(), 1), reads[X].path(): (base[1:, :4], 1), n.path(): (base[:, :4], 0),
        x.child(TensorStride, 1).path(): (torch.ones(4), 1),
    }  # fmt: skip
    for path, values in calls.items():
        assert guard.change(call_of(*values)).path == path
    never = shapes_hold([(sympy.false, HERE), (N > 0, HERE)], {N: n})
    assert never is not None and never.change(call_of(None, 3)).path == n.path()
    failure = explain_failure([never], call_of(None, 3))
    assert failure is not None and failure.source == "a size"


@pytest.mark.parametrize("value,numbers", [
    (torch.ones(9, 3), [("size", 0, 8, 9)]),
    (torch.ones(9, 4), [("size", 0, 8, 9), ("size", 1, 3, 4), ("stride", 0, 3, 4)]),
    (torch.ones(3, 8).t(), [("stride", 0, 3, 1), ("stride", 1, 1, 8)]),
    (torch.ones(8, 3), []),
    (torch.ones(9, 3, dtype=torch.float64), []),
    (torch.ones(9, 3, requires_grad=True), []),
    (torch.ones(9), []),
    (torch.nn.Parameter(torch.ones(9, 3)), []),
    (3, []),
    (MISSING, []),
])  # fmt: skip
def test_which_sizes_changed(value: Any, numbers: list[tuple[str, int, int, int]]) -> None:
    guard = TensorMatch(slot(Root()), HERE, tensor_spec(torch.ones(8, 3)))
    change = guard.change(call_of(value))
    assert [tuple(number) for number in change.numbers] == numbers
    assert change == guard.change(call_of(torch.ones(1))) and hash(change) == hash(guard.change(call_of(torch.ones(1))))


def test_sizes_that_may_vary_are_no_difference() -> None:
    guard = TensorMatch(slot(Root()), HERE, free(torch.ones(8, 3), 0))
    assert [tuple(number) for number in guard.change(call_of(torch.ones(9, 4))).numbers] == [("size", 1, 3, 4)]
    assert guard.expected() == "is a Tensor([any, 3], strides (any, any), torch.float32, cpu)"
    failure = explain_failure([guard], call_of(torch.ones(9, 4)))
    assert failure is not None and failure.difference.endswith("; found size [9, 4] (x0.size(1): 3 -> 4)")


def test_strides_are_told_where_no_size_differs() -> None:
    guard = TensorMatch(slot(Root()), HERE, tensor_spec(torch.ones(8, 3)))
    failure = explain_failure([guard], call_of(torch.ones(3, 8).t()))
    assert failure is not None and failure.difference.endswith("(x0.stride(0): 3 -> 1, x0.stride(1): 1 -> 8)")


@pytest.mark.parametrize("before,now,known", [(3, 4, True), (3, 4.0, False), (True, False, False), (0.0, -0.0, True), (3, 3, False), ("a", "b", False)])
def test_which_number_changed(before: Any, now: Any, known: bool) -> None:
    change = Equals(slot(Root()), HERE, before).change(call_of(now))
    assert [tuple(number) for number in change.numbers] == ([("value", 0, before, now)] if known else [])


@pytest.mark.slow
def test_under_the_debug_allocator() -> None:
    """The tests of this file and of programs pass under CPython's checking allocator."""
    selected = "numbers or sizes or strange or malformed or corners or share or lists"
    files = [str(path) for path in Path(__file__).parent.glob("test_shape_*.py")]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", f"({selected}) and not allocator", *files]
    done = subprocess.run(command, env={**os.environ, "PYTHONMALLOC": "debug"}, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

