"""FRAMEJIT_CHECK: that the checks find what is wrong, and that they change nothing where nothing is."""

from __future__ import annotations

import copy
import logging
import math
import random
import re
from collections import OrderedDict, deque

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import framejit
from framejit import _runtime, config
from framejit.compiler import compile as stages
from framejit.driver import check, second_run
from framejit.errors import CheckError
from framejit.guards.kinds import Equals, TensorMatch
from framejit.guards.source import Call

x = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def no_checkers_afterwards():
    framejit.reset()
    yield
    _runtime.set_call_checker(None)
    _runtime.set_guard_checker(None)
    framejit.set_logs()


def checked(f, what, backend="eager", fullgraph=False, **options):
    with config.replace(check=what, **options):
        return framejit.compile(f, backend=backend, fullgraph=fullgraph)


def said(caplog):
    found = [record.getMessage() for record in caplog.records if record.name == "framejit.checks"]
    caplog.clear()
    return found


def test_unknown_checks_are_refused():
    with pytest.raises(framejit.ConfigError, match="there is no check 'guard'; did you mean 'guards'"), config.replace(check="results,guard"):
        pass
    assert config.from_environment({"FRAMEJIT_CHECK": " guards, results", "FRAMEJIT_CHECK_EVERY": "7"}).checks() == {"guards", "results"}
    with pytest.raises(framejit.ConfigError, match="check_every"):
        config.from_environment({"FRAMEJIT_CHECK_EVERY": "0"})


@pytest.mark.parametrize(("what", "verified"), [("compile", True), ("guards", False), ("results", False), ("", False)])
def test_new_guards_are_compared_with_their_reference_where_asked(what, verified, monkeypatch):
    seen = []
    monkeypatch.setattr(stages, "verify", lambda guards, call: seen.append(call))
    checked(lambda t: t + 1, what)(x)
    assert bool(seen) is verified


# ---- guards ----


def test_agreeing_guards_pass():
    f = checked(lambda t, n: t * n, "guards")
    for n in (1, 2, 1, 3, 2):
        assert torch.equal(f(x, n), x * n)
    assert torch.equal(f(x.double(), 1), x.double()) and len(f.entries) == 3, "for 1, for all ints, and for doubles"


def test_models_are_compared_on_numbers_too_long_to_write_out():
    big = 10**5001

    def program():
        values = [number // 3 for number in (big, -big)]
        return math.isqrt(big) % 7, max(values) % 5, divmod(big, 10**5000), {}.get(big), (big,) * 2 == (big, big + 1)

    assert checked(program, "compile,guards")() == program()


def test_a_reference_that_rejects_a_hit_is_loud(monkeypatch):
    f = checked(lambda t, n: t * n, "guards")
    f(x, 1)
    monkeypatch.setattr(Equals, "check", lambda self, value, call: False)
    with pytest.raises(CheckError, match=r"entry 0 accepts a call that the reference rejects: n expected that it == 1") as caught:
        f(x, 1)
    assert isinstance(caught.value, framejit.InternalError)
    monkeypatch.undo()
    assert torch.equal(f(x, 1), x)


def test_a_reference_that_accepts_a_miss_is_loud(monkeypatch):
    f = checked(lambda t, n: t * n, "guards")
    f(x, 1)
    monkeypatch.setattr(TensorMatch, "check", lambda self, value, call: True)
    with pytest.raises(CheckError, match="entry 0 rejects a call that the reference accepts: t expected that it is a Tensor"):
        f(x.double(), 1)


def test_functions_that_native_code_calls_are_checked_too(monkeypatch):
    def program(t, n):
        return sorted([t + n, t], key=lambda a: (a.sum() * n).item())[0]

    f = checked(program, "guards")
    for n in (1, 1, 2):
        assert torch.equal(f(x, n), x)
    monkeypatch.setattr(TensorMatch, "check", lambda self, value, call: not call.function.__name__ == "<lambda>")
    with pytest.raises(CheckError, match="lambda"):
        f(x, 1)


def test_other_functions_are_left_alone(monkeypatch):
    f, g = checked(lambda t: t + 1, "guards"), checked(lambda t: t + 2, "")
    f(x), g(x)
    monkeypatch.setattr(TensorMatch, "check", lambda self, value, call: False)
    assert torch.equal(g(x), x + 2)
    with pytest.raises(CheckError):
        f(x)


class Thing:
    def __init__(self, n, items):
        self.n = n
        self.items = items


def program(t, n, text, items, table, thing, extra=None):
    """Looks at much of what it is given."""
    if n > 2 and text.startswith("a"):
        t = t * n
    for key, value in table.items():
        t = t + len(key) * (value if isinstance(value, int) else 2)
    for item in items:
        t = t - (item if isinstance(item, (int, float)) else 1)
    if extra is not None and "k" in extra:
        t = t + 1
    if hasattr(thing, "m"):
        t = t * 2
    return t + thing.n + len(thing.items)


SCALARS = st.one_of(st.integers(-2, 4), st.sampled_from([0.0, -0.0, 1.5, float("nan"), True, False, None, "a", "ab", ""]))
ARGUMENTS = st.tuples(
    st.sampled_from([x, x.double(), x[:1], x.t(), torch.ones(2, 3, 1), x.clone().requires_grad_(), nn.Parameter(x.clone())]),
    st.integers(0, 4),
    st.sampled_from(["a", "ab", "b", ""]),
    st.one_of(st.lists(SCALARS, max_size=3), st.tuples(SCALARS), st.builds(deque, st.lists(SCALARS, max_size=2))),
    st.one_of(st.dictionaries(st.sampled_from("abc"), SCALARS, max_size=3), st.builds(OrderedDict, st.just([("a", 1), ("b", 2)]))),
    st.builds(Thing, st.integers(0, 2), st.lists(st.integers(0, 1), max_size=2)),
    st.one_of(st.none(), st.sets(st.sampled_from("jk")), st.frozensets(st.sampled_from("jk"))),
)


def attempt(f, arguments):
    try:
        return f(*arguments)
    except Exception as error:
        return type(error)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(ARGUMENTS, min_size=1, max_size=4), st.data())
