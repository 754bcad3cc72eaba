"""io.StringIO and io.BytesIO in compiled code: made, written, read, closed, returned and shared, and written to from outside."""

from __future__ import annotations

import array
import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import raising, tried
from hypothesis import given, settings
from hypothesis import strategies as st
from named import Programs

import framejit

PROGRAMS = Programs()
program = PROGRAMS.add
"""Programs that are compiled whole. Each takes a tensor and a text."""


@program
def written_and_read(x, word):
    stream = io.StringIO()
    counts = [stream.write("first\n"), stream.write(f"{x.shape[0]}\n"), stream.write(word)]
    return counts[:2], stream.getvalue(), stream.tell(), stream.seek(2), stream.read(3), stream.readline(), stream.readlines(), stream.read()


@program
def number_known_after_the_graph(x, word):
    stream = io.StringIO()
    stream.write(f"loss {x.sum().item():.2f}")
    stream.write(" for ")
    stream.write(word)
    return stream.getvalue()


@program
def length_known_after_the_graph(x, word):
    return io.StringIO().write(f"{x.sum().item()}")


@program
def lines_of_text(x, word):
    stream = io.StringIO("a\nb\r\nc")
    return list(stream), next(stream, None), stream.getvalue()


@program
def read_into_buffers(x, word):
    stream, buffer, numbers = io.BytesIO(b"abcdefghijk"), bytearray(4), array.array("H", [0, 0])
    alias = buffer
    counts = [stream.readinto(buffer), stream.readinto(numbers), stream.readinto(buffer), stream.readinto(buffer)]
    stream.close()
    return counts, buffer, alias is buffer, numbers, tried(lambda: stream.readinto(buffer))


@program
def overwritten_in_the_middle(x, word):
    stream = io.StringIO("abcdef")
    stream.seek(2)
    stream.write("XY")
    stream.seek(9)
    stream.write("Z")
    return stream.getvalue(), stream.truncate(4), stream.getvalue(), stream.tell()


@program
def translated_lines(x, word):
    stream = io.StringIO("a\nb", newline="\r\n")
    stream.seek(0, 2)
    stream.write("c\nd")
    return stream.getvalue(), stream.newlines


@program
def bytes_of_all_kinds(x, word):
    stream = io.BytesIO(b"abc")
    stream.seek(0, io.SEEK_END)
    counts = stream.write(b"def"), stream.writelines([b"1\n", b"2\n"])
    stream.seek(-4, 2)
    return counts, stream.getvalue(), stream.read(), stream.read1(2), stream.seek(0), stream.readline(), stream.readlines()


@program
def closed_by_a_block(x, word):
    with io.StringIO("ab") as stream:
        first = stream.read(1), stream.closed
    return first, stream.closed, raising(stream.read), raising(stream.getvalue), raising(lambda: stream.write("a")), raising(lambda: iter(stream))


@program
def closed_by_an_exception(x, word):
    try:
        with io.BytesIO() as stream:
            stream.write(b"a")
            raise KeyError(word)
    except KeyError as error:
        return stream.closed, error.args


@program
def refused_arguments(x, word):
    text, data = io.StringIO(), io.BytesIO()
    return [
        raising(lambda: io.StringIO(3)), raising(lambda: io.StringIO("", newline="x")), raising(lambda: text.write(b"a")), raising(lambda: data.write("a")),
        raising(lambda: text.seek(-1)), raising(lambda: text.seek(1, 1)), raising(text.fileno), raising(text.detach), raising(lambda: text.truncate(-1)),
        raising(lambda: text.missing), raising(lambda: text.writelines(["a", 3])), text.getvalue(), text.getvalue(),
    ]  # fmt: skip


@program
def questions(x, word):
    stream = io.StringIO()
    return stream.readable(), stream.writable(), stream.seekable(), stream.isatty(), stream.flush(), stream.encoding, stream.errors, bool(stream), stream.closed


