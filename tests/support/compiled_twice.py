"""Compiles models with and without copying calls of modules that are alike, and keeps all that was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from copies import guard_row, is_about_own_object, looks, texts
from torch import fx, nn

import framejit
from framejit import config
from framejit.driver import entry_spec

Same = Callable[..., None]
"""The type of the fixture `same`."""


class Compiled:
    """A program compiled for one call. `graphs`, `names`, `guards`, `inputs`: all that was made, as rows; `outcome`: the result, and gradients."""

    def __init__(self, model: nn.Module, args: Any, kwargs: Any, copies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.graphs: list[Any] = []
        self.names: list[Any] = []
        self.guards: list[Any] = []
        self.inputs: list[Any] = []
        framejit.reset()
        build = entry_spec.build

        def noting(guards: Any, inputs: Any, captures: Any) -> Any:
            built = build(guards, inputs, captures)
            self.guards += sorted((guard_row(guard) for guard in built.guards if not is_about_own_object(guard)), key=str)
            self.inputs += [source.describe() for source in (*inputs, *captures)]
            return built

        with monkeypatch.context() as patch, config.replace(copy_repeated=copies):
            patch.setattr(entry_spec, "build", noting)
            compiled = framejit.compile(model, backend=self.backend, fullgraph=True)
            self.outcome = outcome(compiled, model, args, kwargs)

    def backend(self, gm: Any, inputs: Any) -> Any:
        numbers = {node: number for number, node in enumerate(gm.graph.nodes)}
        self.graphs.append([node_row(node, numbers) for node in gm.graph.nodes])
        self.names.append([node.name for node in gm.graph.nodes])
        return gm


def node_row(node: fx.Node, numbers: dict[fx.Node, int]) -> Any:
    args = str(fx.map_arg((node.args, node.kwargs), lambda used: f"node {numbers[used]}"))
    return node.op, str(node.target) if node.op != "placeholder" else "", args, looks(node), texts(node), len(node.meta.get("source_fn_stack", ()))


def outcome(run: Callable[..., Any], model: nn.Module, args: Any, kwargs: Any) -> Any:
    torch.manual_seed(0)
    model.zero_grad()
    result = run(*args, **kwargs)
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(dict(result) if hasattr(result, "keys") else result) if isinstance(leaf, torch.Tensor)]
    if any(tensor.requires_grad for tensor in tensors):
        sum(tensor.float().sum() for tensor in tensors if tensor.requires_grad).backward()
    state = {name: value.detach().clone() for name, value in model.state_dict().items()}
    return [tensor.detach().clone() for tensor in tensors], [None if p.grad is None else p.grad.clone() for p in model.parameters()], state
