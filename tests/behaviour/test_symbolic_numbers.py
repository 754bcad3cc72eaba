"""Numbers that differ from call to call: floats are inputs of graphs, arithmetic is Python's own, and comparisons guard their outcome."""

from __future__ import annotations

import gc
import itertools
import math
import operator
import weakref

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison
from hypothesis import example, given, settings
from hypothesis import strategies as st

import framejit
from framejit.objects.numbers.numberobject import COMPARISONS

VALUES = (1.5, 2.5, 3.25, 0.75, 5.5)
OPERATORS = {
    "mul": lambda x, t: x * t, "rsub": lambda x, t: t - x, "rdiv": lambda x, t: t / x, "pow": lambda x, t: x**t, "cmp": lambda x, t: x > t,
    "full": lambda x, t: torch.full((2,), t) + x, "clamp": lambda x, t: x.clamp(min=t), "alpha": lambda x, t: torch.add(x, x, alpha=t),
    "where": lambda x, t: torch.where(x > 1, x, t), "leaky": F.leaky_relu, "elu": F.elu, "fill": lambda x, t: x.clone().fill_(t),
    "mul_": lambda x, t: x.clone().mul_(t), "addcmul": lambda x, t: torch.addcmul(x, x, x, value=t), "int tensor": lambda x, t: x.long() * t,
    "half": lambda x, t: x.half() * t, "half of it": lambda x, t: x * (t / 2 + 1.0), "softmax": lambda x, t: (x / t).softmax(-1),
    "maximum": lambda x, t: max(t, 0.1) * x, "negative": lambda x, t: -t * x, "beside an int": lambda x, t: x * (x.size(0) * t),
}  # fmt: skip
MAY_NEED_A_CONSTANT = {"pow"}
"""By the version of torch."""
NEED_A_CONSTANT = {
    "eps": lambda x, t: F.layer_norm(x, (2,), eps=t), "label smoothing": lambda x, t: F.cross_entropy(x[None], torch.tensor([0]), label_smoothing=t / 10),
    "arange": lambda x, t: torch.arange(0, t), "scale": lambda x, t: F.scaled_dot_product_attention(*[x.view(1, 1, 1, 2)] * 3, scale=t),
    "norm": lambda x, t: torch.norm(x, p=t), "round": lambda x, t: round(t, 1) * x, "int": lambda x, t: int(t) * x, "tensor": lambda x, t: torch.tensor(t) + x,
    "item": lambda x, t: x * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0][math.floor(t)],
}  # fmt: skip


def agrees(function, calls, **options):
    """Compare a compiled function with eager over calls; the statistics."""
    framejit.reset()
    with framejit.config.replace(check="compile,guards,shapes"):
        compiled = framejit.compile(function, **{"backend": "eager", **options})
    for call in calls:
        results = []
        for callee in (function, compiled):
            torch.manual_seed(0)
            results.append(callee(torch.tensor([1.0, 2.0]), *call))
        Comparison().same(*results, f"{call}")
    return framejit.statistics()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", OPERATORS)
