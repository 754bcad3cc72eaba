"""The things that AOTAutograd and Inductor need from a front end: contexts, a separate fake mode, example inputs, metadata on the graph."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import CompileContext, CompileId, DuplicateInputs, StorageOverlap, TracingContext, compile_context, tracing
from torch._subclasses import FakeTensorMode

from framejit.backends import recompute
from framejit.backends.ecosystem import require_torch
from framejit.backends.request import BackendGuard, GraphRequest, InputInfo, SameTensorGuard, ShapeGuard, StorageOverlapGuard
from framejit.graph.cast_views import make_cast_views
from framejit.graph.fake_mode import without_gradients
from framejit.graph.graph_inputs import has_symbolic_sizes
from framejit.graph.parts import PartsContext
from framejit.graph.rewrites import rewrite_for_aot_autograd
from framejit.graph.torch_sources import GraphAttributeSource, InputSource, TorchSource
from framejit.torch_state.symbols import symbolic_shapes

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import StatefulSymbolicContext

require_torch("contexts")


@dataclasses.dataclass(frozen=True)
class Contexts:
    """The contexts in force while the backend runs, from which its guards are collected."""

    tracing: TracingContext
    guards_before: int

    def guards(self, request: GraphRequest) -> list[BackendGuard]:
        """The guards that the backend relies upon, read after it has returned."""
        index = {info.source_name: i for i, info in enumerate(request.inputs)}
        guards: list[BackendGuard] = []
        for guard in self.tracing.guards_context.aotautograd_guards:
            if isinstance(guard, StorageOverlap):
                overlapping, separate = guard.overlapping_sources, guard.non_overlapping_sources
                guards.append(StorageOverlapGuard(_indices(overlapping, index), _indices(separate, index)))
            elif isinstance(guard, DuplicateInputs):
                guards += [SameTensorGuard(*_indices([guard.input_source_a, guard.input_source_b], index))]
            else:
                raise TypeError(f"the backend asked for a guard of a kind that framejit does not know: {guard!r}")
        if request.shape_env is not None:
            guards += [ShapeGuard(guard.expr) for guard in request.shape_env.guards[self.guards_before :]]
        return guards


def _indices(sources: list[Any], index: dict[str, int]) -> tuple[int, ...]:
    return tuple(index[source.name] for source in sources)


def share_memory(inputs: Sequence[Any]) -> bool:
    """Return whether two of the tensors, real or fake, share a storage."""
    tensors = [each for each in inputs if isinstance(each, torch.Tensor) and each.layout is torch.strided]
    return len({tensor.untyped_storage()._cdata for tensor in tensors}) < len(tensors)


@contextlib.contextmanager
def backend_contexts(request: GraphRequest) -> Iterator[Contexts]:
    """The contexts for one compilation.

    The fake mode is a new one on the same ShapeEnv: the trace's fakes have been through the graph's in-place operations, so they no
    longer describe the state in which the graph starts. If the trace couldn't take results from torch's cache, this mode can't.
    It is never cleared, because a backward pass that is compiled later uses it.
    A real example input needs a symbolic context, even if all sizes are constants: without one AOTAutograd makes them symbolic.
    """
    mode = FakeTensorMode(shape_env=request.shape_env)
    make_cast_views(mode)
    if request.fake_mode is not None:
        mode.cache_enabled = request.fake_mode.cache_enabled
    context = TracingContext(mode)
    context.module_context.nn_modules = dict(request.modules)
    for info, node in zip(request.inputs, request.gm.graph.find_nodes(op="placeholder"), strict=True):
        if isinstance(info.value, torch.Tensor) and not _is_faked_here(request, info):
            # The trace has made the base of a view with constant sizes. If only the base is in the graph, its sizes are no symbols for the backend either.
            fake = node.meta.get("example_value")
            is_made_so = info.symbolic_context is not None and (fake is None or info.is_wrapper or has_symbolic_sizes(fake))
            context.tensor_to_context[info.value] = info.symbolic_context if is_made_so else _all_static(info)
    compile_id = CompileId(frame_id=request.frame_id, frame_compile_id=request.frame_compile_id)
    before = len(request.shape_env.guards) if request.shape_env is not None else 0
    leaves_out = without_gradients() if request.shape_env is not None else contextlib.nullcontext()
    with tracing(context), compile_context(CompileContext(compile_id)), recompute.without_its_warning(), leaves_out:
        yield Contexts(context, before)


def _is_faked_here(request: GraphRequest, info: InputInfo) -> bool:
    """Return whether the backend gets the tensor as a fake one. One with symbolic sizes must be real, with its context, unless it is nested or sparse."""
    return isinstance(info.symbolic_context, PartsContext) or info.is_computed or (request.backend.inputs == "fake" and info.symbolic_context is None)


def _all_static(info: InputInfo) -> StatefulSymbolicContext:
    """The symbolic context of a tensor whose sizes are all constants."""
    require_torch("symbols")
    dims = info.value.dim()
    return symbolic_shapes.StatefulSymbolicContext(
        dynamic_sizes=[symbolic_shapes.DimDynamic.STATIC] * dims,
        dynamic_strides=[symbolic_shapes.DimDynamic.INFER_STRIDE] * dims,
        constraint_sizes=[None] * dims,
        constraint_strides=[None] * dims,
        tensor_source=InputSource(info.source_name),
        shape_env_to_source_to_symbol_cache={},
    )


def example_inputs(request: GraphRequest, context: Contexts) -> list[Any]:
    """The backend's example inputs: SymInts as the trace knows them, tensors as real ones or as fresh fakes of their present state."""
    mode = context.tracing.fake_mode
    assert mode is not None
    placeholders = request.gm.graph.find_nodes(op="placeholder")
    result: list[Any] = []
    for info, node in zip(request.inputs, placeholders, strict=True):
        if not isinstance(info.value, torch.Tensor):
            result.append(node.meta["example_value"])
        elif info.is_computed:
            with mode:
                result.append(stands_for(info.value))
        elif isinstance(info.symbolic_context, PartsContext):
            result.append(info.symbolic_context.make(mode, info.value))
        elif _is_faked_here(request, info):
            result.append(mode.from_tensor(info.value, static_shapes=True))
        else:
            result.append(info.value)
    return result


