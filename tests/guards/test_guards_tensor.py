"""guards/tensor_spec.py, guards/global_state.py and guards/native/leaf_tensor.cpp, leaf_global_state.cpp: tensors, storages and global state."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy
import pytest
import torch
from guarding import HERE, agrees, call_of, frame_function, matched, one, slot

from framejit.guards.build import build
from framejit.guards.global_state import global_state_guard, with_setting
from framejit.guards.kinds import Equals, IsMissing, TensorMatch, TypeIs
from framejit.guards.relations import Distinct, Element, LiesInBase, Same, StorageAliasing
from framejit.guards.source import (
    MISSING,
    CAttr,
    Index,
    Root,
    Source,
)
from framejit.guards.tensor_source import (
    RELATIONS,
    TOTALS,
    ArrayTensor,
    SparsePart,
    TensorAttribute,
    TensorData,
    TensorElement,
    TensorItem,
    TensorTotal,
    Total,
)
from framejit.guards.tensor_spec import spec_without_sizes, tensor_spec
from framejit.torch_state.torch_modes import read_state

TENSORS = [
    torch.ones(2, 3),
    torch.ones(3, 2).T,
    torch.ones(2, 3, dtype=torch.float64),
    torch.ones(2, 3, requires_grad=True),
    torch.ones(2, 3, requires_grad=True) * 2,
    torch.nn.Parameter(torch.ones(2, 3)),
    torch.ones(2, 3, device="meta"),
    torch.ones(2),
    torch.ones(()),
    torch.ones(2, 3, dtype=torch.complex64),
    torch.ones(2, 3, dtype=torch.complex64).conj(),
    torch.ones(2, 3, dtype=torch.complex64).conj().imag,
    torch.eye(3).to_sparse(),
    torch.eye(3).to_sparse_csr(),
    torch.eye(3).to_sparse_csc(),
    torch.ones(2, 3, dtype=torch.int64),
    torch.ones(4, 3)[::2],
]
with torch.inference_mode():
    TENSORS.append(torch.ones(2, 3))


@pytest.mark.filterwarnings("ignore")
def test_tensor_match_between_all_pairs() -> None:
    for i, expected in enumerate(TENSORS):
        built = one(TensorMatch, tensor_spec(expected))
        for k, value in enumerate(TENSORS):
            same = (i == k) or {i, k} == {3, 4}
            assert agrees(built, value) == same, (i, k)
        assert not agrees(built, 3)
        assert not agrees(built, MISSING)


def test_tensor_match_with_any_size_and_stride() -> None:
    spec = tensor_spec(torch.ones(2, 3))
    free = type(spec)(**{**vars(spec), "sizes": (None, 3), "strides": (None, 1)})
    built = one(TensorMatch, free)
    assert agrees(built, torch.ones(7, 3))
    assert agrees(built, torch.ones(7, 6)[:, :3])
    assert not agrees(built, torch.ones(7, 4))
    assert not agrees(built, torch.ones(7, 6)[:, ::2])
    loose = one(TensorMatch, type(spec)(**{**vars(spec), "strides": None}))
    assert agrees(loose, torch.ones(3, 2).T)


def test_tensor_match_sees_what_keeps_identity() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    built = one(TensorMatch, tensor_spec(parameter))
    assert agrees(built, parameter)
    parameter.requires_grad_(False)
    assert not agrees(built, parameter)
    parameter.requires_grad_()
    assert agrees(built, parameter)
    parameter.data = torch.ones(2, 4)
    assert not agrees(built, parameter)
    parameter.data = torch.ones(2, 3)
    assert agrees(built, parameter)
    other = torch.nn.Parameter(torch.ones(5))
    torch.utils.swap_tensors(parameter, other)
    assert not agrees(built, parameter)
    assert agrees(built, other)


class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("the user's Python ran")


def test_tensor_subclass_runs_no_torch_function() -> None:
    tensor = torch.ones(2, 3).as_subclass(Sub)
    built = one(TensorMatch, tensor_spec(tensor))
    assert agrees(built, tensor)
    assert not agrees(built, torch.ones(2, 3))
    assert not agrees(one(TensorMatch, tensor_spec(torch.ones(2, 3))), tensor)


def test_relations() -> None:
    root = Root()
    a, b, c = slot(root, 0), slot(root, 1), slot(root, 2)
    same = build([Same(a, HERE, b)], [], [])
    distinct = build([Distinct(a, HERE, (b, c))], [], [])
    x, y = [1], [1]
    assert agrees(same, x, x, y)
    assert not agrees(same, x, y, y)
    assert not agrees(same, MISSING, MISSING, y)
    assert agrees(distinct, x, y, y)
    assert agrees(distinct, x, y, MISSING)
    assert not agrees(distinct, x, y, x)


def test_elements_of_sets() -> None:
    class Equal:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            raise AssertionError("a guard has called it")

    root = Root()
    value, container = slot(root, 0), slot(root, 1)
    is_in, is_not = build([Element(value, HERE, container, True)], [], []), build([Element(value, HERE, container, False)], [], [])
    a, b = object(), object()
    for kind in (set, frozenset):
        assert agrees(is_in, a, kind({a, b, 1, "text"})) and not agrees(is_not, a, kind({a, b, int}))
        assert agrees(is_not, a, kind({b, 1.5, None})) and not agrees(is_in, a, kind({b}))
        assert agrees(is_not, a, kind()) and not agrees(is_in, a, kind())
        assert not agrees(is_not, a, kind({b, Equal()})) and not agrees(is_not, a, kind({torch.ones(1)}))
    for other in ([a], {a: 1}, None, MISSING):
        assert not agrees(is_in, a, other) and not agrees(is_not, a, other)
    assert not agrees(is_not, MISSING, {a}) and not agrees(is_in, MISSING, {a})


def test_storage_aliasing() -> None:
    root = Root()
    paths = tuple(slot(root, i) for i in range(3))
    base = torch.zeros(10)
    built = build([StorageAliasing(paths[0], HERE, paths, (0, 0, 1), (0, 5, 0))], [], [])
    other = torch.zeros(3)
    assert agrees(built, base[:5], base[5:], other)
    assert not agrees(built, base[:5], base[4:9], other)
    assert not agrees(built, base[:5], base[5:].clone(), other)
    assert not agrees(built, base[:5], base[5:], base)
    assert not agrees(built, base[:5], base[5:], 3)
    assert not agrees(built, base[:5], base[5:], MISSING)


def test_a_view_lies_in_its_base() -> None:
    source = slot(Root())
    built = build([LiesInBase(source, HERE, source.child(TensorAttribute, "_base"))], [], [])
    base = torch.zeros(10)
    view, parameter = base[2:], torch.nn.Parameter(torch.zeros(3))
    assert all(agrees(built, tensor) for tensor in (base, view, view[1:], parameter, parameter[1:], torch.zeros(0)))
    assert not agrees(built, 3) and not agrees(built, None) and not agrees(built, MISSING)
    assert not agrees(built, torch.zeros(2).to_sparse())
    base.data = torch.zeros(10)
    assert agrees(built, base) and not agrees(built, view)
    view.data = base[2:]
    assert agrees(built, view)
    view.data = base.clone()
    assert not agrees(built, view)


def test_storages_that_are_not_told_apart_are_none_of_the_others() -> None:
    root = Root()
    paths = tuple(slot(root, i) for i in range(3))
    base, other = torch.zeros(10), torch.zeros(10)
    built = build([StorageAliasing(paths[0], HERE, paths, (None, 0, None), (None, None, None))], [], [])
    assert agrees(built, other[:5], base[5:], torch.zeros(3))
    assert agrees(built, other[:5], base[2:], other[1:])
    assert not agrees(built, base[:5], base[5:], other)
    assert not agrees(built, other, base[5:], base)
    assert not agrees(built, other, 3, base)


def test_memory_that_is_told_apart_is_that_of_no_other_storage() -> None:
    root = Root()
    arrays = [slot(root, i).child(ArrayTensor, False) for i in range(2)]
    paths = (*arrays, slot(root, 2))
    built = build([StorageAliasing(paths[0], HERE, paths, (0, 1, None), (None, None, None))], [], [])
    memory = numpy.arange(10.0)
    tensor = torch.from_numpy(memory)
    assert agrees(built, memory[:4], memory[4:7], tensor[7:].clone())
    assert not agrees(built, memory[:5], memory[4:7], torch.ones(2))
    assert not agrees(built, memory[4:7], memory[:5], torch.ones(2))
    assert not agrees(built, memory[:4], memory[4:7], tensor)
    assert not agrees(built, memory[:4].copy(), memory[4:7], tensor)
    assert not agrees(built, memory[:4], 3, torch.ones(2))
    assert agrees(built, memory[:0], memory[:0], tensor[:0])
    beside = build([StorageAliasing(paths[0], HERE, paths, (0, None, None), (None, None, None))], [], [])
    assert agrees(beside, memory[:3].copy(), memory[:4], tensor), "nothing of the others' memory is written to"


def test_the_tensor_of_an_array() -> None:
    source = slot(Root()).child(ArrayTensor, False)
    built = build([TensorMatch(source, HERE, tensor_spec(torch.ones(2, 3).double()))], [source], [])
    read_only = numpy.ones((2, 3))
    read_only.flags.writeable = False
    assert agrees(built, numpy.ones((2, 3)))
    others = [
        numpy.ones((3, 2)), numpy.ones((2, 3), "f4"), numpy.ones((3, 2)).T, numpy.ones((2, 6))[:, ::2], numpy.ones((2, 3))[::-1], read_only, [1.0],
        torch.ones(2, 3),
        numpy.ones((2, 3), ">f8"), numpy.ones((2, 3), object), numpy.matrix(numpy.ones((2, 3))), numpy.ones((2, 3), "M8[s]"), numpy.float64(1),
    ]  # fmt: skip
    for value in others:
        assert not agrees(built, value), value
    fixed = slot(Root()).child(ArrayTensor, True)
    built = build([TensorMatch(fixed, HERE, tensor_spec(torch.ones(2, 3).double()))], [fixed], [])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert agrees(built, read_only) and not read_only.flags.writeable and not agrees(built, numpy.ones((2, 3)))
    whole = build([TensorMatch(source, HERE, tensor_spec(torch.ones(2).long()))], [source], [])
    assert agrees(whole, numpy.ones(2, "l")) and not agrees(whole, numpy.ones(2, "q"))


def test_the_parts_of_a_sparse_tensor() -> None:
    values = slot(Root()).child(SparsePart, torch._C.TensorBase._values)
    built = build([TensorMatch(values, HERE, tensor_spec(torch.ones(2)))], [values], [])
    assert agrees(built, torch.eye(2).to_sparse()) and agrees(built, torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (5,)))
    for other in (torch.eye(3).to_sparse(), torch.eye(2).double().to_sparse(), torch.eye(2).to_sparse_csr(), torch.eye(2), 3):
        assert not agrees(built, other)
    rows = slot(Root()).child(SparsePart, torch._C.TensorBase.crow_indices)
    built = build([TensorMatch(rows, HERE, tensor_spec(torch.zeros(3, dtype=torch.int64)))], [rows], [])
    assert agrees(built, torch.eye(2).to_sparse_csr()) and not agrees(built, torch.eye(2).to_sparse_csc()) and not agrees(built, torch.eye(2).to_sparse())
    coalesced = slot(Root()).child(SparsePart, torch._C.TensorBase.is_coalesced)
    built = build([Equals(coalesced, HERE, True)], [], [])
    assert agrees(built, torch.eye(2).to_sparse()) and not agrees(built, torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (5,)))
    assert not agrees(built, torch.eye(2).to_sparse_csr()) and not agrees(built, torch.eye(2))


def test_the_parts_of_sparse_tensors_leak_nothing() -> None:
    tensors = slot(Root())
    parts = [tensors.child(SparsePart, method) for method in (torch._C.TensorBase._indices, torch._C.TensorBase._values)]
    built = build([], parts, [])
    tensor = torch.eye(2).to_sparse()
    values = tensor._values()
    before = [sys.getrefcount(thing) for thing in (tensor, values, None)]
    for _ in range(10_000):
        found = built.tree.match((tensor,), frame_function)
        assert found is not None and found[1].data_ptr() == values.data_ptr()
        assert built.tree.match((values,), frame_function) is None and built.tree.failing((3,), frame_function) == -1
    del found
    assert [sys.getrefcount(thing) for thing in (tensor, values)] == before[:2] and abs(sys.getrefcount(None) - before[2]) < 1000


def test_parts_are_asked_of_what_guards_hold_for_only() -> None:
    """They are found before the walk; the way to them isn't taken further than a walk would take it."""

    class Asked:
        @property
        def start(self) -> Any:
            raise AssertionError("the user's Python ran")

    value = slot(Root())
    values = value.child(CAttr, "start").child(SparsePart, torch._C.TensorBase._values)
    built = build([TypeIs(value, HERE, slice), TensorMatch(values, HERE, tensor_spec(torch.ones(2)))], [values], [])
    assert agrees(built, slice(torch.eye(2).to_sparse(), None)) and not agrees(built, slice(torch.ones(2), None))
    for other in (Asked(), torch.eye(2).to_sparse(), None):
        assert not agrees(built, other)