def test_one_graph_for_all_floats(name: str, backend: str) -> None:
    counts = agrees(OPERATORS[name], [(value,) for value in VALUES], backend=backend)
    assert counts["graphs"] == 2 or (name in MAY_NEED_A_CONSTANT and counts["graphs"] == len(VALUES))
    assert counts["graph_breaks"] == counts["fallbacks"] == 0, counts["reasons"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", NEED_A_CONSTANT)
def test_what_needs_a_constant_gets_one(name: str, backend: str) -> None:
    counts = agrees(NEED_A_CONSTANT[name], [(value,) for value in VALUES], backend=backend)
    assert counts["graph_breaks"] == counts["fallbacks"] == 0, counts["reasons"]


def test_with_inductor() -> None:
    def program(x: torch.Tensor, t: float, n: int) -> tuple[torch.Tensor, ...]:
        return x * t, (x / t).clamp(min=t / 4), x.long() * t, torch.full((2,), t), x * ((t + 1e20) - 1e20), x * (t * 0.0), x * (t * (n + 1))

    values = (1.0, 2.0, 3.5, -0.0, math.inf, math.nan)
    counts = agrees(lambda x, t, n: program(x, t or 0.5, n), [(value, n) for n, value in enumerate(values, 3)], backend="inductor")
    assert counts["graph_breaks"] == counts["fallbacks"] == 0, counts["reasons"]


def test_what_the_backend_has_no_code_for_is_compiled_with_a_constant() -> None:
    counts = agrees(lambda x, t: torch.lerp(x, x + 1, t), [(0.25,), (0.5,), (0.75,)], backend="inductor")
    assert counts["graphs"] <= 3 and not counts["fallbacks"]


def test_numbers_that_make_aot_autograd_fail_are_constants() -> None:
    """torch's symbolic arithmetic has no remainder of ints that may be negative."""
    counts = agrees(lambda x, n: F.interpolate(x[None, None], size=n % 4 + 1), [(n,) for n in (2, 3, 5, 6)], backend="aot_eager", dynamic=True)
    assert counts["graphs"] <= 4 and not counts["fallbacks"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_floats_are_not_simplified(backend: str) -> None:
    """As sympy would: `(a + 1e20) - 1e20` to `a`, `a * 0.0` to 0."""
    values = (1.0, 2.0, 3.5, -0.0, 1e300, math.inf, -math.inf, math.nan, 5e-324)
    counts = agrees(lambda x, a: (x + ((a + 1e20) - 1e20), x * (a * 0.0), a - a, x / (a + 1e-3)), [(a,) for a in values], backend=backend)
    assert counts["graphs"] == 2 and not counts["graph_breaks"]


@pytest.mark.parametrize(
    ("program", "graphs"),
    [
        (lambda x, t: x * t if t > 2 else x + t, 3),
        (lambda x, t: x * t if t != 0.0 else x, 2),
        (lambda x, t: x * t if t else x, 2),
        (lambda x, t: x * t if 2.0 >= t else x - t, 3),
        (lambda x, t: x * t if t == 0.75 else x - t, 3),
        (lambda x, t: x * (1 / t), 2),
        (lambda x, t: x * t if t < math.inf else x, 2),
        (lambda x, t: x * t if 1.0 < t * 2 < 50 else x, 2),
    ],
)
def test_comparisons_guard_their_outcome(program, graphs: int) -> None:
    counts = agrees(program, [(value,) for value in (*VALUES, *VALUES)])
    assert counts["graphs"] == graphs


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_tensors_are_made_of_floats(backend: str) -> None:
    def program(x: torch.Tensor, t: float) -> tuple[torch.Tensor, ...]:
        return (
            torch.tensor(t),
            torch.tensor([t, 1.0]) + x,
            torch.as_tensor(t * 2, dtype=torch.float64),
            torch.Tensor([t]),
            torch.tensor(t, dtype=torch.complex64),
        )

    counts = agrees(program, [(value,) for value in (0.1, 0.2, 1e300, -0.0, math.inf, math.nan)], backend=backend)
    assert counts["graphs"] == 2 and not counts["graph_breaks"]
    agrees(lambda x, t: torch.tensor(t, dtype=torch.int64), [(value,) for value in (0.5, 2.5, -7.5)], backend=backend)


def test_functions_of_floats_that_may_fail() -> None:
    def program(x: torch.Tensor, t: float) -> torch.Tensor:
        return x * math.sqrt(t) + math.log(t) - math.exp(-t) * math.exp(t / 2)

    counts = agrees(program, [(value,) for value in (0.1, 0.2, 3.5, 400.0, 5e-324)])
    assert counts["graphs"] == 2
    for value in (0.0, -1.0, 1e4, math.inf):  # for some of them, functions raise
        outcomes = []
        for function in (program, framejit.compile(program, backend="eager")):
            try:
                outcomes.append(repr(function(torch.ones(2), value)))
            except (ValueError, OverflowError) as error:
                outcomes.append(repr(error))
        assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("to_int", [int, math.floor, math.ceil, round])
def test_ints_of_computed_floats_that_are_not_finite(to_int) -> None:
    def program(x: torch.Tensor, t: float, n: int) -> torch.Tensor:
        return x * to_int(t * n)

    def outcome(function, *args: float) -> str:
        try:
            return repr(function(torch.ones(2), *args))
        except (ValueError, OverflowError) as error:
            return repr(error)

    compiled = framejit.compile(program, backend="eager")
    for args in ((0.5, 1), (1.5, 2), (2.5, 3), (math.inf, 4), (-math.inf, 5), (math.nan, 6), (1.5, 7)):
        assert outcome(compiled, *args) == outcome(program, *args)


def test_a_float_that_becomes_an_int() -> None:
    agrees(lambda x, t: (x.long() * t, t * 2), [(0.5,), (0.25,), (2,), (3,), (True,), (1.5,)])


def test_nan_is_no_symbol() -> None:
    """No comparison with it is true, nor is the opposite."""
    counts = agrees(lambda x, t: x * t if t > 1 else x + t, [(1.5,), (2.5,), (math.nan,), (0.5,), (math.nan,), (3.5,)])
    assert counts["graphs"] <= 5


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_training_with_a_schedule(backend: str) -> None:
    """A loss weight that is another in each step: two graphs, and eager's gradients."""
    framejit.reset()
    layer = torch.nn.Linear(3, 2)
    function = lambda x, weight: ((layer(x) * weight).tanh() + weight).pow(2).mean() * (1 - weight)
    compiled = framejit.compile(function, backend=backend)
    for step in range(6):
        x, gradients = torch.randn(4, 3), []
        for callee in (function, compiled):
            layer.zero_grad()
            callee(x, 0.1 * step + 0.05).backward()
            gradients.append([parameter.grad.clone() for parameter in layer.parameters()])
        torch.testing.assert_close(*gradients)
    assert framejit.statistics()["graphs"] == 2


def test_a_float_behind_a_break_and_in_state() -> None:
    class Scale:
        value = 1.0

    scale = Scale()

    def program(x: torch.Tensor, t: float) -> tuple[torch.Tensor, float]:
        y = x * t
        framejit.graph_break()
        scale.value = scale.value * 0.5 + t
        return y * scale.value + t, t * 2

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    results = []
    for callee in (program, compiled):
        scale.value = 1.0
        results.append([callee(torch.ones(2), 0.3 * n) for n in range(1, 9)])
    Comparison().same(*results, "state")
    assert framejit.statistics()["frames"] <= 7 and not framejit.statistics()["fallbacks"]


def test_a_module_attribute_that_is_annealed() -> None:
    class Annealed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.temperature = 2.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x / self.temperature).softmax(-1)

    framejit.reset()
    model, compiled = Annealed(), None
    compiled = framejit.compile(model, backend="eager")
    x = torch.randn(3, 4)
    for _ in range(6):
        model.temperature = compiled.temperature = model.temperature * 0.9
        torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    assert framejit.statistics()["graphs"] == 2


def test_the_log_says_which_float_varies(caplog) -> None:
    framejit.set_logs("dynamic")
    try:
        agrees(lambda x, t: x * t, [(0.5,), (0.25,), (0.125,)])
    finally:
        framejit.set_logs("")
    assert "t: 0.5 -> 0.25" in caplog.text and "0.125" not in caplog.text


def test_it_is_freed() -> None:
    class Scaled(torch.nn.Linear):
        def forward(self, x: torch.Tensor, t: float) -> torch.Tensor:
            return super().forward(x) * (t * 2)

    model = Scaled(2, 2)
    compiled = framejit.compile(model, backend="aot_eager")
    for t in (0.5, 0.25, 0.125):
        compiled(torch.ones(2), t)
    gone = weakref.ref(model)
    del compiled, model
    gc.collect()
    assert gone() is None


INTS_IN_GRAPHS = {
    "abs": lambda x, n: x * abs(n - 4), "divmod": lambda x, n: (x * divmod(n, 3)[0], divmod(n, 3)), "shifts": lambda x, n: (x * (n << 2), n >> 1, -n >> 1),
    "masks": lambda x, n: (x * (n & 7), n & 1, 3 & n, -n & 7), "invert": lambda x, n: (x * ~n, ~n), "round": lambda x, n: (x * round(n), round(n)),
    "constants": lambda x, n: (x * n, 1 << (1 + (n - n)), 6 | (n - n)),
}  # fmt: skip


@pytest.mark.parametrize("name", INTS_IN_GRAPHS)
def test_operations_on_ints(name: str) -> None:
    counts = agrees(INTS_IN_GRAPHS[name], [(n,) for n in (5, 6, 7, 8, 9, 2**20)])
    assert (counts["frames"], counts["graphs"]) == (2, 2)


@pytest.mark.parametrize("symbol", ["<", "<=", "==", "!=", ">", ">="])
def test_a_comparison_that_leaves_the_frame(symbol: str) -> None:
    """It is computed in each call: its outcome is guarded only where the program goes by it."""
    compare = COMPARISONS[symbol]

    def program(x: torch.Tensor, n: int) -> tuple[object, ...]:
        found = compare(n * 2, 14)
        return x + n, found, [compare(n, x.shape[0])], {"both": (found, n)}

    counts = agrees(program, [(n,) for n in (3, 4, 7, 7, -5, 2, 100)])
    assert (counts["frames"], counts["graphs"]) == (2, 2)
    counts = agrees(lambda x, n: x * n if (found := compare(n, 7)) else (x + n, found), [(n,) for n in (3, 4, 7, 9, 5, 10)])
    assert counts["frames"] <= 4


def test_a_comparison_behind_a_break_and_in_state() -> None:
    class Counter:
        done = False

    counter = Counter()

    def program(x: torch.Tensor, n: int) -> tuple[object, ...]:
        counter.done = n > 5
        small = n < 7
        framejit.graph_break()
        return x * n if small else x - n, counter.done, small is True, not small

    counts = agrees(program, [(n,) for n in (3, 4, 7, 9, 5, 10)])
    assert counts["fallbacks"] == 0 and counter.done is True


def test_sequences_of_numbers_are_compared_without_asking_for_them() -> None:
    """Of two ints, identity says no more than equality."""
    counts = agrees(lambda x, n: x * n if [n, 1] == [n + 0, 1] and (n,) != (x.size(0),) else x, [(n,) for n in (5, 6, 7, 8, 9)])
    assert (counts["frames"], counts["graphs"]) == (2, 2)


def test_ints_beyond_the_limit_of_digits(caplog) -> None:
    """Neither the log nor an explanation writes them down."""
    framejit.set_logs("dynamic,recompiles")
    compiled = framejit.compile(lambda x, n: x * (n % 7), backend="eager")
    try:
        for n in (3, 1 << 50_000, (1 << 50_000) + 1, 5):
            assert torch.equal(compiled(torch.ones(2), n), torch.full((2,), float(n % 7)))
    finally:
        framejit.set_logs("")
    assert "n: 3 -> an int of 50001 bits" in caplog.text


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_ints_that_leave_64_bits(backend: str) -> None:
    """Compiled code would wrap around where Python's ints don't."""

    def program(x: torch.Tensor, n: int) -> str:
        try:
            return x.long() * (n * n * n) + n
        except (OverflowError, RuntimeError) as error:
            return type(error).__name__

    agrees(program, [(n,) for n in (5, 6, 7, 2**20, 2**21, 2**22, 3, -(2**22), -5, 2**62, 2**63)], backend=backend)


# ---- random arithmetic ----


def average_with_warmup(x, n, power=-2 / 3):
    """timm's and diffusers' moving averages of weights."""
    decay = max(min(1 - (1 + n / 1.0) ** power, 0.75), 0.0)
    torch._foreach_lerp_([x], [x + 1], weight=1.0 - decay)
    return x.sub_((1 - min((1 + n) / (10 + n), 0.9)) * x), decay


def hand_written_adam(x, n):
    """The corrections of Adam's averages."""
    size = 1e-3 / (1 - 0.9**n)
    return x * size / (1 - 0.999**n) ** 0.5, size


def polynomial_decay(x, n):
    """Learning rates that fall to zero."""
    rate = (1 - n / 6000) ** 2 * 1e-3
    return x * rate - (1 - n / 6000) ** 0.9, rate


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [average_with_warmup, hand_written_adam, polynomial_decay])
def test_floats_computed_from_a_counter(program, backend: str) -> None:
    counts = agrees(program, [(n,) for n in (1, 2, 3, 4, 30, 5000)], backend=backend)
    assert (counts["graphs"], counts["graph_breaks"]) == (2, 0), counts["reasons"]


