"""`compile(shapes=...)`: declared sizes are symbolic from the first call on, held to, and refused clearly."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.export import Dim

import framejit


def eager(function, **options):
    framejit.reset()
    return framejit.compile(function, backend="eager", **options)


def graphs() -> int:
    return framejit.statistics()["graphs"]


def test_one_compilation_from_the_first_call_on() -> None:
    compiled = eager(lambda x, y: x @ y * x.size(0), shapes={"x": ("rows", 4)})
    for rows in (3, 5, 9, 2):
        x, y = torch.randn(rows, 4), torch.randn(4, 2)
        torch.testing.assert_close(compiled(x, y), x @ y * rows)
    assert graphs() == 1


def test_modules_by_the_names_of_forward() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            return self.layer(x) if mask is None else self.layer(x) * mask.unsqueeze(-1)

    model = Model()
    compiled = eager(model, shapes={"x": ("batch", "length", 4), "mask": ("batch", "length")})
    for batch, length in ((3, 5), (2, 7), (6, 6), (5, 3)):
        x, mask = torch.randn(batch, length, 4), torch.ones(batch, length)
        torch.testing.assert_close(compiled(x, mask=mask), model(x, mask))
        torch.testing.assert_close(compiled(x), model(x))
    assert graphs() == 2
    with pytest.raises(framejit.ConstraintViolation, match=r"mask\.size\(0\) is 2 and x\.size\(0\) is 3; both were declared to be 'batch'"):
        compiled(torch.randn(3, 5, 4), mask=torch.ones(2, 5))


def test_containers_of_tensors() -> None:
    compiled = eager(
        lambda batch, pair: batch["ids"].sum() * pair[1].size(0) + pair[0], shapes={"batch": {"ids": ("n", None)}, "pair": [None, ("n", 2)]}
    )
    for n in (3, 4, 5):
        batch, pair = {"ids": torch.ones(n, 3), "other": 1}, (2.0, torch.ones(n, 2))
        assert compiled(batch, pair) == 3 * n * n + 2
    assert graphs() == 1


def test_a_tensor_by_its_dimensions() -> None:
    compiled = eager(lambda x: x * 2, shapes={"x": {1: "length"}})
    for shape in ((3, 4), (3, 5), (3, 6)):
        assert compiled(torch.ones(shape)).shape == shape
    assert graphs() == 1


def test_declared_sizes_stay_symbolic_behind_a_break() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        framejit.graph_break()
        return y * x.size(0) + x

    compiled = eager(program, shapes={"x": ("n",)})
    for n in (3, 4, 5, 6):
        torch.testing.assert_close(compiled(torch.ones(n)), torch.full((n,), 2.0 * n + 1))
    assert framejit.statistics()["frames"] <= 3


def test_ranges() -> None:
    compiled = eager(lambda x: x.sum(), shapes={"x": (Dim("n", min=2, max=8),)})
    assert compiled(torch.ones(5)) == 5 and compiled(torch.ones(8)) == 8 and graphs() == 1
    with pytest.raises(framejit.ConstraintViolation, match=r"x\.size\(0\) is 9; it was declared to be 'n' from 2 to 8 \(compile\(shapes"):
        compiled(torch.ones(9))
    assert compiled(torch.ones(2)) == 2, "nothing is lost by the error"


def test_sizes_that_are_fixed() -> None:
    compiled = eager(lambda x: x * 2, shapes={"x": ("n", 3)}, dynamic=True)
    compiled(torch.ones(4, 3))
    with pytest.raises(framejit.ConstraintViolation, match=r"x\.size\(1\) is 4; it was declared to be 3"):
        compiled(torch.ones(4, 4))
    with pytest.raises(framejit.ConstraintViolation, match="x has 1 dimension; 2 were declared"):
        compiled(torch.ones(4))


def test_code_that_works_for_one_size_only() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(5)

    compiled = eager(program, shapes={"x": ("n",)})
    with pytest.raises(framejit.ConstraintViolation, match=r"(?s)x\.size\(0\) was declared to be symbolic, but the code works .*5 only.*torch\.ones\(5\)"):
        compiled(torch.ones(5))


def test_arguments_that_are_not_given() -> None:
    compiled = eager(lambda x, y=None: x if y is None else x + y, shapes={"x": ("n",), "y": ("n",)})
    assert compiled(torch.ones(3)).sum() == 3 and compiled(torch.ones(4), torch.ones(4)).sum() == 8


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ({"z": ("n",)}, "shapes names 'z', which is no argument; known: x, y"),
        ([("n",)], "shapes must be a dict of arguments' names"),
        ({"x": 3}, r"shapes\['x'\] must say the sizes of a tensor"),
        ({"x": (-1,)}, r"shapes\['x'\]\[0\] must be a size; got -1"),
        ({"x": (True,)}, "must be a size; got True"),
        ({"x": (2.5,)}, "must say the sizes"),
        ({"x": (Dim("n", min=2, max=4),), "y": (Dim("n", min=2, max=8),)}, "is declared to be 'n' from 2 to 8, and elsewhere to be 'n' from 2 to 4"),
    ],
)
def test_bad_declarations(shapes, text: str) -> None:
    with pytest.raises(framejit.BadArgument, match=text):
        framejit.compile(lambda x, y: x + y, shapes=shapes)


def test_something_else_than_a_tensor() -> None:
    with pytest.raises(framejit.ConstraintViolation, match="x is an int; the shape of a tensor was declared"):
        eager(lambda x: x + 1, shapes={"x": ("n",)})(3)


def test_as_a_decorator_and_freed() -> None:
    @framejit.compile(backend="eager", shapes={"x": ("n",)})
    def program(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    x = torch.ones(3)
    program(x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None
