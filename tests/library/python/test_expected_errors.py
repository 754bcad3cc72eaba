"""Errors that programs expect: lines of tracebacks, frames that are cleared, and `assertRaises`."""

from __future__ import annotations

import traceback
import unittest
from typing import Any

import torch
from agreement import agree

import framejit

X = torch.arange(3.0)


def fails(text: str) -> None:
    raise ValueError(text)


def test_the_line_of_a_traceback() -> None:
    def lines(x: torch.Tensor) -> Any:
        found = []
        try:
            x = x + 1
            fails("a")
        except ValueError as error:
            found.append(error.__traceback__.tb_lineno)
        try:
            raise KeyError(3)
        except KeyError as error:
            first = error.__traceback__
            found.append(first.tb_lineno)
        try:
            try:
                fails("b")
            finally:
                x = x * 2
        except ValueError as error:
            found.append(error.__traceback__.tb_lineno)
        return x, found

    framejit.reset()
    agree(lines, X)
    assert framejit.statistics()["graph_breaks"] == 0


def test_frames_are_cleared() -> None:
    def looked_up(x: torch.Tensor, table: dict[str, Any]) -> Any:
        try:
            return x * table["scale"]
        except KeyError as error:
            traceback.clear_frames(error.__traceback__)
            return x + 1, traceback.clear_frames(None)

    framejit.reset()
    agree(looked_up, X, {})
    assert framejit.statistics()["graph_breaks"] == 0


def test_an_expected_error_of_a_test_case() -> None:
    case = unittest.TestCase()

    def expects(x: torch.Tensor) -> Any:
        with case.assertRaises(ValueError) as caught:
            fails("c")
        return x + 1, str(caught.exception), caught.exception.__traceback__

    expected, found = expects(X), framejit.compile(expects, backend="eager")(X)
    assert torch.equal(expected[0], found[0]) and expected[1:] == found[1:]
