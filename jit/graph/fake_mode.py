"""The fake mode of a trace: torch's, but without the import of torch's own tracer, which ordinary tensors and operators don't need.

torch's mode imports its tracer for settings when it is made, for the types of sources when it makes a fake, and for settings when it runs an operator.
While nothing is symbolic, this mode makes the fakes of dense tensors, and runs ATen's operators on them, by the same steps. Everything else is left to torch's
own code.
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch._C._functorch import is_functorch_wrapped_tensor, peek_interpreter_stack
from torch._decomp import decomposition_table, meta_table
from torch._functorch import config
from torch._library import simple_registry
from torch._ops import OpOverload
from torch._subclasses import fake_impls, fake_tensor, meta_utils
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConverter, FakeTensorMode, in_kernel_invocation_manager
from torch.nested._internal import nested_tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from framejit.graph.cast_views import make_cast_views
from framejit.graph.fake import TORCHS_OPERATORS
from framejit.graph.fake_views import PERMUTE, gives_views, permuted, views_of
from framejit.graph.new_fakes import new_fake
from framejit.graph.prune import draws
from framejit.graph.torch_sources import InputSource
from framejit.process import underway
from framejit.process.when_needed import is_loaded
from framejit.torch_state import peer
from framejit.torch_state.operator_exceptions import DECOMPOSED_ON_ANY_DEVICE, TAKE_ANY_DEVICE
from framejit.torch_state.torch_classes import is_plain

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

DISTRIBUTED = "torch.distributed.tensor"
"""The package of distributed tensors. To learn the device of a fake, torch imports it where no mode is on, which takes longer than a small trace."""
COPY = torch.ops.aten.copy_.default
LAYER_NORM = torch.ops.aten.native_layer_norm.default
KEPT_BY_LAYER_NORM = (torch.float32, torch.float64)
"""The dtypes of inputs whose statistics have the same dtype on all devices."""
SETTINGS = ("TORCH_FAKE_TENSOR_DISPATCH_CACHE", "TORCH_FAKE_TENSOR_DISPATCH_CACHE_CROSSCHECK")
"""Variables of the environment that the settings for fake modes are read from. If they are set, torch reads them itself."""
NAMES_OF_INIT = frozenset({
    "log", "debug", "id", "super", "__init__", "FakeTensorConverter", "traceback", "extract_stack", "nested", "_internal", "nested_tensor",
    f"{peer.PEER}.config", "torch._functorch.config", "torch.nested._internal.nested_tensor", peer.PEER.partition(".")[2], "_functorch", "config", "_C",
    "_TorchDispatchModeKey", "FAKE", "fake_tensor_propagate_real_tensors", "fake_tensor_allow_unsafe_data_ptr_access", "fake_tensor_allow_meta",
    "fake_tensor_cache_enabled",
    "fake_tensor_cache_crosscheck_enabled", "_tensor_id_counter",
})  # fmt: skip
"""The names that `FakeTensorMode.__init__` may refer to, besides the mode's fields. If it refers to others, `make_fake_mode` calls it."""
DEVICE, META = torch.ops.prim.device.default, torch.device("meta")
"""The operator that gives a tensor's device, which Python's bindings of torch's operators ask for, and its answer inside of kernels."""
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
    make_cast_views(mode)
    mode.__dict__["dispatch"] = DrawsSeen(mode)
    if not mode.propagate_real_tensors:
        mode.__dict__["_dispatch_impl"] = Dispatch(mode)
    return mode


def begin_symbols(mode: FakeTensorMode, env: ShapeEnv) -> None:
    """Let fakes of a mode have symbols from now on, and torch run all operators on them."""
    mode.shape_env, mode.static_shapes = env, False
    mode.__dict__.pop("_dispatch_impl", None)


