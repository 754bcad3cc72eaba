"""Tests that every instruction can be undone: traces that execute instructions, undo them, compare the state, and execute them again, at random.

`pytest --undo` does so in whatever tests it runs. A trace's state is found by a walk: everything that the running frames, the values
from outside, the effects and the graph lead to, as long as it is framejit's own.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch import fx

from framejit.bytecode.decode import decode
from framejit.ceval import loop
from framejit.ceval.frame import ExceptionState, Frame, LastInstruction
from framejit.ceval.signals import Return, Yield
from framejit.effects import Effects, Logged
from framejit.graph.autograd_node import AutogradNode
from framejit.graph.body import Body
from framejit.graph.builder import GraphBuilder
from framejit.graph.global_modes import GlobalModes, Scope
from framejit.graph.wrappers import Wrappers
from framejit.objects.core.object import LazyObject, Object
from framejit.objects.types.dictobject import DictObject
from framejit.tracing.tracer import Tracer

OWN = (Object, Frame, ExceptionState, LastInstruction, Effects, Logged, GraphBuilder, Wrappers, Body, GlobalModes, Scope, AutogradNode)
"""Classes of the state: their fields are looked into. Everything else is compared by identity."""
CONTAINERS = (list, tuple, dict, set)
FREE = {
    Frame: {"mark", "parent", "delivery"},  # set again for each instruction, or when a generator is resumed
    GraphBuilder: {"fakes", "inputs", "has_inner", "_stack_traces", "vm", "trail"},  # fakes are made again
    Body: {"_trail"},
    GlobalModes: {"_effect_node", "_trail"},
    AutogradNode: {"_graph"},
    Wrappers: {"_graph"},
    Scope: {"manager"},  # entered again
    Effects: {"_tracer", "number"},
    DictObject: {"plain_keys"},  # computed once, for the program's own dict
}
"""Fields that needn't be the same afterwards."""
ONLY_GROWS = ("_constants", "_lines", "_frames", "_wrapped")
"""Caches of the tracer: their entries may not change, but undoing needn't remove any."""


def fields(obj: Any) -> dict[str, Any]:
    """Return the fields of an object that undoing must restore, slots included."""
    found = dict(getattr(obj, "__dict__", {}))
    for cls in type(obj).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType):  # a property of the same name may stop the trace
                with contextlib.suppress(AttributeError):
                    found[name] = member.__get__(obj)
    for cls, free in FREE.items():
        if isinstance(obj, cls):
            found = {name: value for name, value in found.items() if name not in free}
    return found


class Portrait:
    """The state of a trace as rows that can be compared. Objects whose `id` is in a row are kept alive."""

    def __init__(self, vm: Any) -> None:
        self.rows: dict[Any, Any] = {}
        self.keep: list[Any] = []
        self.waiting: list[Any] = []
        self.rows["trail"] = vm.trail.mark(), vm.depth, vm.directives, torch.is_grad_enabled()
        self.rows["guards"] = [id(guard) for guard in vm.guards.since(0)]
        self.rows["nodes"] = [(node.name, node.op, str(node.target), len(node.users)) for node in vm.graph.outermost.fx.nodes]
        self.rows["inputs"] = sorted(described.name for described in vm.graph.inputs.known.values())
        for name in ("_shared", "_namespaces", "guarded_generators", "rebuilt"):
            self.rows[name] = self.shape(getattr(vm, name))
        self.rows["lookups"] = self.shape(vm.lookups.raw_attributes), self.shape(vm.lookups.attributes)
        for name in ONLY_GROWS:
            self.shape(getattr(vm, name))
        for part in (vm.frame, vm.effects, vm.graph):
            self.shape(part)
        while self.waiting:
            obj = self.waiting.pop()
            # `value` is the real object behind an Object: the program's, which a trace doesn't change.
            self.rows[id(obj)] = {name: id(value) if name == "value" else self.shape(value) for name, value in fields(obj).items()}

    def shape(self, value: Any) -> Any:
        """Return a value in the form that it has in a row: ids for objects, lists for containers."""
        if isinstance(value, OWN):
            if type(value) is LazyObject and value.real is None and id(value) not in self.rows:
                self.rows[id(value)] = {"real": None}  # nothing has been read
                self.keep.append(value)
            elif id(value) not in self.rows:
                self.rows[id(value)] = None
                self.keep.append(value)
                self.waiting.append(value)
            return id(value)
        if type(value) is dict:
            return [(self.shape(key), self.shape(item)) for key, item in value.items()]
        if type(value) in CONTAINERS:
            items = [self.shape(item) for item in value]
            return sorted(items, key=str) if type(value) is set else items  # a set that has grown in between may have another order
        self.keep.append(value)
        return value.name if isinstance(value, fx.Node) else id(value)


def difference(before: Portrait, after: Portrait) -> str:
    """Return a description of the first change between two portraits; an empty text if nothing has changed."""
    for key, row in before.rows.items():
        now = after.rows.get(key, row)  # what nothing leads to any more can't matter
        if type(now) is dict and type(row) is dict:
            changed = [name for name in {**row, **now} if row.get(name, MISSING) != now.get(name, MISSING)]
            if changed:
                owner = next((obj for obj in before.keep if id(obj) == key), None)
                return f"{changed} of {owner!r}"
        elif now != row:
            return f"{key}: {row} became {now}"
    return ""


MISSING = object()


@contextlib.contextmanager
def executed_by(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Inside the block, traces execute each instruction by `wrap(execute)` instead of `execute(vm, frame, instruction)`."""

    def link(decoded: Any) -> list[Any]:
        decoded.program = [(wrap(execute), instruction) for execute, instruction in linked(decoded)]
        return decoded.program

    linked = loop.link
    module = sys.modules[decode.__module__]
    cache = module._cache
    loop.link, module._cache = link, {}  # code objects decoded before are linked again as well
    try:
        yield
    finally:
        loop.link, module._cache = linked, cache


@contextlib.contextmanager
def undoing(rate: float, seed: object, deep: float = 1.0) -> Iterator[list[str]]:
    """Inside the block, traces undo and repeat instructions at random, with probability `rate`; with probability `deep` the whole state is compared.

    Yields a list of the undone operations, which grows as they are undone.
    """
    random = Random(str(seed))
    undone: list[str] = []

    def retrying(execute: Callable[..., Any]) -> Callable[..., Any]:
        def run(vm: Any, frame: Any, instruction: Any) -> Any:
            if type(vm) is not Tracer or random.random() >= rate:
                return execute(vm, frame, instruction)
            looks = random.random() < deep
            before = Portrait(vm) if looks else None
            snapshot, mark, caller, depth = frame.snapshot(), vm.trail.mark(), vm.frame, vm.depth
            try:
                execute(vm, frame, instruction)
            except (Return, Yield):
                raise  # the caller's instruction goes on with it
            except Exception:
                pass  # raised again below
            vm.trail.undo_to(mark)
            frame.restore(snapshot)
            frame.mark = mark
            assert vm.frame is caller and vm.depth == depth, instruction
            if before is not None:
                wrong = difference(before, Portrait(vm))
                assert not wrong, f"undoing {instruction.op} in {frame.code.co_qualname}:{frame.lineno} leaves {wrong}"
            undone.append(instruction.op)
            return execute(vm, frame, instruction)

        return run

    with executed_by(retrying):
        yield undone
