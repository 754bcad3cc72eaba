"""Sources of values in TorchScript's objects: attributes and methods of a scripted module, the code of a method, the state of an object in C++."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any, NamedTuple

import torch

from framejit.guards.script_code import CODES, code_of
from framejit.guards.source import MISSING, CAttr, Source


class ScriptRequest(NamedTuple):
    """A method of a TorchScript object that is called for its answer, and the name that it takes as its argument, if any."""

    method: str
    name: str | None = None

    def asked(self) -> Callable[[Any], Any]:
        """A function that calls the method of an object."""
        return methodcaller(self.method) if self.name is None else methodcaller(self.method, self.name)


ASKED = (torch._C.ScriptModule, torch._C.ParameterDict, torch._C.BufferDict)


class ScriptAnswer(Source):
    """The answer of a scripted module, or of one of its tables of tensors. It is usually a new object in each walk. Payload: a ScriptRequest.

    Only for bases whose exact type is guarded. MISSING if the call raises.
    """

    __slots__ = ()
    accessor = "script_answer"
    needs_exact_type = True

    def native(self) -> Any:
        return self.payload.asked()

    def step(self, value: Any) -> Any:
        if type(value) not in ASKED:
            return MISSING
        try:
            return self.payload.asked()(value)
        except (AttributeError, RuntimeError):
            return MISSING

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        method, name = self.payload
        if method not in ("getattr", "_get_method"):
            return f"{of(self.base)}.{method}({'' if name is None else repr(name)})"
        is_of_method = type(self.base) is CAttr and self.base.payload == "owner" and self.base.base is not None
        owner = of(self.base.base).rpartition(".")[0] if is_of_method else of(self.base).removesuffix("._c")  # type: ignore[arg-type]
        return f"{owner}.{name}"


class ScriptCodeOf(Source):
    """The ScriptCode of a scripted module's method. Only for bases whose exact type is guarded."""

    __slots__ = ()
    accessor = "script_code"
    form = "the code of {0}"
    needs_exact_type = True

    def native(self) -> Any:
        return CODES, code_of

    def step(self, value: Any) -> Any:
        return code_of(value) if type(value) is torch._C.ScriptMethod else MISSING


def state_of(value: torch.ScriptObject) -> Any:
    """The state of an object of a class in C++, as the object itself describes it."""
    return value.__obj_flatten__()  # type: ignore[attr-defined]


class TorchBindState(Source):
    """The state of an object of a class in C++. Only for bases whose exact type is guarded. MISSING if the class doesn't describe it."""

    __slots__ = ()
    accessor = "torchbind_state"
    form = "{0}.__obj_flatten__()"
    needs_exact_type = True

    def native(self) -> Any:
        return state_of

    def step(self, value: Any) -> Any:
        try:
            return state_of(value) if type(value) is torch.ScriptObject else MISSING
        except (AttributeError, NotImplementedError, RuntimeError):
            return MISSING
