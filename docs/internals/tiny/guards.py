"""Sources and guards: where a call's values are found, and what an entry demands of them. All are data.

Mirrors guards/source.py, guards/kinds.py and guards/global_state.py. There, a tree in C++ checks the guards (guards/native/).
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from operator import getitem
from types import FunctionType
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Call:
    """One call: the function, its arguments as they were given, and its variables."""

    function: FunctionType
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    locals: dict[str, Any]


@dataclass(frozen=True)
class Source:
    """The path by which an entry finds a value of a call: `how(value at base, key)`. The call itself has no base."""

    base: Source | None
    how: Callable[[Any, Any], Any]
    key: Any
    text: str

    def fetch(self, call: Call) -> Any:
        return call if self.base is None else self.how(self.base.fetch(call), self.key)

    def then(self, how: Callable[[Any, Any], Any], key: Any, text: str) -> Source:
        """The source of what is found from here."""
        return Source(self, how, key, text.format(self.text, key))

    def attribute(self, name: str) -> Source:
        return self.then(getattr, name, "{}.{}")

    def item(self, index: int) -> Source:
        return self.then(getitem, index, "{}[{}]")

    def variable(self, name: str) -> Source:
        return self.attribute("locals").then(getitem, name, "{1}")

    def global_name(self, name: str) -> Source:
        return self.then(global_of, name, "{1}")

    def default(self, name: str) -> Source:
        return self.then(default_of, name, "the default of {1}")


def global_of(function: FunctionType, name: str) -> Any:
    return function.__globals__[name] if name in function.__globals__ else vars(builtins)[name]


def signature_of(function: FunctionType) -> inspect.Signature:
    """The signature of a function itself, and not of one that it wraps."""
    return inspect.signature(function, follow_wrapped=False)


def default_of(function: FunctionType, name: str) -> Any:
    return signature_of(function).parameters[name].default


CALL = Source(None, getattr, None, "the call")


@dataclass(frozen=True)
class Same:
    """Compares by identity. (framejit holds such objects weakly: an entry must not keep a model alive.)"""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __repr__(self) -> str:
        return f"a {type(self.value).__name__}"


CONSTANTS = {int, float, bool, str, type(None), torch.Size, torch.dtype, torch.device, range, slice}
"""Types whose values a trace computes with."""
MODULE_LISTS = {nn.Sequential, nn.ModuleList}


def constant_facts(value: Any) -> Any:
    """The texts are compared, since 0.0 == -0.0 and nan != nan."""
    return (type(value).__name__, repr(value)) if type(value) in CONSTANTS else type(value)


def tensor_facts(value: Any) -> Any:
    if type(value) not in (torch.Tensor, nn.Parameter):
        return type(value)
    return type(value).__name__, tuple(value.shape), value.stride(), value.dtype, str(value.device), value.requires_grad


def length_facts(value: Any) -> Any:
    return (type(value).__name__, len(value)) if type(value) in {list, tuple} | MODULE_LISTS else type(value)


def hooks_of(module: nn.Module) -> int:
    """Counts the hooks that a call of a module runs: its own, and those of all modules."""
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(module, name)) + len(getattr(nn.modules.module, f"_global{name}")) for name in names)


FACTS: dict[str, Callable[[Any], Any]] = {
    "equals": constant_facts,
    "is": Same,
    "type": type,
    "length": length_facts,
    "tensor": tensor_facts,
    "hooks": hooks_of,
    "torch": lambda call: (torch.get_default_dtype(), torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")),
}
"""The kinds of guards: what each looks at."""


@dataclass(frozen=True)
class Guard:
    """One fact about the value at a source, and the line of the program that needs it."""

    kind: str
    source: Source
    expected: Any
    where: str

    def holds(self, call: Call) -> bool:
        """Says if the value is still there, and as expected."""
        try:
            return bool(FACTS[self.kind](self.source.fetch(call)) == self.expected)
        except (AttributeError, LookupError):
            return False

    def __str__(self) -> str:
        return f"{self.kind:8} {self.source.text}: {self.expected}  # {self.where}"
