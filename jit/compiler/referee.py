"""FRAMEJIT_CHECK=shapes: proves that the guard on sizes and numbers implies everything that a trace has assumed about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framejit.graph.shapes import Shapes
from framejit.guards.shapes import ShapesHold
from framejit.guards.tensor_source import TENSOR_NUMBERS
from framejit.process.when_needed import when_needed
from framejit.torch_state.symbols import sympy

if TYPE_CHECKING:
    from framejit.guards import prove, shape_program
else:
    prove = when_needed("framejit.guards.prove")
    shape_program = when_needed("framejit.guards.shape_program")

SECONDS = 5.0
"""The time that z3 gets for one entry. Assumptions that it can't decide in this time are accepted."""


def referee(guard: ShapesHold | None, shapes: Shapes) -> None:
    """Make z3 prove that the trace's assumptions are true whenever the guard holds.

    Raises GuardsTooWeak, with an assumption, the program's line, and numbers for which the assumption is false.
    """
    facts, reads = shapes.origins_of_symbols()
    symbols = {source: symbol for symbol, sources in reads.items() for source in sources[:1]}
    names = {symbol.name: source.name_in_reports() for source, symbol in symbols.items()}
    assumed = [(fact, line, str(fact)) for fact, line in facts] + [(known.expr, known.line, str(known.expr)) for known in shapes.assumptions()]
    programs = [] if guard is None else [(guard.program, [symbols.get(source) or sympy.Dummy(integer=True) for source in guard.inputs()])]
    for symbol, formula in shapes.by_formulas.formulas.items():
        stand_in = sympy.Dummy(integer=symbol.is_integer, real=True)
        program, inputs = shape_program.compile_shapes([sympy.Eq(symbol, stand_in, evaluate=False)], formulas={stand_in: formula})
        programs.append((program, list(inputs)))
    sizes = {symbol: (0, None) for source, symbol in symbols.items() if isinstance(source, TENSOR_NUMBERS)}
    prove.prove([], assumed, sizes, SECONDS, names, programs).require()
