"""Says in words what an artifact covers."""

from __future__ import annotations

from framejit.driver.artifact_file import ArtifactContents, Domain
from framejit.report import counted

FEW = 4
"""So many modules are named."""


def numbered(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def described(contents: ArtifactContents) -> str:
    """Describe in words what an artifact covers."""
    made = contents.circumstances
    size = sum(len(entry.data) for entry in contents.entries) + sum(map(len, contents.libraries.values()))
    own = [name for name, _, of_library in contents.sources if not of_library]
    shown = own if len(own) <= FEW else [*own[: FEW - 1], f"{len(own) - FEW + 1} other modules"]
    of_libraries = len(contents.sources) - len(own)
    lines = [
        f"artifact of {contents.target}, made with framejit {contents.version}, torch {made['torch']}, {made['Python']}, {made['processor']}",
        f"{numbered(len(contents.entries), 'entry', 'entries')}, {numbered(len(contents.libraries), 'library', 'libraries')} of kernels, {size / 1e6:.1f} MB",
        f"made from the source of {', '.join(shown + ([counted(of_libraries, 'file') + ' of libraries'] if of_libraries else [])) or 'nothing'}",
    ]
    for (name, modes), numbers in by_function(contents).items():
        lines.append(f"{name}, {modes}:" if modes else f"{name}:")
        for number in numbers:
            entry = contents.entries[number]
            lines.append(f"  entry {number}: {len(entry.data) / 1e3:.0f} kB, {counted(entry.count, 'guard')}")
            lines += [f"    {text}" for text in entry.calls]
            lines.append("    " + ", ".join(f"{count} on {subject}" for subject, count in entry.others.items()))
    if contents.domain is not None:
        lines += described_domain(contents.domain)
    lines += [f"left out: {left.what}: {left.why}" for left in contents.left_out]
    return "\n".join(lines)


def by_function(contents: ArtifactContents) -> dict[tuple[str, str], list[int]]:
    """The numbers of the entries for each function under the same modes: its name, with "after a graph break" for a resume function, and the modes."""
    found: dict[tuple[str, str], list[int]] = {}
    for number, entry in enumerate(contents.entries):
        found.setdefault((f"{entry.name}, after a graph break" if entry.resumed else entry.name, entry.modes), []).append(number)
    return found


def described_domain(domain: Domain) -> list[str]:
    """The set of calls that an artifact was made for, and what is proved about it, in lines."""
    what = f"calls with {', '.join(domain.calls) or 'the sizes of the example'}{', where ' + ', '.join(domain.bounds) if domain.bounds else ''}"
    proved = "proved by z3: each of the" if domain.proved else "not proved: that each of the"
    lines = [f"{proved} {what} has an entry{', except where the program raises' if domain.raising else ''}"]
    lines += [f"  {text}" for text in domain.unproved]
    lines += [f"  raises for {text}" for text in domain.raising]
    return [*lines, "  (contiguous tensors, like those of the example in all else)"]
