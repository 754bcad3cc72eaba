"""Recurrent networks on fakes: the form of the results follows from the arguments' sizes, without going through the steps in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch

from framejit.graph.on_fakes import stand_in

RECURRENT: dict[Callable[..., Any], str] = {torch.lstm: "lstm", torch.gru: "gru", torch.rnn_tanh: "rnn_tanh", torch.rnn_relu: "rnn_relu"}
"""The operators, by which all layers and steps of a network run, and their names."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of such an operator. `batch_sizes`: of packed sequences, else None; `hx`: of an LSTM, h and c."""

    data: torch.Tensor
    batch_sizes: torch.Tensor | None
    hx: Sequence[torch.Tensor]
    params: Sequence[torch.Tensor]
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    @staticmethod
    def of(args: Sequence[Any]) -> Arguments:
        """The arguments as the operator takes them: its first overload ends with `batch_first`, its second has `batch_sizes`."""
        packed = not isinstance(args[3], bool)
        data, batch_sizes, hx, *rest = args if packed else (args[0], None, *args[1:])
        states = list(hx) if isinstance(hx, (tuple, list)) else [hx]
        return Arguments(*[data, batch_sizes, states, *rest, *([False] if packed else [])])

    def tensors(self) -> list[torch.Tensor]:
        """The tensors that may require a gradient."""
        return [self.data, *self.hx, *self.params]

    def positional(self) -> list[Any]:
        """The arguments as the operator takes them."""
        hx = list(self.hx) if len(self.hx) > 1 else self.hx[0]
        options = [list(self.params), self.has_biases, self.num_layers, self.dropout, self.train, self.bidirectional]
        return [self.data, hx, *options, self.batch_first] if self.batch_sizes is None else [self.data, self.batch_sizes, hx, *options]

    def fields(self) -> list[Any]:
        """The arguments in the order in which they stand here."""
        return [getattr(self, field.name) for field in fields(self)]

    def draws(self) -> bool:
        """Whether the network draws random numbers."""
        return self.train and self.dropout > 0 and self.num_layers > 1

    def with_tensors(self, data: torch.Tensor, hx: Sequence[torch.Tensor], params: Sequence[torch.Tensor]) -> Arguments:
        """The arguments with others in the place of those that may require a gradient."""
        return replace(self, data=data, hx=hx, params=params)

    def is_plain(self) -> bool:
        """Whether the tensors fit each other as far as it is looked at here; the operator itself says what is wrong with others."""
        rank = 3 if self.batch_sizes is None else 2
        tensors = self.tensors()
        return (
            self.data.dim() == rank
            and all(state.dim() == 3 for state in self.hx)
            and not torch.is_autocast_enabled(self.data.device.type)
            and bool(self.params)
            and self.data.shape[-1] == self.params[0].shape[-1]
            and all(tensor.dtype == self.data.dtype and tensor.device == self.data.device for tensor in tensors)
        )

    def empty_results(self) -> list[torch.Tensor]:
        """Tensors that look like the results: the output, and what the states are in the end."""
        features = self.hx[0].shape[-1] * (2 if self.bidirectional else 1)
        if self.batch_sizes is not None:
            output = self.data.new_empty((self.data.shape[0], features))
        elif self.batch_first:
            output = self.data.new_empty((self.data.shape[1], self.data.shape[0], features)).transpose(0, 1)
        else:
            output = self.data.new_empty((*self.data.shape[:2], features))
        return [output, *[self.data.new_empty(state.shape) for state in self.hx]]


def run_on_fakes(operator: Callable[..., Any], *args: Any) -> tuple[torch.Tensor, ...]:
    """What the operator gives for fakes, with a way back to each tensor that requires a gradient."""
    arguments = Arguments.of(args)
    if not arguments.is_plain():
        return operator(*args)  # type: ignore[no-any-return]
    results = arguments.empty_results()
    if arguments.draws():
        torch.rand(0, device=arguments.data.device)  # for modes that look for operators that draw
    if torch.is_grad_enabled():
        reached = [tensor.sum() for tensor in arguments.tensors() if tensor.requires_grad]
        if reached:
            results = [result * torch.stack(reached).sum() for result in results]
    return tuple(results)


for operator in RECURRENT:
    stand_in(operator, partial(run_on_fakes, operator))
