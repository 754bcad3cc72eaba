"""torch.cond in compiled code, against an `if` in plain Python: results, gradients, what is refused, and recompiles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from operators import BACKENDS, compare, compare_refused
from torch import nn

import framejit
from framejit.errors import Unsupported


def if_else(pred: Any, true: Callable[..., Any], false: Callable[..., Any], operands: Any = ()) -> Any:
    return true(*operands) if pred else false(*operands)


def calls(requires_grad: bool = True) -> list[tuple[torch.Tensor, ...]]:
    """Arguments for both branches, and for the first once more."""
    torch.manual_seed(1)
    return [((torch.rand(3, 4) * sign).requires_grad_(requires_grad), torch.randn(4, requires_grad=requires_grad)) for sign in (1, -1, 1)]


class Pair(NamedTuple):
    first: Any
    second: Any


class Ways(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def one(self, x: Any) -> Any:
        return x * self.weight

    def other(self, x: Any) -> Any:
        return x - self.weight


WAYS, LINEAR = Ways(), nn.Linear(4, 4)


def lambdas(cond, x, w):
    return cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (x,))


def methods(cond, x, w):
    return cond(x.sum() > 0, WAYS.one, WAYS.other, (x,))


def free_variables(cond, x, w):
    scale, shift = w.exp(), 3

    def scaled(y):
        def further(z):
            return z * scale + shift

        return further(y)

    return cond(x.sum() > 0, scaled, functools.partial(torch.add, w), (x,))


def without_operands(cond, x, w):
    return cond((x.sum() > 0).reshape(1), lambda: x * w, lambda: x + w)


def trees(cond, x, w):
    found = cond(x.sum() > 0, lambda d, e: {"a": d["x"] + 1, "b": (e[0].cos(), [3])}, lambda d, e: {"a": d["x"] * 2, "b": (e[0].sin(), [3])},
                 ({"x": x}, [w, x]))  # fmt: skip
    return found["b"][0], found


def named_tuples(cond, x, w):
    return cond(x.sum() > 0, lambda p: Pair(p.first * 2, p.second + 1), lambda p: Pair(p.first + 1, p.second * 2), (Pair(x, w),)).second


def nested(cond, x, w):
    def inner(y):
        return cond(y.max() > 1, lambda z: z.cos() * w, lambda z: z.exp() + x, (y,))

    return cond(x.sum() > 0, inner, lambda y: y * 2, (x * 3,))


def twice(cond, x, w):
    y = cond(x.sum() > 0, lambda x: x * 2, lambda x: x + w, (x,))
    return cond(y.mean() > 1, lambda y: y.sin(), lambda y: y.cos(), (y,)) + y


def known(cond, x, w):
    return cond(x.shape[0] > 2, lambda x: x + 1, lambda x: print("never"), (x,)) * cond(True, lambda: 2, lambda: 3)


def its_operand(cond, x, w):
    return cond(x.sum() > 0, lambda y: y, lambda y: y.clone(), (x,)) * 2


def one_tensor_twice(cond, x, w):
    def doubled(y):
        z = y * 2
        return z, z, y

    return [part + 1 for part in cond(x.sum() > 0, doubled, lambda y: (y + 1, y.sin(), y.cos()), (x,))]


def another_tensor(cond, x, w):
    return cond(x.sum() > 0, lambda: w * 1, lambda: w.view(2, 2).view(4)) * 2


def without_gradient(cond, x, w):
    with torch.no_grad():
        a = cond(x.sum() > 0, lambda: x * w, lambda: x + w)
    return a, cond(x.sum() > 0, lambda: x.detach() + 1, lambda: x.detach() - 1).sum() * w


def grad_off_in_a_branch(cond, x, w):
    def off():
        with torch.no_grad():
            y = x * w
        return y + x

    return cond(x.sum() > 0, off, lambda: x + w)


def under_autocast(cond, x, w):
    with torch.autocast("cpu", torch.bfloat16):
        return cond(x.sum() > 0, lambda: LINEAR(x), lambda: x @ LINEAR.weight) * 2


def autocast_in_a_branch(cond, x, w):
    def cast():
        with torch.autocast("cpu", torch.bfloat16):
            return LINEAR(x).float()

    return cond(x.sum() > 0, cast, lambda: x @ LINEAR.weight) * 2


def random_numbers(cond, x, w):
    return cond(x.sum() > 0, lambda: torch.rand(4) * w, lambda: w * 2) + torch.rand(4)


def mixed(cond, x, w):
    return cond(x.sum() > 0, lambda: x.sum(0, dtype=torch.double), lambda: w.double()), cond(x.max() > 9, lambda: x > 0, lambda: x < 0)


def a_number_that_depends_on_data(cond, x, w):
    return cond((x > 0).sum().item() > 3, lambda: x * w, lambda: x + w), cond((x.sum() > 0).item(), lambda: x + 1, lambda: x + 2)


WHOLE = (
    lambdas, methods, free_variables, without_operands, trees, named_tuples, nested, twice, known, its_operand, one_tensor_twice, another_tensor,
    grad_off_in_a_branch, under_autocast, autocast_in_a_branch, mixed,
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", WHOLE)
def test_training(program: Callable[..., Any], backend: str) -> None:
    compare(program, torch.cond, if_else, calls(), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [*WHOLE, without_gradient, random_numbers, a_number_that_depends_on_data])
def test_inference(program: Callable[..., Any], backend: str) -> None:
    with torch.no_grad():
        compare(program, torch.cond, if_else, calls(requires_grad=False), backend)


def test_inductor() -> None:
    compare(free_variables, torch.cond, if_else, calls(), "inductor", exact=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_with_its_backward_pass(backend: str) -> None:
    """The gradients are computed in the same graph."""

    def step(cond, x, w):
        loss = cond(x.sum() > 0, lambda: (x * x * w).sum(), lambda: (x * w * w).sum())
        return torch.autograd.grad(loss, [w, x])

    compare(step, torch.cond, if_else, calls(), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_changes_of_tensors_that_need_no_gradient(backend: str) -> None:
    def changed(cond, x, w):
        buffer = w.clone()
        return cond(x.sum() > 0, lambda b: b.add_(1) * x, lambda b: b.mul_(2) * x, (buffer,)), buffer, cond(x.sum() > 0, w.cos_, w.sin_)

    if torch.__version__ < "2.13" and backend == "aot_eager":
        pytest.skip("torch 2.11's AOTAutograd fails on branches that change what they are given: the graph is left to autograd")
    compare(changed, torch.cond, if_else, calls(requires_grad=False), backend)


def test_what_one_branch_writes_to_a_small_constant_is_not_known_in_the_other() -> None:
    def changed(cond, x, w):
        number = torch.tensor(3)
        return cond(x.sum() > 0, lambda: w * number.fill_(5), lambda: w + number.item()), number

    compare(changed, torch.cond, if_else, calls(requires_grad=False), "eager")


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.11's own cond refuses to change tensors")
def test_writes_that_aotautograd_would_lose_split_the_graph() -> None:
    """Those of operators with `out=`, and those to a small constant of which the other branch reads the number."""

    def with_out(x, w):
        kept = w.clone()
        return torch.cond(x.sum() > 0, lambda: torch.add(x, 1, out=kept) * 2, lambda: x + kept) + kept

    def with_a_number(x, w):
        number = torch.tensor(3.0)
        return torch.cond(x.sum() > 0, lambda: x * number.fill_(5.0), lambda: x + number.item()) + number

    for program in (with_out, with_a_number):
        framejit.reset()
        compiled = framejit.compile(program, backend="aot_eager")
        for sign in (-1, 1, -1):
            with torch.no_grad():
                x, w = torch.ones(4) * sign, torch.ones(4)
                assert torch.equal(compiled(x, w.clone()), program(x, w.clone()))
        assert framejit.statistics()["graph_breaks"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_branch_that_factorises_raises_where_it_fails(backend: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 1, lambda x: x * 2, lambda x: torch.linalg.inv(x).contiguous(), (x,))

    compiled = framejit.compile(program, backend=backend)
    for x in (torch.eye(3), torch.eye(3) / 4):
        torch.testing.assert_close(compiled(x), x * 2 if x.sum() > 1 else torch.linalg.inv(x))
    with pytest.raises(RuntimeError, match="singular"):
        compiled(torch.zeros(3, 3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_check_of_data_in_a_branch(backend: str) -> None:
    def checked(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async(x.sum() > 0, "the sum isn't positive")
        return x * 3

    compiled = framejit.compile(lambda x: torch.cond(x.sum() > 1, lambda x: x * 2, checked, (x,)), backend=backend, fullgraph=True)
    for x in (torch.ones(3), torch.ones(3) / 4):
        assert torch.equal(compiled(x), x * 2 if x.sum() > 1 else x * 3)
    with pytest.raises(RuntimeError, match="the sum isn't positive"):
        compiled(-torch.ones(3))


def appends(cond, x, w):
    seen: list[Any] = []

    def true():
        seen.append(1)
        return x * 2

    return cond(x.sum() > 0, true, lambda: x + 1), seen


def appends_to_what_an_attribute_holds(cond, x, w):
    WAYS.seen = []

    def true():
        WAYS.seen.append(1)
        return x * 2

    return cond(x.sum() > 0, true, lambda: x + 1), len(WAYS.seen)


def counts(cond, x, w):
    count = 0

    def true():
        nonlocal count
        count += 1
        return x * 2

    return cond(x.sum() > 0, true, lambda: x + 1), count


def leaves_gradients_off(cond, x, w):
    def true():
        torch.set_grad_enabled(False)
        return x * 2

    try:
        return cond(x.sum() > 0, true, lambda: x + 1)
    finally:
        torch.set_grad_enabled(True)


def prints(cond, x, w):
    def true():
        print(end="")
        return x * 2

    return cond(x.sum() > 0, true, lambda: x + 1)


def raises(cond, x, w):
    def true():
        raise ValueError

    return cond(x.sum() > 0, true, lambda: x + 1)


def differs_in_shape(cond, x, w):
    return cond(x.sum() > 0, lambda: x * 2, lambda: x[0] * 2)


def differs_in_type(cond, x, w):
    return cond(x.sum() > 0, lambda: x * 2, lambda: x.double())


def differs_in_structure(cond, x, w):
    return cond(x.sum() > 0, lambda: (x * 2,), lambda: [x * 2])


def differs_in_numbers(cond, x, w):
    return cond(x.sum() > 0, lambda: (x * 2, 1), lambda: (x * 2, True))


def a_predicate_of_many(cond, x, w):
    return cond(x > 0, lambda: x * 2, lambda: x)


def an_operand_that_is_none(cond, x, w):
    return cond(x.sum() > 0, lambda x, s: x * 2, lambda x, s: x + 1, (x, "text"))


def changes_what_needs_a_gradient(cond, x, w):
    y = x * 2
    return cond(x.sum() > 0, lambda: y.add_(1).clone(), lambda: y * w)


REFUSED = {
    appends: "of a function with side effects", appends_to_what_an_attribute_holds: "of a function with side effects",
    counts: "of a function with side effects", leaves_gradients_off: "of a function with side effects", prints: "print",
    raises: "of a function that raises",
    differs_in_shape: r"whose branches give float32\[3, 4\] .* and float32\[4\]", differs_in_type: "whose branches give float32.* and float64",
    differs_in_structure: "trees of different structure", differs_in_numbers: "whose branches give 1 and True",
    a_predicate_of_many: r"predicate bool\[3, 4\]", an_operand_that_is_none: "operands that are no tensors",
    changes_what_needs_a_gradient: "changes tensors in place",
}  # fmt: skip


@pytest.mark.parametrize("program", REFUSED)
def test_refused(program: Callable[..., Any]) -> None:
    """The error names the line, and says what is wrong with the function."""
    with pytest.raises(Unsupported, match=f"(?s){REFUSED[program]}") as raised:
        framejit.compile(lambda *args: program(torch.cond, *args), backend="eager", fullgraph=True)(*calls()[0])
    assert "test_cond.py" in str(raised.value) and program.__name__ in str(raised.value)


@pytest.mark.parametrize("program", [prints, differs_in_shape, an_operand_that_is_none])
def test_what_is_refused_runs_as_in_eager(program: Callable[..., Any]) -> None:
    """The call of torch.cond is a break: the rest is compiled."""
    compare_refused(program, torch.cond, lambda: calls()[0])


def test_a_branch_is_guarded() -> None:
    """Values that a branch reads are guarded, even if that branch is not taken."""
    setting = {"scale": 2}

    def program(cond, x, w):
        return cond(x.sum() > 0, lambda: x * 2, lambda: x * setting["scale"])

    compiled = framejit.compile(lambda x: program(torch.cond, x, None), backend="eager")
    framejit.reset()
    x = -torch.rand(3)
    for scale in (2, 3, 3, 2):
        setting["scale"] = scale
        torch.testing.assert_close(compiled(x), x * scale)
    assert framejit.statistics()["graphs"] == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary(backend: str) -> None:
    compare(lambda cond, x: cond(x.sum() > 0, lambda: x * x.shape[0], lambda: x + x.shape[0] * 2), torch.cond, if_else,
            [(torch.full((n,), float(sign), requires_grad=True),) for n, sign in ((3, 1), (4, -1), (5, 1), (6, -1))], backend, graphs=2)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_after_a_break(backend: str) -> None:
    def program(cond, x, w):
        y = cond(x.sum() > 0, lambda: x * w, lambda: x + w)
        print(end="")
        return cond(y.sum() > 0, lambda: y * w, lambda: y + w)

    compare(program, torch.cond, if_else, calls(), backend, graphs=None)
    assert framejit.statistics()["graphs"] == 2


def test_the_operator_itself() -> None:
    """`torch.ops.higher_order.cond` gives what its branches give, flat."""
    operator = torch.ops.higher_order.cond
    compare(lambda cond, x, w: cond(x.sum() > 0, lambda x: (x * 2,), lambda x: (x + 1,), (x,)), operator, if_else, calls())
