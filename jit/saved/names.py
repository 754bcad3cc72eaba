"""Names under which the next process finds an object of this one again, each with a fingerprint, so that another object of that name isn't mistaken for it.

    name_of(torch.relu)                     # ("attribute", "torch", "relu", ("builtin_function_or_method", "relu"))
    find(name_of(torch.relu)) is torch.relu

No module is imported to find an object, except for framejit's own: what isn't there yet is Absent. None of the program's code runs.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import gc
import hashlib
import inspect
import os
import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload, OpOverloadPacket

from framejit.bytecode import splice
from framejit.process.when_needed import load
from framejit.program import classes
from framejit.program.naming import PLAIN
from framejit.program.signatures import function_with, signature_of

Name = tuple[Any, ...]
"""A key of FINDERS, followed by the arguments of that function, which are plain data."""

DESCRIPTORS = (ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType)
OWNED: tuple[Any, ...] = (BuiltinFunctionType, MethodWrapperType)
"""Types of methods in C that are bound to an object, of which a module's functions are the most common."""
OWN = "framejit."
CACHED = type(functools.lru_cache(lambda: None))
MOST_REACHED, DEPTH = 20_000, 4
"""So many objects are looked at, so many steps away from those nearby, in the search for a name."""
MOST_WRAPPED = 16
"""So many functions are looked at inside of the decorators of one."""


class Unsaved(Exception):
    """Something can't be saved. The message says what: "it refers to ..."."""


class Awaited(Unsaved):
    """Something can't be saved yet. `listeners`: a list to which a function is added that is called when it can be."""

    def __init__(self, why: str, listeners: list[Callable[[], None]]) -> None:
        super().__init__(why)
        self.listeners = listeners


class Absent(Exception):
    """An object that was saved by its name isn't there, or isn't the same any more. The message names it."""


class Namer:
    """Finds names for the objects of this process, as long as no module changes. `near`: objects from which others are looked for that no module has."""

    def __init__(self, near: Iterable[Any] = ()) -> None:
        self._names: dict[int, tuple[Any, Name]] = {}
        self._near = (*near, os.environ)  # whose functions were made inside of a function of os that is gone
        self._steps: dict[int, Step] | None = None

    def name_of(self, value: Any) -> Name:
        """The name of an object. Raises Unsaved if it has none."""
        known = self._names.get(id(value))
        if known is None:
            if not is_known(value):
                raise Unsaved(f"it refers to {described(value)}, whose value a name doesn't tell")
            known = self._names[id(value)] = value, self._found(value)
        return known[1]

    def _found(self, value: Any) -> Name:
        for name in self._candidates(value):
            try:
                found = find(name)
            except Absent:
                continue
            if found is value or (name[0] == "bound" and found == value):
                return name
        inside = self._inside(value)
        if inside is not None:
            return inside
        raise Unsaved(f"it refers to {described(value)}, which no module has under a name")

    def _inside(self, value: Any) -> Name | None:
        """A name by the steps that lead to an object from one nearby that has a name."""
        steps = self._all_steps()
        path: list[Step] = []
        while (step := steps.get(id(value if not path else path[-1].origin))) is not None:
            path.append(step)
        if not path:
            return None
        name = self.name_of(path[-1].origin)
        for step in reversed(path):
            name = "step", name, step.kind, step.key, fingerprint(step.value)
        try:
            return name if find(name) is value else None
        except Absent:
            return None

    def _all_steps(self) -> dict[int, Step]:
        """The last step to each object that is reached from those nearby."""
        if self._steps is not None:
            return self._steps
        steps: dict[int, Step] = {}
        self._steps = steps
        waiting: deque[tuple[Any, int]] = deque()
        for value in self._near:
            with contextlib.suppress(Unsaved):
                self.name_of(value)
                waiting.append((value, 0))
        seen = {id(value) for value, _ in waiting}
        while waiting and len(steps) < MOST_REACHED:
            value, depth = waiting.popleft()
            for kind, key, found in steps_from(value):
                if id(found) not in seen and type(found) not in PLAIN:
                    seen.add(id(found))
                    steps[id(found)] = Step(value, kind, key, found)
                    if type(found) is FunctionType:  # however many other objects are as near as its code
                        steps.setdefault(id(found.__code__), Step(found, "code", None, found.__code__))
                    if depth < DEPTH:
                        waiting.append((found, depth + 1))
        return steps

    def _candidates(self, value: Any) -> Iterator[Name]:
        kind = type(value)
        if classes.is_subtype(kind, ModuleType):
            yield "module", ModuleType.__getattribute__(value, "__dict__").get("__name__")
        elif kind is dict:
            modules = list(sys.modules.items()) if type(dict.get(value, "__name__")) is str else []
            yield from (("globals", name) for name, module in modules if isinstance(module, ModuleType) and vars(module) is value)
        elif kind is CodeType:
            for name in modules_of(value):
                yield "code", name, value.co_qualname, digest_of(value)
            return
        elif kind in DESCRIPTORS:
            owner = value.__objclass__
            keys = [value.__name__, *(key for key, found in list(classes.class_dict(owner).items()) if found is value)]
            for key in keys:
                yield "member", self.name_of(owner), key, fingerprint(value)
            return
        elif kind is inspect.Signature:
            if (of := function_with(value)) is not None:
                yield "signature", self.name_of(of[0]), of[1]
            return
        elif kind in (OpOverload, OpOverloadPacket):
            yield "operator", tuple(str(value).split("."))
            return
        elif kind is FunctionType or classes.is_subtype(kind, type):
            module = value.__module__ if kind is FunctionType else classes.module(value)
            yield "attribute", module, value.__qualname__ if kind is FunctionType else classes.qualname(value), fingerprint(value)
        elif kind in OWNED and type(value.__module__) is str:
            yield "attribute", value.__module__, value.__qualname__, fingerprint(value)
        elif kind in OWNED and classes.is_subtype(type(value.__self__), type):  # `object.__new__`, which modules have under other names
            with contextlib.suppress(Unsaved):
                yield "bound", self.name_of(value.__self__), value.__name__
        for module, key in Places.of(value):
            yield "attribute", module, key, fingerprint(value)
        if kind in OWNED and value.__self__ is not None and not isinstance(value.__self__, ModuleType):
            yield "bound", self.name_of(value.__self__), value.__name__


