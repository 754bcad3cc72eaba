"""Views of bytearrays and their like in compiled code: as long as one lives, used or not, what it views can't change its size."""

from __future__ import annotations

import array
import io
from typing import Any

import pytest
from agreement import agree_in_text, tried

programs: list[Any] = []


def program(function: Any) -> Any:
    programs.append(function)
    return function


@program
def never_read():
    data = bytearray(range(10))
    view = memoryview(data)
    return tried(data.append, 1), tried(data.clear), tried(data.pop), bytes(data)


@program
def in_a_list():
    data = bytearray(range(10))
    views = [memoryview(data), 1]
    return tried(data.extend, b"abc"), bytes(data)


@program
def iterated():
    data = bytearray(3)
    view = iter(memoryview(data))
    return tried(data.clear), bytes(data)


@program
def deleted_and_released():
    data = bytearray(3)
    view = memoryview(data)
    first = tried(data.clear)
    del view
    data.append(1)
    with memoryview(data):
        second = tried(data.clear)
    return first, second, tried(data.clear), bytes(data)


def viewing(data):
    view = memoryview(data)
    return tried(data.clear)


@program
def in_a_callee():
    data = bytearray(3)
    return viewing(data), tried(data.clear), bytes(data)


@program
def of_other_owners():
    numbers, file = array.array("i", [1]), io.BytesIO(b"abc")
    views = memoryview(numbers), file.getbuffer()
    return tried(numbers.append, 3), tried(file.write, b"abcdef"), list(numbers)


@pytest.mark.parametrize("function", programs, ids=lambda function: function.__name__)
def test_views(function: Any) -> None:
    agree_in_text(function)
