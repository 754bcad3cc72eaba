"""save_profile() and load_profile(): a profile is a file that tells the next process which sizes and numbers vary."""

from __future__ import annotations

import os

from framejit.driver import profile
from framejit.said.directives import untraced


@untraced
def save_profile(path: str | os.PathLike[str]) -> None:
    """Write to a file which sizes and numbers have varied in all functions compiled so far, together with the profiles that were loaded.

    A process that reads the file, by FRAMEJIT_PROFILE or `load_profile`, makes these sizes and numbers symbols from the first compilation on. Values that
    are reached by the identity of an object, as through globals, aren't in the file. Functions are identified by their names and their files' names.

    Raises OSError if the file can't be written; a file that was there before is kept then.
    """
    profile.save(path)


@untraced
def load_profile(path: str | os.PathLike[str]) -> None:
    """Read a file that `save_profile` has written. It is used for functions that haven't been compiled yet.

    A wrong or outdated profile does no harm, since sizes are guarded as usual. Raises ConfigError if the file can't be read, or isn't a profile.
    """
    profile.load(path)
