"""The two ways of a branch meet at the nearest instruction to which both lead."""

from __future__ import annotations

import pytest

from framejit.bytecode.decode import decode
from framejit.bytecode.meeting import can_reach, comes_back, meeting


def if_else(c):
    if c:
        x = 1
    else:
        x = 2
    y = met(x)
    return x, y, x  # too long for compilers to copy it to both ways


def without_else(c):
    x = 1
    if c:
        x = 2
    y = met(x)
    return x, y, x  # too long for compilers to copy it to both ways


def ends_by_return(c):
    if c:
        return 1
    return 2


def one_raises(c):
    x = 1
    if c:
        x = 2
    else:
        raise ValueError
    y = met(x)
    return x, y, x  # too long for compilers to copy it to both ways


def in_a_loop(c):
    for x in range(3):
        if c:
            x = 2
        met(x)


def leaves_a_loop(c):
    for x in range(3):
        if c:
            break
    y = met(x)
    return x, y, x  # too long for compilers to copy it to both ways


def conditional_expression(c):
    y = met(1 if c else 2)
    return c, y, c


def handled(c):
    x = 1
    try:
        if c:
            x = int("1")
    except ValueError:
        return 3
    y = met(x)
    return x, y, x  # too long for compilers to copy it to both ways


def met(x):
    return x


def branch_of(function, which=0):
    """A branch of a function, by default the first: the indices of its instruction and of its two ways."""
    decoded = decode(function.__code__)
    branch = [one for one in decoded.instructions if one.op in ("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE")][which]
    return decoded, branch.index, (branch.index + 1, branch.value)


@pytest.mark.parametrize("function", [if_else, without_else, one_raises, in_a_loop, leaves_a_loop, conditional_expression, handled], ids=lambda f: f.__name__)
def test_ways_meet_before_what_both_lead_to(function):
    """In these programs, the call of `met` comes after the meeting, and the branch before it."""
    decoded, branch, ways = branch_of(function)
    found = meeting(decoded, *ways)
    assert found is not None and found == meeting(decoded, *reversed(ways))
    called = max(one.index for one in decoded.instructions if one.op == "CALL")
    loaded = max(one.index for one in decoded.instructions if one.op == "LOAD_GLOBAL" and one.value == "met")
    assert branch < found <= called
    assert found <= loaded or function is conditional_expression, "the function is loaded before its argument"


def test_ways_that_return_meet_nowhere():
    decoded, _, ways = branch_of(ends_by_return)
    assert meeting(decoded, *ways) is None


def test_a_loop_without_another_end_comes_back():
    def by_data(c):
        while c():
            c = met(c)
        return c

    def by_data_or_number(c, n):
        while n and c():
            n = n - 1
        return c

    for function, expected in ((by_data, True), (by_data_or_number, False), (leaves_a_loop, False), (if_else, False)):
        decoded, branch, ways = branch_of(function, -1)  # some versions of Python write the condition of a `while` twice
        end = meeting(decoded, *ways)
        assert comes_back(decoded, branch, ways, end) is expected, function


def test_which_way_goes_on_in_the_loop():
    decoded, branch, ways = branch_of(leaves_a_loop)
    end = meeting(decoded, *ways)
    assert sorted(can_reach(decoded, way, branch, end) for way in ways) == [False, True]
