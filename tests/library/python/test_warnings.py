"""warnings.warn in compiled code: shown where, how often and in which order eager shows it."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from printed_warnings import own_printer
from torch.utils.checkpoint import checkpoint

import framejit
from framejit.process.warning_filters import MUTATED, version_kept

x = torch.ones(2)
weight = torch.ones(2, requires_grad=True)


class OfOurs(UserWarning):
    pass


def plain(t: torch.Tensor) -> torch.Tensor:
    warnings.warn("plain")
    return t + 1


def of_a_class(t: torch.Tensor) -> torch.Tensor:
    warnings.warn(f"size {t.dim()}", OfOurs, stacklevel=1)
    warnings.warn("deprecated", category=DeprecationWarning, stacklevel=0)
    return t + 1


def helper(t: torch.Tensor) -> torch.Tensor:
    warnings.warn("of the caller", FutureWarning, stacklevel=2)
    return t * 2


def of_its_caller(t: torch.Tensor) -> torch.Tensor:
    return helper(
        t
    ) + helper(t)


def in_order(t: torch.Tensor) -> Any:
    log = []
    for i in range(3):
        warnings.warn(f"number {i}")
        log.append(i)
    return t + 1, log


def through_a_stand_in(t: torch.Tensor) -> Any:
    return list(map(helper, [t, t])), sorted([2, 1], key=lambda n: warnings.warn(f"key {n}") or n)


def behind_a_break(t: torch.Tensor) -> Any:
    y = helper(t)
    framejit.graph_break()
    return helper(y)


def beyond_the_trace(t: torch.Tensor) -> Any:
    warnings.warn("far away", stacklevel=2)
    warnings.warn("further away", stacklevel=9)
    return t + 1


def of_an_instance(t: torch.Tensor) -> Any:
    warnings.warn(OfOurs("made before"))
    warnings.warn("with a source", ResourceWarning, 1, t)
    return t + 1


def refused(t: torch.Tensor) -> Any:
    told = []
    for arguments in (("text", int), ("text", 3), ("text", UserWarning, "x"), (3,)):
        try:
            warnings.warn(*arguments)
        except TypeError as error:
            told.append(str(error))
    return t + 1, told


def caught(t: torch.Tensor) -> Any:
    try:
        warnings.warn("an error for some")
    except UserWarning as error:
        return t - 1, str(error)
    return t + 1


def of_a_checkpoint(t: torch.Tensor) -> Any:
    """Torch warns of the default of `use_reentrant`, and of arguments that require no gradient."""
    with torch.no_grad():
        checkpoint(torch.sin, t)
        checkpoint(torch.sin, t, use_reentrant=True)
    return checkpoint(torch.sin, t * weight).detach()


def outcome(function: Callable[..., Any], action: str, compile: Callable[[Any], Any]) -> Any:
    """Return the results of three calls of a copy of a function with globals of its own, the warnings shown, and those registered."""
    space = dict(globals())
    space.pop("__warningregistry__", None)
    for name in ("helper", function.__name__):
        space[name] = types.FunctionType(globals()[name].__code__, space, name)
    run, told = compile(space[function.__name__]), []
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter(action)
        for _ in range(3):
            try:
                told.append(str(run(x)))
            except Warning as error:
                told.append(repr(error))
    rows = [(str(row.message), row.category, row.filename, row.lineno if "away" not in str(row.message) else 0) for row in shown]
    return told, rows, [key for key in space.get("__warningregistry__", ()) if key != "version"]


PROGRAMS = [plain, of_a_class, of_its_caller, in_order, through_a_stand_in, behind_a_break, of_an_instance, refused, caught, of_a_checkpoint]


@pytest.mark.only_eager("AOTAutograd changes filters while it compiles, so that Python shows warnings once more")
@pytest.mark.parametrize("action", ["default", "always", "error", "once"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_warnings(program: Callable[..., Any], action: str) -> None:
    expected = outcome(program, action, lambda f: f)
    warnings.onceregistry.clear()
    assert outcome(program, action, lambda f: framejit.compile(f, backend="eager")) == expected
    warnings.onceregistry.clear()


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are printed, and not recorded by pytest."""
    monkeypatch.setattr(warnings, "_showwarnmsg_impl", own_printer())


