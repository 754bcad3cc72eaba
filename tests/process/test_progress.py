"""The line of progress on a terminal."""

from __future__ import annotations

import io
import threading
import time
from types import SimpleNamespace

import pytest
import torch

import framejit
from framejit.process import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        super().isatty()  # raises ValueError if it is closed
        return True


@pytest.fixture
def terminal(monkeypatch):
    made = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=made))  # pytest sets that of the real module between fixtures and tests
    monkeypatch.setattr(progress, "AFTER", 0.02)
    monkeypatch.setattr(progress, "BETWEEN", 0.02)
    return made


def slow(gm, inputs):
    time.sleep(0.5)
    return gm


def f(t):
    return t + 1


def test_what_takes_long_is_shown_and_taken_away(terminal):
    threads = []
    with framejit.on_compile(end=lambda compilation: threads.append(threading.active_count())):
        count = threading.active_count()
        framejit.compile(f, backend=slow)(torch.ones(2))
    assert threads == [count]
    shown = terminal.getvalue()
    assert "f: compiling with slow [00:0" in shown and shown.startswith("\rframejit: ")
    assert shown.rpartition("\r")[0].rpartition("\r")[2].strip() == "" and shown.endswith("\r")


def test_what_ends_at_once_is_not_shown(terminal, monkeypatch):
    monkeypatch.setattr(progress, "AFTER", 60)
    framejit.compile(lambda t: t + 1, backend=slow)(torch.ones(2))
    assert terminal.getvalue() == ""


def test_off(terminal):
    with framejit.config.replace(progress=False):
        framejit.compile(lambda t: t + 1, backend=slow)(torch.ones(2))
    assert terminal.getvalue() == ""


def closed() -> Terminal:
    made = Terminal()
    made.close()
    return made


@pytest.mark.parametrize("stream", [io.StringIO(), closed(), None], ids=["a file", "closed", "none"])
def test_only_on_a_terminal(terminal, monkeypatch, stream):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    assert not progress.is_wanted()
    framejit.compile(lambda t: t + 1, backend=slow)(torch.ones(2))
    assert stream is None or stream.closed or stream.getvalue() == ""


def test_an_error_while_it_is_shown(terminal):
    def failing(gm, inputs):
        time.sleep(0.2)
        raise ValueError("broken")

    with pytest.raises(framejit.BackendError, match="broken"):
        framejit.compile(lambda t: t + 1, backend=failing)(torch.ones(2))
    assert terminal.getvalue().endswith("\r")


def test_a_text_that_fails_is_no_error(terminal):
    def text() -> str:
        raise RuntimeError

    with progress.shown(text):
        time.sleep(0.1)
