"""torch's global modes in a trace. They are set for real while tracing, recorded in the graph, and restored afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode

from framejit.graph.switches import Switches
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import Object
from framejit.process import underway
from framejit.quick_dataclass import dataclass
from framejit.torch_state.saved_tensor_hooks import TracedHooks, passed_over, pop_saved_tensor_hooks, push_saved_tensor_hooks, set_for_real
from framejit.torch_state.torch_modes import (
    AUTOCAST,
    SWITCHED,
    AutocastOfDevices,
    exit_keeping_casts,
    forget_casts,
    put_autocast,
    set_autocast,
)
from framejit.trail import Trail


@dataclass(frozen=True, slots=True)
class Modes:
    """Values of the modes that a program may switch inside a trace, in the order of `SWITCHED`."""

    grad: bool
    inference: bool
    hooks: TracedHooks | None
    dtype: torch.dtype
    autocast: AutocastOfDevices

    @staticmethod
    def read() -> Modes:
        """The modes of this thread."""
        return Modes(*[mode.read() for mode in SWITCHED])

    def put(self, known: Modes) -> None:
        """Set the modes of this thread, except for those that are scopes. `known`: the modes in force as far as this thread has set them. What is the same
        there is left alone: another thread may have changed a setting of the whole process meanwhile, and no guard holds the dtype of an autocast that is off.
        """
        for mode, value, now in zip(SWITCHED, self.values(), known.values()):
            if mode.put is None or value == now:
                continue
            if mode.of_process:
                underway.changes_process()
            mode.put(tuple([of for of in value if of not in now]) if mode is AUTOCAST else value)

    def values(self) -> tuple[Any, ...]:
        """The values, in the order of `SWITCHED`."""
        return self.grad, self.inference, self.hooks, self.dtype, self.autocast

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Put these values of the modes in force inside the `with` block."""
        before = Modes.read()
        scope = torch.inference_mode(self.inference) if before.inference != self.inference else contextlib.nullcontext()
        hooks = contextlib.nullcontext() if before.hooks is self.hooks else passed_over() if self.hooks is None else self.hooks.applied()
        with scope, hooks:
            if before != self:
                self.put(Modes.read())
            try:
                yield
            finally:
                before.put(self)


@dataclass(slots=True)
class Scope:
    """An inference mode or autocast that `owner` entered, or hooks on saved tensors, whose `owner` is a tuple of both. `node` opened it in the graph; None
    if that would change nothing.

    `modes`: the modes when it was entered; inference mode changes and restores the grad mode. `enter`: the owner's own `__enter__`.
    `cache`: whether an autocast is to cache its casts. `leaves`: it stands for the end of an autocast that was entered before the trace, whose
    settings it reverts; `enter` is then the function that leaves that autocast for real.
    """

    manager: Any
    node: fx.Node | None
    reopen: Callable[[], Any]
    owner: Object
    exit_function: Callable[..., None]
    modes: Modes
    enter: Callable[[Any], Any]
    cache: bool | None = None
    leaves: bool = False


def leave_for_real(owner: Any) -> None:
    """Leave a scope that was entered before the trace (runs in generated code)."""
    owner.__exit__(None, None, None)


def enter_for_real(grad: bool, autocast: AutocastOfDevices, enter: Callable[[Any], Any], owner: Any) -> None:
    """Enter a scope under the modes under which the program entered it (runs in generated code)."""
    put_simple_modes(grad, autocast)
    enter(owner)


def put_simple_modes(grad: bool, autocast: AutocastOfDevices) -> None:
    """Set the modes that are no scopes (runs in generated code); function modes in force aren't called, since the trace has already called them."""
    put_autocast(autocast)
    with torch._C.DisableTorchFunction():
        torch._C._set_grad_enabled(grad)


