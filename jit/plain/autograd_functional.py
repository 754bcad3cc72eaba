"""torch.autograd.functional, implemented with the transforms of torch.func: these are operators of the graph with autograd records of their own.

A stand-in asks autograd for the same products of gradients as torch's function, in the same order. If torch would raise, or its result depends
on more than values (`strict=True`), the call runs natively.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from framejit.plain.func import Refused, stop
from framejit.plain.func import vjp as pull

AT_ONCE = 64
"""Rows of a Jacobian that are computed together unless the program asks for all: this many times the memory of one is needed."""


class Derivative:
    """A call of one of the functions: its name, the tensors, and whether results are to be differentiated in turn."""

    def __init__(self, name: str, inputs: Any, create_graph: bool, strict: bool) -> None:
        self.name, self.is_tuple, self.create_graph = "torch.autograd.functional." + name, isinstance(inputs, tuple), create_graph
        self.inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        if strict:
            self.break_graph("with strict=True")
        if torch.is_inference_mode_enabled():
            self.break_graph("in inference mode")
        if not self.inputs or not all(isinstance(value, torch.Tensor) for value in self.inputs):
            self.break_graph("of what is no tensor")
        if create_graph and not torch.is_grad_enabled():
            self.break_graph("with create_graph=True, where gradients are off")
        self.makes_leaves = create_graph and not all(value.requires_grad for value in self.inputs)
        self.inputs = self.cut_off(self.inputs)

    def break_graph(self, why: str) -> None:
        stop((self.name, why))

    def cut_off(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Tensors detached from autograd, unless their records are asked for."""
        return values if self.create_graph else tuple([value.detach() for value in values])

    def vector(self, given: Any, like: tuple[Any, ...]) -> tuple[Any, ...]:
        """The vector of a product, as tensors like these; if none is given, there must be only one number."""
        if given is None:
            if len(like) != 1 or like[0].numel() != 1:
                self.break_graph("without a vector")
            return (torch.ones_like(like[0]),)
        values = given if isinstance(given, tuple) else (given,)
        if [getattr(value, "shape", None) for value in values] != [value.shape for value in like]:
            self.break_graph("with a vector of other sizes")
        return self.cut_off(values)

    def given_back(self, values: tuple[Any, ...], is_tuple: bool) -> Any:
        """Results as the caller gets them. In torch, each argument requires a gradient, so results that only depend on arguments do so too."""
        if self.makes_leaves and not all(value.requires_grad for value in values):
            self.break_graph("with create_graph=True, of tensors that require no gradient")
        values = self.cut_off(values)
        return values if is_tuple else values[0]


def vjp(func: Any, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """`torch.autograd.functional.vjp`."""
    call = Derivative("vjp", inputs, create_graph, strict)
    outputs, is_tuple, back = recorded(func, call)
    product = back(call.vector(v, outputs))
    return call.given_back(outputs, is_tuple), call.given_back(product, call.is_tuple)


def jvp(func: Any, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """`torch.autograd.functional.jvp`: the result of a vjp is linear in its vector; its gradient by that vector is the product."""
    call = Derivative("jvp", inputs, create_graph, strict)
    vector = call.vector(v, call.inputs)
    outputs, is_tuple, back = recorded(func, call)
    product = by_vector(back, outputs, vector)
    return call.given_back(outputs, is_tuple), call.given_back(product, is_tuple)


def vhp(func: Any, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """`torch.autograd.functional.vhp`."""
    call = Derivative("vhp", inputs, create_graph, strict)
    vector = call.vector(v, call.inputs)
    _, back, output = pull(gradient_of(func), *call.inputs, has_aux=True)
    return call.given_back((output,), False), call.given_back(back(vector), call.is_tuple)


def hvp(func: Any, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """`torch.autograd.functional.hvp`."""
    call = Derivative("hvp", inputs, create_graph, strict)
    vector = call.vector(v, call.inputs)
    gradients, back, output = pull(gradient_of(func), *call.inputs, has_aux=True)
    return call.given_back((output,), False), call.given_back(by_vector(back, gradients, vector), call.is_tuple)


def recorded(func: Any, call: Derivative) -> tuple[tuple[Any, ...], bool, Any]:
    """The result of a function as a tuple, whether it was a tuple, and the function that pulls gradients back."""
    was_tuple = []

    def run(*inputs: Any) -> tuple[Any, ...]:
        outputs = func(*inputs)
        was_tuple.append(isinstance(outputs, tuple))
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        if not values or not all(isinstance(value, torch.Tensor) for value in values):
            raise Refused
        return values

    outputs, back = pull(run, *call.inputs)
    return outputs, was_tuple[0], back


def by_vector(back: Any, like: tuple[Any, ...], vector: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradient, along a vector, of a linear function of tensors like these."""
    _, forth = pull(lambda *gradients: back(gradients), *[torch.zeros_like(value) for value in like])
    return forth(vector)


def gradient_of(func: Any) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the gradients of another, whose result is one number, and that number."""

    def run(*inputs: Any) -> tuple[Any, Any]:
        output, back = pull(func, *inputs)
        if not isinstance(output, torch.Tensor) or output.numel() != 1:
            raise Refused
        return back(torch.ones_like(output)), output

    return run


def jacobian(
    func: Any, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False, strategy: str = "reverse-mode"
) -> Any:
    """`torch.autograd.functional.jacobian`."""
    call = Derivative("jacobian", inputs, create_graph, strict)
    if strategy != "reverse-mode":
        call.break_graph("in forward mode")
    outputs, is_tuple, back = recorded(func, call)
    sizes = [output.numel() for output in outputs]
    if 0 in sizes or (len(sizes) != 1 and not vectorize):
        call.break_graph("of a function that gives an empty tensor, or several without vectorize=True")
    if sizes == [1]:
        rows = tuple([gradient.unsqueeze(0) for gradient in back((torch.ones_like(outputs[0]),))])
    else:
        rows = torch.vmap(lambda *row: back(row), chunk_size=None if vectorize else AT_ONCE)(*bases(outputs, sizes))
    if not vectorize:
        rows = tuple([row.contiguous() for row in rows])
    by_input = [row.split(sizes) for row in rows]
    found = []
    for index, output in enumerate(outputs):
        parts = tuple([split[index].reshape(output.shape + value.shape) for split, value in zip(by_input, call.inputs)])
        found.append(call.given_back(parts, call.is_tuple))
    return tuple(found) if is_tuple else found[0]


def bases(outputs: tuple[Any, ...], sizes: list[int]) -> list[Any]:
    """For each number in these tensors, tensors like them with a one in its place and zeros elsewhere, along a further dimension."""
    found = []
    for index, output in enumerate(outputs):
        ones = torch.eye(sum(sizes), dtype=output.dtype, device=output.device).split(sizes, dim=1)[index]
        found.append(ones.reshape(-1, *output.shape))
    return found


def hessian(
    func: Any,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """`torch.autograd.functional.hessian`."""
    is_tuple = isinstance(inputs, tuple)

    def gradient(*values: Any) -> Any:
        found, _ = gradient_of(func)(*values)
        return found if is_tuple else found[0]

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
