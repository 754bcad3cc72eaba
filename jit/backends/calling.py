"""Calling conventions: boxed callables, which take one list and may empty it, so that inputs are freed as early as in eager code."""

from __future__ import annotations

import inspect
import linecache
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, TracebackType
from typing import Any, NoReturn, Protocol

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.amp.autocast_mode import _enter_autocast
from torch.autograd.grad_mode import _enter_inference_mode
from torch.autograd.graph import Node
from torch.fx import graph_module
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.graph import _BoxedCodeGen

from framejit.backends.ecosystem import patch_preserve_rng_state
from framejit.backends.registry import Backend
from framejit.errors import BackendError, FramejitError
from framejit.graph.global_modes import Modes
from framejit.graph.tokens import standing_for
from framejit.process import underway
from framejit.torch_state.saved_tensor_hooks import push_saved_tensor_hooks, take_off_later_hooks, top_hooks
from framejit.torch_state.torch_classes import as_class
from framejit.torch_state.torch_function_stack import put, take
from framejit.torch_state.torch_modes import autocast_depth, autocast_of, leave_autocast, set_autocast

MODE_SWITCHES = frozenset(
    {torch._C._set_grad_enabled, torch._C._set_default_dtype, _enter_autocast, set_autocast, _enter_inference_mode, push_saved_tensor_hooks}
)


def boxed_forward(gm: fx.GraphModule) -> Callable[[list[Any]], Any]:
    """The graph's generated code in boxed form; `gm` itself is changed to that form."""
    gm.graph.set_codegen(_BoxedCodeGen())
    gm.recompile()
    _LazyGraphModule.force_recompile(gm)  # one that generates its code lazily would go through a slower path at each call
    weakref.finalize(gm, forget_source, gm.forward.__code__.co_filename)
    return gm.forward


def forget_source(filename: str) -> None:
    """Drop the source text of a graph that has been freed: torch.fx and linecache would keep it for ever, for tracebacks."""
    graph_module._loader.eval_cache.pop(filename, None)
    linecache.cache.pop(filename, None)


def restoring(fn: Callable[..., Any], switches: Sequence[fx.Node], modes: Modes) -> Callable[..., Any]:
    """`fn`, whose graph has these mode switches, made to restore the modes if it raises half-way, as `with` blocks do."""
    devices = tuple({str(node.args[0]) for node in switches if node.target in (_enter_autocast, set_autocast)})

    def run(*args: Any) -> Any:
        autocast = autocast_of(devices)
        depth = autocast_depth()
        hooks = top_hooks()
        try:
            return fn(*args)
        except BaseException as error:
            take_off_later_hooks(hooks)
            leave_inference_modes(error.__traceback__)
            leave_autocast(autocast, depth)
            torch._C._set_default_dtype(modes.dtype)
            torch._C._set_grad_enabled(modes.grad)
            raise

    return run


class Spent(torch.autograd.Function):
    """Gives a tensor an autograd record that can't be differentiated, like that of a result whose `backward()` has freed what it needed, or for which that
    has been changed in place since. `error`: the message that autograd then raises."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, anchor: torch.Tensor, error: str) -> torch.Tensor:
        ctx.mark_dirty(tensor)
        ctx.error = error
        return tensor

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> NoReturn:
        raise RuntimeError(ctx.error)


def spending(fn: Callable[..., Any], spent: Mapping[int, str]) -> Callable[..., Any]:
    """`fn`, whose results with these indices require a gradient but can no longer be differentiated, with this error."""
    anchor = torch.empty(0, requires_grad=True)

    def run(*args: Any) -> Any:
        results = list(fn(*args))
        with torch.enable_grad():
            for index, error in spent.items():
                results[index] = Spent.apply(results[index], anchor, error)
        return results

    return run


def with_draws_put_back(fn: Callable[..., Any], generators: Sequence[Any]) -> Callable[..., Any]:
    """`fn`, made to restore random number generators if it raises half-way. They have the methods `get_state` and `set_state` of torch's."""

    def run(*args: Any) -> Any:
        before = [generator.get_state() for generator in generators]
        try:
            return fn(*args)
        except BaseException:
            for generator, state in zip(generators, before):
                generator.set_state(state)
            raise

    return run


