"""torch's own functions: those that enter the graph, and those that read or switch torch's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint
from torch._library.custom_ops import CustomOpDef
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.library.torch.operators.opaque_objects import as_argument
from framejit.library.torch.script.torch_bind import TorchBindObject, call_with
from framejit.objects.core import abstract, operators
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.naming import callable_name
from framejit.objects.core.object import VM, IdentityConstant, Object
from framejit.objects.core.registry import app_of, call_model, model_of, models, models_by_default, named, unsupported, wraps
from framejit.objects.numbers.unbackednumber import UnbackedNumber, is_checked
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import torch_call
from framejit.objects.tensors.torchfunctions import operation_of
from framejit.objects.types.constobject import answer
from framejit.torch_state.torch_modes import MODES

# Operations.


@wraps(OpOverload, OpOverloadPacket, HigherOrderOperator, CustomOpDef, by_identity=True)
class OperatorObject(IdentityConstant):
    """An operator of `torch.ops`, or a custom one: a constant known by identity."""

    __slots__ = ()
    is_true = True

    def getattr(self, vm: VM, name: str) -> Object:
        try:
            found = getattr(self.value, name)
        except AttributeError as error:
            vm.raise_(AttributeError, *error.args)
        return vm.from_real(found)

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        real = self.value
        if isinstance(real, HigherOrderOperator):
            stand_in = app_of(real)
            if stand_in is not None:
                return vm.call_app(stand_in, args, kwargs)
            model = model_of(real)
            if model is not None:
                return call_model(vm, model, real, args, kwargs)
            vm.unsupported(breaks.UnsupportedOperation(f"the higher-order operator {real.name()}"))
        observed, named = [vm.observe(arg) for arg in args], {name: vm.observe(arg) for name, arg in kwargs.items()}
        if any(isinstance(arg, TorchBindObject) for arg in (*observed, *named.values())):
            return call_with(vm, callable_name(real), real, observed, named)
        operation = operation_of(real._opoverload if isinstance(real, CustomOpDef) else real)
        assert operation is not None
        observed, named = [as_argument(vm, real, arg) for arg in observed], {name: as_argument(vm, real, arg) for name, arg in named.items()}
        found = torch_call(vm, operation, observed, named, self)
        assert found is not None
        return found


# State that is read: a constant of the trace, guarded with the rest of torch's global state.


def read_for_real(function: Callable[..., Any]) -> Callable[..., Object]:
    """The model of a function that reads state and changes none: it is called for real on constants."""

    def read(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        real_args = [vm.observe(arg).as_real(vm) for arg in args]
        real_kwargs = {name: vm.observe(arg).as_real(vm) for name, arg in kwargs.items()}
        if vm.graph.modes.switches.is_shown_by(function):
            vm.unsupported(breaks.GlobalStateUnsupported("a setting that another one, which the compiled function has set, changes too"))
        try:
            found = function(*real_args, **real_kwargs)
        except Exception as error:
            vm.raise_(type(error), *error.args)
        if function not in FIXED and not is_set_by_trace(vm, function, real_args):
            if real_kwargs or isinstance(found, list):
                vm.unsupported(breaks.UnsupportedCall(f"{getattr(function, '__name__', function)} with keyword arguments or a list as result"))
            vm.guards.read(function, *real_args)
        return vm.from_real(found)

    return read


AUTOCAST_DTYPES: dict[Any, str] = {torch.get_autocast_gpu_dtype: "cuda", torch.get_autocast_cpu_dtype: "cpu"}


def is_set_by_trace(vm: TorchVM, function: Callable[..., Any], args: list[Any]) -> bool:
    """Return whether a setting is that of an autocast inside the trace: then it needs no guard."""
    device = args[0] if function is torch.get_autocast_dtype and args else AUTOCAST_DTYPES.get(function)
    before, now = ({name: dtype for name, _, dtype in modes.autocast} for modes in (vm.graph.modes.initial, vm.graph.modes.current))
    return device in before and before[device] != now[device]


READ_PREFIXES = (
    "_get_cudnn_", "_get_cublas_", "_get_mkldnn_", "_get_miopen_", "_get_onednn_", "_get_float32_", "_get_fp32_",
    "_get_math_sdp_allow_", "_get_deterministic_", "_get_nnpack_", "_get_sdp_",
    "_has_", "_len_torch_dispatch_stack", "_is_any_autocast_", "_is_autocast_available",
    "_get_privateuse1_backend_name", "_is_fwd_grad_enabled", "_get_default_device", "_get_linalg_", "_cuda_getDeviceCount", "_accelerator_getAccelerator",
)  # fmt: skip
READS: list[Callable[..., Any]] = [getattr(torch._C, name) for name in dir(torch._C) if name.startswith(READ_PREFIXES)]
READS += [
    torch.is_inference_mode_enabled, torch.is_autocast_enabled, torch.get_autocast_dtype,
    torch.is_autocast_cpu_enabled, torch.get_autocast_gpu_dtype, torch.get_autocast_cpu_dtype, torch.amp.is_autocast_available,
    torch.get_default_dtype, torch.get_default_device, torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled,
    torch.cuda.is_available,
    torch.cuda.device_count, torch.cuda.is_bf16_supported, torch.cuda.is_initialized, torch.backends.mps.is_available,
    torch.mps.is_available if hasattr(torch.mps, "is_available") else torch.backends.mps.is_built, torch.xpu.is_available,
    torch.distributed.is_available, torch.promote_types, torch.can_cast,
]  # fmt: skip
GUARDED_ANYWAY = frozenset(function for mode in MODES for function in mode.asked_by)
"""Functions that read modes which the guard of the global state in every entry covers, or which the trace itself may have changed."""
FIXED: frozenset[Any] = frozenset({
    *GUARDED_ANYWAY, *(f for f in READS if getattr(f, "__name__", "").startswith(("_has_", "_accelerator_"))),
    torch.promote_types, torch.can_cast, torch.cuda.is_available, torch.cuda.device_count, torch.xpu.is_available, torch.distributed.is_available,
    torch.backends.mps.is_available, torch.backends.mps.is_built, torch.amp.is_autocast_available,
})  # fmt: skip
"""Functions whose results need no guard of their own: they are guarded anyway, or never change in a process."""
for _function in dict.fromkeys(READS):
    if callable(_function):
        models_by_default(_function)(read_for_real(_function))


@models(torch.is_autocast_cache_enabled)
def is_autocast_cache_enabled(vm: TorchVM) -> Object:
    """The value that the program has set. The trace itself keeps the cache off."""
    inside = vm.graph.modes.autocast_cache_inside
    if inside is not None:
        return vm.const(inside)
    return vm.const(vm.guards.setting(torch.is_autocast_cache_enabled, (), vm.graph.modes.autocast_cache))


def folds_to(value: Any) -> Callable[..., Object]:
    """The model of a function with one answer inside a trace."""

    def fold(vm: VM, *args: Object, **kwargs: Object) -> Object:
        return vm.const(value)

    return fold


NOT_TOLD = ("torch.optim.", "torch.nn.modules.module")
"""Modules of torch that compute, or handle exceptions, in another way if they are told that they are compiled: here they do as in eager."""


@models(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
def is_compiling(vm: VM) -> Object:
    assert vm.frame is not None
    return vm.const(False) if str(vm.frame.globals.value.get("__name__")).startswith(NOT_TOLD) else answer(vm)


models(
    torch.compiler.is_exporting, torch.jit.is_scripting, torch._jit_internal.is_scripting, torch.jit.is_tracing, torch._C._is_tracing,
)(folds_to(False))  # fmt: skip


@named("torch.onnx", "is_in_onnx_export")
def is_in_onnx_export(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object:
    """The module of this function is imported when something first asks torch for it."""
    return vm.const(False)


models(torch._C._get_tracing_state, torch._C._log_api_usage_once)(folds_to(None))


# State that is switched.


@models(torch.set_anomaly_enabled)
def set_anomaly_enabled(vm: TorchVM, enabled: Object, check_nan: Object | None = None) -> Object:
    """While a trace runs, anomaly detection is off. If the program switches it on, what follows runs uncompiled."""
    checks_nan = True if check_nan is None else vm.observe(check_nan).constant(vm)
    if vm.observe(enabled).constant(vm) is not False or checks_nan is not vm.guards.read(torch.is_anomaly_check_nan_enabled):
        vm.unsupported(breaks.GlobalStateUnsupported("anomaly detection"))
    return vm.const(None)


@models(torch.is_grad_enabled)
def is_grad_enabled(vm: TorchVM) -> Object:
    return vm.const(vm.graph.modes.is_grad_enabled())


@models(torch._C._set_grad_enabled)
def set_grad_enabled(vm: TorchVM, enabled: Object) -> Object:
    vm.graph.modes.set_grad_enabled(bool(vm.observe(enabled).constant(vm)))
    return vm.const(None)


@models(torch._C._set_default_dtype)
def set_default_dtype(vm: TorchVM, d: Object) -> Object:
    dtype = vm.observe(d).constant(vm)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        vm.unsupported(breaks.GlobalStateUnsupported(f"a default dtype of {dtype}"))
    if dtype is not vm.graph.modes.current.dtype and vm.graph.is_inner():
        vm.unsupported(breaks.GlobalStateUnsupported("torch.set_default_dtype in a function that an operator takes"))
    vm.graph.modes.set_default_dtype(dtype, in_graph=not vm.graph.is_one_autograd_node)
    return vm.const(None)


def attribute(vm: VM, obj: Object, name: str) -> Any:
    """A constant attribute of a context manager."""
    return vm.observe(abstract.getattr_(vm, obj, name)).constant(vm)


def check_entered_once(vm: TorchVM, owner: Object) -> None:
    """Stop the trace at an object that is entered again before it is left: in eager, it forgets what it has to put back in the end."""
    if vm.graph.modes.is_open(owner):
        vm.unsupported(breaks.GlobalStateUnsupported("entering a context again before it is left"))


@models(torch.inference_mode.__enter__)
def inference_mode_enter(vm: TorchVM, self: Object) -> Object:
    check_entered_once(vm, vm.observe(self))
    vm.graph.modes.enter_inference_mode(bool(attribute(vm, vm.observe(self), "mode")), vm.observe(self))
    return vm.const(None)


@models(torch.autocast.__enter__)
def autocast_enter(vm: TorchVM, self: Object) -> Object:
    self = vm.observe(self)
    check_entered_once(vm, self)
    device, dtype = attribute(vm, self, "device"), attribute(vm, self, "fast_dtype")
    if self.source is not None and not is_decorators_own(vm):
        note_outside(vm, self, device)
    vm.graph.modes.enter_autocast(device, dtype, bool(attribute(vm, self, "_enabled")), bool(attribute(vm, self, "_cache_enabled")), self)
    return self


def is_decorators_own(vm: TorchVM) -> bool:
    """Return whether `@torch.autocast(...)` enters its object around a call, which the program can't leave or look at."""
    assert vm.frame is not None
    return vm.frame.globals.value.get("__name__") == torch.amp.autocast_mode.__name__