class Step(NamedTuple):
    """A step from one object to another, as `steps_from` gives it."""

    origin: Any
    kind: str
    key: Any
    value: Any


class Places:
    """The variables of modules by the ids of the objects that they held when this was made, and modules by their files. No module has been imported since."""

    modules = 0
    found: dict[int, list[tuple[str, str]]] = {}
    files: dict[str, list[str]] = {}

    @classmethod
    def of(cls, value: Any) -> list[tuple[str, str]]:
        """The names of modules and of their variables that may hold an object, beginning with the module that is likeliest to be imported first."""
        cls.look()
        return sorted(cls.found.get(id(value), ()), key=lambda place: (not place[0].startswith("torch._C"), place[0].count("."), place))

    @classmethod
    def in_file(cls, file: str) -> list[str]:
        """The names of the modules that have been imported from a file."""
        cls.look()
        return cls.files.get(file, [])

    @classmethod
    def look(cls) -> None:
        """Look at all modules, if there are others than before."""
        if cls.modules == len(sys.modules):
            return
        cls.modules, cls.found, cls.files = len(sys.modules), {}, {}
        for name, module in list(sys.modules.items()):
            if not isinstance(module, ModuleType):
                continue
            namespace = ModuleType.__getattribute__(module, "__dict__")
            if type(namespace.get("__file__")) is str:
                cls.files.setdefault(namespace["__file__"], []).append(name)
            for key, held in list(namespace.items()):
                if type(key) is str and type(held) not in PLAIN:
                    cls.found.setdefault(id(held), []).append((name, key))


def described(value: Any) -> str:
    """An object in words."""
    kind = type(value)
    if classes.is_subtype(kind, type):
        return f"the class {classes.qualname(value)}"
    if kind in (FunctionType, BuiltinFunctionType, CodeType):
        return f"the {'code' if kind is CodeType else 'function'} {value.co_qualname if kind is CodeType else value.__qualname__}"
    return f"an object of the class {classes.qualname(kind)}"


