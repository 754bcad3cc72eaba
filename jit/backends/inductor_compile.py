"""Compiles graphs for the backend `inductor`, by torch's `compile_fx`, and checks the backend's modes and options."""

from __future__ import annotations

import contextlib
import functools
import types
import typing
import unittest.mock
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import _inductor, fx
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import config
from torch._inductor.codecache import CacheBase
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.custom_graph_pass import CustomPartitionerFn, get_hash_for_files
from torch._inductor.runtime import triton_compat
from torch._ops import OpOverload
from torch.compiler import config as config_of_compiler
from torch.utils._pytree import tree_leaves

from framejit import config as framejit_config
from framejit.backends import backward_passes, changed_inputs, memory
from framejit.backends.calling import unbox
from framejit.backends.checked_changes import change_after_checks
from framejit.backends.contexts import keep_saved_tensors, share_memory
from framejit.backends.ecosystem import compile_lock
from framejit.backends.inductor_code import CompiledPart, CompiledParts, InputsOnly, note_maker
from framejit.backends.inductor_patterns import patterns_that_leave
from framejit.backends.inductor_shortcuts import shortcuts
from framejit.backends.layouts import weights_outweigh
from framejit.backends.recompute import computes_again
from framejit.backends.regions.pieces import symbols_in
from framejit.backends.shared_numbers import compute_once
from framejit.backends.translation_units import together
from framejit.backends.view_geometry import has_offset
from framejit.errors import ConfigError, UnknownMode, UnknownOption, suggestion
from framejit.graph.fake import is_of_others
from framejit.graph.inner import nodes_inside
from framejit.process import underway
from framejit.process.warning_filters import version_kept

OWN_TAG = "framejit "
"""The prefix of the keys of Inductor's caches."""