def note_outside(vm: TorchVM, autocast: Object, device: str) -> None:
    """Store the settings outside of an autocast on it, as entering it does: an object from outside may be left, or looked at, by other code."""
    enabled, dtype = autocast_now(vm, device)
    for name, value in (("prev_cache_enabled", is_autocast_cache_enabled(vm)), ("prev", vm.const(enabled)), ("prev_fastdtype", vm.const(dtype))):
        abstract.setattr_(vm, autocast, name, value)


def autocast_now(vm: TorchVM, device: str) -> tuple[bool, Any]:
    """Return whether autocast is on for a type of devices, and its dtype. The dtype from before the call is guarded."""
    modes = vm.graph.modes
    before, now = (next(settings for settings in of.autocast if settings[0] == device) for of in (modes.initial, modes.current))
    vm.guards.setting(torch.get_autocast_dtype, (device,), before[2])
    return now[1], now[2]


@models(torch.inference_mode.__exit__)
def inference_mode_exit(vm: TorchVM, self: Object, *error: Object) -> Object:
    if not vm.graph.modes.exit_scope(vm.observe(self)):
        vm.unsupported(breaks.GlobalStateUnsupported("leaving an inference mode that was entered elsewhere, or out of order"))
    return vm.const(None)


@models(torch.autocast.__exit__)
def autocast_exit(vm: TorchVM, self: Object, *error: Object) -> Object:
    """autocast.__exit__. One that was entered before the trace, as after a graph break inside it, has saved the outside state."""
    modes, self = vm.graph.modes, vm.observe(self)
    if modes.exit_scope(self):
        return vm.const(False)
    if self.source is None or not modes.leave_autocast(
        attribute(vm, self, "device"), attribute(vm, self, "prev_fastdtype"), attribute(vm, self, "prev"), attribute(vm, self, "prev_cache_enabled"), self
    ):
        vm.unsupported(breaks.GlobalStateUnsupported("leaving an autocast that was entered elsewhere, or out of order"))
    return vm.const(False)


