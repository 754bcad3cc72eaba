"""str.format and `%` with values that are no constants: which argument a field takes, attributes and items, nested specs, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree_in_text, agree_over_calls, tried

import framejit


class Shown:
    a = 1

    def __getitem__(self, key):
        return key

    def __format__(self, spec):
        return f"<{spec}>"

    def __repr__(self):
        return "Shown"


NUMBERS = ["{}", "{}{}", "{:{}}", "{:{}}{}", "{:{}{}}", "{:{1}}", "{0:{}}", "{0:{1}{2}}", "{}{0}", "{0}{}", "{a}{}", "{a}{0}", "{}{}{}{}", "{!r:{}}"]
STEPS = ["{0.a}", "{.a}", "{0[1]}", "{0[a]}", "{a[0]}", "{a[9]}", "{0.b}", "{b}", "{0[-1]}", "{0.__class__.__name__}", "{0!r:>9}", "{0!a:9}", "{1:>{2}}"]
REFUSED = [
    "{", "}", "{}}", "a{}{", "}{", "{!}", "{!x}", "{0!:}", "{0!ss}", "{0!s!r}", "{0.}", "{0..a}", "{0.a.}", "{0[}", "{0[]}", "{0[a}", "{0[0]b}", "{!r", "{0",
    "{a", "{:{}", "{:{:{}}}", "{9999999999999999999999}", "{0[99999999999999999999]}", "{-1}", "{ 0}",
]  # fmt: skip


@pytest.mark.parametrize("templates", [NUMBERS, STEPS, REFUSED[:13], REFUSED[13:]], ids=["numbers", "steps", "refused", "also refused"])
def test_templates(templates: list[str]) -> None:
    framejit.reset()
    agree_in_text(lambda: [tried(template.format, Shown(), "z", 7, a=[1, 2]) for template in templates])


def test_what_was_formatted_before_a_template_is_refused() -> None:
    seen: list[Any] = []

    class Notes:
        def __format__(self, spec):
            seen.append(spec)
            return spec

    def program():
        seen.clear()
        return tried("{0:a}{0:b}{".format, Notes()), tried("{0:c}{5}".format, Notes()), list(seen)

    agree_in_text(program)


def test_str_of_bytes_takes_errors_alone() -> None:
    def program():
        found = [tried(str, data, errors=errors) for data in (b"\xc2\xa2", b"\xff") for errors in ("strict", "ignore", "nonsense")]
        found += [tried(str, b"a", encoding="ascii"), tried(str, b"\xff", "latin-1", "strict")]
        return found, tried(str, "a", errors="strict"), tried(str, errors="strict")

    agree_in_text(program)


def test_printf_formatting_of_objects():
    class Shown:
        def __repr__(self):
            return "repr"

        def __str__(self):
            return "str"

    def attempt(template, values):
        try:
            return template % values
        except TypeError as error:
            return str(error)

    def f(t, shown):
        values = (shown, 3, [shown], t.shape)
        cases = [
            ("%s", shown), ("%8s|", shown), ("%r%%", shown), ("%s %05d %r %s", values), ("%s", values), ("%s %s %s %s %s", values), ("%d", shown),
            ("none", shown), ("%.2s", shown), ("%(a)s %(b)d", {"a": "x", "b": 2}), ("%*d", (4, 2)),
        ]  # fmt: skip
        return t + 1, [attempt(*case) for case in cases[:6] + cases[7:]]

    agree_over_calls(lambda compile: [compile(f)(torch.ones(2), Shown())])
