"""print() in compiled code to a StringIO, to objects of the trace and to what takes the place of sys.stdout; other files break the graph."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

import pytest
import torch
from agreement import tried
from named import Programs

import framejit

PROGRAMS = Programs()
program = PROGRAMS.add
"""Programs that are compiled whole. Each takes a tensor and a text."""


class Written:
    """A file in Python."""

    def __init__(self):
        self.parts = []

    def write(self, text):
        self.parts.append(text)

    def flush(self):
        self.parts.append("flushed")


class Fails:
    def __str__(self):
        raise ValueError("no text")


@program
def to_a_stream(x, word):
    stream = io.StringIO()
    print("shape", tuple(x.shape), [1.5, None], {"word": word}, file=stream)
    print(1, 2, sep="", end="|", file=stream)
    print(file=stream, end=None, sep=None)
    return stream.getvalue()


@program
def number_known_after_the_graph(x, word):
    stream = io.StringIO()
    print("loss", x.sum().item(), word, file=stream)
    return stream.getvalue(), x + 1


@program
def redirected(x, word):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        print("inside")
        print("error", file=sys.stderr)
    return stream.getvalue(), sys.stdout is stream


@program
def redirected_twice(x, word):
    outer, inner = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(outer):
        print("outer")
        with contextlib.redirect_stdout(inner):
            print("inner")
        print("outer again")
    return outer.getvalue(), inner.getvalue()


@program
def to_a_file_in_python(x, word):
    file = Written()
    print("a", 2, file=file, flush=True)
    with contextlib.redirect_stdout(file):
        print("b", end="")
    return file.parts


@program
def nowhere(x, word):
    with contextlib.redirect_stdout(None):
        print(word)
    return x + 1


@program
def fails_half_way(x, word):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        outcomes = [tried(print, "a", Fails()), tried(print, 1, sep=2), tried(print, 1, end=b"")]
    stream.close()
    return outcomes, tried(lambda: print(1, file=stream)), sys.stdout is stream


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    fn = PROGRAMS[name]
    compiled = framejit.compile(fn, backend="eager", fullgraph=True)
    for word in ("word", "other"):
        x = torch.ones(3)
        before = sys.stdout
        assert repr(compiled(x, word)) == repr(fn(x, word))
        assert sys.stdout is before
    assert capfd.readouterr() == ("", "")


def test_printing_to_the_standard_output_breaks_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        print("one")
        return x + 1

    framejit.reset()
    framejit.compile(fn, backend="eager")(torch.ones(2))
    assert capsys.readouterr().out == "one\n"
    assert framejit.statistics()["reasons"][0].startswith("FJ012 print() is a side effect")


def test_a_graph_break_where_the_output_is_redirected() -> None:
    def fn(x: torch.Tensor) -> Any:
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            print("before")
            framejit.graph_break()
            print("after")
        return stream.getvalue(), x + 1

    before = sys.stdout
    assert framejit.compile(fn, backend="eager")(torch.ones(2))[0] == "before\nafter\n"
    assert sys.stdout is before


def test_an_exception_leaves_the_output_redirected() -> None:
    stream = io.StringIO()

    def fn(x: torch.Tensor) -> None:
        sys.stdout = stream
        print("written")
        raise KeyError("k")

    before = sys.stdout
    try:
        with pytest.raises(KeyError):
            framejit.compile(fn, backend="eager")(torch.ones(2))
        assert sys.stdout is stream and stream.getvalue() == "written\n"
    finally:
        sys.stdout = before


@torch.library.custom_op("framejit_printing::prints", mutates_args=())
def prints(x: torch.Tensor) -> torch.Tensor:
    print("the operator")
    return x + 1


@prints.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_operators_of_others_print_where_the_output_is_redirected() -> None:
    def fn(x: torch.Tensor) -> Any:
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            y = prints(x)
        return stream.getvalue(), y

    compiled = framejit.compile(fn, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2))[0] == "the operator\n"
