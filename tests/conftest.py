"""Settings of every test run: internal errors raise, a crash of native code prints Python's stack, and no test may leave framejit's hook installed."""

import faulthandler
import gc
import logging
import os
from collections.abc import Callable, Iterator

import pytest
import torch
from evaluator import cpythons_evaluator
from hypothesis import HealthCheck, settings

from framejit import _runtime, logs, report
from framejit import config as framejit_config
from framejit.backends import registry
from framejit.driver import compiled_module, retained, sharing
from framejit.user.explanation import explanation

faulthandler.enable()
settings.register_profile("any_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy one is no reason to fail
settings.load_profile("any_machine")
logging.getLogger("torch.__trace").disabled = True  # pytest would keep all that torch writes for its own tools, for as long as a test runs
UNDO_RATE, UNDO_LOOKS = 0.02, 0.5
LOOK_AT_LOGS = {"caplog", "capsys", "capfd", "warnings_logged"}
"""Fixtures of tests that look at what is logged."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--undo", metavar="SEED", help="execute, undo and repeat instructions at random in every trace, and compare the state")
    parser.addoption("--copies", action="store_true", help="trace each call of a module whose trace is copied, too, and compare what both record")
    parser.addoption("--backend", metavar="NAME", help="the backend that programs are compiled with where the tests say 'eager'")
    parser.addoption("--write-traces", action="store_true", help="write the golden files of tests/traces anew")
    parser.addoption("--all-logs", action="store_true", help="with all logs on and everything recorded, in tests that don't look at what is shown")
    parser.addoption("--as-users-run", action="store_true", help="with framejit's default configuration: not strict, and no checks")


def pytest_configure(config: pytest.Config) -> None:
    """Tests run in strict mode, with checks, and without code of earlier processes, in this process and in those that it starts; with `--as-users-run`, they
    run with framejit's defaults."""
    if config.getoption("--as-users-run"):
        for variable in [name for name in os.environ if name.startswith(framejit_config.PREFIX)]:
            del os.environ[variable]
    else:
        os.environ["FRAMEJIT_STRICT"] = "1"
        os.environ["FRAMEJIT_CACHE"] = "0"
        os.environ.setdefault("FRAMEJIT_CHECK", "compile,guards,shapes")
    framejit_config._base = framejit_config.from_environment(os.environ)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test module with a list IN_THE_PLACE_OF_EAGER runs its tests with each of these backends in the place of 'eager'."""
    backends = getattr(metafunc.module, "IN_THE_PLACE_OF_EAGER", None)
    if backends is not None and "in_the_place_of_eager" in metafunc.fixturenames:
        metafunc.parametrize("in_the_place_of_eager", backends, indirect=True)


@pytest.fixture
def own_evaluator() -> Iterator[None]:
    """CPython runs frames itself in a test with this fixture, even if an earlier test has left torch's hook installed."""
    with cpythons_evaluator():
        yield


def pytest_collection_finish() -> None:
    exempt_from_collection()


@pytest.fixture(scope="module", autouse=True)
def exempt_after_module() -> Iterator[None]:
    """Collect or exempt the objects of a test module after its last test: many later tests collect garbage, and would go through them each time."""
    yield
    exempt_from_collection()


def exempt_from_collection() -> None:
    """Collect garbage, and exempt the objects that are left from later collections."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def runs_with_both(request: pytest.FixtureRequest, name: str) -> bool:
    """Return whether the test runs with the backend "eager" and its parameter `backend` has the value `name` too."""
    if getattr(request.node, "callspec", None) is None or request.node.callspec.params.get("backend") != "eager":
        return False
    for mark in request.node.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        if "backend" in (names := [text.strip() for text in names]):
            rows = [getattr(row, "values", row) for row in mark.args[1]]  # of a pytest.param, its values
            return name in ([row[names.index("backend")] if isinstance(row, (tuple, list)) else row for row in rows])
    return False


@pytest.fixture(autouse=True)
def in_the_place_of_eager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the backend that 'eager' stands for in this test. A test that is about the backend 'eager' itself is marked `only_eager`."""
    name = getattr(request, "param", None) or request.config.getoption("--backend") or "eager"
    if name != "eager":
        reason = request.node.get_closest_marker("only_eager")
        if reason is not None:
            pytest.skip(str(reason.args[0]))
        if runs_with_both(request, name):
            pytest.skip(f"the test runs with {name} by itself")
        monkeypatch.setitem(registry._BUILTIN, "eager", registry._BUILTIN[name])
    return str(name)


@pytest.fixture
def lenient() -> Iterator[None]:
    """Without strict mode: if framejit fails inside, the function runs uncompiled, with a warning."""
    with framejit_config.replace(strict=False):
        yield


@pytest.fixture
def warnings_logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """Yield a function that returns the warnings that framejit has logged so far."""
    with caplog.at_level(logging.WARNING, logger="framejit"):
        yield lambda: [record.getMessage() for record in caplog.records if record.name.startswith("framejit")]


class Rendering(logging.Handler):
    """A handler that makes the text of every log record, and shows it nowhere. Errors in making the text are raised by the call that logs."""

    def handle(self, record: logging.LogRecord) -> bool:
        self.format(record)
        return True


@pytest.fixture(autouse=True)
def every_log_is_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--all-logs`, make all log records and explanations of a test's compilations. They are shown nowhere, and must change nothing."""
    if not request.config.getoption("--all-logs") or LOOK_AT_LOGS.intersection(request.fixturenames):
        yield
        return
    root, rendering = logging.getLogger("framejit"), Rendering()
    root.addHandler(rendering)
    root.propagate = False
    logs.configure(",".join(f"+{name}" for name in logs.NAMES))
    try:
        with report.recording() as notes:
            yield
        str(explanation(request.node.name, notes))
    finally:
        logs.configure("")
        root.propagate = True
        root.removeHandler(rendering)


@pytest.fixture(autouse=True)
def undone(request: pytest.FixtureRequest) -> Iterator[list[str] | None]:
    """Yield the list of instructions that `--undo` has undone in this test; None without the option."""
    seed = request.config.getoption("--undo")
    if seed is None:
        yield None
        return
    from undo import undoing  # loads the compiler

    with undoing(UNDO_RATE, f"{seed} {request.node.nodeid}", UNDO_LOOKS) as undone:
        yield undone


@pytest.fixture(autouse=True)
def copies_are_compared(request: pytest.FixtureRequest) -> Iterator[list[str] | None]:
    """Yield the list of modules whose calls were both copied and traced in this test, with `--copies`; None without the option."""
    if not request.config.getoption("--copies"):
        yield None
        return
    from copies import compared  # loads the compiler

    with compared() as found:
        yield found


@pytest.fixture(autouse=True)
def no_internal_error_is_passed_over(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """If internal errors don't raise (`--as-users-run`), fail a test that counts one. Errors are noted here because tests set the counters back."""
    counted: list[str] = []
    add = report.STATISTICS.add

    def watched(counter: str, n: int = 1) -> None:
        counted.append(counter)
        add(counter, n)

    if request.config.getoption("--as-users-run"):
        monkeypatch.setattr(report.STATISTICS, "add", watched)
    yield
    assert "internal_errors" not in counted


@pytest.fixture(autouse=True)
def every_guard_set_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Require that z3 decides all that FRAMEJIT_CHECK=shapes asks it; outside of the tests, a question that it can't answer in time is passed over."""
    from framejit.guards.prove import Verdict  # which loads z3

    require = Verdict.require

    def decided(verdict: Verdict) -> None:
        require(verdict)
        assert not verdict.unknown, verdict.describe()

    monkeypatch.setattr(Verdict, "require", decided)


@pytest.fixture(autouse=True)
def nothing_shared_with_earlier_tests() -> None:
    # What earlier tests have compiled may wait for the garbage collector, and would serve the same code here.
    retained.clear()
    sharing._pools.clear()
    compiled_module._fronts.clear()


@pytest.fixture(autouse=True)
def hook_is_down_afterwards() -> Iterator[None]:
    # A generator of an earlier test's program that is collected late may leave its `no_grad` now, as it may in any program.
    torch.set_grad_enabled(True)
    yield
    assert not _runtime.hook_installed()
    assert not _runtime.is_thread_compiling()
    assert not _runtime.is_thread_disabled()
