"""Compiles one call of an operator with AOTInductor: the graph with symbolic sizes, the conditions on these, and a comparison with what eager gives."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sympy
import torch
from torch import SymInt, fx
from torch._inductor import metrics
from torch._inductor.compile_fx import compile_fx_aot, compile_fx_inner
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic
from torch.fx.graph import CodeGen
from torch.utils._sympy.numbers import int_oo

from framejit._operators import Kernel
from framejit.graph.shape_env import TraceShapeEnv
from framejit.graph.torch_sources import InputSource
from framejit.guards.shape_program import UntranslatableError, compile_shapes

CHECKED_INDEX = "AOTI_TORCH_CHECK("
"""What Inductor's C++ code has where an index could be out of range. On one of several threads, this check would end the process."""
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""By dtype, the largest error that a kernel's first results may have, relative to the largest of torch's."""


class NotCompiled(Exception):
    """A call can't have a kernel; the message says why, and continues "no kernel: "."""


@dataclass(frozen=True)
class WrappedNumber:
    """A number of Python's that has become a tensor without dimensions, such as the 2 in `x * 2`, which changes no dtype as other tensors do."""

    tensor: torch.Tensor


@dataclass(frozen=True)
class Place:
    """Where an argument holds a tensor: the tensor's number. `is_number`: it is a WrappedNumber."""

    number: int
    is_number: bool