def test_powers_that_may_fail_rest_on_their_numbers() -> None:
    with pytest.raises(ZeroDivisionError):
        agrees(lambda x, n: x * (1 - n / 10.0) ** -2, [(n,) for n in (2, 3, 4, 10)])
    assert agrees(lambda x, n: (x, (n / 2.0) ** 0.5), [(n,) for n in (2, 3, -4, 0)])["fallbacks"] == 0
    assert agrees(lambda x, n: (x, (1 - n / 10.0) ** 0.9), [(n,) for n in (2, 3, 4, 10, 11)])["fallbacks"] == 0  # the last one is complex


def test_powers_of_negative_numbers_with_negative_and_broken_exponents() -> None:
    for power in (lambda x, n: (x, n**-1), lambda x, n: (x * n**-3, x), lambda x, n: (x, n**0.5), lambda x, n: (x, pow(-n, -2))):
        agrees(power, [(n,) for n in (3, 5, -7, 2, -2, 1)])



BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod, "divmod": divmod,
    "<<": lambda a, b: a << b % 7, ">>": lambda a, b: a >> b % 7, "&": operator.and_, "|": operator.or_, "**": lambda a, b: float(a) ** b,
    "max of two": max, "min of two": min,
}  # fmt: skip
COMPARED = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}
FUNCTIONS = {
    "neg": operator.neg, "abs": abs, "float": float, "int": int, "max": lambda v: max(v, 1), "min": lambda v: min(2.5, v), "bool": bool, "round": round,
    "~": operator.invert, "sum": lambda v: sum([v, 1, v]), "first": lambda v: v[0] if isinstance(v, tuple) else v,
}  # fmt: skip
INTS = st.one_of(st.integers(-9, 9), st.integers(-(2**70), 2**70), st.sampled_from([2**31, 2**53 + 1, -(2**63), 2**63 - 1]))
FLOATS = st.one_of(st.floats(-8, 8), st.floats(), st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 1e308, 5e-324, 2.0**53]))
LEAVES = st.one_of(st.sampled_from(["a", "b", "n", "m"]), st.integers(-3, 3), st.sampled_from([0.5, -2.0, 1e20]))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from([*BINARY, *COMPARED]), inner, inner), st.tuples(st.sampled_from([*FUNCTIONS]), inner)
    ),
    max_leaves=6,
)


