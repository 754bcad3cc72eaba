"""Which functions compute no tensors, by what their code names: those that draw numbers, arrange lists and compute with NumPy.

    def spans(length, p):
        return np.random.choice(np.arange(length), int(p * length + np.random.rand()), replace=False)

A graph break in the middle of one is best taken at its call, which then runs natively: its pieces would be graphs without a tensor. The
answer decides about speed alone, for code runs natively as it does in eager, so nothing that is looked at here is guarded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from framejit import classes
from framejit.bytecode.decode import decode

MOST_CALLS = 8
"""So deep are functions followed into those that they name."""
FEW = 16
"""The most items of a container that are looked at."""
HARMLESS_PACKAGES = (frozenset(sys.stdlib_module_names) | {"numpy"}) - {"importlib"}
"""Packages whose functions compute no tensors, and call no code that does, unless it is handed to them."""
ATOMS = (type(None), bool, int, float, complex, str, bytes, range, slice, torch.dtype, torch.device, np.ndarray, np.generic, np.dtype)
USES = ("LOAD_FAST", "STORE_FAST", "DELETE_FAST", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF")
"""Instructions that do something with what a variable holds."""
CONTAINERS = (list, tuple, set, frozenset, torch.Size)
ITERATORS: tuple[type, ...] = (type(iter(range(0))), type(iter(())), type(iter([])), enumerate, zip)
"""Iterators of whose items nothing is known without a step."""


Owners = Mapping[str, Any]
"""By the name of a variable, an object of which code only reads attributes, and calls methods."""
NONE: Owners = {}


def is_tensorless(function: FunctionType, receiver: Any = None) -> bool:
    """Whether a function, and what it calls, computes no tensors. `receiver`: the object whose method it is."""
    owners = NONE if receiver is None else {function.__code__.co_varnames[0]: receiver}
    return _Look().function(function.__code__, function.__globals__, function.__closure__ or (), owners)


def is_tensorless_code(code: CodeType, namespace: dict[str, Any], owners: Owners) -> bool:
    """Whether code with these globals computes no tensors. `owners`: what lies in its variables and cells, but for plain values."""
    return _Look().function(code, namespace, (), owners)


def is_plain(value: Any, steps: int = 3) -> bool:
    """Whether a value is a number, a text, an array, or a container of such."""
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
    """One look at a function and those that it leads to."""

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
        """Whether a value that code names leads to no tensors."""
        cls = type(value)
        if cls is FunctionType:
            return is_harmless(value.__module__) or self.function(value.__code__, value.__globals__, value.__closure__ or (), NONE)
        if cls is ModuleType:
            return is_harmless(value.__name__)
        if issubclass(cls, type):
            return is_harmless(classes.module(value))
        return is_plain(value) or (not issubclass(cls, torch.Tensor) and is_harmless(classes.module(cls)) and not is_container(cls))

    def attribute(self, owner: Any, name: str) -> bool:
        """Whether an attribute of an object, if it has one of this name, is no tensor, and a method that computes none. Of classes, that isn't known."""
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
    """A dict of an instance's: its `__dict__`, or one that lies there, as modules have them. A class has none in this sense."""
    if not classes.dictoffset(type(owner)) or issubclass(type(owner), type):
        return None
    try:
        attributes = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None
    return attributes if table == "__dict__" or not isinstance(attributes, dict) else dict.get(attributes, table)


def is_harmless(module: Any) -> bool:
    """Whether a module's name is that of one whose functions compute no tensors."""
    return isinstance(module, str) and module.partition(".")[0] in HARMLESS_PACKAGES


def is_container(cls: type) -> bool:
    return issubclass(cls, (*CONTAINERS, dict)) or hasattr(cls, "__iter__")


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those that it makes."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def names_in(code: CodeType) -> Iterator[str]:
    """The globals and attributes that the code of a function, and of those that it makes, names."""
    for each in codes_in(code):
        yield from each.co_names


def reads_attributes_only(code: CodeType, name: str) -> bool:
    """Whether code does nothing with a variable but to read attributes of it, in the functions that it makes too."""
    for each in codes_in(code):
        decoded = decode(each)
        for instruction, following in zip(decoded.instructions, decoded.instructions[1:]):
            if instruction.op in USES and decoded.slots[instruction.arg or 0] == name and following.op not in ("LOAD_ATTR", "LOAD_METHOD"):
                return False
    return True
