"""`Break`, the base class of break reasons: data that says why tracing stopped. The docstring of each reason is its page of documentation."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import ClassVar, dataclass_transform

from framejit.quick_dataclass import dataclass


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Break:
    """Tracing stopped. Base of all reasons, never used itself; each is a frozen dataclass."""

    id: ClassVar[str] = ""
    message: ClassVar[str] = ""
    explanation: ClassVar[str] = ""
    hints: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        if inspect.get_annotations(cls):  # a class without fields of its own inherits all methods
            dataclass(frozen=True)(cls)

    def text(self) -> str:
        """One line: what happened, with the specifics."""
        return self.message.format(**self._specifics()).removesuffix(": ")

    def advice(self) -> tuple[str, ...]:
        """The advice to the user, with the specifics."""
        specifics = self._specifics()
        return tuple(hint.format(**specifics) for hint in self.hints)

    def _specifics(self) -> dict[str, str]:
        return {f.name: str(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def page(cls) -> str:
        """The documentation of this kind of break: its docstring."""
        return inspect.cleandoc(cls.__doc__ or "")

    def __str__(self) -> str:
        return f"{self.id} {self.text()}"


class BreakOf(Break):
    """Tracing stopped because of something that `what` names. Base of most reasons, never used itself."""

    what: str
