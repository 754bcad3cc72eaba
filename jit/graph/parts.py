"""`PartsContext`, which makes the fake of a tensor from outside whose data is in other tensors, and not in its own memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from framejit.graph.inputs import GraphInput


class PartsContext(ABC):
    """Makes the fakes of one such tensor. It takes the place of torch's SymbolicContext."""

    __slots__ = ()

    @abstractmethod
    def make(self, mode: FakeTensorMode, tensor: Any) -> Any:
        """A new fake of the real tensor."""

    @abstractmethod
    def inputs_with_data(self, described: GraphInput, known: Mapping[int, GraphInput]) -> list[GraphInput]:
        """The inputs in whose memory the data of this one is. `known`: all inputs, by the identity of the value."""
