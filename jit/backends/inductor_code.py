"""Inductor's code for a graph, in a form in which another process can run it without loading Inductor.

That code is a Python function which allocates tensors and calls kernels. Its globals are kernels from shared libraries, operators of torch, and a few
functions of torch in C. It is saved with those of them that it uses; code that uses anything else isn't.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch._ops import _OpNamespace

from framejit.backends.inductor_again import OperatorsByName, code_again, library_function, operators_of, run_inference
from framejit.backends.libraries import keep_library
from framejit.backends.translation_units import ORIGINS, Postponed
from framejit.graph.fake import TORCHS_OPERATORS
from framejit.saved.names import Unsaved
from framejit.saved.remade import ByValue, made_by


@dataclass(frozen=True)
class CompiledPart:
    """A graph of ATen operators that Inductor has compiled: its code, and what AOTAutograd knows about the graph that it comes from."""

    code: Any
    metadata: Any
    is_inference: bool


class LibraryFunction:
    """A function of a library of kernels: which library, its entry function, and the place among what that returns; None for the entry function itself."""

    def __init__(self, function: BuiltinFunctionType, place: int | None) -> None:
        self._function, self._place = function, place

    def __reduce__(self) -> Any:
        module: Any = self._function.__self__
        entry = module.__spec__.name.rpartition(".")[2]
        return library_function, (keep_library(module.__file__), entry, self._place)


class OperatorsOf:
    """A namespace of operators, such as `torch.ops.aten`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return operators_of, (self.name,)


class InductorCode:
    """Inductor's function for a graph, written as its code and the globals that it uses when that is asked for: its kernels may be compiled later."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __reduce__(self) -> Any:
        function = self._call.__func__ if type(self._call) is MethodType else self._call
        if type(function) is not FunctionType or (type(self._call) is MethodType and getattr(self._call.__self__, "partitions", None)):
            raise Unsaved("its code for a graph isn't a function")
        names = set(names_in(function.__code__))
        others = [name for name in names if type(vars(torch.ops).get(name)) is _OpNamespace and name not in TORCHS_OPERATORS]
        if others:
            raise Unsaved(f"its graph calls operators of {others[0]}, which aren't torch's")
        used = {name: self._portable(name, function.__globals__[name], names) for name in sorted(names & function.__globals__.keys())}
        return code_again, (ByValue(function.__code__), used, type(self._call) is MethodType)

    def _portable(self, name: str, value: Any, names: set[str]) -> Any:
        if type(value) is BuiltinFunctionType and type(value.__self__) is ModuleType and is_library(value.__self__):
            return LibraryFunction(value, ORIGINS.get(value))
        if type(value) is Postponed:
            return self._portable(name, value.finish(), names)
        if name == "extern_kernels":
            found = {each: getattr(value, each) for each in names if hasattr(value, each)}
            if all(type(each) is BuiltinFunctionType for each in found.values()):
                return OperatorsByName(**found)
        if type(value) is _OpNamespace and value.name in TORCHS_OPERATORS:
            return OperatorsOf(value.name)
        if type(value) is BuiltinFunctionType or isinstance(value, (torch.Tensor, type)) or value in (torch, builtins):
            return value
        if value is None or type(value) in (int, float, str, bool):
            return value
        raise Unsaved(f"its code for a graph uses {name}")


def is_library(module: ModuleType) -> bool:
    return str(getattr(module, "__file__", "")).endswith(".so") and getattr(module, "__spec__", None) is not None


def names_in(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in a code object, and in the code inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if type(inner) is CodeType:
            yield from names_in(inner)


def note_maker(fn: Any, parts: Sequence[CompiledPart], shared: bool) -> None:
    """Note how another process makes the callable again that AOTAutograd has made of these parts, if the graph runs without gradients, and if the callable does
    nothing besides calling Inductor's code. `shared`: some inputs share memory.

    The notes for torch's own tracer about sizes of results that vary (`dynamic_outputs`) aren't made again: uncompiled code makes none either."""
    if len(parts) != 1 or shared or not parts[0].is_inference or torch._C._is_any_autocast_enabled():
        return
    code, known = parts[0].code, parts[0].metadata
    plain = (
        known is not None
        and known.num_mutated_inp_runtime_indices == 0
        and known.num_outputs_aliased == 0
        and known.num_intermediate_bases == 0
        and not known.tokens
        and not known.is_rng_op_functionalized
        and known.grad_enabled_mutation is None
        and all(hasattr(info, "unwrapped_idx") for info in (*known.subclass_inp_meta, *known.subclass_fw_graph_out_meta))
    )
    call = getattr(code, "current_callable", None)
    if plain and call is not None and not code.inputs_to_check and code.device_types <= {"cpu"} and not getattr(code, "_wrap_compiled_regions", False):
        made_by(fn, run_inference, InductorCode(call), tuple(known.mutated_graph_handled_indices_seen_by_autograd))