def with_data_put_back(fn: Callable[..., Any], boxed: bool, indices: Sequence[int]) -> Callable[..., Any]:
    """`fn`, made to give the inputs with these indices their old data and versions back if it raises half-way."""

    def run(*args: Any) -> Any:
        inputs = args[0] if boxed else args
        changed = [inputs[index] for index in indices]
        copies = [tensor.detach().clone() for tensor in changed]
        counted = tuple([tensor for tensor in changed if not tensor.is_inference()])
        versions = tuple([tensor._version for tensor in counted])
        try:
            return fn(*args)
        except BaseException:
            with torch.inference_mode():  # in which inference tensors, and leaves that require a gradient, may be changed
                for tensor, copy in zip(changed, copies):
                    tensor.copy_(copy)
            torch._C._autograd._unsafe_set_version_counter(counted, versions)
            raise

    return run


def leave_inference_modes(trace: TracebackType | None) -> None:
    """End the inference modes that frames of graphs, kept alive by the traceback, would hold open."""
    for frame, _ in reversed(list(traceback.walk_tb(trace))):
        if frame.f_code.co_filename.startswith("<eval_with_key>"):
            for value in reversed(list(frame.f_locals.values())):
                if isinstance(value, torch._C._InferenceMode):
                    value.__exit__(None, None, None)


def unbox(fn: Callable[..., Any]) -> tuple[Callable[..., Any], bool]:
    """The callable that a backend returned, in boxed form if it has one, and whether it is boxed.

    AOTAutograd wraps its boxed callable in a function that takes positional arguments (whose `_boxed_call` is wrong: it was copied
    by functools.wraps), and the backend may have wrapped that once more. Its innards are used only if they look as expected.
    """
    layer: Any = fn
    for _ in range(3):
        if not isinstance(layer, FunctionType):
            break
        if layer.__code__.co_name == "forward" and layer.__module__ == "torch._functorch.aot_autograd" and _is_variadic(layer):
            closure = inspect.getclosurevars(layer).nonlocals
            inner, prefix = closure.get("compiled_fn"), closure.get("params_buffers_flat")
            if callable(inner) and isinstance(prefix, list) and getattr(inner, "_boxed_call", False):
                return (_with_prefix(inner, prefix) if prefix else inner), True
            return fn, False
        layer = getattr(layer, "__wrapped__", None)
    return fn, bool(getattr(fn, "_boxed_call", False)) and not _is_variadic(fn)


def _is_variadic(fn: Any) -> bool:
    code = getattr(fn, "__code__", None)
    return code is not None and bool(code.co_flags & inspect.CO_VARARGS)


def _with_prefix(inner: Callable[[list[Any]], Any], prefix: list[Any]) -> Callable[[list[Any]], Any]:
    """`inner` with the graph module's own tensors put before the inputs."""

    def call(args: list[Any]) -> Any:
        full = [*prefix, *args]
        args.clear()
        return inner(full)

    return call


def dropping(fn: Callable[..., Any], boxed: bool, kept: Sequence[int]) -> Callable[[list[Any]], Any]:
    """A boxed callable that takes all inputs and passes the `kept` ones to `fn`."""

    def call(args: list[Any]) -> Any:
        rest = [args[i] for i in kept]
        args.clear()
        return fn(rest) if boxed else fn(*rest)

    return call


def with_plain(fn: Callable[..., Any], boxed: bool, indices: Sequence[int]) -> Callable[..., Any]:
    """`fn`, which gets the inputs with these indices, which are of classes with `__torch_function__`, as plain tensors."""

    def run(*args: Any) -> Any:
        inputs = args[0] if boxed else list(args)
        for index in indices:
            inputs[index] = as_class(inputs[index], torch.Tensor)
        return fn(inputs) if boxed else fn(*inputs)

    return run


