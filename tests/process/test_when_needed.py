"""Modules that are imported when something in them is first needed: not before, on another thread, once."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framejit.process import collector
from framejit.process.when_needed import Loader, is_loaded, is_starting_thread, load, when_needed

NAME = "framejit_test_needed"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a function that writes the code of the module NAME; the module is forgotten after the test."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text: str) -> None:
        (tmp_path / f"{NAME}.py").write_text(text)

    yield write
    sys.modules.pop(NAME, None)


def test_a_module_is_imported_when_an_attribute_is_asked_for(module: Any) -> None:
    module("import threading\nthread = threading.current_thread().name\nvalue = 7")
    late = when_needed(NAME)
    assert not is_loaded(NAME) and NAME in repr(late)
    assert late.value == 7
    assert is_loaded(NAME)
    assert late.thread != threading.current_thread().name


def test_it_is_the_module_that_others_import(module: Any) -> None:
    module("value = []")
    late = when_needed(NAME)
    late.value.append(1)
    assert sys.modules[NAME].value == [1]
    sys.modules[NAME].value = 2
    assert late.value == 2


def test_what_is_imported_already_is_taken_as_it_is(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module("import threading\nthread = threading.current_thread().name")
    __import__(NAME)
    monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail("a thread for nothing"))
    assert when_needed(NAME).thread == threading.current_thread().name


def test_an_error_comes_out_each_time(module: Any) -> None:
    module("raise ValueError('broken')")
    late = when_needed(NAME)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            late.value
    with pytest.raises(ModuleNotFoundError):
        load("framejit_test_not_there")


def test_an_attribute_that_is_not_there(module: Any) -> None:
    module("")
    with pytest.raises(AttributeError, match="nothing"):
        when_needed(NAME).nothing


def test_a_loaded_module_may_need_others_at_once(module: Any, tmp_path: Path) -> None:
    """On the thread that imports it: a second thread would wait for the first one's locks."""
    (tmp_path / f"{NAME}_inner.py").write_text("value = 3")
    module(f"from framejit.process.when_needed import when_needed\nvalue = when_needed('{NAME}_inner').value + 1")
    assert when_needed(NAME).value == 4
    del sys.modules[f"{NAME}_inner"]


def test_a_module_that_is_still_being_imported_is_not_loaded(module: Any) -> None:
    module(f"from framejit.process.when_needed import is_loaded\nseen = is_loaded('{NAME}')")
    assert when_needed(NAME).seen is False


def test_a_module_that_needs_itself_gets_what_there_is(module: Any) -> None:
    """Another thread would wait for the lock of the one that waits for it."""
    module(f"value = 1\nfrom framejit.process.when_needed import when_needed\nseen = when_needed('{NAME}').value")
    assert __import__(NAME).seen == 1


def test_the_collector_is_off_meanwhile(module: Any) -> None:
    module("import gc\non = gc.isenabled()")
    assert gc.isenabled()
    assert when_needed(NAME).on is False
    assert gc.isenabled()


def test_the_collector_is_on_again_after_the_last_block() -> None:
    """Blocks of several threads may end in any order."""
    first, second = collector.off(), collector.off()
    first.__enter__()
    second.__enter__()
    with collector.as_the_program_has_it():
        assert gc.isenabled()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_collector_that_the_program_has_switched_off_stays_off() -> None:
    gc.disable()
    try:
        with collector.off(), collector.as_the_program_has_it():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_is_imported_is_no_work_for_the_next_collection(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program that freezes no objects itself: the test suite does (tests/conftest.py)."""
    module("kept = [[] for _ in range(100_000)]")
    gc.unfreeze()
    monkeypatch.setattr(collector, "_program_freezes", False)
    young: list[int] = []
    count = lambda phase, information: young.append(len(gc.get_objects(information["generation"])))
    gc.callbacks.append(count)
    try:
        load(NAME)
        gc.collect(0)
    finally:
        gc.callbacks.remove(count)
        gc.freeze()
    assert young and max(young) < 100_000


def test_a_thread_that_is_being_started_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    found, start = list[bool](), threading.Thread.start

    def noting(thread: threading.Thread) -> None:
        found.append(is_starting_thread())
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noting)
    loader = Loader("json")
    loader.start()
    loader.join()
    assert found == [True] and not is_starting_thread()
