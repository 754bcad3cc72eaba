"""Caches of the program's functions (functools.lru_cache): guards read what they hold without asking them, and the generated code asks, so that they count."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

from framejit.graph.builder import TorchVM
from framejit.graph.check_order import changes_outside
from framejit.graph.fake import is_declared, storages
from framejit.graph.prune import has_effect
from framejit.guards.caches import held_result, key_of, weak_parts
from framejit.guards.container_sources import Cached
from framejit.guards.source import MISSING, Pinned
from framejit.objects.core import abstract
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import Object, Raise
from framejit.quick_dataclass import dataclass
from framejit.torch_state import torch_function_stack
from framejit.torch_state.torch_modes import MODE_CHANGES
from framejit.trail import EffectAnnounced, NodeAdded

FILLED: weakref.WeakKeyDictionary[Any, set[Any]] = weakref.WeakKeyDictionary()
"""Keys that traces have put into the caches of functions, where the call that was traced hasn't asked for them yet."""


class Trial(threading.local):
    """The functions behind caches that this thread traces to learn whether they have side effects. `results`: of calls inside, by cached function and key; None
    outside of such a trace."""

    results: dict[tuple[Any, Any], Object] | None = None


TRIAL = Trial()


@dataclass(frozen=True, slots=True)
class CacheCall:
    """One call of a cached function, which generated code makes for what the cache counts and for the order of its entries; its result is known.

    It isn't made where the trace itself has called the function for the program. `names`: of the keyword arguments, which are the last values.
    """

    names: tuple[str, ...]
    parts: Any

    def __call__(self, function: Any, *values: Any) -> None:
        filled = FILLED.get(function)
        if filled and self.parts in filled:
            filled.discard(self.parts)
            return
        positional = len(values) - len(self.names)
        function(*values[:positional], **dict(zip(self.names, values[positional:])))


def cached_result(
    vm: TorchVM, cached: Object, function: FunctionType | MethodType, args: Sequence[Object], kwargs: Mapping[str, Object], values: Sequence[Any]
) -> Object | None:
    """The result of a call of a cached function of the program. `values`: the real arguments, which are guarded; first the positional ones.

    If the cache has no result yet, the function is called while its caller is traced, provided that a trace of the function shows no side effects. None means
    that it must be called where the program calls it.
    """
    real: Any = cached.value
    given, named = values[: len(args)], dict(zip(kwargs, values[len(args) :]))
    objects = {id(value) for arg, value in zip((*args, *kwargs.values()), values) if not vm.observe(arg).is_knowable()}
    try:
        key = key_of(given, named, real.cache_parameters()["typed"])
        parts = weak_parts(key, objects)
        found = held_result(real, key, MISSING)
    except Exception:
        return None
    if TRIAL.results is not None and found is MISSING:
        return result_in_trial(vm, TRIAL.results, (real, parts), function, args, kwargs)
    if found is MISSING:
        if not may_be_called(vm, real, function, args, kwargs):
            return None
        try:
            with torch_function_stack.in_force():
                found = real(*given, **named)
        except Exception:
            return None
        if held_result(real, key, MISSING) is not found:
            return None
        FILLED.setdefault(real, set()).add(parts)
    vm.guards.rest_on_process(f"what the cache of {function.__qualname__} has")
    if not vm.graph.is_inner():
        vm.effects.in_order(LaterCall(CacheCall(tuple(kwargs), parts), (cached, *args, *kwargs.values())))
    source = cached.source or vm.root_source.child(Pinned, real)
    return vm.wrap(found, source.child(Cached, parts))


def may_be_called(vm: TorchVM, real: Any, function: FunctionType | MethodType, args: Sequence[Object], kwargs: Mapping[str, Object]) -> bool:
    """Return whether a cached function may be called while its caller is traced. A cache that is full would drop a result that guards ask for."""
    usage, modes = real.cache_info(), vm.graph.function_modes
    may_begin = usage.currsize != usage.maxsize and modes.stack == modes.initial and not vm.graph.is_inner() and has_only_called_caches(vm)
    return may_begin and only_computes(vm, function, args, kwargs)


def has_only_called_caches(vm: TorchVM) -> bool:
    """Return whether the program's call hasn't changed anything yet, apart from what caches count, and tensors in place."""
    return all(isinstance(effect, LaterCall) and isinstance(effect.function, CacheCall) for effect in vm.effects.all())


def result_in_trial(
    vm: TorchVM, results: dict[Any, Object], call: tuple[Any, Any], function: FunctionType | MethodType, args: Sequence[Object], kwargs: Mapping[str, Object]
) -> Object:
    """The result of a call that has none in its cache, inside the trace of another function: once the outer function is called for real, it makes it."""
    found = results.get(call)
    if found is None:
        found = results[call] = abstract.call(vm, vm.pin(function), list(args), dict(kwargs))
    return found


def only_computes(vm: TorchVM, function: FunctionType | MethodType, args: Sequence[Object], kwargs: Mapping[str, Object]) -> bool:
    """Return whether a trace of a function has no side effects, draws no random numbers, and reads no tensors if the graph has changed some in place.

    The trace is undone.
    """
    graph = vm.graph
    graph.refresh()
    inputs = storages(graph.input_fakes())
    is_changed = any(changes_outside(node, inputs, False) for node in graph.outermost.kept)  # so tensors from outside aren't what they will be
    mark, is_plain = vm.trail.mark(), False

    def run() -> None:
        nonlocal is_plain
        try:
            abstract.call(vm, vm.pin(function), list(args), dict(kwargs))
        except Raise:
            return
        records = vm.trail.since(mark)
        nodes = [record.owner for record in records if isinstance(record, NodeAdded) and record.owner.target not in MODE_CHANGES]
        is_plain = (
            not any(isinstance(record, EffectAnnounced) for record in records)
            and not any(is_declared(node.target) or has_effect(node, graph.fakes.running) for node in nodes)
            and (not is_changed or all(used in nodes for node in nodes for used in node.all_input_nodes))
        )
        graph.fakes.stale = True  # operators that change fakes in place have run again here

    TRIAL.results = {}
    try:
        vm.attempt(run)
    finally:
        TRIAL.results = None
    return is_plain
