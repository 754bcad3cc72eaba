"""Numbers read from tensors, and sizes that depend on data, in graphs: they are unbacked symbols of the ShapeEnv.

Nothing may be assumed about such a symbol that the graph doesn't check. The program states facts with `torch._check`, which becomes a node at that point. An
operator that would have to assume something by itself (that two sizes are equal, or that a size isn't 1) breaks the trace.

A fact that the ShapeEnv has learnt can't be undone. So if an instruction is undone, all fakes are made again, with other symbols, about which only the
remaining nodes say something.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager
from types import CodeType
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import SymBool, SymFloat, SymInt, fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from framejit import breaks
from framejit.errors import CHECK_FAILED
from framejit.graph.check_order import ASSERT
from framejit.graph.fake import BY_VERSIONS, first_line, meaning_of, storages
from framejit.graph.fractions import outcome_of_numbers
from framejit.graph.sizes_of_call import raises_for_symbols_only
from framejit.graph.trace_state import TraceState
from framejit.objects.core.object import Object
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.numbers.unbackednumber import Computed, Datum, LeafNumber, UnbackedNumber, sharper
from framejit.torch_state.operator_exceptions import MAY_COPY, NEED_ELEMENTS, POWERS, SQUEEZES, TAKE_FLOATS_OF_TENSORS, TELL_LAYOUT
from framejit.torch_state.symbols import free_unbacked_symbols, is_false, is_true, need_data, symbolic_shapes, sympy

if TYPE_CHECKING:
    from framejit.graph.shape_env import TraceShapeEnv

CLASSES: dict[type, type] = {SymInt: int, SymFloat: float, SymBool: bool}
MEMOS = ["item_memo", "nonzero_memo", "unique_memo", "unique_consecutive_memo"]
"""Attributes in which fakes remember the numbers that they have given, until their version changes; but `x.data` doesn't share its version with `x`. Subjects
add their own."""

DRAWS: list[Callable[[fx.Node], fx.Node | None]] = []
"""Functions of subjects that return the node which has drawn a number, if one has: where the program needs the number's value, native code draws it."""


COUNTS = frozenset({torch.bincount, "bincount"})


