"""Branches that skip a way if there are no rows, where autograd records the way: `if rows.numel(): out.index_add_(0, rows, expert(x[rows]))`.

A torch.cond can't write to `out` there. But without rows, such a way writes nothing, so that the graph can compute it in every call, without a branch. The way
is run on fakes without rows to see that. In the graph, what it writes is recorded only if there are rows (graph/optional_records.py). Rows may be given by a
mask, too: `if mask.any(): out[mask] = expert(x[mask])`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any, NoReturn

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from framejit import breaks
from framejit.graph.body import Body
from framejit.graph.call_data import name_of
from framejit.graph.fake import first_line, is_of_others, storages
from framejit.graph.gradient_paths import gradient_paths
from framejit.graph.joined import memory_of
from framejit.graph.metadata import CHANGES
from framejit.graph.on_fakes import run_on_fakes
from framejit.graph.optional_records import OptionalRecords, recorded_if
from framejit.library.torch.autograd.gradient_question import guard_hooks
from framejit.objects.core.object import Object
from framejit.objects.numbers.unbackednumber import Datum, UnbackedNumber
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.quick_dataclass import dataclass
from framejit.torch_state.operator_facts import takes_no_rows, writes_at_indices
from framejit.torch_state.symbols import is_true, sympy
from framejit.tracing.trace import Trace


@dataclass(frozen=True, slots=True)
class Rows:
    """The question that a branch asks about rows: there are some if the condition has this outcome, and none if it has the other.

    Attributes:
        count: their number, or a tensor with a bool that says whether there are any.
        outcome: the outcome of the condition.
        symbol: the symbol of the number, if there is one.
        mask: the mask that selects them, if there is one.
    """

    count: Object
    outcome: bool
    symbol: sympy.Symbol | None = None
    mask: torch.Tensor | None = None

    @staticmethod
    def of(vm: Trace, condition: Object, kept: Sequence[fx.Node]) -> Rows | None:
        """The rows that a condition asks about; None if it asks for something else. `kept`: the nodes that do more than compute."""
        if isinstance(condition, TensorObject) or (isinstance(condition, Datum) and condition.cls is bool):
            return rows_of_mask(vm, condition, kept)
        if not isinstance(condition, UnbackedNumber):
            return None
        sym: Any = condition.truth_value().sym(vm)
        expr = sym.node.expr if type(sym) is torch.SymBool else None
        if not isinstance(expr, sympy.core.relational.Relational) or len(expr.free_symbols) != 1:
            return None
        (symbol,), number = expr.free_symbols, condition.leaf()
        own: Any = number.sym(vm)
        least = vm.graph.unbacked.least(number)
        if type(own) is not torch.SymInt or own.node.expr != symbol or least is None or least < 0:
            return None
        outcome = without(expr, symbol)
        return None if outcome is None else Rows(number, not outcome, symbol)


def rows_of_mask(vm: Trace, condition: TensorObject | Datum, kept: Sequence[fx.Node]) -> Rows | None:
    """The rows that a mask selects, if the condition is `mask.any()`, and nothing has changed the mask."""
    node = condition.node.args[0] if isinstance(condition, Datum) and len(condition.node.args) == 1 else condition.node
    found = vm.graph.object_of(node.meta["example_value"]) if isinstance(node, fx.Node) else None
    if not isinstance(found, TensorObject) or name_of(found.node) != "any" or len(found.node.args) != 1 or found.node.kwargs:
        return None
    of = found.node.args[0]
    mask = of.meta["example_value"] if isinstance(of, fx.Node) else None
    if not isinstance(mask, torch.Tensor) or mask.dtype is not torch.bool or may_change(kept, mask):
        return None
    return Rows(found, True, mask=mask)


def may_change(kept: Iterable[fx.Node], fake: torch.Tensor) -> bool:
    """Return whether one of these nodes, which do more than compute, may change a tensor."""
    memory = storages([fake])
    return any(CHANGES not in node.meta or bool(memory_of(node.meta[CHANGES]) & memory) for node in kept)


def without(expr: sympy.core.relational.Relational, symbol: sympy.Symbol) -> bool | None:
    """The outcome of a comparison if a number that isn't negative is 0; None if it may have this outcome for another number, too."""
    difference = sympy.expand(expr.lhs - expr.rhs)
    if difference.diff(symbol).free_symbols:
        return None
    none, some = (expr.subs(symbol, number) for number in (0, 1))
    if none == some or (isinstance(expr, sympy.Eq) and none is not sympy.true) or (isinstance(expr, sympy.Ne) and none is not sympy.false):
        return None
    return bool(none)


