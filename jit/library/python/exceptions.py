"""The constructors of the builtin exception classes (Objects/exceptions.c): the arguments that they accept, and how these are stored."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, TracebackType, WrapperDescriptorType
from typing import Any

from framejit import breaks
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.types.exceptions import BUILTIN_EXCEPTIONS, ExceptionObject, TracebackObject, builtin_base
from framejit.objects.types.tupleobject import TupleObject

KEYWORDS: dict[type[BaseException], tuple[str, ...]] = {
    cls: tuple(name for name in names if hasattr(cls, name))
    for cls, names in ((ImportError, ("name", "path", "name_from")), (NameError, ("name",)), (AttributeError, ("name", "obj")))
}
"""The keywords that the `__init__` of builtin exceptions accepts; that of all others accepts none."""

PARSED = (UnicodeEncodeError, UnicodeDecodeError, UnicodeTranslateError, SyntaxError)
"""Exceptions whose `__init__` checks its arguments and stores them in fields."""


def real_instance(vm: VM, cls: Callable[..., BaseException], args: list[Any], **kwargs: Any) -> BaseException:
    """An instance of a builtin class; if its constructor raises, the program does."""
    try:
        return cls(*args, **kwargs)
    except (TypeError, ValueError, OverflowError) as error:
        vm.raise_(type(error), *error.args)


def reals(vm: VM, args: tuple[Object, ...]) -> list[Any]:
    return [vm.observe(arg).as_real(vm) for arg in args]


def exception_new(vm: VM, cls: Object, *args: Object, **kwargs: Object) -> Object:
    made: type[BaseException] = abstract.class_to_make(vm, cls)
    if issubclass(made, BaseExceptionGroup):
        return new_group(vm, made, args)
    exc = ExceptionObject(made, list(args))
    if issubclass(made, OSError):
        if parses_in_init(vm, made):
            exc.args = []
        else:
            check_keywords(vm, exc, kwargs)
            parse_os_error(vm, exc, args)
    return exc


def exception_init(vm: VM, self: Object, *args: Object, **kwargs: Object) -> Object:
    assert isinstance(self, ExceptionObject)
    if issubclass(self.cls, OSError):
        if parses_in_init(vm, self.cls):
            check_keywords(vm, self, kwargs)
            parse_os_error(vm, self, args)
        return vm.const(None)
    check_keywords(vm, self, kwargs)
    base = builtin_base(self.cls)
    if issubclass(base, PARSED):
        real_instance(vm, base, reals(vm, args))
    self.set_args(vm, list(args))
    of_keywords = [name for names in KEYWORDS.values() for name in names]
    vm.trail.set(self, "fields", {name: value for name, value in self.fields.items() if name not in of_keywords} | kwargs)
    return vm.const(None)


def check_keywords(vm: VM, exc: ExceptionObject, kwargs: dict[str, Object]) -> None:
    """_PyArg_NoKeywords, or the error of the class's own parser."""
    taking = next((cls for cls in KEYWORDS if issubclass(exc.cls, cls)), None)
    if taking is None:
        if kwargs:
            vm.raise_(TypeError, f"{exc.type_name}() takes no keyword arguments")
    elif any(name not in KEYWORDS[taking] for name in kwargs):
        real_instance(vm, taking, [], **dict.fromkeys(kwargs))


# OSError


def parses_in_init(vm: VM, cls: type) -> bool:
    """oserror_use_init: a class with an `__init__` of its own, but no `__new__`, gets its arguments through that."""
    own_new, own_init = (isinstance(function_in(vm.raw_type_lookup(cls, name)), FunctionType) for name in ("__new__", "__init__"))
    return own_init and not own_new


def function_in(found: Any) -> Any:
    return found.__func__ if isinstance(found, staticmethod) else found


def parse_os_error(vm: VM, exc: ExceptionObject, args: tuple[Object, ...]) -> None:
    """oserror_parse_args: two to five arguments have meanings; the error number determines the subclass of OSError."""
    exc.set_args(vm, list(args))
    if 2 <= len(args) <= 5:
        real = real_instance(vm, builtin_base(exc.cls), reals(vm, args))
        if exc.cls is OSError:
            vm.trail.set(exc, "cls", type(real))
        exc.set_args(vm, list(args[: len(real.args)]))
        vm.trail.set(exc, "made_of", list(args))


# Groups


def new_group(vm: VM, cls: type[BaseExceptionGroup[Any]], args: tuple[Object, ...]) -> Object:
    """BaseExceptionGroup_new: a group of Exceptions only is an ExceptionGroup."""
    stand_ins: list[Any] = []
    members: list[Object] = []
    for position, arg in enumerate([vm.observe(arg) for arg in args]):
        if position == 1 and issubclass(arg.cls, (list, tuple)):
            members = [vm.observe(item) for item in abstract.iterate(vm, arg)]
            stand_ins.append([stand_in(vm, member) for member in members])
        else:
            stand_ins.append(arg.as_real(vm))
    real = real_instance(vm, functools.partial(BaseExceptionGroup.__new__, cls), stand_ins)
    exc = ExceptionObject(type(real), list(args))
    exc.made_of = list(args)
    exc.fields = {"message": args[0], "exceptions": TupleObject(members)}
    return exc


def stand_in(vm: VM, member: Object) -> Any:
    """A real value that a group accepts or rejects like the member."""
    if issubclass(member.cls, BaseException):
        return Exception() if issubclass(member.cls, Exception) else BaseException()
    if issubclass(member.cls, type) and issubclass(member.constant(vm), BaseException):
        return Exception  # a class isn't an instance
    return None


@models(TracebackType.tb_lineno)
def line_of_traceback(vm: VM, self: Object) -> Object:
    """The line of the outermost place that the exception has passed."""
    if not isinstance(self, TracebackObject) or not self.passed:
        vm.unsupported(breaks.UnsupportedValue("the line of a traceback"))
    return vm.const(self.passed[-1].lineno)


@models(traceback.clear_frames)
def clear_frames(vm: VM, tb: Object) -> Object:
    """Model of the function by which `unittest` clears the frames of an expected error. Those that the trace has left hold no variables any more."""
    given = vm.observe(tb)
    if not isinstance(given, TracebackObject) and given.cls is not type(None):
        vm.unsupported(breaks.UnsupportedCall("traceback.clear_frames() for frames that have run"))
    return vm.const(None)


for _cls in BUILTIN_EXCEPTIONS:
    for _name, _model in (("__new__", exception_new), ("__init__", exception_init)):
        _real = _cls.__dict__.get(_name)
        if isinstance(_real, (BuiltinFunctionType, WrapperDescriptorType)):
            models(_real)(_model)
