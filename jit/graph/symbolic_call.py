"""One call of an operator as a graph: its sizes are symbols, and the conditions on these under which the graph is right are a program for native code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch import SymInt, fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic
from torch.fx.graph import CodeGen
from torch.utils._sympy.numbers import int_oo

from framejit.graph.shape_env import TraceShapeEnv
from framejit.graph.torch_sources import InputSource
from framejit.guards.shape_program import UntranslatableError, compile_shapes
from framejit.quick_dataclass import dataclass


class NotCompiled(Exception):
    """A call can't be compiled; the message says why."""


@dataclass(frozen=True)
class WrappedNumber:
    """A number of Python's that has become a tensor without dimensions, such as the 2 in `x * 2`, which changes no dtype as other tensors do."""

    tensor: torch.Tensor


@dataclass(frozen=True)
class TensorHere:
    """Stands in an argument for a tensor of the call, by its number. `is_wrapped`: it is a WrappedNumber's."""

    number: int
    is_wrapped: bool


class SymbolicCall:
    """A call of an operator.

    Args:
        operator: the overload.
        arguments: in the order of its schema, with all defaults; numbers that became tensors are WrappedNumbers.

    Attributes:
        tensors: all tensors of the call, those in lists too, in order. They are dense.
    """

    def __init__(self, operator: OpOverload, arguments: Sequence[Any]) -> None:
        self.operator = operator
        self.tensors: list[torch.Tensor] = []
        self._arguments = [self._without_tensors(argument) for argument in arguments]
        self._env = TraceShapeEnv(takes_unbacked=True)
        self._symbols: dict[sympy.Symbol, int] = {}

    def _without_tensors(self, argument: Any) -> Any:
        if isinstance(argument, list):
            return [self._without_tensors(part) for part in argument]
        if isinstance(argument, (torch.Tensor, WrappedNumber)):
            self.tensors.append(argument.tensor if isinstance(argument, WrappedNumber) else argument)
            return TensorHere(len(self.tensors) - 1, isinstance(argument, WrappedNumber))
        return argument

    def _with_tensors(self, argument: Any, tensors: Sequence[torch.Tensor]) -> Any:
        if isinstance(argument, list):
            return [self._with_tensors(part, tensors) for part in argument]
        if isinstance(argument, TensorHere):
            return tensors[argument.number].item() if argument.is_wrapped else tensors[argument.number]
        return argument

    def graph(self) -> tuple[fx.GraphModule, list[torch.Tensor]]:
        """The graph of the call, which takes its tensors and returns a tuple of tensors, and fake tensors for it. Raises NotCompiled."""
        inputs = self._symbolic_tensors()
        graph = make_fx(self._run, tracing_mode="symbolic")(*inputs)
        graph.graph.set_codegen(CodeGen())  # it takes and returns tensors alone
        graph.recompile()
        (output,) = graph.graph.find_nodes(op="output")
        if not all(isinstance(each, fx.Node) and isinstance(each.meta.get("val"), torch.Tensor) for each in output.args[0]):
            raise NotCompiled("a result is no tensor")
        return graph, inputs

    def _run(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the operator on other tensors."""
        schema = self.operator._schema.arguments
        values = {argument.name: self._with_tensors(value, tensors) for argument, value in zip(schema, self._arguments)}
        by_name = {argument.name: values.pop(argument.name) for argument in schema if argument.kwarg_only}
        results = self.operator(*values.values(), **by_name)
        return results if isinstance(results, tuple) else (results,)

    def _symbolic_tensors(self) -> list[torch.Tensor]:
        """Fake tensors for the call's, whose sizes other than 1 are symbols, each its own, and whose strides follow from these as the call's do."""
        made, read = [], 0
        with FakeTensorMode(shape_env=self._env):
            for tensor in self.tensors:
                sizes = [self._symbol(size, read + dim) if size > 1 else size for dim, size in enumerate(tensor.shape)]
                read += len(sizes)
                strides: list[Any] = list(tensor.stride())
                stride: Any = 1
                for dim in reversed(dense_order(tensor)):
                    strides[dim], stride = stride, stride * sizes[dim]
                made.append(torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device))
        return made

    def _symbol(self, size: int, place: int) -> int | SymInt:
        source = InputSource(f"sizes[{place}]")
        symbol = self._env.create_symbol(size, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        self._symbols[symbol] = place
        return self._env.create_symintnode(symbol, hint=size, source=source)

    def conditions(self) -> tuple[tuple[int, ...], list[int]]:
        """The conditions on sizes under which the graph is right, and all that was decided about it since, as a program for the native part; and the numbers
        of the sizes that it reads, of all sizes of all tensors in a row. That each symbolic size is at least 2 isn't among the conditions. Raises NotCompiled.
        """
        if self._env.deferred_runtime_asserts:
            raise NotCompiled("its graph checks numbers that come out of tensors")
        facts = [guard.expr for guard in self._env.guards]
        for symbol in self._symbols:
            bounds = self._env.var_to_range[symbol]
            facts += [symbol >= bounds.lower] if bounds.lower > 2 else []
            facts += [symbol <= bounds.upper] if bounds.upper is not int_oo else []
        if not all(fact.free_symbols <= self._symbols.keys() for fact in facts):
            raise NotCompiled("its graph depends on numbers that come out of tensors")
        try:
            program, symbols = compile_shapes(facts, counts=self._symbols)
        except UntranslatableError as error:
            raise NotCompiled(str(error)) from error
        return program.native(), [self._symbols[symbol] for symbol in symbols]


def dense_order(tensor: torch.Tensor) -> list[int]:
    """The dimensions of a dense tensor, from the outermost to the innermost."""
    dims = list(range(tensor.dim()))
    if tensor.stride() == tuple(math.prod(tensor.shape[dim + 1 :]) for dim in dims):
        return dims
    return sorted(dims, key=lambda dim: (-tensor.stride(dim), -tensor.size(dim)))
