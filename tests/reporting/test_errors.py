"""framejit.errors, breaks, logs and report: what the user is told."""

import dataclasses
import logging
import pickle
import threading

import pytest

from framejit import breaks, errors, logs, report
from framejit.breaks import program, tensors
from framejit.bytecode.instruction import NO_POSITION, Position


def sample(reason_class):
    """A reason whose fields say which they are; those with a default, which choose among hints, have it."""
    return reason_class(*(f"the {field.name}" for field in dataclasses.fields(reason_class) if field.default is dataclasses.MISSING))


@pytest.mark.parametrize("reason_class", breaks.CATALOGUE.values(), ids=lambda c: c.__name__)
def test_every_break_reason_is_complete(reason_class):
    reason = sample(reason_class)
    assert reason.id.startswith("FJ") and len(reason.id) == 5
    for field in dataclasses.fields(reason_class):
        assert field.default is not dataclasses.MISSING or f"the {field.name}" in reason.text() + "".join(reason.advice())
    assert "{" not in reason.text() + "".join(reason.advice())
    assert reason.explanation.endswith(".") and reason.advice()
    assert len(reason_class.page()) > 40
    assert str(reason) == f"{reason.id} {reason.text()}"
    assert reason == sample(reason_class) and hash(reason) == hash(sample(reason_class))


def test_ids_of_break_reasons_are_unique():
    classes = [value for value in vars(breaks).values() if isinstance(value, type) and issubclass(value, breaks.Break) and value.id]
    assert len(breaks.CATALOGUE) == len(classes)
    for module in (program, tensors):
        ids = [c.id for c in classes if c.__module__ == module.__name__]
        assert ids == sorted(ids)


def test_specifics_with_braces_are_shown_as_they_are():
    assert "{0}" in breaks.UnsupportedCall("f'{0}'").text()


def failing(x):
    y = x + len(  "é€" ) * abs(x)
    return y


def position_of(function, text):
    """The position of `text` in the first body line of a function."""
    code = function.__code__
    lineno = code.co_firstlineno + 1
    line = errors.UserFrame(code.co_filename, "", lineno).line
    start = len(line[: line.index(text)].encode())
    return Position(lineno, lineno, start, start + len(text.encode()))


def test_unsupported_shows_the_line_the_expression_the_reason_and_what_to_do():
    frame = errors.UserFrame.of(failing.__code__, position_of(failing, "abs(x)"))
    error = errors.Unsupported(breaks.DataDependent("abs(x)"), [frame])
    lines = str(error).splitlines()
    assert lines[0] == "FJ005 abs(x) depends on the data of a tensor"
    assert lines[1] == f'  File "{__file__}", line {failing.__code__.co_firstlineno + 1}, in failing'
    source, carets = lines[2], lines[3]
    assert source.strip() == 'y = x + len(  "é€" ) * abs(x)'
    assert source[carets.index("^") : carets.rindex("^") + 1] == "abs(x)" == frame.expression
    assert any(line.startswith("Why: ") for line in lines) and any(line.startswith("What to do: ") for line in lines)
    assert error.reason.id == "FJ005" and error.stack == (frame,)
    assert isinstance(error, errors.FramejitError)


def test_an_expression_of_several_lines_is_underlined_to_the_end_of_its_first():
    position = position_of(failing, "abs(x)")
    frame = errors.UserFrame.of(failing.__code__, position._replace(end_lineno=position.lineno + 2, end_column=1))
    assert frame.expression == "abs(x)"


@pytest.mark.parametrize("position", [NO_POSITION, Position(3, None, None, None), None])
def test_a_position_may_be_unknown(position):
    frame = errors.UserFrame.of(failing.__code__, position)
    assert frame.function == "failing"
    assert "^" not in frame.render()


def test_a_frame_without_source_is_shown_without_its_line():
    frame = errors.UserFrame("<nowhere>", "f", 3, 3, 0, 4)
    assert frame.render() == '  File "<nowhere>", line 3, in f'


def test_unsupported_can_be_pickled():
    error = errors.Unsupported(breaks.DataDependent("x"), [errors.UserFrame("a.py", "f", 3)])
    copy = pickle.loads(pickle.dumps(error))
    assert copy.reason == error.reason and copy.stack == error.stack and str(copy) == str(error)