def modules_of(code: CodeType) -> list[str]:
    """The names of modules that a code object may have been written in."""
    frozen = [code.co_filename[len("<frozen ") : -1]] if code.co_filename.startswith("<frozen ") else []
    return frozen + Places.in_file(code.co_filename)


def steps_from(value: Any) -> Iterator[tuple[str, Any, Any]]:
    """The objects that an object leads to without running code: the kind of step and its key, as `step` takes them, and the object."""
    kind = type(value)
    if kind is FunctionType:
        for index, cell in enumerate(value.__closure__ or ()):
            if cell != CellType():
                yield "cell", index, cell.cell_contents
        yield "code", None, value.__code__
    elif classes.is_subtype(kind, type):
        yield from (("class", key, found) for key, found in list(classes.class_dict(value).items()) if type(key) is str)
        yield from (("base", index, found) for index, found in enumerate(classes.mro(value)))
    elif kind is property:
        yield from (("property", index, found) for index, found in enumerate((value.fget, value.fset, value.fdel)) if found is not None)
    elif kind in (staticmethod, classmethod):
        yield "function", None, value.__func__
    elif kind is MappingProxyType:
        yield "inside", None, gc.get_referents(value)[0]
    elif kind is dict or kind is OrderedDict:
        yield from (("item", key, found) for key, found in list(dict.items(value)) if type(key) is str)
    elif kind is CACHED:
        yield "function", None, value.__wrapped__
    elif classes.flags(kind) & classes.HEAP_TYPE:
        yield from (("field", key, found) for key, found in list(fields_of(value).items()) if type(key) is str)
        for cls in classes.mro(kind):
            for key, descriptor in list(classes.class_dict(cls).items()):
                if type(descriptor) is MemberDescriptorType and (found := slot_of(value, descriptor)) is not Absent:
                    yield "slot", (classes.module(cls), classes.qualname(cls), key), found


def fields_of(value: Any) -> dict[str, Any]:
    """The `__dict__` of an object; empty if it has none."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def slot_of(value: Any, descriptor: Any) -> Any:
    try:
        return descriptor.__get__(value)
    except AttributeError:
        return Absent


def find_step(base: Name, kind: str, key: Any, expected: Any) -> Any:
    """Find an object by a step from the object of a name."""
    for other, at, found in steps_from(find(base)):
        if other == kind and at == key:
            return unchanged(found, expected, f"what {kind} {key} led to")
    raise Absent(f"what {kind} {key} led to")


_digests: weakref.WeakKeyDictionary[CodeType, str] = weakref.WeakKeyDictionary()


def digest_of(code: CodeType) -> str:
    """A hash of all that a code object does, with its lines and the code inside it, but without the name of its file."""
    with contextlib.suppress(TypeError):  # code of a step, which has lists or dicts among its constants, has no hash of its own
        found = _digests.get(code)
        if found is None:
            found = _digests[code] = hashlib.sha256(repr(written(code)).encode()).hexdigest()[:32]
        return found
    return hashlib.sha256(repr(written(code)).encode()).hexdigest()[:32]


def written(value: Any) -> Any:
    """A constant of a code object, or the code, as plain data whose `repr()` tells it from all others. Of what isn't plain, this is the type."""
    kind = type(value)
    if kind is CodeType:
        return (
            value.co_qualname, value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags, value.co_code, value.co_names,
            value.co_varnames, value.co_cellvars, value.co_freevars, value.co_linetable, value.co_exceptiontable, value.co_firstlineno,
            tuple(map(written, value.co_consts)),
        )  # fmt: skip
    if kind is tuple:
        return tuple(map(written, value))
    if kind is frozenset:
        return "frozenset", sorted(repr(written(item)) for item in value)
    if kind is dict:
        return tuple([(written(key), written(item)) for key, item in value.items()])
    if kind is FunctionType:  # in the prologue of a resume function
        return "function", value.__module__, value.__qualname__, digest_of(value.__code__)
    if kind is BuiltinFunctionType:
        return "builtin", value.__module__, value.__qualname__
    if kind is splice.Lasti:
        return "lasti", int(value), value.offset
    return (kind.__name__, repr(value)) if kind in PLAIN else (classes.module(kind), classes.qualname(kind))


