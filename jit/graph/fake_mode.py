"""The fake mode of a trace: torch's, but without the import of torch's own tracer, which ordinary tensors and operators don't need.

torch's mode imports its tracer for settings when it is made, for the types of sources when it makes a fake, and for settings when it runs an operator.
While nothing is symbolic, this mode makes the fakes of dense tensors, and runs ATen's operators on them, by the same steps. Everything else is left to torch's
own code.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor, peek_interpreter_stack
from torch._decomp import decomposition_table, meta_table
from torch._functorch import config
from torch._library import simple_registry
from torch._ops import OpOverload
from torch._subclasses import fake_impls, fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConverter, FakeTensorMode, in_kernel_invocation_manager
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nested._internal import nested_tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from framejit.graph.torch_sources import InputSource
from framejit.torch_state import peer
from framejit.torch_state.torch_classes import PLAIN_TENSORS

SETTINGS = ("TORCH_FAKE_TENSOR_DISPATCH_CACHE", "TORCH_FAKE_TENSOR_DISPATCH_CACHE_CROSSCHECK")
"""Variables of the environment that the settings for fake modes are read from. If they are set, torch reads them itself."""
NAMES_OF_INIT = frozenset({
    "log", "debug", "id", "super", "__init__", "FakeTensorConverter", "traceback", "extract_stack", "nested", "_internal", "nested_tensor",
    f"{peer.PEER}.config", "torch._functorch.config", "torch.nested._internal.nested_tensor", peer.PEER.partition(".")[2], "_functorch", "config", "_C",
    "_TorchDispatchModeKey", "FAKE", "fake_tensor_propagate_real_tensors", "fake_tensor_allow_unsafe_data_ptr_access", "fake_tensor_allow_meta",
    "fake_tensor_cache_enabled",
    "fake_tensor_cache_crosscheck_enabled", "_tensor_id_counter",
})  # fmt: skip
"""What torch's mode refers to when it is made, besides its fields."""
ARGUMENTS = frozenset({int, float, bool, complex, str, NoneType, torch.dtype, torch.device, torch.layout, torch.memory_format})
"""The types of an operator's arguments that aren't tensors and mean the same on fakes."""
UNNAMED = InputSource("a tensor")
"""The source of fakes whose sizes are constants: torch makes one of its own where it gets none, or takes the tensor's number for a constant."""


def make_fake_mode() -> FakeTensorMode:
    """A new fake mode for a trace in which nothing is symbolic. It is an instance of torch's own class, for which the rules of operators are registered."""
    fields = {} if peer.is_there() or any(name in os.environ for name in SETTINGS) else fields_of_mode()
    if fields and set(FakeTensorMode.__init__.__code__.co_names) <= NAMES_OF_INIT | fields.keys():
        mode = FakeTensorMode.__new__(FakeTensorMode)
        TorchDispatchMode.__init__(mode)
        mode.__dict__.update(fields)
    else:
        peer.bring()
        mode = FakeTensorMode(allow_non_fake_inputs=False)
    mode.fake_tensor_converter = TraceConverter(copy_data=mode.propagate_real_tensors)
    if not mode.propagate_real_tensors:
        mode.__dict__["dispatch"] = Dispatch(mode)
    return mode


def begin_symbols(mode: FakeTensorMode, env: ShapeEnv) -> None:
    """Let fakes of a mode have symbols from now on, and torch run all operators on them."""
    mode.shape_env, mode.static_shapes = env, False
    mode.__dict__.pop("dispatch", None)


class Dispatch:
    """Runs operators on the fakes of a mode, in the place of the method `dispatch` of torch's class."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = weakref.ref(mode)

    def __call__(self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> object:
        mode, kwargs = self._mode(), kwargs or {}
        assert mode is not None
        if is_ordinary(func):
            leaves = list(leaves_of(args, kwargs))
            if are_ordinary(mode, func, leaves):
                found = run(mode, func, args, kwargs, leaves)
                if found is not NotImplemented:
                    return found
        if func not in fake_tensor._DISPATCH_META_HANDLERS and func not in fake_tensor._DISPATCH_HANDLE_DIRECTLY:
            peer.bring()
        return FakeTensorMode.dispatch(mode, func, types, args, kwargs)


def are_ordinary(mode: FakeTensorMode, func: OpOverload, leaves: Sequence[Any]) -> bool:
    """Return whether an operator's arguments are fakes of a mode without known data, and constants."""
    has_fake = False
    for leaf in leaves:
        if type(leaf) is FakeTensor:
            has_fake = True
            if leaf.fake_mode is not mode or leaf.constant is not None or leaf.layout is not torch.strided:
                return False
            if getattr(leaf, "dispatch_keys", None) is not None:  # it stands for a tensor of MKL-DNN
                return False
        elif type(leaf) not in ARGUMENTS:
            return False
    return has_fake or bool(fake_impls._is_tensor_constructor(func))


