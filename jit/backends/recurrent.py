"""Recurrent networks in what AOTAutograd makes of graphs: two operators of our own, forward and backward, which run torch's own implementation.

AOTAutograd would unroll them over time, lose the dropout between layers, and fail with what oneDNN's LSTM saves. Here the forward operator runs
the network as eager does, with autograd's record; the backward operator asks that record for gradients.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

from framejit.graph.inner import nodes_inside
from framejit.graph.recurrent import RECURRENT, Arguments

LIBRARY = torch.library.Library("framejit", "FRAGMENT")
SCHEMA = (
    "Tensor data, Tensor? batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first"
)
LIBRARY.define(f"recurrent(str name, {SCHEMA}, int[] wanted) -> Tensor[]", tags=[torch.Tag.nondeterministic_seeded])
LIBRARY.define(f"recurrent_backward(Tensor?[] gradients, Tensor record, int[] wanted, str name, {SCHEMA}) -> Tensor[]")
OPERATORS = {name: function for function, name in RECURRENT.items()}
RANDOM_STATE = torch.get_rng_state().numel()
"""Bytes of the state of the CPU's random numbers."""
AUTOGRAD = torch._C.DispatchKey.AutogradFunctionality


class RecordedNetwork:
    """What autograd has recorded of a network: `results`, and the leaves that gradients are asked for, by their indices."""

    def __init__(self, results: Sequence[torch.Tensor], leaves: dict[int, torch.Tensor]) -> None:
        self.results = results
        self.leaves = leaves


@contextmanager
def recording() -> Iterator[None]:
    """Inside of an operator's implementation, have autograd record what is run."""
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


@torch.library.impl(LIBRARY, "recurrent", "CompositeExplicitAutograd")
def recurrent(name: str, *args: Any) -> list[torch.Tensor]:
    """The results, and behind them a tensor that stands for the record: it holds the state of the random numbers, and the record as its attribute.

    The results are copies: what is made of the graph may use their memory for something else.
    """
    *given, wanted = args
    arguments = Arguments(*given)
    state = torch.get_rng_state() if wanted and arguments.draws() else torch.empty(0, dtype=torch.uint8)
    if not wanted:
        return [*as_expected(arguments, OPERATORS[name](*arguments.positional())), state]
    record = recorded(name, arguments, wanted)
    state.framejit_record = record  # type: ignore[attr-defined]
    return [*as_expected(arguments, [result.detach().clone() for result in record.results]), state]


@torch.library.impl(LIBRARY, "recurrent_backward", "CompositeExplicitAutograd")
def recurrent_backward(gradients: Sequence[torch.Tensor | None], state: torch.Tensor, wanted: Sequence[int], name: str, *args: Any) -> list[torch.Tensor]:
    """Gradients of the wanted tensors. Where the record is lost, because the tensor that has it was copied, the network is run once more."""
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
    """The results, laid out in memory as the compiler was told."""
    looks = arguments.empty_results()
    return [
        result if result.stride() == look.stride() else torch.empty_strided(result.shape, look.stride(), dtype=result.dtype, device=result.device).copy_(result)
        for result, look in zip(results, looks, strict=True)
    ]


@torch.library.register_fake("framejit::recurrent", lib=LIBRARY)
def fake_recurrent(name: str, *args: Any) -> list[torch.Tensor]:
    *given, wanted = args
    arguments = Arguments(*given)
    return [*arguments.empty_results(), torch.empty(RANDOM_STATE if wanted and arguments.draws() else 0, dtype=torch.uint8, device="cpu")]


@torch.library.register_fake("framejit::recurrent_backward", lib=LIBRARY)
def fake_recurrent_backward(gradients: Any, state: Any, wanted: Sequence[int], name: str, *args: Any) -> list[torch.Tensor]:
    tensors = Arguments(*args).tensors()
    return [tensors[index].new_empty(tensors[index].shape) for index in wanted]


def remember(ctx: Any, inputs: tuple[Any, ...], output: list[torch.Tensor]) -> None:
    name, data, batch_sizes, hx, params, *options, _ = inputs
    ctx.save_for_backward(output[-1], data, batch_sizes, *hx, *params)
    ctx.name, ctx.states, ctx.options = name, len(hx), options


def differentiate(ctx: Any, gradients: list[torch.Tensor | None]) -> tuple[Any, ...]:
    state, data, batch_sizes, *rest = ctx.saved_tensors
    hx, params = rest[: ctx.states], rest[ctx.states :]
    needed = [ctx.needs_input_grad[1], *ctx.needs_input_grad[3], *ctx.needs_input_grad[4]]
    wanted = [index for index, is_needed in enumerate(needed) if is_needed]
    found = torch.ops.framejit.recurrent_backward(gradients[:-1], state, wanted, ctx.name, data, batch_sizes, hx, params, *ctx.options)
    by_index = dict(zip(wanted, found, strict=True))
    every = [by_index.get(index) for index in range(len(needed))]
    return (None, every[0], None, every[1 : 1 + ctx.states], every[1 + ctx.states :], *[None] * (len(ctx.options) + 1))


torch.library.register_autograd("framejit::recurrent", differentiate, setup_context=remember, lib=LIBRARY)


def replace(gm: fx.GraphModule) -> None:
    """Put our operator in the place of each recurrent network, in the graph and in graphs inside of it."""
    for node in nodes_inside(gm):
        if node.op == "call_function" and node.target in RECURRENT:
            replace_node(node)


def replace_node(node: fx.Node) -> None:
    arguments = Arguments.of(node.args)
    results = node.meta["example_value"]
    trains = any(result.requires_grad for result in results)
    wanted = [index for index, tensor in enumerate(arguments.tensors()) if trains and tensor.meta["example_value"].requires_grad]
    graph = node.graph
    with graph.inserting_before(node):
        made = graph.call_function(torch.ops.framejit.recurrent.default, (RECURRENT[node.target], *arguments.fields(), wanted))
        made.meta = {**node.meta, "example_value": None}
        items = graph.call_function(operator.getitem, (made, slice(0, len(results))))
        items.meta = dict(node.meta)
    node.replace_all_uses_with(items)
    graph.erase_node(node)
