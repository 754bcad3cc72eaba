"""Strings that are only printed, formatted, stored or returned recompile nothing; one that decides something is guarded: results are eager's for all."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from agreement import Comparison

import framejit

NAMES = ["s0", "s1", "", "é'\n", "{}%s", "s1", "s0"]
ATTRIBUTES = SimpleNamespace(at_s1=3)
WORD = "a"
logger = logging.getLogger(__name__)
x = torch.arange(3.0)


class Word(str):
    pass


def counted(function: Callable[..., Any], values: list[Any]) -> dict[str, Any]:
    """Compare calls with eager's, exceptions and what is printed included; what has been counted."""
    framejit.reset()
    compiled = framejit.compile(function, backend="eager")
    for value in values:
        Comparison().same(outcome(compiled, value), outcome(function, value))
    return framejit.statistics()


def outcome(function: Callable[..., Any], value: Any) -> Any:
    written, sys.stdout = sys.stdout, io.StringIO()
    try:
        return function(x, value() if callable(value) else value), sys.stdout.getvalue()
    except Exception as error:
        return type(error), str(error), sys.stdout.getvalue()
    finally:
        sys.stdout = written


TEXTS: dict[str, Callable[[str], Any]] = {
    "f-strings": lambda s: [f"{s}", f"{s}: {s!r:>8}|{s!a}|{s!s:^9}|{s:5}", f"{s}{3}", f"{'a'}{s}"],
    "percent": lambda s: ["%s" % s, "%10s%%|%r" % (s, s), "%s %d" % (s, 3)],
    "format": lambda s: ["{}".format(s), "{:>6}|{a!r}|{}".format(s, f"{s}", a=s), "{0}{0!s}".format(s)],
    "sums": lambda s: [s + "b", "b" + s, s + s, (s + "b") + ("c" + s), "b" + f"{s}"],
    "joined": lambda s: ["/".join([s, "b", s]), ", ".join((s, f"{s}!"))],
    "str()": lambda s: [str(s), format(s, ">4"), repr(s)],
    "a nested function": lambda s: [(lambda: f"{s}")(), [f"{s}{i}" for i in range(2)]],
    "containers": lambda s: {"name": s, "texts": (f"<{s}>", [s])},
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_a_string_compile_once(name: str) -> None:
    found = counted(lambda t, s: (t * 2, TEXTS[name](s)), NAMES)
    assert (found["frames"], found["recompiles"], found["graph_breaks"], found["fallbacks"]) == (1, 0, 0, 0), found


def prints(t: torch.Tensor, s: str) -> torch.Tensor:
    y = t * 2
    print(f"{s}: starting", s, "%s" % s, end=s + "\n")
    return y + 1


def logs(t: torch.Tensor, s: str) -> torch.Tensor:
    logger.error(f"{s}: %s", s, extra={"word": s})
    return t + 1


def raises_or_not(t: torch.Tensor, s: str) -> torch.Tensor:
    message = f"bad {s}"
    if t.shape[0] > 100:
        raise ValueError(message)
    assert t.shape[0] > 1, message
    return t + 1


def handles(t: torch.Tensor, s: str) -> Any:
    try:
        raise ValueError(f"bad {s}")
    except ValueError as error:
        return t + 1, str(error), error.args


def raises(t: torch.Tensor, s: str) -> torch.Tensor:
    raise ValueError(f"bad {s}")


@pytest.mark.parametrize(("program", "frames"), [(prints, 2), (logs, 2), (raises_or_not, 1), (handles, 1), (raises, 0)])
def test_messages_compile_once(program: Callable[..., Any], frames: int) -> None:
    found = counted(program, NAMES)
    assert found["recompiles"] == 0 and found["frames"] <= frames, found


def test_a_string_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    holder = SimpleNamespace(name="h")

    def program(t: torch.Tensor, cell: str) -> Any:
        return t + 1, f"{WORD}/{holder.name}/{cell}"

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for word in NAMES:
        monkeypatch.setitem(globals(), "WORD", word + "w")
        holder.name = word + "n"
        Comparison().same(compiled(x, word), program(x, word))
    assert framejit.statistics()["recompiles"] == 0


DECIDING: dict[str, Callable[[str], Any]] = {
    "equality": lambda s: f"k{s}" == "ks1",
    "a key": lambda s: {"ks1": 1, "ks0": 2}.get(f"k{s}"),
    "its length": lambda s: len(f"k{s}"),
    "truth": lambda s: [bool(s), s or "none", "" if f"{s}" else "empty"],
    "membership": lambda s: ["s" in s, f"k{s}" in ("ks1", "b")],
    "methods": lambda s: [s.startswith("s"), f"k{s}".endswith("1"), s.upper(), f"{s}".encode()],
    "characters": lambda s: [list(s), s[:1], f"k{s}"[1:]],
    "an attribute": lambda s: getattr(ATTRIBUTES, f"at_{s}", None),
    "order": lambda s: [sorted([s, "s05"]), max(s, "s05")],
    "hash": lambda s: [hash(s) == hash(f"{s}"), {s, "s1"} == {"s1"}],
    "repetition": lambda s: [s * 2, 2 * f"{s}"],
    "identity": lambda s: [f"{s}" is s, str(s) is s, s is sys.intern("other")],
    "a template of its own": lambda s: [s.format(3), s + "%d" % 3] if "%" not in s else s % "v",
    "a pattern": lambda s: 1 if (f"k{s}", 2) == ("ks1", 2) else 0,
    "a number": lambda s: int(s[1:]),
    "a format that fails": lambda s: f"{s:d}",
    "a conversion that fails": lambda s: "%d" % s,
    "a width": lambda s: ["{:>{w}}".format(s, w=5), "{0[0]}".format(s + "e"), f"{s:>{len('abc') + 5}}"],
}  # fmt: skip


@pytest.mark.parametrize("name", DECIDING)
def test_a_string_that_decides_something_is_guarded(name: str) -> None:
    found = counted(lambda t, s: (t * 2, DECIDING[name](s)), NAMES)
    assert found["internal_errors"] == 0


def test_the_first_question_guards_the_string_and_no_other_does() -> None:
    def program(t: torch.Tensor, s: str) -> Any:
        text = f"<{s}>"
        return (t + 1 if text == "<s1>" else t - 1), text

    found = counted(program, ["s0", "s1", "s0", "s1"])
    assert found["frames"] == 2 and found["recompiles"] == 1, found


def stores(t: torch.Tensor, holder: Any) -> Any:
    before = holder.name
    text = f"<{holder.name}>"
    holder.name += "!"
    return t + 1, before, text, f"<{holder.name}>", holder.name


def replaces(t: torch.Tensor, words: list[str]) -> Any:
    text = "%s|%r" % (words[0], words[0])
    words[0] = words[1]
    words.append(f"{text}/{words[0]}")
    return t + 1, text, list(words)


@pytest.mark.parametrize(("program", "make"), [
    (stores, lambda word: SimpleNamespace(name=word)), (replaces, lambda word: [word, word + "2"]),
], ids=["an attribute", "an item"])  # fmt: skip
def test_a_text_has_the_string_that_was_there_when_it_was_made(program: Callable[..., Any], make: Callable[[str], Any]) -> None:
    found = counted(program, [lambda word=word: make(word) for word in NAMES])
    assert found["recompiles"] == 0, found


def test_a_string_of_another_class_writes_itself() -> None:
    class Loud(str):
        def __format__(self, spec: str) -> str:
            return "LOUD"

        def __str__(self) -> str:
            return "loud"

    counted(lambda t, s: (t * 2, f"{s} {s!s} {s!r}", "%s" % s, "a" + s), ["s0", Word("s0"), Loud("s0"), "s1", 3])


def test_an_operator_is_given_the_string_that_it_was_compiled_for() -> None:
    y = torch.ones(2, 3)
    framejit.reset()
    compiled = framejit.compile(lambda t, s: torch.einsum(f"{s}->", t), backend="eager")
    for equation, operand in [("i", x), ("ij", y), ("ji", y), ("i", x)]:
        torch.testing.assert_close(compiled(operand, equation), operand.sum())