def run(mode: FakeTensorMode, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], leaves: Sequence[object]) -> Any:
    """Run an ordinary operator, in the order in which torch looks for a way: a decomposition, an implementation for fakes, the kernel for meta tensors.
    NotImplemented: there is none, and torch runs the operator for real."""
    if func not in meta_table and not mode.cpp_meta_supports_symint(func):
        with mode:
            if func in decomposition_table and fake_tensor.torch_decomp_decompositions(func):
                return decomposition_table[func](*args, **kwargs)
            found = func.decompose(*args, **kwargs)
            if found is not NotImplemented:
                return found
    for implementation in implementations_of(func):
        found = implementation(mode, func, *args, **kwargs)
        if found is not NotImplemented:
            return found
    if not fake_impls.has_meta(func):
        return NotImplemented
    try:
        with in_kernel_invocation_manager(mode):
            found = func(*args, **kwargs)
    except NotImplementedError:
        return NotImplemented
    device: Any = kwargs.get("device")
    return mode.wrap_meta_outputs_with_default_device_logic(found, func, leaves, device=device)


def fields_of_mode() -> dict[str, Any]:
    """The fields of a new fake mode, as torch sets them while the settings of its own tracer are those that it comes with."""
    propagates = config.fake_tensor_propagate_real_tensors
    return {
        "allow_fallback_kernels": True, "allow_non_fake_inputs": False, "allow_scalar_outputs": False, "propagate_real_tensors": propagates,
        "fake_tensor_converter": None, "static_shapes": True, "shape_env": None, "allow_meta": config.fake_tensor_allow_meta,
        "_allow_unsafe_data_ptr_access": config.fake_tensor_allow_unsafe_data_ptr_access, "cache_enabled": not propagates, "cache_crosscheck_enabled": False,
        "in_kernel_invocation": False, "enter_stack": [], "_stack_trace": [], "_stack": None, "_mode_key": torch._C._TorchDispatchModeKey.FAKE,
        "nt_tensor_id_initial_count": nested_tensor._tensor_id_counter, "nt_tensor_id_counter": nested_tensor._tensor_id_counter,
    }  # fmt: skip


def leaves_of(args: Sequence[object], kwargs: Mapping[str, object]) -> Iterator[object]:
    """An operator's arguments, and the items of those that are lists."""
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, (list, tuple)):
            yield from leaves_of(arg, {})
        else:
            yield arg


@functools.cache
def is_ordinary(func: Any) -> bool:
    """Return whether this is an operator of ATen's that torch runs on fakes without special treatment: it isn't for `torch.tensor`, nor has someone registered
    an implementation for fakes."""
    if type(func) is not OpOverload or func.namespace != "aten" or func in FakeTensorMode.lift_fns:
        return False
    if func in fake_tensor._DISPATCH_META_HANDLERS or func in fake_tensor._DISPATCH_HANDLE_DIRECTLY:
        return False
    return simple_registry.singleton.find(func.name()).fake_impl.kernel is None


@functools.cache
def implementations_of(func: OpOverload) -> tuple[Callable[..., Any], ...]:
    """torch's implementations of an operator for fakes."""
    return tuple([implementation for concerns, implementation in fake_impls.op_implementations_checks if concerns(func)])


class TraceConverter(FakeTensorConverter):
    """Makes fakes of real tensors."""

    def from_real_tensor(
        self,
        fake_mode: FakeTensorMode,
        t: torch.Tensor,
        make_constant: bool = False,
        shape_env: Any = None,
        *,
        source: Any = None,
        symbolic_context: Any = None,
        trace: bool = True,
    ) -> FakeTensor:
        """The fake of a real tensor, one for each."""
        if source is None:
            source, trace = UNNAMED, False
        if shape_env is None and symbolic_context is None and not make_constant and is_dense(t):
            known: FakeTensor | None = self._get_memo(t)
            made = self._fake_of_dense(fake_mode, t) if known is None else known
            if made is not None:
                return made
        peer.bring()
        return super().from_real_tensor(
            fake_mode, t, make_constant, shape_env, source=source, symbolic_context=symbolic_context, trace=trace
        )

    def _fake_of_dense(self, mode: FakeTensorMode, tensor: torch.Tensor) -> FakeTensor | None:
        """A new fake of a tensor that lies at the beginning of its memory; None if it doesn't, or if it shares its memory with another that has a fake."""
        memory = self.meta_converter
        described = memory.describer.describe_tensor(tensor)
        storage = described.storage
        if storage is None or described.storage_offset != 0 or storage.id in memory.storage_memo:
            return None
        with torch.inference_mode(tensor.is_inference()), no_dispatch():
            made = FakeTensor(mode, torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta"), tensor.device)
        if tensor.requires_grad:
            made.requires_grad = True
            if not tensor.is_leaf:
                with torch.inference_mode(tensor.is_inference()):
                    made = torch._C._functions.DelayedError("the gradient goes on outside of the graph", 1)(made)  # type: ignore[assignment]
        memory.set_storage_memo(storage, made.untyped_storage())
        if storage.size == 0:
            made.untyped_storage().resize_(0)
        if type(tensor) is torch.nn.Parameter:
            made._is_param = True
        memory.set_tensor_memo(described, made)
        return made


def is_dense(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has nothing but data in its own memory, and maybe an autograd record."""
    if not any(type(tensor) is cls for cls in PLAIN_TENSORS) or tensor.layout is not torch.strided or tensor.device.type == "meta":
        return False
    if tensor._is_view() or tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg():
        return False
    if torch._is_functional_tensor(tensor) or peek_interpreter_stack() is not None or is_functorch_wrapped_tensor(tensor):
        return False
    if tensor.requires_grad and tensor.is_leaf and getattr(tensor, "grad_dtype", tensor.dtype) != tensor.dtype:
        return False
    return "_is_buffer" not in tensor.__dict__ and (not tensor.is_leaf or tensor.grad is None) and not tensor.retains_grad