class GlobalModes:
    """The modes of one trace. Call `enter` before tracing and `restore` after it, also when it fails.

    `effect_node(target, args)` makes a node of the graph for a change of torch's own state.
    """

    def __init__(self, effect_node: Callable[..., fx.Node], trail: Trail) -> None:
        self._effect_node = effect_node
        self._trail = trail
        self._scopes: list[Scope] = []
        self._nominal: list[tuple[Object, Callable[[Any], Any]]] = []
        self._overrides_off: torch._C.DisableTorchFunctionSubclass | None = None
        self.switches = Switches(trail)
        self.grad_looks = 0
        """The number of times that the program has read or set the grad mode, even to the same value."""
        self.autocast_cache = torch.is_autocast_cache_enabled()
        self.initial = Modes.read()
        self.current = self.initial
        self._set_devices: frozenset[str] = frozenset()

    def enter(self) -> None:
        """Begin the trace. The cache of autocast is off meanwhile, so that it never holds fakes."""
        torch.set_autocast_cache_enabled(False)

    def restore(self) -> None:
        """Restore all modes to what they were at the start. This may be called more than once."""
        while self._scopes:
            self._scopes.pop().manager.__exit__(None, None, None)
        self.initial.put(replace(Modes.read(), dtype=self.current.dtype))
        self.current = self.initial
        torch.set_autocast_cache_enabled(self.autocast_cache)
        if self._overrides_off is not None:
            self._overrides_off.__exit__(None, None, None)
            self._overrides_off = None

    def switch_overrides_off(self) -> None:
        """Disable `__torch_function__` overrides on this thread until `restore`, since the trace calls them itself."""
        if self._overrides_off is None:
            self._overrides_off = torch._C.DisableTorchFunctionSubclass()
            self._overrides_off.__enter__()

    def final_differences(self, casts_are_cached: bool) -> list[LaterCall]:
        """The effects of the modes that the trace so far leaves changed: other modes, or scopes that are entered for real. The graph leaves scopes that are
        still open, and reverts autocast. (An inference mode left open is no such effect: it breaks the trace.)

        `casts_are_cached`: after the graph has run, autocast itself has cached the graph's casts under autocast.
        """
        for scope in reversed(self._scopes):
            if scope.node is not None:
                is_reentered = casts_are_cached and scope.enter is torch.autocast.__enter__
                self._effect_node(exit_keeping_casts if is_reentered else scope.exit_function, (scope.node,))
        for settings in self._of_set_devices(self.initial):
            if self._scopes or settings not in self.current.autocast:
                self._effect_node(set_autocast, settings)
        if not self.scopes_open:
            return [] if self.current == self.initial else [LaterCall(Modes.put, (self.current, self.initial))]
        scopes = [(scope.modes, scope.enter, scope.owner) for scope in self._scopes]
        scopes += [(self.current, enter, owner) for owner, enter in self._nominal]
        entered = [(modes.grad, self._of_set_devices(modes), enter, owner) for modes, enter, owner in scopes]
        return [*[LaterCall(enter_for_real, scope) for scope in entered], LaterCall(put_simple_modes, (self.current.grad, self._of_set_devices(self.current)))]

    def _of_set_devices(self, modes: Modes) -> AutocastOfDevices:
        """The autocast of those types of devices for which the program has set it without a scope."""
        return tuple([settings for settings in modes.autocast if settings[0] in self._set_devices])

    @property
    def scopes_open(self) -> bool:
        """Return whether a scope entered inside the trace is still open."""
        return bool(self._scopes or self._nominal)

    def is_open(self, owner: Object) -> bool:
        """Return whether this object is one of the scopes that are open."""
        return any(scope.owner is owner and not scope.leaves for scope in self._scopes)

    @property
    def autocast_cache_inside(self) -> bool | None:
        """Return whether the innermost autocast that the trace has entered caches its casts; None if there is no such autocast."""
        return next((scope.cache for scope in reversed(self._scopes) if scope.cache is not None), None)

    @property
    def inference_open(self) -> bool:
        """Return whether such a scope is an inference mode, which ends with its owner, and not at a point that the program states."""
        return any(scope.enter is torch.inference_mode.__enter__ for scope in self._scopes)

    def enter_nominally(self, owner: Object, enter: Callable[[Any], Any]) -> None:
        """Enter a scope that does nothing in compiled code: it is entered for real only if the trace ends inside it."""
        self._nominal.append((owner, enter))
        self._trail.changed(self, self._nominal.pop)

    def exit_nominally(self, owner: Object) -> bool:
        """Leave such a scope; False if it isn't the innermost of them. One that was entered before the trace is left for real when the trace ends."""
        inside = [known for known, enter in self._nominal if enter is not leave_for_real]
        if not inside and owner.source is not None and all(known is not owner for known, _ in self._nominal):
            self.enter_nominally(owner, leave_for_real)
            return True
        if not inside or self._nominal[-1][0] is not owner:
            return False
        self._trail.changed(self, self._nominal.append, self._nominal.pop())
        return True

    def is_grad_enabled(self) -> bool:
        """`torch.is_grad_enabled`."""
        self._trail.set(self, "grad_looks", self.grad_looks + 1)
        return self.current.grad

    def set_grad_enabled(self, enabled: bool) -> None:
        """`torch._C._set_grad_enabled`."""
        self._trail.set(self, "grad_looks", self.grad_looks + 1)
        if enabled == self.current.grad:
            return
        self._effect_node(torch._C._set_grad_enabled, (enabled,))
        torch._C._set_grad_enabled(enabled)
        self._trail.changed(self, torch._C._set_grad_enabled, not enabled)
        self._reread()

    def set_default_dtype(self, dtype: torch.dtype, in_graph: bool) -> None:
        """`torch.set_default_dtype`. `in_graph`: the graph sets it too; otherwise its operators get their dtypes as arguments."""
        before = self.current.dtype
        if dtype is before:
            return
        if in_graph:
            self._effect_node(torch._C._set_default_dtype, (dtype,))
        underway.changes_process()
        torch._C._set_default_dtype(dtype)
        self._trail.changed(self, torch._C._set_default_dtype, before)
        self._reread(dtype)

    def set_autocast(self, device: str, enabled: bool, dtype: torch.dtype) -> None:
        """`torch.set_autocast_enabled` and `torch.set_autocast_dtype`."""
        before = next(settings for settings in self.current.autocast if settings[0] == device)
        if before == (device, enabled, dtype):
            return
        self._trail.set(self, "_set_devices", self._set_devices | {device})
        self._effect_node(set_autocast, (device, enabled, dtype))
        set_autocast(device, enabled, dtype)
        self._trail.changed(self, set_autocast, *before)
        self._reread()

    def clear_autocast_cache(self) -> None:
        """`torch.clear_autocast_cache`, in the graph."""
        self._effect_node(torch.clear_autocast_cache, ())

    def enter_inference_mode(self, enabled: bool, owner: Object) -> None:
        """Open `torch.inference_mode(enabled)`."""
        node = self._effect_node(_enter_inference_mode, (enabled,))
        self._open(node, lambda: torch._C._InferenceMode(enabled), owner, _exit_inference_mode, torch.inference_mode.__enter__)

    def enter_autocast(self, device: str, dtype: torch.dtype | None, enabled: bool, cache: bool, owner: Object) -> None:
        """Open `torch.autocast(...)`. Disabling it when it is already disabled changes no operator and makes no node."""
        node = None
        if enabled or torch.is_autocast_enabled(device):
            node = self._effect_node(_enter_autocast, (device, dtype, enabled, cache))

        def make() -> Any:
            return torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False)

        self._open(node, make, owner, _exit_autocast, torch.autocast.__enter__, cache)

    def push_hooks(self, hooks: TracedHooks, node: fx.Node, functions: Object) -> None:
        """Set hooks on saved tensors. `node` gives them in the graph; `functions` is a tuple of the program's functions."""
        opened = self._effect_node(push_saved_tensor_hooks, (node,))
        self._open(opened, hooks.applied, functions, pop_saved_tensor_hooks, set_for_real)

    def pop_hooks(self) -> bool:
        """Remove hooks on saved tensors; False if the innermost scope isn't that of such hooks."""
        return bool(self._scopes) and self._scopes[-1].enter is set_for_real and self.exit_scope(self._scopes[-1].owner)

    def leave_autocast(self, device: str, dtype: torch.dtype, enabled: bool, cache: bool, owner: Object) -> bool:
        """Leave an autocast that was entered before the trace. The other arguments: the settings outside it. The graph has a scope with these settings
        that lasts until its end. False if the program is inside a scope that it has entered since, or has already left this one."""
        if self._nominal or not all(scope.leaves and scope.owner is not owner for scope in self._scopes):
            return False
        node = self._effect_node(_enter_autocast, (device, dtype, enabled, cache))

        def make() -> Any:
            return torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False)

        self._open(node, make, owner, _exit_autocast, leave_for_real, cache, leaves=True)
        self._forget_casts()
        return True

    def exit_scope(self, owner: Object) -> bool:
        """Close the innermost scope; False if it isn't the owner's."""
        if not self._scopes or self._scopes[-1].owner is not owner or self._scopes[-1].leaves:
            return False
        scope = self._scopes[-1]
        if scope.node is not None:
            self._effect_node(scope.exit_function, (scope.node,))
        self._scopes.pop()
        scope.manager.__exit__(None, None, None)
        self._trail.changed(self, self._enter, scope)
        self._reread()
        self._forget_casts()
        return True

    def _forget_casts(self) -> None:
        """Make the graph drop cached casts if the program is no longer in any autocast at this point. Each autocast that it has left counts twice in the
        graph: it is still open, and so is the scope that stands for its end."""
        left = sum(scope.leaves for scope in self._scopes)
        if left:
            self._effect_node(forget_casts, (2 * left,))

    def _open(
        self, node: fx.Node | None, reopen: Callable[[], Any], owner: Object, exit_function: Callable[..., None], enter: Callable[[Any], Any],
        cache: bool | None = None, leaves: bool = False,
    ) -> None:  # fmt: skip
        scope = Scope(None, node, reopen, owner, exit_function, self.current, enter, cache, leaves)
        self._enter(scope)
        self._trail.changed(self, self._undo_enter, scope)
        self._reread()

    def _enter(self, scope: Scope) -> None:
        scope.manager = scope.reopen()
        scope.manager.__enter__()
        self._scopes.append(scope)

    def _undo_enter(self, scope: Scope) -> None:
        if self._scopes and self._scopes[-1] is scope:
            self._scopes.pop()
            scope.manager.__exit__(None, None, None)

    def _reread(self, dtype: torch.dtype | None = None) -> None:
        """Note the modes of this thread. `dtype`: the default dtype that the trace has just set; what another thread sets is not the trace's."""
        self._trail.set(self, "current", replace(Modes.read(), dtype=dtype or self.current.dtype))
