"""eval() and ast.literal_eval() of a text that the trace knows, if it contains constants and operators, and no names: the value is computed while tracing."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from types import CodeType
from typing import Any

from framejit import breaks
from framejit.objects.core.object import VM, Object, fold
from framejit.objects.core.registry import Model, around, models
from framejit.process.warning_filters import version_kept


@around(eval)
def evaluate(vm: VM, source: Object, *args: Object, own: Model, **kwargs: Object) -> Object:
    """`eval("1 + 2")`. The dicts of variables don't matter to it, but eval() adds the builtins to a dict that it is given, so calls with one run natively."""
    given = vm.observe(source)
    if not args and not kwargs and given.cls is str:
        text = given.constant(vm).lstrip(" \t")
        code = without_warning(lambda: compile(text, "<string>", "eval"))
        if code is not None and not code.co_names and not any(isinstance(const, CodeType) for const in code.co_consts):
            found = without_warning(lambda: (eval(code, {"__builtins__": {}}),))
            if found is not None:
                return vm.from_real(found[0])
    return own(vm, source, *args, **kwargs)


@models(ast.literal_eval)
def literal(vm: VM, node_or_string: Object) -> Object:
    """`ast.literal_eval("[1, 2]")`; errors in the text raise what the function raises. A text that warns is evaluated natively."""
    given = vm.observe(node_or_string)
    text = given.constant(vm) if given.cls is str else None
    if text is None:
        return fold(vm, ast.literal_eval, given.as_real(vm))
    try:
        found, warned = noticed(lambda: ast.literal_eval(text))
    except Exception:
        return fold(vm, ast.literal_eval, text)
    if warned:
        vm.unsupported(breaks.UnsupportedCall("ast.literal_eval() of a text that warns"))
    return vm.from_real(found)


def without_warning(compute: Callable[[], Any]) -> Any:
    """Return the result of a function that compiles a text; None if it raises an exception or warns, which the program must see at each call."""
    try:
        found, warned = noticed(compute)
    except Exception:
        return None
    return None if warned else found


def noticed(compute: Callable[[], Any]) -> tuple[Any, bool]:
    """Return the result of a function, and whether it warned. The program's warnings and filters stay as they are."""
    with version_kept(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        return compute(), bool(warned)
