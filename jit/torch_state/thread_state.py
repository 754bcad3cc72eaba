"""torch's modes and settings of one thread, in force on another: for work that one thread does for another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from framejit.quick_dataclass import dataclass
from framejit.torch_state.torch_modes import (
    AUTOCAST,
    AUTOCAST_DEVICES,
    GRAD,
    INFERENCE,
    MODES,
    autocast_of,
    function_modes,
    put_autocast,
    read_state,
)


@dataclass(frozen=True, slots=True)
class ThreadState:
    """The modes of a thread that another can have too. `devices`: the default devices, the innermost last; `cuda`: the current CUDA device; `counted`: what of
    all modes compiled code depends on.
    """

    grad: bool
    inference: bool
    autocast: Any
    autocast_cache: bool
    devices: tuple[torch.device, ...]
    cuda: int | None
    counted: tuple[Any, ...]

    @classmethod
    def now(cls) -> ThreadState:
        """The state of this thread."""
        devices = tuple([mode.device for mode in function_modes() if mode.device is not None])
        cuda = torch.cuda.current_device() if torch.cuda.is_initialized() else None
        return cls(GRAD.read(), INFERENCE.read(), AUTOCAST.read(), torch.is_autocast_cache_enabled(), devices, cuda, read_state())

    def is_in_force(self) -> bool:
        """Return whether this thread has the state in all that counts, besides settings of the whole process."""
        return all(value == now for mode, value, now in zip(MODES, self.counted, read_state(), strict=True) if not mode.of_process)

    @contextlib.contextmanager
    def in_force(self) -> Iterator[bool]:
        """Inside the block, this thread has the state. What the block gets is False if it doesn't in all that counts: modes of the program's on the other
        thread can't be in force here.
        """
        with contextlib.ExitStack() as stack:
            if self.inference:
                stack.enter_context(torch.inference_mode())
            stack.enter_context(torch.set_grad_enabled(self.grad))
            if self.cuda is not None:
                stack.enter_context(torch.cuda.device(self.cuda))
            for device in self.devices:
                stack.enter_context(device)
            before, cached = autocast_of(AUTOCAST_DEVICES), torch.is_autocast_cache_enabled()
            stack.callback(torch.set_autocast_cache_enabled, cached)
            stack.callback(put_autocast, before)
            put_autocast(self.autocast)
            torch.set_autocast_cache_enabled(self.autocast_cache)
            yield self.is_in_force()


SETTERS = (
    "_set_default_dtype", "_set_default_tensor_type", "_set_deterministic_algorithms", "_set_deterministic_fill_uninitialized_memory",
    "_set_float32_matmul_precision", "_set_fp32_precision_setter",
)  # fmt: skip
"""The functions of torch._C by which a program changes settings of the whole process on which compiled code depends."""
_calls: list[None] = []


def _counting(setter: Callable[..., Any]) -> Callable[..., Any]:
    def set_and_count(*args: Any) -> Any:
        _calls.append(None)
        return setter(*args)

    return set_and_count


ORIGINALS = {name: getattr(torch._C, name) for name in SETTERS if hasattr(torch._C, name)}
COUNTING = {name: _counting(setter) for name, setter in ORIGINALS.items()}
"""The functions that replace those of ORIGINALS while calls of them are counted."""


@contextlib.contextmanager
def changes_counted() -> Iterator[Callable[[], int]]:
    """A `with` block that gets a function which says how often any thread has called one of SETTERS since the block began."""
    before = len(_calls)
    for name, counting in COUNTING.items():
        setattr(torch._C, name, counting)
    try:
        yield lambda: len(_calls) - before
    finally:
        for name, setter in ORIGINALS.items():
            setattr(torch._C, name, setter)
