"""Looks up backends, which are built in, registered, installed as an entry point, or any callable, and checks what is passed to them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from typing import Any, Literal

from framejit.backends import ecosystem
from framejit.errors import BackendError, BadArgument, ConfigError, UnknownBackend, suggestion
from framejit.graph.demands import OF_OTHERS, Demands
from framejit.process.when_needed import load
from framejit.quick_dataclass import dataclass
from framejit.said.directives import untraced

BackendFn = Callable[..., Callable[..., Any]]


@dataclass(frozen=True)
class Backend:
    """A backend ready to compile graphs: a function `(GraphModule, example_inputs, **kwargs) -> callable` and its settings.

    Attributes:
        name: for messages.
        call: the function.
        inputs: its example inputs: "real" tensors, as third-party backends expect, or fresh "fake" ones.
        trusted: the callable's outputs need no check.
        needs_contexts: it reads torch's TracingContext, which costs time to set up.
        faster_for_fixed_sizes: its code for fixed sizes may be faster than that for symbols, so that both may be kept.
        takes: its graphs' possible contents, and their needs.
        runs_nodes: the graph's nodes run as Python code, so that their exceptions have their line (node_lines.py).
        static_shapes: its graphs are for fixed sizes and numbers.
        sizes: the least and the largest size that is symbolic in its graphs; None for no limit.
        kwargs: keyword arguments for `call`.
    """

    name: str
    call: BackendFn
    inputs: Literal["real", "fake"] = "real"
    trusted: bool = False
    needs_contexts: bool = True
    faster_for_fixed_sizes: bool = True
    takes: Demands = OF_OTHERS
    runs_nodes: bool = False
    static_shapes: bool = False
    sizes: tuple[int | None, int | None] = (None, None)
    kwargs: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def configured(self, mode: str | None, options: Mapping[str, Any] | None) -> Backend:
        """This backend with `mode` and `options`, as keyword arguments to the function. Raises ConfigError if it takes none."""
        kwargs: dict[str, Any] = {"mode": mode} if mode not in (None, "default") else {}
        kwargs |= {"options": dict(options)} if options else {}
        for name in kwargs:
            if not _accepts(self.call, name):
                raise ConfigError(
                    f"backend {self.name!r} takes no {name}=; a backend gets it if its function has a parameter named {name!r}"
                )
        return replace(self, kwargs=kwargs)

    def abilities(self) -> Demands:
        """Return the demands that hold now. Other backends may take numbers out of tensors if they say so, or if the program asks torch's tracer for it."""
        wished = self.takes is OF_OTHERS and ecosystem.captures_numbers()
        return replace(self.takes, takes_unbacked=True) if wished else self.takes

    def freezes(self) -> bool:
        """Return whether parameters become constants of the graph if gradients are off."""
        return False

    def takes_pieces(self, grad: bool) -> bool:
        """Return whether a graph may be compiled in pieces: not if CUDA graphs are recorded of the whole, nor if parameters are constants of the code, which
        differ between layers. `grad`: gradients are on."""
        return self.inputs == "fake" and not self.cudagraphs() and not (self.freezes() and not grad)

    def for_several(self) -> AbstractContextManager[None]:
        """A context in which several graphs are compiled, none of which runs before its end."""
        return nullcontext()

    def instructions(self) -> frozenset[str] | None:
        """Return the instructions that code may use, by their names in /proc/cpuinfo; None if these are all that this processor has."""
        return frozenset()

    def any_threads(self) -> bool:
        """Return whether code isn't compiled for one number of threads."""
        return True

    def cudagraphs(self) -> bool:
        """Return whether callables record CUDA graphs. If so, each outermost call of a compiled function begins a step of them
        (`ecosystem.begin_cudagraph_step`)."""
        return False


