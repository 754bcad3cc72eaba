"""Keeps the data of small constants, as in `torch.tensor(0.0)`, which their fakes know, up to date.

A torch operator that writes to such a fake drops the fake's data. Some operators don't: those that only count a write, as the stand-in of an optimizer's step
does, and those that write to the tensors of a list. Then the data would be wrong, and is dropped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framejit.graph.fake import version_of


@dataclass(frozen=True, slots=True)
class Constant:
    """A fake whose data is known. `version`, `text`: of the fake and of its data, before an operator runs."""

    fake: FakeTensor
    data: torch.Tensor
    version: int
    text: str

    def is_outdated(self) -> bool:
        """Whether the fake has been written to, and its data is as it was."""
        return self.fake.constant is self.data and version_of(self.fake) != self.version and text_of(self.data) == self.text


def text_of(data: torch.Tensor) -> str:
    """The data as text, of which two are equal for what isn't a number, too."""
    return repr(data.tolist())


def constants_among(fakes: Iterable[torch.Tensor]) -> list[Constant]:
    """The fakes whose data is known."""
    known = [(fake, fake.constant) for fake in fakes if isinstance(fake, FakeTensor) and fake.constant is not None]
    return [Constant(fake, data, version_of(fake), text_of(data)) for fake, data in known]


def forget_outdated(constants: Sequence[Constant], runs_inner_graph: bool = False) -> bool:
    """An operator has run: where it has written to fakes and left their data as it was, they and all that share their memory have none from now on. Whether
    there are such. `runs_inner_graph`: the data knows already what the operator writes, from when its graph was traced, and now knows it twice."""
    outdated = [constant for constant in constants if constant.is_outdated() or (runs_inner_graph and text_of(constant.data) != constant.text)]
    for constant in outdated:
        constant.fake.fake_mode.fake_tensor_converter.invalidate_constant_aliases(constant.data)
        constant.fake.constant = None
    return bool(outdated)
