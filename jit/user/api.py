"""The main public functions: compile, reset, is_compiling. Directives for regions of a program are in regions.py."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from torch import nn

from framejit import breaks, config, logs
from framejit._runtime import CompiledFunction
from framejit.backends.eager_kernels import in_force as eager_kernels
from framejit.backends.registry import Backend, BackendFn, lookup
from framejit.driver import retained
from framejit.driver.callback import Compiler
from framejit.driver.callback import reset as reset_compiled
from framejit.driver.compiled_module import Function, call_of, caller_of, module_with_call, raw_call
from framejit.driver.declared import DeclaredShapes, parse
from framejit.driver.options import Options
from framejit.errors import BadArgument, UnknownBackend, UserFrame, suggestion
from framejit.report import reset_statistics
from framejit.said import directives
from framejit.said.directives import untraced
from framejit.said.vocabulary import spoken

F = TypeVar("F")
TARGET_NAMES = ("model", "fn", "func", "function", "module", "target")
"""Names that other compilers, and older versions of framejit, give to the first parameter of `compile`. An error for one of them says how to pass it."""
NEWER_OPTIONS = ("shapes_spec",)
"""Options that torch.compile has in later versions. They are ignored if they are None."""
SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
"""The flags of code whose frames are suspended half-way: generators and coroutines."""


@overload
def compile(
    target: F,
    *,
    backend: str | BackendFn | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes: Mapping[str, Any] | None = None,
    regions: bool | None = None,
    branches: str | None = None,
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
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes: Mapping[str, Any] | None = None,
    regions: bool | None = None,
    branches: str | None = None,
) -> Callable[[F], F]: ...
@spoken
def compile(
    target: Any = None,
    *positional: Any,
    backend: str | BackendFn | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes: Mapping[str, Any] | None = None,
    regions: bool | None = None,
    branches: str | None = None,
    **unknown: Any,
) -> Any:
    """Compile a function, method, module or other callable. Without a target, return a decorator that does.

    The first call traces and compiles. Later calls run the compiled code if its guards hold, and otherwise compile again. Where tracing stops, the
    function is split: the instruction at which it stops runs uncompiled, and the code after it is compiled as another graph. A function that can't be
    split runs uncompiled, and the reason is logged once. A generator or coroutine function is given back as it is, which is logged once.

    Args:
        target: a function, a bound method, an `nn.Module`, or any callable object. For a module, the result is a new object of a subclass that
            shares the module's parameters, buffers, hooks and every other attribute; the module itself stays as it is. A class is changed in place:
            calls of its instances are compiled.
        backend: a name (see `list_backends`), or a callable `(GraphModule, example_inputs) -> callable`. Default: "inductor".
        fullgraph: raise `Unsupported` where tracing stops, instead of splitting the function or running it uncompiled.
        dynamic: the sizes of tensors, and the ints, that are symbols, so that one compilation serves all their values. True: all, except for the sizes
            of parameters and buffers, sizes of 0 and 1, ints that are 0 or 1, and ints that aren't arguments. None: at first none, then those that have
            been seen to vary from call to call, and floats that vary too. False: none; each size is compiled separately. With True, sizes that are equal
            in the first call are taken to be equal in all calls; otherwise each size that varies is a separate symbol.
        mode, options: passed to the backend, usually Inductor.
        name: accepted for compatibility with torch.compile, and ignored; reports use the function's own name.
        disable: return the target unchanged.
        recompile_limit: how often the function may be compiled, instead of the setting of that name.
        isolate_recompiles: share compiled code with no other target, nor with an earlier `compile` of this one. By default, code that was compiled
            with the same options is shared where guards allow it: between modules of one class, and between functions and methods of one code object
            (closures made in a loop). It lives as long as the code object, or the module or its class, even if the result of `compile` doesn't.
        shapes: the sizes of tensors among the arguments. For the name of an argument, give a tuple with one item for each dimension; if the argument
            is a list, tuple or dict of tensors, give a list, tuple or dict of such tuples. The item `"batch"` makes a size symbolic from the first call
            on, and equal to all others with that name. A `torch.export.Dim` does so too, with the bounds `min` and `max`. An int is the only allowed
            size. None says nothing about a size.
        regions: compile parts of a graph that repeat, such as the layers of a model, once. None: where it pays, with backends of torch that compile. True:
            wherever parts repeat. False: never. A part's results are those of a graph of its own, so that Inductor fuses nothing across its ends. With
            `eager`, calls of modules that are traced once share their code unless it is False.
        branches: what becomes of a branch on the data of a tensor (`if x.sum() > 0:`). None: if both ways only compute tensors, and give tensors that look
            alike, both are in the graph, which decides. If one way is exceptional (only numbers that aren't finite lead there, or it prints, logs or raises),
            the graph has the other, and calls that go this way run uncompiled. "break": the call is split at the branch, as it is where the ways do more.

    Raises:
        BadArgument: the target is not callable; it is a generator or coroutine function, and `fullgraph` is set; an option has a wrong type; `shapes` names no
            argument.
        UnknownBackend, UnknownMode, UnknownOption: a name does not exist; the message suggests one.
        ConstraintViolation: raised by a call that is compiled, if a size is not what `shapes` says, or if the code works only for one size.
    """
    check_options(positional, unknown, name, fullgraph=fullgraph, disable=disable, isolate_recompiles=isolate_recompiles)
    for option, value in (("dynamic", dynamic), ("regions", regions)):
        if value is not None and not isinstance(value, bool):
            raise BadArgument(f"compile(): {option} must be None, True or False; got {value!r}")
    if branches not in (None, "break"):
        raise BadArgument(f"compile(): branches must be None or 'break'; got {branches!r}")
    current = config.current()
    if recompile_limit is not None:
        current = dataclasses.replace(current, recompile_limit=recompile_limit)
    found = lookup_default(mode, options) if backend is None else lookup(backend, mode=mode, options=options)
    settings = Options(found, fullgraph, current, isolate_recompiles, dynamic, DeclaredShapes() if shapes is None else parse(shapes), regions, branches)
    if target is None:
        return functools.partial(compile_target, settings=settings, disable=disable)
    return compile_target(target, settings, disable)


def lookup_default(mode: str | None, options: Mapping[str, Any] | None) -> Backend:
    """The backend that is used if `compile` gets none, set up with `mode` and `options`. Raises the errors of `lookup`."""
    try:
        return lookup(config.current().backend, mode=mode, options=options)
    except UnknownBackend as error:
        raise UnknownBackend(f"{config.option_and_variable('backend')}: {error}") from None


def check_options(positional: tuple[Any, ...], unknown: dict[str, Any], name: str | None, **switches: Any) -> None:
    """Raise BadArgument for arguments that `compile` doesn't have, and for switches that aren't booleans."""
    if positional:
        raise BadArgument(f"compile() takes what to compile and then options by name, as in backend='eager'; got {positional[0]!r:.80} without one")
    known = [parameter.name for parameter in inspect.signature(compile).parameters.values() if parameter.kind is parameter.KEYWORD_ONLY]
    for option, value in unknown.items():
        if option in TARGET_NAMES:
            raise BadArgument(f"compile() takes what to compile as its first argument, without a name; got {option}=")
        if value is not None or option not in NEWER_OPTIONS:
            raise BadArgument(f"compile() has no option {option!r}{suggestion(option, known, listing=True)}")
    if name is not None and not isinstance(name, str):
        raise BadArgument(f"compile(): name must be a string; got {name!r}")
    for switch, value in switches.items():
        if not isinstance(value, bool):
            raise BadArgument(f"compile(): {switch} must be True or False; got {value!r}")


def compile_target(target: Any, settings: Options, disable: bool = False, make: Callable[[Function, Options, bool], Any] | None = None) -> Any:
    """Compile what a call of `target` runs, and return the compiled target: a function, a module, a bound method, and so on.

    `make` makes the CompiledFunction; it gets the function, the options, and whether entries are shared.
    """
    make = make or compile_function
    check_target(target)
    if is_suspended(target, settings.fullgraph):
        return target
    settings.shapes.check_names(target)
    if disable or config.current().disable or directives.is_disabled(raw_call(type(target)) if isinstance(target, nn.Module) else target):
        return target
    if isinstance(target, CompiledFunction):
        return make(target.function, settings, True)
    if isinstance(target, types.FunctionType) and directives.MADE_BY_TORCH in target.__dict__:
        return compile_target(target.__dict__[directives.MADE_BY_TORCH], settings, disable, make)
    if isinstance(target, (staticmethod, classmethod)):
        return type(target)(compile_target(target.__func__, settings, disable, make))
    if isinstance(target, types.FunctionType):
        return make(target, settings, True)
    if isinstance(target, types.MethodType) and isinstance(target.__func__, (types.FunctionType, CompiledFunction)):
        return compile_target(target.__func__, settings, disable, make).__get__(target.__self__)
    if isinstance(target, nn.Module):
        shared = dataclasses.replace(settings, backend=retained.weakly(settings.backend)[0]) if settings.shareable else None
        return module_with_call(target, lambda call: make(call, settings, False), shared, compiles=True)
    if isinstance(target, type):
        setattr(target, "__call__", make(call_of(target), settings, True))
        return target
    return make(caller_of(target), settings, True)


def check_target(target: Any) -> None:
    """Raise BadArgument for a target that cannot be compiled."""
    inner = target.__func__ if isinstance(target, (staticmethod, classmethod)) else target
    if not callable(inner):
        what = f"{type(target).__name__} ({target!r:.80})"
        raise BadArgument(f"compile() takes a function, a method, an nn.Module or another callable; got {what}")
    if isinstance(target, type) and raw_call(target) is None:
        raise BadArgument(f"compile(): instances of the class {target.__qualname__} are not callable; decorate the methods to be compiled")


def is_suspended(target: Any, fullgraph: bool) -> bool:
    """Return whether a target is a generator or coroutine function, which is logged once: it runs uncompiled. With `fullgraph`, BadArgument is raised."""
    code = code_of(target.__func__ if isinstance(target, (staticmethod, classmethod)) else target)
    if code is None or not code.co_flags & SUSPENDED:
        return False
    if fullgraph:
        kind = "generator" if code.co_flags & inspect.CO_GENERATOR else "coroutine"
        raise BadArgument(f"compile(): {code.co_qualname} is a {kind} function; compile the plain functions that it calls, or the one that consumes it")
    logs.fallback(code, breaks.GeneratorFrame(code.co_qualname), [UserFrame.of(code, None)])
    return True


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
    """Make the CompiledFunction of a Python function. If it is `pooled`, it shares entries with others of the same code object."""
    record = retained.take(function, settings) if pooled and not settings.isolated else None
    backend, held = retained.weakly(settings.backend)
    if record is None:
        compiled = Compiler(dataclasses.replace(settings, backend=backend), pooled=pooled, held_backend=held).attach(function)
    else:
        record.compiler.hold_backend()
        compiled = record.compiler.attach(function, record.entries)
    compiled.__dict__.update(function.__dict__)
    return compiled


@untraced
def reset() -> None:
    """Throw away all compiled code, and the statistics. Functions compile again when they are called next."""
    reset_compiled()
    eager_kernels.forget()
    reset_statistics()


@spoken
def is_compiling() -> bool:
    """True in compiled code, also while it is traced; False in code that runs uncompiled."""
    return False

