"""Tests that a copied call of a module records the same as a trace of the call: both are made, and compared.

`pytest --copies` does so in whatever tests it runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from inspect import Signature
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from framejit.graph.metadata import CHANGES
from framejit.guards.build import without_duplicates
from framejit.guards.relations import Relation
from framejit.guards.source import Pinned
from framejit.library.torch.nn import repeated_modules
from framejit.objects.core.object import Object, settle
from framejit.objects.tensors import nnmoduleobject
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.tupleobject import TupleObject


def is_about_own_object(guard: Any) -> bool:
    """Return whether a guard is about an object that each trace of a layer makes anew, such as the parameters of a signature."""
    source = guard.source
    while source.base is not None and source.base.base is not None:
        source = source.base
    return isinstance(source, Pinned) and (
        isinstance(source.payload, Signature) or (isinstance(source.payload, MappingProxyType | dict) and "__name__" not in source.payload)
    )


def guard_row(guard: Any) -> Any:
    """Return a guard as text that doesn't differ between compilations: without ids, and without the class made for the compiled model."""
    sources = [source.describe() for source in guard.sources()] if guard.leaf != "global_state" else []
    sources[1:] = sorted(sources[1:])  # in any order
    return type(guard).__name__, sources, guard.expected() if not isinstance(guard, Relation) else "", repr(guard.line)


def look(fake: Any) -> Any:
    if not isinstance(fake, torch.Tensor):
        return str(fake)
    keys = torch._C._dispatch_keys(fake).raw_repr()
    known = fake.dtype, fake.device, tuple(fake.shape), fake.stride(), fake.storage_offset(), keys
    return *known, fake.requires_grad, fake.is_leaf, fake._is_view()


def looks(node: fx.Node) -> Any:
    fake = node.meta.get("example_value")
    return [look(part) for part in (fake if isinstance(fake, (tuple, list)) else [fake])]


def texts(node: fx.Node) -> dict[str, str]:
    """Return the metadata of a node as text, except entries that hold other nodes or tensors."""
    return {key: str(value) for key, value in node.meta.items() if key not in ("example_value", "val", "tensor_dict", "source_fn_stack", CHANGES)}


class Portrait:
    """The nodes and guards that a trace has added since an earlier state, and a result, as comparable text."""

    def __init__(self, vm: Any, nodes: set[fx.Node], guards: int, result: Object) -> None:
        numbers = {node: number for number, node in enumerate(node for node in vm.graph.outermost.fx.nodes if node not in nodes)}
        storages: dict[int, int] = {}

        def named(value: Any) -> Any:
            return fx.map_arg(value, lambda node: f"new {numbers[node]}" if node in numbers else node)

        def memory(node: fx.Node) -> Any:
            fake = node.meta.get("example_value")
            return storages.setdefault(fake.untyped_storage()._cdata, len(storages)) if isinstance(fake, torch.Tensor) else None

        self.nodes = [
            (node.op, str(node.target) if node.op != "placeholder" else "", str(named(node.args)), str(named(node.kwargs)), looks(node), texts(node),
             memory(node), node in vm.graph.body.kept)
            for node in numbers
        ]  # fmt: skip
        known = {guard_key(guard) for guard in vm.guards.since(0)[:guards]}
        new = [guard for guard in without_duplicates(vm.guards.since(guards)) if guard_key(guard) not in known and not is_about_own_object(guard)]
        self.guards = sorted(str(guard_row(guard)) for guard in new)
        self.result = self.row(settle(vm.observe(result)), numbers)

    def row(self, obj: Object, numbers: dict[fx.Node, int]) -> Any:
        obj = settle(obj)
        if isinstance(obj, TensorObject):
            return "tensor", numbers.get(obj.node, obj.node.name), obj.cls
        return [self.row(item, numbers) for item in obj.elements or ()] if isinstance(obj, TupleObject) else repr(obj)


def guard_key(guard: Any) -> Any:
    return guard.source, type(guard), guard.key()


def difference(once: list[Any], each: list[Any]) -> str:
    """Return a text with the rows that only one of the two lists has: that of the copied call, or that of the traced one."""
    return f"only copied: {[row for row in once if row not in each]}\nonly traced: {[row for row in each if row not in once]}"


@contextlib.contextmanager
def compared() -> Iterator[list[str]]:
    """Inside the block, each copied call of a module is traced, too, and compared. Yields a growing list of the paths of those modules."""
    found: list[str] = []
    [original] = nnmoduleobject.AROUND_CALLS
    copied: Any = repeated_modules.copied
    last: list[Object | None] = [None]

    def noted(vm: Any, call: Any, recording: Any, module: Object, tensors: Any) -> Any:
        result = copied(vm, call, recording, module, tensors)
        last[0] = None if result is None else module
        return result

    def compare(vm: Any, module: Object, args: Any, kwargs: Any, trace: Callable[[], Object]) -> Object:
        mark, guards, nodes = vm.trail.mark(), vm.guards.count(), set(vm.graph.outermost.fx.nodes)
        last[0] = None
        result = original(vm, module, args, kwargs, trace)
        if last[0] is not module or not vm.graph.copies_calls:
            return result
        once = Portrait(vm, nodes, guards, result)
        vm.trail.undo_to(mark)
        vm.graph.copies_calls = False
        try:
            each = Portrait(vm, nodes, guards, trace())
        finally:
            vm.graph.copies_calls = True
        assert once.nodes == each.nodes, difference(once.nodes, each.nodes)
        assert once.guards == each.guards, difference(once.guards, each.guards)
        assert once.result == each.result
        vm.trail.undo_to(mark)
        found.append(module.source.describe() if module.source is not None else "")
        return original(vm, module, args, kwargs, trace)

    nnmoduleobject.AROUND_CALLS[:] = [compare]
    repeated_modules.copied = noted  # type: ignore[assignment]
    try:
        yield found
    finally:
        nnmoduleobject.AROUND_CALLS[:] = [original]
        repeated_modules.copied = copied
