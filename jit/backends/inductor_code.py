"""Inductor's code for a graph, in a form in which another process can run it without loading Inductor.

That code is a Python function which allocates tensors and calls kernels. Its globals are kernels from shared libraries, operators of torch, and a few
functions of torch in C. It is saved with those of them that it uses; code that uses anything else isn't.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch._ops import _OpNamespace

from framejit.backends.inductor_again import (
    OperatorsByName,
    check_metadata,
    code_again,
    given_inputs,
    library_function,
    operators_of,
    run_inference,
)
from framejit.backends.libraries import keep_library
from framejit.backends.training_again import Division, Layout, run_training
from framejit.backends.translation_units import ORIGINS, Postponed
from framejit.backends.views_again import ResultView, ResultViews, functionalization, mode_again, step_again
from framejit.graph.fake import TORCHS_OPERATORS
from framejit.quick_dataclass import dataclass
from framejit.saved.custom_operators import names_in, operator_digests
from framejit.saved.names import Awaited, Unsaved
from framejit.saved.remade import ByValue, made_by


@dataclass(frozen=True)
class CompiledPart:
    """A graph of ATen operators that Inductor has compiled: its code, and what AOTAutograd knows about the graph that it comes from.

    `without_gradients`: for a backward pass, the inputs of the graph for which it computes none.
    """

    code: Any
    metadata: Any
    is_inference: bool
    is_backward: bool = False
    without_gradients: tuple[int, ...] = ()


class CompiledParts:
    """The parts of one graph: a forward pass, and a backward pass once the program has needed it.

    Attributes:
        listeners: what is called when the backward pass has been compiled.
    """

    def __init__(self) -> None:
        self.forward: list[CompiledPart] = []
        self.backward: list[CompiledPart] = []
        self.listeners: list[Callable[[], None]] = []

    def add(self, part: CompiledPart) -> None:
        (self.backward if part.is_backward else self.forward).append(part)
        listeners, self.listeners = (self.listeners, []) if part.is_backward else ([], self.listeners)
        for listener in listeners:
            listener()


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


class InputsOnly:
    """Stands for the code of a graph that has no operators: Inductor makes none for it. `results`: the inputs that are its results, None for None."""

    def __init__(self, results: tuple[int | None, ...]) -> None:
        self.results = results


class InductorCode:
    """Inductor's function for a graph, written as its code and the globals that it uses when that is asked for: its kernels may be compiled later."""

    def __init__(self, code: Any) -> None:
        self._code = code

    def __reduce__(self) -> Any:
        if type(self._code) is InputsOnly:
            return given_inputs, (self._code.results,)
        call = self._code.current_callable
        function = call.__func__ if type(call) is MethodType else call
        if type(function) is not FunctionType or (type(call) is MethodType and getattr(call.__self__, "partitions", None)):
            raise Unsaved("its code for a graph isn't a function")
        names = set(names_in(function.__code__))
        others = [name for name in names if type(vars(torch.ops).get(name)) is _OpNamespace and name not in TORCHS_OPERATORS]
        operators = tuple(each for other in sorted(others) for each in operator_digests(other, names))
        used = {name: self._portable(name, function.__globals__[name], names) for name in sorted(names & function.__globals__.keys())}
        return code_again, (ByValue(function.__code__), used, type(call) is MethodType, operators)

    def _portable(self, name: str, value: Any, names: set[str]) -> Any:
        if type(value) is BuiltinFunctionType and type(value.__self__) is ModuleType and is_library(value.__self__):
            return LibraryFunction(value, ORIGINS.get(value))
        if name == "assert_tensor_metadata":
            return check_metadata
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


class CodeOfBackward:
    """The code of a graph's backward pass, as far as it is compiled by the time it is written."""

    def __init__(self, parts: CompiledParts) -> None:
        self._parts = parts

    def __reduce__(self) -> Any:
        if not self._parts.backward:
            raise Awaited("its backward pass hasn't been needed yet", self._parts.listeners)
        if len(self._parts.backward) != 1 or not is_plain_code(self._parts.backward[0].code):
            raise Unsaved("its backward pass isn't only Inductor's code")
        return InductorCode(self._parts.backward[0].code).__reduce__()


