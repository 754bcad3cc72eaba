"""Turns a captured call into torch's ExportedProgram: a module around the graph checks the trace's assumptions, and torch.export lowers the module."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from framejit import breaks
from framejit.errors import BadArgument, Unsupported, suggestion
from framejit.user.exporting.captured import CapturedCall, Leaf, captured, names_of_tensors

TRANSFORMS = "framejit.library.torch.transforms.transforms"
NOT_LOWERED = {"grad_and_value": "torch.func.grad", "vjp": "torch.func.vjp"}
"""Operators of that module, by the names of what they run."""
PACKING = (torch._VF._pack_padded_sequence, torch._VF._pad_packed_sequence)


def exported(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> ExportedProgram:
    """Export a program; see `framejit.export`, which checks the arguments."""
    call = captured(target, args, kwargs, symbolic(signature_of(target), args, kwargs, dynamic_shapes))
    if call.graph is not None:
        break_graph(call.graph)
    module = module_around(call, target)
    result = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    if call.graph is not None:
        tell_lines(result.graph, call.graph)
    return result


def break_graph(captured: fx.GraphModule) -> None:
    """Raise Unsupported for operators that torch.export lowers wrongly.

    Some transforms of torch.func become graphs that compute with torch.export's own fake tensors (seen in torch 2.15). For packed sequences it computes wrong
    sizes, or needs the data of the lengths, which it doesn't have (seen in torch 2.13).
    """
    for node in [node for module in captured.modules() if isinstance(module, fx.GraphModule) for node in module.graph.nodes]:
        if getattr(node.target, "__module__", None) == TRANSFORMS and node.target.__name__ in NOT_LOWERED:  # type: ignore[union-attr]
            what = "in a program that is exported, which torch.export lowers to a graph without its arguments"
            raise Unsupported(breaks.InsideTransform(NOT_LOWERED[node.target.__name__], what))  # type: ignore[union-attr]
        if node.target in PACKING:
            raise Unsupported(breaks.DataDependent(node.target.__name__))


def tell_lines(lowered: fx.Graph, captured: fx.GraphModule) -> None:
    """Have the operators that torch.export has made say where in the program they come from, in the place of where in the captured graph's code."""
    nodes = list(captured.graph.nodes)
    filename, lines = captured.forward.__code__.co_filename, captured._lineno_map or {}
    for node in lowered.nodes:
        found = re.search(re.escape(f'File "{filename}", line ') + r"(\d+)", node.meta.get("stack_trace") or "")
        index = lines.get(int(found[1]) - (captured._prologue_start or 0)) if found else None
        if index is not None and nodes[index].stack_trace is not None:
            node.meta["stack_trace"] = nodes[index].stack_trace


def signature_of(target: Any) -> inspect.Signature:
    """The inputs of the program. Raises BadArgument."""
    try:
        return inspect.signature(target.forward if isinstance(target, nn.Module) else target)
    except (TypeError, ValueError) as error:
        raise BadArgument(f"export(): {target!r:.80} doesn't tell its parameters: {error}") from error


def symbolic(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any) -> dict[str, list[int]]:
    """The dimensions that are to be symbolic, by the names of the tensors. Raises BadArgument."""
    if not dynamic_shapes:
        return {}
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise BadArgument(f"export(): the arguments don't fit {signature}: {error}") from error
    if not isinstance(dynamic_shapes, Mapping):
        dynamic_shapes = dict(zip(bound, dynamic_shapes))
    found: dict[str, list[int]] = {}
    for name, shapes in dynamic_shapes.items():
        if name not in bound:
            raise BadArgument(f"export(): dynamic_shapes names {name!r}, which is no argument of the call{suggestion(name, bound, listing=True)}")
        collect(name, bound[name], shapes, found)
    return found


