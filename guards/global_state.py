"""torch's global state, as far as a graph depends on it: reading it, and the form in which the C++ leaf checks it.

Grad, inference and forward-grad mode, the thread's included and excluded dispatch keys (autocast, functorch and dispatch modes show
there) and the default dtype are read from c10. The rest is read by builtin functions of torch, called by the leaf.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch.utils._device import DeviceContext

from framejit import directives
from framejit.guards.kinds import Guard, same_constant
from framejit.guards.source import Call, Root, UserLine

NATIVE = torch._C

NAMES = (
    "grad mode", "inference mode", "forward grad mode", "included dispatch keys", "excluded dispatch keys", "default dtype",
    "autocast", "torch function modes", "torch function enabled", "deterministic algorithms", "float32 precision on CUDA",
)  # fmt: skip
"""What each value of `read_state` is."""

HAS_CUDA = torch.version.cuda is not None and torch.cuda.device_count() > 0
PRECISIONS = (("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn")) if HAS_CUDA else ()
"""Whose float32 precision (TF32 or not) goes into generated code. The getter is the one that works whichever API set it."""


class FunctionMode:
    """A mode on the torch function stack. Equal if it is the same mode, or makes the same device the default."""

    __slots__ = ("mode", "device")

    def __init__(self, mode: Any) -> None:
        self.mode = mode
        self.device = mode.device if type(mode) is DeviceContext else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionMode):
            return NotImplemented
        return self.mode is other.mode or (self.device is not None and self.device == other.device)

    def __hash__(self) -> int:
        return hash(self.device) if self.device is not None else id(self.mode)

    def __repr__(self) -> str:
        return f"default device {self.device}" if self.device is not None else f"a {type(self.mode).__qualname__}"


def function_modes() -> tuple[FunctionMode, ...]:
    return tuple(FunctionMode(NATIVE._get_function_stack_at(i)) for i in range(NATIVE._len_torch_function_stack()))


def autocast_state() -> tuple[Any, ...]:
    """Per device type with autocast: its dtype; and whether casts are cached. Empty while there is none."""
    if not NATIVE._is_any_autocast_enabled():
        return ()
    enabled = [device for device in NATIVE._autocast_supported_devices() if torch.is_autocast_enabled(device)]
    return (*((device, torch.get_autocast_dtype(device)) for device in enabled), ("cache", torch.is_autocast_cache_enabled()))


def deterministic_state() -> tuple[bool, ...]:
    """(on, warn only, fill uninitialized memory); the others count only while it is on."""
    if not NATIVE._get_deterministic_algorithms():
        return (False,)
    return (True, NATIVE._get_deterministic_algorithms_warn_only(), NATIVE._get_deterministic_fill_uninitialized_memory())


def read_state() -> tuple[Any, ...]:
    """The global state of this thread now; `NAMES` says what each value is. Read it before entering modes of one's own."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        NATIVE._is_fwd_grad_enabled(),
        NATIVE._dispatch_tls_local_include_set().raw_repr(),
        NATIVE._dispatch_tls_local_exclude_set().raw_repr(),
        torch.get_default_dtype(),
        autocast_state(),
        function_modes(),
        (NATIVE._is_torch_function_enabled(), NATIVE._is_torch_function_all_disabled()),
        deterministic_state(),
        tuple(NATIVE._get_fp32_precision_getter(*which) for which in PRECISIONS),
    )


Setting = tuple[Callable[..., Any], tuple[Any, ...], Any]
"""A function in C, or of torch's, that reads a setting of the process; its arguments; and the plain constant that it gave."""


