"""torch's modes and settings on a thread, described once: how each is read, guarded, switched in a graph, and put back.

Grad, inference and forward-grad mode, the thread's included and excluded dispatch keys (autocast, functorch and dispatch modes show
there) and the default dtype are read from c10 by the guards' leaf in C++. The rest is read by builtin functions of torch, which the leaf calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.autograd import forward_ad
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode
from torch.utils._device import DeviceContext

from framejit.quick_dataclass import dataclass
from framejit.torch_state import torch_function_stack
from framejit.torch_state.saved_tensor_hooks import pop_saved_tensor_hooks, push_saved_tensor_hooks, traced_hooks

NATIVE = torch._C

Probe = tuple[Callable[..., Any], tuple[Any, ...], Any, str]
"""A builtin function, its arguments, what it should return, and how the leaf compares that."""
EQUAL, DEVICE_CONTEXT = "equal", "device_context"
"""The ways in which a probe compares, as the leaf names them; a DeviceContext is compared by the device that it holds."""


def all_of(value: Any) -> Any:
    """The whole value, which is what counts of most modes."""
    return value


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode or setting that graphs depend on.

    Attributes:
        name: of the mode in reports.
        read: gives the mode's value on this thread.
        counts: gives that part of a value which a graph depends on, and which is guarded; () where nothing of it counts.
        probes: gives what the leaf checks of such a part; None where the leaf reads the mode from c10 itself, in the order of `MODES`.
        asked_by: functions of torch's by which a program asks for the mode.
        switches: functions that switch the mode inside a graph; none where a program can't switch it inside a trace.
        put: makes a value that of this thread; None for a mode that is a scope, or that is never switched.
        of_process: whether the mode is the same for all threads.
    """

    name: str
    read: Callable[[], Any]
    counts: Callable[[Any], Any] = all_of
    probes: Callable[[Any], list[Probe]] | None = None
    asked_by: tuple[Callable[..., Any], ...] = ()
    switches: tuple[Callable[..., Any], ...] = ()
    put: Callable[[Any], Any] | None = None
    of_process: bool = False


# Autocast.

AutocastOfDevices = tuple[tuple[str, bool, torch.dtype], ...]
AUTOCAST_DEVICES: tuple[str, ...] = tuple(NATIVE._autocast_supported_devices())


def autocast_of(devices: tuple[str, ...]) -> AutocastOfDevices:
    """(device, enabled, dtype) for each of these types of devices."""
    return tuple([(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in devices])


def set_autocast(device: str, enabled: bool, dtype: torch.dtype) -> None:
    """Set autocast for a type of devices (runs in graphs too)."""
    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, dtype)


def put_autocast(value: AutocastOfDevices) -> None:
    """Set autocast so that `autocast_of` gives this value."""
    for settings in value:
        set_autocast(*settings)


def autocast_depth() -> int:
    """Return the number of scopes of autocast that are open."""
    depth = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return depth - 1


def forget_casts(depth: int) -> None:
    """Drop what autocast has cached if so many of its scopes are open (runs in graphs: where a program has left its last, a graph may have not)."""
    if autocast_depth() == depth:
        torch.clear_autocast_cache()


def exit_keeping_casts(scope: torch.autocast) -> None:
    """Leave, in a graph, a scope of autocast that is entered for real after it: what autocast has cast there is in its cache then, as in eager."""
    torch.autocast_increment_nesting()
    _exit_autocast(scope)
    torch.autocast_decrement_nesting()


def leave_autocast(devices: AutocastOfDevices, depth: int) -> None:
    """Set autocast to this value, and leave all scopes but the outer `depth`, which an error has left open."""
    put_autocast(devices)
    if autocast_depth() > depth:
        torch.clear_autocast_cache()
    while autocast_depth() > depth:
        torch.autocast_decrement_nesting()


def autocast_in_force(value: AutocastOfDevices) -> tuple[Any, ...]:
    """The dtype of each device type that autocasts, and whether casts are cached. Empty while there is none."""
    enabled = [(device, dtype) for device, enabled, dtype in value if enabled]
    return (*enabled, ("cache", torch.is_autocast_cache_enabled())) if enabled else ()


