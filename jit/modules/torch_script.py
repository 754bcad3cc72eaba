"""Functions and modules that `torch.jit` has compiled: a call of one is one node of the graph.

What a scripted module's methods read of it, its tensors and numbers, is found in the code that TorchScript has made of them, and guarded as a setting. The
tensors are inputs of the graph, and the node puts what it is given into the module while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import BuiltinMethodType
from typing import Any

import torch

from framejit import breaks
from framejit.guards.source import Pinned, Source
from framejit.objects.delivery import Delivery
from framejit.objects.listobject import ListObject
from framejit.objects.object import VM, IdentityConstant, Object
from framejit.objects.registry import wraps
from framejit.objects.torchcall import enter

TARGET = "_framejit_target"
"""The attribute of a scripted function that holds the target of its nodes."""


class ScriptFunctionObject(IdentityConstant):
    """A scripted function: immutable, and known by identity. It isn't traced into, as TorchScript doesn't mean all that Python does."""

    __slots__ = ()

    def truth(self, vm: VM) -> bool:
        return True

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        return enter(vm, target_of(self.value), args, kwargs)


@wraps(torch.jit.ScriptFunction, by_identity=True)
def wrap_script_function(vm: VM, value: Any, source: Source | None) -> ScriptFunctionObject:
    return ScriptFunctionObject(type(value), source, value)


def target_of(script: Any) -> Callable[..., Any]:
    """The function that nodes call for a scripted function: FX writes targets by their names, and a scripted function's leads nowhere."""
    known = script.__dict__.get(TARGET)
    if known is None:

        def call(*args: Any, **kwargs: Any) -> Any:
            if not torch._C._len_torch_dispatch_stack():
                return script(*args, **kwargs)
            with torch.jit.optimized_execution(False):  # else TorchScript takes note of the sizes of fakes, and asks whether they have these
                return script(*args, **kwargs)

        call.__name__ = script.name
        call.of_others = True  # type: ignore[attr-defined]
        known = script.__dict__[TARGET] = call
    return known  # type: ignore[no-any-return]


# Modules.

Path = tuple[str, ...]
PLAIN = (bool, int, float, str, type(None))


class CannotBeGuarded(Exception):
    """Code of a scripted module does something with the module that nobody here understands."""