def test_the_data_of_a_tensor() -> None:
    source = slot(Root()).child(TensorData)
    built = build([Equals(source, HERE, torch.tensor([1, 2]).numpy().tobytes())], [source], [])
    same = [torch.tensor([1, 2]), torch.tensor([0, 1, 2, 3])[1:3], torch.tensor([[1], [2]]), torch.tensor([1, 0, 2, 0], dtype=torch.int32)]
    for value in same:
        assert agrees(built, value), value
    single = build([Equals(source, HERE, torch.tensor([5]).numpy().tobytes())], [source], [])
    for value in (torch.tensor([5]), torch.arange(8)[1::4][1:], torch.tensor(5), torch.arange(8).reshape(2, 4)[1:, 1:2]):
        assert agrees(single, value), value
    for value in (torch.tensor([1, 3]), torch.tensor([1, 9, 2, 9])[::2], torch.tensor([1, 2, 3]), torch.empty(2, device="meta"), [1, 2], MISSING):
        assert not agrees(built, value), value
    empty = build([Equals(source, HERE, b"")], [source], [])
    assert agrees(empty, torch.zeros(0)) and not agrees(empty, torch.zeros(1)) and not agrees(empty, torch.zeros(100_000))


def with_storage_of(size: int, tensor: torch.Tensor) -> torch.Tensor:
    tensor.untyped_storage().resize_(size)
    return tensor