def seen(function: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """Return the results of three calls of a function, and the text that is printed."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        told = [str(function(x)) for _ in range(3)]
    return told, capsys.readouterr().err


@pytest.mark.parametrize("program", [plain, of_a_class, of_its_caller, in_order, through_a_stand_in, caught, of_a_checkpoint])
def test_they_split_no_graph(program: Callable[..., Any], printed: None, capsys: pytest.CaptureFixture[str]) -> None:
    framejit.reset()
    shown = [seen(function, capsys) for function in (program, framejit.compile(program, backend="eager"))]
    assert shown[0] == shown[1] and shown[0][1]
    found = framejit.statistics()
    assert (found["graph_breaks"], found["recompiles"], found["fallbacks"]) == (0, 0, 0), found


def recorded(t: torch.Tensor) -> Any:
    with warnings.catch_warnings(record=True) as rows:
        warnings.simplefilter("always")
        warnings.warn("recorded")
        return t * len(rows)


def shown_by_the_program(t: torch.Tensor) -> Any:
    rows: list[str] = []
    before, warnings.showwarning = warnings.showwarning, lambda message, *more: rows.append(str(message))
    warnings.warn("shown")
    count = len(rows)
    warnings.showwarning = before
    return t * count, rows


def printed_elsewhere(t: torch.Tensor) -> Any:
    buffer = io.StringIO()
    with contextlib.redirect_stderr(buffer):
        warnings.warn("printed")
    return t * len(buffer.getvalue())


def made_an_error(t: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("raised")
        except UserWarning:
            return t - 1
    return t + 1


@pytest.mark.parametrize("program", [recorded, shown_by_the_program, printed_elsewhere, made_an_error])
def test_what_the_program_sees_of_them(program: Callable[..., Any], printed: None, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [seen(function, capsys) for function in (program, framejit.compile(program, backend="eager"))]
    assert shown[0] == shown[1]


@pytest.mark.usefixtures("printed")
def test_a_record_from_outside_is_seen_growing() -> None:
    def program(t: torch.Tensor, rows: list[Any]) -> torch.Tensor:
        warnings.warn("recorded")
        return t * len(rows)

    compiled = framejit.compile(program, backend="eager")
    compiled(x, [])
    with warnings.catch_warnings(record=True) as rows:
        warnings.simplefilter("always")
        assert [float(compiled(x, rows)[0]) for _ in range(3)] == [1, 2, 3]


@pytest.mark.usefixtures("printed")
def test_a_module_in_the_place_of_warnings_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function in C looks its module up by name each time."""
    shown: list[str] = []

    def program(t: torch.Tensor) -> torch.Tensor:
        warnings.warn("shown elsewhere")
        return t * shown.count("shown elsewhere")

    compiled = framejit.compile(program, backend="eager")
    compiled(x)
    other = types.ModuleType("warnings")
    vars(other).update(vars(warnings), _showwarnmsg=lambda message: shown.append(str(message.message)))
    monkeypatch.setitem(sys.modules, "warnings", other)
    globals().pop("__warningregistry__", None)
    assert float(compiled(x)[0]) == 1


def test_a_line_outside_the_trace() -> None:
    """The lines are those of the caller, which shows warnings as it does in eager."""
    shown = []
    for function in (beyond_the_trace, framejit.compile(beyond_the_trace, backend="eager")):
        with warnings.catch_warnings(record=True) as rows:
            warnings.simplefilter("always")
            function(x)
        shown.append([str(row.message) for row in rows])
    assert shown[0] == shown[1]


def noisy(text: str) -> None:
    warnings.warn(text, stacklevel=1)


def in_a_loop(t: torch.Tensor) -> torch.Tensor:
    for number in range(4):
        noisy("of one line")
        t = t.sin() + number
    return t


def before_and_after_a_break(t: torch.Tensor) -> torch.Tensor:
    noisy("before")
    t = t + 1
    print(end="")
    noisy("before")
    noisy("after")
    return t * 2


def beside_arrays(t: torch.Tensor) -> torch.Tensor:
    noisy("beside arrays")
    a = np.arange(3.0)
    return t + float((a / 2 + a[0]).sum())


def around_a_backward_pass(t: torch.Tensor) -> Any:
    y = t.detach().requires_grad_()
    noisy("forward")
    (y * y).sum().backward()
    noisy("forward")
    return y.grad


def of_varying_sizes(t: torch.Tensor) -> torch.Tensor:
    for _ in range(t.shape[0]):
        noisy("of varying sizes")
    return t.sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("action", "printing"), [("default", True), ("default", False), ("once", True)])
def test_what_was_shown_is_not_shown_again_by_compiling(action: Any, backend: str, printing: bool, printed: None, capsys: Any) -> None:
    programs = [in_a_loop, before_and_after_a_break, beside_arrays, around_a_backward_pass, of_varying_sizes]

    def shown(functions: list[Callable[..., Any]]) -> Any:
        globals().pop("__warningregistry__", None)
        warnings.onceregistry.clear()  # type: ignore[attr-defined]
        rows: list[str] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of torch's
            warnings.filterwarnings(action, module=__name__)
            if not printing:
                warnings.showwarning = lambda message, *more, **named: rows.append(str(message))
            for size in (2, 3):
                for function in functions:
                    function(torch.ones(size))
                    rows.append(str(size))
        return rows, capsys.readouterr().err

    framejit.reset()
    assert shown([framejit.compile(program, backend=backend) for program in programs]) == shown(programs)


def test_filters_that_another_thread_changes_meanwhile_count() -> None:
    told = []

    def real() -> None:
        told.append(threading.current_thread())

    before = getattr(warnings, MUTATED)
    setattr(warnings, MUTATED, real)
    try:
        with version_kept():
            with version_kept(), warnings.catch_warnings():
                pass
            other = threading.Thread(target=lambda: warnings.simplefilter("default", OfOurs))
            other.start()
            other.join()
        assert told == [other]
        with warnings.catch_warnings():
            assert len(told) == 2
        assert getattr(warnings, MUTATED) is real
    finally:
        setattr(warnings, MUTATED, before)
        warnings.filters.remove(("default", None, OfOurs, None, 0))  # type: ignore[attr-defined]
