"""hashlib: hashes of bytes that the trace knows are computed while tracing. One that outlives the trace is made again from the same bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import BuiltinFunctionType, GetSetDescriptorType, MethodDescriptorType
from typing import Any

from framejit import breaks
from framejit.objects.core.object import VM, Codegen, NotConstant, Object, fold
from framejit.objects.core.registry import models

MAKERS: list[Any] = [
    made for name in sorted(hashlib.algorithms_guaranteed) if isinstance(made := getattr(hashlib, name, None), (BuiltinFunctionType, type))
]
"""The functions and types in C that make a hash, one for each algorithm."""
NAMED: Any = getattr(vars(hashlib).get("_hashlib"), "new", None)
"""The function of OpenSSL's module that `hashlib.new` calls."""
TYPES: list[Any] = list(dict.fromkeys(type(make(usedforsecurity=False)) for make in MAKERS))


class HashObject(Object):
    """A hash that the trace has made. `make`: the function that made it; `args`, `options`: its arguments, without the bytes; `contents`: all bytes hashed."""

    __slots__ = ("make", "args", "options", "contents")

    def __init__(self, make: Any, args: tuple[Any, ...], options: tuple[tuple[str, Any], ...], contents: bytes) -> None:
        super().__init__(type(remade(make, args, options, b"")))
        self.make, self.args, self.options, self.contents = make, args, options, contents

    def real(self) -> Any:
        """A real one of the same bytes."""
        return remade(self.make, self.args, self.options, self.contents)

    def add(self, vm: VM, data: bytes) -> None:
        vm.trail.set(self, "contents", self.contents + data)

    def reconstruct(self, cg: Codegen) -> None:
        for part in (self.make, self.args, self.options, self.contents):
            cg.load_const(part)
        cg.call_const(remade, 4)


def remade(make: Any, args: tuple[Any, ...], options: tuple[tuple[str, Any], ...], contents: bytes) -> Any:
    """A hash of these bytes. Generated code runs this too."""
    made = make(*args, **dict(options))
    if contents:
        made.update(contents)
    return made


def bytes_of(vm: VM, data: Object) -> bytes:
    """The bytes to be hashed."""
    data = vm.observe(data)
    if data.cls is not bytes:
        vm.unsupported(breaks.UnsupportedCall(f"a function of hashlib with a {data.type_name}"))
    found: bytes = data.constant(vm)
    return found


def making(make: Any, named: bool) -> Callable[..., Object]:
    """The model of a function that makes a hash. `named`: its first argument is the algorithm's name."""

    def made(vm: VM, *args: Object, **kwargs: Object) -> Object:
        known, rest = (tuple(vm.observe(arg).constant(vm) for arg in args[:named]), args[named:])
        given = [*rest, *(kwargs.pop(name) for name in ("string", "data") if name in kwargs)]
        options = tuple((name, vm.observe(value).constant(vm)) for name, value in kwargs.items())
        if len(given) > 1 or len(known) < named or not all(type(value) in (str, int, bytes, bool) for value in (*known, *dict(options).values())):
            vm.unsupported(breaks.UnsupportedCall("a function of hashlib with these arguments"))
        contents = bytes_of(vm, given[0]) if given else b""
        try:
            return HashObject(make, known, options, contents)
        except (TypeError, ValueError, OverflowError):
            vm.unsupported(breaks.UnsupportedCall("a function of hashlib with arguments that it doesn't take"))

    return made


def own(obj: Object) -> HashObject:
    """The hash that a method is called on. Raises NotConstant for one from outside."""
    if not isinstance(obj, HashObject):
        raise NotConstant(obj)
    return obj


def update(vm: VM, self: Object, data: Object) -> Object:
    own(self).add(vm, bytes_of(vm, data))
    return vm.const(None)


def copy(vm: VM, self: Object) -> Object:
    known = own(self)
    return HashObject(known.make, known.args, known.options, known.contents)


def giving(name: str) -> Callable[..., Object]:
    """The model of `digest` or `hexdigest`."""

    def give(vm: VM, self: Object, *length: Object, **named: Object) -> Object:
        given, by_name = [vm.observe(arg).constant(vm) for arg in length], {key: vm.observe(value).constant(vm) for key, value in named.items()}
        return fold(vm, getattr(own(self).real(), name), *given, **by_name)

    return give


def field(name: str) -> Callable[..., Object]:
    """The model of reading an attribute."""

    def get(vm: VM, self: Object) -> Object:
        return vm.const(getattr(own(self).real(), name))

    return get


MODELS: dict[str, Callable[..., Object]] = {"update": update, "copy": copy, "digest": giving("digest"), "hexdigest": giving("hexdigest")}
for _make in MAKERS:
    models(_make)(making(_make, False))
if NAMED is not None:
    models(NAMED)(making(NAMED, True))
for _name, _found in [item for cls in TYPES for item in vars(cls).items()]:
    if isinstance(_found, MethodDescriptorType) and _name in MODELS:
        models(_found)(MODELS[_name])
    elif isinstance(_found, GetSetDescriptorType) and not _name.startswith("_"):
        models(_found)(field(_name))