class Unbacked:
    """The unbacked symbols of one trace. `enabled`: whether there may be any."""

    def __init__(self, state: TraceState) -> None:
        self.enabled = state.demands.takes_unbacked
        self.present = False
        """True if the trace has ever had an unbacked symbol."""
        self._state = state
        state.made_again.append(self.bind_again)
        self._numbers: dict[sympy.Basic, Datum] = {}
        self._given_by: dict[fx.Node, Datum] = {}
        self._counts: set[fx.Node] = set()
        """Nodes of bincount whose results must be as long as `minlength` says, for the operator that is about to run."""
        self._settled: set[fx.Node] = set()
        """Those of which that has been checked for the operator that runs now."""
        self._slices: set[fx.Node] = set()
        """Nodes of slices whose size is known to be that of the bound, which may be symbolic."""
        self._made_by: dict[fx.Node, tuple[str, int]] = {}
        self._expressions: dict[sympy.Basic, tuple[str, int]] = {}
        self._facts: frozenset[int] = frozenset()
        self._given: list[sympy.Expr] = []
        """The symbolic ints among the arguments of the operator that runs on fakes."""
        self.checked: dict[fx.Node, tuple[tuple[CodeType, int], breaks.Break]] = {}
        """The checks in the graph: the instructions of the program that make them, and why these would break the trace."""

    @property
    def _env(self) -> TraceShapeEnv:
        return self._state.fakes.symbols()

    def forget_pending(self) -> None:
        """Forget symbols that an operator has made on fakes, and which no node gives."""
        if self._is_pending():
            self._env.pending_fresh_unbacked_symbols.clear()

    def finish(self) -> None:
        """Update a finished graph: where it is traced once more, the sizes of slices with known bounds are those bounds from the start, and no new symbols."""
        self.forget_pending()
        for node in self._slices:
            node.meta.pop("unbacked_bindings", None)

    def _is_pending(self) -> bool:
        """Return whether an operator has made symbols on fakes that no node gives yet."""
        return self._state.fakes.shape_env is not None and bool(self._env.pending_fresh_unbacked_symbols)

    def may_begin(self) -> bool:
        """Return whether a number read from a tensor can be in the graph that is being built."""
        return self.enabled and self._state.body.takes_numbers

    def beside(self, number: Datum) -> AbstractContextManager[None]:
        """Inside the block, operators go into the graph that has the node of a number."""
        return self._state.in_graph_of([number.node])

    def note_input(self, name: str, fake: torch.Tensor) -> None:
        """Note an input that has become a fake, which may have sizes about which nothing is known (`mark_unbacked`). The input gives them, and not a node."""
        for dim, size in enumerate(fake.shape):
            if is_unbacked(size):
                self.present = True
                self._expressions[size.node.expr] = f"{name}.size({dim})", self._place()[1]
        self.forget_pending()

    # Operators.

    def before(self, name: str, fakes: Sequence[torch.Tensor], args: Any) -> None:
        """Stop the trace at an operator whose result depends on unknown numbers in a way that torch itself would not notice."""
        self._facts = frozenset(map(id, self._asserted()))
        self._given = [number.node.expr for number in numbers_in(args) if type(number) is SymInt]
        if not self.present:
            return
        counts, self._counts = self._counts, set()
        for node in counts:
            self.settle(free_unbacked_symbols(node.meta["example_value"]))
        self._settled = counts
        if self._state.is_inner():
            used = {symbol for number in (*numbers_in(args), *(size for fake in fakes for size in fake.shape)) for symbol in free_unbacked_symbols(number)}
            if not used <= self._usable_inside():
                self._state.vm.unsupported(breaks.DataDependent(name))
        if name == "setitem" and any(is_unbacked(number) for part in parts_of(args[1]) if type(part) is slice for number in numbers_in(part)):
            sizes = [size for fake in fakes for size in fake.shape]  # the slice would have a size that no node gives
            self.settle({symbol for number in (*numbers_in(args[1]), *sizes) for symbol in free_unbacked_symbols(number)})
        if self._state.is_one_autograd_node:
            numbers = [number for number in numbers_in(args) if is_unbacked(number)]
            for number in numbers:
                if name in POWERS or name == "setitem" or (type(number) is SymFloat and name not in TAKE_FLOATS_OF_TENSORS):
                    self._need(number.node.expr)
            if name == "select" and numbers and not is_in_range(*args[:3]):
                self._need(numbers[0].node.expr)
        for fake in fakes:
            for dim, size in enumerate(fake.shape):
                if is_unbacked(size):
                    self._check_operand(name, fake, dim, args)

    def _usable_inside(self) -> set[Any]:
        """The symbols that operators of the innermost graph may use."""
        body = self._state.body
        bodies = self._state.bodies() if body.takes_sizes else [body]
        return {symbol for each in bodies for symbol in each.numbers()}

    def _check_operand(self, name: str, fake: torch.Tensor, dim: int, args: Any) -> None:
        """Stop the trace at an operator whose behavior isn't known for every value that this size may have."""
        size = fake.shape[dim]
        if name in SQUEEZES and not is_squeeze_elsewhere(fake, dim, args):
            self._need(sympy.Eq(size.node.expr, 1))
        if name in TELL_LAYOUT:
            self._need(size.node.expr)
        if self._state.is_one_autograd_node and name in NEED_ELEMENTS and not is_true(size > 0):
            self._need(size.node.expr > 0)
        if self._state.is_one_autograd_node and name == "setitem" and fake is not args[0] and any(type(part) is slice for part in parts_of(args[1])):
            self._need(size.node.expr)

    def failed(self, error: Exception, name: str, args: Any, target: Any) -> breaks.Break:
        """The break reason after an operator has raised an error on fakes."""
        self.forget_pending()
        if self.present:
            self._state.fakes.changes_with_undoing()
        if isinstance(error, need_data()) and error.cond.free_symbols & self._expressions.keys():
            return self.reason(error.cond)
        if self.present and any(map(is_unbacked, numbers_in(args))):
            return breaks.DataDependent(name)
        reason = meaning_of(error, name, target)
        if isinstance(reason, breaks.MayRaise) and self._is_inside(error, args):
            return breaks.OperatorRaises(reason.what)
        if isinstance(reason, breaks.OperatorRaises) and raises_for_symbols_only(target, *args):
            return breaks.UnsupportedOperation(f"{name}, which raises where sizes are symbolic ({first_line(error)})")
        return reason

    def _is_inside(self, error: Exception, args: Any) -> bool:
        """Return whether all arguments of an operator were made in the trace, so that their origin is known: none shares memory with tensors from outside."""
        if BY_VERSIONS in first_line(error):  # the error is about values that the backward pass needs, and not about the operator's arguments
            return False
        given = [value for value in pytree.tree_leaves(args) if isinstance(value, torch.Tensor)]
        return storages(given).isdisjoint(storages(self._state.input_fakes()))

    def after(self, name: str, result: Any, fakes: Sequence[torch.Tensor], changes: bool) -> dict[Any, Any] | None:
        """Check an operator after it has run. Returns the symbols that its result binds, for the node's metadata."""
        if not self.present and not self._is_pending():
            return None
        if changes:
            for fake in self._state.fakes.sharing_memory(fakes):
                for memo in MEMOS:
                    setattr(fake, memo, None)
        self.present = self._state.fakes.symbolic = True
        self._state.fakes.changes_with_undoing()
        try:
            bindings: dict[Any, Any] | None = symbolic_shapes.compute_unbacked_bindings(self._env, result)
        except symbolic_shapes.PendingUnbackedSymbolNotFound:
            self._state.vm.unsupported(breaks.DataDependent(name))
        body = self._state.body
        if bindings and self._state.is_inner() and not body.takes_sizes and not (body.takes_numbers and type(result) in CLASSES):
            self._state.vm.unsupported(breaks.DataDependent(name))
        for fact in self._asserted():
            if id(fact) not in self._facts and not is_size(fact.expr, self._given) and not is_of_result(fact.expr, (bindings or {}).keys()):
                if not self.settle(fact.expr.free_symbols) or not self._holds(fact.expr):
                    self._break_graph(fact.expr)
        if self._may_copy(name, result, fakes):
            self._break_graph(next(filter(is_unbacked, fakes[0].shape)).node.expr)
        return bindings

    def differs_now(self, name: str, result: Any, fakes: Sequence[torch.Tensor]) -> bool:
        """Return whether an operator that has run may give something else now, because the trace now depends on the values of sizes that decide whether it
        copies, or of sizes that are as expected."""
        if self.present and self._needs_expected():
            return True
        if not self.present or not self._may_copy(name, result, fakes):
            return False
        self.forget_pending()
        return self.settle({symbol for size in fakes[0].shape for symbol in free_unbacked_symbols(size)})

    def _may_copy(self, name: str, result: Any, fakes: Sequence[torch.Tensor]) -> bool:
        """Return whether it depends on unknown sizes whether an operator copies its tensor."""
        return name in MAY_COPY and bool(fakes) and any(map(is_unbacked, fakes[0].shape)) and not is_view_of(result, fakes[0])

    def _holds(self, fact: sympy.Basic) -> bool:
        """Return whether a fact holds that an operator has assumed. If it is about numbers that are as good as from outside, that is guarded."""
        fact = self._env.replace(fact)
        if fact in (sympy.true, sympy.false) or free_unbacked_symbols(fact):
            return fact == sympy.true
        return bool(self._env.create_symboolnode(fact))

    def _asserted(self) -> list[Any]:
        if self._state.fakes.shape_env is None:
            return []
        return [fact for facts in self._env.deferred_runtime_asserts.values() for fact in facts]

    def forget_inside(self, fakes: Iterable[Any]) -> None:
        """Forget the numbers that fakes from around an inner graph have given in it: outside of it, other nodes give them."""
        if self.present:
            self.forget_pending()
            for fake in fakes:
                for memo in MEMOS if isinstance(fake, FakeTensor) else ():
                    setattr(fake, memo, None)

    # Numbers.

    def bind(self, node: fx.Node, bindings: dict[Any, Any] | None) -> None:
        """Note a new node whose result defines these symbols."""
        if not bindings:
            return
        node.meta["unbacked_bindings"] = bindings
        if node not in self._made_by:
            self._made_by[node] = self._place()
        expression, lineno = self._made_by[node]
        for symbol, path in bindings.items():
            is_a_size = len(path) > 1 and str(path[-2]) == ".size()"
            self._expressions[symbol] = f"{expression}.size({path[-1].idx})" if is_a_size else expression, lineno

    def bind_again(self, node: fx.Node) -> None:
        """Update the symbols of a node that was run again on new fakes."""
        node.meta.pop("unbacked_bindings", None)
        if self._is_pending():
            self.bind(node, symbolic_shapes.compute_unbacked_bindings(self._env, node.meta["example_value"]))
        value = node.meta["example_value"]
        if node in self._given_by and is_unbacked(value):
            self._numbers[value.node.expr] = self._given_by[node]

    def known(self, sym: Any) -> Datum | None:
        """The program's number that is the same, among those that nodes give."""
        return self._known_number(sym.node.expr)

    def _known_number(self, symbol: sympy.Basic) -> Datum | None:
        """The number that a node of the graphs under construction gives for a symbol; None if there is none."""
        number = self._numbers.get(symbol)
        return number if number is not None and any(number.node.graph is body.fx for body in self._state.bodies()) else None

    def number(self, sym: Any, node: fx.Node) -> Datum:
        """The Object of a number that a node computes."""
        made = Datum(CLASSES[type(sym)], node, *self._place())
        self._numbers[sym.node.expr] = self._given_by[node] = made
        self._state.vm.trail.learned(self, self._numbers.pop, sym.node.expr)
        return made

    def value(self, number: UnbackedNumber) -> Any:
        """The value of a number that follows from the checks in the graph, or from the range of what it draws; None if it doesn't follow."""
        sym = number.sym(self._state.vm)
        if type(sym) not in CLASSES:
            return outcome_of_numbers(self._state, number) if sym is None else sym
        expr = sym.node.expr
        if type(sym) is SymBool:
            return True if is_true(sym) else False if is_false(sym) else None
        return int(expr) if expr.is_Integer else None

    def least(self, number: UnbackedNumber) -> int | None:
        """A lower bound of an int; None if it isn't known."""
        sym = number.sym(self._state.vm)
        bound = self._env.bound_sympy(sym.node.expr).lower if type(sym) is SymInt else None
        return int(bound) if bound is not None and bound.is_Integer else None

    # Checks.

    def may_check(self) -> bool:
        """Return whether the graph can contain a check here that may fail."""
        return self.may_begin() and not self._state.is_inner() and not self._state.has_changed_outside()

    def checks(self, condition: UnbackedNumber, is_sure: bool = False, message: str = CHECK_FAILED) -> bool:
        """Make the graph check a condition, so that the trace may depend on it. Returns False if the check can't be in the graph. If the check fails, the call
        runs uncompiled, so the graph's own error, which has the message, isn't seen. `is_sure`: the condition always holds.
        """
        vm = self._state.vm
        condition = sharper(vm, condition)
        sym = condition.sym(vm)
        if self._state.is_inner() or type(sym) is not SymBool or (not is_sure and self._state.has_changed_outside()):
            return False
        place = vm.place()
        node = condition.in_graph(vm)
        self._state.fakes.changes_with_undoing()
        try:
            with self._state.fakes.running():
                ASSERT(node.meta["example_value"], message)
        except Exception as error:
            vm.unsupported(meaning_of(error, "torch._check"))
        made = self._state.effect_node(ASSERT, (node, message))
        if is_sure:
            return True
        self.checked[made] = place, self.why(condition)
        vm.trail.learned(self, self.checked.pop, made)
        return True

    def settle(self, symbols: Set[sympy.Basic]) -> bool:
        """Make the trace depend on the values of those of these symbols whose data is known, or is expected. Returns whether one has been replaced."""
        found = False
        for symbol in sorted(symbols & self._expressions.keys(), key=str):
            number = self._known_number(symbol) or self._size(symbol)
            equal = None if number is None or self._state.is_inner() else self._known(number)
            is_sure = equal is not None
            if not is_sure and number is not None:
                equal = self._expected(number)
            if equal is not None:
                assert number is not None
                is_checked = self.checks(Computed(bool, "==", (number, equal)), is_sure)
                found = (is_checked and not free_unbacked_symbols(self._env.replace(symbol))) or found
        return found

    def _needs_expected(self) -> bool:
        """Return whether the operator that has run assumes something of a size that is expected to have one value. Then it must run again, after the check."""
        assumed = {symbol for fact in self._asserted() if id(fact) not in self._facts for symbol in fact.expr.free_symbols}
        self._counts = {node for node in self._made_by if node.target in COUNTS and not assumed.isdisjoint(node.meta.get("unbacked_bindings", ()))}
        self._counts -= self._settled
        return bool(self._counts)

    def _expected(self, number: Datum) -> Object | None:
        """The int that a size equals unless data is out of the range that the program expects: `minlength` of bincount; None for other numbers."""
        node = number.node.args[0] if number.node.target == "size" else None
        if not isinstance(node, fx.Node) or node.target not in COUNTS:
            return None
        given = dict(zip(("input", "weights", "minlength"), node.args)) | node.kwargs
        least = given.get("minlength", 0)
        if isinstance(least, fx.Node):
            return Datum(int, least, *self._place())
        return NumberObject(least) if type(least) is int and least > 0 else None

    def _known(self, number: Datum) -> Object | None:
        """The int that a number is known to be equal to: its value, one from outside that varies, or the bound of a slice; None if none is known."""
        known = self._state.vm.graph.known
        symbolic = known.symbolic(number)
        if symbolic is not None:
            return symbolic
        value = known.number(number)
        return NumberObject(value) if type(value) is int else self._bound(number)

    def _bound(self, number: Datum) -> Object | None:
        """The int that a size is equal to, of a slice `x[:n]` with a bound that is known, or one from outside; None for other numbers."""
        node, *dim = number.node.args if number.node.target == "size" else (None,)
        if not isinstance(node, fx.Node) or node.target is not operator.getitem or not isinstance(node.args[0], fx.Node):
            return None
        parts = parts_of(node.args[1])
        part, sliced = parts[dim[0]] if all(type(part) is slice for part in parts) and dim[0] < len(parts) else None, node.args[0].meta["example_value"]
        if part is None or part.start is not None or part.step is not None or not isinstance(part.stop, fx.Node) or is_unbacked(sliced.shape[dim[0]]):
            return None
        bound, size = part.stop.meta["example_value"].node.expr, sympy.sympify(sliced.shape[dim[0]])
        self.settle(free_unbacked_symbols(bound))
        if free_unbacked_symbols(self._env.replace(bound)) or not self._holds(sympy.Ge(bound, 0)) or not self._holds(sympy.Le(bound, size)):
            return None
        self._slices.add(node)
        return Datum(int, part.stop, *self._place())

    def settled(self, number: UnbackedNumber) -> Any:
        """The value of an int, or a bool, that is computed from numbers which are known, or which are as good as from outside; None if it isn't known."""
        sym = number.sym(self._state.vm)
        if type(sym) not in (SymInt, SymBool) or not self.settle(free_unbacked_symbols(sym)):
            return None
        value = self.value(number)
        expr = self._env.replace(sym.node.expr)
        return bool(self._env.create_symboolnode(expr)) if value is None and type(sym) is SymBool and not free_unbacked_symbols(expr) else value

    def settles(self, error: Exception, fakes: Sequence[torch.Tensor], args: Any) -> bool:
        """Return whether an operator that has failed on fakes may succeed now, because the trace now depends on the values of numbers that it needs."""
        if not self.present:
            return False
        self.forget_pending()
        if isinstance(error, need_data()):
            return self.settle(error.cond.free_symbols)
        used = (*numbers_in(args), *(size for fake in fakes for size in fake.shape))
        return self.settle({symbol for number in used for symbol in free_unbacked_symbols(number)})

    def _size(self, symbol: sympy.Basic) -> Datum | None:
        """The size of an operator's result that a symbol stands for; None if it stands for something else."""
        for node in self._made_by:
            path = node.meta.get("unbacked_bindings", {}).get(symbol, ())
            obj = self._state.object_of(pytree.key_get(node.meta["example_value"], path[:-2])) if len(path) > 1 and str(path[-2]) == ".size()" else None
            if obj is not None:
                number = self._state.vm.graph.size(obj, path[-1].idx)
                return number if isinstance(number, Datum) else None
        return None

    # Reports.

    def ask(self, number: UnbackedNumber) -> NoReturn:
        """Break the trace, because the program needs the value of a number. A random number is then drawn by native code."""
        self._stop(self.why(number), number.leaf())

    def _stop(self, reason: breaks.Break, number: LeafNumber) -> NoReturn:
        """Break the trace because of a number: here, or where the number is drawn."""
        draw = next((draw for find in DRAWS if (draw := find(number.node))), None) if isinstance(number, Datum) else None
        if draw is not None:
            place = self._state.instruction_of(draw)
            assert place is not None
            self._state.vm.restart(place, breaks.Random(f"`{number.text}`, of which `{self._place()[0]}` needs the value"))
        self._state.vm.unsupported(reason)

    def why(self, number: UnbackedNumber) -> breaks.Break:
        """The break reason for a number of which the program needs the value."""
        is_a_condition = number.cls is bool and number.leaf().cls is not float
        return number.leaf().why(f"`{self._place()[0]}`", number.text if is_a_condition else "")

    def _need(self, condition: sympy.Basic) -> None:
        """The next operator needs the value of a condition, or of a number: stop the trace if it isn't known."""
        if not self.settle(condition.free_symbols) or free_unbacked_symbols(self._env.replace(condition)):
            self._break_graph(condition)

    def _break_graph(self, condition: sympy.Basic) -> NoReturn:
        self.forget_pending()
        reason = self.reason(condition)
        for number in filter(None, map(self._known_number, condition.free_symbols)):
            self._stop(reason, number)
        self._state.vm.unsupported(reason)

    def _place(self) -> tuple[str, int]:
        """The expression that the program is evaluating, and its line."""
        frame = self._state.vm.user_stack()[-1]
        return frame.expression or "...", frame.lineno

    def reason(self, condition: sympy.Basic) -> breaks.Break:
        """The break reason for a condition, or a number, that the trace would have to know."""
        symbols = sorted(condition.free_symbols & self._expressions.keys(), key=str)
        place = self._place()
        expression, lineno = self._expressions[symbols[0]] if symbols else place
        texts = {self._text(part) for part in condition.args}
        is_a_condition = isinstance(condition, sympy.logic.boolalg.Boolean) and len(texts) == len(condition.args)  # items of one list have the same text
        number = self._numbers.get(symbols[0]) if symbols else None
        device = "" if number is None else number.device
        return breaks.UnknownNumber(f"`{place[0]}`", expression, lineno, self._text(condition) if is_a_condition else "", device)

    def _text(self, condition: sympy.Basic) -> str:
        """An expression as text, with the program's names for numbers."""
        if isinstance(condition, sympy.core.relational.Relational):
            text = f"{condition.lhs} {condition.rel_op} {condition.rhs}"
        else:
            text = str(condition)
        return re.sub(r"\b[a-z]+\d+\b", lambda found: self._expressions.get(sympy.Symbol(found[0], integer=True), (found[0], 0))[0], text)


