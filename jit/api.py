"""The user's surface: compile, disable, reset, is_compiling."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from torch import nn

from framejit import cache, config
from framejit._runtime import CompiledFunction, set_thread_disabled
from framejit.backends.registry import BackendFn, lookup
from framejit.cache import Options
from framejit.errors import BadArgument
from framejit.report import reset_statistics

F = TypeVar("F")
COROUTINES = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
DISABLED = "_framejit_disabled"


@overload
def compile(target: F, **options: Any) -> F: ...
@overload
def compile(target: None = None, **options: Any) -> Callable[[F], F]: ...
def compile(
    target: Any = None,
    *,
    backend: str | BackendFn | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compile a function, method, module or other callable; without a target, a decorator that does.

    The first call traces and compiles; later calls run what was compiled as long as everything it rests on is unchanged, and
    compile again where it isn't. What cannot be traced runs as written, with one logged reason.

    Args:
        target: a function, a bound method, an `nn.Module`, or any callable object. A module gives a new object of the same class
            that shares the module's parameters, buffers, hooks and every other attribute; the module itself stays as it is.
        backend: a name (see `list_backends`), or a callable `(GraphModule, example_inputs) -> callable`. Default: "inductor".
        fullgraph: raise `Unsupported` where tracing stops, instead of running the frame as written.
        dynamic: None or False; symbolic shapes are not there yet, and True is refused.
        mode, options: passed to Inductor.
        disable: give the target back as it is.

    Raises:
        BadArgument: the target is not callable, or is a generator or coroutine function; an option has a wrong type.
        UnknownBackend, UnknownMode, UnknownOption: a name that does not exist, with a suggestion.
    """
    for name, value in (("fullgraph", fullgraph), ("disable", disable)):
        if not isinstance(value, bool):
            raise BadArgument(f"compile(): {name} must be True or False; got {value!r}")
    if dynamic not in (None, False):
        raise BadArgument("compile(): dynamic=True is not supported yet; leave it out: each new shape compiles anew")
    current = config.current()
    found = lookup(backend if backend is not None else current.backend, mode=mode, options=options)
    settings = Options(found, fullgraph, current)
    if target is None:
        return functools.partial(_compile, settings=settings, disable=disable)
    return _compile(target, settings, disable)


def _compile(target: Any, settings: Options, disable: bool) -> Any:
    check_target(target)
    if disable or config.current().disable:
        return target
    if isinstance(target, CompiledFunction):
        return compile_function(target.function, settings)
    if isinstance(target, (staticmethod, classmethod)):
        return type(target)(_compile(target.__func__, settings, disable))
    if isinstance(target, types.FunctionType):
        return compile_function(target, settings)
    if isinstance(target, types.MethodType) and isinstance(target.__func__, types.FunctionType):
        return compile_function(target.__func__, settings).__get__(target.__self__)
    if isinstance(target, nn.Module):
        return compile_module(target, settings)
    return compile_function(caller_of(target), settings)


def check_target(target: Any) -> None:
    """Refuse what cannot be compiled."""
    inner = target.__func__ if isinstance(target, (staticmethod, classmethod)) else target
    if not callable(inner):
        raise BadArgument(f"compile() takes a function, a method, an nn.Module or another callable; got {type(target).__name__} ({target!r:.80})")
    function = inspect.unwrap(inner, stop=lambda f: isinstance(f, types.FunctionType)) if not isinstance(inner, type) else inner
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if isinstance(code, types.CodeType):
        if code.co_flags & COROUTINES:
            raise BadArgument(f"compile(): {code.co_qualname} is a coroutine function; compile the plain functions that it awaits on or calls")
        if code.co_flags & inspect.CO_GENERATOR:
            raise BadArgument(f"compile(): {code.co_qualname} is a generator function; compile the function that consumes it, or the body of its loop")


def compile_function(function: types.FunctionType, settings: Options) -> Any:
    """A CompiledFunction of a Python function."""
    compiled = cache.Compiler(settings).attach(function)
    compiled.__dict__.update(function.__dict__)
    return compiled


def caller_of(target: Callable[..., Any]) -> types.FunctionType:
    """A Python function that calls a callable which has no code of its own: a C function, a partial, an object with `__call__`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    with contextlib.suppress(AttributeError, TypeError):
        functools.update_wrapper(call, target)
    return call


def compile_module(module: nn.Module, settings: Options) -> nn.Module:
    """A new object of a subclass of the module's class, with the module's own `__dict__`; its calls are compiled.

    It copies and pickles as the module's class does: the copy is not compiled.
    """
    cls = type(module)
    if "__framejit_original__" in cls.__dict__:
        cls = cls.__framejit_original__  # type: ignore[attr-defined]
    call = cls.__call__
    if isinstance(call, CompiledFunction):
        call = call.function
    if not isinstance(call, types.FunctionType):
        call = caller_of(call)
    namespace = {
        "__framejit_original__": cls,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__call__": compile_function(call, settings),
        "__reduce_ex__": _reduce_as_original,
        "__copy__": _copy_original,
        "__slots__": (),
    }
    subclass = types.new_class(cls.__name__, (cls,), {}, lambda body: body.update(namespace))
    compiled = object.__new__(subclass)
    object.__setattr__(compiled, "__dict__", module.__dict__)
    return compiled


def original_of(compiled: Any) -> Any:
    """The module that a compiled module shares its state with, as an object of its own class."""
    original = object.__new__(type(compiled).__framejit_original__)
    object.__setattr__(original, "__dict__", compiled.__dict__)
    return original


def _reduce_as_original(self: Any, protocol: Any) -> Any:
    return original_of(self).__reduce_ex__(protocol)


def _copy_original(self: Any) -> Any:
    original = original_of(self)
    made = object.__new__(type(original))
    made.__dict__.update(original.__dict__)
    return made


class disable:
    """Run uncompiled: `@disable` for a function, `disable(fn)`, or `with disable():` for a block.

    A disabled function runs as written, and so does everything that it calls. Tracing that comes upon one stops there.
    """

    def __new__(cls, function: Any = None, *, reason: str | None = None) -> Any:
        """With a callable: its disabled form. Without: a decorator and context manager. Raises BadArgument for anything else."""
        self = super().__new__(cls)
        self.reason = reason
        if function is None:
            return self
        return self(function)

    reason: str | None

    def __call__(self, function: Any) -> Any:
        if not callable(function):
            raise BadArgument(f"disable() takes a callable; got {type(function).__name__}")
        if isinstance(function, CompiledFunction):
            function = function.function

        @functools.wraps(function)
        def disabled(*args: Any, **kwargs: Any) -> Any:
            before = set_thread_disabled(True)
            try:
                return function(*args, **kwargs)
            finally:
                set_thread_disabled(before)

        setattr(disabled, DISABLED, self.reason or "")
        return disabled

    def __enter__(self) -> None:
        self._before: bool = set_thread_disabled(True)

    def __exit__(self, *exc: object) -> None:
        set_thread_disabled(self._before)


def reset() -> None:
    """Throw away everything compiled, and the statistics; functions compile again when they are next called."""
    cache.reset()
    reset_statistics()


def is_compiling() -> bool:
    """False; inside compiled code, True."""
    return False