def evaluate(tree, names):
    if isinstance(tree, str):
        return names[tree]
    if not isinstance(tree, tuple):
        return tree
    operation, *parts = tree
    return (BINARY | COMPARED | FUNCTIONS)[operation](*[evaluate(part, names) for part in parts])


def outcome(function, *args):
    try:
        value = function(*args)
    except (ZeroDivisionError, OverflowError, ValueError, TypeError) as error:
        return type(error).__name__, str(error)
    return type(value).__name__, repr(value)


def test_constants_beyond_64_bits() -> None:
    def order(n, tolerance):
        if n < 0:
            n = ~(n + 2**63)
        return (n, "few") if abs(n) <= tolerance else (n, "many")

    def mixed(n, x):
        return abs(~(n + 2**63)) > x, float(n) < 2**70, n | (2**64), abs(n + 2**63) % 7 == 3

    many = [(-5, 3), (-7, 2**62), (-9, 1), (4, 5), (8, 1), (-3, 8), (3 - 2**63, 7)], [(1, 0.5), (2, 0.7), (3, 1e30), (4, 0.1), (10, 9e18)]
    for function, calls in zip((order, mixed), many, strict=True):
        compiled = framejit.compile(function, backend="eager")
        assert [compiled(*call) for call in calls] == [function(*call) for call in calls]