def _accepts(fn: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return True  # written in C, without a signature: only the call itself shows it
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return any(p.kind is inspect.Parameter.VAR_KEYWORD or (p.name == name and p.kind in by_keyword) for p in parameters.values())


# A built-in backend's module is loaded when it is first asked for: Inductor and AOTAutograd take a second to import.
_BUILTIN = {
    "eager": "framejit.backends.eager",
    "aot_eager": "framejit.backends.aot_eager",
    "inductor": "framejit.backends.inductor",
}
_registered: dict[str, Backend] = {}


@untraced
def register_backend(
    fn: BackendFn | None = None,
    name: str | None = None,
    *,
    static_shapes: bool = False,
    sizes: tuple[int | None, int | None] = (None, None),
    takes_unbacked: bool = False,
) -> Any:
    """Make `fn`, of the form `(GraphModule, example_inputs) -> callable`, known by `name` (its own name by default).

    Also a decorator, with or without arguments; returns `fn`.

    Args:
        static_shapes: its graphs are for fixed sizes and numbers, whatever varies or is declared; each size is compiled separately.
        sizes: the least and the largest size that its graphs may have as symbols, None for no limit; other sizes are compiled separately.
        takes_unbacked: its graphs may hold numbers that are read from tensors (`x.item()`), and sizes that depend on data (`x[mask]`): symbols without a
            value. Otherwise these split the graph, unless `torch._dynamo.config.capture_scalar_outputs` is set when it is traced.

    Raises:
        BadArgument: `fn` is not callable, or has no name of its own and is given none.
        ConfigError: another function has the name; `sizes` is no range; both `static_shapes` and `sizes` are given.
    """
    if fn is None:
        return lambda decorated: register_backend(decorated, name, static_shapes=static_shapes, sizes=sizes, takes_unbacked=takes_unbacked)
    least, most = check_sizes(sizes)
    if static_shapes and (least, most) != (None, None):
        raise ConfigError("register_backend(): static_shapes=True leaves no size symbolic; give either it or sizes=")
    if not callable(fn):
        raise BadArgument(f"register_backend() takes a callable (GraphModule, example_inputs) -> callable; got {fn!r}")
    name = name or _name_of(fn)
    if name == "<lambda>":
        raise BadArgument('register_backend(): a lambda has no name of its own; give it one, as in register_backend(fn, "mine")')
    known = _registered.get(name)
    if name in _BUILTIN or (known is not None and known.call is not fn):
        raise ConfigError(f"there is already a backend named {name!r}")
    takes = replace(OF_OTHERS, takes_unbacked=True) if takes_unbacked else OF_OTHERS
    _registered[name] = Backend(name, fn, static_shapes=bool(static_shapes), sizes=(least, most), takes=takes)
    return fn


def check_sizes(sizes: Any) -> tuple[int | None, int | None]:
    """Check a range of sizes. Raises ConfigError."""
    if isinstance(sizes, tuple) and len(sizes) == 2 and all(bound is None or (type(bound) is int and bound >= 0) for bound in sizes):
        least, most = sizes
        if least is None or most is None or least <= most:
            return least, most
    raise ConfigError(f"register_backend(): sizes is the least and the largest size, as in (2, 512) or (None, 512); got {sizes!r}")


def _name_of(fn: Any) -> str:
    return getattr(fn, "__name__", None) or type(fn).__name__


@untraced
def list_backends() -> list[str]:
    """The names that `compile(backend=...)` takes, sorted: built in, registered here or with torch, installed as entry points."""
    return sorted({*_BUILTIN, *_registered, *ecosystem.entry_points(), *ecosystem.registered_names()})


def lookup(backend: str | BackendFn | Backend, mode: str | None = None, options: Mapping[str, Any] | None = None) -> Backend:
    """The backend of that name, or the callable as one, set up with `mode` and `options`.

    Raises UnknownBackend, UnknownMode or UnknownOption with a suggestion; ConfigError if `mode` and `options` are both given, if the
    backend takes no such argument, or for an option's value of the wrong type; BackendError if an entry point cannot be loaded;
    UnsupportedTorch if the installed torch lacks something that a built-in backend needs; BadArgument for anything else.
    """
    if mode is not None and not isinstance(mode, str):
        raise ConfigError(f"mode= is a string; got {mode!r}")
    if options is not None and not isinstance(options, Mapping):
        raise ConfigError(f"options= is a dict; got {options!r}")
    if mode not in (None, "default") and options:
        raise ConfigError("give either mode= or options=, not both: a mode is a set of options")
    found = _find(backend)
    return found.configured(mode, options) if mode is not None or options else found


def _find(backend: Any) -> Backend:
    if isinstance(backend, Backend):
        return backend
    if not isinstance(backend, str):
        if callable(backend):
            return Backend(_name_of(backend), backend)
        raise BadArgument(f"backend= is a name or a callable (GraphModule, example_inputs) -> callable; got {backend!r}")
    if backend in _BUILTIN:
        if backend != "inductor":  # which is looked at when it first compiles
            ecosystem.require_torch(backend)
        return load(_BUILTIN[backend]).BACKEND
    if backend in _registered:
        return _registered[backend]
    if backend in (points := ecosystem.entry_points()):
        try:
            return Backend(backend, points[backend].load())
        except Exception as error:
            raise BackendError(backend, f"could not be loaded from entry point {points[backend].value!r}: {error}") from error
    if backend in ecosystem.registered_names(everything=True):
        return Backend(backend, ecosystem.registered(backend))
    raise UnknownBackend(f"there is no backend {backend!r}{suggestion(backend, list_backends(), listing=True)}")