def autocast_probes(counted: tuple[Any, ...]) -> list[Probe]:
    """Return the probes of the cache and of the device types that autocast. Others need none: the excluded dispatch keys, too, show which device types do."""
    probes: list[Probe] = []
    for device, value in counted:
        if device == "cache":
            probes.append((torch.is_autocast_cache_enabled, (), value, EQUAL))
        else:
            probes.append((torch.is_autocast_enabled, (device,), True, EQUAL))
            probes.append((torch.get_autocast_dtype, (device,), value, EQUAL))
    return probes


# Modes that see each of torch's functions.


@dataclass(frozen=True, slots=True)
class FunctionMode:
    """A mode on the stack of torch's function modes, as the guard of the global state sees it.

    Attributes:
        device: what a mode at the bottom of the stack makes the default device. None for a mode of the program's: the trace has its own guards of what it
            has seen of that.
        name: for reports.
    """

    device: torch.device | None
    name: str = field(compare=False)

    def __repr__(self) -> str:
        return f"default device {self.device}" if self.device is not None else f"a {self.name}"


def function_modes() -> tuple[FunctionMode, ...]:
    """The stack of these modes, the outermost first."""
    found = torch_function_stack.stack()
    bottom = torch_function_stack.default_devices()
    return tuple([FunctionMode(mode.device if i < bottom else None, type(mode).__qualname__) for i, mode in enumerate(found)])


def function_mode_probes(modes: tuple[FunctionMode, ...]) -> list[Probe]:
    """Return probes that check how many modes there are, and that those at the bottom set the same default devices."""
    probes: list[Probe] = [(NATIVE._len_torch_function_stack, (), len(modes), EQUAL)]
    for i, mode in enumerate(modes):
        if mode.device is not None:
            probes.append((NATIVE._get_function_stack_at, (i,), (DeviceContext, mode.device), DEVICE_CONTEXT))
    return probes


def function_overrides() -> tuple[bool, bool]:
    """Return whether subclasses may override torch's functions, and whether neither they nor modes may."""
    return NATIVE._is_torch_function_enabled(), NATIVE._is_torch_function_all_disabled()


def function_override_probes(value: tuple[bool, bool]) -> list[Probe]:
    probes: list[Probe] = [(NATIVE._is_torch_function_enabled, (), value[0], EQUAL)]
    return probes if value[0] else [*probes, (NATIVE._is_torch_function_all_disabled, (), value[1], EQUAL)]


# Settings of how operators compute.


def deterministic() -> tuple[bool, ...]:
    """(on, warn only, fill uninitialized memory); the others count only while it is on."""
    if not NATIVE._get_deterministic_algorithms():
        return (False,)
    return (True, NATIVE._get_deterministic_algorithms_warn_only(), NATIVE._get_deterministic_fill_uninitialized_memory())


def deterministic_probes(value: tuple[bool, ...]) -> list[Probe]:
    readers = (
        NATIVE._get_deterministic_algorithms,
        NATIVE._get_deterministic_algorithms_warn_only,
        NATIVE._get_deterministic_fill_uninitialized_memory,
    )
    return [(read, (), found, EQUAL) for read, found in zip(readers, value)]


HAS_CUDA = torch.version.cuda is not None and torch.cuda.device_count() > 0
PRECISIONS = (("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn")) if HAS_CUDA else ()
"""The operators whose float32 precision (TF32 or not) goes into generated code. The getter is the one that works whichever API set it."""


def precisions() -> tuple[Any, ...]:
    return tuple([NATIVE._get_fp32_precision_getter(*which) for which in PRECISIONS])


def precision_probes(value: tuple[Any, ...]) -> list[Probe]:
    return [(NATIVE._get_fp32_precision_getter, which, precision, EQUAL) for which, precision in zip(PRECISIONS, value)]