@pytest.mark.parametrize("kind", [TensorData, TensorItem])
def test_data_is_read_where_all_of_it_lies_in_the_storage_as_it_is(kind: type[Source]) -> None:
    path = slot(Root()).child(kind)
    built = build([IsMissing(path, HERE)], [], [])
    tensors = [
        with_storage_of(size, tensor)
        for size in (0, 4, 12)
        for tensor in (torch.tensor(1), torch.arange(4)[3:], torch.arange(900).narrow(0, 2, 800), torch.arange(4)[3], torch.arange(9)[8:])
        if size < tensor.element_size() * (tensor.storage_offset() + tensor.numel())
    ]
    assert len(tensors) == 14
    negated = [torch._neg_view(torch.tensor(3)), torch._neg_view(torch.arange(1, 4)), torch.zeros(2, dtype=torch.complex64).conj()]
    for value in (*tensors, *negated, torch.zeros(1, device="meta"), torch.eye(2).to_sparse(), 3):
        assert agrees(built, value), value
    assert not agrees(built, torch.tensor(1)) and not agrees(built, with_storage_of(8, torch.tensor([1, 2]))[0])


def test_elements_and_totals_are_read_natively_as_torch_reads_them() -> None:
    base = torch.arange(-8, 16)
    tensors: list[Any] = [
        base, base.view(4, 6), base.view(4, 6).t(), base.view(2, 3, 4)[:, 1:, ::2], base[3:].view(3, 7)[1:], base[:1].expand(2, 3), base[0], base[5:5],
        base.to(torch.int32).view(4, 6), base.to(torch.uint8), base.to(torch.int16), base.float().view(4, 6), base.double()[1:], base > 2,
        (base > -9).view(4, 6), torch.tensor([2**63 - 1, 2**62, -1, 2**63 - 1]), torch.tensor([float("nan"), -0.0]), torch._neg_view(torch.arange(1, 4)),
        torch.zeros(2, 2).to_sparse(), torch.zeros(2, 3, device="meta"), torch.nn.Parameter(torch.zeros(4, 6)), torch.zeros(2000, dtype=torch.int64),
        torch.zeros(0, dtype=torch.bool), [1, 2], 3, with_storage_of(40, torch.arange(24).view(4, 6)),
        torch.zeros(2, 2, dtype=torch.complex64).conj().imag, MISSING,
    ]  # fmt: skip
    path = slot(Root())
    indices = [(), (0,), (3,), (23,), (1999,), (0, 0), (3, 5), (1, 1), (5, 3), (1, 1, 1), (0, 2, 0)]
    totals = [Total(function, relation, other) for function in TOTALS for relation in RELATIONS for other in ((0, 3, -1, 2**40) if relation else (0,))]
    sources = [path.child(TensorElement, index) for index in indices] + [path.child(TensorTotal, total) for total in totals]
    for source in sources:
        built = build([], [source], [])
        for value in tensors:
            expected = source.fetch(call_of(value))
            found = matched(built, value)
            assert (found is None) == (expected is MISSING), (source, value)
            if found is not None:
                assert type(found[0]) is type(expected) and repr(found[0]) == repr(expected), (source, value, found)
    assert matched(build([], [path.child(TensorElement, (5, 3))], []), tensors[2]) == [base.view(4, 6)[3, 5].item()]
    assert matched(build([], [path.child(TensorTotal, Total("sum", ">", 3))], []), base) == [12]
    for payload in ((-1,), 3):
        with pytest.raises((ValueError, TypeError)):
            build([], [path.child(TensorElement, payload)], [])