def test_exceptions_are_also_what_python_would_raise():
    assert issubclass(errors.BadArgument, TypeError) and issubclass(errors.UnknownOption, ValueError)
    assert all(issubclass(c, errors.FramejitError) for c in (errors.BadArgument, errors.UnknownOption, errors.InternalError))


def test_suggestion_names_the_nearest():
    assert errors.suggestion("inducter", ["eager", "inductor"]) == "; did you mean 'inductor'?"
    assert errors.suggestion("zzz", ["eager", "inductor"]) == ""
    assert errors.suggestion("zzz", ["eager", "inductor"], listing=True) == "; known: eager, inductor"


@pytest.fixture
def default_logs():
    yield
    logs.configure("")
    logs.forget()


def test_log_names_are_parsed():
    levels = {"guards": logging.INFO, "graph_breaks": logging.DEBUG, "recompiles": logging.ERROR}
    assert logs.parse("guards, +graph_breaks,-recompiles") == levels
    assert logs.parse("") == {}


def test_a_misspelt_log_gets_a_suggestion():
    with pytest.raises(errors.UnknownLog, match="did you mean 'graph_breaks'"):
        logs.parse("graph_break")


def test_logs_are_switched_by_name(default_logs, caplog):
    logs.configure("graph_breaks")
    assert logs.enabled("graph_breaks") and not logs.enabled("graph_breaks", detail=True) and not logs.enabled("guards")
    logs.graph_break(report.BreakNote(breaks.ExplicitBreak("why"), ()))
    logs.info("guards", "not shown")
    assert [record.name for record in caplog.records] == ["framejit.graph_breaks"]
    assert "asked for by the program: why" in caplog.text
    logs.configure("+guards")
    assert logs.enabled("guards", detail=True) and not logs.enabled("graph_breaks")


def test_a_fallback_is_reported_without_being_asked_for_and_once_per_place(default_logs, caplog):
    frame = errors.UserFrame("a.py", "f", 3)
    for _ in range(2):
        logs.fallback(failing.__code__, breaks.DataDependent("x"), [frame])
    assert len(caplog.records) == 1 and caplog.records[0].levelname == "WARNING"
    assert "failing runs uncompiled: FJ005" in caplog.text
    logs.fallback(failing.__code__, breaks.DataDependent("x"), [dataclasses.replace(frame, lineno=4)])
    logs.fallback(failing.__code__, breaks.ExplicitBreak("x"), [frame])
    assert len(caplog.records) == 3
    logs.forget()
    logs.fallback(failing.__code__, breaks.ExplicitBreak("x"), [frame])
    assert len(caplog.records) == 4


def test_an_internal_error_gives_one_warning_that_says_so(default_logs, caplog, recwarn):
    for _ in range(2):
        logs.internal_error(failing.__code__, ValueError("boom"))
    assert len(caplog.records) == 1
    assert "error inside framejit, ValueError: boom" in caplog.text and "FRAMEJIT_STRICT=1" in caplog.text
    assert not recwarn.list


def test_statistics_begin_with_the_five_counts_and_reasons():
    statistics = report.Statistics()
    statistics.add("graphs")
    statistics.add("guards", 12)
    statistics.reason("FJ005 x")
    snapshot = statistics.snapshot()
    assert list(snapshot)[:6] == ["graphs", "graph_breaks", "recompiles", "frames", "fallbacks", "reasons"]
    assert snapshot["graphs"] == 1 and snapshot["guards"] == 12 and snapshot["reasons"] == ["FJ005 x"]
    snapshot["reasons"].append("mine")
    assert statistics.snapshot()["reasons"] == ["FJ005 x"]
    statistics.reason("FJ001 y"), statistics.reason("FJ005 x")
    assert statistics.snapshot()["reasons"] == ["FJ001 y", "FJ005 x"]
    statistics.reset()
    assert not any(statistics.snapshot().values())
    with pytest.raises(KeyError):
        statistics.add("grafs")


def test_statistics_count_from_several_threads():
    statistics = report.Statistics()
    threads = [threading.Thread(target=lambda: [statistics.add("frames") for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statistics.snapshot()["frames"] == 8000


def test_backend_errors_can_be_pickled():
    error = errors.BackendError("mine", "is broken")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.backend) == (str(error), "mine") == ("backend 'mine' is broken", "mine")
