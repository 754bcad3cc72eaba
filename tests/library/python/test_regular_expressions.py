"""Regular expressions, and torch's version, in compiled functions."""

from __future__ import annotations

import re
import string
from typing import Any

import torch
from agreement import agree

import framejit

WORD = re.compile(r"(?P<letter>[a-z])(\d)")


def test_iterators_of_matches_begin_anew_in_each_call() -> None:
    def found(x: torch.Tensor, text: str) -> Any:
        return [match.group() for match in re.finditer(r"\d", text)], next(WORD.finditer(text)).groupdict(), WORD.sub("-", text), x + 1

    for _ in range(2):
        agree(found, torch.ones(2), "a1b2")


def tried(function: Any) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


def test_replacements_by_functions_are_part_of_the_trace() -> None:
    pair = re.compile(r"(\w)(\d?)")

    def replaced(x: torch.Tensor, text: str) -> Any:
        seen = []

        def upper(match: Any) -> Any:
            seen.append(match.span())
            return match.group(1).upper() if match.group(2) else None

        found = [pair.sub(upper, text), pair.subn(upper, text, 2), pair.sub(upper, text, count=-1), re.sub("q", upper, text), pair.subn("-", text)]
        empty = re.sub(r"x*", lambda match: "-", "abxd"), re.subn(b"a", lambda match: b"zz", b"banana", count=2), re.sub("b", r"<\g<0>>", text)
        calls = (lambda: pair.sub(lambda match: 3, text), lambda: pair.sub(lambda match: 1 / 0, text), lambda: re.sub(b"a", upper, text))
        return found, empty, seen, [tried(call) for call in calls], x + 1

    for text in ("a1b2c", "", "x"):
        agree(replaced, torch.ones(2), text)


def test_templates_of_strings() -> None:
    formatter = string.Formatter()

    def filled(x: torch.Tensor, who: str) -> Any:
        template = string.Template("$who likes ${what} $$5")
        texts = template.substitute(who=who, what="cake"), template.safe_substitute(who=3), formatter.format("{0}{a.real:>5}{1[0]!r}{{}}", who, [2], a=3)
        return texts, formatter.format("{}{}", 1, who), x + 1

    agree(filled, torch.ones(2), "tim")


def test_templates_in_error() -> None:
    def wrong(x: torch.Tensor) -> Any:
        return [tried(lambda text=text: string.Formatter().format(text, 1)) for text in ("{", "}", "{0", "{0[}", "{a!}", "{0.}", "{}{0}")], x + 1

    agree(wrong, torch.ones(2), fullgraph=False)


def test_versions() -> None:
    def told(x: torch.Tensor) -> Any:
        version = torch.__version__
        numbers = re.match(r"(\d+)\.(\d+)", version)
        assert numbers is not None
        compared = version >= (2, 1), version > "3.0", "2.0" <= version, version != "2.0", version == str(version)
        return compared, numbers.groups(), version.split("+")[0], version[:3], len(version), f"{version}", version + "x", "x" + version, x + 1

    agree(told, torch.ones(2))


is_name = re.compile(r"[a-z]+").fullmatch


def test_a_method_that_is_bound_to_a_pattern_can_be_a_default_a_global_or_an_argument():
    def program(x, text, search, first=re.compile(r"\d+").match):
        found = first(text)
        return x + len(search(text).group()) + (found is None) + (is_name(text) is not None), [method.__name__ for method in (search, first)], type(search)

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for text, pattern in (("ab", "b"), ("ab", "b"), ("12ab", "[a-z]+"), ("ab", "a")):
        expected, found = (run(torch.ones(2), text, re.compile(pattern).search) for run in (program, compiled))
        assert torch.equal(expected[0], found[0]) and expected[1:] == found[1:]


def test_a_pure_method_that_is_bound_to_a_text_can_be_an_argument():
    def program(x, write):
        return x + 1, write("ab")

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for text in ("-", "-", "+"):
        assert compiled(torch.ones(2), text.join)[1] == text.join("ab")
    assert framejit.statistics()["graphs"] == 2