@dataclass(frozen=True, slots=True)
class EmptyWay:
    """A way that may have no rows to write. `place`: the branch; `reason`: that for a break there; `stop`: gives up."""

    vm: Trace
    rows: Rows
    body: Body
    place: tuple[CodeType, int]
    reason: breaks.Break
    stop: Callable[[str], NoReturn]

    def run(self) -> None:
        """Put the operators of the way into the graph around it. Gives up unless they write nothing where there are no rows."""
        self.check_writes_nothing()
        graph, written = self.vm.graph, memory_of(self.body.lifted)
        changed = memory_of(node for changing in self.body.kept for node in changing.meta.get(CHANGES, ()))
        if graph.is_one_autograd_node and changed & storages(graph.input_fakes()):
            self.stop("has a way that writes to a tensor from outside, where gradients are recorded")
        (count,) = graph.nodes_of([self.rows.count])
        nodes = {placeholder: outer for outer, placeholder in self.body.lifted.items()}
        for node in self.body.fx.nodes:
            if node.op != "placeholder":
                args, kwargs = fx.map_arg((node.args, node.kwargs), nodes.__getitem__)  # type: ignore[misc]
                if memory_of(node.meta.get(CHANGES, ())) & written:
                    others, kwargs = fx.map_arg((args[1:], kwargs), lambda given: self.recorded(given, count))  # type: ignore[misc]
                    args = (args[0], *others)
                nodes[node] = graph.repeated(node, args, kwargs, self.body.notes[node])

    def recorded(self, node: fx.Node, count: fx.Node) -> fx.Node:
        """The node of what is written: the given one, or if autograd records it, one without a record where there are no rows."""
        vm, fake = self.vm, node.meta["example_value"]
        if not isinstance(fake, torch.Tensor) or not fake.requires_grad or not vm.graph.modes.current.grad:
            return node
        for leaf in gradient_paths([fake]).leaves if vm.graph.is_one_autograd_node else ():
            obj = vm.graph.object_of(leaf)
            why = guard_hooks(vm, obj) if obj is not None else None
            if why is not None:
                self.stop(f"has a way that may leave a tensor without a gradient{why}")
        made = vm.graph.node_of(recorded_if, (node, count))
        vm.graph.result_of(made)
        vm.graph.part(OptionalRecords).add(made, self.place, self.reason)
        return made

    def check_writes_nothing(self) -> None:
        """Give up unless the way writes nothing around it where there are no rows. Its operators run on fakes without rows."""
        graph, nodes = self.vm.graph, self.body.fx.nodes
        if any(node.op not in ("placeholder", "call_function", "call_method") or is_of_others(node.target) for node in nodes):
            self.stop("has a way that calls operators that aren't torch's, where gradients are recorded")
        with graph.fakes.running(), torch.no_grad():
            try:
                values = {placeholder: self.without_rows(outer.meta["example_value"]) for outer, placeholder in self.body.lifted.items()}
                masks = storages(values[placeholder] for outer, placeholder in self.body.lifted.items() if self.is_mask(outer.meta["example_value"]))
                with WithoutRows(masks):
                    why = self.run_without_rows(values, masks)
            except Exception as error:
                why = f"has a way that can't be computed without rows ({first_line(error)})"
        graph.unbacked.forget_pending()
        if why:
            self.stop(why)

    def run_without_rows(self, values: dict[fx.Node, Any], masks: set[int]) -> str:
        """Run the operators of the way on fakes. `values`: those of its placeholders; `masks`: the storages of masks that select nothing. Returns which of its
        writes isn't one of rows, or an empty text."""
        written = memory_of(self.body.lifted)
        for node in self.body.fx.nodes:
            if node.op != "placeholder":
                args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)  # type: ignore[misc]
                if memory_of(node.meta.get(CHANGES, ())) & written and not writes_nowhere(node, [*args[1:], *kwargs.values()], masks):
                    return f"has a way that writes to a tensor by {operator_name(node)}, where gradients are recorded"
                values[node] = called(node, args, kwargs)
        return ""

    def is_mask(self, example: Any) -> bool:
        """Return whether a fake is the mask that selects the rows, or another view of all its elements."""
        mask = self.rows.mask
        if mask is None or not isinstance(example, torch.Tensor) or example.dtype is not torch.bool or not storages([example]) & storages([mask]):
            return False
        is_same = (mask.shape, mask.stride(), mask.storage_offset()) == (example.shape, example.stride(), example.storage_offset())
        return is_same or is_true(mask.is_contiguous() and mask.untyped_storage().nbytes() == mask.numel())

    def without_rows(self, example: Any) -> Any:
        """A fake or a number that looks like another one, with no rows."""
        if not isinstance(example, torch.Tensor):
            return self.size(example)
        sizes, strides = [self.size(size) for size in example.size()], [self.size(stride) for stride in example.stride()]
        return torch.empty_strided(sizes, strides, dtype=example.dtype, device=example.device)

    def size(self, number: Any) -> Any:
        """A number or a size where there are no rows. Raises TypeError if it depends on further data."""
        if type(number) is not torch.SymInt:
            return number
        expr = number.node.expr if self.rows.symbol is None else number.node.expr.subs(self.rows.symbol, 0)
        return int(expr) if expr.is_Integer else number.node.shape_env.size_hint(expr)