def with_states(fn: Callable[..., Any], boxed: bool, indices: Sequence[int]) -> Callable[..., Any]:
    """`fn`, which gets tensors for the inputs with these indices: the states of generators, and tokens of modules and tensors."""

    def run(*args: Any) -> Any:
        inputs = args[0] if boxed else list(args)
        for index in indices:
            inputs[index] = standing_for(inputs[index])
        return fn(inputs) if boxed else fn(*inputs)

    return run


class CheckOfBackward(Protocol):
    """The conditions on which a backward pass depends."""

    def hold(self) -> Any:
        """The object that must be kept alive until the backward pass."""

    def check(self) -> None:
        """Raise RuntimeError if something has changed."""


def with_check_of_backward(fn: Callable[..., Any], boxed: bool, mutated: Sequence[int], checks: CheckOfBackward) -> Callable[..., Any]:
    """`fn`, with a check when autograd reaches one of its results, or an input with one of these indices, which it changes in place."""

    def run(*args: Any) -> Any:
        inputs = args[0] if boxed else args
        changed = [inputs[index] for index in mutated]
        results = fn(*args)
        held = checks.hold()

        def check(gradients: Any, held: Any = held) -> None:
            checks.check()

        for node in {node_of(tensor) for tensor in (*results, *changed) if isinstance(tensor, torch.Tensor)}:
            if node is not None:
                node.register_prehook(check)
        return results

    return run


def node_of(tensor: torch.Tensor) -> Node | None:
    """The node of autograd that made a tensor; None for a leaf, and for a view that autograd refuses, since its base has been changed."""
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def without_overrides(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, in which no class of tensors overrides torch's functions: its operators are what remains after all overrides have been asked."""

    def run(*args: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return fn(*args)

    return run


def without_function_modes(fn: Callable[..., Any], count: int) -> Callable[..., Any]:
    """`fn`, which runs without the innermost `count` of torch's function modes: they were asked while it was traced."""

    def run(*args: Any) -> Any:
        taken = take(count)
        try:
            return fn(*args)
        finally:
            put(taken)

    return run


def call_backend(backend: Backend, gm: fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """The callable that a backend makes of a graph. Raises BackendError if the backend raises, or gives something that can't be called."""
    if not backend.trusted:
        _LazyGraphModule.force_recompile(gm)  # a `gm.forward` taken before its code exists would be slow at each call
    if underway.is_beside() and (backend.takes.one_autograd_node or not backend.trusted):
        patch_preserve_rng_state()
    try:
        fn = backend.call(gm, examples, **backend.kwargs)
    except FramejitError:
        raise
    except Exception as error:
        raise BackendError(backend.name, f"raised {type(error).__name__}: {error}") from error
    if not callable(fn):
        raise BackendError(
            backend.name, f"returned {fn!r} of type {type(fn).__name__}; it must return a callable that runs the graph it was given"
        )
    return fn


def forget_tensors(mode: FakeTensorMode | None) -> None:
    """Drop a mode's weak references to real tensors: `torch.utils.swap_tensors` rejects a tensor that has any."""
    if mode is not None:
        mode.fake_tensor_converter.meta_converter.describer.lookup_tensor.clear()


def checked(fn: Callable[..., Any], backend: str, outputs: int) -> Callable[..., Any]:
    """`fn`, from a backend of others, with a check that it returns a tuple or list with as many outputs as the graph has.

    Its attribute `_framejit_unchecked` holds `fn`, and the function that raises for a wrong result, for callers that check by themselves.
    """

    def reject(result: Any) -> NoReturn:
        got = f"{len(result)} outputs" if isinstance(result, (tuple, list)) else f"a {type(result).__name__}"
        raise BackendError(backend, f"made a callable that returned {got}; the graph has a tuple of {outputs} outputs")

    def call(*args: Any) -> Any:
        result = fn(*args)
        if (type(result) is tuple or isinstance(result, (tuple, list))) and len(result) == outputs:
            return result
        reject(result)

    call._framejit_unchecked = fn, reject  # type: ignore[attr-defined]
    return call
