"""Makes and undoes changes next to the values that a program depends on, which a walk from a callable and its arguments finds.

The walk reaches everything that the program can read. Each rule changes something in the same dict, class, function or module that the
program reads from, but nothing that it reads.
"""

from __future__ import annotations

import builtins
import contextlib
import enum
import functools
import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

NAME = "unrelated_change"
HEAP_TYPE = 1 << 9
MEMBERS: dict[Any, Any] = {1: (torch.ones(5), nn.Identity()), "text": (torch.ones(2, 2, dtype=torch.float64), nn.ReLU())}
HOOK_DICTS = ("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")
ENTERED = (list, tuple, set, frozenset, dict, property, staticmethod, classmethod, functools.partial, types.MethodType, types.SimpleNamespace,
           nn.Module, torch.Tensor)  # fmt: skip
CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)


class Beside(enum.Enum):
    """Things next to an observed thing, which can be changed. ITEM, CELL and STATE have no rule: the scenarios make the change themselves."""

    ATTRIBUTE = "another attribute of the same object, function or module"
    CLASS_ATTRIBUTE = "another attribute of the same class"
    GLOBAL = "another global of the same module"
    KEY = "another key of the same dict"
    DEFAULT = "another default argument of the same function"
    MEMBER = "another parameter, buffer and submodule of the same module, then of another dtype, shape and class"
    HOOK = "another hook dict of the same module"
    VALUE = "the values of the tensors that the program gets or reaches"
    SETTING = "another setting of torch"
    LIBRARY = "another builtin, another attribute of torch, of its modules and of its classes"
    ITEM = "another item of the same list, tuple, set or array, or another argument"
    CELL = "another cell of the same function"
    STATE = "another environment variable, context variable, generator, logger, attribute of the thread"


class Surroundings:
    """The values that a program can reach: from its callable and arguments, through containers, attributes, cells and the globals it names."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self.found: dict[int, Any] = {}
        waiting = list(roots)
        while waiting:
            value = waiting.pop()
            if id(value) not in self.found and self.is_entered(value):
                self.found[id(value)] = value
                waiting += self.below(value)

    def of(self, *kinds: type) -> list[Any]:
        return [value for value in self.found.values() if isinstance(value, kinds)]

    @staticmethod
    def is_entered(value: Any) -> bool:
        """Return whether the walk enters a value. Classes, functions and modules of libraries are left out, for the whole process shares them."""
        if isinstance(value, types.ModuleType):
            return vars(value).get("__spec__") is None
        if isinstance(value, (type, types.FunctionType)):
            return str(value.__module__).startswith("test_") or value.__module__ not in sys.modules
        return isinstance(value, ENTERED) or Surroundings.is_entered(type(value))

    @staticmethod
    def below(value: Any) -> list[Any]:
        if isinstance(value, types.FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
            named = [value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__]
            return [*cells, *named, value.__defaults__, vars(value)]
        if isinstance(value, types.MethodType):
            return [value.__self__, value.__func__]
        if isinstance(value, functools.partial):
            return [value.func, value.args, value.keywords]
        if isinstance(value, property):
            return [value.fget, value.fset]
        if isinstance(value, (staticmethod, classmethod)):
            return [value.__func__]
        if isinstance(value, dict):
            return [*value.values()]
        if isinstance(value, (list, tuple, set, frozenset)):
            return [*value]
        if isinstance(value, type):
            return [*value.__mro__, type(value), *vars(value).values()]
        return [type(value), *dict_of(value).values()]


def dict_of(value: Any) -> dict[str, Any]:
    """Return an object's dict, bypassing `__getattribute__`; an empty one if the object has none."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


def twice(owners: list[Any], change: Callable[[Any, Any], None], undo: Callable[[Any], None]) -> Iterator[None]:
    """Change all owners, change them again to a value of another type, and put them back."""
    try:
        for value in (1, "text") if owners else ():
            for owner in owners:
                change(owner, value)
            yield
    finally:
        for owner in owners:
            undo(owner)


def entries(dicts: Iterable[dict[str, Any]]) -> Iterator[None]:
    return twice(list({id(d): d for d in dicts}.values()), lambda d, value: operator.setitem(d, NAME, value), lambda d: d.pop(NAME, None))


def attributes(around: Surroundings) -> Iterator[None]:
    """Adds an attribute to each object with a dict of its own, bypassing its `__setattr__`, which may have side effects."""
    owners = [value for value in around.found.values() if type(value).__dictoffset__ and not isinstance(value, type)]
    return twice(owners, lambda owner, value: object.__setattr__(owner, NAME, value), lambda owner: object.__delattr__(owner, NAME))


def class_attributes(around: Surroundings) -> Iterator[None]:
    return twice(around.of(type), lambda cls, value: type.__setattr__(cls, NAME, value), lambda cls: type.__delattr__(cls, NAME))


def globals_of_functions(around: Surroundings) -> Iterator[None]:
    return entries(f.__globals__ for f in around.of(types.FunctionType))