def is_unbacked(value: Any) -> bool:
    """Return whether a value is a SymInt, SymFloat or SymBool that depends on data."""
    return type(value) in CLASSES and bool(free_unbacked_symbols(value))


def is_in_range(tensor: torch.Tensor, dim: Any, index: Any) -> bool:
    """Return whether it is known that a tensor has an item with this index. Inductor doesn't check."""
    size = tensor.shape[dim] if type(dim) is int else 0
    return is_true(index >= -size) and is_true(index < size)


def is_of_result(fact: Any, made: Set[Any]) -> bool:
    """Return whether a fact only bounds the numbers that an operator has made. It is true for all arguments."""
    return bool(fact.free_symbols <= made) or (isinstance(fact, (sympy.Le, sympy.Ge)) and not made.isdisjoint(fact.args))


def is_size(fact: sympy.Basic, given: Sequence[sympy.Expr]) -> bool:
    """Return whether a fact says that a number, or an argument of an operator, isn't negative: operators on sizes state that by themselves."""
    if not isinstance(fact, (sympy.Le, sympy.Ge)):
        return False
    left, right = fact.args if isinstance(fact, sympy.Ge) else fact.args[::-1]
    return (0 in fact.args and any(part.is_Symbol for part in fact.args)) or left - right in given


def numbers_in(args: Any) -> Iterator[Any]:
    """The symbolic numbers among arguments."""
    if type(args) in CLASSES:
        yield args
    elif isinstance(args, (tuple, list)):
        for item in args:
            yield from numbers_in(item)
    elif type(args) is slice:
        yield from numbers_in((args.start, args.stop, args.step))
    elif isinstance(args, dict):
        yield from numbers_in(list(args.values()))


def parts_of(key: Any) -> Sequence[Any]:
    """The parts of an index into a tensor."""
    return key if isinstance(key, tuple) else [key]


def is_squeeze_elsewhere(fake: torch.Tensor, dim: int, args: Any) -> bool:
    """Return whether `squeeze` is called for one dimension, and that isn't `dim`."""
    return len(args) == 2 and type(args[1]) is int and args[1] % fake.dim() != dim


def is_view_of(result: Any, base: torch.Tensor) -> bool:
    """Return whether two fakes share their memory."""
    return isinstance(result, torch.Tensor) and result.untyped_storage()._cdata == base.untyped_storage()._cdata
