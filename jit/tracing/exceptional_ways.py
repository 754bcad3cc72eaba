"""Branches on data of which one way is exceptional: the graph checks that a call goes the other way, and if it doesn't, the call runs uncompiled.

A way counts as exceptional if only numbers that aren't finite lead there, or a factorization that fails, if it does what no compiled code can (it prints,
warns, writes to a log, saves a file, or raises), or if all it does is to return a constant before the rest of the function. If it turns out to be taken often,
it isn't exceptional (`process/exceptional.py`), and the graph breaks at the branch.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.check_order import ASSERT
from framejit.library.python.warnings import give
from framejit.objects.arrays.ndarrayobject import ArrayObject
from framejit.objects.core import operators
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import Object
from framejit.objects.numbers.unbackednumber import OPERATIONS, Computed, Datum, UnbackedNumber, comparison_as_tensor
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.process import exceptional
from framejit.torch_state.operator_exceptions import COMPUTE_MASKS, SUM_UP_MASKS, TELL_FINITE_NUMBERS
from framejit.torch_state.operator_facts import is_error_code
from framejit.torch_state.torch_modes import MODE_CHANGES
from framejit.tracing.empty_ways import may_change, operator_name

LEAVE_COMPILED_CODE = (
    breaks.SideEffect, breaks.UnsupportedCall, breaks.InsideLibrary, breaks.FrameIntrospection, breaks.DisabledFunction, breaks.Debugger,
    breaks.ExceptionEscapes,
)  # fmt: skip
"""Reasons for which a way can't be in compiled code at all, whether or not it meets the other one."""

MARKS_INFINITE_NUMBERS = "_amp_foreach_non_finite_check_and_unscale_"


def warnings_given(vm: TorchVM) -> int:
    """The number of warnings that are given after the graph, as it is so far."""
    return sum(isinstance(effect, LaterCall) and effect.function is give for effect in vm.effects.all())


def check(vm: TorchVM, condition: Object, expected: bool, what: str) -> bool:
    """Have the graph check that the condition of a branch is `expected`. Returns False if it can't, or if calls have gone the other way often.

    `what`: what is exceptional about the other way, as `process/exceptional.py` names it.
    """
    branch = what + name_of(vm)
    often = vm.globals_of(vars(exceptional)).lookup(vm, "OFTEN")
    assert often is not None
    if operators.contains(vm, often, vm.const(branch)).truth(vm):
        return False
    condition = vm.observe(condition)
    if isinstance(condition, UnbackedNumber):
        condition = comparison_as_tensor(vm, condition.truth_value()) or condition
    return vm.observe(condition).check_truth(vm, expected, exceptional.message(branch))


def name_of(vm: TorchVM) -> str:
    """The name of the present instruction, in messages and keys: its place in the file, whatever the folder."""
    frame = vm.user_stack()[-1]
    return f"{frame.function} ({frame.filename.rpartition('/')[2]}:{frame.lineno}:{frame.col_offset})"


def truth_if_finite(vm: TorchVM, condition: Object) -> bool | None:
    """The truth of a condition on data if every number is finite, and no factorization fails; None if it doesn't ask for that, or for other data too."""
    try:
        return bool(if_finite(vm, condition))
    except (NotAMask, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return None


class NotAMask(Exception):
    """A value isn't computed from masks that tell which numbers are finite, or from the error codes of factorizations."""


def if_finite(vm: TorchVM, value: Object) -> Any:
    """A number, or the data of a tensor, if every number is finite. Raises NotAMask, or what operators raise for other arguments than the program's."""
    if isinstance(value, ArrayObject) and value.form is not None:
        value = value.form
    if isinstance(value, (TensorObject, Datum)):
        return run_for_finite(vm, value.node)
    if isinstance(value, Computed) and value.operation in ("==", "!=") and value.operands[0] is value.operands[1]:
        return value.operation == "=="
    if isinstance(value, Computed):
        return OPERATIONS[value.operation](*[if_finite(vm, operand) for operand in value.operands])
    if not value.is_known():
        raise NotAMask
    return value.value


def run_for_finite(vm: TorchVM, node: fx.Node) -> Any:
    """Return the result of a node if every number is finite, and no factorization fails. The nodes from the masks and codes on run for real, on the CPU.

    No operator may have written to these tensors but the one of GradScaler, which writes to a tensor of zeros if it finds another number.
    """
    kept = [each for body in vm.graph.bodies() for each in body.kept]
    writing = [each for each in kept if each.target not in (*MODE_CHANGES, ASSERT) and operator_name(each) != MARKS_INFINITE_NUMBERS]
    known: dict[fx.Node, Any] = {}
    waiting = [node]
    while waiting:
        last = waiting[-1]
        missing = [used for used in last.all_input_nodes if used not in known]
        fake = last.meta.get("example_value")
        if isinstance(fake, torch.Tensor) and may_change(writing, fake):
            raise NotAMask
        if asks_for_finite(last):
            known[waiting.pop()] = mask_of_finite(last)
        elif tells_of_errors(last):
            known[waiting.pop()] = torch.zeros((), dtype=last.meta["example_value"].dtype).expand(known_sizes(last))
        elif last.op not in ("call_function", "call_method") or not (operator_name(last) in COMPUTE_MASKS or operator_name(last) in SUM_UP_MASKS):
            raise NotAMask
        elif missing:
            waiting += missing
        else:
            known[waiting.pop()] = run(last, known)
    return known[node]


def asks_for_finite(node: fx.Node) -> bool:
    """Return whether a node gives a mask that tells which numbers are finite, or which aren't NaN: `x != x` does so too."""
    return operator_name(node) in TELL_FINITE_NUMBERS or (operator_name(node) in ("eq", "ne") and len(node.args) == 2 and node.args[0] is node.args[1])


def tells_of_errors(node: fx.Node) -> bool:
    """Return whether a node gives the error codes of a factorization such as `torch.linalg.cholesky_ex`."""
    if node.target is not operator.getitem:
        return False
    factored, index = node.args
    return isinstance(factored, fx.Node) and type(index) is int and is_error_code(operator_name(factored), index)


def mask_of_finite(node: fx.Node) -> torch.Tensor:
    """The mask that a node gives if every number is finite."""
    return torch.full((), operator_name(node) in ("isfinite", "eq"), device="cpu").expand(known_sizes(node))


def known_sizes(node: fx.Node) -> list[int]:
    """The sizes of a node's tensor in this call. Raises NotAMask if they depend on data."""
    sizes = [size if type(size) is int else size.node.hint for size in node.meta["example_value"].shape]
    if None in sizes:
        raise NotAMask
    return sizes


def run(node: fx.Node, known: dict[fx.Node, Any]) -> Any:
    """Run a node on values instead of its arguments."""
    args, kwargs = fx.node.map_arg((node.args, {**node.kwargs, **({"device": "cpu"} if "device" in node.kwargs else {})}), known.__getitem__)
    return getattr(args[0], node.target)(*args[1:], **kwargs) if isinstance(node.target, str) else node.target(*args, **kwargs)
