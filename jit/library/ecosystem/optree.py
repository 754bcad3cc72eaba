"""optree, which torch.utils._cxx_pytree uses to take structures apart. optree itself is asked about skeletons of structures of lists, tuples and dicts.

optree is only used if the program has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, ModuleType
from typing import Any

import torch

from framejit import breaks
from framejit.guards.source import Source
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, IdentityConstant, Object, fold
from framejit.objects.core.registry import WRAPPERS, RuleOrder, library, wraps
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.funcobject import MethodObject
from framejit.program import classes

CONTAINERS = frozenset(map(id, (list, tuple, dict)))
"""The types, by identity, that structures may consist of here."""
PROPERTIES = ("num_leaves", "num_nodes", "num_children", "none_is_leaf", "namespace", "type")


class TreeSpecObject(IdentityConstant):
    """A structure, `optree.PyTreeSpec`."""

    __slots__ = ()

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if symbol not in ("==", "!=") or not isinstance(other, TreeSpecObject):
            return None
        return vm.const((self.value == other.value) == (symbol == "=="))

    def getattr(self, vm: VM, name: str) -> Object:
        if name in PROPERTIES:
            return fold(vm, getattr, self.value, name)
        found = vars(self.cls).get(name)
        function = getattr(found, "__func__", None)
        return super().getattr(vm, name) if function is None else MethodObject(vm.pin(function), self)


def native() -> ModuleType | None:
    """optree's C++ module, if the program has imported it."""
    found = sys.modules.get("optree._C")
    if found is not None and id(found.PyTreeSpec) not in WRAPPERS:
        wraps(found.PyTreeSpec, by_identity=True)(wrap_spec)
    return found


def wrap_spec(vm: VM, value: Any, source: Source | None) -> Object:
    return TreeSpecObject(type(value), source, value)


class Skeleton:
    """A structure of real containers that stands for one of the trace, with the Objects of the trace as leaves. `known`: the Objects of its containers."""

    def __init__(self, vm: VM, namespace: str) -> None:
        self.vm = vm
        self.namespace = namespace
        vm.guards.read(keeps_order, namespace)
        self.known: dict[int, tuple[Any, Object]] = {}

    def of(self, tree: Object) -> Any:
        tree = self.vm.observe(tree)
        made: Any
        if tree.cls is type(None):
            return None
        if id(tree.cls) not in CONTAINERS:
            is_plain = type(tree.cls) is type or issubclass(tree.cls, torch.Tensor)  # optree's registry asks classes for their hashes
            if not is_plain or self.vm.guards.read(takes_apart, tree.cls, self.namespace):
                self.vm.unsupported(breaks.UnsupportedCall(f"optree on a {classes.qualname(tree.cls)}"))
            return tree
        if isinstance(tree, DictObject):
            made = {key.constant(self.vm): self.of(value) for key, value in tree.open(self.vm).values()}
        else:
            made = tree.cls([self.of(item) for item in abstract.iterate(self.vm, tree)])
        self.known[id(made)] = made, tree
        return made

    def objects(self, parts: list[Any]) -> Object:
        """Leaves and containers of the skeleton, as Objects of the trace."""
        return self.vm.from_real([self.known[id(part)][1] if id(part) in self.known else part for part in parts])


def takes_apart(cls: type, namespace: str) -> bool:
    """Return whether optree treats values of a class as nodes."""
    optree: Any = sys.modules["optree"]
    return optree.register_pytree_node.get(cls, namespace=namespace) is not None or optree.is_namedtuple_class(cls) or optree.is_structseq_class(cls)


def keeps_order(namespace: str) -> bool:
    """Return whether optree keeps the order of dicts' items, and doesn't sort the keys."""
    return bool(sys.modules["optree._C"].is_dict_insertion_ordered(namespace))


def flatten(vm: VM, tree: Object, leaf_predicate: Object | None = None, none_is_leaf: Object | None = None, namespace: Object | None = None) -> Object:
    """optree._C.flatten."""
    if leaf_predicate is not None and vm.observe(leaf_predicate).cls is not type(None):
        vm.unsupported(breaks.UnsupportedCall("optree with a function that says what is a leaf"))
    keeps_none = none_is_leaf is not None and bool(vm.observe(none_is_leaf).constant(vm))
    name = "" if namespace is None else str(vm.observe(namespace).constant(vm))
    skeleton = Skeleton(vm, name)
    leaves, spec = asked(vm, sys.modules["optree._C"].flatten, skeleton.of(tree), None, keeps_none, name)
    return vm.from_real((skeleton.objects(leaves), TreeSpecObject(type(spec), None, spec)))


def unflatten(vm: VM, self: Object, leaves: Object) -> Object:
    """PyTreeSpec.unflatten. Containers other than those in CONTAINERS are made by functions of the program, or hold something that the trace can't read."""
    other = next((kind for kind in kinds(self.value) if id(kind) not in CONTAINERS), None)
    if other is not None:
        vm.unsupported(breaks.UnsupportedCall(f"optree making a {classes.qualname(other)}"))
    return vm.from_real(asked(vm, self.constant(vm).unflatten, abstract.iterate(vm, leaves)))


def kinds(spec: Any) -> Iterator[type]:
    """The classes of all nodes of a structure except leaves and None."""
    if spec.type not in (None, type(None)):
        yield spec.type
    for child in spec.children():
        yield from kinds(child)


def flatten_up_to(vm: VM, self: Object, tree: Object) -> Object:
    """PyTreeSpec.flatten_up_to: the parts of a structure at the places where this one has its leaves."""
    spec = self.constant(vm)
    skeleton = Skeleton(vm, spec.namespace)
    return skeleton.objects(asked(vm, spec.flatten_up_to, skeleton.of(tree)))


def asked(vm: VM, function: Any, *args: Any) -> Any:
    """The answer of optree for skeletons. If it raises, the call runs natively: the message shows the leaves."""
    try:
        return function(*args)
    except Exception as error:
        vm.unsupported(breaks.UnsupportedCall(f"optree, which raises {type(error).__name__}"))


@library(RuleOrder.BY_KIND)
def by_optree(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A call of one of optree's functions in C++."""
    value = function.value
    module = native() if type(value) is BuiltinFunctionType and value.__module__ in ("optree", "optree._C") else None
    if module is None:
        return None
    if value is module.flatten:
        return flatten(vm, *args, **kwargs)
    for name, model in (("unflatten", unflatten), ("flatten_up_to", flatten_up_to)):
        if value is vars(module.PyTreeSpec)[name].__func__ and len(args) == 2 and isinstance(vm.observe(args[0]), TreeSpecObject):
            return model(vm, vm.observe(args[0]), args[1])
    return None