def anomaly_probes(enabled: bool) -> list[Probe]:
    """Compiled code is made while it is off: under it, calls run uncompiled (driver/observers.py)."""
    return [(torch.is_anomaly_enabled, (), enabled, EQUAL)]


# Differentiation in forward mode.

LEVEL = vars(forward_ad).get, ("_current_level",)
"""A function and its arguments: it returns the number of the innermost `dual_level` of the process that is open, -1 where there is none."""


def forward_level() -> Any:
    """The number of the innermost `dual_level` that is open, inside which tensors may have tangents; -1 where there is none."""
    return LEVEL[0](*LEVEL[1])


# The table.

KEYS = "dispatch keys"
"""The end of the names of those modes that are sets of bits, which say nothing as numbers."""

GRAD = Mode(
    "grad mode", torch.is_grad_enabled,
    asked_by=(torch.is_grad_enabled,), switches=(NATIVE._set_grad_enabled,), put=NATIVE._set_grad_enabled,
)  # fmt: skip
INFERENCE = Mode(
    "inference mode", torch.is_inference_mode_enabled,
    asked_by=(torch.is_inference_mode_enabled,), switches=(_enter_inference_mode, _exit_inference_mode),
)  # fmt: skip
AUTOCAST = Mode(
    "autocast", lambda: autocast_of(AUTOCAST_DEVICES), autocast_in_force, autocast_probes,
    asked_by=(torch.is_autocast_enabled, torch.is_autocast_cpu_enabled, NATIVE._is_any_autocast_enabled),
    switches=(_enter_autocast, _exit_autocast, exit_keeping_casts, forget_casts, set_autocast, torch.clear_autocast_cache), put=put_autocast,
)  # fmt: skip
DEFAULT_DTYPE = Mode(
    "default dtype", torch.get_default_dtype,
    asked_by=(torch.get_default_dtype,), switches=(NATIVE._set_default_dtype,), put=NATIVE._set_default_dtype, of_process=True,
)  # fmt: skip
MODES = (
    GRAD,
    INFERENCE,
    Mode(
        "hooks on saved tensors", traced_hooks, counts=lambda hooks: (), probes=lambda counted: [],
        switches=(push_saved_tensor_hooks, pop_saved_tensor_hooks),
    ),
    Mode("forward grad mode", NATIVE._is_fwd_grad_enabled, asked_by=(NATIVE._is_fwd_grad_enabled,)),
    Mode(f"included {KEYS}", lambda: NATIVE._dispatch_tls_local_include_set().raw_repr()),
    Mode(f"excluded {KEYS}", lambda: NATIVE._dispatch_tls_local_exclude_set().raw_repr()),
    DEFAULT_DTYPE,
    AUTOCAST,
    Mode(
        "torch function modes", function_modes, probes=function_mode_probes,
        asked_by=(torch.get_default_device, NATIVE._is_torch_function_mode_enabled),
    ),
    Mode(
        "torch function enabled", function_overrides, probes=function_override_probes,
        asked_by=(NATIVE._is_torch_function_enabled, NATIVE._is_torch_function_all_disabled),
    ),
    Mode("forward-mode level", forward_level, probes=lambda level: [(LEVEL[0], LEVEL[1], level, EQUAL)]),
    Mode("deterministic algorithms", deterministic, probes=deterministic_probes, of_process=True),
    Mode("float32 precision on CUDA", precisions, probes=precision_probes, of_process=True),
    Mode("anomaly detection", torch.is_anomaly_enabled, probes=anomaly_probes, asked_by=(torch.is_anomaly_enabled,), of_process=True),
)  # fmt: skip
SWITCHED = tuple(mode for mode in MODES if mode.switches)
"""The modes that a program may switch inside a trace."""
MODE_CHANGES = frozenset(switch for mode in SWITCHED for switch in mode.switches)
"""Targets of the nodes that switch modes."""


def read_state() -> tuple[Any, ...]:
    """Return the part of each mode's value on this thread that graphs depend on, in the order of `MODES`. Call this before entering modes of one's own."""
    return tuple([mode.counts(mode.read()) for mode in MODES])