def mode_options(mode: str) -> dict[str, Any]:
    """The options that `mode` stands for. Raises UnknownMode."""
    modes = _inductor.list_mode_options()
    if mode not in modes:
        raise UnknownMode(f"backend 'inductor' has no mode {mode!r}{suggestion(mode, modes, listing=True)}")
    return dict(modes[mode])


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` with torch's spelling of the names ('-' for '_' is accepted). Raises UnknownOption, ConfigError."""
    known = config.get_config_copy() if options else {}
    result = {}
    for name, value in options.items():
        key = str(name).replace("-", "_")
        if key not in known:
            raise UnknownOption(f"backend 'inductor' has no option {name!r}{suggestion(key, known)}")
        if not _fits(value, kind := config.get_type(key)):
            wanted = kind.__name__ if isinstance(kind, type) else str(kind)
            raise ConfigError(f"option {name!r} of backend 'inductor' is of type {wanted}; got {value!r} of type {type(value).__name__}")
        result[key] = value
    return result


def _fits(value: Any, kind: Any) -> bool:
    """Return whether `value` is of the annotated type `kind`, as far as this is visible without looking inside containers."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(kind))
    if origin is typing.Literal:
        return value in typing.get_args(kind)
    kind = origin or kind
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else True


@functools.cache
def describe_system() -> None:
    """Have Inductor's caches describe the machine, without the half second in which they hash Triton if no code can be made for Triton."""
    if torch.accelerator.is_available():
        return
    with unittest.mock.patch.object(triton_compat, "triton_key", lambda: None):
        CacheBase.get_system()


def compile_inductor(gm: fx.GraphModule, example_inputs: Sequence[Any], config_patches: Mapping[str, Any] | None = None) -> Any:
    """torch's `compile_fx`, on graphs without the parts that it compiles to a wrong result.

    AOTAutograd's cache doesn't distinguish how inputs overlap that share memory (torch 2.13), although the code for a graph that changes one of them
    depends on that. So graphs with such inputs are compiled without the cache. Nor does any of its caches record where inputs begin in their storages (see
    `offsets_in`), or the results of the fake implementations of custom operators (see `promises_in`).

    Runs under the lock under which torch compiles backward passes when they are first needed: two threads are never in Inductor at once. That lock is taken
    after framejit's own (`one_at_a_time.py`), and never before it.
    """
    patches = dict(config_patches or {})
    patches["custom_partitioner_fn"] = Partitioner(patches.get("custom_partitioner_fn", config.custom_partitioner_fn))
    shared = not functorch_config.view_replay_for_aliased_outputs or share_memory(example_inputs)  # the former: see backends/compile.py
    apart = offsets_in(gm, example_inputs) + promises_in(gm)
    parts = CompiledParts()
    inner = functools.partial(compile_inner, parts=parts, memories=memory.Memories.of(gm.graph), apart=apart, compilation=underway.current())
    # AOTAutograd's cache wouldn't tell what `note_maker` needs to know; Inductor's own is asked in any case. Code for other devices isn't kept.
    is_on_cpu = all(given.device.type == "cpu" for given in example_inputs if isinstance(given, torch.Tensor))
    settings: dict[str, Any] = {"enable_autograd_cache": False} if shared or (framejit_config.current().cache and is_on_cpu) else {}
    if underway.is_beside() or "cache" in framejit_config.current().checks():
        settings["force_non_lazy_backward_lowering"] = True  # else the program would wait for it at its first backward pass
    elif is_on_cpu and (passes := backward_passes.POSTPONED.get()) is not None and may_postpone(example_inputs, settings):
        settings["force_non_lazy_backward_lowering"] = True  # it is handed to `compile_inner` at once, which postpones it
        inner = functools.partial(inner, passes=passes, patches=patches)
    with compile_lock(), functorch_config.patch(settings), as_framejit_compiles(apart):
        describe_system()
        made = compile_fx(gm, example_inputs, inner_compile=inner, config_patches=patches)
    fn = unbox(made)[0]
    if type(fn) is types.FunctionType:
        note_maker(fn, parts, shared)
    return made


def may_postpone(inputs: Sequence[Any], settings: Mapping[str, Any]) -> bool:
    """Return whether the backward pass of a graph may wait for those of the graph's other pieces.

    Sizes that vary may get guards from it, which the forward pass has to know. AOTAutograd's cache would want its code at once, as does a program that has
    told AOTAutograd to compile it at once.
    """
    wants_code = settings.get("enable_autograd_cache", functorch_config.enable_autograd_cache) or functorch_config.force_non_lazy_backward_lowering
    return not wants_code and not symbols_in(inputs)


def offsets_in(gm: fx.GraphModule, inputs: Sequence[Any]) -> str:
    """The offsets of a graph's inputs in their storages, if its results depend on them: if it has views with offsets that count from there."""
    if not any(map(has_offset, nodes_inside(gm))):
        return ""
    return f"offsets {[value.storage_offset() for value in inputs if isinstance(value, torch.Tensor) and value.layout is torch.strided]} "


def promises_in(gm: fx.GraphModule) -> str:
    """The results of the program's own operators in a graph, according to their fake implementations. Inductor's code checks them, but the keys of its caches
    stay the same after a fake implementation has been corrected (torch 2.13)."""
    calls = [node for node in nodes_inside(gm) if isinstance(node.target, OpOverload) and is_of_others(node.target)]
    leaves = [(node.target, tree_leaves(node.meta.get("example_value"))) for node in calls]
    promised = [f"{operator}: {[promise(leaf) for leaf in found]}" for operator, found in leaves]
    return f"operators {promised} " if promised else ""


def promise(result: Any) -> str:
    """The facts that are known beforehand about a result of an operator."""
    if not isinstance(result, torch.Tensor):
        return type(result).__name__
    strides = result.stride() if result.layout is torch.strided else ()
    return f"{result.dtype} {tuple(result.shape)} {tuple(strides)} {result.device}"


@contextlib.contextmanager
def as_framejit_compiles(apart: str) -> Iterator[None]:
    """In force while Inductor compiles a graph, or loads it from its cache: the cache keeps code for framejit apart from torch.compile's, and
    code for graphs with another `apart` (see `compile_inductor`) from the code for this one."""
    tag = config_of_compiler.cache_key_tag
    tag = tag if tag.startswith(OWN_TAG) else OWN_TAG + apart + tag
    with config_of_compiler.patch(cache_key_tag=tag), together(), version_kept(), shortcuts(), patterns_that_leave():
        yield


class Partitioner(CustomPartitionerFn):
    """Divides a joint graph according to Inductor's own settings, but so that the backward graph takes no input that the forward graph changes."""

    def __init__(self, inner: CustomPartitionerFn | None) -> None:
        self.inner = inner

    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        partition = min_cut_rematerialization_partition if self.inner is None else self.inner
        forward, backward = changed_inputs.partition_with_copies(partition, gm, joint_inputs, **kwargs)
        memory.save_apart(forward, kwargs["num_fwd_outputs"])
        return forward, backward

    def uuid(self) -> Any:
        """The identity, in the keys of caches, of this way to divide graphs, and of this version of framejit."""
        return get_hash_for_files((__file__, changed_inputs.__file__, memory.__file__)), self.inner.uuid() if self.inner is not None else None


def compile_inner(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    memories: memory.Memories | None = None,
    apart: str = "",
    compilation: underway.Compilation | None = None,
    parts: CompiledParts | None = None,
    passes: backward_passes.BackwardPasses | None = None,
    patches: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """torch's `compile_fx_inner`, on a rewritten graph of ATen operators.

    `memories`: those of the inputs and results of the trace's graph; `apart`: see `as_framejit_compiles`; `compilation`: what the graph was traced in;
    `parts`: is told of the result; `passes`: where a backward pass waits to be compiled, with these `patches` of Inductor's settings.
    """
    context, is_backward = torch._guards.TracingContext.try_get(), bool(kwargs.get("is_backward"))
    metadata = context.fw_metadata if context is not None else None
    without = gradients_left_out(gm) if is_backward else ()
    if memories is not None and not is_backward and metadata is not None:
        memories.tell_apart(gm, metadata.num_mutated_inp_runtime_indices)

    compile_now = functools.partial(compile_rewritten, gm, example_inputs, apart, patches or {}, kwargs)

    def note(made: Any) -> None:
        if parts is not None:
            code = inputs_only(gm) if type(made) is types.FunctionType else made
            parts.add(CompiledPart(code, metadata, bool(kwargs.get("is_inference")), is_backward, without))

    if passes is not None and is_backward:
        return passes.postpone(compile_now, note)
    with underway.continued(compilation):
        made = compile_now()
    note(made)
    return made


def compile_rewritten(gm: fx.GraphModule, inputs: Sequence[Any], apart: str, patches: Mapping[str, Any], kwargs: Mapping[str, Any]) -> Any:
    """Inductor's code for a graph of ATen operators, which is rewritten first. `patches`: changes of Inductor's settings; the others: see `compile_inner`."""
    without_alpha(gm.graph)
    change_after_checks(gm.graph)
    compute_once(gm.graph)
    gm.recompile()
    settings = {"layout_optimization": False} if weights_outweigh(gm.graph) else {}
    if computes_again(gm.graph):  # that pass costs most of the memory that checkpoints save: docs/checkpointing.md
        settings["reorder_for_locality"] = False
    keep_saved_tensors()
    with config.patch({**patches, **settings}), as_framejit_compiles(apart):
        return compile_fx_inner(gm, inputs, **kwargs)


def inputs_only(gm: fx.GraphModule) -> InputsOnly | None:
    """The results of a graph without operators as indices of inputs; None for other graphs."""
    inputs = gm.graph.find_nodes(op="placeholder")
    results = gm.graph.output_node().args[0]
    if len(gm.graph.nodes) != len(inputs) + 1 or not isinstance(results, (tuple, list)) or not all(each is None or each in inputs for each in results):
        return None
    return InputsOnly(tuple(None if each is None else inputs.index(each) for each in results))


def gradients_left_out(backward: fx.GraphModule) -> tuple[int, ...]:
    """The inputs of a graph for which its backward pass computes no gradient."""
    return tuple(index for index, gradient in enumerate(backward.graph.output_node().args[0]) if gradient is None)


def without_alpha(graph: fx.Graph) -> None:
    """Write the factors of sums as separate products.

    Inductor makes one operator of a sum with a product of matrices, `p + alpha * (a @ b)`, and loses the factor (torch 2.13): as in the step of SGD
    on a weight whose gradient is such a product that isn't needed elsewhere.
    """
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
        alpha = node.kwargs.get("alpha", 1)
        values = [arg.meta.get("val") for arg in node.args if isinstance(arg, fx.Node)]
        dtypes = {value.dtype if isinstance(value, torch.Tensor) else None for value in values}
        if alpha != 1 and len(values) == 2 and len(dtypes) == 1 and all(dtype is not None and dtype.is_floating_point for dtype in dtypes):
            with graph.inserting_before(node):
                scaled = graph.call_function(torch.ops.aten.mul.Tensor, (node.args[1], alpha))
            scaled.meta = dict(node.args[1].meta)
            node.args, node.kwargs = (node.args[0], scaled), {}
