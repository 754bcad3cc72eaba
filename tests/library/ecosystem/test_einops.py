"""einops in a process that has not called it yet: its search for the backend of tensors splits no graph."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import framejit
import torch
from einops import rearrange, reduce

@framejit.compile(backend="eager", fullgraph=True)
def pooled(x, weight):
    y = rearrange(x, "b (h w) c -> b c h w", h=2) * rearrange(weight, "c -> c 1 1")
    return reduce(y, "b c h w -> b c", "mean")

x, weight = torch.randn(2, 4, 5), torch.nn.Parameter(torch.randn(5))
assert torch.allclose(pooled(x, weight), (x * weight).mean(1))
assert torch.allclose(pooled(x[:, :2], weight), (x[:, :2] * weight).mean(1))
"""


def test_the_first_call_of_a_process_is_one_graph():
    pytest.importorskip("einops")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


OLDER = """
import einops._backends
del einops._backends._type2backend

def get_backend(tensor):
    return found

found = einops._backends.TorchBackend()
get_backend.__module__ = "einops._backends"

import framejit
import torch

assert framejit.compile(lambda x: x * len(get_backend(x).framework_name), backend="eager", fullgraph=True)(torch.ones(1)).item() == 5
"""


def test_a_version_without_a_table_of_types_is_traced():
    pytest.importorskip("einops")
    done = subprocess.run([sys.executable, "-c", OLDER], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


SIZES = """
import framejit
import torch
from einops import rearrange, reduce, repeat

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.last = 0, None

    def forward(self, x):
        self.calls += 1
        self.last = x
        y = rearrange(torch.sin(x), "b n (h d) -> b h n d", h=2)
        return reduce(repeat(y, "b h n d -> b h (n r) d", r=2), "b h n d -> b n", "sum")

net, plain = Net(), Net()
fast = framejit.compile(net, backend="eager", fullgraph=True)
for n in (3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14):
    x = torch.randn(2, n, 4)
    assert torch.equal(fast(x), plain(x))
assert net.calls == 11 and net.last is x
assert framejit.statistics()["graphs"] == 2, framejit.statistics()
"""


def test_sizes_that_vary_are_compiled_once_also_after_a_change():
    pytest.importorskip("einops")
    done = subprocess.run([sys.executable, "-c", SIZES], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