class DivisionOf:
    """The `Division` of a graph whose parts have been compiled."""

    def __init__(self, parts: CompiledParts, autocast: bool) -> None:
        self._parts, self._autocast = parts, autocast

    def __reduce__(self) -> Any:
        known, inputs = self._parts.forward[0].metadata, self._parts.forward[0].metadata.input_info
        without = self._parts.backward[0].without_gradients
        views = views_of(known)
        apart = {view.result for view in views.each}
        tensors = [(index, info) for index, info in enumerate(known.output_info) if issubclass(info.raw_type, torch.Tensor)]
        results = [(index, info) for index, info in tensors if index not in apart]
        taken = [index for index, info in results if getattr(info, "requires_grad_for_backward", info.requires_grad)]
        taken += range(views.returned, known.num_forward_returns)
        if known.num_symints_saved_for_bw is None:
            raise Unsaved("what its graph saves for its backward pass isn't known")
        return Division, (
            tuple(known.mutated_graph_handled_indices_seen_by_autograd),
            tuple(index for index in without if inputs[index].requires_grad and not inputs[index].is_leaf),
            known.num_forward_returns, known.num_tensors_saved_with_no_vc_check or 0, known.num_symints_saved_for_bw,
            tuple(known.unsafe_view_out_indices), views, tuple(index for index, info in results if not info.requires_grad), tuple(taken),
            tuple(layout_of(meta.memory_format) for meta in known.subclass_tangent_meta), self._autocast, known.deterministic is False,
        )  # fmt: skip


class ViewStep:
    """One view of torch's functionalization: the name of its class, and what that is called with."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __reduce__(self) -> Any:
        modes = functionalization.InverseReturnMode
        return step_again, (type(self._view).__name__, tuple(ReturnMode(each) if type(each) is modes else each for each in self._view.as_tuple()))


class ReturnMode:
    """One of the modes in which torch's functionalization inverts views, by its name."""

    def __init__(self, mode: Any) -> None:
        self._mode = mode

    def __reduce__(self) -> Any:
        return mode_again, (self._mode.name,)


def views_of(known: Any) -> ResultViews:
    """The results of a graph that AOTAutograd makes as views after the compiled code."""
    return ResultViews(tuple(view_of(known, index) for index in known.aliased_out_indices), known.num_outputs)


def view_of(known: Any, index: int) -> ResultView:
    info = known.output_info[index]
    kind = info.output_type.name
    base_is_apart = kind in ("alias_of_intermediate", "alias_of_intermediate_save_as_output")
    steps = getattr(info.view_meta_sequence, "sequence", None) if functorch_config.view_replay_for_aliased_outputs else None
    if steps is not None and any(step.has_symbolic_inputs for step in steps):
        steps = None
    return ResultView(
        index, info.base_idx + known.num_outputs * base_is_apart, kind in ("alias_of_input", "is_input"), kind == "is_input", info.requires_grad,
        None if steps is None else tuple(map(ViewStep, steps)),
    )  # fmt: skip


def layout_of(known: Any) -> Layout:
    return known.memory_format, tuple(known.size or ()), tuple(known.stride or ())


def note_maker(fn: Any, parts: CompiledParts, shared: bool) -> None:
    """Note how another process makes the callable again that AOTAutograd has made of these parts, if the callable does nothing besides calling Inductor's
    code. `shared`: some inputs share memory.

    The notes for torch's own tracer about sizes of results that vary (`dynamic_outputs`) aren't made again: uncompiled code makes none either."""
    if len(parts.forward) != 1 or shared or not is_plain(parts.forward[0].metadata) or not is_plain_code(parts.forward[0].code):
        return
    part, autocast = parts.forward[0], torch._C._is_any_autocast_enabled()
    code, changed = InductorCode(part.code), tuple(part.metadata.mutated_graph_handled_indices_seen_by_autograd)
    if part.is_inference:
        made_by(fn, run_inference, code, changed, autocast, views_of(part.metadata) if part.metadata.num_outputs_aliased else None)
    else:
        made_by(fn, run_training, code, CodeOfBackward(parts), DivisionOf(parts, autocast))


def is_plain(known: Any) -> bool:
    """Return whether AOTAutograd does nothing before and after a graph, as far as its metadata says, but what `run_inference` and `run_training` do."""
    return (
        known is not None
        and known.num_mutated_inp_runtime_indices == 0
        and not known.tokens
        and not known.num_backward_tokens
        and not known.num_graphsafe_rng_states
        and not known.num_opaque_objects_saved_for_bw
        and not known.indices_of_inputs_that_requires_grad_with_mutations_in_bw
        and not known.is_rng_op_functionalized
        and known.grad_enabled_mutation is None
        and all(hasattr(info, "unwrapped_idx") for info in (*known.subclass_inp_meta, *known.subclass_fw_graph_out_meta, *known.subclass_tangent_meta))
    )


def is_plain_code(code: Any) -> bool:
    """Return whether Inductor's code for a part is only a function."""
    return type(code) is InputsOnly or (
        getattr(code, "current_callable", None) is not None
        and not code.inputs_to_check
        and code.device_types <= {"cpu"}
        and not getattr(code, "_wrap_compiled_regions", False)
    )