class DrawsSeen:
    """Notes whether an operator that has run on the fakes of a mode may draw from torch's CPU generator. It stands in for the mode's method `dispatch`."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = weakref.ref(mode)
        self.any = False

    def __call__(self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> object:
        mode = self._mode()
        assert mode is not None
        if func is DEVICE and type(args[0]) is FakeTensor:
            return META if args[0].fake_mode.in_kernel_invocation else args[0].fake_device
        kwargs = kwargs or {}
        if gives_views(func) and type(mode.__dict__.get("_dispatch_impl")) is Dispatch:
            found = views_of(mode, func, args, kwargs)
            if found is not NotImplemented:
                return found  # type: ignore[no-any-return]
        if not self.any and may_draw(func):
            self.any = type(func) is not OpOverload or draws(func, args, kwargs)
        return FakeTensorMode.dispatch(mode, func, types, args, kwargs)


@functools.cache
def may_draw(func: Any) -> bool:
    """Return whether an operator may draw random numbers: torch tags those of its own that do; others may do anything."""
    return type(func) is not OpOverload or func.namespace not in TORCHS_OPERATORS or torch.Tag.nondeterministic_seeded in func.tags


class Dispatch:
    """Runs operators on the fakes of a mode, in the place of the method `_dispatch_impl` of torch's class. torch's caches are around it."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = weakref.ref(mode)

    def __call__(self, func: Any, types: Sequence[type], args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        mode = self._mode()
        assert mode is not None
        if func in mode.lift_fns and len(args) == 1 and not kwargs and type(args[0]) is torch.Tensor:
            return constant_of(mode, func(*args))
        if is_ordinary(func):
            leaves = list(leaves_of(args, kwargs))
            if are_ordinary(mode, func, leaves):
                mode.invalidate_written_to_constants(func, [leaf for leaf in leaves if type(leaf) is FakeTensor], args, kwargs)
                found = run(mode, func, args, kwargs, leaves)
                if found is not NotImplemented:
                    return found
        peer.bring()
        return FakeTensorMode._dispatch_impl(mode, func, types, args, kwargs)  # type: ignore[arg-type]


def constant_of(mode: FakeTensorMode, tensor: torch.Tensor) -> FakeTensor:
    """The fake of a tensor that `torch.tensor` has made. If it is small, its data is known."""
    if not mode.may_turn_const(tensor):
        return mode.fake_tensor_converter.from_real_tensor(mode, tensor)
    with no_dispatch():
        copy = tensor.clone()
    return mode.fake_tensor_converter.from_real_tensor(mode, copy, make_constant=True)


def are_ordinary(mode: FakeTensorMode, func: OpOverload, leaves: Sequence[Any]) -> bool:
    """Return whether an operator's arguments are fakes of a mode, not all with known data, and constants."""
    fakes = [leaf for leaf in leaves if type(leaf) is FakeTensor]
    for fake in fakes:
        if fake.fake_mode is not mode or fake.layout is not torch.strided:
            return False
        if getattr(fake, "dispatch_keys", None) is not None:  # it stands for a tensor of MKL-DNN
            return False
    if any(type(leaf) not in ARGUMENTS for leaf in leaves if type(leaf) is not FakeTensor):
        return False
    return any(fake.constant is None for fake in fakes) if fakes else not takes_tensors(func)


@functools.cache
def takes_tensors(func: OpOverload) -> bool:
    """Return whether a tensor may be among an operator's arguments."""
    return any(fake_impls.contains_tensor_types(argument.type) for argument in func._schema.arguments)


def run(mode: FakeTensorMode, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], leaves: Sequence[object]) -> Any:
    """Run an ordinary operator, in the order in which torch looks for a way: a decomposition, an implementation for fakes, the kernel for meta tensors.
    NotImplemented: there is none, and torch runs the operator for real."""
    if is_decomposed_on_any_device(func) or (func is LAYER_NORM and getattr(args[0], "dtype", None) in KEPT_BY_LAYER_NORM):
        found = kernels_result(mode, func, args, kwargs)
        return mode.wrap_meta_outputs_with_default_device_logic(found, func, leaves, device=None)
    if func not in meta_table and not mode.cpp_meta_supports_symint(func):
        with mode:
            if func in decomposition_table and fake_tensor.torch_decomp_decompositions(func):
                return decomposition_table[func](*args, **kwargs)
            found = func.decompose(*args, **kwargs)
            if found is not NotImplemented:
                return found
    if has_own_meta(func):
        with mode:
            return func.prim_meta_impl(*args, **kwargs)
    if func is COPY:  # torch's implementation runs the kernel, too
        found = run_on_plain(mode, func, args, kwargs)
        if found is not NotImplemented:
            return found
    for implementation in implementations_of(func):
        with mode if consists_of_others(func) else contextlib.nullcontext():
            found = implementation(mode, func, *args, **kwargs)
        if found is not NotImplemented:
            return found
    if not fake_impls.has_meta(func):
        return NotImplemented
    try:
        found = run_on_plain(mode, func, args, kwargs)
        if found is NotImplemented:
            with in_kernel_invocation_manager(mode):
                found = func(*args, **kwargs)
    except NotImplementedError:
        return NotImplemented
    device: Any = kwargs.get("device")
    return mode.wrap_meta_outputs_with_default_device_logic(found, func, leaves, device=device)


