"""Reuses the results of operators on fakes for other fakes that look alike, so that repeated layers of a model run on fakes only once.

An operator on fakes computes sizes, strides and types from those of its arguments. With symbolic sizes, that takes a hundred times as long as
making another fake that looks like an existing one.

    y = linear(x, w1)      # run; y is noted beside what x and w1 look like, and what modes were on
    z = linear(y, w2)      # where y looks like x, and w2 like w1: z is a new fake that looks like y

Only torch operators are noted that change nothing, and that return one of their arguments, or a tensor in new memory that needs no gradient. Operators that
make the ShapeEnv learn something aren't noted, and when it learns something, all earlier notes are dropped, since operators may behave differently then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import BuiltinFunctionType, EllipsisType, NoneType
from typing import TYPE_CHECKING, Any

import torch
from torch import SymInt
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

from framejit._runtime import renew_storage
from framejit.graph.global_modes import Modes
from framejit.graph.new_fakes import new_fake
from framejit.quick_dataclass import dataclass

if TYPE_CHECKING:
    from framejit.graph.shape_env import TraceShapeEnv

PLAIN = frozenset({int, bool, str, NoneType, EllipsisType, torch.dtype, torch.device, torch.layout, torch.memory_format})
"""Types of arguments that compare equal only if they mean the same, apart from 1 and True."""
PURE_MODULES = frozenset({"torch.nn.functional", "torch.functional"})
"""Modules of torch whose Python functions compute from their arguments and the modes alone."""
Key = tuple[Any, ...]


class Unlike(Exception):
    """Signal: it can't be said what an argument looks like."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The operator returns one of the tensors among its arguments."""

    index: int

    def again(self, mode: FakeTensorMode, fakes: Sequence[torch.Tensor]) -> torch.Tensor:
        return fakes[self.index]


@dataclass(frozen=True, slots=True)
class Made:
    """The operator returns a new tensor. `pattern`: a meta tensor that looks like it, which is copied."""

    pattern: torch.Tensor
    device: torch.device

    def again(self, mode: FakeTensorMode, fakes: Sequence[torch.Tensor]) -> torch.Tensor:
        copy = self.pattern.data  # with its own version counter
        renew_storage(copy)
        return new_fake(mode, copy, self.device)


class Repeats:
    """The results noted under one fake mode. `env`: the trace's ShapeEnv, if it has one."""

    def __init__(self, mode: FakeTensorMode, env: TraceShapeEnv | None) -> None:
        self._mode = mode
        self._env = env
        self._known: dict[Key, Returned | Made] = {}
        self._learnt: Any = None

    def key(self, target: Callable[..., Any] | str, args: Sequence[Any], kwargs: dict[str, Any], modes: Modes) -> Key | None:
        """A key of an operator and its arguments: with equal keys, the results look the same. None if the operator must be run."""
        if not is_pure(target):
            return None
        learnt = learnt_by(self._env)
        if learnt != self._learnt:
            self._learnt = learnt
            self._known.clear()
        try:
            named = tuple([(name, likeness(value)) for name, value in kwargs.items()]) if kwargs else ()
            return target, modes, torch.get_default_dtype(), tuple([likeness(arg) for arg in args]), named
        except Unlike:
            return None

    def find(self, key: Key, fakes: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """The noted result for these fakes; None if nothing is known. `fakes`: the tensors among the arguments, in order."""
        found = self._known.get(key)
        return None if found is None else found.again(self._mode, fakes)

    def note(self, key: Key, result: Any, fakes: Sequence[torch.Tensor]) -> None:
        """Note the result of an operator that was run, and has changed none of its arguments."""
        if learnt_by(self._env) == self._learnt and (found := self.form(result, fakes)) is not None:
            self._known[key] = found

    def form(self, result: Any, fakes: Sequence[torch.Tensor]) -> Returned | Made | None:
        """Describe how the result of an operator comes from the tensors among its arguments; None if it must be run to find that out."""
        if type(result) is not FakeTensor:
            return None
        index = next((index for index, fake in enumerate(fakes) if fake is result), None)
        if index is not None:
            return Returned(index)
        if not self._is_new(result, fakes):
            return None
        shape, strides = result.size(), result.stride()
        with in_kernel_invocation_manager(self._mode), nullcontext() if self._env is None else self._env.suppress_guards():
            pattern = torch.empty_strided(shape, strides, dtype=result.dtype, device="meta")
        return Made(pattern, result.device)

    def _is_new(self, result: torch.Tensor, fakes: Sequence[torch.Tensor]) -> bool:
        """Return whether a result is an ordinary tensor in its own memory, whose sizes are computed from those of the arguments."""
        try:
            _, keys, *_, offset, _ = likeness(result)
        except Unlike:
            return False
        if result.requires_grad or offset != 0 or keys != torch._C._dispatch_keys(fakes[0]).raw_repr():
            return False
        memory = result.untyped_storage()._cdata
        return all(fake.untyped_storage()._cdata != memory for fake in fakes) and symbols([result]) <= symbols(fakes)


def learnt_by(env: TraceShapeEnv | None) -> tuple[int, ...]:
    """A value that changes whenever a ShapeEnv learns something."""
    if env is None:
        return ()
    replacements = getattr(env, "_replacements_version_counter", 0)  # older versions count these with the others
    return len(env.guards), env.num_deferred_runtime_asserts, env._version_counter, replacements


def is_pure(target: Callable[..., Any] | str) -> bool:
    """Return whether the form of an operator's result depends only on the form of its arguments, and on the modes."""
    return type(target) in (str, BuiltinFunctionType) or getattr(target, "__module__", None) in PURE_MODULES


def likeness(value: Any) -> Any:
    """The look of an argument: equal for two arguments only if operators return results that look the same for them. Raises Unlike."""
    cls = type(value)
    if cls in PLAIN:
        return cls, value
    if cls is FakeTensor:
        if value.constant is not None or value.layout is not torch.strided or value.is_inference():
            raise Unlike
        keys = torch._C._dispatch_keys(value).raw_repr()
        shape, strides = tuple(map(number, value.size())), tuple(map(number, value.stride()))
        return cls, keys, value.dtype, value.device, shape, strides, number(value.storage_offset()), value.requires_grad
    if cls is float:
        return cls, repr(value)
    if cls is SymInt:
        return cls, value.node.expr
    if cls is tuple or cls is list or cls is torch.Size:
        return cls, tuple(map(likeness, value))
    if cls is slice:
        return cls, likeness(value.start), likeness(value.stop), likeness(value.step)
    raise Unlike


def number(value: Any) -> Any:
    """A size, stride or offset as a symbolic expression."""
    return value.node.expr if type(value) is SymInt else value


def symbols(fakes: Sequence[torch.Tensor]) -> set[Any]:
    """The symbols in sizes of fakes."""
    return {symbol for fake in fakes for size in fake.size() if type(size) is SymInt for symbol in size.node.expr.free_symbols}
