"""What a program says of profiles: the files in which it is kept, from one process to the next, which sizes and numbers vary."""

from __future__ import annotations

import os

from framejit.directives import untraced
from framejit.driver import profile


@untraced
def save_profile(path: str | os.PathLike[str]) -> None:
    """Write to a file which sizes and numbers have been seen to vary, in all functions compiled so far, and what was read by `load_profile`.

    A process that reads it, by FRAMEJIT_PROFILE or `load_profile`, takes them as symbols from the first compilation on. What is only found
    by its identity, as globals are, isn't in it. Functions are told apart by their names and their files' names.

    Raises OSError where the file can't be written; what was there before is kept then.
    """
    profile.save(path)


@untraced
def load_profile(path: str | os.PathLike[str]) -> None:
    """Read a file that `save_profile` has written, for functions that haven't been compiled yet. It may be wrong: sizes are guarded as ever.

    Raises ConfigError for a file that can't be read, or is something else.
    """
    profile.load(path)
