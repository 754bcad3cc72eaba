"""Running a function in a process of its own, so that neither a crash nor a leak reaches the next one."""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess, SpawnProcess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MEMORY = 7 << 30
"""Bytes of data that a process may have for which `limit` is called."""


class Crash(Exception):
    """The process died, or took too long; the message says how."""


def preload(*modules: str) -> None:
    """Imports these modules once, in the server process from which the processes of `call(..., fresh=False)` are forked."""
    path = os.environ.get("PYTHONPATH")
    # The server imports them before it knows this process's sys.path.
    os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{path}" if path else str(ROOT)
    multiprocessing.set_forkserver_preload(list(modules))


def call(function: Callable[..., Any], *args: Any, timeout: float = 600, fresh: bool = False) -> Any:
    """The result of `function(*args)`, which runs in another process; function, arguments and result are pickled.

    Args:
        timeout: seconds after which the process is killed.
        fresh: start a new Python instead of forking one that has the preloaded modules.

    Raises:
        Crash: the process was killed by a signal, exited, ran out of time, or raised (the message is then its traceback).
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    start = SpawnProcess if fresh else ForkServerProcess
    process = start(target=_run, args=(sender, function, args))
    process.start()
    sender.close()
    try:
        if not receiver.poll(timeout):
            raise Crash(f"no answer within {timeout:.0f} s")
        succeeded, result = receiver.recv()
    except EOFError:
        process.join(10)
        raise Crash(_how_it_ended(process.exitcode)) from None
    else:
        # It may need a moment to end the processes that it started.
        process.join(10)
    finally:
        process.kill()
        process.join()
        receiver.close()
    if not succeeded:
        raise Crash(result)
    return result


def limit(seconds: float | None = None) -> None:
    """Called in a process of its own: makes it fail where it would take the machine's memory, or end after so many seconds of processor time."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 5))


def _run(sender: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        answer = (True, function(*args))
    except Exception:
        answer = (False, traceback.format_exc())
    sender.send(answer)
    sender.close()


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"crashed with {signal.Signals(-code).name}"
    return f"exited with status {code}"
