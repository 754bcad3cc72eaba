"""Regular expressions, and torch's version, in compiled functions."""

from __future__ import annotations

import re
from typing import Any

import torch
from agreement import agree

WORD = re.compile(r"(?P<letter>[a-z])(\d)")


def test_iterators_of_matches_begin_anew_in_each_call() -> None:
    def found(x: torch.Tensor, text: str) -> Any:
        return [match.group() for match in re.finditer(r"\d", text)], next(WORD.finditer(text)).groupdict(), WORD.sub("-", text), x + 1

    for _ in range(2):
        agree(found, torch.ones(2), "a1b2")


def test_versions() -> None:
    def told(x: torch.Tensor) -> Any:
        version = torch.__version__
        numbers = re.match(r"(\d+)\.(\d+)", version)
        assert numbers is not None
        compared = version >= (2, 1), version > "3.0", "2.0" <= version, version != "2.0", version == str(version)
        return compared, numbers.groups(), version.split("+")[0], version[:3], len(version), f"{version}", version + "x", "x" + version, x + 1

    agree(told, torch.ones(2))
