"""A compilation has the frames of its functions in one chunk of the interpreter's stack."""

from __future__ import annotations

import resource
import sys

import pytest

from framejit.driver.frame_stack import with_room


def leaf(a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8):
    return a


def calls_leaf(depth):
    """At one of a few dozen depths the frame of `leaf` is the first of a new chunk, mapped and unmapped a thousand times."""
    if depth:
        return calls_leaf(depth - 1)
    for _ in range(1000):
        leaf()


def most_faults(run):
    def faults(depth):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        run(depth)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    return max(faults(depth) for depth in range(250))


@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer has frames of its own")
def test_no_chunk_is_mapped_again_and_again():
    assert (most_faults(calls_leaf) >= 1000) == (sys.version_info < (3, 14))  # from then on, CPython keeps one chunk to use it again
    assert most_faults(lambda depth: with_room(calls_leaf, depth)) < 500


def test_results_and_exceptions_pass():
    assert with_room(len, "abc") == 3
    with pytest.raises(ZeroDivisionError):
        with_room(lambda n: 1 / n, 0)
