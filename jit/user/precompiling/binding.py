"""Binds an artifact to a program: checks that it may run here, and compiles the program in name only."""

from __future__ import annotations

import dataclasses
from typing import Any

from framejit import config
from framejit.backends.registry import lookup
from framejit.driver import portable
from framejit.driver.options import Options
from framejit.driver.precompiled import BoundArtifact, UnpackedArtifact
from framejit.errors import ArtifactError
from framejit.user.api import compile_target


def bound(unpacked: UnpackedArtifact, target: Any, on_miss: str) -> Any:
    """Return the compiled target, whose calls take their entries from an artifact. Raises ArtifactError if it can't be used in this process."""
    contents = unpacked.contents
    options = contents.options
    problems = list(portable.differences(contents.circumstances))
    problems += portable.changed_sources(contents.sources)
    problems += [portable.IN_A_GROUP] if portable.is_in_a_group() else []
    if problems:
        raise ArtifactError("\n  ".join([f"the artifact of {contents.target} can't be used here:", *problems]))
    backend = dataclasses.replace(lookup(options["backend"]), kwargs=options["kwargs"])
    artifact = BoundArtifact(unpacked, on_miss)
    settings = Options(backend, False, config.current(), True, options["dynamic"], regions=options["regions"], precompiled=artifact)
    return compile_target(target, settings)