@pytest.mark.parametrize(
    "function",
    [lambda a, n, m: a if n <= a else n, lambda a, n, m: 1 if a + n < m else 2, lambda a, n, m: 1 if a * n >= m else 2, lambda a, n, m: sorted([a, n, m])],
    ids=["branch", "sum", "product", "sorted"],
)
def test_ints_that_may_not_be_exact_as_floats(function) -> None:
    """Guards can't compare them with floats: their values are guarded."""
    framejit.reset()
    compiled = framejit.compile(lambda x, *args: (x + 1, function(*args)), backend="eager")
    varied = [(0.5, 1, 3), (1.5, 7, 4)]
    large = itertools.product((0.0, 2.0**53, -1e18), (2**53 - 1, 2**53 + 1, -(2**63)), (4, 2**53 + 1, 2**63 - 1, -(2**63)))
    for call in [*varied, *itertools.islice(large, 0, None, 3)]:
        assert repr(compiled(torch.ones(2), *call)[1]) == repr(function(*call)), call


@settings(max_examples=100, deadline=None)
@example(("+", 0.5, ("<=", "a", "n")), [(-1.5, 0.5, 0, 1), (0.25, 0.0, 3, 9), (5e-324, 0.5, -(2**63), -4)])
@example(("max of two", "a", "n"), [(1.0, 0.0, 0, 0), (0.0, 0.0, 0, 0), (0.0, 0.0, 2**63 - 1, 0)])
@example(("max of two", "a", "n"), [(0.0, 0.0, 0, 0), (0.0, 0.0, 0, 0), (0.0, 0.0, 2**53 + 1, 0), (0.5, 0.0, 2**53 + 1, 0), (2.0**53, 0.0, 2**53 + 1, 0)])
@given(TREES, st.lists(st.tuples(FLOATS, FLOATS, INTS, INTS), min_size=3, max_size=5))
def test_random_arithmetic(tree, calls) -> None:
    """Numbers that vary from the second call on, in one expression: Python's own values, types and errors."""

    def program(x, a, b, n, m):
        x = x + 1
        return evaluate(tree, {"a": a, "b": b, "n": n, "m": m})

    framejit.reset()
    with framejit.config.replace(check="compile,guards,shapes"):
        compiled = framejit.compile(program, backend="eager")
    for call in [*calls, *calls]:
        assert outcome(compiled, torch.ones(2), *call) == outcome(program, torch.ones(2), *call), call


