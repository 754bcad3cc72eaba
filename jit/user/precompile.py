"""precompile() and load(): code compiled ahead of time, for a given set of calls, in one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from torch import nn

from framejit._runtime import CompiledFunction
from framejit.driver.compiled_module import raw_call
from framejit.errors import BadArgument, suggestion
from framejit.process.when_needed import when_needed
from framejit.said.directives import untraced

if TYPE_CHECKING:
    from framejit.driver.artifact_file import ArtifactContents, Domain, LeftOut, PrecompiledEntry

files = when_needed("framejit.driver.artifact_file")
binding = when_needed("framejit.user.precompiling.binding")
make = when_needed("framejit.user.precompiling.make")
description = when_needed("framejit.user.precompiling.description")

T = TypeVar("T")
ON_MISS = ("error", "eager", "compile")
"""The values of `on_miss`: a call without an entry is an error, runs uncompiled, or is compiled."""


class Artifact:
    """Code that was compiled ahead of time. `print` shows what it covers.

        artifact = framejit.precompile(model, args=(x,))
        artifact.save("model.framejit")

        artifact = framejit.load("model.framejit")      # in another process
        compiled = artifact.bind(model)

    Attributes:
        entries: what was compiled: for each, the function or module, and its guards as text.
        left_out: what isn't covered, and why.
        domain: for `shapes=`, the set of calls that the artifact was made for, and whether it is proved that each of them has an entry; otherwise None.
    """

    def __init__(self, contents: ArtifactContents) -> None:
        self._contents = contents
        self._unpacked: Any = None

    @property
    def entries(self) -> tuple[PrecompiledEntry, ...]:
        return self._contents.entries

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        return self._contents.left_out

    @property
    def domain(self) -> Domain | None:
        return self._contents.domain

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artifact to a file, which is replaced if it exists. Raises OSError if the file can't be written."""
        files.save(self._contents, Path(path))

    def bind(self, target: T, on_miss: str = "error") -> T:
        """Return a compiled `target`, as `compile` does, that runs the artifact's code. The artifact has no weights: they are those of `target`.

        The code runs for calls that pass all of its guards. So `target` must be built of the same classes and functions as what was precompiled, with tensors
        of the same sizes and dtypes, and calls must be made under the same modes (`torch.no_grad()`, `eval()`). Nothing of the compiler is loaded, as long as
        each call has an entry.

        Args:
            target: the model, the function or the other callable to run.
            on_miss: what becomes of a call that the artifact has no entry for. "error": it raises `NotPrecompiled`, which says why none fits. "eager": it runs
                uncompiled. "compile": it is compiled with the options that `precompile` was given. Functions that uncompiled code calls at a graph break
                run uncompiled if they have no entry, and so does the rest of a call whose code was left out.

        Raises:
            BadArgument: `target` can't be called, or `on_miss` is none of these.
            ArtifactError: versions, the processor, torch's settings or the sources of what was traced are others than when the artifact was made.
        """
        if isinstance(target, type) or not callable(target):
            raise BadArgument(f"an artifact is bound to an nn.Module, a function or another callable; got {target!r:.80}")
        if on_miss not in ON_MISS:
            raise BadArgument(f"Artifact.bind(): on_miss has no value {on_miss!r}{suggestion(str(on_miss), ON_MISS, listing=True)}")
        if self._unpacked is None:
            self._unpacked = binding.UnpackedArtifact(self._contents)
        return binding.bound(self._unpacked, original_of(target), on_miss)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return description.described(self._contents)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<Artifact of {self._contents.target}: {len(self.entries)} entries>"


@untraced
def precompile(
    target: Callable[..., Any],
    args: tuple[Any, ...] | list[tuple[Any, ...]] = (),
    kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    *,
    shapes: Mapping[str, Any] | None = None,
    backend: str | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    regions: bool | None = None,
) -> Artifact:
    """Compile a program ahead of time, for given calls or for all calls with sizes in given ranges, and return an `Artifact`, which can be saved as one file.

    Each call is traced and compiled, and doesn't run. Only a call that is split at a graph break, or that can't be compiled, runs once, since what is compiled
    after the break depends on what happens there. Random number generators don't advance. Call under the modes in which the program will be called later, as
    in `torch.no_grad()`: they are guarded.

    Tensors may be fake ones, without memory (made under a `FakeTensorMode`): a model need not have its weights yet. Then nothing runs.

    Args:
        target: a function, a method, an `nn.Module` or another callable, compiled or not.
        args, kwargs: the arguments of a call. For several calls, give a list of tuples of arguments, and for `kwargs` a list of as many dicts, or one dict
            for all.
        shapes: sizes of tensors among the arguments, in the form that `compile` takes. If they are given, `args` and `kwargs` are an example, and the program
            is compiled for all calls that differ from it only in the named sizes: for one set of sizes after another, until z3 proves that each call has an
            entry (`Artifact.domain`), or for 64 sets of sizes. Their tensors are new, with elements drawn from the example's. Sizes without bounds are from 0
            on; `torch.export.Dim("batch", min=1, max=64)` sets bounds. Tensors are contiguous.
        backend: "inductor", the default, or "eager".
        mode, options, dynamic, fullgraph, regions: as those of `compile`. With options={"cpp.dynamic_threads": True}, the code can be used with any number of
            threads, and otherwise only with the number in force now.

    Raises:
        BadArgument: `target` can't be called; `args`, `kwargs` or `shapes` aren't of these types, or don't fit together.
        ConstraintViolation: the sizes of the example aren't as `shapes` declares them.
        ArtifactError: there is nothing to be compiled, or the backend's code can't be saved.
        Unsupported: with `fullgraph`, tracing stops somewhere.
        Any error of the program in a call that runs, except with `shapes`: such sizes are named in `Artifact.domain`.
        FramejitError: `shapes` needs z3, which isn't installed.
    """
    if isinstance(target, type) or not callable(target):
        raise BadArgument(f"precompile() takes an nn.Module, a function or another callable; got {target!r:.80}")
    calls = make.calls_in(args, kwargs)
    settings = make.settings_of(backend, mode, options, dynamic, fullgraph, regions)
    return Artifact(make.made(original_of(target), calls, shapes, settings))


@overload
def load(path: str | os.PathLike[str]) -> Artifact: ...
@overload
def load(path: str | os.PathLike[str], target: T, on_miss: str = "error") -> T: ...
@untraced
def load(path: str | os.PathLike[str], target: Any = None, on_miss: str = "error") -> Any:
    """Read an artifact from a file. With `target`, return `load(path).bind(target, on_miss)`: the compiled target.

    A file is to be trusted like a module that is imported, because the code in it runs.

    Raises:
        OSError: the file can't be read.
        ArtifactError: the file isn't an artifact, or is damaged; and what `Artifact.bind` raises.
        BadArgument: as `Artifact.bind`.
    """
    artifact = Artifact(files.load(Path(path)))
    return artifact if target is None else artifact.bind(target, on_miss)


def original_of(target: Any) -> Any:
    """A callable object whose class is compiled, as its bound method: calls of others are compiled as they are."""
    call = raw_call(type(target))
    return call.__get__(target) if isinstance(call, CompiledFunction) and not isinstance(target, nn.Module) else target