@program
def lines_of_a_generator(x, word):
    stream = io.StringIO()
    stream.writelines(f"{i}\n" for i in range(3))
    return stream.getvalue()


@program
def dropped_half_way(x, word):
    stream = io.StringIO()

    def parts():
        yield "a"
        stream.write("inside")
        raise ValueError(word)

    return tried(stream.writelines, parts()), stream.getvalue()


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    fn = PROGRAMS[name]
    compiled = framejit.compile(fn, backend="eager", fullgraph=True)
    for word in ("word", "other"):
        x = torch.ones(3)
        assert repr(compiled(x, word)) == repr(fn(x, word))


def state(stream: Any) -> Any:
    """Reads a stream that has left compiled code, and returns everything that can be seen of it."""
    if stream.closed:
        return type(stream), "closed"
    before = stream.tell(), stream.read(), stream.getvalue(), stream.__dict__
    stream.write("end" if isinstance(stream, io.StringIO) else b"end")
    return type(stream), before, stream.getvalue()


def rewound(stream: Any, position: int) -> Any:
    stream.seek(position)
    return stream


def with_attribute(stream: Any) -> Any:
    stream.owner = [stream]
    return stream


def closed(stream: Any) -> Any:
    stream.close()
    return stream


RETURNED: dict[str, Callable[[], Any]] = {
    "new": lambda: io.StringIO(), "given": lambda: io.StringIO("abc"), "at the end": lambda: rewound(io.StringIO("abc"), 3),
    "in the middle": lambda: rewound(io.BytesIO(b"abc"), 1), "behind the end": lambda: rewound(io.StringIO("abc"), 5), "closed": lambda: closed(io.BytesIO()),
    "translating": lambda: io.StringIO("a\nb", newline="\r\n"), "new bytes": lambda: io.BytesIO(),
}  # fmt: skip


@pytest.mark.parametrize("name", RETURNED)
def test_a_returned_stream_is_as_it_was_left(name: str) -> None:
    make = RETURNED[name]
    compiled = framejit.compile(lambda: make(), backend="eager", fullgraph=True)
    assert state(compiled()) == state(make())
    assert compiled() is not compiled()


def test_a_stream_that_holds_itself() -> None:
    made = framejit.compile(lambda: with_attribute(io.StringIO("a")), backend="eager", fullgraph=True)()
    assert made.owner[0] is made and made.getvalue() == "a"


SHARED = io.StringIO()


def test_writing_to_a_stream_from_outside_comes_after_the_graph_and_recompiles_for_no_text() -> None:
    def fn(x: torch.Tensor, word: str) -> torch.Tensor:
        SHARED.write(word)
        SHARED.writelines([f"{x.sum().item()}", "\n"])
        SHARED.flush()
        return x + 1

    framejit.reset()
    SHARED.seek(0)
    SHARED.truncate()
    compiled = framejit.compile(fn, backend="eager", fullgraph=True)
    for word in ("a", "b", "c"):
        compiled(torch.ones(2), word)
    assert SHARED.getvalue() == "a2.0\nb2.0\nc2.0\n"
    assert framejit.statistics()["recompiles"] == 0


def test_order_of_writes_by_two_names() -> None:
    def fn(a: io.StringIO, b: io.StringIO) -> None:
        a.write("1")
        b.write("2")
        a.write("3")

    compiled = framejit.compile(fn, backend="eager")
    for same in (False, True, False):
        streams = [io.StringIO(), io.StringIO()]
        expected = [io.StringIO(), io.StringIO()]
        fn(expected[0], expected[0 if same else 1])
        compiled(streams[0], streams[0 if same else 1])
        assert [each.getvalue() for each in streams] == [each.getvalue() for each in expected]


def test_a_closed_stream_from_outside_raises() -> None:
    compiled = framejit.compile(lambda stream: stream.write("a"), backend="eager")
    assert compiled(io.StringIO()) == 1
    gone = io.StringIO()
    gone.close()
    with pytest.raises(ValueError, match="closed file"):
        compiled(gone)


