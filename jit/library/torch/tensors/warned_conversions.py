"""`float(loss)` and `int(loss)` of a tensor that requires a gradient, of which torch may warn once in a process: the warning is given after the graph."""

from __future__ import annotations

from typing import Any

import torch

from framejit.graph.builder import TorchVM
from framejit.library.python.warnings import can_wait, rows_of
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject, number_out_of, scalar_method
from framejit.objects.tensors.torchcall import enter

_made: set[str] = set()
"""The methods that torch has been asked to warn of: it doesn't repeat a warning."""


def warn(name: str, namespace: dict[str, Any], filename: str, line: int) -> None:
    """Run by generated code: converts a tensor that requires a gradient, so that torch warns of it if it hasn't in this process.

    torch names the line of the code that runs, so this code has the file, the line and the globals of the program's conversion.
    """
    if name in _made and not torch.is_warn_always_enabled():
        return
    code = compile("\n" * (line - 1) + f"leaf.{name}()", filename, "eval")
    with torch.enable_grad():
        eval(code, namespace, {"leaf": torch.ones((), requires_grad=True)})
    _made.add(name)


def conversion(name: str) -> Any:
    """The model of a method of which torch may warn where autograd records. If the warning may do more than be printed, the method runs natively."""
    read = scalar_method(name)

    def converted(vm: TorchVM, self: TensorObject, *args: Object) -> Object:
        fake = self.look(vm)
        caller = vm.caller(0)
        if args or not fake.requires_grad or getattr(fake, "constant", None) is not None or caller is None:
            return read(vm, self, *args)
        is_warned_of = vm.graph.modes.is_grad_enabled()
        if is_warned_of and (rows_of(vm) is not None or not can_wait(vm)):
            return read(vm, self)
        number = number_out_of(vm, enter(vm, torch.Tensor.detach, [self]), name)  # type: ignore[arg-type]
        if number is None:
            return read(vm, self)
        if is_warned_of:
            frame, line = caller
            vm.effects.in_order(LaterCall(warn, (name, frame.globals, frame.code.co_filename, line)))
        return number

    return converted


for _name in ("__float__", "__int__"):
    models(getattr(torch.Tensor, _name))(conversion(_name))