def test_verdicts_agree_on_matching_calls_and_on_changed_ones(calls, data):
    """Each entry's native tree and the reference of its guards: for calls that it was made for, and for those with something changed."""
    f = checked(program, "compile,guards")
    frames = []
    for arguments in calls:
        for _ in range(2):
            assert_same(attempt(f, arguments), attempt(program, arguments))
        frames.append([*arguments])
    for _ in range(6):
        frame = [*data.draw(st.sampled_from(frames))]
        change(frame, data)
        call = Call(tuple(frame), program)
        for entry in f.entries:
            for _ in range(2):
                assert check.compare_verdicts(entry, call) is None
        assert_same(attempt(f, frame), attempt(program, frame))


def change(frame, data):
    """One argument is another one, or is changed in place."""
    place = data.draw(st.integers(0, 6))
    thing = frame[5]
    match place, data.draw(st.booleans()):
        case 3, True if isinstance(frame[3], list):
            frame[3] = [*frame[3], data.draw(SCALARS)]
        case 4, True if type(frame[4]) is dict:
            frame[4][data.draw(st.sampled_from("abcd"))] = data.draw(SCALARS)
        case 5, True:
            thing.n = data.draw(st.sampled_from([0, 1, 2, True]))
        case 5, False:
            thing.m = 1
        case _:
            frame[place] = data.draw(ARGUMENTS)[place]


def assert_same(mine, theirs):
    if isinstance(theirs, torch.Tensor):
        assert isinstance(mine, torch.Tensor) and mine.dtype == theirs.dtype
        assert torch.equal(torch.nan_to_num(mine), torch.nan_to_num(theirs))
    else:
        assert mine is theirs


# ---- results ----


def test_right_results_pass(caplog):
    framejit.set_logs("checks")
    seen: list[int] = []

    def f(t, items, n=2):
        seen.append(n)
        items.append(t * n)
        return {"sum": t.sum(), "items": items, "n": n}

    fast = checked(f, "results")
    for n in (1, 2, 2):
        items: list[torch.Tensor] = []
        found = fast(x, items, n=n)
        assert found["items"] is items and len(items) == 1 and torch.equal(items[0], x * n)
    assert said(caplog) == [f"{f.__qualname__} matches eager"] * 3
    assert seen == [1, 2, 2], "what the second run appends to is a copy of the closure's list"


class Wrong:
    """A backend whose graphs give wrong results, or write to what they shouldn't."""

    def __init__(self, how):
        self.how = how

    def __call__(self, gm, example_inputs):
        return lambda *inputs: self.how(gm, inputs)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (lambda gm, inputs: [out + 1 for out in gm(*inputs)], "the result: Tensor-likes are not close"),
        (lambda gm, inputs: [out.double() for out in gm(*inputs)], "the result: dtype torch.float64 and torch.float32"),
        (lambda gm, inputs: [out[:1] for out in gm(*inputs)], r"the result: shapes \[1, 3\] and \[2, 3\]"),
        (lambda gm, inputs: [out.requires_grad_() for out in gm(*inputs)], "the result: requires_grad True and False"),
        (lambda gm, inputs: (gm(*inputs), inputs[0].add_(1))[0], r"the arguments\[0\]: Tensor-likes are not close"),
        (lambda gm, inputs: 1 / 0, "raised ZeroDivisionError: division by zero, and eager returned"),
    ],
    ids=["values", "dtype", "shape", "requires_grad", "mutation", "exception"],
)
def test_wrong_results_are_loud(how, told):
    f = checked(lambda t: t * 2, "results", backend=Wrong(how))
    with pytest.raises(CheckError, match=told):
        f(x.clone())


