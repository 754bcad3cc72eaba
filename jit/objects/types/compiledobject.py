"""Functions that the program compiles inside a trace: calls of the result are traced through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framejit.objects.core import abstract
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Codegen, Object


class GivenToCompiler(Object):
    """The result of compiling a function inside a trace. `compiler`: called for real with the function if the result leaves the trace."""

    __slots__ = ("function", "compiler")
    is_true = True

    def __init__(self, cls: type, function: Object, compiler: Callable[[Any], Any]) -> None:
        super().__init__(cls)
        self.function = function
        self.compiler = compiler

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        return abstract.call(vm, self.function, args, kwargs, delivery)

    def call_as_method(
        self, vm: VM, receiver: Object, args: list[Object], kwargs: dict[str, Object] | None = None, delivery: Delivery | None = None
    ) -> Object:
        return self.call(vm, [receiver, *args], kwargs or {}, delivery)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.function)
        cg.call_const(self.compiler, 1)

    def referents(self) -> list[Object]:
        return [self.function]
