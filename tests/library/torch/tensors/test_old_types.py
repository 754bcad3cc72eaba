"""torch.LongTensor and its like: `isinstance` asks for dtype and device."""

import pytest
import torch

import framejit

TYPES = (torch.LongTensor, torch.IntTensor, torch.FloatTensor, torch.BoolTensor, torch.HalfTensor)


@pytest.mark.parametrize(
    "value",
    [torch.arange(3), torch.ones(2, dtype=torch.int32), torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.ones(2) > 0, 3, [torch.ones(1)]],
    ids=["int64", "int32", "float", "parameter", "bool", "an int", "a list"],
)
def test_instances_of_old_tensor_types(value):
    def kinds(value):
        made = torch.arange(2) * 2
        return [isinstance(value, cls) for cls in TYPES], isinstance(value, (torch.LongTensor, int)), isinstance(made, torch.LongTensor)

    compiled = framejit.compile(kinds, backend="eager", fullgraph=True)
    assert compiled(value) == kinds(value)
    assert compiled(torch.ones(1)) == kinds(torch.ones(1))


def test_each_dtype_is_compiled_by_itself():
    def double(x):
        return x * 2 if isinstance(x, torch.LongTensor) else x / 2

    compiled = framejit.compile(double, backend="eager", fullgraph=True)
    for x in (torch.arange(3), torch.ones(3), torch.arange(3), torch.ones(3, dtype=torch.int32)):
        torch.testing.assert_close(compiled(x), double(x), rtol=0, atol=0)