def keys(around: Surroundings) -> Iterator[None]:
    """Adds a key to each dict that is a value, but not to those that hold attributes, arguments, or the parts of a module or of a wrapper of tensors."""
    hidden = {id(dict_of(value)) for value in around.found.values()}
    hidden |= {id(p.keywords) for p in around.of(functools.partial)}
    hidden |= {id(f.__kwdefaults__) for f in around.of(types.FunctionType)}
    hidden |= {id(part) for m in around.of(nn.Module) for name, part in vars(m).items() if name.startswith("_")}
    hidden |= {id(part) for tensor in around.of(torch.Tensor) for part in vars(tensor).values()}
    return entries(d for d in around.of(dict) if id(d) not in hidden)


def defaults(around: Surroundings) -> Iterator[None]:
    functions = around.of(types.FunctionType)
    before = {f: f.__kwdefaults__ for f in functions}

    def change(f: Any, value: Any) -> None:
        f.__kwdefaults__ = {**(before[f] or {}), NAME: value}

    def undo(f: Any) -> None:
        f.__kwdefaults__ = before[f]

    return twice(functions, change, undo)


def members(around: Surroundings) -> Iterator[None]:
    """Adds parameters, buffers and submodules by writing to the modules' dicts, as torch's own register functions do in the end."""

    def change(m: nn.Module, value: Any) -> None:
        tensor, submodule = MEMBERS[value]
        vars(m)["_parameters"][NAME] = nn.Parameter(tensor)
        vars(m)["_buffers"][NAME] = tensor
        if not isinstance(m, CONTAINERS):
            vars(m)["_modules"][NAME] = submodule

    def undo(m: nn.Module) -> None:
        for name in ("_parameters", "_buffers", "_modules"):
            vars(m)[name].pop(NAME, None)

    return twice(around.of(nn.Module), change, undo)


def hooks(around: Surroundings) -> Iterator[None]:
    return entries(vars(m)[name] for m in around.of(nn.Module) for name in HOOK_DICTS)


def values(around: Surroundings) -> Iterator[None]:
    """Changes the values of tensors, in their whole storages, so that views, and tensors that overlap themselves, stay what they are."""
    with bare_torch():
        tensors = [t for t in around.of(torch.Tensor) if t.layout is torch.strided and t.device.type == "cpu" and not t.is_inference()]
        flat = [torch.empty(0, dtype=t.dtype).set_(t.untyped_storage()) for t in tensors if t.dtype is not torch.bool]
        before = [t.clone() for t in flat]
    if not flat:
        return
    try:
        with bare_torch():
            for t in flat:
                t.add_(1)
        yield
    finally:
        with bare_torch():
            for t, was in zip(flat, before):
                t.copy_(was)


@contextlib.contextmanager
def bare_torch() -> Iterator[None]:
    """Inside the block, torch's modes that the scenario has set are off."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.no_grad():
        yield


def settings(around: Surroundings) -> Iterator[None]:
    """Changes settings that have no effect while another setting is off, and settings that have no effect on results."""
    autocast = [device for device in ("cpu", "cuda") if not torch.is_autocast_enabled(device)]
    before = {device: torch.get_autocast_dtype(device) for device in autocast}
    fill, warn = torch.utils.deterministic.fill_uninitialized_memory, torch.is_warn_always_enabled()
    matmul = torch.backends.cuda.matmul
    reduced = matmul.allow_bf16_reduced_precision_reduction
    try:
        torch.set_printoptions(precision=7)
        torch.set_warn_always(not warn)
        yield
        for device, dtype in before.items():
            torch.set_autocast_dtype(device, torch.float16 if dtype is torch.bfloat16 else torch.bfloat16)
        if not torch.are_deterministic_algorithms_enabled():
            torch.utils.deterministic.fill_uninitialized_memory = not fill
        matmul.allow_bf16_reduced_precision_reduction = not reduced
        yield
    finally:
        torch.set_printoptions(profile="default")
        torch.set_warn_always(warn)
        torch.utils.deterministic.fill_uninitialized_memory = fill
        matmul.allow_bf16_reduced_precision_reduction = reduced
        for device, dtype in before.items():
            torch.set_autocast_dtype(device, dtype)


def library(around: Surroundings) -> Iterator[None]:
    """Adds a name to torch's modules and classes. The classes are those of the tensors and modules that the program reaches."""
    classes = {cls for value in around.of(nn.Module, torch.Tensor) for cls in type(value).__mro__ if cls.__module__.startswith("torch.")}
    owners = [builtins, torch, nn.functional, *(cls for cls in (*classes, torch.Tensor) if cls.__flags__ & HEAP_TYPE)]
    return twice(owners, lambda owner, value: setattr(owner, NAME, value), lambda owner: delattr(owner, NAME))


RULES: dict[Beside, Callable[[Surroundings], Iterator[None]]] = {
    Beside.ATTRIBUTE: attributes,
    Beside.CLASS_ATTRIBUTE: class_attributes,
    Beside.GLOBAL: globals_of_functions,
    Beside.KEY: keys,
    Beside.DEFAULT: defaults,
    Beside.MEMBER: members,
    Beside.HOOK: hooks,
    Beside.VALUE: values,
    Beside.SETTING: settings,
    Beside.LIBRARY: library,
}
LIMITS = {Beside.LIBRARY: 0, Beside.CLASS_ATTRIBUTE: 1}
"""The number of steps that these rules follow if a scenario's kind doesn't name them: CPython 3.13 has only 1000 versions of a class."""
