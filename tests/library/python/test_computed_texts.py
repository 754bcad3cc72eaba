"""Texts that are computed while tracing: paths, packed numbers, literals and patterns."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import struct
import warnings
from typing import Any

import pytest
import torch
from agreement import agree

import framejit

X = torch.arange(3.0)
PATH = pathlib.Path("/data/run/weights.tar.gz")
LAYOUT = struct.Struct("<hi")


class Folder:
    def __init__(self, name: Any) -> None:
        self.name = name

    def __fspath__(self) -> Any:
        return self.name


def test_paths_are_joined_and_taken_apart() -> None:
    def named(x: torch.Tensor, path: pathlib.Path) -> Any:
        made = pathlib.Path("/data") / "run" / path.name
        return x * len(str(made)), made, made == path, path.suffix, path.stem, path.parent / "z", os.fspath(path), os.path.join(path.parent, "q")

    agree(named, X, PATH)


def test_fspath_calls_the_method_and_checks_what_it_gives() -> None:
    def asked(x: torch.Tensor, value: Any) -> Any:
        try:
            return x, os.fspath(value)
        except TypeError as error:
            return x, str(error)

    for value in ("a", b"a", Folder("b"), Folder(b"b"), Folder(3), 3, None):
        agree(asked, X, value)


def test_numbers_are_packed_and_unpacked() -> None:
    def packed(x: torch.Tensor, number: int) -> Any:
        data = struct.pack("<if", number, 0.5)
        try:
            struct.unpack("<i", data)
        except struct.error as error:
            message = str(error)
        return x * struct.unpack("<if", data)[0], data, message, struct.calcsize("<if"), LAYOUT.pack(1, number), LAYOUT.unpack(bytes(6)), LAYOUT.size

    for number in (3, 7):
        agree(packed, X, number)


def test_literals_are_evaluated() -> None:
    def evaluated(x: torch.Tensor, text: str) -> Any:
        made = eval("[1, 2]")
        made.append(3)
        return x * eval("1 + 2"), made, ast.literal_eval(text), eval(" {'a': (1, 2.5)}['a'][1] ")

    for text in ("[1, -2]", "{'a': None}"):
        agree(evaluated, X, text)


def test_what_a_literal_may_not_contain_raises() -> None:
    def evaluated(x: torch.Tensor) -> Any:
        try:
            return ast.literal_eval("x + 1")
        except ValueError as error:
            return type(error), x

    agree(evaluated, X)


def test_names_and_errors_in_a_text_are_pythons() -> None:
    def with_names(x: torch.Tensor) -> Any:
        factor = 4
        return x * eval("factor + 1"), [eval("1 / 0") if factor < 0 else 2]

    def fails(x: torch.Tensor) -> Any:
        return x * eval("1 / 0")

    agree(with_names, X, fullgraph=False)
    agree(fails, X, fullgraph=False)


def test_a_pattern_that_is_compiled_in_the_call() -> None:
    def matched(x: torch.Tensor) -> Any:
        found = re.match(r"(\d+)never seen before", "12never seen before")
        assert found is not None
        return x * int(found.group(1)), re.compile("q{2}", re.I).sub("", "aQqb"), re.split(r"\s*;\s*", "a ; b")

    re.purge()
    framejit.reset()
    compiled = framejit.compile(matched, backend="eager", fullgraph=True)
    first = compiled(X)
    re.purge()
    assert torch.equal(first[0], compiled(X)[0]) and first[1:] == compiled(X)[1:] == ("ab", ["a", "b"])
    assert framejit.statistics()["recompiles"] == 0


def test_a_pattern_in_error_raises() -> None:
    def wrong(x: torch.Tensor) -> Any:
        try:
            re.compile("(")
        except re.error as error:
            return str(error), x

    agree(wrong, X, fullgraph=False)


@pytest.mark.parametrize(
    "compute",
    [
        pytest.param(lambda text: eval(text), id="eval"),
        pytest.param(lambda text: ast.literal_eval(text), id="literal_eval"),
    ],
)
def test_texts_that_warn_do_so_at_each_call(compute: Any) -> None:
    def computed(x: torch.Tensor, text: str) -> Any:
        return x + 1, compute(text)

    compiled = framejit.compile(computed, backend="eager")
    for _ in range(2):
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            assert compiled(X, "'\\d'")[1] == "\\d"
        assert [str(warning.message) for warning in shown] == [str(warning.message) for warning in warned_by(compute, "'\\d'")]


def test_a_pattern_that_warns_does_so_when_it_is_first_compiled() -> None:
    def searched(x: torch.Tensor) -> Any:
        return x + 1, re.search("[[a]b", "x[b") is not None

    re.purge()
    expected = warned_by(searched, X)
    re.purge()
    shown = warned_by(framejit.compile(searched, backend="eager"), X)
    assert expected and [str(warning.message) for warning in shown] == [str(warning.message) for warning in expected]


def warned_by(function: Any, *args: Any) -> Any:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        function(*args)
    return shown