def told_setting(read: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """A setting in words, for reports."""
    if getattr(read, "__self__", None) is sys.modules:
        return f"{args[0]!r} in sys.modules"
    return f"{read.__name__}{args}"


KEYS = "dispatch keys"
"""How the names end of those parts of the global state that are sets of bits, which say nothing as numbers."""


@dataclass(frozen=True, eq=False)
class GlobalState(Guard):
    """torch's global modes and settings on this thread. source: the root. Made by `global_state_guard`.

    read: `read_state`, the reference that the C++ leaf agrees with; state: what it gave; names: what each value is;
    settings: further settings that the trace has asked for.
    """

    read: Callable[[], tuple[Any, ...]]
    state: tuple[Any, ...]
    names: tuple[str, ...]
    settings: tuple[Setting, ...] = ()
    leaf: ClassVar[str] = "global_state"
    cost: ClassVar[int] = 0
    advice: ClassVar[str | None] = "call under the same modes and settings each time; each combination is compiled once"

    def native(self) -> Any:
        if self.read not in (read_state, read_with_directives):
            raise TypeError("a GlobalState guard must hold what global_state.read_state gave: the C++ leaf checks nothing else")
        return native_form(self.state, self.settings)

    def check(self, value: Any, call: Call) -> bool:
        return self.read() == self.state and all(same_constant(read(*args), found) for read, args, found in self.settings)

    def expected(self) -> str:
        told = [(name, value) for name, value in zip(self.names, self.state) if value != () and not name.endswith(KEYS)]
        pairs = [f"{name} {value!r}" for name, value in told]
        return "torch's global state: " + ", ".join(pairs + [f"{told_setting(read, args)} {found!r}" for read, args, found in self.settings])

    def found(self, value: Any, call: Call) -> str:
        now = self.read()
        differs = [(name, new) for name, old, new in zip(self.names, self.state, now) if old != new]
        changed = [f"other {name}" if name.endswith(KEYS) else f"{name} {new!r}" for name, new in differs]
        settings = [(told_setting(read, args), old, read(*args)) for read, args, old in self.settings]
        changed_settings = [f"{name} {new!r}" for name, old, new in settings if not same_constant(new, old)]
        return ", ".join(changed + changed_settings)

    def key(self) -> Any:
        return (self.state, self.settings)


def global_state_guard(root: Root, line: UserLine | None = None) -> GlobalState:
    """The guard that the global state is as it is now."""
    return GlobalState(root, line, read_state, read_state(), NAMES)


def read_with_directives() -> tuple[Any, ...]:
    """The global state, and what regions of the program have told the tracer."""
    return (*read_state(), directives.CURRENT.get())


def with_directives(guard: GlobalState, now: directives.Directives) -> GlobalState:
    """The guard of an entry that rests on the tracer's directives too: one that holds a graph break, or changes them."""
    if guard.read is read_with_directives:
        return guard
    return replace(guard, read=read_with_directives, state=(*guard.state, now), names=(*guard.names, "directives to the tracer"))


def with_setting(guard: GlobalState, setting: Setting) -> GlobalState:
    """The guard of an entry that rests on one more setting."""
    return guard if setting in guard.settings else replace(guard, settings=(*guard.settings, setting))


Probe = tuple[Callable[..., Any], tuple[Any, ...], Any, int]
EQUAL, IDENTICAL, DEVICE_CONTEXT = 0, 1, 2
"""How the C++ leaf compares what a probe's function returns; a DeviceContext is compared by the device it holds."""


def mode_probes(modes: tuple[FunctionMode, ...]) -> list[Probe]:
    """How many modes, and that each is the same. For modes that set the default device: the same device."""
    probes: list[Probe] = [(NATIVE._len_torch_function_stack, (), len(modes), EQUAL)]
    for i, mode in enumerate(modes):
        if mode.device is None:
            probes.append((NATIVE._get_function_stack_at, (i,), mode.mode, IDENTICAL))
        else:
            probes.append((NATIVE._get_function_stack_at, (i,), (DeviceContext, mode.device), DEVICE_CONTEXT))
    return probes


def native_form(state: tuple[Any, ...], settings: tuple[Setting, ...] = ()) -> tuple[Any, ...]:
    """What the C++ leaf takes: the c10 part of a state, and (function, arguments, expected, comparison) for each other setting."""
    grad, inference, forward_grad, included, excluded, dtype, autocast, modes, functions, deterministic, precisions = state[: len(NAMES)]
    probes = mode_probes(modes)
    probes.append((NATIVE._is_torch_function_enabled, (), functions[0], EQUAL))
    if not functions[0]:
        probes.append((NATIVE._is_torch_function_all_disabled, (), functions[1], EQUAL))
    probes.append((NATIVE._get_deterministic_algorithms, (), deterministic[0], EQUAL))
    if deterministic[0]:
        probes.append((NATIVE._get_deterministic_algorithms_warn_only, (), deterministic[1], EQUAL))
        probes.append((NATIVE._get_deterministic_fill_uninitialized_memory, (), deterministic[2], EQUAL))
    for device, value in autocast:  # which devices have it shows in the excluded keys
        if device == "cache":
            probes.append((torch.is_autocast_cache_enabled, (), value, EQUAL))
        else:
            probes.append((torch.is_autocast_enabled, (device,), True, EQUAL))
            probes.append((torch.get_autocast_dtype, (device,), value, EQUAL))
    for which, precision in zip(PRECISIONS, precisions):
        probes.append((NATIVE._get_fp32_precision_getter, which, precision, EQUAL))
    probes += [(read, arguments, found, EQUAL) for read, arguments, found in settings]
    for regions in state[len(NAMES) :]:
        probes.append((directives.CURRENT.get, (), regions, EQUAL))
    return (grad, inference, forward_grad, included, excluded, dtype, tuple(probes))
