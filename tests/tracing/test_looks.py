"""Debuggers called in compiled code, and exec() with later looks at the variables: both find the program's own frames."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
import torch

import framejit

x = torch.ones(1)


def at_breakpoint(a, b):
    unused = a * 2
    items = [1, 2]
    breakpoint()
    items.append(3)
    return a + b + len(items)


def at_set_trace(a, b):
    unused = a * 2
    items = [1, 2]
    import pdb; pdb.set_trace()  # noqa: I001

    items.append(3)
    return a + b + len(items)


def calls_breakpoint(t):
    dead = 5
    y = t + 1
    return at_breakpoint(y, dead) * 2


def calls_set_trace(t):
    dead = 5
    y = t + 1
    return at_set_trace(y, dead) * 2


COMMANDS = {
    "variables": "p sorted(locals().items(), key=repr)\nu\np sorted(locals())\nd\nargs\nc\n",
    "steps": "n\np items\nn\nn\nn\nn\np y\nc\n",
    "changes": "items = [7]\nc\n",
    "raises": "raise KeyError(1)\nc\n",
    "quits": "q\n",
}


def behind_a_break(t):
    first = t + 1
    framejit.graph_break()
    second = t * 2
    breakpoint()
    return first + second


DEBUGGED = [calls_breakpoint, calls_set_trace, behind_a_break]


def session(function: Any, commands: str) -> str:
    """Return the debugger's output during one call, and the result or exception of the call."""
    sys.stdin, sys.stdout, stdin, stdout = io.StringIO(commands), io.StringIO(), sys.stdin, sys.stdout
    try:
        result = repr(function(x))
    except BaseException as error:
        result = repr(error)
    finally:
        sys.settrace(None)
        if hasattr(pdb := sys.modules.get("pdb"), "Pdb"):
            pdb.Pdb._last_pdb_instance = None  # type: ignore[union-attr]  # which from 3.13 on the next session would use, with its stdout
        shown, sys.stdin, sys.stdout = sys.stdout.getvalue(), stdin, stdout
    return shown + result


def sessions() -> None:
    """Print, as JSON, all sessions with functions of DEBUGGED, as written and compiled, in the order of COMMANDS; two calls each."""
    found = {}
    for function in DEBUGGED:
        for name, commands in COMMANDS.items():
            sys.modules.pop("pdb", None)  # whose import is part of the program
            compiled = framejit.compile(function, backend="eager")
            found[f"{function.__name__} {name}"] = [[session(each, commands) for _ in range(2)] for each in (function, compiled)]
            framejit.reset()
    print(json.dumps(found))