def run_on_plain(mode: FakeTensorMode, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator's kernel for tensors on the device `meta` in the place of the fakes. Returns NotImplemented if the kernel
    must run on the fakes themselves, since the result shares their memory or depends on their device, and where torch's distributed tensors have been imported,
    so that there is no import to avoid."""
    if is_loaded(DISTRIBUTED):
        return NotImplemented
    if func is PERMUTE and len(args) == 2 and (numbers := permuted(*args)) is not None:
        with mode:
            return args[0].as_strided(*numbers)
    if not (is_functional(func) or fills_first(func)) or not takes_plain(func):
        return NotImplemented
    found = kernels_result(mode, func, args, kwargs)
    if not fills_first(func):
        return found
    return args[0] if (found.size(), found.stride()) == (args[0].size(), args[0].stride()) else NotImplemented


def kernels_result(mode: FakeTensorMode, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator's kernel for tensors on the device `meta`."""
    with in_kernel_invocation_manager(mode):
        return func(*map(plain, args), **{name: plain(arg) for name, arg in kwargs.items()})


@functools.cache
def is_functional(func: OpOverload) -> bool:
    """Return whether an operator's results share no memory with its arguments, and it changes none of them."""
    values = (*func._schema.arguments, *func._schema.returns)
    return torch.Tag.inplace_view not in func.tags and all(value.alias_info is None for value in values)


@functools.cache
def fills_first(func: OpOverload) -> bool:
    """Return whether an operator changes nothing but the elements of its first argument, which is its result."""
    written, *others = (value.alias_info for value in func._schema.arguments)
    is_written = written is not None and written.is_write and len(func._schema.returns) == 1 and torch.Tag.inplace_view not in func.tags
    return is_written and others.count(None) == len(others) and func.namespace == "aten"


@functools.cache
def is_decomposed_on_any_device(func: OpOverload) -> bool:
    """Return whether an operator's decomposition gives for tensors on the device `meta` what it gives for fakes, on which it takes several times as long."""
    return func._overloadname == "default" and func._schema.name.removeprefix("aten::") in DECOMPOSED_ON_ANY_DEVICE


def takes_plain(func: OpOverload) -> bool:
    """Return whether an operator's kernel for tensors without data is the same for all devices. torch's table has those that ask for the device of a fake."""
    return func not in meta_table or func._schema.name.removeprefix("aten::") in TAKE_ANY_DEVICE


def plain(arg: Any) -> Any:
    """An argument of an operator, with tensors on the device `meta` in the place of fakes."""
    if isinstance(arg, (list, tuple)):
        return [plain(item) for item in arg]
    if type(arg) is not FakeTensor or arg.is_conj() or arg.is_neg():
        return arg
    return torch.empty_strided(arg.size(), arg.stride(), dtype=arg.dtype, device="meta")


@functools.cache
def is_view(func: OpOverload) -> bool:
    """Return whether an operator's result lies in the memory of its first argument."""
    alias = func._schema.arguments[0].alias_info if func._schema.arguments else None
    return alias is not None and not alias.is_write


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


def is_ordinary(func: Any) -> bool:
    """Return whether torch runs an operator on fakes without special treatment: it is one of ATen's, or of those that decompositions consist of."""
    if type(func) is not OpOverload or func in FakeTensorMode.lift_fns:
        return False
    if func.namespace == "aten":
        return simple_registry.singleton.find(func.name()).fake_impl.kernel is None
    return has_own_meta(func)


def has_own_meta(func: OpOverload) -> bool:
    """Return whether an operator that decompositions consist of says itself what its result is on fakes."""
    return func.namespace == "prims" and hasattr(func, "prim_meta_impl") and not fake_impls.stride_incorrect_op(func)


def consists_of_others(func: OpOverload) -> bool:
    """Return whether the implementation of an operator for fakes is made of other operators on them. Where a fake mode isn't on, such an operator looks first
    whether a fake is a distributed tensor, and imports that class."""
    return is_view(func) or getattr(fake_impls.op_implementations_dict.get(func), "__module__", None) == "torch._refs"


def implementations_of(func: OpOverload) -> Iterator[Callable[..., Any]]:
    """torch's implementations of an operator for fakes."""
    return (implementation for concerns, implementation in fake_impls.op_implementations_checks if concerns(func))


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
        if shape_env is None and symbolic_context is None:
            known: FakeTensor | None = self._get_memo(t)
            made = self._fake_of(fake_mode, t, t if make_constant else None) if known is None else known
            if made is not None:
                return made
        peer.bring()
        with without_gradients() if symbolic_context is not None else contextlib.nullcontext():
            return super().from_real_tensor(
                fake_mode, t, make_constant, shape_env, source=source, symbolic_context=symbolic_context, trace=trace
            )

    def _fake_of(self, mode: FakeTensorMode, tensor: torch.Tensor, constant: torch.Tensor | None) -> FakeTensor | None:
        """A new fake of a dense tensor, or of a view of one that autograd doesn't record. None for others."""
        if not is_dense(tensor):
            return None
        base = tensor._base if tensor._is_view() else None
        if base is None:
            return self._fake_of_base(mode, tensor, constant)
        if constant is not None or not is_dense(base) or base.dtype != tensor.dtype or base.requires_grad or tensor.requires_grad or base.is_inference():
            return None
        known: FakeTensor | None = self._get_memo(base)
        whole = self._fake_of_base(mode, base, None) if known is None else known
        return None if whole is None else self._fake_of_view(tensor, whole)

    def _fake_of_base(self, mode: FakeTensorMode, tensor: torch.Tensor, constant: torch.Tensor | None) -> FakeTensor | None:
        """A new fake of a tensor that lies at the beginning of its memory; None if it doesn't, or if it shares its memory with another that has a fake."""
        memory = self.meta_converter
        storage = tensor.untyped_storage()
        number = number_of(memory.describer, "storage", storage)
        if tensor.storage_offset() != 0 or number in memory.storage_memo:
            return None
        with as_inference(tensor), no_dispatch():
            elem = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
            made = new_fake(mode, elem, tensor.device)
        made.constant = constant
        if tensor.requires_grad:
            with as_inference(tensor):
                made.requires_grad = True
                if not tensor.is_leaf:
                    made = torch._C._functions.DelayedError("the gradient goes on outside of the graph", 1)(made)  # type: ignore[assignment]
        memory.storage_memo[number] = made.untyped_storage()
        if storage.size() == 0:
            made.untyped_storage().resize_(0)
        if type(tensor) is torch.nn.Parameter:
            made._is_param = True
        memory.tensor_memo[number_of(memory.describer, "tensor", tensor)] = made
        if constant is not None:
            self.add_constant_storage_mapping(made)
        return made

    def _fake_of_view(self, view: torch.Tensor, base: FakeTensor) -> FakeTensor:
        """A new fake of a view without an autograd record, by the fake of its base."""
        with torch.no_grad(), base.fake_mode:
            made: Any = base.as_strided(view.size(), view.stride(), view.storage_offset())
        torch._C._autograd._set_creation_meta(made, torch._C._autograd._get_creation_meta(view))
        made.fake_device = view.device
        self.set_tensor_memo(view, made)
        return made  # type: ignore[no-any-return]


def number_of(describer: meta_utils.MetaTensorDescriber, what: Literal["tensor", "storage"], value: Any) -> Any:
    """The number that torch knows a tensor or a storage by; a new one if it doesn't. Its own methods look for the value three times."""
    known: Any = getattr(describer, f"lookup_{what}")
    number = known.get(value)
    if number is None:
        number = known[value] = getattr(describer, f"next_{what}_id")
        setattr(describer, f"next_{what}_id", number + 1)
    return number


def as_inference(tensor: torch.Tensor) -> contextlib.AbstractContextManager[object]:
    """A block in which tensors are made as inference tensors if this one is one, and as ordinary ones otherwise."""
    return _AS_IT_IS if tensor.is_inference() == torch.is_inference_mode_enabled() else torch.inference_mode(tensor.is_inference())


_AS_IT_IS = contextlib.nullcontext()


def is_dense(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has nothing but data in its own memory, and maybe an autograd record."""
    if not is_plain(type(tensor)) or tensor.layout is not torch.strided or tensor.device.type == "meta":
        return False
    if tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg():
        return False
    if torch._is_functional_tensor(tensor) or peek_interpreter_stack() is not None or is_functorch_wrapped_tensor(tensor):
        return False
    if tensor.requires_grad and tensor.is_leaf and getattr(tensor, "grad_dtype", tensor.dtype) != tensor.dtype:
        return False
    return "_is_buffer" not in tensor.__dict__ and (not tensor.is_leaf or underway.is_beside() or tensor.grad is None) and not tensor.retains_grad


_LEAVES_OUT_GRADIENTS: ContextVar[bool] = ContextVar("leaves_out_gradients", default=False)


@contextlib.contextmanager
def without_gradients() -> Iterator[None]:
    """Let fakes of leaves have no gradients: if sizes are symbolic, those of a gradient would get other symbols, which no guard could read."""
    token = _LEAVES_OUT_GRADIENTS.set(True)
    try:
        yield
    finally:
        _LEAVES_OUT_GRADIENTS.reset(token)


def grad_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The gradient that the fake of a leaf gets too. None on a thread that compiles beside the program: a backward pass may be replacing it just now, in C++
    and without the GIL, and a trace reads gradients from outside along paths of their own."""
    return None if _LEAVES_OUT_GRADIENTS.get() or underway.is_beside() else torchs_grad_of(tensor)


torchs_grad_of = meta_utils.safe_grad
meta_utils.safe_grad = grad_of  # type: ignore[assignment]
