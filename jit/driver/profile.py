"""Profiles: files that tell a later process which sizes and numbers have varied in which functions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path as File
from typing import Any

from framejit import config, logs
from framejit.driver.compiled_module import home
from framejit.driver.history import with_more
from framejit.driver.policy import Subject
from framejit.errors import ConfigError
from framejit.guards.dynamic import NONE, Dimensions
from framejit.guards.source import SOURCES, Path, Pinned, Slot, Source

VERSION = 1
Varying = dict[Path, Dimensions]
KEYS: dict[str, type] = {kind.__name__: kind for kind in (str, int, bool)}
"""The types of the dicts' keys that paths in profiles may have."""

_learnt: dict[str, Varying] = {}
_loaded: dict[str, Varying] = {}
_read_from: set[str] = set()


def apply(subject: Subject) -> None:
    """Give a function that has no entry yet what profiles say about it. Warns if FRAMEJIT_PROFILE names something that isn't a profile."""
    named = config.current().profile
    if named and named not in _read_from:
        _read_from.add(named)
        try:
            load(named)
        except ConfigError as error:
            logs.warn(f"{config.option_and_variable('profile')}: {error}. It is ignored.")
    if not subject.entries:
        subject.history.vary(_loaded.get(name_of(subject), {}))


def note(subject: Subject) -> None:
    """Note the sizes and numbers that vary in a function, so that `save` writes them."""
    merge(_learnt.setdefault(name_of(subject), {}), subject.history.varying)


def merge(known: Varying, found: Mapping[Path, Dimensions]) -> None:
    """Add the sizes and numbers in `found` to those that are known to vary in a function."""
    for path, dimensions in found.items():
        known[path] = with_more(known.get(path, NONE), dimensions)


def name_of(subject: Subject) -> str:
    """The name of a function in profiles. Functions with the same name share what is known about them."""
    function, code = subject.call.function, home(subject.call.function, subject.call.locals[0] if subject.call.locals else None)
    return f"{subject.name}, {function.__qualname__} ({os.path.basename(code.co_filename)})"


def forget() -> None:
    """Forget what has been learnt, but not what was loaded: part of `reset()`."""
    _learnt.clear()


def save(path: str | os.PathLike[str]) -> None:
    """Write what has been loaded and learnt to a file."""
    known: dict[str, Varying] = {}
    for functions in (_loaded, _learnt):
        for name, varying in functions.items():
            merge(known.setdefault(name, {}), varying)
    paths = {name: [*encoded(known[name])] for name in sorted(known)}
    text = json.dumps({"framejit_profile": VERSION, "varying": {name: found for name, found in paths.items() if found}}, indent=1)
    temporary = File(f"{os.fspath(path)}.{os.getpid()}.tmp")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(path)


def load(path: str | os.PathLike[str]) -> None:
    """Read a file, in addition to those read before. If it can't be read, or isn't a profile, this raises ConfigError and loads nothing."""
    try:
        read = json.loads(File(path).read_text(encoding="utf-8"))
        if read["framejit_profile"] != VERSION:
            raise ConfigError(f"the profile {os.fspath(path)} is of version {read['framejit_profile']}; this framejit reads version {VERSION}: save it again")
        found = {name: dict(map(decoded, paths)) for name, paths in read["varying"].items()}
    except OSError as error:
        raise ConfigError(f"the profile {os.fspath(path)} can't be read: {error.strerror}; framejit.save_profile() writes one") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{os.fspath(path)} is no profile of framejit's ({error}); framejit.save_profile() writes one") from error
    for name, varying in found.items():
        merge(_loaded.setdefault(name, {}), varying)


def encoded(varying: Mapping[Path, Dimensions]) -> Iterator[Any]:
    """Encode what varies for JSON: the steps of each path, and the dimensions, or None for a number. Paths through an object's identity are left out."""
    for path, dimensions in varying.items():
        steps = [encoded_step(kind, key) for kind, key in path]
        if None not in steps:
            yield [steps, None if dimensions is None else sorted(dimensions)]


def encoded_step(kind: type[Source], key: Any) -> list[Any] | None:
    if kind is Pinned:
        return None
    if isinstance(key, Slot):
        return [kind.accessor, "slot", [key.index, key.name]]
    if type(key) is tuple and len(key) == 2 and key[0] in KEYS.values():
        return [kind.accessor, key[0].__name__, key[1]]
    if type(key) is tuple and all(type(part) is int for part in key):
        return [kind.accessor, "index", list(key)]
    return [kind.accessor, "plain", key] if key is None or type(key) in (int, str) else None


def decoded(entry: Any) -> tuple[Path, Dimensions]:
    steps, dimensions = entry
    return tuple(map(decoded_step, steps)), None if dimensions is None else frozenset(map(int, dimensions))


def decoded_step(step: Any) -> tuple[type[Source], Any]:
    accessor, what, key = step
    if what == "slot":
        index, name = key
        return SOURCES[accessor], Slot(int(index), str(name))
    if what == "index":
        return SOURCES[accessor], tuple(map(int, key))
    return SOURCES[accessor], key if what == "plain" else (KEYS[what], KEYS[what](key))
