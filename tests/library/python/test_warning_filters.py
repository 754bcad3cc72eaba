"""warnings.catch_warnings and filters in compiled functions: what is ignored, raised and shown, and the filters afterwards, as in eager."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from printed_warnings import own_printer

import framejit


class OfOurs(UserWarning):
    pass


def ignoring(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("quiet")
        y = x.sin()
    return y + 1


def ignoring_an_operator(x):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        return x.new_tensor(x) + 1


def by_message_module_and_category(x):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="fo+", module=re.escape(__name__), category=OfOurs)
        warnings.filterwarnings("ignore", "later", append=True)
        warnings.warn("foo", OfOurs)
        warnings.warn(f"FOO {x.shape[0]}", OfOurs)
    return x + 1


def nested(x):
    with warnings.catch_warnings(action="ignore"):
        with warnings.catch_warnings():
            warnings.resetwarnings()
            warnings.simplefilter("ignore", DeprecationWarning)
            x = x + 1
        warnings.warn("quiet again")
        return x * 2


def left_by_an_exception(x):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raise ValueError("no")
    except ValueError as error:
        return x + 1, str(error)


def in_a_loop(x):
    for step in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn(f"step {step}")
            x = x + step
    return x


def raising(x):
    y = x + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("bad", OfOurs)
        except OfOurs as error:
            return y, repr(error)


def warning_before(x):
    warnings.warn("shown")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("quiet")
    return x + 1


def recording(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("seen")
        y = x + 1
    return y, [str(each.message) for each in seen]


def recording_an_operator(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = x.new_tensor(x)
    return y, len(seen)


def raising_by_an_operator(x):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return x.new_tensor(x)
    except UserWarning:
        return x - 1


def breaking_inside(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("quiet")
        framejit.graph_break()
        warnings.warn("quiet too")
        y = x.new_tensor(x)
    return y + 1


def showing_once(x):
    with warnings.catch_warnings():
        warnings.simplefilter("once")
        warnings.warn("once", OfOurs)
    return x + 1


def showing_afterwards(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
    warnings.warn("after")
    return x + 1


def between_blocks(x):
    warnings.warn("first")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = x + 1
    for _ in range(2):
        warnings.warn("second")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("quiet")
    warnings.warn("third")
    return x


def breaking_in_a_later_block(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
    warnings.warn("shown")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        framejit.graph_break()
        warnings.warn("quiet")
    warnings.warn("shown too")
    return x + 1


def left_open(x):
    warnings.simplefilter("ignore", OfOurs)
    warnings.warn("quiet", OfOurs)
    return x + 1


def observed(run: Callable[[torch.Tensor], Any]) -> Any:
    """Results of four calls, what they print, and the filters after each."""
    globals().pop("__warningregistry__", None)
    results, out = [], io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stderr(out):
        warnings.resetwarnings()
        warnings.simplefilter("default")
        module: Any = warnings
        module._showwarnmsg_impl = own_printer()
        for step in range(4):
            if step == 2:
                warnings.filterwarnings("ignore", "nothing of this kind")
            before = warnings.filters
            results.append((repr(run(torch.full((2,), float(step)))), list(warnings.filters), warnings.filters is before))
    return results, out.getvalue()


WHOLE = (ignoring, ignoring_an_operator, by_message_module_and_category, nested, left_by_an_exception, in_a_loop, left_open, showing_afterwards, between_blocks)


@pytest.mark.parametrize("program", WHOLE)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_filters_are_part_of_the_trace(program, backend):
    framejit.reset()
    assert observed(framejit.compile(program, backend=backend, fullgraph=True)) == observed(program)


@pytest.mark.parametrize("program", [
    raising, warning_before, recording, recording_an_operator, raising_by_an_operator, breaking_inside, showing_once, breaking_in_a_later_block,
])  # fmt: skip
def test_warnings_that_are_shown_recorded_or_raised(program):
    framejit.reset()
    assert observed(framejit.compile(program, backend="eager")) == observed(program)


def test_python_forgets_what_it_has_shown_as_in_eager():
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x + 1

    def shown(run):
        registry: dict[Any, Any] = {}
        count = 0
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("default")
            for _ in range(3):
                for _ in range(2):
                    warnings.warn_explicit("told", UserWarning, "file", 1, "module", registry)
                run(torch.ones(2))
            count = len(seen)
        return count

    assert shown(framejit.compile(program, backend="eager", fullgraph=True)) == shown(program) == 3
