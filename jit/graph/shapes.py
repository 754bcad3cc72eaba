"""The symbolic sizes and numbers of one trace, the nodes that compute them, and what the trace has assumed about them.

The symbols are in torch's ShapeEnv, since fake tensors and Inductor use it. Each symbol is read from the call in one place, its origin, which is a size,
stride or storage offset of an input, or an int. Every other symbolic property of an input is guarded to be what the symbols say.

Nothing is undone here when instructions are undone: the ShapeEnv remembers all answers and may have used them to simplify, so all of them are guarded.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import SymFloat, SymInt, fx

from framejit.errors import ConstraintViolation
from framejit.graph.cast_views import is_cast_in_parts
from framejit.graph.inputs import GraphInput, identifier, is_static
from framejit.graph.number_formulas import NumberFormulas
from framejit.graph.torch_sources import InputSource
from framejit.graph.trace_state import TraceState
from framejit.guards.dynamic import ANY, NO_SIZES, NONE, STATIC, Dynamic, Sizes
from framejit.guards.shapes import STEPS, ShapesHold
from framejit.guards.source import Call, CAttr, InstanceDict, Item, Source, UserLine
from framejit.guards.tensor_source import TensorOffset, TensorSize, TensorStride
from framejit.objects.core.object import Object
from framejit.objects.numbers.numberobject import OPERATIONS, DeferredNumber, NumberObject
from framejit.objects.tensors.tensorkind import kind_of_class
from framejit.objects.types.constobject import ConstObject
from framejit.process.when_needed import when_needed
from framejit.quick_dataclass import dataclass
from framejit.torch_state.symbols import free_unbacked_symbols, symbolic_shapes, sympy, sympy_functions, sympy_numbers, value_ranges

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import StatefulSymbolicContext, StrictMinMaxConstraint, SubclassSymbolicContext

    from framejit.graph.shape_env import TraceShapeEnv
    from framejit.guards import shape_program
else:
    shape_program = when_needed("framejit.guards.shape_program")

Fact = tuple[Any, UserLine | None]
"""An expression that has to be true, and the program's line that it is needed for, if that is known."""
LARGEST = 2**63
"""Ints of this size and above don't become symbols: neither guards nor kernels compute with such ints."""
LARGEST_IN_GRAPHS = 2**62
"""The largest int that compiled code may compute from ints from outside. A limit of 2**63 - 1 would be left out of the guard's program, as true of all ints
there; this one stays, and the program, which is exact, fails on whatever doesn't fit 64 bits."""
FUNCTIONS = frozenset({
    "math.exp", "math.log", "math.log2", "math.log10", "math.log1p", "math.tanh", "math.sin", "math.cos", "round", "abs", "sum",
})  # fmt: skip
"""Functions that are computed in Python only, since sympy's are exact."""
FLOAT_OPERATIONS = frozenset({"+", "-", "*", "/", "//", "%", "**", "float", "max", "min", "math.sqrt"}) | FUNCTIONS
"""The operations on symbolic floats that can be deferred. Earlier guards ensure that they don't fail."""
NOT_AS_IN_SYMPY = frozenset({"**", "max", "min"})
"""Operations on floats that sympy computes differently from Python."""
MOST_COMPARED = 16
"""So many numbers of a call that aren't seen to vary get symbols for comparisons. A long list of them is cheaper to guard by value."""
SYMBOLIC: dict[str, Callable[..., Any]] = {
    "max": torch.sym_max, "min": torch.sym_min, "float": torch.sym_float, "int": torch.sym_int, "math.sqrt": torch._sym_sqrt,
}  # fmt: skip
"""The operations for which torch has functions on SymInts: Python's would ask for their values."""

SIZES: list[Callable[[TraceState, SymInt], Object | None]] = []
"""Functions of subjects, which know symbolic sizes that stand for no symbol of the ShapeEnv."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """A condition on the symbols that the trace has assumed to be true. `line`: the program's line that needed it."""

    expr: sympy.Basic
    line: UserLine | None


