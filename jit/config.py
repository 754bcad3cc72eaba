"""Configuration: one frozen dataclass of documented options, read from the environment once, replaced as a whole."""

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
"""What all environment variables of ours begin with."""
CHECKS = frozenset({"compile", "guards", "results", "shapes"})
"""The checks that the option `check` may name."""


@dataclass(frozen=True, slots=True)
class Config:
    """Options of framejit. `current()` gives the ones in force, `replace()` changes them for a `with` block.

    Each is set by an environment variable: FRAMEJIT_ and its name in capital letters.
    """

    strict: bool = False
    """Raise framejit's own internal errors instead of running the frame uncompiled."""
    disable: bool = False
    """Compile nothing: decorated functions run uncompiled (TORCH_COMPILE_DISABLE does so too)."""
    logs: str = ""
    """Comma-separated log names, `+name` for more and `-name` for less."""
    logs_out: str = ""
    """A file that the logs are appended to, in place of stderr."""
    backend: str = "inductor"
    """The backend of `compile()` where none is given."""
    recompile_limit: int = 8
    """Entries of a compiled function, or of one module where its first argument is a module; beyond it a call that no entry matches
    runs uncompiled."""
    accumulated_recompile_limit: int = 256
    """Entries of a compiled function for all modules that it is called with together; beyond it a call that no entry matches runs uncompiled."""
    cause_limit: int = 256
    """Entries that may differ in what one and the same guard expects. Lower than recompile_limit, it keeps room for other differences; as
    it is, the other limits are reached first."""
    fail_on_recompile: bool = False
    """Raise RecompileError where a function would be compiled once more."""
    fail_on_recompile_limit: bool = False
    """Raise RecompileError where a limit is reached, instead of running the call uncompiled."""
    inline_depth_limit: int = 200
    """Depth of inlined calls at which tracing stops, well before Python's own recursion limit."""
    unroll_limit: int = 100_000
    """Iterations of loops in one trace after which tracing stops: a loop that never ends must not hang the compiler."""
    automatic_dynamic: bool = True
    """Take sizes and numbers that vary from call to call as symbols, for functions compiled with dynamic=None."""
    profile: str = ""
    """A file written by `save_profile`: which sizes and numbers have varied in an earlier process."""
    check: str = ""
    """What framejit checks of itself, comma-separated, for functions compiled from now on: `compile`: invariants while compiling,
    new guards and models of C functions included; `guards`: on each call, the native verdict of each entry against the guards' Python
    reference; `results`: results and mutations of calls against eager runs on copied arguments; `shapes`: that the guards on symbolic sizes
    imply all that the trace has assumed of them, by z3."""
    check_every: int = 1
    """Of how many calls of a function `check="results"` runs one eagerly too."""

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if type(value) is not kind:
                raise ConfigError(f"option {name!r} is of type {kind.__name__}; got {value!r} of type {type(value).__name__}")
            if isinstance(value, int) and kind is int and value < 1:
                raise ConfigError(f"{told(name)} must be at least 1; got {value}")
        for word in sorted(self.checks() - CHECKS):
            raise ConfigError(f"{told('check')}: there is no check {word!r}{suggestion(word, CHECKS, listing=True)}")
        if "shapes" in self.checks() and importlib.util.find_spec("z3") is None:
            raise ConfigError(f"{told('check')}: shapes needs z3, which is not installed: pip install z3-solver")

    def checks(self) -> frozenset[str]:
        """The words of `check`."""
        return frozenset(filter(None, (word.strip() for word in self.check.split(","))))


def told(name: str) -> str:
    """An option as messages name it: by both its names."""
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
    """The configuration that `environ` asks for; of two variables for one boolean, either switches it on.

    A value that can't be used is ignored, and `complain` is called with a sentence about it. Raises ConfigError for it where nobody takes complaints.
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
    """A warning for each variable in `environ` that nothing reads, but whose name is nearly that of one that is read."""
    known = [variable.removeprefix(PREFIX) for variables in _ENVIRONMENT.values() for variable in variables if variable.startswith(PREFIX)]
    unknown = [variable for variable in environ if variable.startswith(PREFIX) and variable.removeprefix(PREFIX) not in known]
    near = [(variable, difflib.get_close_matches(variable.removeprefix(PREFIX), known, n=1, cutoff=0.75)) for variable in sorted(unknown)]
    return [f"environment variable {variable} is not known; did you mean {PREFIX}{found[0]}?" for variable, found in near if found]


_DEFAULT = Config()
complaints: list[str] = []
"""What is wrong with the variables of this process: `framejit.logs` warns of it, once it can."""
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
