"""An artifact as data, and as one file: a zip archive with a manifest in JSON, entries as the cache on disk has them, and libraries of kernels.

    manifest.json      what the artifact was made of and under, and what each entry is for
    entries/0          the bytes of an entry
    guards/0           its guards as text
    kernels/<hash>.so  a library of Inductor's kernels
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import secrets
import zipfile
import zlib
from dataclasses import field
from pathlib import Path
from typing import Any

from framejit.errors import ArtifactError
from framejit.quick_dataclass import dataclass
from framejit.saved import folder

FORMAT = 1
MANIFEST = "manifest.json"
STAMP = (1980, 1, 1, 0, 0, 0)
"""The time of all members, so that equal artifacts are equal files."""


@dataclass(frozen=True)
class PrecompiledEntry:
    """One entry.

    Attributes:
        frame: a hash that identifies the function that the entry is for, and the forward of the module.
        name: the name of that function or module, for reports.
        resumed: whether the function is a resume function.
        count: the number of guards.
        text: all guards as text, compressed.
        calls: those guards, as text, that tell which arguments the entry accepts.
        others: how many other guards there are, by what they are about.
        modes: torch's modes under which it was made, as text.
        data: the entry as bytes.
    """

    frame: str
    name: str
    resumed: bool
    count: int
    calls: tuple[str, ...]
    others: dict[str, int]
    modes: str
    text: bytes = field(repr=False)
    data: bytes = field(repr=False)

    @property
    def guards(self) -> tuple[str, ...]:
        """All guards, as text."""
        return tuple(zlib.decompress(self.text).decode().splitlines())


@dataclass(frozen=True)
class LeftOut:
    """Something that an artifact doesn't cover. `frame`: as that of an entry; empty if no function is meant. `what`, `why`: in words."""

    frame: str
    what: str
    why: str


@dataclass(frozen=True)
class Domain:
    """A set of calls for which the entries were made.

    Attributes:
        calls: the shapes of arguments, in words.
        bounds: the ranges of the sizes that vary, in words.
        raising: sizes for which there is no entry, because the program raises an error there, with the error.
        unproved: what keeps z3 from proving that each of the calls has an entry, or raises; empty if that is proved.
    """

    calls: tuple[str, ...]
    bounds: tuple[str, ...]
    raising: tuple[str, ...]
    unproved: tuple[str, ...]

    @property
    def proved(self) -> bool:
        """Return whether z3 has proved that each of the calls has an entry, or raises an error."""
        return not self.unproved


@dataclass(frozen=True)
class ArtifactContents:
    """All that is in an artifact.

    Attributes:
        version: the version of framejit.
        target: the name of what was precompiled.
        options: arguments for `compile`, by which a call without an entry can be compiled.
        circumstances, sources: what `portable.py` has found.
        libraries: the libraries of kernels by their hashes.
        domain: the set of calls that the artifact was made for; None if calls were given one by one.
    """

    version: str
    target: str
    options: dict[str, Any]
    circumstances: dict[str, Any]
    sources: tuple[tuple[str, str, bool], ...]
    entries: tuple[PrecompiledEntry, ...]
    left_out: tuple[LeftOut, ...]
    domain: Domain | None
    libraries: dict[str, bytes] = field(repr=False)


def save(contents: ArtifactContents, path: Path) -> None:
    """Write an artifact to a file, which is replaced as a whole if it exists. Raises OSError."""
    manifest = {
        **dataclasses.asdict(dataclasses.replace(contents, entries=(), libraries={})),
        "format": FORMAT,
        "entries": [
            {**dataclasses.asdict(entry), "text": folder.digest(entry.text), "data": folder.digest(entry.data)} for entry in contents.entries
        ],  # fmt: skip
        "libraries": sorted(contents.libraries),
    }
    members = {MANIFEST: json.dumps(manifest, indent=1).encode()}
    for number, entry in enumerate(contents.entries):
        members |= {f"entries/{number}": entry.data, f"guards/{number}": entry.text}
    members |= {library_member(name): data for name, data in sorted(contents.libraries.items())}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(zipfile.ZipInfo(member, STAMP), data, zipfile.ZIP_DEFLATED)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        unfinished.write_bytes(file.getvalue())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def load(path: Path) -> ArtifactContents:
    """Read an artifact. Raises ArtifactError, or OSError if the file can't be read."""
    where = os.fspath(path)
    data = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            read = {name: archive.read(name) for name in archive.namelist()}
            manifest = json.loads(read[MANIFEST])
            number = manifest.pop("format")
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, NotImplementedError) as error:
        raise damaged(where, error) from None
    if number != FORMAT:
        raise ArtifactError(f"{where} has format {number}, and this framejit reads format {FORMAT}: precompile again with this version")
    try:
        return contents_of(manifest, read)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(where, error) from None


def damaged(where: str, error: Exception) -> ArtifactError:
    return ArtifactError(f"{where} isn't an artifact of framejit's, or is damaged ({type(error).__name__}: {error}): copy it again, or precompile again")


def contents_of(manifest: dict[str, Any], read: dict[str, bytes]) -> ArtifactContents:
    """An artifact made of its manifest and the archive's members. Raises KeyError, TypeError and ValueError if they don't fit."""
    entries = []
    for number, entry in enumerate(manifest.pop("entries")):
        data, text = read[f"entries/{number}"], read[f"guards/{number}"]
        check_digest(data, entry.pop("data"))
        check_digest(text, entry.pop("text"))
        entries.append(PrecompiledEntry(**{name: as_tuple(value) for name, value in entry.items()}, data=data, text=text))
    libraries = {}
    for name in manifest.pop("libraries"):
        libraries[name] = read[library_member(name)]
        check_digest(libraries[name], name)
    domain = manifest.pop("domain")
    return ArtifactContents(
        sources=tuple((name, digest, of_library) for name, digest, of_library in manifest.pop("sources")),
        left_out=tuple(LeftOut(**left) for left in manifest.pop("left_out")),
        entries=tuple(entries),
        libraries=libraries,
        domain=None if domain is None else Domain(**{name: as_tuple(value) for name, value in domain.items()}),
        **manifest,
    )


def library_member(name: str) -> str:
    return f"kernels/{name}{folder.LIBRARY}"


def as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def check_digest(data: bytes, expected: str) -> None:
    if folder.digest(data) != expected:
        raise ValueError("its contents have another hash than when it was saved")