class CannotRun(Exception):
    """An operator may raise an error where there are no rows."""


class WithoutRows(TorchDispatchMode):
    """Raises CannotRun at operators below that may raise an error for tensors without elements, or for some data: eager skips them if there are no rows. Masks
    in the storages `masks` select nothing."""

    def __init__(self, masks: set[int]) -> None:
        super().__init__()
        self._masks = masks

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten.nonzero.default and storages([args[0]]) & self._masks:
            return torch.empty((0, args[0].dim()), dtype=torch.int64, device=args[0].device)
        if len(args) > 1 and isinstance(args[1], (list, tuple)):
            args = (args[0], [place for index in args[1] for place in self._places(index)], *args[2:])
        if not isinstance(func, OpOverload) or not takes_no_rows(func, pytree.tree_leaves((args, kwargs))):
            raise CannotRun(f"{func.__name__.partition('.')[0]} may fail")
        return func(*args, **kwargs)

    def _places(self, index: Any) -> list[Any]:
        """An index into a tensor; in the place of a mask, the places that it selects, which are none."""
        if not isinstance(index, torch.Tensor) or not storages([index]) & self._masks:
            return [index]
        return [torch.empty(0, dtype=torch.int64, device=index.device) for _ in range(index.dim())]


def called(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a node's operator for these fakes."""
    return getattr(args[0], node.target)(*args[1:], **kwargs) if isinstance(node.target, str) else run_on_fakes(node.target, args, kwargs)


def writes_nowhere(node: fx.Node, args: Sequence[Any], masks: set[int]) -> bool:
    """Return whether an operator writes only to the elements that indices name, and there are none among these arguments besides its tensor. `masks`: the
    storages of masks that select nothing."""
    if node.target is not operator.setitem and not writes_at_indices(name_of(node)):
        return False
    given = [arg for arg in pytree.tree_leaves(args) if isinstance(arg, torch.Tensor)]
    return any((tensor.dtype is torch.int64 and tensor.numel() == 0) or storages([tensor]) & masks for tensor in given)


def operator_name(node: fx.Node) -> str:
    """The name of the operator that a node runs, torch's or another library's."""
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
