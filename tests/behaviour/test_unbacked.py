"""Numbers out of tensors and sizes that depend on data stay in the graph, as long as nobody asks for them; eager's values, types and errors all the same."""

from __future__ import annotations

import copy
import gc
import math
import traceback
import weakref
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison
from torch import nn
from unbacked_programs import asserts, asserts_behind_a_change
from undo import undoing

import framejit
from framejit.graph.demands import OF_OTHERS

BACKENDS = ("eager", "aot_eager")


def run(function, args):
    """Return a call's value and its arguments afterwards, or the type and text of the exception that it raises."""
    args = copy.deepcopy(args)
    torch.manual_seed(0)
    try:
        return function(*args), args
    except (RuntimeError, ValueError, IndexError, TypeError, KeyError, ZeroDivisionError, OverflowError) as error:
        return type(error), str(error)


def agree(function, *calls, **options):
    """Compare a compiled function with eager over calls; the statistics."""
    framejit.reset()
    with framejit.config.replace(check="compile,guards"):
        compiled = framejit.compile(function, **{"backend": "eager", **options})
        for args in calls:
            Comparison().same(run(function, args), run(compiled, args), str(args))
    return framejit.statistics()


def rows(*values):
    """Rows of which those with a positive number are chosen by `x[:, 0] > 0`."""
    return torch.tensor([[float(value), float(number), 3.0, -0.5] for number, value in enumerate(values)])


SOME, NONE, ONE, ALL = rows(1, -1, 2, 3, -1), rows(-1, -1, -1, -1, -1), rows(-1, -1, 2, -1, -1), rows(1, 1, 2, 3, 5)


# Numbers that are passed on.