def collect(name: str, value: Any, shapes: Any, found: dict[str, list[int]]) -> None:
    """Note the symbolic dimensions of an argument, or of the tensors inside of it."""
    if shapes is None:
        return
    if isinstance(value, torch.Tensor):
        sizes = shapes.items() if isinstance(shapes, Mapping) else enumerate(shapes)
        dims = [dim for dim, size in sizes if size is not None and not isinstance(size, int) and "STATIC" not in repr(size)]
        if any(not isinstance(dim, int) or not -value.dim() <= dim < value.dim() for dim in dims):
            raise BadArgument(f"export(): dynamic_shapes[{name!r}] names a dimension that the tensor doesn't have: {shapes!r:.80}")
        if dims:
            found[name] = [dim % value.dim() for dim in dims]
    elif isinstance(value, Mapping) and isinstance(shapes, Mapping):
        for key, item in shapes.items():
            collect(f"{name}[{key!r}]", value[key], item, found)
    elif isinstance(value, Sequence) and not isinstance(value, str) and isinstance(shapes, Sequence):
        for index, (part, item) in enumerate(zip(value, shapes)):
            collect(f"{name}[{index!r}]", part, item, found)


class ExportedCall(nn.Module):
    """A captured call as a module, with the parameters and buffers of the program's module under their names."""

    def __init__(self, call: CapturedCall, named: Mapping[str, torch.Tensor], persistent: frozenset[str]) -> None:
        super().__init__()
        self._call = call
        self.constants = [leaf.key for leaf in call.inputs if leaf.kind == "constant"]
        for number, value in enumerate(self.constants):
            register(self, f"constant_{number}", value, False)
        for name, tensor in named.items():
            register(self, name, tensor, name in persistent)
        if call.graph is not None:
            self.captured = call.graph

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Check what the trace rests on, and run the graph."""
        call, arguments = self._call, pytree.tree_leaves((args, kwargs))
        sizes = {symbol: arguments[number].size(dim) for symbol, (number, dim) in call.sizes.items()}
        for condition in call.conditions:
            torch._check(sympy_interp(PythonReferenceAnalysis, sizes, condition.expression), lambda condition=condition: condition.text)
        constants = iter(range(len(self.constants)))
        inputs = [getattr(self, f"constant_{next(constants)}") if leaf.kind == "constant" else self._find(leaf, arguments, ()) for leaf in call.inputs]
        outputs = () if call.graph is None else self.captured(*inputs)
        return pytree.tree_unflatten([self._find(leaf, arguments, outputs) for leaf in call.leaves], call.structure)

    def _find(self, leaf: Leaf, arguments: Sequence[Any], outputs: Sequence[Any]) -> Any:
        if leaf.kind == "argument":
            return arguments[leaf.key]
        if leaf.kind == "size":
            number, dim = leaf.key
            return arguments[number].size(dim)
        if leaf.kind == "parameter":
            owner, _, name = leaf.key.rpartition(".")
            return getattr(self.get_submodule(owner), name)
        return outputs[leaf.key] if leaf.kind == "output" else leaf.key


def register(root: nn.Module, name: str, tensor: torch.Tensor, persistent: bool) -> None:
    """Put a parameter or buffer in its place, with the modules on the way there."""
    *path, last = name.split(".")
    for step in path:
        if step not in root._modules:
            root.add_module(step, nn.Module())
        root = root._modules[step]  # type: ignore[assignment]
    if isinstance(tensor, nn.Parameter):
        root.register_parameter(last, tensor)
    else:
        root.register_buffer(last, tensor, persistent=persistent)


def module_around(call: CapturedCall, target: Any) -> nn.Module:
    """The module that torch.export is given: its `forward` has the program's parameters, by which arguments are named."""
    signature = signature_of(target)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    kept = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]

    def forward(*args: Any, **kwargs: Any) -> Any:
        module, *others = args
        return module.run(tuple(others), kwargs)

    positional = [parameter for parameter in kept if parameter.kind is inspect.Parameter.POSITIONAL_ONLY]
    kind = inspect.Parameter.POSITIONAL_ONLY if positional else inspect.Parameter.POSITIONAL_OR_KEYWORD
    forward.__signature__ = inspect.Signature([first.replace(kind=kind), *kept])  # type: ignore[attr-defined]
    cls = type("ExportedCall", (ExportedCall,), {"forward": forward})
    named = names_of_tensors(target)
    persistent = frozenset(target.state_dict(keep_vars=True)) if isinstance(target, nn.Module) else frozenset()
    made: nn.Module = cls(call, named, persistent)
    return made.train(target.training) if isinstance(target, nn.Module) else made