@models(torch.autograd.profiler.record_function.__enter__)
def record_function_enter(vm: TorchVM, self: Object) -> Object:
    """The profiler's context does nothing here: the profiler sees the compiled call as a whole."""
    vm.graph.modes.enter_nominally(self, torch.autograd.profiler.record_function.__enter__)
    return self


@models(torch.autograd.profiler.record_function.__exit__)
def record_function_exit(vm: TorchVM, self: Object, *exc: Object) -> Object:
    if not vm.graph.modes.exit_nominally(self):
        vm.unsupported(breaks.GlobalStateUnsupported("leaving a record_function out of order"))
    return vm.const(None)


# Checks.


@models(torch._check_with)
def check_with(vm: VM, error: Object, condition: Object, message: Object) -> Object:
    condition = vm.observe(condition)
    if isinstance(condition, TensorObject):
        vm.unsupported(breaks.DataDependent("torch._check of a tensor"))
    if isinstance(condition, UnbackedNumber) and condition.cls is bool and is_checked(vm, condition):
        return vm.const(None)
    if abstract.truth(vm, condition):
        return vm.const(None)
    message = vm.observe(message)
    text = vm.const("Expected cond to be True, but got False.") if message.cls is type(None) else abstract.call(vm, message, [])
    vm.raise_(vm.observe(error).constant(vm), text)


@models(torch._check_is_size)
def check_is_size(vm: VM, i: Object, message: Object | None = None, *, max: Object | None = None) -> Object:
    """Check a number that isn't known; the warning that this is deprecated isn't given. Other checks run natively, with the warning."""
    size = vm.observe(i)
    conditions = [operators.compare(vm, ">=", size, vm.const(0)), *([] if max is None else [operators.compare(vm, "<=", size, max)])]
    if not isinstance(size, UnbackedNumber) or not all(is_checked(vm, condition) for condition in conditions):
        vm.unsupported(breaks.UnsupportedCall("torch._check_is_size"))
    return vm.const(None)


# Functions that are refused, by name.

for _function in (torch.quantize_per_tensor, torch.quantize_per_channel, torch.quantize_per_tensor_dynamic):
    unsupported(breaks.UnsupportedValue("a quantized tensor"), _function)
