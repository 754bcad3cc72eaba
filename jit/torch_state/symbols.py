"""The modules of symbolic sizes: sympy, and torch's around it. They are imported once something may be symbolic, since that takes longer than a small trace.

    symbols.free_unbacked_symbols(size)         # imports nothing for a number of Python: without those modules, nothing is symbolic
    symbols.symbolic_shapes.DimDynamic.STATIC   # imports torch's module, and sympy
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framejit.process.when_needed import is_loaded, when_needed

SHAPES = "torch.fx.experimental.symbolic_shapes"
"""torch's module of the ShapeEnv. No symbol is made before it is imported."""

if TYPE_CHECKING:
    import sympy as sympy
    from torch.fx.experimental import symbolic_shapes as symbolic_shapes
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
    from torch.utils._sympy import functions as sympy_functions
    from torch.utils._sympy import interp as interp
    from torch.utils._sympy import numbers as sympy_numbers
    from torch.utils._sympy import reference as reference
    from torch.utils._sympy import value_ranges as value_ranges
else:
    sympy = when_needed("sympy")
    symbolic_shapes = when_needed("torch.fx.experimental.symbolic_shapes")
    sympy_functions = when_needed("torch.utils._sympy.functions")
    interp = when_needed("torch.utils._sympy.interp")
    sympy_numbers = when_needed("torch.utils._sympy.numbers")
    reference = when_needed("torch.utils._sympy.reference")
    value_ranges = when_needed("torch.utils._sympy.value_ranges")


def may_exist() -> bool:
    """Return whether a symbol may exist in this process."""
    return is_loaded(SHAPES)


def free_unbacked_symbols(value: Any) -> set[sympy.Symbol]:
    """The symbols in a value, an expression, a number, a fake tensor or a sequence of them, whose numbers aren't known before the graph runs."""
    return symbolic_shapes.free_unbacked_symbols(value) if may_exist() else set()


def is_true(fact: Any) -> bool:
    """Return whether a bool or a SymBool is true whatever numbers the symbols stand for. Assumes nothing."""
    return fact if type(fact) is bool else symbolic_shapes.statically_known_true(fact)


def is_false(fact: Any) -> bool:
    """Return whether a bool or a SymBool is false whatever numbers the symbols stand for. Assumes nothing."""
    return not fact if type(fact) is bool else symbolic_shapes.statically_known_false(fact)


def need_data() -> tuple[type[GuardOnDataDependentSymNode], ...]:
    """The class of the exceptions that torch raises where a number must be known that depends on data. None where no symbol may exist."""
    return (symbolic_shapes.GuardOnDataDependentSymNode,) if may_exist() else ()
