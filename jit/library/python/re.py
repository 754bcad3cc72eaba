"""Regular expressions: compiled patterns and matches are constants, and their methods pure."""

from __future__ import annotations

import re
import warnings
from typing import Any

from framejit import breaks
from framejit.guards.source import Source
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models, pure_methods, unsupported, wraps
from framejit.objects.types.constobject import ConstObject
from framejit.process.warning_filters import version_kept

pure_methods(re.Pattern, re.Match)


@wraps(re.Pattern, re.Match, by_identity=True)
def wrap_pattern(vm: VM, value: Any, source: Source | None) -> Object:
    return ConstObject(value, source)


if hasattr(re, "_ZeroSentinel"):
    wraps(re._ZeroSentinel, by_identity=True)(wrap_pattern)  # the default of arguments in newer versions, an int


@models(re.Pattern.finditer)
def find_iteratively(vm: VM, pattern: Object, *args: Object, **kwargs: Object) -> Object:
    """`pattern.finditer(text)`: an iterator over all matches, found at once."""
    given = [vm.observe(arg).constant(vm) for arg in args]
    named = {name: vm.observe(arg).constant(vm) for name, arg in kwargs.items()}
    try:
        found = list(pattern.constant(vm).finditer(*given, **named))
    except TypeError as error:
        vm.raise_(TypeError, *error.args)
    return abstract.iter_(vm, vm.from_real(found))


def forget(pattern: Any, flags: Any) -> None:
    """Take a pattern out of the module's caches: when the program compiles it, it shall get the warning that only the first compilation gives."""
    for cache in (re._cache, getattr(re, "_cache2", {})):  # type: ignore[attr-defined]
        cache.pop((type(pattern), pattern, flags), None)


@models(re._compile)  # type: ignore[attr-defined]
def compile_pattern(vm: VM, pattern: Object, flags: Object) -> Object:
    """The function that all others of the module ask for a compiled pattern. Its cache, which others fill too, gives what a compilation would give."""
    given, chosen = vm.observe(pattern).constant(vm), vm.observe(flags).constant(vm)
    with version_kept(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = re.compile(given, chosen)
        except (re.error, ValueError, TypeError, OverflowError, RecursionError):
            found = None
    if warned:
        forget(given, chosen)
    if found is None or warned or found.flags & re.DEBUG:
        vm.unsupported(breaks.UnsupportedCall("re.compile() of a pattern that is in error, warns or is printed"))
    return vm.const(found)


unsupported(breaks.UnsupportedCall("scanner() of a regular expression"), re.Pattern.scanner)  # type: ignore[attr-defined]