size_of: Callable[[type], int] = type.__dict__["__basicsize__"].__get__
"""The size of a class's instances in bytes, without their items."""


def fingerprint(value: Any) -> Any:
    """Plain data that differ between objects which may lie under one name, as far as a trace takes them for constants without further guards."""
    kind = type(value)
    if classes.is_subtype(kind, type):
        ancestors = tuple([(classes.module(cls), classes.qualname(cls)) for cls in classes.mro(value)])
        return classes.qualname(kind), ancestors, size_of(value), *members_of(value)
    if kind is FunctionType:
        return "function", value.__module__, value.__qualname__, digest_of(value.__code__), written(value.__defaults__), written(value.__kwdefaults__)
    if kind is CodeType:
        return "code", digest_of(value)
    if kind in OWNED or kind in DESCRIPTORS:
        return kind.__name__, value.__qualname__
    if kind is property:
        return "property", *[None if part is None else fingerprint(part) for part in (value.fget, value.fset, value.fdel)]
    if kind in (staticmethod, classmethod):
        return kind.__name__, fingerprint(value.__func__)
    if kind is inspect.Signature or kind is inspect.Parameter:
        parameters = [value] if kind is inspect.Parameter else value.parameters.values()
        return kind.__name__, tuple([(found.name, int(found.kind), written(found.default)) for found in parameters])
    if classes.is_subtype(kind, enum.Enum):
        return classes.qualname(kind), value._name_, written(value._value_), *members_of(kind)
    if kind is FIELD:
        return "field", value.__reduce__()[1][0]  # its index
    return classes.module(kind), classes.qualname(kind), [written(item) for item in value] if kind in (frozenset, tuple) else None


def members_of(cls: Any) -> tuple[Any, ...]:
    """Plain data about the members of an enum, which a trace takes for constants; empty for other classes. Combinations of flags, which are made when they
    are asked for, aren't among them."""
    found = classes.class_dict(cls)
    named, by_value, boundary = found.get("_member_map_"), found.get("_value2member_map_"), found.get("_boundary_")
    if not classes.is_subtype(type(cls), enum.EnumMeta) or type(named) is not dict or type(by_value) is not dict:
        return ()
    names = [(name, member._name_, written(member._value_)) for name, member in named.items()]
    values = sorted(repr((written(value), member._name_)) for value, member in by_value.items() if member._name_ in named)
    return tuple(names), tuple(values), getattr(boundary, "_name_", None)


OPAQUE = (dict, list, set, OrderedDict, MappingProxyType, ModuleType, type(torch.ops), type(os.environ), CACHED)
"""Types of Python's own whose objects a trace doesn't take for constants: it guards what they hold."""
FIELD: Any = type(classes.class_dict(Step)["kind"])
"""The type of descriptors for the fields of named tuples."""
OF_EXTENSIONS = ("pybind11_builtins", "nanobind", "numpy")
"""Modules whose metaclasses make types in C, of which a trace may take objects for constants."""
CONSTANT = (torch.dtype, torch.layout, torch.memory_format, type(torch.default_generator), frozenset, tuple, ContextVar)
"""Types in C of objects that are known by their names."""


def is_known(value: Any) -> bool:
    """Return whether the fingerprint of an object that a guard identifies tells all that a trace may take for constant in it."""
    kind = type(value)
    if classes.is_subtype(kind, type) or classes.is_subtype(kind, ModuleType) or classes.is_subtype(kind, enum.Enum):
        return True
    if kind in (FunctionType, CodeType, property, staticmethod, classmethod, inspect.Signature, inspect.Parameter, *OWNED, *DESCRIPTORS, *OPAQUE, *CONSTANT):
        return True
    if kind in (OpOverload, OpOverloadPacket, FIELD):
        return True
    is_of_python = classes.flags(kind) & classes.HEAP_TYPE and classes.module(type(kind)) not in OF_EXTENSIONS
    module = classes.module(kind)  # Cython's types have a descriptor there
    return bool(is_of_python) and type(module) is str and module.partition(".")[0] not in sys.stdlib_module_names


def find(name: Name) -> Any:
    """The object of a name. Raises Absent."""
    kind, *rest = name
    return FINDERS[kind](*rest)


