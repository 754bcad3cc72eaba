"""Graphs that leave the process: they print, pickle, copy, and are Python that can be imported."""

from __future__ import annotations

import copy
import importlib.util
import pickle

import pytest
import torch
from torch import nn

import framejit


class Keywords(nn.Module):
    """Names that Python's grammar has for itself, or that are none."""

    def __init__(self):
        super().__init__()
        self.register_parameter("from", nn.Parameter(torch.ones(3)))
        self.register_buffer("class", torch.ones(3))
        self.register_buffer("1x", torch.ones(3))
        self.add_module("in", nn.Linear(3, 3))

    def forward(self, x, **others):
        return self._modules["in"](x) * getattr(self, "from") + getattr(self, "class") + others["lambda"] + getattr(self, "1x")


def many_arguments(x, *, bias):
    with torch.no_grad():
        y = torch.nn.functional.linear(input=x, weight=bias, bias=None)
    return torch.cat(tensors=[y, y], dim=0), y.to(torch.float16), torch.full((2,), float("inf")), x[..., None, 1:], x.new_full((2,), float("nan"))


def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(lambda y: y.sin().cos(), x, use_reentrant=False)


CALLS = {
    "keywords": (Keywords(), (torch.ones(2, 3),), {"lambda": torch.ones(3)}),
    "arguments": (many_arguments, (torch.ones(2, 3),), {"bias": torch.ones(4, 3)}),
    "checkpoint": (checkpointed, (torch.ones(3, requires_grad=True),), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_graph_runs_elsewhere(name, tmp_path):
    target, args, kwargs = CALLS[name]
    seen = []

    def keep(gm, example_inputs):
        seen.append((gm, example_inputs))
        return gm.forward

    framejit.compile(target, backend=keep, fullgraph=True)(*args, **kwargs)
    ((gm, inputs),) = seen
    for node in gm.graph.nodes:
        node.meta.clear()
    expected = gm(*inputs)
    assert gm.print_readable(print_output=False)
    gm.to_folder(tmp_path / "graph", "Graph")
    spec = importlib.util.spec_from_file_location(f"graph_of_{name}", tmp_path / "graph" / "module.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for other in (pickle.loads(pickle.dumps(gm)), copy.deepcopy(gm)):
        torch.testing.assert_close(other(*inputs), expected, rtol=0, atol=0, equal_nan=True)
    assert module.Graph.forward.__code__.co_argcount == 1 + len(inputs)
