"""Compiles on a thread beside the program, for the stance `eager_while_compiling`: calls run uncompiled until their entry is there.

    call -> no entry matches -> ask(...) -> runs uncompiled
                                  |
                                  the thread: Compiler._entry_for(call) -> the entry is added

The thread compiles one call after another, in the order in which they were asked for, with the context variables and torch's modes of the thread that
called. It holds the call's arguments until then. The program goes on meanwhile, and may change what the trace reads: the entry's guards have the values
that the trace has read, so that an entry which doesn't fit the call any more is dropped, and the call is compiled again when it comes next. Settings of the
whole process are read more than once while a call is compiled, so an entry is also dropped if the program has set one of them meanwhile.

What can't be compiled beside the program is compiled where it is called: under modes of the program's that this thread can't have, and after an error, so
that the error is raised where the program expects it.
"""

from __future__ import annotations

import atexit
import contextvars
import ctypes
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from framejit import logs
from framejit.driver import loader
from framejit.process import when_needed
from framejit.process.underway import NotBeside
from framejit.said import stance
from framejit.torch_state.thread_state import ThreadState, changes_counted

STANCE = "eager_while_compiling"
ATTEMPTS = 2
"""If so many compilations of a function in a row have made no entry that fits, the next one is made where the function is called."""
AT_EXIT = 30.0
"""The most seconds that the end of the process waits until the thread has stopped."""
BETWEEN_STOPS = 0.1
"""Seconds after which the thread is told again to stop."""


class Stopped(BaseException):
    """Raised in the thread when the process ends."""


@contextmanager
def unseen() -> Iterator[None]:
    """Let nothing be printed where Stopped is raised in the callback of a weak reference, which goes no further: it is raised again."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda ignored: None if ignored.exc_type is Stopped else hook(ignored)
    try:
        yield
    finally:
        sys.unraisablehook = hook


class Job:
    """One call to be compiled, which `run` does. `failed`: whether that raised an exception."""

    def __init__(self, run: Callable[[], None]) -> None:
        self.failed = False
        self._run: Callable[[], None] | None = run
        self._context: contextvars.Context | None = contextvars.copy_context()
        self._state = ThreadState.now()
        self._process = os.getpid()
        self._changes: Callable[[], int] | None = None

    def is_pending(self) -> bool:
        """Return whether it is still to be done, in this process."""
        return self._run is not None and self._process == os.getpid()

    def drop(self) -> None:
        """Let go of the call: it is compiled, or need not be compiled any more."""
        self._run = self._context = self._changes = None

    def is_disturbed(self) -> bool:
        """Return whether the program has changed settings of the whole process since this was begun: what has been traced may depend on the others."""
        return self._changes is not None and self._changes() > 0

    def work(self) -> None:
        """Do it, with the context and torch's modes of the thread that has asked for it."""
        try:
            if self._context is not None:
                self._context.run(self._work)
        except Stopped:
            raise
        except BaseException as error:  # it is raised where the function is called next, and compiled there
            self.failed = True
            if logs.enabled("backends"):
                logs.info("backends", f"a call could not be compiled beside the program: {type(error).__name__}: {error}")
        finally:
            self.drop()

    def _work(self) -> None:
        run = self._run
        loader.compiler()  # its models are those of the setters themselves, and not of what counts calls of them
        with self._state.in_force() as is_same, changes_counted() as self._changes:
            if not is_same:
                raise NotBeside
            stance.enter("default")
            try:
                if run is not None:
                    run()
            finally:
                stance.leave()


class Beside:
    """The jobs of this process, and the thread that does them, which ends when there are none."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.current: Job | None = None
        self.drops = 0
        """The number of times that all jobs have been dropped. An entry is out of date if this has changed since its job began."""

    def is_worker(self) -> bool:
        """Return whether this is the thread that compiles."""
        thread = self._thread
        return thread is not None and thread.ident == threading.get_ident()

    def add(self, job: Job) -> None:
        """Add a job. It is dropped if the process is ending, or can have no more threads."""
        with self._changed:
            if self._closed:
                job.drop()
                return
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="framejit-compiler", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    job.failed = True
                    job.drop()
                    return
                self._thread = thread
            self._jobs.append(job)

    def drop(self) -> None:
        """Drop all jobs that have not begun."""
        with self._changed:
            self.drops += 1
            while self._jobs:
                self._jobs.pop().drop()

    def _work(self) -> None:
        try:
            while self._work_once():
                pass
        except Stopped:
            with self._changed:
                self._end()

    def _end(self) -> None:
        """Note, under the lock, that the thread does nothing any more. A job that is added from now on starts another."""
        self._thread = None
        self._changed.notify_all()

    def _work_once(self) -> bool:
        with self._changed:
            if not self._jobs:
                self._end()
                return False
            self.current = job = self._jobs.popleft()
        job.work()
        self.current = None
        return True

    def wait(self, timeout: float | None) -> bool:
        """Wait until there is nothing left to do, or this many seconds. Returns whether nothing is left."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, timeout)

    def close(self) -> None:
        """Stop the thread, since the process ends: a thread that still runs then can crash it."""
        with self._changed:
            self._closed = True
            thread = self._thread
        self.drop()
        until = time.monotonic() + AT_EXIT
        with unseen():
            while thread is not None and thread.is_alive() and time.monotonic() < until:
                if not when_needed.is_starting_thread():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Stopped))
                thread.join(BETWEEN_STOPS)


BESIDE = Beside()


def ask(run: Callable[[], None]) -> Job:
    """Have a call compiled beside the program."""
    job = Job(run)
    BESIDE.add(job)
    return job


def is_worker() -> bool:
    """Return whether this is the thread that compiles."""
    return BESIDE.is_worker()


def is_disturbed() -> bool:
    """Return whether this thread compiles, and the program has changed settings of the whole process meanwhile."""
    return is_worker() and BESIDE.current is not None and BESIDE.current.is_disturbed()


def is_wanted() -> bool:
    """Return whether calls on this thread run uncompiled while they are compiled."""
    return stance.current() == STANCE and not is_worker()


def wait_until_compiled(timeout: float | None = None) -> bool:
    """Wait until everything is compiled that the stance "eager_while_compiling" has found to compile so far.

    `timeout`: the most seconds to wait; None: no limit. Returns whether everything is compiled.
    """
    return not is_worker() and BESIDE.wait(timeout)


def _begin_anew() -> None:
    global BESIDE
    BESIDE = Beside()


atexit.register(lambda: BESIDE.close())
os.register_at_fork(after_in_child=_begin_anew)
