"""Checks models while compiling (FRAMEJIT_CHECK=compile): if all arguments are known constants, the real function is called too, for comparison.

If a trace has handled a model's exception, or computed with its result, nothing checks these any more when the code runs.
"""

from __future__ import annotations

from types import EllipsisType, NoneType
from typing import Any

from framejit.errors import InternalError
from framejit.objects.core.object import VM, IdentityConstant, NotConstant, Object, settle
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes

PLAIN = (int, float, bool, str, bytes, complex, NoneType, EllipsisType)
MODULES = ("builtins", "math", "math.integer", "cmath", "_operator", "_functools", "_heapq", "itertools")
"""The modules whose functions may be called for comparison: they change nothing but their arguments."""

NEVER = ("input", "open", "print", "breakpoint", "exec", "eval", "compile", "id", "super", "__import__", "locals", "globals", "vars", "dir")


class Witness:
    """One call of a real function with copies of its arguments, made before its model was asked."""

    def __init__(self, real: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.real = real
        self.args = args
        self.kwargs = kwargs

    def said(self) -> tuple[Any, BaseException | None]:
        """The result of the real function, or the exception that it raises."""
        try:
            return self.real(*self.args, **self.kwargs), None
        except Exception as error:
            return None, error

    def check_result(self, vm: VM, result: Object) -> None:
        """Raises InternalError if the real function doesn't give the same result as the model, as far as that is known."""
        found, error = self.said()
        if error is not None:
            self.refute(f"gives a {classes.qualname(settle(result).cls)}", f"raises {type(error).__qualname__}: {error}")
        try:
            known = peek(vm, result)
        except NotConstant:
            return
        if type(known) is not type(found) or shown(known) != shown(found):
            self.refute(f"gives {shown(known):.100}", f"gives {shown(found):.100}")

    def check_error(self, vm: VM, exc: Object) -> None:
        """Compare the exception that the model raises with that of the real function."""
        found, error = self.said()
        claim = f"raises {classes.qualname(exc.cls)}"
        if error is None:
            self.refute(claim, f"gives {shown(found):.100}")
        if type(error) is not exc.cls:
            self.refute(claim, f"raises {type(error).__qualname__}: {error}")
        try:
            args = tuple(peek(vm, arg) for arg in exc.args)  # type: ignore[attr-defined]
        except NotConstant:
            return
        if shown(args) != shown(error.args):  # type: ignore[union-attr]
            self.refute(f"{claim} with {shown(args):.200}", f"with {shown(error.args):.200}")  # type: ignore[union-attr]

    def refute(self, claim: str, truth: str) -> None:
        name = getattr(self.real, "__qualname__", repr(self.real))
        named = "".join(f", {name}={shown(value):.60}" for name, value in self.kwargs.items())
        raise InternalError(f"the model of {name}({', '.join(f'{shown(arg):.60}' for arg in self.args)}{named}) {claim}; the real function {truth}")


def shown(value: Any) -> str:
    """repr(), but ints with more digits than Python converts to text are in hexadecimal (sys.set_int_max_str_digits)."""
    try:
        return repr(value)
    except ValueError:
        if isinstance(value, int):
            return hex(value)
        if isinstance(value, (list, tuple)):
            return f"{classes.qualname(type(value))}({', '.join(map(shown, value))})"
        return object.__repr__(value)


def witness_of(vm: VM, real: Any, args: list[Object], kwargs: dict[str, Object]) -> Witness | None:
    """The witness of a call, if it can have one. Guards nothing."""
    owner = getattr(real, "__objclass__", None) or (real if isinstance(real, type) else None)
    module = getattr(real if owner is None else owner, "__module__", None)
    if module not in MODULES or getattr(real, "__name__", "") in NEVER:
        return None
    try:
        return Witness(real, [peek(vm, arg) for arg in args], {name: peek(vm, value) for name, value in kwargs.items()})
    except NotConstant:
        return None


def peek(vm: VM, obj: Object, depth: int = 3) -> Any:
    """The real value of an Object that is known to be a plain constant, or a list or tuple of such made by the trace. Raises NotConstant otherwise."""
    obj = settle(obj)
    if isinstance(obj, ConstObject) and obj.cls in PLAIN:
        return obj.value
    if isinstance(obj, IdentityConstant) and issubclass(obj.cls, type) and classes.module(obj.value) == "builtins":
        return obj.value
    if depth and isinstance(obj, (TupleObject, ListObject)) and obj.source is None and obj.cls in (tuple, list):
        return obj.cls([peek(vm, item, depth - 1) for item in obj.items(vm)])
    raise NotConstant(obj)
