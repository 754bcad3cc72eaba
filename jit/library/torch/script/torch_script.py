"""Functions and modules that `torch.jit` has compiled: a call of one is one node of the graph.

The tensors and numbers that a method reads from its module are found in the code that TorchScript has made. The node runs a function of the arguments and
of those values, which are fetched from the module of each call: a module that is made again, with the same code, runs the same entry.
"""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinMethodType
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.jit._script import RecursiveScriptModule

from framejit import breaks
from framejit.guards.kinds import DictKeys, Equals, Length, TypeIs
from framejit.guards.script_code import Path, ScriptCode, code_of, lifted
from framejit.guards.script_source import ScriptAnswer, ScriptCodeOf, ScriptRequest
from framejit.guards.source import CAttr, Index, Item, Pinned, Referent, SlotMember, Source
from framejit.library.torch.recurrent.recurrent import RECURRENT
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, IdentityConstant, Object
from framejit.objects.core.registry import app, wraps
from framejit.objects.tensors.torchcall import enter
from framejit.plain import torch_script as plain

app(RecursiveScriptModule.__getattr__)(plain.module_getattr)

CODE = "_framejit_code"
"""The attribute of a scripted function that holds its ScriptCode."""
TARGETS: WeakValueDictionary[str, Callable[..., Any]] = WeakValueDictionary()
"""The functions that nodes call, by the digest of the code."""
RECURRENT_OPERATORS = frozenset(f"aten::{name}" for name in RECURRENT.values())
PLAIN = (bool, int, float, complex, str, type(None), torch.device)


def target_of(script: Any, code: ScriptCode) -> Callable[..., Any]:
    """The function that nodes call for a method or function. FX writes targets by name, and the names of TorchScript's functions can't be resolved."""
    known = TARGETS.get(code.digest)
    if known is not None:
        return known
    function = torch._C._create_function_from_graph(code.name, lifted(script)[0])

    def call(*args: Any) -> Any:
        if not torch._C._len_torch_dispatch_stack():
            return function(*args)
        with torch.jit.optimized_execution(False):  # otherwise TorchScript records the sizes of fakes, and asks whether they have these
            return function(*args)

    call.__name__ = code.name
    call.of_others = True  # type: ignore[attr-defined]
    TARGETS[code.digest] = call
    return call


def bound(vm: VM, code: ScriptCode, args: list[Object], kwargs: dict[str, Object]) -> list[Object]:
    """The arguments of a call, in the order of the code's parameters; if they don't fit, the call runs natively, which raises."""
    found = dict(zip([argument.name for argument in code.arguments if not argument.kwarg_only], args))
    if len(found) == len(args) and not found.keys() & kwargs.keys():
        found.update(kwargs)
        for argument in code.arguments:
            if argument.has_default_value() and argument.name not in found:
                found[argument.name] = vm.from_real(argument.default_value)
        if found.keys() == {argument.name for argument in code.arguments}:
            return [found[argument.name] for argument in code.arguments]
    vm.unsupported(breaks.UnsupportedCall(f"{code.name}() of TorchScript with these arguments"))


def run(vm: VM, script: Any, code: ScriptCode, args: list[Object], kwargs: dict[str, Object], read: Callable[[], list[Object]]) -> Object:
    """Make a call of a method or function a node of the graph. `read`: returns the values that it takes besides the arguments."""
    if code.problem is not None:
        vm.unsupported(breaks.UnsupportedCall(f"{code.name}() of TorchScript, for {code.problem}"))
    if vm.graph.autograd_node is not None and RECURRENT_OPERATORS & code.operators:
        vm.unsupported(breaks.UnsupportedCall(f"{code.name}() of TorchScript, for a recurrent network, of which AOTAutograd makes no backward"))
    return enter(vm, target_of(script, code), [*bound(vm, code, args, kwargs), *read()])


