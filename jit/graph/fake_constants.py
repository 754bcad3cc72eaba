"""Keeps the data that fakes of small constants have, as in `torch.tensor(0.0)`, up to date.

A torch operator that writes to such a fake drops the fake's data. Some operators don't: those that only count a write, as the stand-in of an optimizer's step
does, and those that write to the tensors of a list. Then the data would be wrong, and is dropped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framejit.graph.fake import version_of
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Constant:
    """A fake whose data is known. `version`, `text`: the version of the fake and the text of its data, before an operator runs."""

    fake: FakeTensor
    data: torch.Tensor
    version: int
    text: str

    def is_outdated(self) -> bool:
        """Return whether the fake has been written to, while its data has stayed the same."""
        return self.fake.constant is self.data and version_of(self.fake) != self.version and text_of(self.data) == self.text


def text_of(data: torch.Tensor) -> str:
    """The data as text, which is equal for equal data even if that is NaN."""
    return repr(data.tolist())


def constants_among(fakes: Iterable[torch.Tensor]) -> list[Constant]:
    """The fakes whose data is known."""
    known = [(fake, fake.constant) for fake in fakes if isinstance(fake, FakeTensor) and fake.constant is not None]
    return [Constant(fake, data, version_of(fake), text_of(data)) for fake, data in known]


def forget_outdated(constants: Sequence[Constant], runs_inner_graph: bool = False) -> bool:
    """Remove the data of fakes, and of all that share their memory, if the operator that has run wrote to them without changing it. Returns whether there were
    any. `runs_inner_graph`: the data already had the operator's writes from when its graph was traced, and has them twice now."""
    outdated = [constant for constant in constants if constant.is_outdated() or (runs_inner_graph and text_of(constant.data) != constant.text)]
    forget(outdated)
    return bool(outdated)


def forget(constants: Iterable[Constant]) -> None:
    """Remove the data of fakes, and of all that share their memory."""
    for constant in constants:
        constant.fake.fake_mode.fake_tensor_converter.invalidate_constant_aliases(constant.data)
        constant.fake.constant = None
