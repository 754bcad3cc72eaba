"""The stack of torch's function modes on a thread: what is in force, and what framejit sets aside while it works.

At its bottom may lie default devices (`torch.set_default_device`, `with torch.device(...)`). They stay in force while framejit traces and while graphs run.
The modes above them are the program's: the trace asks them in torch's stead, so nothing of framejit's own work is to reach them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._device import DeviceContext

LENGTH, AT = torch._C._len_torch_function_stack, torch._C._get_function_stack_at
PUSH, POP = torch._C._push_on_torch_function_stack, torch._C._pop_torch_function_stack


class Aside(threading.local):
    """The modes of the program that are set aside on this thread, the innermost last."""

    modes: tuple[Any, ...] = ()


_aside = Aside()


def default_devices() -> int:
    """Return the number of modes at the bottom of this thread's stack that set the default device."""
    return next((level for level in range(LENGTH()) if type(AT(level)) is not DeviceContext), LENGTH())


def default_device() -> torch.device:
    """torch.get_default_device, without the program's modes, which would see that it makes a torch.device."""
    with torch._C.DisableTorchFunction():
        return torch.get_default_device()


def stack() -> tuple[Any, ...]:
    """All modes in force for the program, the innermost last."""
    found = [AT(level) for level in range(LENGTH())]
    bottom = default_devices()
    return (*found[:bottom], *_aside.modes, *found[bottom:]) if _aside.modes else tuple(found)


def of_program() -> tuple[Any, ...]:
    """The program's modes in force, without the default devices below them."""
    return (*_aside.modes, *[AT(level) for level in range(default_devices(), LENGTH())])


def take(count: int) -> list[Any]:
    """Take this many modes off the stack: the innermost is first in the list."""
    return [POP() for _ in range(count)]


@contextlib.contextmanager
def set_aside() -> Iterator[None]:
    """Inside the `with` block the program's modes are not in force."""
    taken = take(LENGTH() - default_devices())
    if not taken:
        yield
        return
    before = _aside.modes
    _aside.modes = (*before, *reversed(taken))
    try:
        yield
    finally:
        _aside.modes = before
        put(taken)


@contextlib.contextmanager
def in_force() -> Iterator[None]:
    """Inside the `with` block, modes that are set aside are in force again: for what reads the stack in C."""
    aside = _aside.modes
    if not aside:
        yield
        return
    _aside.modes = ()
    put(list(reversed(aside)))
    try:
        yield
    finally:
        take(len(aside))
        _aside.modes = aside


def put(taken: list[Any]) -> None:
    """Put modes that were taken off the stack back in force."""
    for mode in reversed(taken):
        PUSH(mode)


def restack(count: int, *modes: Any) -> None:
    """Take this many modes off the stack, and put these on it (runs in generated code)."""
    take(count)
    for mode in modes:
        PUSH(mode)