@pytest.mark.parametrize(
    ("mine", "theirs", "told"),
    [
        ([1, 2], [1, 3], r"x\[1\]: 2 and 3"),
        ([1], (1,), "x: a list and a tuple"),
        ({"a": 1}, {"b": 1}, "a key of x: 'a' and 'b'"),
        ({"a": [1]}, {"a": [2]}, r"x\['a'\]\[0\]: 1 and 2"),
        ({1}, {2}, r"x: \{1\} and \{2\}"),
        (1, True, "x: a int and a bool"),
        (1.0, 2.0, "x: 1.0 and 2.0"),
        (Thing(1, []), Thing(1, [2]), r"x.__dict__\['items'\]: 0 and 1 items"),
        (len, repr, "x: <built-in function len> and <built-in function repr>"),
        (1.0, 1.00001, None), (float("nan"), float("nan"), None), (complex(1, 2), complex(1, 2), None), (Thing(1, [2]), Thing(1, [2]), None),
        (slice(1, 2), slice(1, 2), None),
        (torch.device("cpu"), torch.device("cpu"), None), (torch.float, torch.int, "x: torch.float32 and torch.int32"),
        (range(3), range(3), None), (x, x.clone(), None), (Thing, Thing, None),
    ],
)  # fmt: skip
def test_comparison(mine, theirs, told):
    found = second_run.Comparison().difference(mine, theirs, "x")
    assert found is None if told is None else found is not None and re.fullmatch(told, found), found


def test_comparison_of_identity():
    one, other = [1], [1]
    assert second_run.Comparison().difference([one, one], [other, other], "x") is None
    assert "one object in two places" in str(second_run.Comparison().difference([one, one], [[1], [1]], "x"))
    cycle: list[object] = [1]
    cycle.append(cycle)
    assert second_run.Comparison().difference(cycle, copy.deepcopy(cycle), "x") is None
    with pytest.raises(second_run.CannotCompare, match="class object"):
        second_run.Comparison().difference(object(), object(), "x")


def test_modules_and_training(caplog):
    framejit.set_logs("checks")
    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    plain = copy.deepcopy(m)
    fast = checked(m, "results", backend="aot_eager")
    for _ in range(2):
        ours, theirs = fast(x), plain(x)
        torch.testing.assert_close(ours, theirs)
        ours.sum().backward()
        theirs.sum().backward()
    torch.testing.assert_close(m[1].running_mean, plain[1].running_mean)
    torch.testing.assert_close(m[0].weight.grad, plain[0].weight.grad)
    assert [line.endswith("matches eager") for line in said(caplog)] == [True, True]


def test_objects_whose_copies_leave_something_out(caplog):
    framejit.set_logs("checks")
    m = nn.Linear(3, 3)
    optimizers = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9), torch.optim.Adagrad(m.parameters())

    def step(m, optimizer, t):
        optimizer.zero_grad()
        m(t).sum().backward()
        optimizer.step()

    for optimizer in optimizers:
        f = checked(step, "results")
        for _ in range(2):
            f(m, optimizer, x)
        assert [line.endswith("matches eager") for line in said(caplog)] == [True, True]


def test_a_difference_in_what_such_copies_have_is_found():
    class Partly:
        def __init__(self):
            self.cache, self.seen = [], 0

        def __getstate__(self):
            return {"seen": self.seen}

    def program(part, t):
        part.cache = [t]
        part.seen += framejit.is_compiling()
        return t + 1

    with pytest.raises(CheckError, match=r"\['seen'\]: 1 and 0"):
        checked(program, "results")(Partly(), x)


def test_a_wrong_mutation_of_a_module_is_found(monkeypatch):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, t):
            self.n.add_(1)
            return t + 1

    f = checked(Counter(), "results", backend=Wrong(lambda gm, inputs: (gm(*inputs), [i.add_(5) for i in inputs if i.dim() == 0])[0]))
    with pytest.raises(CheckError, match=r"\['n'\]: .*not (close|equal)"):
        f(x)


def test_attributes_of_tensors(caplog):
    framejit.set_logs("checks")

    def f(t, p):
        p.seen = p.scale
        return t * p.scale + p

    p = nn.Parameter(torch.ones(3))
    p.scale = 3
    t = p * 2
    t.scale = 5
    fast = checked(f, "results")
    assert torch.equal(fast(x, p), x * 3 + p) and p.seen == 3
    assert torch.equal(fast(x, t), x * 5 + t) and t.seen == 5
    assert all(line.endswith("matches eager") for line in said(caplog))
    assert second_run.Comparison().difference(p, copy.deepcopy(p), "p") == "p.__dict__: keys ['scale', 'seen'] and []"


