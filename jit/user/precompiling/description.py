"""Says in words what an artifact covers."""

from __future__ import annotations

from framejit.driver.artifact_file import ArtifactContents
from framejit.report import counted


def numbered(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def described(contents: ArtifactContents) -> str:
    """What an artifact covers, in words."""
    made = contents.circumstances
    size = sum(len(entry.data) for entry in contents.entries) + sum(map(len, contents.libraries.values()))
    lines = [
        f"artifact of {contents.target}: framejit {contents.version}, torch {made['torch']}, {made['Python']}, {made['processor']}",
        f"{numbered(len(contents.entries), 'entry', 'entries')}, {numbered(len(contents.libraries), 'library', 'libraries')} of kernels, {size / 1e6:.1f} MB",
    ]
    for number, entry in enumerate(contents.entries):
        lines.append(f"entry {number}: {entry.name}{f', with {entry.modes}' if entry.modes else ''}")
        lines += [f"  {text}" for text in entry.calls]
        others = len(entry.guards) - len(entry.calls)
        lines.append(f"  and {counted(others, 'other guard')}")
    lines += [f"left out: {left.what}: {left.why}" for left in contents.left_out]
    return "\n".join(lines)
