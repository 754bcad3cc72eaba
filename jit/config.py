"""Configuration: one frozen dataclass of documented options, which is read from the environment once, and only replaced as a whole."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from framejit.errors import ConfigError, UnknownOption, suggestion

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})
PREFIX = "FRAMEJIT_"
"""The prefix of all environment variables of framejit's."""
CHECKS = frozenset({"cache", "compile", "guards", "results", "shapes"})
"""The checks that the option `check` may name."""


@dataclass(frozen=True, slots=True)
class Config:
    """The options of framejit. `current()` returns those in force, and `replace()` changes them for a `with` block.

    Each option is set by an environment variable: FRAMEJIT_ and its name in capital letters.
    """

    strict: bool = False
    """Raise framejit's own internal errors instead of running the frame uncompiled."""
    disable: bool = False
    """Compile nothing: decorated functions run uncompiled. TORCH_COMPILE_DISABLE has the same effect."""
    progress: bool = True
    """Show on stderr, if it is a terminal, what is being compiled once that takes longer than a second."""
    logs: str = ""
    """Comma-separated log names, `+name` for more and `-name` for less."""
    logs_out: str = ""
    """A file to which the logs are appended, instead of stderr."""
    backend: str = "inductor"
    """The backend that `compile()` uses if none is given."""
    recompile_limit: int = 8
    """The most entries of a compiled function, or of one module if its first argument is a module. After that, a call that no entry matches runs
    uncompiled."""
    accumulated_recompile_limit: int = 256
    """The most entries of a compiled function for all modules that it is called with together. After that, a call that no entry matches runs uncompiled."""
    cause_limit: int = 256
    """The most entries of a function that are made because the same guard failed. If it is lower than recompile_limit, it leaves room for other causes. With
    its default, the other limits are reached first."""
    fail_on_recompile: bool = False
    """Raise RecompileError if a function would be compiled again."""
    fail_on_recompile_limit: bool = False
    """Raise RecompileError if a limit is reached, instead of running the call uncompiled."""
    inline_depth_limit: int = 200
    """The depth of inlined calls at which tracing stops. The default is well below Python's own recursion limit."""
    unroll_limit: int = 100_000
    """The number of loop iterations in one trace after which tracing stops, so that a loop that never ends doesn't hang the compiler."""
    copy_repeated: bool = True
    """Trace the repeated layers of a model once: what the trace of the first has recorded is checked for the others, and copied where all of it holds."""
    automatic_dynamic: bool = True
    """Make sizes and numbers that vary from call to call symbols, in functions compiled with dynamic=None."""
    profile: str = ""
    """A file written by `save_profile`, which says what sizes and numbers have varied in an earlier process."""
    cache: bool = True
    """Keep on disk what has taken long to compile, for later processes."""
    cache_dir: str = ""
    """The folder for that. By default, it is framejit/compiled in the user's folder for caches (XDG_CACHE_HOME, or ~/.cache)."""
    check: str = ""
    """Checks of framejit itself, separated by commas, in functions compiled from now on. `cache` runs each new entry as a later process would read it from
    disk. `compile` checks invariants while compiling, including new guards and
    models of C functions. `guards` compares, on each call, the native guards of each entry with their Python reference. `results` compares results and
    mutations of calls with eager runs on copied arguments. `shapes` proves with z3 that the guards on symbolic sizes imply everything that the trace has
    assumed about them."""
    check_every: int = 1
    """`check="results"` runs one of this many calls of a function eagerly too."""

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if type(value) is not kind:
                raise ConfigError(f"option {name!r} is of type {kind.__name__}; got {value!r} of type {type(value).__name__}")
            if isinstance(value, int) and kind is int and value < 1:
                raise ConfigError(f"{option_and_variable(name)} must be at least 1; got {value}")
        for word in sorted(self.checks() - CHECKS):
            raise ConfigError(f"{option_and_variable('check')}: there is no check {word!r}{suggestion(word, CHECKS, listing=True)}")
        if "shapes" in self.checks() and importlib.util.find_spec("z3") is None:
            raise ConfigError(f"{option_and_variable('check')}: shapes needs z3, which is not installed: pip install z3-solver")

    def checks(self) -> frozenset[str]:
        """The words of `check`."""
        return frozenset(filter(None, (word.strip() for word in self.check.split(","))))


def option_and_variable(name: str) -> str:
    """The text with which messages name an option: its name, and its environment variable."""
    return f"option {name!r} (environment variable {PREFIX}{name.upper()})"


_KINDS: dict[str, type] = {f.name: type(f.default) for f in dataclasses.fields(Config)}
_ENVIRONMENT: dict[str, tuple[str, ...]] = {name: (f"FRAMEJIT_{name.upper()}",) for name in _KINDS}
_ENVIRONMENT["disable"] += ("TORCH_COMPILE_DISABLE",)


def _parse(variable: str, text: str, kind: type) -> Any:
    if kind is bool:
        word = text.strip().lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise ConfigError(f"environment variable {variable}={text!r}: expected 1 or 0")
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise ConfigError(f"environment variable {variable}={text!r}: expected an integer") from None
    return text


def from_environment(environ: Mapping[str, str], complain: Callable[[str], object] | None = None) -> Config:
    """The configuration that the variables in `environ` set. If a boolean has two variables, either switches it on.

    A wrong value is ignored, and `complain` is called with a sentence about it. Without `complain`, this raises ConfigError.
    """
    values: dict[str, Any] = {}
    for name, variables in _ENVIRONMENT.items():
        for variable in filter(environ.__contains__, variables):
            try:
                value = _parse(variable, environ[variable], _KINDS[name])
                Config(**{name: value})
            except ConfigError as error:
                if complain is None:
                    raise
                complain(f"{error}. It is ignored: {name} stays {getattr(_DEFAULT, name)!r}.")
            else:
                values[name] = values.get(name, False) or value if _KINDS[name] is bool else value
    return Config(**values)


def misspelt(environ: Mapping[str, str]) -> list[str]:
    """A warning for each variable in `environ` that isn't read, but whose name is similar to that of one that is."""
    known = [variable.removeprefix(PREFIX) for variables in _ENVIRONMENT.values() for variable in variables if variable.startswith(PREFIX)]
    unknown = [variable for variable in environ if variable.startswith(PREFIX) and variable.removeprefix(PREFIX) not in known]
    near = [(variable, difflib.get_close_matches(variable.removeprefix(PREFIX), known, n=1, cutoff=0.75)) for variable in sorted(unknown)]
    return [f"environment variable {variable} is not known; did you mean {PREFIX}{found[0]}?" for variable, found in near if found]


_DEFAULT = Config()
complaints: list[str] = []
"""Sentences about wrong environment variables of this process. `framejit.logs` shows them as warnings when it is imported."""
_base: Config = from_environment(os.environ, complaints.append)
_replaced: ContextVar[Config | None] = ContextVar("framejit_config", default=None)


def current() -> Config:
    """The configuration in force in this thread or context."""
    return _replaced.get() or _base


@contextlib.contextmanager
def replace(**options: Any) -> Iterator[Config]:
    """Change options for the `with` block, in this thread or context only.

    Raises UnknownOption for a name that is not an option, ConfigError for a value of the wrong type.
    """
    for name in options:
        if name not in _KINDS:
            raise UnknownOption(f"framejit has no option {name!r}{suggestion(name, _KINDS)}")
    token = _replaced.set(dataclasses.replace(current(), **options))
    try:
        yield current()
    finally:
        _replaced.reset(token)
