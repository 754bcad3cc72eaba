"""Recurrent networks: on fakes, where the form of the results follows from the arguments' sizes, without running the steps, and under AOTAutograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from operator import getitem
from typing import Any

import torch
from torch import fx

from framejit import breaks
from framejit.graph.on_fakes import stand_in
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.rewrites import rewrites
from framejit.graph.trace_state import TraceState
from framejit.quick_dataclass import dataclass
from framejit.torch_state.own_operators import DRAWS, declare_operator
from framejit.torch_state.torch_modes import AUTOCAST

RECURRENT: dict[Callable[..., Any], str] = {torch.lstm: "lstm", torch.gru: "gru", torch.rnn_tanh: "rnn_tanh", torch.rnn_relu: "rnn_relu"}
"""The operators, each of which runs all layers and steps of a network, and their names."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of such an operator. `batch_sizes`: those of packed sequences, else None; `hx`: for an LSTM, h and c."""

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
        """Parse the operator's positional arguments: its first overload ends with `batch_first`, its second has `batch_sizes`."""
        packed = not isinstance(args[3], bool)
        data, batch_sizes, hx, *rest = args if packed else (args[0], None, *args[1:])
        states = list(hx) if isinstance(hx, (tuple, list)) else [hx]
        return Arguments(*[data, batch_sizes, states, *rest, *([False] if packed else [])])

    def tensors(self) -> list[torch.Tensor]:
        """The tensors that may require a gradient."""
        return [self.data, *self.hx, *self.params]

    def positional(self) -> list[Any]:
        """The arguments in the operator's order."""
        hx = list(self.hx) if len(self.hx) > 1 else self.hx[0]
        options = [list(self.params), self.has_biases, self.num_layers, self.dropout, self.train, self.bidirectional]
        return [self.data, hx, *options, self.batch_first] if self.batch_sizes is None else [self.data, self.batch_sizes, hx, *options]

    def fields(self) -> list[Any]:
        """The arguments in the order of the fields here."""
        return [getattr(self, field.name) for field in fields(self)]

    def draws(self) -> bool:
        """Return whether the network draws random numbers."""
        return self.train and self.dropout > 0 and self.num_layers > 1

    def with_tensors(self, data: torch.Tensor, hx: Sequence[torch.Tensor], params: Sequence[torch.Tensor]) -> Arguments:
        """The arguments, with others in place of those that may require a gradient."""
        return replace(self, data=data, hx=hx, params=params)

    def is_plain(self) -> bool:
        """Return whether the tensors fit each other as far as it is checked here; for others, the operator itself reports the error."""
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
        """Tensors that look like the results: the output and the final states."""
        features = self.hx[0].shape[-1] * (2 if self.bidirectional else 1)
        if self.batch_sizes is not None:
            output = self.data.new_empty((self.data.shape[0], features))
        elif self.batch_first:
            output = self.data.new_empty((self.data.shape[1], self.data.shape[0], features)).transpose(0, 1)
        else:
            output = self.data.new_empty((*self.data.shape[:2], features))
        return [output, *[self.data.new_empty(state.shape) for state in self.hx]]


def run_on_fakes(operator: Callable[..., Any], *args: Any) -> tuple[torch.Tensor, ...]:
    """The operator's results for fakes, connected in autograd's record to each tensor that requires a gradient."""
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


for _operator in RECURRENT:
    stand_in(_operator, partial(run_on_fakes, _operator))


