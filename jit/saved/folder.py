"""The folder of compiled code on disk: entries of compiled functions, and the libraries of their kernels.

    <folder>/<circumstances>/<function>/<hash>.entry
    <folder>/kernels/<hash>.so

Only the user who runs the process may be able to write to it, since what lies there is run. Files are written under another name and then renamed, so that
no process sees half of one, and each says what its contents' hash is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from framejit import config, logs
from framejit.quick_dataclass import dataclass
from framejit.report import counted

MAGIC = b"framejit entry 1\n"
ENTRY, LIBRARY, UNFINISHED = ".entry", ".so", ".new"
MOST_BYTES = 4 << 30
"""If there is more than this, the files that have been unused longest are deleted."""
MOST_DAYS = 30
"""Files that have not been used for so long are deleted."""
DAY = 24 * 3600.0
_other: ContextVar[Path | None] = ContextVar("framejit_other_folder", default=None)


@contextlib.contextmanager
def using(other: Path) -> Iterator[None]:
    """Read from another folder, and write there, within the `with` block, in this thread or context only. It exists, and no one else may write to it."""
    token = _other.set(other)
    try:
        yield
    finally:
        _other.reset(token)


def temporary(owner: Any) -> Path:
    """A new folder that only the user can read, and that is deleted when the owner is gone, or the process ends."""
    made = tempfile.mkdtemp(prefix="framejit-")
    weakref.finalize(owner, delete_temporary, made, os.getpid())
    return Path(made)


def delete_temporary(made: str, process: int) -> None:
    """Delete a folder, unless this process was forked from the one that has made it."""
    if os.getpid() == process:
        shutil.rmtree(made, ignore_errors=True)


def place() -> Path:
    """The folder, which may not exist yet: that of FRAMEJIT_CACHE_DIR, or one in the user's folder for caches."""
    named = config.current().cache_dir
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "framejit" / "compiled"


def usable() -> Path | None:
    """The folder, which is made if it doesn't exist. The result is None if it can't be made, which the log says, or if others may write to it, of which a
    warning is given once."""
    other = _other.get()
    if other is not None:
        return other
    try:
        folder = place()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_own(folder):
            return folder
    except (OSError, RuntimeError) as error:
        logs.info("cache", f"there is no folder for compiled code: {error}")
        return None
    logs.warn_once("cache", f"compiled code is neither read from {folder} nor written there, because others may write to it: run chmod go-w on it, or name "
                   f"another folder by {config.option_and_variable('cache_dir')}")  # fmt: skip
    return None


def is_own(path: Path) -> bool:
    """Return whether a file or folder belongs to the user who runs the process, and no one else may write to it. Where systems have no such users: True."""
    if not hasattr(os, "getuid"):
        return True
    found = os.stat(path)
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entries(folder: Path) -> list[Path]:
    """The entries in a folder, the oldest first."""
    with contextlib.suppress(OSError):
        found = [(each.stat().st_ctime_ns, Path(each.path)) for each in os.scandir(folder) if each.name.endswith(ENTRY)]
        return [path for _, path in sorted(found)]
    return []


def read_entry(path: Path) -> bytes | None:
    """The contents of an entry, None if they are gone, or aren't what was written: such a file is deleted, and the log says so."""
    try:
        if not is_own(path):
            return None
        data = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    contents = data[len(MAGIC) + 64 :]
    if data.startswith(MAGIC) and data[len(MAGIC) : len(MAGIC) + 64] == digest(contents).encode():
        return contents
    logs.info("cache", f"{path} is damaged, and is deleted")
    with contextlib.suppress(OSError):
        path.unlink()
    return None


def write_entry(folder: Path, contents: bytes) -> Path:
    """Write an entry. Raises OSError."""
    path = folder / (digest(contents)[:32] + ENTRY)
    write(path, MAGIC + digest(contents).encode() + contents)
    return path


def write(path: Path, data: bytes) -> None:
    """Write a file as a whole, readable for the user alone. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.parent / f"{secrets.token_hex(8)}{UNFINISHED}"
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


# What the folder holds.


@dataclass(frozen=True)
class Kept:
    """A file in the folder. `used`: when it was last read or written, in seconds since 1970."""

    path: Path
    size: int
    used: float


def files(folder: Path) -> Iterator[Kept]:
    """All files in the folder."""
    for path in folder.rglob("*"):
        if path.suffix in (ENTRY, LIBRARY, UNFINISHED):
            with contextlib.suppress(OSError):
                found = path.stat()
                yield Kept(path, found.st_size, found.st_mtime)


def prune(folder: Path, most_bytes: int = MOST_BYTES, most_days: float = MOST_DAYS) -> int:
    """Delete what is old, what has been left unfinished, and what has been unused longest if there is too much; return the number of files."""
    now, kept, deleted = time.time(), 0, 0
    for file in sorted(files(folder), key=lambda file: -file.used):
        kept += file.size
        is_being_written = file.path.suffix == UNFINISHED and now - file.used < DAY
        too_old = now - file.used > most_days * DAY or (file.path.suffix == UNFINISHED and not is_being_written)
        if too_old or (kept > most_bytes and not (is_being_written and most_bytes)):
            with contextlib.suppress(OSError):
                file.path.unlink()
                deleted += 1
                kept -= file.size
    return deleted


def clear(folder: Path) -> int:
    """Delete everything; return the number of files."""
    deleted = prune(folder, 0)
    for path in sorted(folder.rglob("*"), reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir()
    return deleted


def listing() -> str:
    """Describe the folder: a line for each folder of entries, and the sum."""
    root = place()
    found = list(files(root)) if root.is_dir() else []
    lines = [f"compiled code in {root}"]
    by_folder: dict[Path, list[Kept]] = {}
    for file in found:
        by_folder.setdefault(file.path.parent, []).append(file)
    for where, kept in sorted(by_folder.items(), key=lambda item: -max(file.used for file in item[1])):
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(max(file.used for file in kept)))
        lines.append(f"{counted(len(kept), 'file'):>9}  {megabytes(kept):>9}  last used {used}  {where.relative_to(root)}")
    lines.append(f"{counted(len(found), 'file')}, {megabytes(found)}; what is unused for {MOST_DAYS} days is deleted")
    return "\n".join(lines)


def cleared() -> str:
    """Delete everything; say so."""
    root = place()
    return f"{counted(clear(root) if root.is_dir() else 0, 'file')} deleted in {root}"


def megabytes(kept: list[Kept]) -> str:
    return f"{sum(file.size for file in kept) / 1e6:.1f} MB"