class Meter(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.total, self.steps, self.history = nn.Linear(4, 4), 0.0, 0, []

    def forward(self, x):
        loss = self.linear(x).pow(2).mean()
        self.total += loss.item()
        self.steps += 1
        self.history.append(loss.item())
        return loss


def passed_on(x, log):
    log["max"], last = x.max().item(), x[0, 0].item()
    log["list"] = [x.sum().item(), (x > 1).any().item(), x.argmax().item(), last]
    return log, x + 1, last


def computed(x):
    n, m = x.argmax().item(), x.max().item()
    return n + 1, 1 - n, n * 2.5, m / 4, -m, -n, abs(m), max(m, 2.0), min(n, 2), n // 2, n % 3, n > 1, m == 2.0, not n, float(n), int(n), bool(m), n is None


def passed_to_operators(x):
    n = x.argmax().item()
    return x * n, torch.zeros(n), torch.arange(n + 1), x.new_full((n, 2), 1.5), x + n // 2, torch.ones(2, n * 2 + 1).sum(1)


def passed_to_slices(x):
    n = x.argmax().item()
    return x[:n] * 2, x[n:], x[n - 2 :]


def floats_to_operators(x):
    scale = x.max().item()
    return x / scale, x * scale + scale, x > scale, scale - x


def lists(x):
    values = x[0].tolist()
    return values, [value * 2 for value in values], x[:2].long().tolist(), x[0, 0].tolist()


def conversions(x):
    return int(x.argmax()), float(x.max()), bool((x > 2).any()), bool(x.sum()), float(x.argmax()), int((x > 0).any())


def before_a_change(x):
    first = x.sum().item()
    x.add_(1)
    again = x.sum().item()
    return first, again, x


def before_a_change_behind_autograd(x):
    y = x * 1
    first, places = y[0, 0].item(), y.nonzero().size(0)
    y.data.add_(1)
    y.detach()[1:].zero_()
    return first, places, y[0, 0].item(), y.nonzero().size(0)


def in_inference_mode(x):
    with torch.inference_mode():
        y = x * 1
        row = y[0]
        first = row.sum().item(), row[0].item()
        y.add_(1)
        return first, row.sum().item(), row[0].item()


def inlined(x):
    def norm(value):
        return value.norm().item()

    return {"a": norm(x), "b": (norm(x * 2), norm(x[0]))}


def text_free(x):
    keep = [x.sum().item() for _ in range(3)]
    return sum([len(keep), 1]), keep[0], keep[-1]


PASSED_ON = [
    computed, passed_to_operators, passed_to_slices, floats_to_operators, lists, conversions, before_a_change,
    before_a_change_behind_autograd, in_inference_mode, inlined, text_free,
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PASSED_ON, ids=lambda function: function.__name__)
def test_numbers_that_are_passed_on_break_nothing(function, backend):
    counts = agree(function, (SOME,), (NONE,), (ONE,), (SOME * 7,), backend=backend, fullgraph=True)
    assert (counts["graphs"], counts["graph_breaks"], counts["recompiles"]) == (1, 0, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_are_stored(backend):
    assert agree(passed_on, (SOME, {}), (ONE, {}), backend=backend, fullgraph=True)["graphs"] == 1
    torch.manual_seed(0)
    eager, compiled = Meter(), Meter()
    compiled.load_state_dict(eager.state_dict())
    call = framejit.compile(compiled, backend=backend, fullgraph=True)
    framejit.reset()
    for x in (SOME, ONE, ALL):
        eager(x).backward(), call(x).backward()
    assert (eager.total, eager.history, eager.steps) == (compiled.total, compiled.history, compiled.steps)
    assert torch.equal(eager.linear.weight.grad, compiled.linear.weight.grad)
    assert framejit.statistics()["graphs"] == 1


VALUES = [
    torch.tensor(value, dtype=dtype)
    for dtype, values in {
        torch.float32: (0.1, -0.0, math.inf, -math.inf, math.nan, 1e-45), torch.float64: (0.1, 5e-324, 1e308), torch.bfloat16: (0.1,),
        torch.float16: (65504.0,), torch.int64: (2**63 - 1, -(2**63), 0, 7), torch.uint8: (255,), torch.int8: (-128,), torch.bool: (True, False),
    }.items()
    for value in values
]  # fmt: skip


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
def test_values_and_types_are_eagers(backend):
    def exact(*tensors):
        return [(t.item(), (t == t).item(), t.reshape(1, 1).item()) for t in tensors]

    expected, found = exact(*VALUES), framejit.compile(exact, backend=backend, fullgraph=True)(*VALUES)
    assert repr(expected) == repr(found)


def test_arithmetic_is_pythons():
    def f(x, y):
        a, b = x.item(), y.item()
        return (a + 1e20) - 1e20, a - a, a * 0, b * b * b, b + 0.5, -b // 3, -a % 3, b % -3, a != a, b == b, (b + 1) / 3, True + b

    for a, b in ((0.1, 7), (math.nan, 2**62), (math.inf, -(2**63)), (-0.0, 0)):
        agree(f, (torch.tensor(a), torch.tensor(b)), fullgraph=True)
        expected = f(torch.tensor(a), torch.tensor(b))
        assert repr(framejit.compile(f, backend="aot_eager", fullgraph=True)(torch.tensor(a), torch.tensor(b))) == repr(expected)


class AverageMeter:
    """As in PyTorch's example of training on ImageNet."""

    def __init__(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_are_averaged_beside_ints_that_vary(backend):
    framejit.reset()
    eager, metered = AverageMeter(), AverageMeter()
    compiled = framejit.compile(lambda x, meter: meter.update(x.sum().item(), x.size(0)), backend=backend)
    for x in (SOME, ALL, ONE, SOME[:3], SOME[:2], rows(7)):
        eager.update(x.sum().item(), x.size(0))
        compiled(x, metered)
        assert vars(metered) == vars(eager)
    counts = framejit.statistics()
    assert counts["graph_breaks"] == 0 and counts["graphs"] <= 4  # the sum is 0, then a float; sizes of 5, of others, and of 1


def test_what_divides_and_multiplies_may_fail():
    def scaled(x, n):
        return x.sum().item() * n / (n + 1)

    calls = [(SOME, n) for n in (3, 4, 5, 0, -2, -1, 10**30, 10**400, True, 2.5, -1.0, 0.0)]
    agree(scaled, *calls)


def to_tensors(x, p):
    total = x.double().sum().item()
    made = [torch.tensor(total), torch.tensor(total / 3 + p, dtype=torch.float64), torch.tensor([total * p, 1.0]), torch.as_tensor(total)]
    made[1] += 1
    return made, total, x.sum(dtype=torch.float64)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_are_made_of_numbers(backend):
    counts = agree(to_tensors, *[(x, p) for x, p in zip((SOME, ALL, ONE, NONE), (0.5, 1.5, -0.25, 0.0))], backend=backend)
    assert (counts["graphs"], counts["graph_breaks"]) == (2, 0)


# Sizes that depend on data.


@pytest.mark.parametrize("backend", BACKENDS)
def test_ints_become_floats_as_in_python(backend):
    def scaled(x, number):
        action = number.item()
        return x + action * 0.1, x * (0.3 - action) * float(action), x - action / 4

    def quotient(x, number):
        return x + number.item() / 3

    calls = [(torch.ones(2, dtype=torch.float64), torch.tensor(value)) for value in (2, 0, -7, 2**53 + 1, 2**62 + 1, -(2**63))]
    counts = agree(scaled, *calls, backend=backend)
    assert (counts["graphs"], counts["graph_breaks"]) == (1, 0)
    assert agree(quotient, *calls, backend=backend)["graph_breaks"] == 1  # which Python rounds once


def chosen(x):
    return x[x[:, 0] > 0]


SIZES = {
    "mask": lambda y: (y * 2, y.size(0), len(y), y.shape, y.numel(), y.ndim, y.shape[1]),
    "nonzero": lambda y: ((y > 0).nonzero(), torch.where(y > 0), y.nonzero(as_tuple=True)[1].sum()),
    "masked_select": lambda y: y.masked_select(y > 1).sum(),
    "unique": lambda y: torch.unique(y[:, 0], return_counts=True),
    "repeat_interleave": lambda y: y.repeat_interleave(2, 0),
    "matmul": lambda y: (y @ y.T, y.T @ y, F.linear(y, torch.ones(3, 4))),
    "softmax": lambda y: y.softmax(0),
    "reductions": lambda y: (y.sum(0), y.mean(1), y.norm(), y.any(), y.cumsum(0)),
    "cat": lambda y: (torch.cat([y, torch.ones(2, 4)]), torch.stack([y, y]), torch.cat([y, y]) + torch.cat([y, y])),
    "shapes": lambda y: (y.view(-1), y.reshape(-1, 2), y.flatten(), y.unsqueeze(1), y.expand(3, -1, -1), y.view(y.size(0), 2, 2), y.unsqueeze(1).squeeze(1)),
    "slices": lambda y: (y[1:], y[:2], y[-2:], y[:, 1:], y[:, 0], y.flip(0)),
    "new": lambda y: (torch.zeros(y.size(0)), torch.arange(y.size(0)), torch.full((y.size(0), 2), 1.0), y.new_zeros((*y.shape, 2)), torch.zeros_like(y)),
    "arithmetic": lambda y: (y.size(0) + 1, y.size(0) * y.size(1), y.size(0) / 2, torch.zeros(y.size(0) // 2 + 1), y.nbytes, y / max(y.size(0), 1)),
    "indexing": lambda y: (y[torch.arange(y.size(0))], torch.ones(9, 4).index_add(0, torch.zeros(y.size(0), dtype=torch.long), y)),
    "layers": lambda y: (F.layer_norm(y, (4,)), F.gelu(y), F.dropout(y, 0.0), F.one_hot(y[:, 0].long(), 7)),
    "containers": lambda y: ({"n": y.size(0), "rows": [y]}, (y.size(0), *y.shape)),
    "first": lambda y: y[0],
    "last": lambda y: (y[-1], y[0, :2], y.nonzero()[-1, 0], torch.where(y > 1)[1][0], y[None, 0], y[..., 2] + 1),
    "second": lambda y: y[1] * 2,
    # What splits the call.
    "squeeze": lambda y: (y.squeeze(), y.squeeze(0)),
    "broadcast": lambda y: y + torch.ones(3, 4),
    "item": lambda y: y[:, 0].item(),
    "iteration": lambda y: [row.sum() for row in y],
    "branch": lambda y: y * 2 if y.size(0) > 2 else y,
    "empty": lambda y: None if y.size(0) == 0 else y.max(0).values,
    "maximum": lambda y: y.max(0),
    "range": lambda y: list(range(y.size(0))),
    "text": lambda y: f"{y.size(0)} rows",
    "key": lambda y: {y.size(0): 1},
    "index": lambda y: [1, 2, 3, 4, 5, 6][y.size(0)],
    "layout": lambda y: (y.is_contiguous(), y.stride(), y.T.contiguous().stride(), y.T.reshape(-1)),
    "halves": lambda y: y.view(2, -1),
    "narrow": lambda y: y.narrow(0, 0, 2),
    "equal": lambda y: torch.equal(y, y),
    "is": lambda y: (y.size(0) is None, y.size(0) == "a", y.size(0) in (1, 3), isinstance(y.size(0), int), type(len(y))),
}
STAY = frozenset(list(SIZES)[: list(SIZES).index("squeeze")])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_depend_on_data(name, backend):
    counts = agree(lambda x: SIZES[name](chosen(x)), *[(x,) for x in (SOME, ONE, NONE, ALL, SOME)], backend=backend)
    if name in STAY:
        assert (counts["graphs"], counts["graph_breaks"], counts["recompiles"]) == (1, 0, 0), counts["reasons"]
    assert all(reason.startswith(("FJ039", "FJ005")) for reason in counts["reasons"])


@pytest.mark.parametrize("name", ["mask", "nonzero", "unique", "cat", "shapes", "new", "matmul", "maximum", "broadcast", "first", "slices"])
def test_sizes_with_inductor(name):
    """Strides of tensors without elements aren't compared: Inductor computes them by the size of 0."""
    framejit.reset()
    compiled = framejit.compile(lambda x: SIZES[name](chosen(x)), backend="inductor")
    for x in (SOME, ONE, NONE, ALL):
        expected, found = run(SIZES[name], (chosen(x),)), run(compiled, (x,))
        if isinstance(expected[0], type):
            assert expected == found
        else:
            torch.testing.assert_close(found[0], expected[0], check_stride=False)


class Selective(nn.Module):
    """A layer that works on some of its tokens only, as a mixture of experts does."""

    def __init__(self):
        super().__init__()
        self.gate, self.expert = nn.Linear(4, 1), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x):
        mask = self.gate(x).squeeze(-1) > 0
        where = mask.nonzero().squeeze(-1) if False else torch.where(mask)[0]
        return x.index_add(0, where, self.expert(x[where])), mask.sum().item()


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
def test_training(backend):
    framejit.reset()
    torch.manual_seed(0)
    eager = Selective()
    compiled = copy.deepcopy(eager)
    call = framejit.compile(compiled, backend=backend, fullgraph=True)
    for x in (torch.randn(6, 4), torch.randn(6, 4), torch.full((6, 4), 9.0), torch.full((6, 4), -9.0)):
        eager.zero_grad(), compiled.zero_grad()
        (expected, n), (found, m) = eager(x), call(x)
        expected.pow(2).sum().backward(), found.pow(2).sum().backward()
        assert n == m and type(m) is int
        torch.testing.assert_close(found, expected)
        for left, right in zip(compiled.parameters(), eager.parameters()):
            torch.testing.assert_close(left.grad, right.grad)
    assert framejit.statistics()["graphs"] == 1


# Checks.


def checked(x):
    n = x.argmax().item()
    torch._check(n > 1)
    torch._check(n < 12, lambda: "too many")
    if n > 0 and n >= 2 and not n < 2:
        return torch.zeros(n), n
    return None


def check_of_size(x):
    y = chosen(x)
    torch._check(y.size(0) > 0, lambda: "nothing was chosen")
    return y[0], y.max(0).values, y.amax(0)


def first_is_stored(x):
    y = chosen(x) * 2
    y[0] = 7
    y[-1, 1:] += 1
    return y


def first_behind_a_change(x):
    x.add_(1)
    return chosen(x)[0]


def first_or_nothing(x):
    try:
        return chosen(x)[0]
    except IndexError:
        return x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [first_is_stored, first_behind_a_change, first_or_nothing], ids=lambda function: function.__name__)
def test_items_of_dimensions_of_unknown_size(function, backend):
    counts = agree(function, *[(x,) for x in (SOME, NONE, ONE, ALL, SOME)], backend=backend)
    assert (counts["graphs"], counts["graph_breaks"]) == (1, 0) or function is first_behind_a_change


def check_of_bool(x):
    torch._check((x[:, 0] > 0).any().item(), lambda: "none is positive")
    return x * 2


def check_of_equality(x):
    y = chosen(x)
    torch._check(y.size(0) == 3)
    return y + torch.ones(3, 4), [row * 2 for row in y], list(range(y.size(0)))


def check_as_size(x):
    n = x.argmax().item()
    torch._check_is_size(n)
    torch._check(n <= x.size(0))
    return x.narrow(0, 0, 2), torch.empty(n).size(0)


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
@pytest.mark.parametrize("function", [checked, check_of_size, check_of_bool, check_of_equality], ids=lambda function: function.__name__)
def test_what_is_checked_is_known(function, backend):
    """And where it doesn't hold, the graph raises what eager does."""
    counts = agree(function, (SOME,), (NONE,), (ONE,), (ALL,), (SOME,), backend=backend, fullgraph=True)
    assert counts["graphs"] == 1 and counts["recompiles"] == 0


@pytest.mark.filterwarnings("ignore")
def test_sizes_are_declared():
    assert agree(check_as_size, (torch.tensor([[0.0, 1.0], [0.0, 0.0]]),), (torch.tensor([[1.0, 0.0], [0.0, 0.0]]),), fullgraph=True)["graphs"] == 1


def other_error(x):
    n = x.argmax().item()
    torch._check_value(n > 1)
    return torch.zeros(n)


def with_the_number(x, log):
    log.append(1)
    n = x.argmax().item()
    torch._check(n > 1, lambda: f"{n} is not enough")
    log.append(2)
    return torch.zeros(n)


def handled(x):
    n = x.argmax().item()
    try:
        torch._check(n > 1)
    except RuntimeError:
        return x * 2
    return torch.zeros(n)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_failing_check_raises_is_eagers(backend):
    """The call runs uncompiled then: with its changes of objects, its handlers, and its text."""
    few = torch.zeros(5, 4)
    for function in (other_error, handled):
        assert agree(function, (SOME,), (few,), (ALL,), backend=backend, fullgraph=True)["graphs"] == 1
    compiled = framejit.compile(with_the_number, backend=backend, fullgraph=True)
    log, expected = [], []
    for x in (SOME, few, ALL):
        Comparison().same(run_in_place(with_the_number, x, expected), run_in_place(compiled, x, log))
    assert log == expected == [1, 2, 1, 1, 2]


def run_in_place(function, *args):
    try:
        return function(*args)
    except RuntimeError as error:
        return str(error), [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__][1:]


@pytest.mark.only_eager("the test names its backends")
def test_checks_that_cannot_be_taken_back_are_made_natively():
    def of_a_float(x):
        torch._check(x.sum().item() > 0.5)
        return x + 1

    def behind_a_change(x):
        x.add_(1)
        torch._check(x.argmax().item() > 1)
        x.mul_(2)
        return x

    for function in (of_a_float, behind_a_change):
        for backend in BACKENDS:
            splits = function is of_a_float or backend != "aot_eager"  # which changes its inputs at the end
            assert agree(function, (SOME,), (torch.zeros(5, 4),), (ALL,), backend=backend)["graph_breaks"] == splits


# Where a value is asked for.


def loop(x):
    for i in range(x.argmax().item() % 5):
        x = x + i
    return x


def branch(x):
    n = x.max().item()
    y = x * 2
    if n > 4:
        y = y + n
    return y, n + 1


def while_loop(x):
    n = x.argmax().item()
    while n > 7:
        x, n = x / 2, n - 3
    return x, n


def nested(x):
    return branch(x * 2)[0] + branch(x)[1]


def indexed(x):
    return [x, x + 1, x + 2, x * 3][x.argmax().item() % 4], {0: "a"}.get(x.argmax().item(), "b")


def of_many(x):
    return x.item()


def printed(x):
    total = x.sum().item()
    text = f"{total:.3f}"
    print(text, end="")
    return text, total


ASKED = [loop, branch, while_loop, nested, indexed, of_many, printed]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", ASKED, ids=lambda function: function.__name__)
def test_values_that_are_asked_for(function, backend):
    assert agree(function, (SOME,), (SOME * 3,), (NONE,), (ALL - 4,), backend=backend)["graph_breaks"] >= 1


def test_a_branch_breaks_once_and_serves_all_values():
    counts = agree(lambda x: x * 2 if x.max().item() > 6 else -x, *[(SOME + n,) for n in range(12)], branches="break")
    assert (counts["graph_breaks"], counts["graphs"], counts["recompiles"]) == (1, 3, 0)


def test_breaks_name_the_number_and_what_to_write():
    def compares(x):
        count = x.argmax().item()
        return x[:2] if count > 3 else -x

    def adds(x):
        y = chosen(x)
        return y + torch.ones(3, 4)

    for function, said in (
        (compares, ("FJ039 `count > 3` needs the value of `x.argmax().item()` (line {})", "torch._check(x.argmax().item() > 3)")),
        (adds, ("FJ039 `y + torch.ones(3, 4)` needs the value of `x[x[:, 0] > 0].size(0)`", "torch._check(x[x[:, 0] > 0].size(0) == 3)")),
    ):
        framejit.reset()
        with pytest.raises(framejit.Unsupported) as caught:
            framejit.compile(function, backend="eager", fullgraph=True)(SOME)
        text = str(caught.value)
        for part in said:
            assert part.format(function.__code__.co_firstlineno + 1) in text


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [computed, passed_to_operators, before_a_change, checked, branch, nested, check_of_size], ids=lambda f: f.__name__)
def test_instructions_can_be_undone(function, backend):
    with undoing(0.3, function.__name__):
        agree(function, (SOME,), (ALL,), backend=backend)


def test_what_an_undone_instruction_has_learnt_is_forgotten():
    """The call of `check` is split around: what it has checked must not be taken to hold in the graph before it."""

    def check(n):
        torch._check(n == 3)
        print(end="")
        return n

    def f(x):
        n = x.argmax().item()
        y = torch.zeros(n)
        with torch.no_grad():
            check(n)
        return y, n

    for backend in BACKENDS:
        agree(f, (torch.tensor([0.0, 0, 0, 1]),), (torch.tensor([0.0, 1]),), (torch.tensor([0.0, 0, 0, 1]),), backend=backend)


def test_backends_that_do_not_say_so_get_no_such_numbers():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    counts = agree(passed_on, (SOME, {}), backend=backend)
    assert counts["graph_breaks"] >= 1 and not any(node.target == "item" for gm in graphs for node in gm.graph.nodes)


def test_a_backend_that_fails_is_given_the_graph_without_them():
    backend = framejit.backends.lookup("eager")

    def failing(gm, example_inputs):
        if any(node.target == "item" for node in gm.graph.nodes):
            raise RuntimeError("no items here")
        return backend.call(gm, example_inputs)

    picky = framejit.backends.Backend("picky", failing, takes=replace(OF_OTHERS, takes_unbacked=True))
    counts = agree(branch, (SOME,), backend=picky)
    assert counts["graph_breaks"] == 1 and counts["graphs"] >= 1


def test_what_is_traced_is_freed():
    module = Meter()
    ref = weakref.ref(module)
    call = framejit.compile(module, backend="aot_eager")
    call(SOME)
    del module, call
    framejit.reset()
    gc.collect()
    assert ref() is None


# Branches of which one raises.


class NotFinite(ValueError):
    pass


def refuses(x, log):
    log.append(x.shape)
    if bool(torch.isnan(x).any()):
        raise NotFinite("nan", x.size(0))
    y = x + 1
    if torch.isinf(y).any() or not (y[:, 1] > 0).all():
        log.append("inf")
        raise ValueError(f"inf in {log}") from NotFinite()
    return y


def refuses_sizes(x):
    y = chosen(x)
    if y.size(0) == 0:
        raise IndexError("nothing was chosen")
    if not len(y) <= 4:
        raise IndexError("too many")
    return y[0], y.amax(0)


def with_nan(x):
    return x.masked_fill(x == 3, math.nan)


def lines(error):
    return type(error), str(error), [frame.lineno for frame in traceback.extract_tb(error.__traceback__)][1:], type(error.__cause__)


def outcome(function, *args):
    try:
        return function(*args)
    except (AssertionError, ValueError, IndexError) as error:
        return lines(error)


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
def test_branches_that_raise_are_checked_in_the_graph(backend):
    for function in (asserts, refuses_sizes):
        framejit.reset()
        compiled = framejit.compile(function, backend=backend, fullgraph=True)
        for x in (SOME, -SOME, NONE, ALL, ONE, SOME):
            Comparison().same(outcome(function, x), outcome(compiled, x), str(x))
        assert framejit.statistics()["graphs"] == 1
    framejit.reset()
    compiled = framejit.compile(refuses, backend=backend, fullgraph=True)
    for x in (SOME, with_nan(SOME), SOME / 0, -ONE, ONE):
        expected, log = [], []
        Comparison().same(outcome(refuses, x, expected), outcome(compiled, x, log), str(x))
        assert expected == log
    assert framejit.statistics()["graphs"] == 1


def test_branches_that_raise_under_a_handler_split():
    def f(x):
        try:
            if (x < 0).all():
                raise ValueError
        except ValueError:
            return x * 3
        return x * 2

    for backend in BACKENDS:
        assert agree(f, (SOME,), (SOME - 100,), backend=backend)["graph_breaks"] == 1


@pytest.mark.parametrize("changed", [False, True], ids=["nothing is changed", "an input is changed"])
@pytest.mark.only_eager("the test names its backends")
def test_branches_that_raise_under_finally_and_with_are_checked_in_the_graph(changed):
    class Block:
        def __enter__(self):
            log.append("entered")

        def __exit__(self, kind, error, trace):
            log.append((str(error), trace is None))
            return kind is ValueError and not changed

    def f(x, y):
        try:
            with block:
                if changed:
                    y.add_(1)
                if (x < 0).all():
                    raise ValueError("all are negative")
                y = y * 2
            return x.exp() + y
        finally:
            log.append("left")

    block = Block()
    for backend in BACKENDS:
        framejit.reset()
        compiled = framejit.compile(f, backend=backend)
        seen = {f: [], compiled: []}
        for function, found in seen.items():
            for x in (SOME, SOME - 100, ONE):
                log, y = [], torch.ones(4)
                found.append((outcome(function, x, y), y, log))
        for eager, ours in zip(*seen.values(), strict=True):
            Comparison().same((eager[0] if isinstance(eager[0], torch.Tensor) else eager[0][:2], *eager[1:]),
                              (ours[0] if isinstance(ours[0], torch.Tensor) else ours[0][:2], *ours[1:]), "")  # fmt: skip
        assert framejit.statistics()["graph_breaks"] == int(changed and backend == "eager"), framejit.statistics()["reasons"]


def test_sizes_out_of_tensors_that_an_operator_must_know():
    def f(x, size):
        return F.interpolate(x[None, None], size=(size[0], size[1]), mode="bilinear") * 2

    found = agree(f, (SOME, torch.tensor([3, 4])), (SOME, torch.tensor([6, 2])))
    assert found["graph_breaks"] == 1 and found["fallbacks"] == 0, found["reasons"]


@pytest.mark.only_eager("the test names its backends")
def test_a_branch_that_raises_behind_a_change_of_an_input_splits_where_that_is_made_at_once():
    for backend in BACKENDS:
        assert agree(asserts_behind_a_change, (SOME,), (ALL,), backend=backend)["graph_breaks"] == (backend != "aot_eager")
        x, y = SOME - 100, SOME - 100
        compiled = framejit.compile(asserts_behind_a_change, backend=backend)
        assert outcome(asserts_behind_a_change, x) == outcome(compiled, y) and torch.equal(x, y)


# Texts.


def texts(x, log):
    n, m = x.argmax().item(), x.max().item()
    log.append(f"step {n}: {m:.3f}")
    log += [f"{n:>5}|{m!r:<9}|{n > 3}", str(m), f"{n}" + "!", "at " + f"{n + 1}" + f" of {x.size(0)}", f"{f'{n}'}", format(m, ".1e"), repr(n)]
    return log, x * 2


def test_texts_are_made_behind_the_graph():
    for backend in BACKENDS:
        assert agree(texts, (SOME, []), (ONE, []), (ALL / 0, []), backend=backend, fullgraph=True)["graphs"] == 1


def looked_at(x):
    text = f"{x.argmax().item()}"
    return text == "9", text is None, {text: 1}, text.zfill(3), len(text), [*text], f"{x.argmax().item():c}", isinstance(text, str)


def test_texts_that_are_looked_at():
    assert agree(looked_at, (SOME,), (ALL,))["graph_breaks"] >= 1


def test_printing_breaks_once():
    counts = agree(lambda x: (print(f"{x.max().item():.2f}", end=""), x * 2)[1], (SOME,), (ONE,))
    assert (counts["graph_breaks"], counts["recompiles"]) == (1, 0)


MARKED = {
    "mul": lambda x: x * x.size(0) + 1, "linear": lambda x: F.linear(x, torch.ones(3, x.size(1))) if x.dim() > 5 else x @ torch.ones(2, 3),
    "cat": lambda x: torch.cat([x, x]).sum(0), "size": lambda x: (x.size(0), x.shape), "softmax": lambda x: x.softmax(-1),
    "arange": lambda x: torch.arange(x.size(0)) * 2, "norm": lambda x: F.layer_norm(x, (2,)), "mean": lambda x: x.sum() / max(x.size(0), 1),
    "check": lambda x: (torch._check(x.size(0) < 9), x + 1 if x.size(0) < 10 else x)[1], "gelu": lambda x: F.gelu(x @ torch.ones(2, 5)).t(),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", MARKED)
def test_one_graph_for_all_sizes_of_a_marked_dimension(name: str, backend: str) -> None:
    """0 and 1 too."""
    framejit.reset()
    compiled = framejit.compile(MARKED[name], backend=backend)
    for n in (5, 1, 0, 3, 8):
        x = torch.randn(n, 2)
        framejit.mark_unbacked(x, 0)
        Comparison().same(MARKED[name](x), compiled(x), f"{n} rows")
    assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0), framejit.statistics()["reasons"]


def test_a_marked_dimension_that_is_asked_about() -> None:
    framejit.reset()
    program = lambda x: x + 1 if x.size(0) > 4 else x - 1
    compiled = framejit.compile(program, backend="eager")
    for n in (5, 1, 0, 8):
        x = torch.randn(n, 2)
        framejit.mark_unbacked(x, 0)
        assert torch.equal(compiled(x), program(x))
    assert any("x.size(0)" in str(reason) for reason in framejit.statistics()["reasons"])


def test_the_layout_of_a_marked_tensor_is_guarded() -> None:
    framejit.reset()
    program = lambda x: x.as_strided((2,), (1,)) + x.stride(0)
    compiled = framejit.compile(program, backend="eager")
    for x in (torch.randn(3, 4), torch.randn(3, 5), torch.randn(5, 3).t(), torch.randn(3, 8)[:, ::2], torch.randn(3, 7)[:, 1:]):
        framejit.mark_unbacked(x, 1)
        assert torch.equal(compiled(x), program(x))


def test_a_backend_that_takes_no_unbacked_sizes() -> None:
    framejit.reset()
    compiled = framejit.compile(lambda x: x * 2, backend=lambda graph, inputs: graph)
    for n in (5, 3, 8, 1):
        x = torch.randn(n, 2)
        framejit.mark_unbacked(x, 0)
        assert torch.equal(compiled(x), x * 2)
    assert framejit.statistics()["graphs"] == 2


def test_contradictory_marks() -> None:
    x = torch.randn(3, 2)
    framejit.mark_unbacked(x, 0)
    with pytest.raises(framejit.BadArgument, match="dimension 0 is marked as dynamic"):
        framejit.mark_static(x, 0)
    framejit.mark_static(x, 1)
    with pytest.raises(framejit.BadArgument, match="mark_unbacked\\(\\): dimension 1 is marked as static"):
        framejit.mark_unbacked(x, 1)


# Sizes that operators are given as they are computed.


def pooled(batch, x):
    count = int(batch.max()) + 1
    summed = x.new_zeros(count, x.size(1)).index_add_(0, batch.clamp(min=0), x)
    return summed / torch.ones(count, 1), summed.mean(0), summed.shape


def scattered(batch, x):
    count = batch.max().item() + 1
    return torch.zeros(count, x.size(1)).scatter_add_(0, batch.clamp(min=0).unsqueeze(-1).expand_as(x), x).softmax(-1), torch.arange(count * 2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [pooled, scattered])
def test_sizes_computed_from_data_are_checked_by_the_operators_that_take_them(program, backend):
    calls = [(torch.full((4,), last), torch.arange(12.0).view(4, 3)) for last in (3, 0, 5, 1)]
    found = agree(program, *calls, backend=backend)
    assert (found["graphs"], found["graph_breaks"], found["recompiles"], found["fallbacks"]) == (1, 0, 0, 0)
    compiled = framejit.compile(program, backend=backend)
    for last in (3, -2, 0, -5, -1):
        args = torch.full((4,), last), torch.arange(12.0).view(4, 3)
        eager, mine = run(program, args), run(compiled, args)
        assert (eager[0] is mine[0]) if isinstance(eager[0], type) else Comparison().same(eager, mine) is None
