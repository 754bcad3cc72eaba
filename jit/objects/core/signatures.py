"""The calls that a C function accepts: the class of its receiver, the number of its arguments, and their names.

A model says what an accepted call means. The function itself rejects others, with its own message.
"""

from __future__ import annotations

import array
import collections
import contextlib
import functools
import inspect
import itertools
import math
import re
import sys
import warnings
from collections.abc import Callable
from types import BuiltinFunctionType, ClassMethodDescriptorType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from framejit import breaks
from framejit.objects.core.object import VM, Object, Raise
from framejit.objects.core.registry import app_of, call_model, meaning_of, model_of
from framejit.objects.core.witness import witness_of
from framejit.program import classes
from framejit.quick_dataclass import dataclass

NAMED: dict[int, frozenset[str]] = {
    id(int): frozenset({"base"}),
    id(str): frozenset({"object", "encoding", "errors"}),
    id(bytes): frozenset({"source", "encoding", "errors"}),
    id(bytearray): frozenset({"source", "encoding", "errors"}),
    id(collections.deque): frozenset({"iterable", "maxlen"}),
    id(collections.OrderedDict.pop): frozenset({"key", "default"}),
    id(functools.cmp_to_key): frozenset({"mycmp"}),
    id(itertools.repeat): frozenset({"object", "times"}),
    id(warnings.warn): frozenset({"message", "category", "stacklevel", "source"}),
}
"""The parameters that may be passed by name, for functions without a signature."""

NOT_CALLABLE = 1 << 7
"""Py_TPFLAGS_DISALLOW_INSTANTIATION: only C code makes instances of the class; `__new__` doesn't."""

COUNTED: dict[Any, Callable[[], Any]] = {
    **{cls: cls for cls in (list, dict, set, frozenset, tuple, str, bytes, bytearray, collections.deque, collections.OrderedDict)},
    array.array: lambda: array.array("b"),
}
"""Builtin types whose methods say how many arguments they take, and what makes an empty instance, which says it as well."""
PARSERS: tuple[Any, ...] = (
    abs, all, any, ascii, bin, callable, chr, delattr, dir, divmod, eval, format, getattr, globals, hasattr, hash, hex, id, isinstance, issubclass, iter, len,
    locals, max, min, next, oct, ord, pow, repr, round, setattr, sorted, sum, vars, bool, bytes, classmethod, complex, dict, enumerate, filter, float,
    frozenset, int, list, map, object, property, range, reversed, set, slice, staticmethod, str, tuple, zip,
    collections.OrderedDict, *[made for made in vars(itertools).values() if isinstance(made, type)],
    *[function for function in vars(math).values() if callable(function)],
)  # fmt: skip
"""Functions and types without side effects, which say of None as well how many arguments they take."""
ARGUMENTS_COUNTED = re.compile(
    r"\btakes (no|exactly|at (least|most)|\w+) .*arguments?|must have at least two arguments|\bexpected .*arguments?, got \d|takes no (keyword )?arguments"
    r"|(unexpected|invalid) keyword argument|missing required argument '\w+'( \(pos 1\))?$"
)
"""The messages in which they do."""
POSITIONAL_ONLY = re.compile(r"\(\$?\w+(=LITERAL)?(, \w+(=LITERAL)?)*, /\)".replace("LITERAL", r"(None|True|False|-?\d+)"))
"""The text of a signature all parameters of which are passed by position, with defaults that are plain constants."""
EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD
IN_C = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, EITHER)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The arguments that one C function accepts. `receiver`: the class of which its first argument is an instance; `maker`: the class whose `__new__` it is.
    `signature`: None if all its parameters are passed by position."""

    real: Any
    model: Any
    signature: inspect.Signature | None
    least: int
    most: int
    receiver: type | None
    of_class: bool
    maker: Any

    def takes(self, vm: VM, args: list[Object], kwargs: dict[str, Object]) -> bool:
        """Return whether a call gets as far as the function's own checks."""
        if not (self.binds(args, kwargs) if kwargs else self.least <= len(args) <= self.most):
            return False
        if self.receiver is None or not args:
            return True
        first = vm.observe(args[0])
        if not self.of_class:
            return first.cls is self.receiver or classes.is_subtype(first.cls, self.receiver) and not self.has_another(first.cls)
        if not issubclass(first.cls, type) or not classes.is_subtype(first.constant(vm), self.receiver):
            return False
        return self.maker is None or nearest_maker(first.constant(vm)) is self.maker

    def raise_for_count(self, vm: VM, args: list[Object], kwargs: dict[str, Object]) -> None:
        """Raise the function's own error if it is a method of a builtin container or text, or one of PARSERS, and is given too many or too few arguments, or
        other names: it says so before it looks at any argument."""
        if not kwargs and self.least <= len(args) <= self.most:
            return
        placeholders: list[Any] = [None] * len(args)
        if isinstance(self.real, (MethodDescriptorType, WrapperDescriptorType)):
            receiver = self.receiver
            if receiver is None or receiver not in COUNTED or not args or not classes.is_subtype(vm.observe(args[0]).cls, receiver):
                return
            placeholders[0] = COUNTED[receiver]()
        elif not any(self.real is parser for parser in PARSERS):
            return
        try:
            self.real(*placeholders, **dict.fromkeys(kwargs))
        except TypeError as error:
            if ARGUMENTS_COUNTED.search(str(error)):
                vm.raise_(TypeError, *error.args)
        except Exception:
            return

    def has_another(self, cls: type) -> bool:
        """Return whether a subclass in C overrides this method with one of its own that has the same model."""
        for base in classes.mro(cls):
            if base is self.receiver:
                break
            found = classes.class_dict(base).get(getattr(self.real, "__name__", ""))
            if found is not None and found is not self.real and model_of(found) is self.model:
                return True
        return False

    def binds(self, args: list[Object], kwargs: dict[str, Object]) -> bool:
        if self.signature is None:
            return False
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError:
            return False
        return True


