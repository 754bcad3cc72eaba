"""Captures one call of a program as one graph, without running an operator, and notes what the graph's inputs and the call's results are."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from framejit import breaks, config
from framejit.backends.compile import copy_graph
from framejit.backends.registry import lookup
from framejit.driver.options import Options
from framejit.errors import BadArgument, Unsupported
from framejit.guards.source import Call, Source
from framejit.guards.tensor_source import TensorSize
from framejit.quick_dataclass import dataclass
from framejit.user.api import compile_target
from framejit.user.exploring.conditions import Condition, Conditions
from framejit.user.exploring.example_inputs import ExampleInputs
from framejit.user.exploring.program import NotRun, PrivateCompiler


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor, or another value, of the call. `kind`: "argument", "parameter", "output" or "constant"; `key`: its number, its name, or the value.
    Of an argument's "size", `key` is the argument's number and the dimension."""

    kind: str
    key: Any


@dataclass(frozen=True)
class CapturedCall:
    """A captured call.

    Attributes:
        graph: the graph; None if nothing is computed.
        inputs: what its placeholders take: arguments by number among the leaves of `(args, kwargs)`, their sizes, parameters and buffers by name, constants.
        leaves, structure: the result.
        conditions: the conditions on varying sizes on which the trace depends.
        sizes: the symbols in them, each with the leaf of the arguments and the dimension whose size it is.
    """

    graph: fx.GraphModule | None
    inputs: tuple[Leaf, ...]
    leaves: tuple[Leaf, ...]
    structure: pytree.TreeSpec
    conditions: tuple[Condition, ...]
    sizes: Mapping[Any, tuple[int, int]]


class RunningCompiler(PrivateCompiler):
    """Compiles each call again, and lets it run."""

    def __call__(self, function: FunctionType, args: tuple[Any, ...]) -> Any:
        try:
            super().__call__(function, args)
        except NotRun:
            assert self.compiled is not None
            return self.compiled[1]