def test_reading_a_stream_from_outside_breaks_the_graph_after_what_was_written() -> None:
    def fn(stream: io.StringIO) -> str:
        stream.write("b")
        return stream.getvalue()

    framejit.reset()
    compiled = framejit.compile(fn, backend="eager")
    stream = io.StringIO("a")
    stream.seek(1)
    assert compiled(stream) == "ab" and compiled(stream) == "abb"
    assert framejit.statistics()["graph_breaks"] == 1


def test_a_stream_lives_through_a_graph_break() -> None:
    def fn(x: torch.Tensor) -> Any:
        stream = io.StringIO()
        stream.write("before")
        framejit.graph_break()
        stream.write(" after")
        return stream, x + 1

    stream, _ = framejit.compile(fn, backend="eager")(torch.ones(2))
    assert stream.getvalue() == "before after"


def test_streams_of_the_programs_own_class_and_universal_newlines_break_the_graph() -> None:
    class Own(io.StringIO):
        def write(self, text: str) -> int:
            return super().write(text.upper())

    def fn(text: str) -> Any:
        own, universal = Own(), io.StringIO("a\r\nb\rc", newline=None)
        own.write(text)
        return own.getvalue(), universal.read(), universal.newlines

    assert framejit.compile(fn, backend="eager")("a") == fn("a")


STEPS = st.one_of(
    st.tuples(st.just("write"), st.text("ab\n\r", max_size=4)), st.tuples(st.sampled_from(["read", "readline", "truncate"]), st.none() | st.integers(0, 5)),
    st.tuples(st.just("seek"), st.integers(0, 8)), st.tuples(st.sampled_from(["readlines", "getvalue", "tell", "close", "readable"])),
)  # fmt: skip


def steps_taken(make: Callable[..., Any], steps: list[Any], convert: Callable[[Any], Any]) -> Any:
    stream = make(convert("a\nbc"))
    seen = [tried(getattr(stream, name), *[convert(each) for each in args]) for name, *args in steps]
    return seen, stream


@settings(max_examples=30, deadline=None)
@given(st.lists(STEPS, max_size=6), st.booleans())
def test_steps_in_any_order(steps: list[Any], is_text: bool) -> None:
    framejit.reset()
    make = io.StringIO if is_text else io.BytesIO
    convert = (lambda value: value) if is_text else lambda value: value.encode() if isinstance(value, str) else value

    def fn() -> Any:
        return steps_taken(make, steps, convert)

    expected, left = fn()
    seen, made = framejit.compile(fn, backend="eager")()
    assert seen == expected and state(made) == state(left)


def test_copies_are_made_natively() -> None:
    def fn() -> Any:
        stream = io.StringIO("abc")
        stream.read(1)
        return copy.copy(stream) if hasattr(stream, "missing") else copy.deepcopy(stream.getvalue()), stream.read()

    assert framejit.compile(fn, backend="eager")() == fn()


def test_methods_that_are_attributes_of_a_stream() -> None:
    def program(x, stream):
        made = io.StringIO()
        made.close = lambda: events.append("close") or True
        made.write = events.append
        with made:
            made.writelines(["a", "b"])
            raise KeyError("suppressed, since close() is true")
        stream.writelines(["c"])
        print("d", file=stream, flush=True)
        return x + 1, made.closed, made.getvalue()

    events: list[str] = []
    compiled = framejit.compile(program, backend="eager")
    observed = []
    for function in (program, compiled):
        for own in (False, True, False):
            events.clear()
            stream = io.StringIO()
            if own:
                stream.write = events.append  # type: ignore[method-assign,assignment]
                stream.flush = lambda: events.append("flush")  # type: ignore[method-assign]
            observed.append((function(torch.ones(1), stream)[1:], list(events), stream.getvalue()))
    assert observed[3:] == observed[:3]
    assert [len(events) for _, events, _ in observed[:3]] == [3, 7, 3]
