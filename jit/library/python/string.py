"""string.Formatter: the C functions that take its templates apart."""

from __future__ import annotations

import _string

from framejit import breaks
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.types.tupleobject import TupleObject


@models(_string.formatter_parser)
def formatter_parser(vm: VM, format: Object, /) -> Object:
    """The pieces of a template, all at once. An error comes after the pieces before it, which the formatter formats first: the real function finds it."""
    given = vm.observe(format).constant(vm)
    try:
        pieces = list(_string.formatter_parser(given))
    except (TypeError, ValueError):
        vm.unsupported(breaks.UnsupportedCall("_string.formatter_parser of a template that is in error"))
    return abstract.iter_(vm, vm.from_real(pieces))


@models(_string.formatter_field_name_split)
def formatter_field_name_split(vm: VM, field_name: Object, /) -> Object:
    given = vm.observe(field_name).constant(vm)
    try:
        first, rest = _string.formatter_field_name_split(given)
        parts = list(rest)
    except (TypeError, ValueError):
        vm.unsupported(breaks.UnsupportedCall("_string.formatter_field_name_split of a name that is in error"))
    return TupleObject([vm.const(first), abstract.iter_(vm, vm.from_real(parts))])