def nodes_of(block: Any) -> Iterator[Any]:
    """The nodes of TorchScript's code, those in branches and loops too."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes_of(inner)


def reads_of(method: torch._C.ScriptMethod) -> tuple[Path, ...]:
    """The paths of the attributes that a method reads of its module, in which modules are left out. Raises CannotBeGuarded where it does more than read."""
    graph = method.inlined_graph
    modules: dict[str, Path] = {next(graph.inputs()).debugName(): ()}
    found: dict[Path, None] = {}
    for node in nodes_of(graph):
        known = [value.debugName() for value in node.inputs() if value.debugName() in modules]
        if not known:
            continue
        if node.kind() != "prim::GetAttr":
            raise CannotBeGuarded(node.kind())
        path = (*modules[known[0]], node.s("name"))
        if node.output().type().kind() == "ClassType":
            modules[node.output().debugName()] = path
        else:
            found[path] = None
    return tuple(found)


def attribute_at(module: Any, path: Path) -> Any:
    """An attribute of a scripted module or of one inside it."""
    for name in path:
        module = module.getattr(name)
    return module


class Watched:
    """Attributes of a scripted module, as an argument of what reads settings: it is known by identity."""

    def __init__(self, module: Any, paths: tuple[Path, ...]) -> None:
        self.module = module
        self.paths = paths

    def told(self) -> tuple[Any, ...]:
        """What tells each from others: of tensors their identity. Raises CannotBeGuarded for what may be changed inside."""
        return tuple([self.one(path) for path in self.paths])

    def one(self, path: Path) -> Any:
        value = attribute_at(self.module, path)
        if isinstance(value, torch.Tensor):
            return id(value)
        if type(value) not in PLAIN and not (type(value) is list and all(type(item) in PLAIN for item in value)):
            raise CannotBeGuarded(".".join(path))
        return type(value), repr(value)


class ScriptMethodObject(IdentityConstant):
    """A method of a scripted or traced module."""

    __slots__ = ()

    def truth(self, vm: VM) -> bool:
        return True

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        module, name = self.value.owner, self.value.name
        try:
            watched = Watched(module, reads_of(self.value))
            told = watched.told()
        except CannotBeGuarded as what:
            vm.unsupported(breaks.UnsupportedCall(f"{name}() of a scripted module, for its use of {what}"))
        vm.guards.setting(Watched.told, (watched,), told)
        paths = [path for path in watched.paths if isinstance(attribute_at(module, path), torch.Tensor)]
        tensors = [attribute_at(module, path) for path in paths]
        inputs: list[Object] = [vm.graph.input(vm.root_source.child(Pinned, tensor), tensor) for tensor in tensors]
        return enter(vm, target_of_method(self.value, paths), [ListObject(inputs), *args], kwargs)


@wraps(torch._C.ScriptMethod, by_identity=True)
def wrap_script_method(vm: VM, value: Any, source: Source | None) -> ScriptMethodObject:
    return ScriptMethodObject(type(value), source, value)


def told_members(members: Any) -> tuple[tuple[str, int], ...]:
    """The names of parameters or buffers, and which tensors they are."""
    return tuple([(name, id(tensor)) for name, tensor in members.items()])


class ScriptModuleObject(IdentityConstant):
    """The part of a scripted module that is in C++ (`module._c`), or what it says of its parameters or buffers."""

    __slots__ = ()

    def getattr(self, vm: VM, name: str) -> Object:
        return ScriptQuestion(self.value, name) if name in QUESTIONS else super().getattr(vm, name)


class ScriptQuestion(Object):
    """A bound method that tells of an attribute of a scripted module."""

    __slots__ = ("module", "name")

    def __init__(self, module: Any, name: str) -> None:
        super().__init__(BuiltinMethodType)
        self.module = module
        self.name = name

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        if self.name == "items":
            vm.guards.read(told_members, self.module)
            return vm.from_real([(name, vm.graph.input(vm.root_source.child(Pinned, tensor), tensor)) for name, tensor in self.module.items()])
        (asked,) = [vm.observe(arg).constant(vm) for arg in args]
        found = getattr(self.module, self.name)(asked)
        if self.name == "getattr" and not isinstance(found, torch._C.ScriptModule):
            watched = Watched(self.module, ((asked,),))
            try:
                vm.guards.setting(Watched.told, (watched,), watched.told())
            except CannotBeGuarded:
                vm.unsupported(breaks.UnsupportedCall(f"reading {asked} of a scripted module"))
        return vm.from_real(found) if type(found) in (*PLAIN, list) else vm.wrap(found, vm.root_source.child(Pinned, found))


QUESTIONS = ("hasattr", "getattr", "_has_method", "_get_method", "contains", "items")
"""Methods of `module._c`, and of its tables of tensors, that say what a scripted module has."""


@wraps(torch._C.ScriptModule, torch._C.ParameterDict, torch._C.BufferDict, by_identity=True)
def wrap_script_module(vm: VM, value: Any, source: Source | None) -> ScriptModuleObject:
    return ScriptModuleObject(type(value), source, value)


def target_of_method(method: Any, paths: Sequence[Path]) -> Callable[..., Any]:
    """The function that nodes call for a method: given the tensors at these paths of its module, and the arguments."""
    module, run = method.owner, target_of(method)

    def call(tensors: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        own = [attribute_at(module, path) for path in paths]
        put(module, paths, tensors, own)
        try:
            return run(*args, **kwargs)
        finally:
            put(module, paths, own, tensors)

    call.__name__ = run.__name__
    call.of_others = True  # type: ignore[attr-defined]
    return call


def put(module: Any, paths: Sequence[Path], tensors: Sequence[torch.Tensor], before: Sequence[torch.Tensor]) -> None:
    """Have a module's attributes be these tensors, where they aren't."""
    for path, tensor, old in zip(paths, tensors, before, strict=True):
        if tensor is not old:
            attribute_at(module, path[:-1]).setattr(path[-1], tensor)