class CallToCompile:
    """A call of an operator.

    Args:
        operator: the overload.
        arguments: in the order of its schema, with all defaults; numbers that became tensors are WrappedNumbers.
        expected: what torch's kernel has given for them.
    """

    def __init__(self, operator: OpOverload, arguments: Sequence[Any], expected: Sequence[torch.Tensor]) -> None:
        self.operator = operator
        self.expected = expected
        self.tensors: list[torch.Tensor] = []
        self.arguments = [self._with_places(argument) for argument in arguments]
        self.env = TraceShapeEnv(takes_unbacked=True)
        self.symbols: dict[sympy.Symbol, int] = {}
        """Where each symbol is read from the call: the number of the size, of all sizes of all tensors."""

    def _with_places(self, argument: Any) -> Any:
        """An argument with Places for its tensors."""
        if isinstance(argument, list):
            return [self._with_places(part) for part in argument]
        if isinstance(argument, (torch.Tensor, WrappedNumber)):
            self.tensors.append(argument.tensor if isinstance(argument, WrappedNumber) else argument)
            return Place(len(self.tensors) - 1, isinstance(argument, WrappedNumber))
        return argument

    def kernel(self) -> Kernel:
        """The kernel for the call. Raises NotCompiled, and whatever Inductor raises."""
        with torch.no_grad():
            inputs = self._symbolic_inputs()
            graph = make_fx(self._run, tracing_mode="symbolic")(*inputs)
            graph.graph.set_codegen(CodeGen())  # it takes and returns tensors alone
            graph.recompile()
            self._check_results(graph)
            folder = tempfile.mkdtemp(prefix="framejit-operator-")
            try:
                kernel = self._loaded(graph, inputs, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)  # a library that has been loaded needs its file no more
            self._compare(kernel.run(self.tensors))
        return kernel

    def _run(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the operator on other tensors."""

        def filled(argument: Any) -> Any:
            if isinstance(argument, list):
                return [filled(part) for part in argument]
            if isinstance(argument, Place):
                return tensors[argument.number].item() if argument.is_number else tensors[argument.number]
            return argument

        schema = self.operator._schema.arguments
        values = {argument.name: filled(value) for argument, value in zip(schema, self.arguments)}
        by_name = {argument.name: values.pop(argument.name) for argument in schema if argument.kwarg_only}
        results = self.operator(*values.values(), **by_name)
        return results if isinstance(results, tuple) else (results,)

    def _symbolic_inputs(self) -> list[torch.Tensor]:
        """Fake tensors for the call's, whose sizes other than 1 are symbols, each its own, and whose strides follow from these as the call's do."""
        made, read = [], 0
        with FakeTensorMode(shape_env=self.env):
            for tensor in self.tensors:
                sizes = [self._symbol(size, read + dim) if size > 1 else size for dim, size in enumerate(tensor.shape)]
                read += len(sizes)
                strides, stride = list[Any](tensor.stride()), 1
                for dim in reversed(dense_order(tensor)):
                    strides[dim], stride = stride, stride * sizes[dim]
                made.append(torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device))
        return made

    def _symbol(self, size: int, place: int) -> int | SymInt:
        source = InputSource(f"sizes[{place}]")
        symbol = self.env.create_symbol(size, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        self.symbols[symbol] = place
        return self.env.create_symintnode(symbol, hint=size, source=source)

    def _check_results(self, graph: fx.GraphModule) -> None:
        (output,) = graph.graph.find_nodes(op="output")
        results = output.args[0]
        if len(results) != len(self.expected) or not all(isinstance(each, fx.Node) and isinstance(each.meta.get("val"), torch.Tensor) for each in results):
            raise NotCompiled("a result is no tensor")

    def _loaded(self, graph: fx.GraphModule, inputs: list[torch.Tensor], folder: str) -> Kernel:
        """Compile a graph, and load the library."""
        before = metrics.generated_kernel_count
        library = compile_fx_aot(graph, inputs, compile_pure, config_patches={"aot_inductor.output_path": folder})
        if metrics.generated_kernel_count == before:
            raise NotCompiled("Inductor calls torch's kernel for it")
        if any(CHECKED_INDEX in path.read_text() for path in Path(folder).rglob("*.cpp")):
            raise NotCompiled("it takes indices, which have to be checked")
        program, read = self._conditions()
        return Kernel(library, program, read)

    def _conditions(self) -> tuple[tuple[int, ...], list[int]]:
        """The conditions on sizes under which the graph is right, as a program for the native part, and the sizes that it reads."""
        if self.env.deferred_runtime_asserts:
            raise NotCompiled("its graph checks numbers that come out of tensors")
        facts = [guard.expr for guard in self.env.guards]
        for symbol in self.symbols:
            bounds = self.env.var_to_range[symbol]
            facts += [symbol >= bounds.lower] if bounds.lower > 2 else []
            facts += [symbol <= bounds.upper] if bounds.upper is not int_oo else []
        if any(not fact.free_symbols <= self.symbols.keys() for fact in facts):
            raise NotCompiled("its graph depends on numbers that come out of tensors")
        try:
            program, symbols = compile_shapes(facts, counts=self.symbols)
        except UntranslatableError as error:
            raise NotCompiled(str(error)) from error
        return program.native(), [self.symbols[symbol] for symbol in symbols]

    def _compare(self, results: list[torch.Tensor]) -> None:
        """Compare a kernel's first results with torch's."""
        storages = [tensor.untyped_storage().data_ptr() for tensor in (*self.tensors, *results)]
        if len(set(storages[len(self.tensors) :])) < len(results) or set(storages[: len(self.tensors)]) & set(storages[len(self.tensors) :]):
            raise NotCompiled("its results would share memory with one another, or with its arguments")
        for result, expected in zip(results, self.expected):
            if described(result) != described(expected):
                raise NotCompiled(f"it would give {described(result)}, and torch's kernel {described(expected)}")
            if not is_close(result, expected):
                raise NotCompiled("its results differ from torch's")


def compile_pure(graph: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
    """torch's `compile_fx_inner`, on a graph of ATen operators that changes nothing. Raises NotCompiled on others: some operators change arguments without
    saying so in their schema."""
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        if node.args[0].op == "placeholder":
            raise NotCompiled("it changes an argument")
    return compile_fx_inner(graph, inputs, **kwargs)


def dense_order(tensor: torch.Tensor) -> list[int]:
    """The dimensions of a dense tensor, from the outermost to the innermost."""
    in_order = range(tensor.dim())
    if tensor.stride() == tuple(math.prod(tensor.shape[dim + 1 :]) for dim in in_order):
        return list(in_order)
    return sorted(in_order, key=lambda dim: (-tensor.stride(dim), -tensor.size(dim)))


def described(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)} with strides {tuple(tensor.stride())}"


def is_close(result: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether results are torch's, as far as rounding allows."""
    if not result.dtype.is_floating_point:
        return torch.equal(result, expected)
    finite = expected.isfinite()
    if not torch.equal(result.isfinite(), finite) or not torch.equal(result.nan_to_num()[~finite], expected.nan_to_num()[~finite]):
        return False
    largest = expected[finite].abs().max().item() if finite.any() else 0.0
    return bool(((result - expected)[finite].abs() <= TOLERANCE[result.dtype] * largest).all())
