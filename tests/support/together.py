"""Threads that run at once, with a switch between them wherever the evaluator allows one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable


def together(*tasks: Callable[[], object], interval: float = 1e-4) -> None:
    """Run the tasks at once, with a switch every `interval` seconds; re-raise the first error."""
    errors: list[BaseException] = []
    gate = threading.Barrier(len(tasks))

    def run(task: Callable[[], object]) -> None:
        try:
            gate.wait()
            task()
        except BaseException as error:
            errors.append(error)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    finally:
        sys.setswitchinterval(usual)
    if errors:
        raise errors[0]
