"""The operators whose kernels are compiled now, and how many parts of the program have asked for each."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from typing import Any

from torch._ops import OpOverload

from framejit.backends.eager_kernels.kernel_maker import KernelMaker
from framejit.backends.ecosystem import resolve_again
from framejit.process.one_at_a_time import free_in_child
from framejit.process.when_needed import when_needed
from framejit.quick_dataclass import dataclass

native = when_needed("framejit._operators")


@dataclass
class Replaced:
    """An operator in force. `users`: how many have asked for it and not closed."""

    maker: KernelMaker
    operator: Any
    users: int = 0


_lock = threading.RLock()
_in_force: dict[OpOverload, Replaced] = {}
os.register_at_fork(after_in_child=lambda: free_in_child(_lock))


def open_all(operators: Sequence[OpOverload]) -> None:
    """Put operators in force, or count one more user of those that are. Raises RuntimeError, and changes nothing, if torch refuses one."""
    done = []
    with _lock:
        try:
            for operator in operators:
                if operator not in _in_force:
                    maker = KernelMaker(operator)
                    name, _, overload = operator.name().partition(".")
                    _in_force[operator] = Replaced(maker, native.Operator(name, overload, maker))
                    resolve_again(operator)
                _in_force[operator].users += 1
                done.append(operator)
        except BaseException:
            close_all(done)
            raise


def close_all(operators: Sequence[OpOverload]) -> None:
    """Count one user less of each operator. One that has none left gets torch's kernel back, and its compiled ones are freed."""
    with _lock:
        for operator in operators:
            replaced = _in_force[operator]
            replaced.users -= 1
            if not replaced.users:
                del _in_force[operator]
                give_back(operator, replaced)


def give_back(operator: OpOverload, replaced: Replaced) -> None:
    """Let an operator have torch's kernel again."""
    replaced.operator.close()
    resolve_again(operator)


def makers(operators: Sequence[OpOverload]) -> dict[OpOverload, KernelMaker]:
    """The makers of those operators that are in force."""
    with _lock:
        return {operator: _in_force[operator].maker for operator in operators if operator in _in_force}


def forget() -> None:
    """Free all compiled kernels, and what was decided about calls. The operators stay in force, and compile again: part of `reset()`."""
    with _lock:
        for replaced in _in_force.values():
            replaced.maker.forget()
            replaced.operator.forget()


@atexit.register
def _close() -> None:
    """Give all operators torch's kernels back, before the interpreter ends that compiles them."""
    with _lock:
        for operator, replaced in _in_force.items():
            give_back(operator, replaced)
        _in_force.clear()