def test_attributes_of_tensors_whose_class_overrides_them() -> None:
    class Overriding(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("asked")

    built = build([Equals(slot(Root()).child(TensorAttribute, "is_leaf"), HERE, True)], [], [])
    with torch._C.DisableTorchFunctionSubclass():
        made = torch.ones(2, requires_grad=True).as_subclass(Overriding)
        leaf = torch.ones(2).as_subclass(Overriding)
    assert agrees(built, leaf) and not agrees(built, made) and not agrees(built, 3) and agrees(built, torch.ones(2))


MODES: list[Any] = [
    torch.no_grad,
    torch.inference_mode,
    lambda: torch.autocast("cpu"),
    lambda: torch.autocast("cpu", dtype=torch.float16),
    lambda: torch.autocast("cpu", cache_enabled=False),
    lambda: torch.device("meta"),
    lambda: torch.device("cpu"),
    torch._C.DisableTorchFunctionSubclass,
    torch._C.DisableTorchFunction,
    lambda: torch.utils.deterministic_mode(True) if hasattr(torch.utils, "deterministic_mode") else torch.no_grad(),
]


def test_global_state_between_all_pairs_of_modes() -> None:
    for i, entered in enumerate(MODES):
        with entered():
            built = build([global_state_guard(Root(), HERE)], [], [])
            assert agrees(built)
        assert not agrees(built)
        for k, other in enumerate(MODES):
            with other():
                assert agrees(built) == (read_state() == built.guards[0].state)  # type: ignore[attr-defined]
                assert agrees(built) or i != k


def test_global_state_settings() -> None:
    built = build([global_state_guard(Root(), HERE)], [], [])
    assert agrees(built)
    torch.set_default_dtype(torch.float64)
    try:
        assert not agrees(built)
    finally:
        torch.set_default_dtype(torch.float32)
    assert agrees(built)
    torch.use_deterministic_algorithms(True)
    try:
        assert not agrees(built)
        inside = build([global_state_guard(Root(), HERE)], [], [])
        torch.use_deterministic_algorithms(True, warn_only=True)
        assert not agrees(inside)
    finally:
        torch.use_deterministic_algorithms(False)
    assert agrees(built)


def test_a_setting_that_python_code_reads() -> None:
    """An exception of its own says that it is another; an interrupt that comes meanwhile is raised."""

    def read() -> int:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    answer: Any = 3
    root = Root()
    built = build([with_setting(global_state_guard(root, HERE), (read, (), 3))], [slot(root)], [])
    value = object()
    before = sys.getrefcount(value)
    assert agrees(built, value)
    answer = 4
    assert not agrees(built, value)
    answer = ValueError()
    assert matched(built, value) is None and built.tree.failing((value,), frame_function) == 0
    answer = KeyboardInterrupt()
    for ask in (built.tree.match, built.tree.failing):
        with pytest.raises(KeyboardInterrupt):
            ask((value,), frame_function)
    answer = 3
    assert agrees(built, value) and sys.getrefcount(value) == before


def test_a_setting_is_read_while_nothing_is_borrowed() -> None:
    """The function that reads a setting may walk the same guard tree, and release objects that the tree has captured."""
    holder = [object()]
    asked: list[Any] = []

    def read() -> int:
        if not asked:
            asked.append(None)
            asked[0] = built.tree.match((holder,), frame_function)
            holder[0] = object()
        return 3

    root = Root()
    item = slot(root).child(Index, 0)
    built = build([with_setting(global_state_guard(root, HERE), (read, (), 3)), TypeIs(item, HERE, object)], [item], [])
    first = id(holder[0])
    found = matched(built, holder)
    assert found is not None and id(found[0]) == first and asked[0] is not None and asked[0][0] is found[0] is not holder[0]


def test_global_state_knows_how_many_modes_there_are() -> None:
    """The guard on the global state counts function modes; other guards are for their content (library/torch/overrides/test_function_modes_in_force.py)."""

    class Mode(torch.overrides.TorchFunctionMode):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("the user's Python ran")

        __hash__ = object.__hash__

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    mode = Mode()
    with mode:
        built = build([global_state_guard(Root(), HERE)], [], [])
        assert agrees(built)
        with torch.device("cpu"):
            assert not agrees(built)
    with Mode():
        assert agrees(built)
        with mode:
            assert not agrees(built)
    assert not agrees(built)




def test_tensor_match_of_nested_tensors() -> None:
    def nested(*lengths: int, dtype: torch.dtype = torch.float32, requires_grad: bool = False) -> Any:
        parts = [torch.ones(length, 3, dtype=dtype) for length in lengths]
        return torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=requires_grad)

    built = one(TensorMatch, spec_without_sizes(nested(2, 4)))
    assert agrees(built, nested(2, 4)) and agrees(built, nested(1, 5, 3)) and agrees(built, nested(2, 4).transpose(1, 2))
    for other in (nested(2, 4, dtype=torch.float64), nested(2, 4, requires_grad=True), nested(2, 4, requires_grad=True) * 2, torch.ones(2, 4, 3), 3):
        assert not agrees(built, other)


def test_a_tensor_whose_data_is_read_can_still_be_resized() -> None:
    source = slot(Root()).child(TensorData)
    for tensor, data in ((torch.tensor([]), b""), (torch.tensor([1], dtype=torch.uint8), b"\1")):
        assert source.step(tensor) == data
        tensor.resize_(3)
