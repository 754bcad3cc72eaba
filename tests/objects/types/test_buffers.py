"""bytearray and array.array in compiled code, against plain Python."""

from __future__ import annotations

import array
import copy
import pickle
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from agreement import agree, raising, tried
from hypothesis import given, settings
from hypothesis import strategies as st
from named import Programs

import framejit

PROGRAMS = Programs()
program = PROGRAMS.add
"""Programs that are compiled whole."""


@program
def changed_in_place():
    data = alias = bytearray(b"abc")
    data.append(100)
    data += b"xy"
    data[0] = 65
    data[1:2] = b"ZZ"
    del data[-1]
    data.extend(i for i in range(3))
    data *= 2
    return data is alias, alias, data[2:4], len(data), list(data), data.pop(), data.index(b"Z"), bool(bytearray())


@program
def with_bytes():
    data = bytearray(b"abc")
    return bytes(data), data + b"d", b"d" + data, data == b"abc", b"abc" == data, data < b"b", b"b" in data, 97 in data, b"-".join([data, b"x"]), data * 2


@program
def bytes_of_iterators():
    return bytes(i + 1 for i in range(3)), bytes(map(abs, [-1, 2])), bytes(iter(b"ab")), raising(lambda: bytes(i for i in (1, 300))), bytes(zip())


@program
def iterators_are_left_at_the_first_item_that_is_no_byte():
    seen = []

    def items():
        for item in (1, 300, 2):
            seen.append(item)
            yield item

    data = bytearray(b"a")
    return raising(lambda: bytes(items())), raising(lambda: bytearray(items())), raising(lambda: data.extend(items())), seen, data


@program
def methods_of_bytes():
    data = bytearray(b" a,B ")
    return (
        data.strip(), data.upper(), data.split(b","), data.replace(b"a", b"cc"), data.startswith(b" "), data.hex(), data.decode("ascii"),
        data.find(b"x"), repr(data),
    )  # fmt: skip


@program
def made_in_all_ways():
    encoded = bytearray("\u00e9", "utf-8"), bytearray("a", encoding="latin-1")
    return (
        bytearray(), bytearray(3), bytearray([1, 2]), bytearray(bytearray(b"a")), bytearray(range(3)), bytearray(i for i in (7, 8)), encoded,
        bytearray.fromhex("ff00"),
    )  # fmt: skip


@program
def refused():
    data = bytearray(b"ab")
    return [
        raising(lambda: bytearray([300])), raising(lambda: data.append(256)), raising(lambda: data[9]), raising(lambda: hash(data)),
        raising(lambda: bytearray("a")),
        raising(lambda: bytearray(None)), raising(lambda: data.pop(9)), raising(lambda: data + 1), raising(lambda: data.remove(1)),
        raising(lambda: data.missing),
        raising(lambda: bytearray(-1)), raising(lambda: {data: 1}),
        raising(lambda: bytearray(encoding="ascii")), raising(lambda: data.extend(i for i in (1, 300))), data,
    ]  # fmt: skip


@program
def iterated_while_it_changes():
    data = bytearray(b"ab")
    seen = []
    for item in data:
        seen.append(item)
        if len(data) < 5:
            data.append(item + 1)
    ended = iter(data)
    list(ended)
    data.append(1)
    return seen, data, list(ended), next(iter(data))


@program
def copies():
    data = bytearray(b"ab")
    return copy.copy(data), copy.deepcopy([data, data]), pickle.loads(pickle.dumps(data)), data.copy() is data, struct.unpack("2s", data)


@program
def arrays():
    values = array.array("i", [1, 2, 3])
    alias = values
    values.append(4)
    values[0] = 9
    values.extend([1])
    values += array.array("i", [5])
    total = 0
    for value in values:
        total += value
    return (
        alias, total, values.tolist(), values.typecode, values.itemsize, values.tobytes(), values[1:3], values == array.array("i", [9]),
        values.index(4), repr(values),
    )  # fmt: skip


