"""The recursion limit while a compile has raised it."""

from __future__ import annotations

import sys

from framejit.process.recursion import FRAMES_FOR_TRACING, deeper_recursion, limit_of_program


def test_the_programs_limit_is_known_inside_of_compiles():
    before = sys.getrecursionlimit()
    with deeper_recursion():
        assert (sys.getrecursionlimit(), limit_of_program()) == (before + FRAMES_FOR_TRACING, before)
        with deeper_recursion():
            assert limit_of_program() == before
    assert limit_of_program() == sys.getrecursionlimit() == before


def test_a_limit_that_the_program_sets_meanwhile_stays():
    before = sys.getrecursionlimit()
    try:
        with deeper_recursion():
            sys.setrecursionlimit(before + 3)
            assert limit_of_program() == before + 3
        assert sys.getrecursionlimit() == before + 3
    finally:
        sys.setrecursionlimit(before)
