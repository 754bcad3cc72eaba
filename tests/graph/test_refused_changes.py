"""Changes of tensors that split the graph, since compiled code couldn't make them as eager does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import framejit

CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "through a view": lambda x: (x.detach().add_(1), x)[1],
    "that raises once the data has changed": lambda x: x.__setitem__(0, 5.0),
    "by an argument": lambda x: torch.add(x, 1, out=x.detach()),
}


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("change", CHANGES)
def test_inference_tensors_outside_of_inference_mode(change: str, backend: str):
    framejit.reset()
    found = []
    for function in (CHANGES[change], framejit.compile(CHANGES[change], backend=backend)):
        with torch.inference_mode():
            x = torch.arange(3.0)
        try:
            result = function(x)
        except RuntimeError as error:
            result = str(error)
        found.append((result.tolist() if isinstance(result, torch.Tensor) else result, x.tolist()))
    assert found[0] == found[1]


OUT: dict[str, Callable[..., object]] = {
    "complex": lambda x, out: torch.complex(x, x, out=out[0]),
    "aminmax": lambda x, out: torch.aminmax(x, dim=0, out=out),
    "sort": lambda x, out: torch.sort(x, out=out),
    "neg": lambda x, out: torch.neg(x, out=out[0]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("operator", OUT)
def test_the_program_handles_what_an_operator_raises_for_the_dtype_of_out(operator: str, dtype: torch.dtype):
    def step(x: torch.Tensor, out: tuple[torch.Tensor, ...]) -> str:
        try:
            OUT[operator](x, out)
        except RuntimeError as error:
            return str(error)
        return "done"

    compiled = framejit.compile(step)
    for _ in range(2):
        out, expected = ((torch.zeros(3, dtype=dtype), torch.zeros(3, dtype=dtype)) for _ in range(2))
        assert compiled(torch.arange(3.0), out) == step(torch.arange(3.0), expected)
        assert [given.tolist() for given in out] == [given.tolist() for given in expected]


OTHER_DTYPE: dict[str, Callable[..., object]] = {
    "softmax": lambda x, out: torch.softmax(x, 0, out=out),
    "index_select": lambda x, out: torch.index_select(x, 0, torch.tensor([0, 1, 2]), out=out),
    "take": lambda x, out: torch.take(x, torch.tensor([0, 1, 2]), out=out),
    "cumsum": lambda x, out: torch.cumsum(x, 0, out=out),
}


@pytest.mark.parametrize("operator", OTHER_DTYPE)
def test_an_operator_refuses_the_dtype_of_out_without_a_handler(operator: str):
    def outcome(run: Callable[..., object]) -> str:
        out = torch.zeros(3, dtype=torch.float64)
        try:
            run(torch.arange(3.0), out)
        except RuntimeError as error:
            return str(error)
        return str(out.tolist())

    for backend in ("eager", "aot_eager"):
        assert outcome(framejit.compile(OTHER_DTYPE[operator], backend=backend)) == outcome(OTHER_DTYPE[operator])