@program
def refused_by_arrays():
    values = array.array("d", [1.5])
    return (
        raising(lambda: values.append("a")), raising(lambda: array.array("?")), raising(lambda: values.extend(array.array("i"))),
        raising(lambda: values.pop(3)), values,
    )  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    fn = PROGRAMS[name]
    compiled = framejit.compile(lambda: fn(), backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(compiled()) == repr(fn())


def test_iterators_and_identity_of_what_is_returned() -> None:
    def fn() -> Any:
        data = bytearray(b"abc")
        iterator, ended = iter(data), iter(array.array("b"))
        next(iterator)
        next(ended, None)
        return data, [data], iterator, ended

    data, [same], iterator, ended = framejit.compile(fn, backend="eager", fullgraph=True)()
    assert data is same and list(iterator) == [98, 99] and list(ended) == []
    assert framejit.compile(fn, backend="eager")()[0] is not data


def test_after_a_graph_break_and_from_outside() -> None:
    def fn(given_: Any) -> Any:
        data = bytearray(b"ab")
        data.append(1)
        framejit.graph_break()
        data.append(2)
        given_.append(3)
        return data, given_ + data

    compiled = framejit.compile(fn, backend="eager")
    for _ in range(2):
        outside, expected = bytearray(b"x"), bytearray(b"x")
        assert compiled(outside) == fn(expected) and outside == expected


def test_a_view_of_the_memory_is_native() -> None:
    def fn(x: torch.Tensor) -> Any:
        data = bytearray(b"abcd")
        with memoryview(data) as view:
            view[0] = 65
            refused = tried(data.append, 1)
        data.append(1)
        return data, refused

    assert framejit.compile(fn, backend="eager")(torch.ones(1)) == fn(torch.ones(1))


def test_subclasses_are_native() -> None:
    class Own(bytearray):
        def append(self, item: int) -> None:
            super().append(item + 1)

    def fn() -> Any:
        made = Own(b"a")
        made.append(1)
        return made, made == bytearray(b"a\x02"), type(made) is Own

    assert framejit.compile(fn, backend="eager")() == fn()


DEEDS: dict[str, Callable[[Any, int], Any]] = {
    "append": lambda data, i: data.append(i), "insert": lambda data, i: data.insert(i - 2, i), "pop": lambda data, i: data.pop(i - 2),
    "get": lambda data, i: data[i - 2],
    "slice": lambda data, i: data[i:], "set": lambda data, i: data.__setitem__(i, 300 if i == 3 else i),
    "delete": lambda data, i: data.__delitem__(slice(i, None, 2)),
    "reverse": lambda data, i: data.reverse(), "repeat": lambda data, i: data.__imul__(i), "count": lambda data, i: data.count(i),
    "replace": lambda data, i: data.__setitem__(slice(i), data),
}  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(DEEDS)), st.integers(0, 4)), max_size=6), st.sampled_from(["bytes", "array"]))
def test_deeds_in_any_order(deeds: list[tuple[str, int]], kind: str) -> None:
    framejit.reset()

    def fn() -> Any:
        data = bytearray(b"abc") if kind == "bytes" else array.array("h", [1, 2, 3])
        return [tried(DEEDS[name], data, argument) for name, argument in deeds], data

    assert repr(framejit.compile(fn, backend="eager")()) == repr(fn())


SHARING: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray, "ravel": np.ravel, "reshape": lambda data: np.reshape(data, (3, 1)), "atleast_1d": np.atleast_1d, "frombuffer": np.frombuffer,
    "from_numpy": lambda data: torch.from_numpy(np.asarray(data)), "beside_array": lambda data: np.atleast_1d(np.zeros(2), data)[1], "copied": np.array,
}  # fmt: skip


@pytest.mark.parametrize("name", SHARING)
def test_arrays_in_the_memory_of_a_buffer(name: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        data = array.array("d", [1.0, 2.0, 3.0])
        shared = SHARING[name](data)
        shared += 1
        return data, shared.tolist(), x + 1

    compiled = framejit.compile(fn, backend="eager")
    for _ in range(2):
        assert repr(compiled(torch.ones(1))) == repr(fn(torch.ones(1)))


def test_a_match_refers_to_its_bytearray() -> None:
    def fn(x: torch.Tensor) -> Any:
        data = bytearray(b"abc")
        found = [re.search(b"b", data), re.compile(b"a(b)").match(string=data), re.fullmatch(b"abc", data)]
        data[1] = 90
        return [match and match.group() for match in found], re.sub(b"a", b"x", data), re.findall(b"c", data), x + 1

    compiled = framejit.compile(fn, backend="eager")
    for _ in range(2):
        assert repr(compiled(torch.ones(1))) == repr(fn(torch.ones(1)))


def test_an_array_takes_the_items_of_an_iterator_one_by_one() -> None:
    def taken(x: torch.Tensor, items: list[Any]) -> Any:
        made = array.array("i", (item for item in items))
        seen = []

        def growing() -> Iterator[Any]:
            for item in items:
                seen.append(len(made))
                yield item

        try:
            made.extend(growing())
        except TypeError as error:
            return x + 1, made, seen, str(error)
        return x + 1, made, seen, array.array("b", iter(items))

    for items in ([1, 2, 3], []):
        framejit.reset()
        agree(taken, torch.ones(2), items)
        assert framejit.statistics()["graph_breaks"] == 0


def test_an_array_stops_at_the_first_item_that_it_refuses() -> None:
    def refused(x: torch.Tensor, items: list[Any]) -> Any:
        made, left = array.array("i", [7]), iter(items)
        errors = []
        for call in (made.extend, lambda given: array.array("b", given)):
            try:
                call(left)
            except (TypeError, OverflowError) as error:
                errors.append(str(error))
        return x + 1, made, errors, list(left)

    framejit.reset()
    agree(refused, torch.ones(2), [1, "no", 2, 300, 4])
    assert framejit.statistics()["graph_breaks"] == 0
