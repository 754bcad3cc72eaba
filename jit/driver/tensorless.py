"""Finds functions that compute no tensors, by the names in their code: functions that draw numbers, arrange lists or compute with NumPy.

    def spans(length, p):
        return np.random.choice(np.arange(length), int(p * length + np.random.rand()), replace=False)

If there is a graph break inside such a function, it is better to break at its call, which then runs natively: the pieces of the function would be graphs
without tensors. The answer matters only for speed, since native code runs as in eager, so nothing that is read here is guarded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from framejit.bytecode.decode import decode
from framejit.program import classes

MOST_CALLS = 8
"""At most so many functions are looked at in one search."""
FEW = 16
"""The most items of a container that are looked at."""
HARMLESS_PACKAGES = (frozenset(sys.stdlib_module_names) | {"numpy"}) - {"importlib"}
"""Packages whose functions compute no tensors, and call no code that does, unless it is passed to them."""
ATOMS = (type(None), bool, int, float, complex, str, bytes, range, slice, torch.dtype, torch.device, np.ndarray, np.generic, np.dtype)
USES = ("LOAD_FAST", "STORE_FAST", "DELETE_FAST", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF")
"""Instructions that use the value of a variable."""
CONTAINERS = (list, tuple, set, frozenset, torch.Size)
ITERATORS: tuple[type, ...] = (type(iter(range(0))), type(iter(())), type(iter([])), enumerate, zip)
"""Types of iterators whose items can't be seen without taking them."""


Owners = Mapping[str, Any]
"""For the names of variables, objects of which code only reads attributes and calls methods."""
NONE: Owners = {}


def is_tensorless(function: FunctionType, receiver: Any = None) -> bool:
    """Return whether a function, and the functions that it calls, compute no tensors. `receiver`: the object whose method it is."""
    owners = NONE if receiver is None else {function.__code__.co_varnames[0]: receiver}
    return _Look().function(function.__code__, function.__globals__, function.__closure__ or (), owners)


def is_tensorless_code(code: CodeType, namespace: dict[str, Any], owners: Owners) -> bool:
    """Return whether code with these globals computes no tensors. `owners`: the objects in its variables and cells, without plain values."""
    return _Look().function(code, namespace, (), owners)


def is_plain(value: Any, steps: int = 3) -> bool:
    """Return whether a value is a number, a string, an array, or a container of such values."""
    cls = type(value)
    if issubclass(cls, ATOMS):
        return True
    if cls in ITERATORS:
        return True
    if not steps:
        return False
    if cls in CONTAINERS:
        return all(is_plain(item, steps - 1) for item, _ in zip(value, range(FEW)))
    return cls is dict and all(is_plain(item, steps - 1) for item, _ in zip(value.values(), range(FEW)))


class _Look:
    """The state of one search through a function and the functions that it calls."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, ...]] = set()

    def function(self, code: CodeType, namespace: dict[str, Any], cells: tuple[CellType, ...], owners: Owners) -> bool:
        key = (id(code), *map(id, owners.values()))
        if key in self.seen:
            return True
        self.seen.add(key)
        if len(self.seen) > MOST_CALLS or not all(reads_attributes_only(code, name) for name in owners):
            return False
        names = dict.fromkeys(names_in(code))
        return (
            "__class__" not in code.co_freevars
            and not any(instruction.op == "IMPORT_NAME" for each in codes_in(code) for instruction in decode(each).instructions)
            and all(self.value(namespace[name]) for name in names if name in namespace)
            and all(self.cell(cell) for cell in cells)
            and all(self.attribute(owner, name) for owner in owners.values() for name in names)
        )

    def cell(self, cell: CellType) -> bool:
        try:
            return self.value(cell.cell_contents)
        except ValueError:
            return True

    def value(self, value: Any) -> bool:
        """Return whether the use of a value, which code names, can't compute tensors."""
        cls = type(value)
        if cls is FunctionType:
            return is_harmless(value.__module__) or self.function(value.__code__, value.__globals__, value.__closure__ or (), NONE)
        if cls is ModuleType:
            return is_harmless(value.__name__)
        if issubclass(cls, type):
            return is_harmless(classes.module(value))
        return is_plain(value) or (not issubclass(cls, torch.Tensor) and is_harmless(classes.module(cls)) and not is_container(cls))

    def attribute(self, owner: Any, name: str) -> bool:
        """Return whether an attribute of an object isn't a tensor, nor a method that computes tensors; also true if the object has no such attribute. For
        classes this isn't known."""
        cls = type(owner)
        if issubclass(cls, type):
            return False
        for table in ("__dict__", "_parameters", "_buffers", "_modules"):
            held = getattr_static(owner, table)
            if type(held) is dict and name in held:
                return is_plain(held[name])
        found = classes.lookup(cls, name)
        if isinstance(found, (staticmethod, classmethod)):
            return type(found) is staticmethod and self.value(found.__func__)
        if type(found) is FunctionType:
            owners = {found.__code__.co_varnames[0]: owner} if found.__code__.co_argcount else NONE
            return self.function(found.__code__, found.__globals__, found.__closure__ or (), owners)
        return is_plain(found) and classes.lookup(cls, "__getattribute__") is object.__getattribute__


def getattr_static(owner: Any, table: str) -> Any:
    """A dict of an instance: its `__dict__`, or a dict in there with this name, such as `_parameters` of modules. A class has none."""
    if not classes.dictoffset(type(owner)) or issubclass(type(owner), type):
        return None
    try:
        attributes = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None
    return attributes if table == "__dict__" or not isinstance(attributes, dict) else dict.get(attributes, table)


def is_harmless(module: Any) -> bool:
    """Return whether a module with this name belongs to a package whose functions compute no tensors."""
    return isinstance(module, str) and module.partition(".")[0] in HARMLESS_PACKAGES


def is_container(cls: type) -> bool:
    return issubclass(cls, (*CONTAINERS, dict)) or hasattr(cls, "__iter__")


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of all functions that are defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def names_in(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in the code of a function, and of all functions that are defined inside it."""
    for each in codes_in(code):
        yield from each.co_names


def reads_attributes_only(code: CodeType, name: str) -> bool:
    """Return whether code only reads attributes of a variable, also in functions that are defined inside it."""
    for each in codes_in(code):
        decoded = decode(each)
        for instruction, following in zip(decoded.instructions, decoded.instructions[1:]):
            if instruction.op in USES and decoded.slots[instruction.arg or 0] == name and following.op not in ("LOAD_ATTR", "LOAD_METHOD"):
                return False
    return True
