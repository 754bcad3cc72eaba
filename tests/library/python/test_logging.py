"""Messages to loggers in compiled functions, against eager: those that no level lets through split no graph."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from agreement import Comparison

import framejit

LOGGER = logging.getLogger("framejit.tests.logging")


class Kept(logging.Handler):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    LOGGER.addHandler(handler)
    LOGGER.propagate = False
    yield handler
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(logging.NOTSET)


def step(x: torch.Tensor, i: int) -> Any:
    y = x * 2
    LOGGER.debug("sum %s", y.sum())
    LOGGER.info(f"step {i}: {y.sum().item():.2f}")
    return y + LOGGER.isEnabledFor(logging.DEBUG)


def test_levels_that_change(kept: Kept) -> None:
    framejit.reset()
    compiled = framejit.compile(step, backend="eager")
    told = []
    for function in (step, compiled):
        for i, level in enumerate([logging.WARNING, logging.WARNING, logging.INFO, logging.DEBUG, logging.WARNING, logging.ERROR]):
            LOGGER.setLevel(level)
            told.append(function(torch.ones(3), i))
        told.append(list(kept.lines))
        kept.lines.clear()
    Comparison().same(told[:7], told[7:])
    assert len(told[6]) == 3


def test_messages_that_nobody_sees_split_nothing(kept: Kept) -> None:
    LOGGER.setLevel(logging.WARNING)
    framejit.reset()
    compiled = framejit.compile(step, backend="eager")
    for i in range(4):
        compiled(torch.ones(3), i)
    found = framejit.statistics()
    assert (found["graph_breaks"], found["fallbacks"], kept.lines) == (0, 0, []) and found["recompiles"] <= 1, found
    logging.disable(logging.CRITICAL)
    try:
        assert compiled(torch.ones(3), 5).tolist() == [2.0, 2.0, 2.0]
    finally:
        logging.disable(logging.NOTSET)


def test_a_level_set_in_the_compiled_function(kept: Kept) -> None:
    def changes(x: torch.Tensor, i: int) -> Any:
        LOGGER.setLevel(logging.INFO if i % 2 else logging.ERROR)
        LOGGER.info("step %d", i)
        return x + 1

    told = []
    for function in (changes, framejit.compile(changes, backend="eager")):
        told.append([function(torch.ones(2), i) for i in range(4)] + [list(kept.lines)])
        kept.lines.clear()
    Comparison().same(*told)
