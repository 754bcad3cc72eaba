"""Calls of compiled functions execute no more instructions than are recorded in tools/bench/instructions.json."""

from __future__ import annotations

import shutil

import pytest

from tools.bench import instructions


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("callgrind_control") is None, reason="needs valgrind")
@pytest.mark.parametrize("case", ["add", "containers", "entries5", "bert36"])
def test_instructions_of_a_call(case):
    if case not in (recorded := instructions.recorded()):
        pytest.skip(f"nothing is recorded for {instructions.key()}")
    assert instructions.count(case) <= recorded[case] * (1 + instructions.TOLERANCE)
