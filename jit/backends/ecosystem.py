"""The conventions that third-party backends and torch's own libraries follow, and the names in torch that adapters need.

Only this file, graph/torch_sources.py, library/directives/torch_directives.py, library/directives/declared.py and driver/torch_stance.py use
`torch._dynamo`: others register their backends in its registry, and CUDA graphs ask it which step of the program they are in.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module, metadata
from types import ModuleType
from typing import Any

import torch
from torch._ops import OpOverload

from framejit.errors import UnsupportedTorch
from framejit.process import underway
from framejit.process.one_at_a_time import free_in_child

ENTRY_POINT_GROUP = "torch_dynamo_backends"


def entry_points() -> dict[str, metadata.EntryPoint]:
    """The installed packages' backends, by name."""
    return {point.name: point for point in metadata.entry_points(group=ENTRY_POINT_GROUP)}


def registered_names(everything: bool = False) -> list[str]:
    """The names registered with torch itself: by torch, or by a library that has been imported; `everything` includes debugging backends."""
    registry = import_module("torch._dynamo.backends.registry")
    return registry.list_backends(exclude_tags=()) if everything else registry.list_backends()


def registered(name: str) -> Callable[..., Any]:
    """The backend function that is registered with torch under `name`."""
    return import_module("torch._dynamo.backends.registry").lookup_backend(name)


def captures_numbers() -> bool:
    """Return whether the program wishes graphs to hold numbers out of tensors: torch's `capture_scalar_outputs`. It doesn't if nothing has imported torch's
    own tracer."""
    return bool(getattr(sys.modules.get("torch._dynamo.config"), "capture_scalar_outputs", False))


def compile_lock() -> AbstractContextManager[Any]:
    """The lock that torch holds while it compiles a frame or, in Inductor, a backward pass."""
    return import_module("torch._dynamo.convert_frame").compile_lock


def _loaded_compile_lock() -> Any:
    """torch's lock, or None while nothing has imported the module that it is in."""
    return getattr(sys.modules.get("torch._dynamo.convert_frame"), "compile_lock", None)


def holds_compile_lock() -> bool:
    """Return whether this thread holds torch's lock: it is inside of a compilation."""
    lock = _loaded_compile_lock()
    return lock is not None and lock._is_owned()  # type: ignore[no-any-return]


def _free_compile_lock() -> None:
    """In a forked process, forget that a thread which isn't there held torch's lock."""
    lock = _loaded_compile_lock()
    if lock is not None:
        free_in_child(lock)


os.register_at_fork(after_in_child=_free_compile_lock)


def begin_cudagraph_step() -> None:
    """Tell CUDA graphs that an outermost call starts, so that they may reuse the memory of the last call's outputs.

    The pieces of a call that a graph break has split, and the calls by native code in between, are in one step: one's outputs are the next one's inputs.
    `cudagraph_mark_step_begin` is not for this: it ignores a backward pass that is still to come.
    """
    import_module("torch._dynamo.mutation_guard").GenerationTracker.generation += 1


def patch_preserve_rng_state() -> None:
    """Replace, for good, the function with which AOTAutograd and Inductor restore the states of random generators when they have compiled.

    The new function does nothing on a thread beside the program, which would otherwise get numbers again that it has drawn meanwhile.
    """
    original = import_module("torch._dynamo.utils").preserve_rng_state
    if getattr(original, "__module__", None) == __name__:
        return

    def preserve_rng_state() -> AbstractContextManager[Any]:
        return nullcontext() if underway.is_beside() else original()  # type: ignore[no-any-return]

    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and vars(module).get("preserve_rng_state") is original:
            setattr(module, "preserve_rng_state", preserve_rng_state)