@pytest.fixture(scope="module")
def debugged() -> dict[str, list[list[str]]]:
    """The sessions, of a process of their own: pytest has put functions in the place of the debugger's."""
    folder = os.path.dirname(__file__)
    command = [sys.executable, "-c", "import test_looks; test_looks.sessions()"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("commands", COMMANDS)
@pytest.mark.parametrize("function", DEBUGGED)
def test_debugger(function: Any, commands: str, debugged: Any) -> None:
    expected, got = debugged[f"{function.__name__} {commands}"]
    assert "(Pdb)" in expected[0] or commands == "quits"
    resumed = r" \(resumed at test_looks.py:\d+\)"
    if function is behind_a_break:
        got = [re.sub(resumed, "", each) for each in got]
    assert got == expected


def test_a_debugger_is_a_graph_break() -> None:
    with pytest.raises(framejit.errors.Unsupported, match="FJ033"):
        framejit.compile(calls_breakpoint, backend="eager", fullgraph=True)(x)


# exec()


def names_that_exec_makes(t):
    y = t + 1
    exec("w = 5")
    return y, "w" in locals(), sorted(locals())


def exec_then_eval(t):
    k = 3
    exec("w = k + 2")
    return t * 2, eval("w"), eval("k")


def exec_in_a_loop(t):
    for text in ("a = 1", "b = a + 1"):
        exec(text)
    return t + 1, locals()["b"]


def one_dict_of_variables(t):
    first = locals()
    y = t + 1
    second = locals()
    return y, first is second, "y" in first


def variables_that_are_added(t):
    locals()["q"] = 5
    return t + 1, locals().get("q"), vars().get("q"), "q" in dir()


def exec_in_a_callee(t):
    def inner(u):
        exec("w = 5")
        return locals()["w"] + u

    y = t * 2
    return inner(y) + 1


def exec_between_breaks(t):
    y = t + 1
    print("one")
    exec("w = y + 1")
    print("two")
    return locals()["w"], sorted(locals())


def exec_in_a_class_body(t):
    class Made:
        exec("w = 5")
        v = locals()["w"] + 1
        vars()["u"] = 3

    return t + 1, Made.w, Made.v, Made.u


def walrus_in_eval(t):
    y = eval("(q := 5)")
    return t + y, "q" in locals()


@pytest.mark.parametrize(
    "function",
    [
        names_that_exec_makes, exec_then_eval, exec_in_a_loop, one_dict_of_variables, variables_that_are_added, exec_in_a_callee,
        exec_between_breaks, exec_in_a_class_body, walrus_in_eval,
    ],
)  # fmt: skip
def test_exec(function: Any) -> None:
    def told(each: Any) -> str:
        try:
            return repr(each(x))
        except (NameError, KeyError) as error:  # from 3.13 on, exec() makes no variables of a function that a later look finds
            return repr(error)

    compiled = framejit.compile(function, backend="eager")
    for _ in range(2):
        assert told(compiled) == told(function)


def test_one_look_splits_the_function_as_ever() -> None:
    def looks(t):
        y = t + 1
        return y * 2, sorted(locals())

    before = framejit.statistics()["fallbacks"]
    assert repr(framejit.compile(looks, backend="eager")(x)) == repr(looks(x))
    assert framejit.statistics()["fallbacks"] == before


def keeps_its_frame(t: Any) -> Any:
    frame = sys._getframe()
    later = t + 1
    return later, sorted(frame.f_locals), frame.f_lineno - frame.f_code.co_firstlineno


def keeps_the_current_frame(t: Any) -> Any:
    frame = inspect.currentframe()
    assert frame is not None
    later = t + 1
    framejit.graph_break()
    return later, sorted(frame.f_locals)


def keeps_it_around_a_break(t: Any) -> Any:
    frame = sys._getframe()
    framejit.graph_break()
    number = 3
    return t + number, frame.f_locals["number"]


def looks_at_once(t: Any) -> Any:
    name = sys._getframe().f_code.co_name
    return t + 1, name, sys._getframe().f_lineno - sys._getframe().f_code.co_firstlineno


def callers_frame() -> Any:
    return sys._getframe(1)


def has_its_frame_held(t: Any) -> Any:
    number = 1
    frame = callers_frame()
    number += 1
    framejit.graph_break()
    return t + 1, frame.f_locals["number"], frame.f_lineno - frame.f_code.co_firstlineno


def has_it_held_in_a_list(t: Any) -> Any:
    held: list[Any] = []
    number = 1
    (lambda: held.append(sys._getframe(1)))()
    number = 5
    framejit.graph_break()
    return t + 1, held[0].f_locals["number"]


def finds_its_frame_in_a_traceback(t: Any) -> Any:
    try:
        framejit.graph_break()
        raise ValueError
    except ValueError as error:
        number = 7
        traceback = error.__traceback__
        framejit.graph_break()
        assert traceback is not None
        return t + 1, traceback.tb_frame.f_locals["number"]


def finds_it_in_an_error_of_c(t: Any) -> Any:
    try:
        int("x")
    except ValueError as error:
        number = 7
        traceback = error.__traceback__
        assert traceback is not None
        return t + 1, traceback.tb_frame.f_locals["number"]


def calls_one_that_does(t: Any) -> Any:
    y = t * 2
    found = has_its_frame_held(y)
    return y - found[0], found[1:]


@pytest.mark.parametrize("function", [
    keeps_its_frame, keeps_the_current_frame, keeps_it_around_a_break, looks_at_once, has_its_frame_held, has_it_held_in_a_list,
    finds_its_frame_in_a_traceback, finds_it_in_an_error_of_c, calls_one_that_does,
])  # fmt: skip
def test_a_frame_that_is_kept_shows_what_it_has_become(function: Any) -> None:
    compiled = framejit.compile(function, backend="eager")
    for _ in range(2):
        assert compiled(x) == function(x)


def current_line(x: torch.Tensor) -> torch.Tensor:
    try:
        raise ValueError
    except ValueError as error:
        traceback = error.__traceback__
    assert traceback is not None
    return x * traceback.tb_frame.f_lineno


def test_a_frame_of_a_traceback_that_still_runs_has_its_current_line() -> None:
    """Not that of the `raise`, as a frame has that has ended."""
    assert framejit.compile(current_line, backend="eager")(torch.ones(1)) == current_line(torch.ones(1))