class Shapes:
    """The symbolic sizes and numbers of one trace; see the module's docstring.

    `dynamic`: which sizes and numbers are symbolic. `takes_unbacked`: sizes may be symbols about which nothing is known.
    """

    def __init__(self, state: TraceState) -> None:
        self.dynamic = state.dynamic
        self.takes_unbacked = state.demands.takes_unbacked
        self.origins: dict[sympy.Symbol, NumberObject] = {}
        """The number that each symbol stands for, with the place where it is read from the call."""
        self.properties: dict[Source, sympy.Expr] = {}
        """The symbolic properties of inputs, and the ints and floats from outside, each as an expression in symbols."""
        self.lines: list[UserLine | None] = []
        """The program's lines that the guards of the ShapeEnv come from, as far as they have been noted."""
        self._state = state
        self._contexts: dict[int, tuple[torch.Tensor, StatefulSymbolicContext | None]] = {}
        self._ints: dict[Source, SymInt] = {}
        self._compared: set[Source] = set()
        self._declared: dict[Source, None] = {}
        self._floats: dict[fx.Node, NumberObject] = {}
        self._free: set[sympy.Symbol] = set()
        self.by_formulas = NumberFormulas(self._leaf, lambda: self.env)
        self._small: dict[sympy.Basic, UserLine | None] = {}
        self._names: dict[str, int] = {}
        self._named: dict[str, SymInt] = {}

    def dispose(self) -> None:
        """Release everything: the formulas of numbers refer back to this object."""
        self.__dict__.clear()

    @property
    def env(self) -> TraceShapeEnv:
        """The ShapeEnv, which is made when it is first needed."""
        return self._state.fakes.symbols()

    def may_be_constants(self) -> bool:
        """Return whether something is symbolic, but nothing because the program has declared it to be."""
        return bool(self.properties) and not self._declared

    # Inputs.

    def context_of(self, source: Source, tensor: torch.Tensor) -> StatefulSymbolicContext | None:
        """Return the context for making the fake of an input that no module holds; None if all its sizes are constants."""
        known = self._contexts.get(id(tensor))
        if known is None:
            dimensions, declared = self.dynamic.dimensions(source, tensor), self.dynamic.declared(tensor)
            for dim, size in declared.items():
                if not size.allows(tensor.size(dim)):
                    raise ConstraintViolation(f"{source.name_in_reports()}.size({dim}) is {tensor.size(dim)}; it was declared to be {size.describe()}")
            unbacked = self.dynamic.unbacked(tensor) if self.takes_unbacked else frozenset()
            context = symbolic_context(self._name(source), tensor, dimensions, declared, self.dynamic, unbacked) if dimensions else None
            self._declared |= {source.child(TensorSize, dim): None for dim in declared if self.dynamic.limits.allows(tensor.size(dim))}
            known = self._contexts[id(tensor)] = tensor, context
        return known[1]

    def context_of_wrapper(self, source: Source, wrapper: torch.Tensor) -> SubclassSymbolicContext | None:
        """Return the context for making the fake of a tensor that wraps others; None if all its and their sizes are constants, as for wrappers of wrappers."""
        parts = {name: getattr(wrapper, name) for name in wrapper.__tensor_flatten__()[0]}  # type: ignore[attr-defined]
        if is_static(source, wrapper) or any(name not in wrapper.__dict__ or kind_of_class(type(part)).wraps for name, part in parts.items()):
            return None
        namespace = source.child(InstanceDict)
        inner = {name: self.context_of(namespace.child(Item, name), part) for name, part in parts.items()}
        outer = self.context_of(source, wrapper)
        if outer is None and not any(inner.values()):
            return None
        inner = {name: found or self._fixed(namespace.child(Item, name), parts[name]) for name, found in inner.items()}
        outer = outer or self._fixed(source, wrapper)
        fields = {field.name: getattr(outer, field.name) for field in dataclasses.fields(outer) if field.init}
        return symbolic_shapes.SubclassSymbolicContext(**fields, inner_contexts=inner)

    def context_of_part(self, source: Source, part: torch.Tensor, dimensions: frozenset[int]) -> StatefulSymbolicContext:
        """Return the context for making the fake of a part of a nested tensor: these dimensions vary, and others may, unless its sizes are to be constants."""
        if id(part) not in self._contexts and not is_static(source, part):
            own = NONE if self.dynamic.fixed else self.dynamic.dimensions(source, part) | dimensions
            context = symbolic_context(self._name(source), part, own, dict.fromkeys(dimensions, ANY), self.dynamic) if own else None
            self._contexts[id(part)] = part, context
        known = self._contexts.get(id(part))
        return (known and known[1]) or self._fixed(source, part)

    def _fixed(self, source: Source, tensor: torch.Tensor) -> StatefulSymbolicContext:
        """The context with which a fake gets no symbolic sizes."""
        return symbolic_context(self._name(source), tensor, NONE, NO_SIZES, STATIC, NONE)

    def _name(self, source: Source) -> str:
        """A unique name for a source, which distinguishes its symbols from others."""
        name = source.describe()
        count = self._names[name] = self._names.get(name, -1) + 1
        return f"{name}#{count}" if count else name

    def note_input(self, source: Source, tensor: torch.Tensor, fake: torch.Tensor) -> None:
        """For an input that has become a fake with symbolic sizes, note where its symbols are read, and its properties in terms of other inputs' symbols."""
        for dim in range(fake.dim()):
            self._note(source.child(TensorSize, dim), fake.size(dim), tensor.size(dim))
        for dim, size in self.dynamic.declared(tensor).items():
            sym = fake.size(dim)
            if size.name and type(sym) is SymInt and self._named.setdefault(size.name, sym) is not sym:
                self.decide(operator.eq, self._named[size.name], sym)
        for dim in range(fake.dim()):
            self._note(source.child(TensorStride, dim), fake.stride(dim), tensor.stride(dim))
        self._note(source.child(TensorOffset), fake.storage_offset(), tensor.storage_offset())

    def note_wrapper(self, source: Source, wrapper: torch.Tensor, context: SubclassSymbolicContext) -> None:
        """Note the symbols of a wrapper's own sizes. They are separate from those of the tensors that it wraps, with which its fake is made."""
        assert context.tensor_source is not None
        made = context.shape_env_to_source_to_symbol_cache.get(id(self.env), {})
        for dim in range(wrapper.dim()):
            symbol = made.get(f"{context.tensor_source.name}.size()[{dim}]")
            if isinstance(symbol, sympy.Symbol):
                self._note(source.child(TensorSize, dim), self.env.create_symintnode(symbol, hint=wrapper.size(dim)), wrapper.size(dim))

    def _note(self, source: Source, sym: Any, value: int) -> None:
        if type(sym) is not SymInt:
            return
        expr = self.properties.setdefault(source, sym.node._expr)
        if isinstance(expr, sympy.Symbol) and expr not in self.origins and not free_unbacked_symbols(sym):
            self.origins[expr] = NumberObject(value, source, pending=True, sym=sym)

    def make_symbolic(self, number: NumberObject) -> None:
        """Give a number from outside a symbol, if it should have one."""
        source, value = number.source, number.value
        assert source is not None
        if self.dynamic.has_number(source, value) and self.give_symbol(number) and type(value) is int:
            self._state.fakes.symbolic = True

    def make_comparable(self, number: NumberObject) -> bool:
        """Give a symbol to an Object that stands for a number from outside in comparisons. False if these have to fix the number."""
        source = number.source
        if source is None or not self.dynamic.may_compare(source, number.value):
            return False
        if source not in self._compared and len(self._compared) >= MOST_COMPARED:
            return False
        self._compared.add(source)
        return self.give_symbol(number)

    def number_of_flag(self, flag: ConstObject) -> NumberObject | None:
        """A bool from outside that has been seen to vary, as an int with a symbol. None for other bools."""
        source = flag.source
        if source is None or not flag.pending or not self.dynamic.has_number(source, int(flag.value)):
            return None
        number = NumberObject(int(flag.value), source.child(CAttr, "real"), pending=True)
        return number if self.give_symbol(number) else None

    def give_symbol(self, number: NumberObject) -> bool:
        """Give a number from outside a symbol; False if it is too large, or nan."""
        source = number.source
        assert source is not None
        if not -LARGEST < number.value < LARGEST - 1:  # symbols whose value is an end of their range are replaced by it
            return False
        if number.cls is float:
            self._state.trail.fill(number, "sym", self._free_float())
            return True
        sym = self._ints.get(source)
        if sym is None:
            made = self.env.create_unspecified_symint_and_symbol(number.value, InputSource(self._name(source)), symbolic_shapes.DimDynamic.DYNAMIC)
            assert type(made) is SymInt
            sym = self._ints[source] = made
            self.properties[source] = made.node._expr
        self.origins[sym.node._expr] = number
        self._state.trail.fill(number, "sym", sym)
        return True

    # Numbers.

    def number(self, value: Any) -> Object:
        """The number that an operator has returned as a SymInt, in terms of the call's sizes and numbers."""
        for of_subject in SIZES:
            if (found := of_subject(self._state, value)) is not None:
                return found
        expr = value.node.expr
        if expr.is_number:
            return NumberObject(int(expr))
        try:
            return self._of_expr(expr)
        except KeyError:
            return NumberObject(int(value))  # if it can't be written in Python, its value is guarded

    def _of_expr(self, expr: sympy.Expr) -> NumberObject:
        """The number for an expression. Raises KeyError if it has a function that Python's ints don't have."""
        if isinstance(expr, sympy.Symbol):
            return self.origins[expr]
        if expr.is_Integer:
            return NumberObject(int(expr))
        if isinstance(expr, (sympy.Pow, sympy_functions.PowByNatural)) and expr.args[1].is_Integer and expr.args[1] > 0:
            return computed_number("**", [self._of_expr(expr.args[0]), NumberObject(int(expr.args[1]))])
        operation = operators()[type(expr)]
        found, *others = [self._of_expr(part) for part in expr.args]
        for other in others:
            found = computed_number(operation, [found, other])
        return found

    def computed(self, operation: str, parts: Sequence[Any], value: float) -> SymInt | SymFloat | None:
        """The symbolic result of an operation on symbolic and known numbers; None if it isn't what Python computes."""
        if operation == "**" and type(value) is int and type(parts[-1]) is SymInt:
            return None
        if operation == "**" and type(value) is not int and is_known_negative(parts[0]):  # torch.SymFloat.__pow__ raises
            return None
        if any(type(part) is SymFloat and not part.node.has_hint() for part in parts):
            return self._free_float() if operation in FLOAT_OPERATIONS and type(value) is float else None
        is_of_float = type(parts[0]) in (float, SymFloat) if operation in NOT_AS_IN_SYMPY else operation in ("//", "%") and type(value) is float
        if operation in FUNCTIONS or is_of_float:
            return self._free_float() if self.dynamic.floats and type(value) is float else None
        sym = self._noting(function_of(operation), *parts)
        if type(sym) is not (SymInt if type(value) is int else SymFloat):
            return None
        return sym if sym.node.has_hint() and sym.node.hint == value else None

    def _free_float(self) -> SymFloat:
        """A SymFloat about which torch knows nothing."""
        sym = self.env.create_unbacked_symfloat()
        self.env.pending_fresh_unbacked_symbols.remove(sym.node._expr)  # no node of the graph has to define it: it is an input, or computed from inputs
        self._free.add(sym.node._expr)
        return sym

    def is_free_float(self, value: Any) -> bool:
        """Return whether a value is the SymFloat of a float from outside, or of one that is computed from such floats."""
        return type(value) is SymFloat and value.node._expr in self._free

    def _leaf(self, number: NumberObject) -> Any:
        """The sympy expression of a symbolic int, or the symbol of a float from outside; None for other numbers."""
        if number.cls is int:
            sym = number.symbolic(self._state.vm)
            return None if sym is None else sym.node._expr
        if not number.is_float_input(self._state.vm):
            return None
        assert number.source is not None
        return self.properties.setdefault(number.source, sympy.Symbol(f"float{len(self.properties)}", real=True))

    def by_formula(self, number: NumberObject) -> SymInt | None:
        """The SymInt of an int that torch can't compute, but guards can; None if they can't."""
        sym = self.by_formulas.int_of(number, LARGEST_IN_GRAPHS, self._state.vm.user_line())
        if sym is not None:
            self.origins[sym.node._expr] = number
        return sym

    def is_computed(self, number: NumberObject) -> bool:
        """Return whether guards can compute a float, which is then guarded not to fail, and to be finite."""
        return self.by_formulas.is_computed(number, self._state.vm.user_line())

    def decide_floats(self, relation: str, left: NumberObject, right: NumberObject) -> bool | None:
        """Return whether a relation holds between two numbers, one of which is a float. The answer is guarded. None if guards can't compute a number, or if
        one is nan."""
        return self.by_formulas.decide(relation, left, right, self._state.vm.user_line())

    def decide_float(self, relation: str, number: NumberObject, other: float) -> bool:
        """Return whether a relation holds between a symbolic float from outside, which is never nan, and a known one. The answer is guarded."""
        holds = self.decide_floats(relation, number, NumberObject(other))
        assert holds is not None
        return holds

    def decide(self, relation: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
        """Return whether a relation holds between SymInts or ints. The answer is guarded."""
        return bool(self._noting(lambda: bool(relation(left, right))))

    def _noting(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        finally:
            self.note_lines()

    def note_lines(self) -> None:
        """Note the program's current line for all guards that the ShapeEnv has made since the last time."""
        if self._state.fakes.shape_env is None:
            return
        missing = len(self.env.guards) - len(self.lines)
        if missing:
            self.lines += [self._state.vm.user_line()] * missing

    # Nodes.

    def node_of(self, number: NumberObject) -> fx.Node:
        """The node of the outermost graph that gives a symbolic number: a placeholder, or arithmetic on placeholders."""
        if number.node is None:
            if type(number) is DeferredNumber:
                node = self._state.number_node(function_of(number.operation), number.operands, number.sym)
                self._keep_small(number)
            else:
                node = self.placeholder(number)
            self._state.trail.fill(number, "node", node)
            if number.cls is float:
                self._floats[node] = number
        assert number.node is not None
        return number.node

    def has_floats(self) -> bool:
        """Return whether floats are inputs of the graph."""
        return bool(self._floats)

    def _keep_small(self, number: DeferredNumber) -> None:
        """Guard that a result computed from ints from outside fits 64 bits in compiled code: if it doesn't, the arithmetic of guards fails too."""
        if number.cls is int and self._state.demands.lifts_symbols and number.sym is not None:
            self._bound(number.sym.node.expr)

    def _bound(self, expr: sympy.Expr) -> None:
        if any(type(self.origins[symbol].source) not in STEPS.values() for symbol in expr.free_symbols & self.origins.keys()):
            self._small.setdefault(sympy.Le(expr, LARGEST_IN_GRAPHS, evaluate=False), self._state.vm.user_line())

    def keeps_small(self, number: NumberObject) -> bool:
        """Return whether a symbolic int fits 64 bits, which is then guarded."""
        sym = number.symbolic(self._state.vm)
        if sym is None or abs(number.value) > LARGEST_IN_GRAPHS:
            return False
        self._bound(sym.node.expr)
        return True

    def fits(self, number: NumberObject) -> bool:
        """Return whether compiled code computes a symbolic number, and what it is computed from, without leaving 64 bits."""
        parts = number.operands if type(number) is DeferredNumber else ()
        return number.cls is float or (abs(number.value) <= LARGEST_IN_GRAPHS and all(map(self.fits, parts))) or not self._state.demands.lifts_symbols

    def rest_on_floats(self, args: Iterable[Any]) -> bool:
        """Make the trace depend on the values of the symbolic floats among a node's arguments. Returns whether there are any."""
        nodes: list[fx.Node] = []
        fx.node.map_arg(tuple(args), nodes.append)
        found = [self._floats[node] for node in nodes if node in self._floats]
        for number in found:
            number.constant(self._state.vm)
        return bool(found)

    def placeholder(self, number: NumberObject) -> fx.Node:
        """The placeholder of a symbol, which the graph takes as an int."""
        if number.node is None:
            node = self._input(number)
            self._state.trail.fill(number, "node", node)
        assert number.node is not None
        return number.node

    def _input(self, number: NumberObject) -> fx.Node:
        """A new placeholder for a symbolic number that is read from the call."""
        assert number.source is not None and number.sym is not None
        node = self._state.outermost.placeholder(identifier(number.source.describe()), number.sym)
        self._state.known_inputs[id(number)] = GraphInput(number.source, node, number, number.value)
        self._state.trail.learned(self._state, self._state.known_inputs.pop, id(number))
        return node

    def lift(self, fakes: Iterable[torch.Tensor]) -> set[fx.Node]:
        """Make inputs of the symbols in sizes, strides and offsets of these fakes: AOTAutograd's caches need them to distinguish calls. Returns their nodes."""
        found = set()
        for fake in fakes:
            for sym in (*fake.size(), *fake.stride(), fake.storage_offset()):
                if type(sym) is SymInt:
                    for symbol in sorted(sym.node._expr.free_symbols & self.origins.keys() - self.by_formulas.formulas.keys(), key=str):
                        found.add(self.placeholder(self.origins[symbol]))
        return found

    # What the trace depends on.

    def assumptions(self) -> list[Assumption]:
        """The assumptions of the trace and the backend about numbers."""
        if self._state.fakes.shape_env is None:
            return []
        self.note_lines()
        return [Assumption(guard.expr, line) for guard, line in zip(self.env.guards, self.lines, strict=True) if not self._of_nested(guard.expr)]

    def _of_nested(self, expr: sympy.Basic) -> set[sympy.Symbol]:
        """The symbols of lengths of nested tensors in an expression: guards on the tensors that they stand for cover which of them are equal."""
        return expr.free_symbols & getattr(self.env, "nested", set())

    def _beside_nested(self) -> list[Fact]:
        """The facts to guard about numbers that are compared with lengths of nested tensors: their values in this call."""
        exprs = [self.env.simplify(guard.expr) for guard in self.env.guards]
        mixed = {symbol for expr in exprs if self._of_nested(expr) for symbol in expr.free_symbols & self.origins.keys()}
        return facts_of_values({symbol: self.origins[symbol] for symbol in sorted(mixed, key=str)})

    def guard(self, call: Call) -> ShapesHold | None:
        """The guard that all assumptions hold; None if there is nothing to check. It is complete only after the backend has returned.

        Raises ConstraintViolation if the program has declared a size to be symbolic, and it can't be.
        """
        if not self.properties:
            return None
        self._check_declared()
        equations, reads = self.origins_of_symbols()
        facts = equations + self._bounds()
        lines = {self.env.simplify(assumption.expr): assumption.line for assumption in self.assumptions()}
        facts += [(expr, lines.get(expr)) for expr in self.env.get_nontrivial_guards() if not self._of_nested(expr)]
        facts += self._beside_nested()
        facts += [*self.by_formulas.facts.items(), *self._small.items()]
        formulas = self.by_formulas.formulas
        try:
            guard = shape_program.shapes_hold(facts, reads, formulas)
            if guard is None or guard.check(None, call):
                return guard
        except shape_program.UntranslatableError:
            pass
        # No program can compute the facts, or they aren't even true of this call: only calls with the values of this one are served.
        return shape_program.shapes_hold([*equations, *facts_of_values(self.origins), *self.by_formulas.facts.items()], reads, formulas)

    def _check_declared(self) -> None:
        """Check that whatever the program has declared to be symbolic still is. Raises ConstraintViolation."""
        for source in self._declared:
            expr = self.properties.get(source)
            if expr is None or not self.env.replace(expr).is_number:
                continue
            needed = self._line_of(expr, sympy.Eq)
            where = f"; it is needed here:\n{needed.render()}" if needed is not None else ""
            raise ConstraintViolation(
                f"{source.name_in_reports()} was declared to be symbolic, but the code works for the size {self.env.replace(expr)} only{where}\n"
                "  What to do: change the code, or use maybe_mark_dynamic in the place of mark_dynamic or of shapes=, which asks for nothing"
            )

    def _line_of(self, expr: sympy.Expr, *relations: Any) -> UserLine | None:
        """The last of the program's lines that needed a relation of one of these kinds to hold for symbols of an expression."""
        self.note_lines()
        for guard, line in zip(reversed(self.env.guards), reversed(self.lines), strict=True):
            if isinstance(guard.expr, relations) and guard.expr.free_symbols & expr.free_symbols:
                return line
        return None

    def origins_of_symbols(self) -> tuple[list[Fact], dict[sympy.Symbol, list[Source]]]:
        """The facts that properties of inputs equal expressions in symbols, and the sources that each symbol is read from."""
        facts: list[Fact] = []
        reads: dict[sympy.Symbol, list[Source]] = {}
        for number, (source, expr) in enumerate(self.properties.items()):
            if isinstance(expr, sympy.Symbol):
                reads.setdefault(expr, []).append(source)
            else:
                symbol = sympy.Symbol(f"property{number}", integer=True)
                reads[symbol] = [source]
                facts.append((sympy.Eq(symbol, expr, evaluate=False), None))
        return facts, reads

    def _bounds(self) -> list[Fact]:
        """The facts found about symbols: that they equal other expressions, or lie between bounds."""
        found: list[Fact] = []
        for symbol in self.origins:
            replacement = self.env.replacements.get(symbol)
            if replacement is not None:
                found.append((sympy.Eq(symbol, replacement, evaluate=False), self._line_of(symbol, sympy.Eq)))
            bounds = self.env.var_to_range.get(symbol)
            if bounds is not None:
                if bounds.lower.is_Integer and bounds.lower > -LARGEST:
                    found.append((sympy.Ge(symbol, bounds.lower, evaluate=False), self._line_of(symbol, *inequalities())))
                if bounds.upper.is_Integer and bounds.upper < LARGEST - 1:
                    found.append((sympy.Le(symbol, bounds.upper, evaluate=False), self._line_of(symbol, *inequalities())))
        return found


@functools.cache
def operators() -> dict[Any, str]:
    """For each function of sympy, the operation on Python's ints that it computes."""
    ours = sympy_functions
    return {
        sympy.Add: "+", sympy.Mul: "*", ours.FloorDiv: "//", ours.CleanDiv: "//", ours.Mod: "%", ours.PythonMod: "%",
        ours.Max: "max", ours.Min: "min", sympy.Max: "max", sympy.Min: "min",
    }  # fmt: skip


def inequalities() -> tuple[Any, ...]:
    """sympy's relations that bound a number."""
    return sympy.Le, sympy.Lt, sympy.Ge, sympy.Gt, sympy.Ne


def facts_of_values(origins: Mapping[sympy.Symbol, NumberObject]) -> list[Fact]:
    """The facts that each symbol has the value that it has in this call."""
    return [(sympy.Eq(symbol, sympy.Integer(number.value), evaluate=False), None) for symbol, number in origins.items()]


def function_of(operation: str) -> Callable[..., Any]:
    """The function that computes an operation on SymInts and ints."""
    return SYMBOLIC.get(operation) or OPERATIONS[operation]


def computed_number(operation: str, operands: Sequence[NumberObject]) -> NumberObject:
    """Arithmetic on numbers of which at least one is symbolic, or all are known."""
    value = OPERATIONS[operation](*[operand.value for operand in operands])
    if not any(operand.pending for operand in operands):
        return NumberObject(value)
    return DeferredNumber(operation, tuple(operands), value)


def is_known_negative(number: Any) -> bool:
    """Return whether a number is negative: in the call that is traced, if it is symbolic."""
    if type(number) in (SymInt, SymFloat):
        return number.node.has_hint() and bool(number.node.hint < 0)
    return bool(number < 0)


def symbolic_context(name: str, tensor: torch.Tensor, dimensions: frozenset[int], declared: Sizes, dynamic: Dynamic, unbacked: frozenset[int] = NONE
) -> StatefulSymbolicContext:
    """The context with which a fake gets symbolic sizes in these dimensions.

    With `dynamic=True`, sizes that are equal in this call share a symbol, except those that were declared: most of them are equal in every call. Otherwise each
    has its own symbol: if a size varies, it means little that it equals another one now.

    `declared`: what was declared about the sizes of some dimensions. `unbacked`: the dimensions about whose sizes nothing may be assumed.
    """
    limits = dynamic.limits
    kinds: Any = symbolic_shapes.DimDynamic
    sizes = [kinds.STATIC] * tensor.dim()
    constraints: list[StrictMinMaxConstraint | None] = [None] * tensor.dim()
    for dim in dimensions:
        sizes[dim] = kinds.UNBACKED if dim in unbacked else kinds.DUCK if dynamic.all and dim not in declared else kinds.DYNAMIC
    for dim in dimensions:
        size = declared.get(dim, ANY)
        least, most = max(2, size.min or 0, limits.min or 0), min((bound for bound in (size.max, limits.max) if bound is not None), default=None)
        if (least > 2 or most is not None) and tensor.size(dim) > 1:
            bounds = value_ranges.ValueRanges(least, sympy_numbers.int_oo if most is None else most)
            constraints[dim] = symbolic_shapes.StrictMinMaxConstraint(warn_only=False, vr=bounds)
    base = tensor._base if tensor._is_view() and not is_cast_in_parts(tensor) else None
    return symbolic_shapes.StatefulSymbolicContext(
        dynamic_sizes=sizes,
        dynamic_strides=[kinds.INFER_STRIDE] * len(sizes),
        constraint_sizes=constraints,  # type: ignore[arg-type]
        constraint_strides=[None] * len(sizes),
        view_base_context=None if base is None else symbolic_context(f"{name}._base", base, NONE, NO_SIZES, STATIC),
        tensor_source=InputSource(name),
        shape_env_to_source_to_symbol_cache={},
    )