# The parts of torch's internals that the adapters use: "module:attribute", and the parameters relied upon. These change between releases.
_EAGER: dict[str, tuple[str, ...]] = {
    "torch.fx.graph:_BoxedCodeGen": (),
    "torch.fx._lazy_graph_module:_LazyGraphModule.force_recompile": ("gm",),
}
_CONTEXTS: dict[str, tuple[str, ...]] = _EAGER | {
    "torch._guards:TracingContext": ("fake_mode",),
    "torch._guards:CompileContext": ("compile_id",),
    "torch._guards:CompileId": ("frame_id", "frame_compile_id"),
    "torch._guards:tracing": ("context",),
    "torch._guards:compile_context": ("context",),
    "torch._guards:StorageOverlap": ("overlapping_sources", "non_overlapping_sources"),
    "torch._guards:DuplicateInputs": ("input_source_a", "input_source_b"),
    "torch._subclasses:FakeTensorMode": ("shape_env",),
    "torch._subclasses:FakeTensorMode.from_tensor": ("static_shapes", "symbolic_context", "source"),
}
_SYMBOLS: dict[str, tuple[str, ...]] = {
    "torch.fx.experimental.symbolic_shapes:StatefulSymbolicContext": (
        "dynamic_sizes",
        "dynamic_strides",
        "constraint_sizes",
        "constraint_strides",
        "tensor_source",
        "shape_env_to_source_to_symbol_cache",
    ),
}
_AOT: dict[str, tuple[str, ...]] = _CONTEXTS | _SYMBOLS | {
    "torch._functorch.aot_autograd:aot_module_simplified": (
        "fw_compiler",
        "bw_compiler",
        "partition_fn",
        "keep_inference_input_mutations",
    ),
    "torch._functorch.partitioners:min_cut_rematerialization_partition": (),
}
_INDUCTOR: dict[str, tuple[str, ...]] = _AOT | {
    "torch._inductor.compile_fx:compile_fx": ("config_patches",),
    "torch._inductor:list_mode_options": ("mode",),
    "torch._inductor.config:get_config_copy": (),
    "torch._inductor.config:get_type": (),
    "torch._inductor.config:freezing": (),
    "torch._inductor.config:triton.cudagraphs": (),
    "torch._inductor.cpu_vec_isa:VecISA.check_build": ("code",),
    "torch._inductor.fx_passes.joint_graph:lazy_init": (),
    "torch._inductor.fx_passes.joint_graph:patterns": (),
    "torch._inductor.fx_passes.post_grad:pass_patterns": (),
    "torch._inductor.cpu_vec_isa:_get_isa_dry_compile_fingerprint": ("isa_flags",),
}
_NEEDED: dict[str, dict[str, tuple[str, ...]]] = {
    "eager": _EAGER,
    "contexts": _CONTEXTS,
    "symbols": _SYMBOLS,
    "aot_eager": _AOT,
    "inductor": _INDUCTOR,
}
_checked: set[str] = set()


def require_torch(adapter: str) -> None:
    """Check once that the installed torch has what `adapter` needs. Raises UnsupportedTorch naming everything that is missing."""
    if adapter in _checked:
        return
    if missing := missing_names(_NEEDED[adapter]):
        raise UnsupportedTorch(
            f"framejit's {adapter!r} adapter needs {'; '.join(missing)}, and torch {torch.__version__} lacks it: "
            "framejit supports torch 2.11 to 2.15, and every other backend still works"
        )
    _checked.add(adapter)


def missing_names(needed: dict[str, tuple[str, ...]]) -> list[str]:
    """The names of `needed` ("module:attribute" -> parameter names) that the installed torch does not have, as text."""
    missing = []
    for path, parameters in needed.items():
        module, _, attributes = path.partition(":")
        try:
            value: Any = import_module(module)
            for attribute in attributes.split("."):
                value = getattr(value, attribute)
        except (ImportError, AttributeError):
            missing.append(f"{module}.{attributes}")
            continue
        if parameters:
            signature = inspect.signature(value).parameters
            missing += [f"{module}.{attributes}({name}=)" for name in parameters if name not in signature]
    return missing


def reader_of_data() -> int:
    """The address of the function in C with which Inductor's kernels read a tensor's address; a library of kernels is told it when it is loaded."""
    return int(torch._C._dynamo.guards._torchinductor_pyobject_tensor_data_ptr)  # type: ignore[attr-defined]


def assert_size_stride(tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], name: str | None) -> None:
    """Check the sizes and strides of a tensor, as Inductor's code does, by torch's function in C. Raises AssertionError. `name`: the operator that made it."""
    torch._C._dynamo.guards.assert_size_stride(tensor, size, stride, name)


def resolve_again(operator: OpOverload) -> None:
    """Let torch's Python dispatcher look up an operator's kernels again, of which some have been added or taken away: it keeps what it has found, and crashes
    where that is gone."""
    operator._dispatch_cache.clear()