QUOTIENTS = {
    "is zero": lambda x, n, m: x + 1 if int(n / m) == 0 else x + 2,
    "is negative": lambda x, n, m: x + 1 if math.trunc(n / m) < 0 else x + 2,
    "divides": lambda x, n, m: (x + 1, 6.0 / (int(n / m) or 1)),
    "of a size": lambda x, n, m: x + 1 if int((x.shape[0] - n) / m) == 0 else x + 2,
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients_are_rounded_towards_zero(name: str, dynamic: bool | None) -> None:
    pairs = [(1, 1), (4, 2), (9, 4), (-2, 5), (-7, 5), (3, 5), (5, -3), (2, -3), (-1, 2)]
    assert agrees(QUOTIENTS[name], pairs, dynamic=dynamic)["fallbacks"] == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_numbers_that_are_arguments_of_operators_alone(backend):
    """No tensor that comes from outside has a symbolic size. Some operators are written in C++ for ints only, in terms of others."""

    def padded(x, n):
        return (
            F.pad(x, [0, n]),
            F.pad(x, (n // 2, n - n // 2), value=1.0),
            torch.ones(n).roll(n - 1),
            x.repeat(n),
            F.pad(torch.ones(n), [n, 0]),
        )

    framejit.reset()
    compiled = framejit.compile(padded, backend=backend, fullgraph=True)
    for n in (2, 3, 7, 4):
        for expected, found in zip(padded(torch.ones(3), n), compiled(torch.ones(3), n), strict=True):
            assert torch.equal(found, expected)
    assert framejit.statistics()["graphs"] == 2