class Recorder:
    """A backend that keeps the graph, and returns stand-ins for its outputs instead of running it, so that only the Python code around it runs."""

    def __init__(self) -> None:
        self.graph: fx.GraphModule | None = None
        self.inputs: Sequence[Any] = ()
        self.outputs: list[Any] = []

    def __call__(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        holder = nn.Module()
        for name, module in gm.named_children():
            holder.add_module(name, module)
        self.graph = fx.GraphModule(holder, copy_graph(gm))
        self.inputs = list(example_inputs)
        (output,) = gm.graph.find_nodes(op="output")
        self.outputs = [standing_for(node) for node in output.args[0]]
        return lambda *inputs: tuple(self.outputs)


def standing_for(node: Any) -> torch.Tensor:
    """A tensor like a node's, of no content."""
    example = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    if not isinstance(example, torch.Tensor):
        raise Unsupported(breaks.UnsupportedValue("a number that is computed from tensors, as a result of what is exported,"))
    sizes = [size if type(size) is int else size.node.hint if size.node.has_hint() else 1 for size in example.shape]
    return torch.empty(sizes, dtype=example.dtype, device=example.device)


def recording_options(recorder: Recorder) -> Options:
    """The options by which a call is traced whole, and its graph recorded."""
    eager, own = lookup("eager"), config.current()
    takes = dataclasses.replace(eager.takes, takes_hooks=False, takes_objects=False, joins_branches=False, guards_data=False)
    backend = dataclasses.replace(eager, name="export", call=recorder, takes=takes)
    return Options(backend, fullgraph=True, config=dataclasses.replace(own, check=",".join(sorted(own.checks() - {"results", "guards"}))), isolated=True)


def captured(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Mapping[str, Sequence[int]]) -> CapturedCall:
    """Trace a call whole. `dynamic`: the dimensions that are symbolic, by what `ExampleInputs` calls the tensors. Raises BadArgument, Unsupported."""
    named = names_of_tensors(target)
    with_memory: dict[int, Any] = {}
    args, kwargs = pytree.tree_map(lambda leaf: allocated(leaf, with_memory), (args, kwargs))
    target = standing_in(target, with_memory)
    example = ExampleInputs(target, args, kwargs, dict(dynamic))
    recorder, compilers = Recorder(), []

    def make(function: Any, settings: Options, pooled: bool) -> Any:
        compilers.append(RunningCompiler(settings, example, int(isinstance(target, (MethodType, nn.Module)))))
        return compilers[-1].attach(function)

    compiled = compile_target(target, recording_options(recorder), make=make)
    if not compilers:
        raise BadArgument(f"export(): {target!r:.80} is not compiled: it is disabled, or compiling is")
    (compiler,) = compilers
    compiler.tensors = [tensor.example for tensor in example.tensors]
    result = compiled(*args, **kwargs)
    call, entry = compiler.compiled or (None, None)
    if call is None or entry is None:
        raise BadArgument(f"export(): {target!r:.80} is not compiled here: something keeps framejit from it")
    conditions = Conditions(example, call, compiler.tensors, compiler.int_symbols(call))
    found = conditions.of(entry.spec.guards)
    arguments = pytree.tree_leaves((args, kwargs))
    known = {id(value): Leaf("parameter", name) for name, value in renamed(named, with_memory).items()}
    known |= {id(value): Leaf("argument", number) for number, value in reversed(list(enumerate(arguments))) if isinstance(value, torch.Tensor)}
    places = {id(value): number for number, value in reversed(list(enumerate(arguments)))}
    taken = zip(recorder.inputs, entry.spec.inputs if recorder.graph is not None else (), strict=True)
    inputs = tuple([known.get(id(value)) or number_of(source, call, places) or Leaf("constant", value) for value, source in taken])
    known |= {id(value): Leaf("output", number) for number, value in enumerate(recorder.outputs)}
    leaves, structure = pytree.tree_flatten(result)
    for leaf in leaves:
        reject_opaque(leaf)
    sizes = {conditions.symbols[symbol]: (places[id(tensor.example)], dim) for tensor in example.tensors for dim, symbol in tensor.symbols.items()}
    return CapturedCall(
        recorder.graph, inputs, tuple([known.get(id(leaf)) or Leaf("constant", leaf) for leaf in leaves]), structure, tuple(found), sizes
    )  # fmt: skip


def number_of(source: Source, call: Call, places: Mapping[int, int]) -> Leaf | None:
    """The size of an argument that a path leads to; None for any other path. `places`: the numbers of the arguments, by identity."""
    number = places.get(id(source.base.fetch(call))) if isinstance(source, TensorSize) and source.base is not None else None
    return None if number is None else Leaf("size", (number, source.payload))


PLAIN = (torch.Tensor, bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


def reject_opaque(leaf: Any) -> None:
    """Stop at a part of the result that torch.export doesn't take."""
    if not isinstance(leaf, PLAIN):
        what = f"a {type(leaf).__qualname__} as a result of what is exported (torch.utils._pytree can be told of its parts)"
        raise Unsupported(breaks.UnsupportedValue(what))


def names_of_tensors(target: Any) -> dict[str, torch.Tensor]:
    """The parameters and buffers of a module by name; none of another callable."""
    if not isinstance(target, nn.Module):
        return {}
    return {**dict(target.named_parameters(remove_duplicate=False)), **dict(target.named_buffers(remove_duplicate=False))}


def renamed(named: Mapping[str, torch.Tensor], with_memory: Mapping[int, Any]) -> dict[str, torch.Tensor]:
    """A module's tensors by name, with memory where they were fake ones. The first of several names of a tensor comes last, so that it counts."""
    return {name: with_memory.get(id(tensor), tensor) for name, tensor in reversed(list(named.items()))}


def allocated(value: Any, made: dict[int, Any]) -> Any:
    """A tensor with memory of no content like a fake one; other values as they are. Memory that nobody touches costs nothing."""
    if not isinstance(value, FakeTensor):
        return value
    if id(value) not in made:
        real = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.fake_device)
        made[id(value)] = nn.Parameter(real, value.requires_grad) if isinstance(value, nn.Parameter) else real.requires_grad_(value.requires_grad)
    return made[id(value)]


def standing_in(target: Any, made: dict[int, Any], what: str = "export()") -> Any:
    """A copy of a module that shares its tensors, so that nothing that the call stores is stored in the module. Others are taken as they are."""
    if not isinstance(target, nn.Module):
        return target
    attributes = [value for module in target.modules() for value in vars(module).values() if isinstance(value, torch.Tensor)]
    tensors = [*names_of_tensors(target).values(), *attributes]
    memo = {id(tensor): allocated(tensor, made) for tensor in tensors}
    try:
        return copy.deepcopy(target, memo)  # type: ignore[arg-type]
    except Exception:
        if any(isinstance(tensor, FakeTensor) for tensor in tensors):
            raise BadArgument(f"{what}: a copy of {type(target).__qualname__} is needed, for its tensors are fake ones; it can't be copied") from None
        return target