def test_random_numbers(caplog):
    framejit.set_logs("checks")

    def f(t):
        return t + torch.rand(3) + random.random()

    fast = checked(f, "results")
    torch.manual_seed(1), random.seed(1)
    found = [fast(x), fast(x)]
    torch.manual_seed(1), random.seed(1)
    for mine in found:
        torch.testing.assert_close(mine, f(x))
    assert all("matches eager" in line for line in said(caplog))
    drawn = checked(lambda t: t + torch.rand(3), "results", backend="inductor")
    drawn(x)
    assert "inductor draws other random numbers" in said(caplog)[0]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: (lambda t, i: t + next(i), (x, iter([1, 2]))), "list_iterator can be run through only once"),
        (lambda: (lambda t: t.add_(1), ((nn.Parameter(x.clone()) * 2)[:1],)), "view with a gradient history"),
        (lambda: (lambda t, o: t, (x, Uncopied())), "not to be copied"),
        (lambda: (store_global, (x,)), "it stores to the global 'stored'"),
    ],
    ids=["iterator", "view", "class", "global"],
)
def test_what_can_not_be_compared_is_said_and_runs_once(caplog, make, why):
    framejit.set_logs("checks")
    f, args = make()
    fast = checked(f, "results")
    fast(*args)
    [line] = said(caplog)
    assert "is not compared with eager: " in line and why in line


class Uncopied:
    def __deepcopy__(self, memo):
        raise TypeError("not to be copied")


stored = 0


def store_global(t):
    global stored
    stored += 1
    return t + 1


def test_global_stores_happen_once():
    before = stored
    fast = checked(store_global, "results")
    fast(x), fast(x)
    assert stored == before + 2


def test_exceptions_are_the_programs_own():
    def f(t, n):
        if n == 0:
            raise ValueError("zero")
        return t / n

    fast = checked(f, "results")
    with pytest.raises(ValueError, match="zero"):
        fast(x, 0)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        fast(x)
    assert torch.equal(fast(x, 2), x / 2)


def test_errors_of_framejit_are_no_difference():
    fast = checked(lambda t: t if t.sum() > 0 else t[1:], "results", fullgraph=True)
    with pytest.raises(framejit.Unsupported):
        fast(x)
    with framejit.set_stance("fail_on_recompile"), pytest.raises(framejit.RecompileError):
        checked(lambda t: t, "results")(x)


def test_a_sample_of_the_calls(caplog):
    framejit.set_logs("checks")
    fast = checked(lambda t: t + 1, "results", check_every=3)
    counts = []
    for _ in range(7):
        fast(x)
        counts.append(len(said(caplog)))
    assert counts == [1, 0, 0, 1, 0, 0, 1]


def test_calls_inside_are_not_checked_by_themselves(caplog):
    framejit.set_logs("checks")
    inner = checked(lambda t: t * 2, "results")

    @framejit.disable(recursive=False)
    def call(t):
        return inner(t)

    outer = checked(lambda t: call(t) + 1, "results")
    assert torch.equal(outer(x), x * 2 + 1) and len(said(caplog)) == 1
    with framejit.set_stance("force_eager"):
        assert torch.equal(inner(x), x * 2) and not said(caplog)


def test_nothing_is_said_unasked(caplog):
    with caplog.at_level(logging.WARNING):
        fast = checked(lambda t: t + 1, "guards,results,compile")
        fast(x), fast(x.double())
    assert not caplog.records


def test_closures_and_defaults(caplog):
    framejit.set_logs("checks")
    total = torch.zeros(3)
    count = 0

    def f(t, history=[]):
        nonlocal count
        count += 1
        total.add_(t.sum(0))
        history.append(count)
        return t + count

    fast = checked(f, "results")
    for n in (1, 2):
        assert torch.equal(fast(x), x + n) and count == n and f.__defaults__[0] == [*range(1, n + 1)]
    torch.testing.assert_close(total, x.sum(0) * 2)
    assert said(caplog) == [f"{f.__qualname__} matches eager"] * 2


def test_guards_are_not_compared_where_a_program_leaves_no_room_on_the_stack(monkeypatch):
    def no_room(guard, value, call):
        raise RecursionError

    compiled = checked(lambda t, d: t + d["a"], "guards")
    assert torch.equal(compiled(x, {"a": 1}), x + 1)
    monkeypatch.setattr(Equals, "check", no_room)
    assert torch.equal(compiled(x, {"a": 1}), x + 1)
