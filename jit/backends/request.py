"""The input and the output of the stage `graph -> compiled callable`, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from framejit.backends.registry import Backend
from framejit.graph.global_modes import Modes
from framejit.quick_dataclass import dataclass

if TYPE_CHECKING:
    import sympy
    from torch._subclasses import FakeTensorMode

    from framejit.graph.shape_env import TraceShapeEnv


@dataclass(frozen=True, slots=True)
class InputInfo:
    """One graph input. It isn't the trace's GraphInput, since backends add inputs that no program has (floats.py), and know neither Objects nor sources.

    Attributes:
        name: the placeholder's name.
        source_name: a description of where the value comes from, unique in the graph and the same in every process
            (it enters cache keys): "L['self']._parameters['weight']".
        value: the real tensor, or the value of a SymInt or SymFloat.
        is_parameter, is_buffer: whether an nn.Module holds it as a parameter or a buffer.
        static: the same memory call after call: parameters, buffers, tensors marked with mark_static_address.
        symbolic_context: the StatefulSymbolicContext that made the trace's fake tensor, if a size is symbolic; None means that
            every size is a constant.
        origin: the caller's identification of the source; it comes back in guards.
        is_subclass: the tensor in each call is of a class with `__torch_function__`; `value` and the graph's tensor are plain tensors.
        is_wrapper: it is a tensor that wraps others: its class's overrides of torch's functions must not be asked in the graph.
        is_state: in each call it is a generator or a module; `value` and the graph's tensor are its state, or its token, as a tensor.
        is_computed: another piece of the graph computes it (backends/regions/); `value` is the trace's fake.
    """

    name: str
    source_name: str
    value: Any
    is_parameter: bool = False
    is_buffer: bool = False
    static: bool = False
    symbolic_context: Any = None
    origin: Any = None
    is_subclass: bool = False
    is_wrapper: bool = False
    is_state: bool = False
    is_computed: bool = False


@dataclass(frozen=True)
class GraphRequest:
    """Everything that compiling one graph needs.

    Attributes:
        gm: one placeholder per input, in order, each with meta["example_value"] (FakeTensor or SymInt), as every other node has;
            the output is a tuple. `compile_graph` owns it afterwards: keep `compile.copy_graph(gm)` to print it later.
        inputs: one InputInfo per placeholder. No tensor occurs twice.
        shape_env, fake_mode: the trace's.
        modes: torch's modes where the graph starts. They affect what the backend compiles, so they are in force meanwhile; modes that no program can
            switch inside a trace are as in the thread.
        backend: from `lookup`.
        frame_id, frame_compile_id: which code object, and which compilation of it, for logs and profilers.
        spent: indices of outputs that the graph returns detached, and errors: the compiled code returns them with an autograd record that ends in these.
        changed: indices of the inputs that the graph changes in place.
        regions: whether parts that repeat are compiled once (backends/regions/): True, False, or where it pays (None).
        reaches: finds, in a graph with these spent results, the inputs that only gradients of some results reach, with the indices of these; None if gradients
            aren't recorded, or if autograd records each operator.
        piece: which piece of the trace's graph it is; None for a whole graph.
        copies: for each call of a module that the trace has copied, its nodes, each with the one that it is a copy of. Some may have been removed.
        modules: nn.Modules whose tensors are inputs, by path, for a backend that discards what it has frozen.
    """

    gm: fx.GraphModule
    inputs: Sequence[InputInfo]
    shape_env: TraceShapeEnv | None
    fake_mode: FakeTensorMode | None
    backend: Backend
    modes: Modes = field(default_factory=Modes.read)
    frame_id: int = 0
    frame_compile_id: int = 0
    spent: Mapping[int, str] = field(default_factory=dict)
    changed: Sequence[int] = ()
    regions: bool | None = None
    reaches: Callable[[fx.Graph, Iterable[int]], Mapping[int, frozenset[int]]] | None = None
    piece: int | None = None
    copies: Sequence[Mapping[fx.Node, fx.Node]] = ()
    modules: Mapping[str, torch.nn.Module] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"__compiled_graph_{self.frame_id}_{self.frame_compile_id}" + ("" if self.piece is None else f"_{self.piece}")


@dataclass(frozen=True, slots=True)
class StorageOverlapGuard:
    """The inputs `overlapping` (indices) share memory with one another; those of `separate` share a storage but no byte of it.

    AOTAutograd asks for it only if sizes are symbolic. If they are constants it silently compiles for the aliasing that it finds:
    the code that captures a graph which writes to an input must guard which inputs share storage, and where.
    """

    overlapping: tuple[int, ...]
    separate: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SameTensorGuard:
    """The inputs `first` and `second` (indices) are the same tensor."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class FrozenInputGuard:
    """The compiled graph holds a copy of this input's value: the input must stay the very object that it was.

    Its guard is identity with the object found *after* the backend has returned, and replaces guards on its metadata:
    Inductor may have put an empty tensor in the parameter's place (`freezing_discard_parameters`).
    """

    index: int


@dataclass(frozen=True, slots=True)
class ShapeGuard:
    """A fact about symbolic sizes that the backend relied upon, in ShapeEnv's symbols."""

    expr: sympy.Basic


BackendGuard = StorageOverlapGuard | SameTensorGuard | FrozenInputGuard | ShapeGuard


@dataclass(frozen=True)
class CompiledGraph:
    """A graph's compiled callable and the conditions under which it is valid.

    Attributes:
        fn: takes the inputs in order and returns a tuple or list of the outputs. It is for inference, or for training, for good.
        boxed: `fn` takes one list, which it may empty, instead of positional arguments.
        backend: the backend's name.
        guards: what the backend relies upon beyond what the trace guards.
        training: a backward pass was compiled, or will be when it is first needed.
        kinds: the number of different pieces in which it was compiled; 1 for a whole graph.
    """

    fn: Callable[..., Any]
    boxed: bool
    backend: str
    guards: tuple[BackendGuard, ...] = ()
    training: bool = False
    kinds: int = 1
