"""The user's surface: compile, reset, is_compiling. What regions of a program may ask for is in regions.py."""

from __future__ import annotations

import contextlib
import copy
import copyreg
import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from torch import nn

from framejit import cache, config, directives
from framejit._runtime import CompiledFunction
from framejit.backends.registry import BackendFn, lookup
from framejit.cache import Options
from framejit.errors import BadArgument
from framejit.report import reset_statistics
from framejit.sharing import TAKE_OVER, Front, follow, shared_class

F = TypeVar("F")
Function = Any
"""A types.FunctionType, which type checkers take no `def` for."""
COROUTINES = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
ORIGINAL = "__framejit_original__"


@overload
def compile(
    target: F,
    *,
    backend: str | BackendFn | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> F: ...
@overload
def compile(
    target: None = None,
    *,
    backend: str | BackendFn | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> Callable[[F], F]: ...
def compile(
    target: Any = None,
    *,
    backend: str | BackendFn | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> Any:
    """Compile a function, method, module or other callable; without a target, a decorator that does.

    The first call traces and compiles; later calls run what was compiled as long as everything it rests on is unchanged, and
    compile again where it isn't. What cannot be traced runs as written, with one logged reason.

    Args:
        target: a function, a bound method, an `nn.Module`, or any callable object. A module gives a new object of the same class
            that shares the module's parameters, buffers, hooks and every other attribute; the module itself stays as it is.
            A class is changed in place: calls of its instances are compiled.
        backend: a name (see `list_backends`), or a callable `(GraphModule, example_inputs) -> callable`. Default: "inductor".
        fullgraph: raise `Unsupported` where tracing stops, instead of running the frame as written.
        dynamic: None or False; symbolic shapes are not there yet, and True is refused.
        mode, options: passed to Inductor.
        disable: give the target back as it is.
        recompile_limit: how often the function may be compiled, in place of the option of that name.
        isolate_recompiles: share compiled code with no other target. Else it is shared with what was compiled with the same options, where
            guards allow it: modules of one class, functions and methods of one code object (closures made in a loop).

    Raises:
        BadArgument: the target is not callable, or is a generator or coroutine function; an option has a wrong type.
        UnknownBackend, UnknownMode, UnknownOption: a name that does not exist, with a suggestion.
    """
    for name, value in (("fullgraph", fullgraph), ("disable", disable), ("isolate_recompiles", isolate_recompiles)):
        if not isinstance(value, bool):
            raise BadArgument(f"compile(): {name} must be True or False; got {value!r}")
    if dynamic not in (None, False):
        raise BadArgument("compile(): dynamic=True is not supported yet; leave it out: each new shape compiles anew")
    current = config.current()
    if recompile_limit is not None:
        current = dataclasses.replace(current, recompile_limit=recompile_limit)
    found = lookup(backend if backend is not None else current.backend, mode=mode, options=options)
    settings = Options(found, fullgraph, current, isolate_recompiles)
    if target is None:
        return functools.partial(_compile, settings=settings, disable=disable)
    return _compile(target, settings, disable)


def _compile(target: Any, settings: Options, disable: bool) -> Any:
    check_target(target)
    if disable or config.current().disable or directives.is_disabled(target):
        return target
    if isinstance(target, CompiledFunction):
        return compile_function(target.function, settings)
    if isinstance(target, (staticmethod, classmethod)):
        return type(target)(_compile(target.__func__, settings, disable))
    if isinstance(target, types.FunctionType):
        return compile_function(target, settings)
    if isinstance(target, types.MethodType) and isinstance(target.__func__, (types.FunctionType, CompiledFunction)):
        return _compile(target.__func__, settings, disable).__get__(target.__self__)
    if isinstance(target, nn.Module):
        return module_with_call(target, lambda call: compile_function(call, settings, pooled=False), settings if settings.shareable else None)
    if isinstance(target, type):
        setattr(target, "__call__", compile_function(call_of(target), settings))
        return target
    return compile_function(caller_of(target), settings)


def check_target(target: Any) -> None:
    """Refuse what cannot be compiled. Raises BadArgument."""
    inner = target.__func__ if isinstance(target, (staticmethod, classmethod)) else target
    if not callable(inner):
        what = f"{type(target).__name__} ({target!r:.80})"
        raise BadArgument(f"compile() takes a function, a method, an nn.Module or another callable; got {what}")
    if isinstance(target, type) and raw_call(target) is None:
        raise BadArgument(f"compile(): instances of the class {target.__qualname__} are not callable; decorate the methods to be compiled")
    code = code_of(inner)
    if code is None:
        return
    if code.co_flags & COROUTINES:
        raise BadArgument(f"compile(): {code.co_qualname} is a coroutine function; compile the plain functions that it awaits or calls")
    if code.co_flags & inspect.CO_GENERATOR:
        raise BadArgument(
            f"compile(): {code.co_qualname} is a generator function; compile the function that consumes it, or the body of its loop"
        )


def code_of(target: Any) -> types.CodeType | None:
    """The code that a call of the target runs first, seen through methods, partials and `__call__`; None where that is C code."""
    while isinstance(target, functools.partial):
        target = target.func
    if isinstance(target, type):
        return None
    if not hasattr(target, "__code__"):
        target = raw_call(type(target))
    code = getattr(target, "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def compile_function(function: Function, settings: Options, pooled: bool = True) -> Any:
    """A CompiledFunction of a Python function. `pooled`: it shares entries with others of the same code object."""
    compiled = cache.Compiler(settings, pooled=pooled).attach(function)
    compiled.__dict__.update(function.__dict__)
    return compiled


def caller_of(target: Callable[..., Any]) -> Function:
    """A Python function that calls a callable which has no code of its own: a C function, a partial, an object with `__call__`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    with contextlib.suppress(AttributeError, TypeError):
        functools.update_wrapper(call, target, updated=())
    return call


def raw_call(cls: type) -> Any:
    """What calls of a class's instances run, as it stands in the class; None where they cannot be called."""
    return next((base.__dict__["__call__"] for base in cls.__mro__ if "__call__" in base.__dict__), None)


def call_of(cls: type) -> Function:
    """The same as a Python function."""
    call = raw_call(cls)
    call = call.function if isinstance(call, CompiledFunction) else call
    return call if isinstance(call, types.FunctionType) else caller_of(call)


def module_with_call(module: nn.Module, wrap: Callable[[Function], Any], settings: Options | None = None) -> nn.Module:
    """A new object of a subclass of the module's class, with the module's own `__dict__`; its calls go through `wrap`.

    It copies and pickles as the module's class does: the copy is an ordinary module. `settings`: what `wrap` depends on, where the
    subclass may be shared with other modules of the class; then they share the entries of its `__call__`.
    """
    def subclass_of(cls: type) -> Front:
        if settings is None:
            return Front(cls, raw_call(cls), None, class_with_call(cls, wrap, take_over))
        return shared_class(cls, raw_call(cls), settings, lambda: class_with_call(cls, wrap, take_over))

    def take_over(made: nn.Module, module: nn.Module) -> None:
        front = subclass_of(class_of(module))
        if front.raw is not raw_call(type(made).__dict__[ORIGINAL]):
            raise BadArgument(f"the compiled module's original has been given the class {front.cls.__qualname__}, with a __call__ of its own; "
                              "compile the module again")  # fmt: skip
        object.__setattr__(made, "__class__", front.subclass)
        front.add(made)

    front = subclass_of(class_of(module))
    made = object_of(front.subclass, module)
    front.add(made)
    follow(made, module)
    return made


def class_of(module: nn.Module) -> type:
    """The module's class; of a compiled module the one that was compiled."""
    cls = type(module)
    found: type = cls.__dict__.get(ORIGINAL, cls)
    return found


def object_of(subclass: type, module: nn.Module) -> nn.Module:
    """A second object with the state of the module."""
    made: nn.Module = object.__new__(subclass)
    object.__setattr__(made, "__dict__", module.__dict__)
    return made


def class_with_call(cls: type, wrap: Callable[[Function], Any], take_over: Callable[[Any, Any], None]) -> type:
    """A subclass of a module class that differs in `__call__`, and in how its objects are copied and pickled."""
    namespace = {
        ORIGINAL: cls,
        TAKE_OVER: take_over,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__call__": wrap(call_of(cls)),
        "__reduce_ex__": reduce_as_original,
        "__copy__": copy_original,
        "__slots__": (),
    }
    if hasattr(cls, "__deepcopy__"):
        namespace["__deepcopy__"] = deepcopy_original
    # Neither the metaclass's __new__ nor __init_subclass__ is to hear of it: registries of the user's would get a second entry.
    subclass = type.__new__(type(cls), cls.__name__, (nn.Module,), namespace)
    subclass.__bases__ = (cls,)
    return subclass


def original_of(made: Any) -> Any:
    """The module that a compiled module shares its state with, as an object of its own class."""
    original = object.__new__(getattr(type(made), ORIGINAL))
    object.__setattr__(original, "__dict__", made.__dict__)
    return original


def reduce_as_original(self: Any, protocol: Any) -> Any:
    """What pickles and copies an object of the original class. `copyreg.__newobj__` would insist on the object's own class."""
    function, arguments, *rest = original_of(self).__reduce_ex__(protocol)
    if function is copyreg.__newobj__:  # type: ignore[attr-defined]
        function, arguments = copyreg._reconstructor, (arguments[0], object, None)  # type: ignore[attr-defined]
    return (function, arguments, *rest)


def copy_original(self: Any) -> Any:
    """`copy.copy`: an ordinary module."""
    return copy.copy(original_of(self))


def deepcopy_original(self: Any, memo: dict[int, Any]) -> Any:
    """`copy.deepcopy`, where the class has its own way."""
    return copy.deepcopy(original_of(self), memo)


def reset() -> None:
    """Throw away everything compiled, and the statistics; functions compile again when they are next called."""
    cache.reset()
    reset_statistics()


def is_compiling() -> bool:
    """False; inside compiled code, True."""
    return False