def namespace_of(module: Any) -> dict[str, Any]:
    """The globals of a module that has been imported. Raises Absent."""
    return ModuleType.__getattribute__(find_module(module), "__dict__")  # type: ignore[no-any-return]


def find_module(name: Any) -> ModuleType:
    found = sys.modules.get(name) if type(name) is str else None
    if found is None and type(name) is str and name.startswith(OWN):
        found = load(name)
    if not isinstance(found, ModuleType):
        raise Absent(f"the module {name}")
    return found


def find_attribute(module: str, path: str, expected: Any) -> Any:
    """Find an object by a path through a module and its classes."""
    first, *rest = path.split(".")
    found = namespace_of(module).get(first, Absent)
    for part in rest:
        found = classes.class_dict(found).get(part, Absent) if isinstance(found, type) else Absent
    if found is Absent:
        raise Absent(f"{module}.{path}")
    return unchanged(found, expected, f"{module}.{path}")


def unchanged(found: Any, expected: Any, where: str) -> Any:
    """Return the object that was found, or the function inside its decorators. Raises Absent if neither has the fingerprint of the saved one."""
    if fingerprint(found) == expected:
        return found
    for function in inside_decorators(found):
        if fingerprint(function) == expected:
            return function
    raise Absent(f"{where}, which has changed,")


def find_code(module: str, path: str, digest: str) -> CodeType:
    """The code object of a function, which may be wrapped by decorators, or be defined in another function."""
    outer, *inner = path.split(".<locals>.")
    first, *rest = outer.split(".")
    found = namespace_of(module).get(first)
    for part in rest:
        found = classes.class_dict(found).get(part) if isinstance(found, type) else None
    for function in inside_decorators(found):
        for code in within(function.__code__, inner):
            if digest_of(code) == digest:
                return code
    raise Absent(f"the code of {module}.{path}")


def inside_decorators(value: Any) -> Iterator[FunctionType]:
    """The functions inside a decorator's result: those of a property, a static or class method, and what `functools.wraps` has recorded."""
    waiting, looked_at = [value], 0
    while waiting and looked_at < MOST_WRAPPED:
        found, looked_at = waiting.pop(), looked_at + 1
        if type(found) is FunctionType:
            yield found
        if type(found) in (FunctionType, CACHED):
            waiting += [found.__dict__["__wrapped__"]] if "__wrapped__" in found.__dict__ else []
        elif type(found) is property:
            waiting += [found.fget, found.fset, found.fdel]
        elif type(found) in (staticmethod, classmethod):
            waiting.append(found.__func__)


def within(outer: CodeType, path: list[str]) -> list[CodeType]:
    """The code objects that a path through the functions inside a code object leads to."""
    found = [outer]
    for part in path:
        for step in part.split("."):
            found = [inner for each in found for inner in each.co_consts if type(inner) is CodeType and inner.co_name == step]
    return found


def find_member(owner: Name, key: str, expected: Any) -> Any:
    """An attribute in the dictionary of a class."""
    cls = find(owner)
    found = classes.class_dict(cls).get(key, Absent)
    where = f"{classes.qualname(cls)}.{key}"
    if found is Absent:
        raise Absent(where)
    return unchanged(found, expected, where)


def find_operator(path: tuple[str, ...]) -> Any:
    """An operator of torch, or one of its overloads."""
    found: Any = torch.ops
    for part in path:
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Absent(f"the operator {'.'.join(path)}") from None
    return found


def find_bound(owner: Name, key: str) -> Any:
    """A method in C of an object."""
    found = getattr(find(owner), key, Absent)
    if type(found) not in OWNED:
        raise Absent(f"the method {key}")
    return found


def find_signature(function: Name, bound: bool) -> inspect.Signature:
    """The signature of a function or of a bound method."""
    return signature_of(find(function), bound)


FINDERS: dict[str, Callable[..., Any]] = {
    "module": find_module,
    "globals": namespace_of,
    "attribute": find_attribute,
    "code": find_code,
    "member": find_member,
    "operator": find_operator,
    "bound": find_bound,
    "step": find_step,
    "signature": find_signature,
}