def stands_for(fake: torch.Tensor) -> torch.Tensor:
    """A new fake, in the fake mode that is in force, of a tensor that the program computes: it looks like another fake."""
    offset, size, stride = fake.storage_offset(), fake.size(), fake.stride()
    if type(offset) is int and offset == 0:
        made = torch.empty_strided(size, stride, dtype=fake.dtype, device=fake.device)
    else:
        reach = offset + 1 + sum((length - 1) * step for length, step in zip(size, stride))
        made = torch.empty((reach,), dtype=fake.dtype, device=fake.device).as_strided(size, stride, offset).detach()
    if not fake.requires_grad:
        return made
    with torch.enable_grad():
        return OfAPiece.apply(torch.empty(0, requires_grad=True), made)  # type: ignore[no-any-return,no-untyped-call]


class OfAPiece(torch.autograd.Function):
    """Gives a tensor a record. AOTAutograd detaches such inputs if no gradient reaches them; otherwise the piece that computes them would get zeros."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(tensor)
        return tensor


def annotate(request: GraphRequest) -> None:
    """Put metadata on the graph that AOTAutograd takes from its front end.

    It must be complete: if a part is missing, AOTAutograd's cache is bypassed and no input counts as static.
    """
    gm = request.gm
    gm.meta["dynamo_compile_id"] = CompileId(frame_id=request.frame_id, frame_compile_id=request.frame_compile_id)
    gm.meta["backend_id"] = request.name
    names: dict[str, str] = {}
    for node, info in zip(gm.graph.find_nodes(op="placeholder"), request.inputs, strict=True):
        node._dynamo_source = InputSource(info.source_name, info.origin)
        if info.static:
            # "unguarded": CUDA graphs compare the address, and record again if it has changed.
            node.meta["tensor_dict"] = {**node.meta.get("tensor_dict", {}), "_dynamo_static_input_type": "unguarded"}
        if info.is_parameter or info.is_buffer:
            names[node.name] = info.source_name
    gm.meta["dynamo_flat_name_to_original_fqn"] = names
    attributes = [*gm.named_parameters(remove_duplicate=False), *gm.named_buffers(remove_duplicate=False)]
    sources: dict[str, TorchSource] = {name: GraphAttributeSource(f"graph.{name}") for name, _ in attributes}
    gm._param_name_to_source = sources  # type: ignore[assignment]
    gm._source_to_user_stacks = {}  # type: ignore[assignment]
    recompute.mark(gm)
    rewrite_for_aot_autograd(gm)


def keep_saved_tensors() -> None:
    """Make the backward pass of the graph that is being compiled preserve the tensors that the forward pass has saved for it, so that it can run twice.

    Otherwise Inductor overwrites them (torch: "donated buffers"), unless the first backward pass is told to keep them (`retain_graph=True`). If a later one is,
    torch raises, with other backends too; and if the code for it comes from Inductor's cache on disk, its gradients are wrong (torch 2.13).
    """
    context = TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        context.fw_metadata.bw_donated_idxs = []
