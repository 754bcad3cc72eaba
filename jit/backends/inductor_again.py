"""Inductor's code for a graph, made again in a process that hasn't loaded Inductor (see inductor_code.py)."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from framejit.backends.ecosystem import assert_size_stride
from framejit.backends.libraries import load_library
from framejit.backends.views_again import ResultViews, bases_of, with_views
from framejit.saved.custom_operators import check_operators

Call = Callable[[list[Any]], Sequence[Any]]


class Partitions:
    """Stands for the object whose method Inductor's function is. It has no partitions, for they are for CUDA graphs."""


def library_function(name: str, entry: str, place: int | None) -> Any:
    """The function that a LibraryFunction stands for. Raises Absent."""
    function = getattr(load_library(name, entry), entry)
    return function if place is None else function()[place]


class OperatorsByName:
    """Operators of torch under the names by which Inductor's code asks for them."""

    def __init__(self, **operators: Any) -> None:
        self.__dict__.update(operators)


def operators_of(name: str) -> Any:
    """A namespace of operators, such as `torch.ops.aten`."""
    return getattr(torch.ops, name)


def code_again(code: CodeType, used: dict[str, Any], is_method: bool, operators: tuple[tuple[str, str], ...]) -> Call:
    """Inductor's function for a graph, made again. `operators`: those that aren't torch's, with digests. Raises Absent if one of them has changed."""
    check_operators(operators)
    function = FunctionType(code, {"__builtins__": builtins, **used})
    return MethodType(function, Partitions()) if is_method else function


def check_metadata(tensor: torch.Tensor | None, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, name: str | None = None) -> None:
    """Check that an operator which isn't torch's has returned a tensor like that on fakes; Inductor's code asks for it from torch 2.15 on.

    Raises RuntimeError for another dtype, and AssertionError for other sizes or strides. `name`: the operator, for the message.
    """
    if tensor is None:
        return
    if tensor.dtype != dtype:
        subject = f"operator {name}" if name else "an operator"
        raise RuntimeError(f"{subject} has returned a tensor of {tensor.dtype}, and on tensors without data one of {dtype}: its fake kernel may be wrong")
    assert_size_stride(tensor, size, stride, name)


def given_inputs(results: Sequence[int | None]) -> Call:
    """The function of a graph without operators, whose results are these inputs."""
    return lambda inputs: [None if index is None else inputs[index] for index in results]


def without_autocast(applies: bool) -> AbstractContextManager[Any]:
    """Return a context in which autocast is off, if `applies`: code that was compiled under autocast has its casts inside, and must not be cast again."""
    return torch._C._DisableAutocast() if applies else nullcontext()


def run_inference(call: Call, changed: Sequence[int] = (), autocast: bool = False, views: ResultViews | None = None) -> Call:
    """A boxed callable that runs Inductor's function for a graph without gradients, as AOTAutograd would. `changed`: the inputs that it changes in place;
    `autocast`: see `without_autocast`; `views`: the results that are views."""

    def run(inputs: list[Any]) -> Sequence[Any]:
        if changed:
            torch.autograd.graph.increment_version([inputs[index] for index in changed])
        if not torch.is_grad_enabled():
            return call(inputs)
        torch._C._set_grad_enabled(False)
        try:
            return call(inputs)
        finally:
            torch._C._set_grad_enabled(True)

    def run_without_autocast(inputs: list[Any]) -> Sequence[Any]:
        with without_autocast(True):
            return run(inputs)

    plain = run_without_autocast if autocast else run
    if views is None:
        return plain

    def run_with_views(inputs: list[Any]) -> Sequence[Any]:
        bases = bases_of(views, inputs)
        return with_views(views, bases, plain(inputs))

    return run_with_views
