"""optree, which torch.utils._cxx_pytree uses to take structures apart. optree itself is asked about skeletons of structures of lists, tuples and dicts.

optree is only used if the program has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch

from framejit import breaks
from framejit.guards.source import Source
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, IdentityConstant, Object, fold
from framejit.objects.core.registry import WRAPPERS, RuleOrder, library, wraps
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.funcobject import MethodObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes

CONTAINERS = frozenset(map(id, (list, tuple, dict)))
"""The types, by identity, that structures may consist of here, besides named tuples."""
ANSWERS = frozenset(map(id, (bool, int, type(None))))
"""The types, by identity, that a function that says what is a leaf may return here."""
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
    """A structure of real containers that stands for one of the trace, with the Objects of the trace as leaves.

    `is_leaf`: the program's function that says whether a part is a leaf, which is asked about each part before it is taken apart. `known`: the Objects of
    the containers.
    """

    def __init__(self, vm: VM, namespace: str, is_leaf: Object | None = None) -> None:
        self.vm = vm
        self.namespace = namespace
        self.is_leaf = is_leaf
        vm.guards.read(keeps_order, namespace)
        self.known: dict[int, tuple[Any, Object]] = {}

    def of(self, tree: Object) -> Any:
        tree = self.vm.observe(tree)
        made: Any
        if self.is_leaf is not None and self.is_said_to_be_leaf(tree):
            return tree
        if tree.cls is type(None):
            return None
        if id(tree.cls) not in CONTAINERS:
            is_plain = type(tree.cls) is type or issubclass(tree.cls, torch.Tensor)  # optree's registry asks classes for their hashes
            kind = self.vm.guards.read(kind_of, tree.cls, self.namespace) if is_plain else ""
            if kind == "LEAF":
                return tree
            if kind != "NAMEDTUPLE" or not isinstance(tree, TupleObject) or not is_plain_named_tuple(self.vm, tree.cls):
                self.vm.unsupported(breaks.UnsupportedCall(f"optree on a {classes.qualname(tree.cls)}"))
            made = tuple.__new__(tree.cls, [self.of(item) for item in tree.items(self.vm)])
        elif isinstance(tree, DictObject):
            entries = {key.constant(self.vm): value for key, value in tree.open(self.vm).values()}
            parts = {key: self.of(entries[key]) for key in self.in_order(entries)}
            made = {key: parts[key] for key in entries}
        else:
            made = tree.cls([self.of(item) for item in abstract.iterate(self.vm, tree)])
        self.known[id(made)] = made, tree
        return made

    def in_order(self, keys: Iterable[Any]) -> list[Any]:
        """The keys of a dict in the order in which optree goes through them."""
        known = list(keys)
        order, _ = asked(self.vm, sys.modules["optree._C"].flatten, dict(zip(known, range(len(known)))), None, False, self.namespace)
        return [known[position] for position in order]

    def is_said_to_be_leaf(self, part: Object) -> bool:
        """Return whether the program's function says that a part is a leaf. optree knows the truth of fewer values than Python."""
        assert self.is_leaf is not None
        answer = self.vm.observe(abstract.call(self.vm, self.is_leaf, [part], {}))
        if id(answer.cls) not in ANSWERS:
            self.vm.unsupported(breaks.UnsupportedCall("optree with a function that says what is a leaf by another value than a bool"))
        return abstract.truth(self.vm, answer)

    def objects(self, parts: list[Any]) -> Object:
        """Leaves and containers of the skeleton, as Objects of the trace."""
        return self.vm.from_real([self.known[id(part)][1] if id(part) in self.known else part for part in parts])


def kind_of(cls: type, namespace: str) -> str:
    """The name of the kind of node that optree takes values of a class for; "LEAF" if it doesn't take them apart."""
    optree: Any = sys.modules["optree"]
    entry = optree.register_pytree_node.get(cls, namespace=namespace)
    if entry is not None:
        return str(getattr(getattr(entry, "kind", None), "name", "CUSTOM"))
    return "STRUCTSEQUENCE" if optree.is_structseq_class(cls) else "NAMEDTUPLE" if optree.is_namedtuple_class(cls) else "LEAF"


def is_plain_named_tuple(vm: VM, cls: Any) -> bool:
    """Return whether a class of named tuples makes its instances, and gives their items, with the methods that `collections.namedtuple` and `tuple` have."""
    made = vm.raw_type_lookup(cls, "__new__")
    function = getattr(made, "__func__", None)
    if type(function) is not FunctionType or function.__globals__.get("_tuple_new") is not tuple.__new__:
        return False
    return all(vm.raw_type_lookup(cls, name) is getattr(tuple, name) for name in ("__iter__", "__len__", "__getitem__")) and (
        vm.raw_type_lookup(cls, "__init__") is object.__init__
    )


def keeps_order(namespace: str) -> bool:
    """Return whether optree keeps the order of dicts' items, and doesn't sort the keys."""
    return bool(sys.modules["optree._C"].is_dict_insertion_ordered(namespace))


def flatten(vm: VM, tree: Object, leaf_predicate: Object | None = None, none_is_leaf: Object | None = None, namespace: Object | None = None) -> Object:
    """optree._C.flatten."""
    is_leaf = None if leaf_predicate is None or vm.observe(leaf_predicate).cls is type(None) else leaf_predicate
    keeps_none = none_is_leaf is not None and bool(vm.observe(none_is_leaf).constant(vm))
    name = "" if namespace is None else str(vm.observe(namespace).constant(vm))
    skeleton = Skeleton(vm, name, is_leaf)
    leaves, spec = asked(vm, sys.modules["optree._C"].flatten, skeleton.of(tree), None, keeps_none, name)
    return vm.from_real((skeleton.objects(leaves), TreeSpecObject(type(spec), None, spec)))


def unflatten(vm: VM, self: Object, leaves: Object) -> Object:
    """PyTreeSpec.unflatten. Containers other than those in CONTAINERS, and plain named tuples, are made by functions of the program, or hold something that the
    trace can't read."""
    spec = self.constant(vm)
    other = next((kind for kind in kinds(spec) if id(kind) not in CONTAINERS and not is_made_as_named_tuple(vm, kind, spec.namespace)), None)
    if other is not None:
        vm.unsupported(breaks.UnsupportedCall(f"optree making a {classes.qualname(other)}"))
    return vm.from_real(asked(vm, spec.unflatten, abstract.iterate(vm, leaves)))


def is_made_as_named_tuple(vm: VM, cls: type, namespace: str) -> bool:
    """Return whether optree makes values of a class by calling it, and the class is one of plain named tuples."""
    return type(cls) is type and vm.guards.read(kind_of, cls, namespace) == "NAMEDTUPLE" and is_plain_named_tuple(vm, cls)


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
