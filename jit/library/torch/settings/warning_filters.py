"""Operators in a block of `warnings.catch_warnings()` run with the filters of warnings as the program has set them there."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from framejit import breaks
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState
from framejit.library.python.warnings import Row, rows_of
from framejit.process.warning_filters import forget_shown

UNDER_FILTERS = breaks.GlobalStateUnsupported("filters that the compiled function has set, by which warnings of operators may be errors or recorded")


@rule(Phase.REPLACE)
def run_with_filters(state: TraceState, operation: OperatorCall) -> None:
    """Let an operator run with the filters that the program has set. One that other code finds by its name computes by itself, and warns of nothing."""
    rows = rows_of(state.vm)
    if rows is None or rows == tuple(warnings.filters) or operation.is_fixed:
        return
    if any(row[0] == "error" for row in rows if row not in warnings.filters) or not shows_as_before(state.vm):
        state.vm.unsupported(UNDER_FILTERS)
    target = operation.target
    function = getattr(type(operation.fake_args[0]), target) if isinstance(target, str) else target
    operation.op, operation.target = "call_function", with_filters(function, rows)


def shows_as_before(vm: Any) -> bool:
    """Return whether the trace has left the functions alone that show warnings."""
    namespace = vm.globals_of(vars(warnings))
    return all(vm.observe(namespace.lookup(vm, name)).value is vars(warnings)[name] for name in ("_showwarnmsg_impl", "showwarning"))


def with_filters(function: Callable[..., Any], rows: tuple[Row, ...]) -> Callable[..., Any]:
    """`function`, which runs with these filters of warnings, and restores those that were set."""

    @functools.wraps(function, assigned=("__name__", "__qualname__"), updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        module: Any = warnings
        before = module.filters
        module.filters = list(rows)
        forget_shown()
        try:
            return function(*args, **kwargs)
        finally:
            module.filters = before
            forget_shown()

    del run.__wrapped__  # type: ignore[attr-defined]
    run.runs = function  # type: ignore[attr-defined]
    return run
