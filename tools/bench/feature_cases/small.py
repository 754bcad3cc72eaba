"""Parts of Python and of torch that stop a trace for no good reason: iterators, descriptions of types, storages, random routes."""

from __future__ import annotations

import itertools
import operator
import threading
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from tools.bench.feature_cases.feature import feature


@feature("itertools.accumulate over tensors")
def accumulate(x: torch.Tensor) -> Any:
    return list(itertools.accumulate(x.unbind(), lambda a, b: a * b + 1))


@feature("itertools.islice, count, repeat, compress with a break after them")
def iterators_and_a_break(x: torch.Tensor) -> Any:
    numbers = itertools.count(1)
    chosen = itertools.compress(itertools.islice(x.unbind(), 1, None), itertools.repeat(True, 2))
    first = next(chosen) * next(numbers)
    print(end="")
    return first, [row * next(numbers) for row in chosen]


@feature("finfo and iinfo")
def limits_of_types(x: torch.Tensor) -> Any:
    return x.clamp(min=torch.finfo(x.dtype).min / 2, max=torch.iinfo(torch.int16).max) + torch.finfo(torch.float32).eps * x.dtype.itemsize


@feature("operator.abs and its like")
def operators(x: torch.Tensor) -> Any:
    return operator.abs(x), operator.neg(x), operator.matmul(x, x.T), operator.itemgetter(0)(x), operator.attrgetter("T")(x), operator.methodcaller("sum", 1)(x)


@feature("locals() that stay in their line")
def variables(x: torch.Tensor) -> Any:
    y = x * 2
    return x + locals()["y"], "y" in locals(), locals().get("z")


state = threading.local()
state.factor = 3


@feature("a thread's own variables")
def of_a_thread(x: torch.Tensor) -> Any:
    state.seen = getattr(state, "seen", 0)
    return x * state.factor + state.seen


@feature("torch.utils._pytree")
def trees(x: torch.Tensor) -> Any:
    leaves, structure = pytree.tree_flatten({"a": x, "b": [x * 2, (x + 1, 3)]})
    doubled = pytree.tree_unflatten([leaf * 2 for leaf in leaves], structure)
    return pytree.tree_map(lambda leaf: leaf + 1, doubled), structure.num_leaves


@feature("torch.utils._cxx_pytree")
def trees_in_c(x: torch.Tensor) -> Any:
    import torch.utils._cxx_pytree as cxx

    leaves, structure = cxx.tree_flatten({"a": x, "b": [x * 2, (x + 1, 3)]})
    return cxx.tree_unflatten([leaf * 2 for leaf in leaves], structure)


@feature("SDPAParams and can_use_flash_attention", lambda: (torch.randn(2, 2, 4, 8),))
def attention_parameters(q: torch.Tensor) -> Any:
    params = torch.backends.cuda.SDPAParams(q, q, q, None, 0.0, False, False)
    return q * (2 if torch.backends.cuda.can_use_flash_attention(params) else 3)


@feature("sizes and identity of storages")
def storages(x: torch.Tensor) -> Any:
    y = x.view(-1)
    same = x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    return y * x.untyped_storage().nbytes() if same else y


@feature("data_ptr comparisons")
def addresses(x: torch.Tensor) -> Any:
    y = x.view(-1)
    return (y * 2 if x.data_ptr() == y.data_ptr() else y), x.data_ptr() == (x + 1).data_ptr()


@feature("boolean masks")
def masks(x: torch.Tensor) -> Any:
    y = x.clone()
    y[x > 0] = 0
    return y, x[x > 0].sum()


@feature("Categorical.sample", lambda: (torch.randn(4, 6),))
def categorical(x: torch.Tensor) -> Any:
    return torch.distributions.Categorical(logits=x).sample()


class Mixture(nn.Module):
    """A mixture of experts, routed as transformers' Mixtral did it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.experts = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = torch.topk(self.gate(x).softmax(-1), 2)
        result = torch.zeros_like(x)
        mask = nn.functional.one_hot(chosen, 3).permute(2, 1, 0)
        for index, expert in enumerate(self.experts):
            place, row = torch.where(mask[index])
            result.index_add_(0, row, expert(x[row]) * weights[row, place, None])
        return result


@feature("routing in a mixture of experts", lambda: (Mixture(), torch.randn(4, 6)))
def mixture(module: nn.Module, x: torch.Tensor) -> Any:
    return module(x)


@feature("beam search", lambda: (torch.randn(2, 3, 5),))
def beams(steps: torch.Tensor) -> Any:
    scores, beams = torch.zeros(1), torch.zeros(1, 0, dtype=torch.long)
    for step in steps.log_softmax(-1).unbind():
        total = scores[:, None] + step[: len(scores)]
        scores, flat = total.flatten().topk(3)
        beams = torch.cat([beams[flat // 5], (flat % 5)[:, None]], 1)
    return scores, beams


@feature("message passing with scatter", lambda: (torch.randn(5, 3, requires_grad=True), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])))
def messages(x: torch.Tensor, edges: torch.Tensor) -> Any:
    source, target = edges
    total = torch.zeros_like(x).index_add(0, target, x[source])
    degree = torch.zeros(x.size(0)).scatter_add_(0, target, torch.ones(target.numel()))
    return total / degree.clamp(min=1)[:, None], torch.zeros_like(x).scatter_reduce(0, target[:, None].expand(-1, 3), x[source], "amax")


@feature("tensors as keys of a dict")
def keys(x: torch.Tensor) -> Any:
    y = x * 2
    found = {x: 1, y: 2}
    return x * found[x] + y * found[y]


@feature("attributes of tensors")
def attributes(x: torch.Tensor) -> Any:
    y = x * 2
    y.scale = 3
    return y * y.scale


@feature("torch.tensor of lists with tensors", lambda: (torch.tensor(2.0), torch.tensor(3.0)))
def lists_of_tensors(a: torch.Tensor, b: torch.Tensor) -> Any:
    return torch.tensor([[a, 1.0], [b, 2.0]]) * torch.as_tensor([a, b])


@feature("a Parameter made in the region")
def a_parameter(x: torch.Tensor) -> Any:
    weight = nn.Parameter(torch.ones(6))
    return x * weight