_known: dict[int, tuple[Any, Acceptance | None]] = {}


def by_registry(vm: VM, real: Any, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Call the model or the stand-in of a C function or class; None if it has neither."""
    model = model_of(real)
    stand_in = None if model is not None else app_of(real)
    if model is None and stand_in is None:
        return None
    accepts = acceptance_of(real, model or stand_in)
    if accepts is not None and not accepts.takes(vm, args, kwargs):
        accepts.raise_for_count(vm, args, kwargs)
        vm.unsupported(breaks.UnsupportedCall(f"{vm.const(real).name_when_called} with arguments that it refuses"))
    witness = witness_of(vm, real, args, kwargs) if vm.checking else None
    try:
        result = vm.call_app(stand_in, args, kwargs) if stand_in is not None else call_model(vm, model, real, args, kwargs)  # type: ignore[arg-type]
    except Raise as raised:
        if witness is not None:
            witness.check_error(vm, raised.exc)
        raise
    if witness is not None:
        witness.check_result(vm, result)
    return result


def acceptance_of(real: Any, model: Any) -> Acceptance | None:
    """The arguments that a C function with this model or stand-in accepts; None if they aren't known."""
    found = _known.get(id(real))
    if found is None or found[0] is not real:
        found = _known[id(real)] = (real, _acceptance(real, model))
    return found[1]


def _acceptance(real: Any, model: Any) -> Acceptance | None:
    counts, signature = positional_counts(real), None
    if counts is None:
        signature = signature_of(real, model)
        if signature is None:
            return None
        counts = counts_of(signature)
    meaning = meaning_of(real)
    receiver, of_class, maker = None if meaning is None else meaning.receiver, False, None
    if isinstance(real, (MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType)):
        receiver, of_class = real.__objclass__, isinstance(real, ClassMethodDescriptorType)
    elif isinstance(real, BuiltinFunctionType) and real.__name__ == "__new__" and isinstance(real.__self__, type):
        receiver, of_class, maker = real.__self__, True, real
    return Acceptance(real, model, signature, *counts, receiver, of_class, maker)


def positional_counts(real: Any) -> tuple[int, int] | None:
    """The least and the largest number of arguments of a C function that takes them by position only, as the text of its signature says. None if the text says
    something else. `inspect.signature` reads the text in the same way, but takes fifty times as long."""
    text: str | None = getattr(real, "__text_signature__", None) if isinstance(real, IN_C) else None
    if text is None or POSITIONAL_ONLY.fullmatch(text) is None:
        return None
    parameters = text[1:-1].split(", ")[:-1]
    if text.startswith("($") and getattr(real, "__self__", None) is not None:
        del parameters[0]
    return sum("=" not in parameter for parameter in parameters), len(parameters)


def counts_of(signature: inspect.Signature) -> tuple[int, int]:
    """The least and the largest number of arguments that may be passed by position."""
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    positional = [parameter for parameter in signature.parameters.values() if parameter.kind in POSITIONAL]
    most = sys.maxsize if inspect.Parameter.VAR_POSITIONAL in kinds else len(positional)
    return sum(parameter.default is parameter.empty for parameter in positional), most


def signature_of(real: Any, model: Any) -> inspect.Signature | None:
    """The function's own signature; without one, that of its model, whose parameter names aren't the function's. `__init__` in C says nothing in its own, and
    has that of its model if this takes any names."""
    takes_names = inspect.getfullargspec(model).varkw is not None
    if not (takes_names and isinstance(real, WrapperDescriptorType) and real.__name__ == "__init__"):
        with contextlib.suppress(ValueError, TypeError):
            return inspect.signature(real)
    owner = getattr(real, "__objclass__", None) or (real if isinstance(real, type) else None)
    instance = getattr(real, "__self__", None)
    module = getattr(real if owner is None else owner, "__module__", None) or ("" if instance is None else type(instance).__module__)
    if module.partition(".")[0] not in sys.stdlib_module_names:
        return None
    parameters = list(inspect.signature(model).parameters.values())
    if parameters and parameters[0].name == "vm":
        del parameters[0]
    named = NAMED.get(id(real), frozenset())
    made = [parameter if parameter.kind is not EITHER or parameter.name in named else as_positional(parameter) for parameter in parameters]
    try:
        return inspect.Signature(made)
    except ValueError:
        return inspect.Signature(parameters)


def as_positional(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(kind=inspect.Parameter.POSITIONAL_ONLY)


def nearest_maker(cls: type) -> Any:
    """Objects/typeobject.c: tp_new_wrapper: the `__new__` of the most derived C class, past those that classes in Python define; None if it has none."""
    base: type | None = cls
    while base is not None and not classes.flags(base) & NOT_CALLABLE:
        found = classes.class_dict(base).get("__new__")
        if isinstance(found, BuiltinFunctionType):
            return found
        base = type.__dict__["__base__"].__get__(base)
    return None