@wraps(torch.jit.ScriptFunction, by_identity=True)
class ScriptFunctionObject(IdentityConstant):
    """A scripted function: immutable, and known by identity. It isn't traced into, because TorchScript's semantics differ from Python's."""

    __slots__ = ()
    is_true = True

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        code = self.value.__dict__.get(CODE)
        if code is None:
            code = self.value.__dict__[CODE] = ScriptCode(self.value)
        return run(vm, self.value, code, args, kwargs, lambda: [vm.wrap(ref(), vm.root_source.child(Pinned, ref).child(Referent)) for ref in code.constants])


# Modules.


def part_at(vm: VM, module: Any, source: Source, path: Path) -> tuple[Any, Source]:
    """An attribute of a scripted module, or of one inside it, and its source."""
    for name in path:
        vm.guard(TypeIs, source, type(module))
        module, source = module.getattr(name), source.child(ScriptAnswer, ScriptRequest("getattr", name))
    return module, source


def attribute(vm: VM, value: Any, source: Source) -> Any:
    """The value of an attribute of a scripted module, for `from_real`: a list or dict is a new one each time. Breaks for values that only TorchScript has."""
    if isinstance(value, torch.Tensor) or type(value) in PLAIN:
        return vm.wrap(value, source)
    if type(value) not in (list, tuple, dict):
        vm.unsupported(breaks.UnsupportedValue(f"{source.name_in_reports()}, which TorchScript holds"))
    vm.guard(TypeIs, source, type(value))
    if type(value) is dict:
        if not all(type(key) in PLAIN for key in value):
            vm.unsupported(breaks.UnsupportedValue(f"{source.name_in_reports()}, which TorchScript holds"))
        vm.guard(DictKeys, source, tuple(value))
        return {key: attribute(vm, item, source.child(Item, key)) for key, item in value.items()}
    vm.guard(Length, source, len(value))
    return type(value)([attribute(vm, item, source.child(Index, i)) for i, item in enumerate(value)])


@wraps(torch._C.ScriptMethod, shared=True)
class ScriptMethodObject(Object):
    """A method of a scripted or traced module."""

    __slots__ = ()
    is_true = True

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        assert self.source is not None
        code, source = code_of(self.value), self.source.child(ScriptCodeOf)
        constants = source.child(SlotMember, ScriptCode.__dict__["constants"])

        def read() -> list[Object]:
            assert self.source is not None
            vm.guard(Equals, source.child(SlotMember, ScriptCode.__dict__["digest"]), code.digest)
            module, owner = self.value.owner, self.source.child(CAttr, "owner")
            found = [vm.from_real(attribute(vm, *part_at(vm, module, owner, path))) for path in code.reads]
            return found + [vm.wrap(ref(), constants.child(Index, i).child(Referent)) for i, ref in enumerate(code.constants)]

        return run(vm, self.value, code, args, kwargs, read)


@wraps(torch._C.ScriptModule, torch._C.ParameterDict, torch._C.BufferDict, shared=True)
class ScriptModuleObject(Object):
    """The C++ part of a scripted module (`module._c`), or its tables of parameters or buffers."""

    __slots__ = ()

    def getattr(self, vm: VM, name: str) -> Object:
        return ScriptQuestion(self, name) if name in QUESTIONS else super().getattr(vm, name)


class ScriptQuestion(Object):
    """A bound method that answers a question about an attribute of a scripted module."""

    __slots__ = ("module", "name")

    def __init__(self, module: Object, name: str) -> None:
        super().__init__(BuiltinMethodType)
        self.module = module
        self.name = name

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        assert self.module.source is not None
        question = ScriptRequest(self.name, *[vm.observe(arg).constant(vm) for arg in args])
        source = self.module.source.child(ScriptAnswer, question)
        found = question.asked()(self.module.value)
        if type(found) in (torch._C.ScriptModule, torch._C.ScriptMethod):
            return vm.wrap(found, source)
        return vm.from_real(attribute(vm, found, source))


QUESTIONS = ("hasattr", "getattr", "_has_method", "_get_method", "contains", "items")
"""Methods of `module._c`, and of its tables of tensors, that say what a scripted module has."""
