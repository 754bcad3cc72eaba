"""`PartsContext`, which makes the fake of a tensor from outside whose data is in other tensors, and not in its own memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode


class PartsContext(ABC):
    """Makes the fakes of one such tensor. It takes the place of torch's SymbolicContext."""

    __slots__ = ()

    @abstractmethod
    def make(self, mode: FakeTensorMode, tensor: Any) -> Any:
        """A new fake of the real tensor."""
