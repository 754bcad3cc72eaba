"""printf-style formatting: texts and errors are those of the running Python, whichever of the values are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree_in_text, raising

import framejit


class Shown:
    def __repr__(self) -> str:
        return "shown"


TEMPLATES: dict[str, Callable[[Any, int], Any]] = {
    "one value": lambda text, number: "%d" % text,
    "one value in a tuple": lambda text, number: "%d" % (text,),
    "one value beside a text": lambda text, number: "%s: %d" % (Shown(), text),
    "a value after one that may vary": lambda text, number: "%s %r %d" % (number, Shown(), text),
    "a value before one that may vary": lambda text, number: "%x %s" % (text, number),
    "an unknown conversion": lambda text, number: "%s and %s and %y" % (number, Shown(), text),  # noqa: F509, PLE1300
    "an unknown conversion of one value": lambda text, number: "as %y" % Shown(),  # noqa: F509, PLE1300
    "an object": lambda text, number: "%d" % Shown(),  # type: ignore[str-format]
    "too few": lambda text, number: "%s %s %s" % (Shown(), text),  # noqa: F507
    "too many": lambda text, number: "%s" % (Shown(), text),  # noqa: F507
    "too many for no conversion": lambda text, number: "none" % Shown(),  # noqa: F507
    "keys": lambda text, number: "%(object)s %(object)r %%%(number)5.1f" % {"object": Shown(), "number": number},
    "a key's value": lambda text, number: "%(object)r %(number)d" % {"object": Shown(), "number": text},
    "an unknown conversion of a key": lambda text, number: "%(object)r %(number)y" % {"object": Shown(), "number": text},  # noqa: F509, PLE1300
    "a list": lambda text, number: "%s" % [Shown()],
    "a star": lambda text, number: "%*d" % (text, number),
}  # fmt: skip


@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_and_errors_are_eagers(name: str) -> None:
    template = TEMPLATES[name]

    def program(x: torch.Tensor, text: str, number: int) -> Any:
        return x + 1, raising(lambda: template(text, number))

    for number in (1, 2, 3):
        framejit.reset()
        agree_in_text(program, torch.ones(1), "text", number)
