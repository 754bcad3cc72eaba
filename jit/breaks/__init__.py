"""Break reasons: one class for each way in which tracing stops; its docstring is its documentation page.

A reason is data: the class says what kind it is (`id`, `message`, `explanation`, `hints`), the fields say what it was this time.
`message` and `hints` are format strings over the fields. Nothing here knows where in the user's program it happened: the trace adds that.
"""

from __future__ import annotations

from framejit.breaks.base import Break
from framejit.breaks.program import *
from framejit.breaks.tensors import *


def _subclasses(cls: type[Break]) -> list[type[Break]]:
    return [sub for child in cls.__subclasses__() for sub in (child, *_subclasses(child))]


CATALOGUE: dict[str, type[Break]] = {cls.id: cls for cls in sorted(_subclasses(Break), key=lambda cls: cls.id) if cls.id}
"""Every reason by its id."""
