"""Operators that an extension in C++ defines with TORCH_LIBRARY, with what Python registers for them: the fake and the gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from agreement import agree
from torch.utils import cpp_extension

import framejit

SOURCE = """
#include <torch/library.h>
#include <torch/types.h>

// A kernel that looks at data, which no tracer could follow.
at::Tensor clipped(const at::Tensor& x, double limit) {
  at::Tensor out = at::empty_like(x, at::MemoryFormat::Contiguous);
  at::Tensor in = x.contiguous();
  const float* from = in.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); i++) to[i] = from[i] > limit ? limit : from[i];
  return out;
}

void count_into(at::Tensor& counts, const at::Tensor& x) {
  for (int64_t i = 0; i < x.numel(); i++) counts[x[i].item<int64_t>()] += 1;
}

int64_t unseen(const at::Tensor& x) { return x.numel(); }

TORCH_LIBRARY(framejit_cpp, m) {
  m.def("clipped(Tensor x, float limit) -> Tensor");
  m.def("count_into(Tensor(a!) counts, Tensor x) -> ()");
  m.def("no_fake(Tensor x, float limit) -> Tensor");
}

TORCH_LIBRARY_IMPL(framejit_cpp, CPU, m) {
  m.impl("clipped", &clipped);
  m.impl("count_into", &count_into);
  m.impl("no_fake", &clipped);
}
"""
pytestmark = [pytest.mark.slow, pytest.mark.only_eager("the tests name the backends that they are about")]
BACKENDS = ("eager", "aot_eager", "inductor")


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("operators")
    try:
        cpp_extension.load_inline("framejit_cpp", SOURCE, build_directory=str(folder), is_python_module=False)
    except (OSError, RuntimeError) as error:
        pytest.skip(f"no C++ extension can be built here: {error}")
    with torch.library._scoped_library("framejit_cpp", "FRAGMENT") as library:
        torch.library.register_fake("framejit_cpp::clipped", lambda x, limit: torch.empty_like(x), lib=library)
        torch.library.register_fake("framejit_cpp::count_into", lambda counts, x: None, lib=library)
        torch.library.register_autograd("framejit_cpp::clipped", differentiate, setup_context=remember, lib=library)
        yield torch.ops.framejit_cpp


def remember(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.limit = inputs[1]


def differentiate(ctx: Any, gradient: torch.Tensor) -> Any:
    return gradient * (ctx.saved_tensors[0] <= ctx.limit), None


def vector() -> torch.Tensor:
    return torch.linspace(-2, 2, 9).requires_grad_()


@pytest.mark.parametrize("backend", BACKENDS)
def test_forward_and_backward(operators: Any, backend: str) -> None:
    """The backward outside of what is compiled, and inside."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        return operators.clipped(x * 2, 1.5).sum() + operators.clipped.default(x, 0.5).pow(2).sum()

    def both(x: torch.Tensor) -> Any:
        return torch.autograd.grad(forward(x), x)

    framejit.reset()
    x, y = vector(), vector()
    framejit.compile(forward, backend=backend, fullgraph=True)(x).backward()
    forward(y).backward()
    torch.testing.assert_close(x.grad, y.grad)
    assert framejit.statistics()["graphs"] == 1
    agree(both, vector(), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_changed_arguments_and_symbolic_sizes(operators: Any, backend: str) -> None:
    def count(counts: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        operators.count_into(counts, x % 3)
        return counts * 2 + x.size(0)

    framejit.reset()
    compiled = framejit.compile(count, backend=backend, fullgraph=True, dynamic=True)
    for size in (4, 7, 11):
        found, expected = torch.zeros(3), torch.zeros(3)
        assert torch.equal(compiled(found, torch.arange(size)), count(expected, torch.arange(size)))
        assert torch.equal(found, expected)
    assert framejit.statistics()["graphs"] == 1


def test_without_a_fake(operators: Any) -> None:
    framejit.reset()
    agree(lambda x: operators.no_fake(x + 1, 0.5) * 2, vector().detach(), backend="eager", fullgraph=False)
    (reason,) = framejit.statistics()["reasons"]
    assert "FJ074 operator framejit_cpp::no_fake" in reason and "test_cpp_operators.py" in reason


def test_opcheck_beside_compiled_code(operators: Any) -> None:
    """Compiled code and `torch.library.opcheck` of the same operators don't disturb each other."""
    compiled = framejit.compile(lambda x: operators.clipped(x * 2, 1.5), backend="aot_eager", fullgraph=True)
    expected = operators.clipped(vector() * 2, 1.5)
    for _ in range(2):
        assert torch.equal(compiled(vector()), expected)
        found = torch.library.opcheck(operators.clipped.default, (vector(), 1.5))
        assert set(found.values()) == {"SUCCESS"}
        torch.library.opcheck(operators.count_into.default, (torch.zeros(3), torch.tensor([0, 1, 1])))
    assert framejit.statistics()["internal_errors"] == 0
