"""Makes the contents of an artifact: compiles the calls, and puts together what they have made."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils import _pytree as pytree

from framejit import config, logs
from framejit.backends.registry import lookup
from framejit.driver import portable
from framejit.driver.artifact_file import ArtifactContents, Domain
from framejit.driver.declared import parse
from framejit.driver.kept import is_plain
from framejit.driver.options import Options
from framejit.errors import ArtifactError, BadArgument, FramejitError
from framejit.process.when_needed import when_needed
from framejit.user.exporting.captured import allocated, names_of_tensors, standing_in
from framejit.user.precompiling.record import RecordedProgram

domain = when_needed("framejit.user.precompiling.domain")

MOST_BYTES_READ = 1 << 12
"""Tensors with more bytes aren't read by traces."""
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def made(target: Any, calls: Sequence[Arguments], shapes: Any, settings: Options) -> ArtifactContents:
    """Compile a program for these calls, or for all calls with the declared shapes. Raises ArtifactError, BadArgument, Unsupported and BackendError."""
    if portable.is_in_a_group():
        raise ArtifactError(f"precompile(): {portable.IN_A_GROUP}")
    with unset_fake_temporarily():
        target, calls, is_fake = with_memory(target, calls)
        if shapes is None:
            program = RecordedProgram(target, blind(settings) if is_fake else settings, runs=not is_fake)
            for args, kwargs in calls:
                program.compile(args, kwargs)
            return contents_of(target, program, settings, None)
        if importlib.util.find_spec("z3") is None:
            raise FramejitError("precompile(shapes=...) needs z3, which is not installed: pip install z3-solver")
        if len(calls) != 1:
            raise BadArgument("precompile(): with shapes, args is a tuple: the arguments of one call")
        declared = domain.DeclaredDomain(target, *calls[0], parse(shapes))
        program = RecordedProgram(target, blind(settings), runs=not is_fake)
        return contents_of(target, program, settings, domain.DomainCompiler(program, declared).compile_all())


def blind(settings: Options) -> Options:
    """The options with which no trace decides by the data of tensors."""
    return dataclasses.replace(settings, backend=dataclasses.replace(settings.backend, takes=dataclasses.replace(settings.backend.takes, guards_data=False)))


def with_memory(target: Any, calls: Sequence[Arguments]) -> tuple[Any, list[Arguments], bool]:
    """The program and its arguments with tensors that have memory in the place of fake ones, and whether there were any. The memory has no content. Raises
    ArtifactError for tensors on devices whose code can't be saved."""
    attributes = [value for module in target.modules() for value in vars(module).values()] if isinstance(target, nn.Module) else []
    own = names_of_tensors(target).values()
    tensors = [each for each in pytree.tree_leaves((attributes, list(own), list(calls))) if isinstance(each, torch.Tensor)]
    device = next((tensor.device for tensor in tensors if tensor.device.type != "cpu"), None)
    if device is not None:
        raise ArtifactError(f"precompile(): there are tensors on {device}; only code for CPUs can be saved")
    if not any(isinstance(tensor, FakeTensor) for tensor in tensors):
        return target, list(calls), False
    made: dict[int, Any] = {}
    for tensor in tensors:
        memory = allocated(tensor, made)
        if memory is not tensor and memory.nbytes <= MOST_BYTES_READ:
            memory.detach().zero_()  # a trace may read it, though no entry that depends on it is kept
    real = pytree.tree_map(lambda leaf: allocated(leaf, made), list(calls))
    return standing_in(target, made, "precompile()"), real, True


def contents_of(target: Any, program: RecordedProgram, settings: Options, covered: Domain | None) -> ArtifactContents:
    """Make the contents of an artifact from what was recorded of a program. Raises ArtifactError if nothing can be saved."""
    recorded = program.recorded
    left_out = tuple(dict.fromkeys(recorded.left_out))
    lines = [f"{left.what}: {left.why}" for left in left_out] if covered is None else list(covered.unproved)
    if not recorded.covered():
        raise ArtifactError("\n  ".join(["precompile(): there is nothing that can be saved", *lines]))
    if lines:
        logs.warn("\n  ".join([f"the artifact of {name_of(target)} leaves out", *lines]))
    backend = settings.backend
    return ArtifactContents(
        version=importlib.metadata.version("framejit"),
        target=name_of(target),
        options={"backend": backend.name, "kwargs": dict(backend.kwargs), "dynamic": settings.dynamic, "regions": settings.regions},
        circumstances=portable.circumstances(backend),
        sources=tuple(portable.sources_of(recorded.files)),
        entries=recorded.covered(),
        left_out=left_out,
        domain=covered,
        libraries={name: path.read_bytes() for name, path in sorted(recorded.libraries().items())},
    )


def name_of(target: Any) -> str:
    """Describe in words the function or module that is precompiled."""
    return f"the module {type(target).__qualname__}" if isinstance(target, nn.Module) else getattr(target, "__qualname__", type(target).__qualname__)


def calls_in(args: Any, kwargs: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments of each call. Raises BadArgument."""
    listed = args if isinstance(args, list) else [args]
    if not listed or not all(isinstance(each, tuple) for each in listed):
        raise BadArgument(f"precompile(): args is a tuple of all positional arguments, or a list of such tuples; got {args!r:.80}")
    named = list(kwargs) if isinstance(kwargs, (list, tuple)) else [kwargs or {}] * len(listed)
    if len(named) != len(listed) or not all(isinstance(each, Mapping) for each in named):
        raise BadArgument(f"precompile(): kwargs is a dict, or a list with a dict for each tuple in args; got {kwargs!r:.80}")
    return [(positional, dict(keywords)) for positional, keywords in zip(listed, named, strict=True)]


def settings_of(
    backend: str | None, mode: str | None, options: Mapping[str, Any] | None, dynamic: bool | None, fullgraph: bool, regions: bool | None
) -> Options:
    """The options of the compilations. Raises ArtifactError if the backend's code can't be saved, and the errors of `lookup`."""
    found = lookup(backend or config.current().backend, mode=mode, options=options)
    if found.name not in ("eager", "inductor"):
        raise ArtifactError(f"precompile(): code of the backend {found.name!r} can't be saved; there are 'inductor' and 'eager'")
    for kind, asked in (("CUDA graphs", found.cudagraphs()), ("frozen weights", found.freezes())):
        if asked:
            raise ArtifactError(f"precompile(): code with {kind} can't be saved; leave the mode or option out that asks for them")
    if not is_plain(found.kwargs):
        raise ArtifactError("precompile(): options that are objects can't be saved; give numbers, strings, lists and dicts only")
    return Options(found, fullgraph, config.current(), True, dynamic, regions=regions)