@rule(Phase.REFUSE)
def reject_under_autocast(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a recurrent network under autocast, in a graph that AOTAutograd compiles."""
    if state.is_one_autograd_node and operation.target in RECURRENT and AUTOCAST.counts(state.modes.current.autocast):
        state.vm.unsupported(breaks.NotInsideAutogradNode(f"{operation.name}, a recurrent network under autocast,"))


# Two operators of our own for AOTAutograd, forward and backward, which run torch's own implementation. AOTAutograd would unroll networks over time,
# lose the dropout between layers, and fail on what oneDNN's LSTM saves. Here the forward operator runs the network as eager does, with autograd's record; the
# backward operator asks that record for gradients.

SCHEMA = (
    "Tensor data, Tensor? batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first"
)
OPERATORS = {name: function for function, name in RECURRENT.items()}
RANDOM_STATE = torch.get_rng_state().numel()
"""The number of bytes of the CPU generator's state."""
AUTOGRAD = torch._C.DispatchKey.AutogradFunctionality


class RecordedNetwork:
    """Autograd's record of a network: `results`, and the leaves whose gradients are asked for, by their indices."""

    def __init__(self, results: Sequence[torch.Tensor], leaves: dict[int, torch.Tensor]) -> None:
        self.results = results
        self.leaves = leaves


@contextmanager
def recording() -> Iterator[None]:
    """Inside an operator's implementation, have autograd record what is run."""
    with torch._C._PreserveDispatchKeyGuard(), torch.enable_grad():
        torch._C._dispatch_tls_set_dispatch_key_excluded(AUTOGRAD, False)
        yield


def recorded(name: str, arguments: Arguments, wanted: Sequence[int]) -> RecordedNetwork:
    """Run a network, and record it for these of its tensors."""
    leaves = {index: tensor.detach().requires_grad_(index in wanted) for index, tensor in enumerate(arguments.tensors())}
    states = len(arguments.hx)
    tensors = list(leaves.values())
    with recording():
        results = OPERATORS[name](*arguments.with_tensors(tensors[0], tensors[1 : 1 + states], tensors[1 + states :]).positional())
    return RecordedNetwork(results, {index: leaf for index, leaf in leaves.items() if index in wanted})


@declare_operator(f"recurrent(str name, {SCHEMA}, int[] wanted) -> Tensor[]", tags=DRAWS)
def recurrent(name: str, *args: Any) -> list[torch.Tensor]:
    """The results, followed by a tensor that stands for the record: it holds the state of the random numbers, and the record as its attribute.

    The results are copies: the compiled graph may reuse their memory.
    """
    *given, wanted = args
    arguments = Arguments(*given)
    state = torch.get_rng_state() if wanted and arguments.draws() else torch.empty(0, dtype=torch.uint8)
    if not wanted:
        return [*as_expected(arguments, OPERATORS[name](*arguments.positional())), state]
    record = recorded(name, arguments, wanted)
    state.framejit_record = record  # type: ignore[attr-defined]
    return [*as_expected(arguments, [result.detach().clone() for result in record.results]), state]


@declare_operator(f"recurrent_backward(Tensor?[] gradients, Tensor record, int[] wanted, str name, {SCHEMA}) -> Tensor[]")
def recurrent_backward(gradients: Sequence[torch.Tensor | None], state: torch.Tensor, wanted: Sequence[int], name: str, *args: Any) -> list[torch.Tensor]:
    """Gradients of the wanted tensors. If the record is lost, because the tensor that has it was copied, the network is run again."""
    record = getattr(state, "framejit_record", None)
    if record is None or not record.leaves.keys() >= set(wanted):
        arguments = Arguments(*args)
        if arguments.draws() and (arguments.data.device.type != "cpu" or not state.numel()):
            raise RuntimeError(f"the dropout of {name}() in the forward pass is not known any more")
        with torch.random.fork_rng(devices=()):
            if state.numel():
                torch.set_rng_state(state)
            record = recorded(name, arguments, wanted)
    known = [(result, gradient) for result, gradient in zip(record.results, gradients, strict=True) if gradient is not None]
    leaves = [record.leaves[index] for index in wanted]
    with recording():
        found = torch.autograd.grad([result for result, _ in known], leaves, [gradient for _, gradient in known], retain_graph=True, allow_unused=True)
    return [torch.zeros_like(leaf) if gradient is None else gradient.contiguous() for leaf, gradient in zip(leaves, found, strict=True)]


def as_expected(arguments: Arguments, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results, laid out in memory as the compiler expects them."""
    looks = arguments.empty_results()
    return [
        result if result.stride() == look.stride() else torch.empty_strided(result.shape, look.stride(), dtype=result.dtype, device=result.device).copy_(result)
        for result, look in zip(results, looks, strict=True)
    ]


@recurrent.fake
def fake_recurrent(name: str, *args: Any) -> list[torch.Tensor]:
    *given, wanted = args
    arguments = Arguments(*given)
    return [*arguments.empty_results(), torch.empty(RANDOM_STATE if wanted and arguments.draws() else 0, dtype=torch.uint8, device="cpu")]


@recurrent_backward.fake
def fake_recurrent_backward(gradients: Any, state: Any, wanted: Sequence[int], name: str, *args: Any) -> list[torch.Tensor]:
    tensors = Arguments(*args).tensors()
    return [tensors[index].new_empty(tensors[index].shape) for index in wanted]


def remember(ctx: Any, inputs: tuple[Any, ...], output: list[torch.Tensor]) -> None:
    name, data, batch_sizes, hx, params, *options, _ = inputs
    ctx.save_for_backward(output[-1], data, batch_sizes, *hx, *params)
    ctx.name, ctx.states, ctx.options = name, len(hx), options


@recurrent.gradient(remember)
def differentiate(ctx: Any, gradients: list[torch.Tensor | None]) -> tuple[Any, ...]:
    state, data, batch_sizes, *rest = ctx.saved_tensors
    hx, params = rest[: ctx.states], rest[ctx.states :]
    needed = [ctx.needs_input_grad[1], *ctx.needs_input_grad[3], *ctx.needs_input_grad[4]]
    wanted = [index for index, is_needed in enumerate(needed) if is_needed]
    found = recurrent_backward(gradients[:-1], state, wanted, ctx.name, data, batch_sizes, hx, params, *ctx.options)
    by_index = dict(zip(wanted, found, strict=True))
    every = [by_index.get(index) for index in range(len(needed))]
    return (None, every[0], None, every[1 : 1 + ctx.states], every[1 + ctx.states :], *[None] * (len(ctx.options) + 1))


@rewrites(*RECURRENT)
def put_ours(node: fx.Node) -> None:
    """Put our operator in the place of torch's."""
    arguments = Arguments.of(node.args)
    results = node.meta["example_value"]
    trains = any(result.requires_grad for result in results)
    wanted = [index for index, tensor in enumerate(arguments.tensors()) if trains and tensor.meta["example_value"].requires_grad]
    graph = node.graph
    with graph.inserting_before(node):
        made = graph.call_function(recurrent.overload, (RECURRENT[node.target], *arguments.fields(), wanted))
        made.meta = {**node.meta, "example_value": None}
        items = graph.call_function(getitem, (made, slice(0, len(results))))
        items.meta = dict(node.meta)
    node.replace_all_uses_with(items)
    graph.erase_node(node)
