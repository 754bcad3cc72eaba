"""Regular expressions: compiled patterns and matches are constants, and their methods pure."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING, Source
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object, fold
from framejit.objects.core.registry import models, pure_methods, unsupported, wraps
from framejit.objects.types.bufferobject import BufferObject
from framejit.objects.types.constobject import ConstObject
from framejit.plain import re as plain
from framejit.process.warning_filters import version_kept

pure_methods(re.Pattern, re.Match)


@wraps(re.Pattern, re.Match, by_identity=True)
def wrap_pattern(vm: VM, value: Any, source: Source | None) -> Object:
    return ConstObject(value, source)


if hasattr(re, "_ZeroSentinel"):
    wraps(re._ZeroSentinel, by_identity=True)(wrap_pattern)  # the default of arguments in newer versions, an int


def matching(method: Any) -> Callable[..., Object]:
    """The model of a method that gives a match. Breaks for a bytearray: the match refers to it, and shows what becomes of it."""

    def match(vm: VM, *args: Object, **kwargs: Object) -> Object:
        given = [vm.observe(arg) for arg in args]
        named = {name: vm.observe(arg) for name, arg in kwargs.items()}
        if any(isinstance(arg, BufferObject) for arg in (*given, *named.values())):
            vm.unsupported(breaks.UnsupportedCall(f"re.Pattern.{method.__name__} in a bytearray"))
        return fold(vm, method, *[arg.as_real(vm) for arg in given], **{name: arg.as_real(vm) for name, arg in named.items()})

    return match


for _method in (re.Pattern.search, re.Pattern.match, re.Pattern.fullmatch):
    models(_method)(matching(_method))


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


def replaced(vm: VM, method: Any, pattern: Object, repl: Object, string: Object, count: Object | None) -> Object:
    """A call of `sub` or `subn`. A replacement that is a function is called in the trace."""
    new, text = vm.observe(repl), vm.observe(string)
    limit = vm.const(0) if count is None else vm.observe(count)
    if vm.raw_type_lookup(new.cls, "__call__") is MISSING or text.cls not in (str, bytes) or not issubclass(limit.cls, int):
        return fold(vm, method, *(vm.observe(each).as_real(vm) for each in (pattern, new, text, limit)))
    found = vm.call_app(plain.substitute, [pattern, new, vm.const(text.constant(vm)), vm.const(int.__int__(limit.constant(vm)))])
    return found if method is re.Pattern.subn else abstract.getitem(vm, found, vm.const(0))


@models(re.Pattern.sub)
def sub(vm: VM, pattern: Object, /, repl: Object, string: Object, count: Object | None = None) -> Object:
    return replaced(vm, re.Pattern.sub, pattern, repl, string, count)


@models(re.Pattern.subn)
def subn(vm: VM, pattern: Object, /, repl: Object, string: Object, count: Object | None = None) -> Object:
    return replaced(vm, re.Pattern.subn, pattern, repl, string, count)


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
