"""Numbers that all elements of a tensor share are computed once, before Inductor's loops: in an optimizer's step, powers of decay rates."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import framejit
from framejit.backends import inductor_compile as inductor
from framejit.backends.shared_numbers import compute_once

STRIDED = torch.ops.aten.as_strided.default


def corrected(parameter, moment, count):
    correction = 1 - 0.9**count
    return parameter * correction, parameter - moment / correction.sqrt(), parameter + correction * 2, correction * 3


def cheap(parameter, moment, count):
    return parameter * (count + 1), parameter - moment / (count * 2).clamp(min=1)


def transformed(function, *args):
    module = make_fx(function, tracing_mode="fake")(*args)
    compute_once(module.graph)
    module.graph.lint()
    module.recompile()
    return module


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_costly_numbers_lie_in_memory(dtype):
    args = torch.randn(4, 3, dtype=dtype), torch.randn(4, 3, dtype=dtype), torch.tensor(3.0)
    module = transformed(corrected, *args)
    made = module.graph.find_nodes(op="call_function", target=STRIDED)
    assert len(made) == 3 and all(node.meta["val"].dim() == 0 and node.users for node in made)
    for node in module.graph.nodes:
        if isinstance(node.meta.get("val"), torch.Tensor) and node.meta["val"].dim():
            assert all(arg in made or arg.op == "placeholder" or arg.meta["val"].dim() for arg in node.all_input_nodes)
    torch.testing.assert_close(module(*args), corrected(*args), rtol=0, atol=0)


def test_others_stay_in_the_loops():
    args = torch.randn(4), torch.randn(4), torch.tensor(3.0)
    assert not transformed(cheap, *args).graph.find_nodes(op="call_function", target=STRIDED)
    assert not transformed(lambda x, y, n: x**y + x.exp(), *args).graph.find_nodes(op="call_function", target=STRIDED)


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.NAdam, torch.optim.Adamax], ids=lambda make: make.__name__)
def test_optimizers(make, monkeypatch):
    graphs = []
    compile_fx_inner = inductor.compile_fx_inner

    def watched(module, *args, **kwargs):
        graphs.append(copy.deepcopy(module.graph))
        return compile_fx_inner(module, *args, **kwargs)

    monkeypatch.setattr(inductor, "compile_fx_inner", watched)
    framejit.reset()
    torch.manual_seed(0)
    ours = torch.nn.Linear(5, 5)
    eagers = copy.deepcopy(ours)
    steps = []
    for model in (ours, eagers):
        optimizer = make(model.parameters(), lr=0.01)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        steps.append(step)
    compiled = framejit.compile(steps[0], backend="inductor")
    for _ in range(5):
        x = torch.randn(3, 5)
        torch.testing.assert_close(compiled(x), steps[1](x))
    torch.testing.assert_close(list(ours.parameters()), list(eagers.parameters()))

    def has(target):
        return any(graph.find_nodes(op="call_function", target=target) for graph in graphs)

    # Adamax's only number is an argument of addcdiv, which stays one operator or, in torch 2.11, becomes multiplications.
    assert has(STRIDED) == (make is not torch.optim.Adamax or not has(torch.ops.aten.addcdiv.default))
