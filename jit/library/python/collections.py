"""collections: models of the C helpers of its Python classes, and the module of classes that namedtuple() makes."""

from __future__ import annotations

import collections
import sys
import typing

from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import app, models, rules
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.tuplemethods import FieldGetter, MadeFieldGetter
from framejit.plain import collections as plain


@models(collections._tuplegetter)  # type: ignore[attr-defined]
def field_getter(vm: VM, index: Object, doc: Object, /) -> Object:
    """Make the descriptor of a field for a class that `namedtuple()` makes in the trace. No two classes share one, since its docstring can be set."""
    real = collections._tuplegetter(vm.observe(index).constant(vm), vm.observe(doc).constant(vm))  # type: ignore[attr-defined]
    return MadeFieldGetter(FieldGetter, None, real)

app(collections._count_elements, first=dict)(plain.count_elements)  # type: ignore[attr-defined]


def module_of_caller(vm: VM, level: int) -> Object | None:
    """The `__name__` in the globals of a calling function; None if the trace doesn't know the function."""
    found = vm.caller(level)
    return None if found is None else found[0].globals.lookup(vm, "__name__") or vm.const("__main__")  # type: ignore[attr-defined]


if not hasattr(sys, "_getframemodulename"):

    @rules(collections.namedtuple)
    def namedtuple(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
        """Named tuples are of the module that calls namedtuple(), which looks for it in frames."""
        given = kwargs.get("module")
        module = module_of_caller(vm, 0) if given is None or vm.observe(given).cls is type(None) else None
        assert isinstance(function, FunctionObject)
        return None if module is None else function.inline(vm, args, {**kwargs, "module": module})

    @rules(typing._caller)  # type: ignore[attr-defined]
    def caller(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
        """The module of the function that makes a type variable or another type, for its `__module__`."""
        return None if kwargs or len(args) > 1 else module_of_caller(vm, vm.observe(args[0]).constant(vm) if args else 1)
