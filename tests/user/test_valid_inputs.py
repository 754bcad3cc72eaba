"""valid_inputs(): the regions that it finds are the program's, all of them, and nothing is disturbed on the way."""

from __future__ import annotations

import copy
import functools
import gc
import itertools
import random
from typing import Any

import pytest
import torch
from agreement import Comparison
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shape_programs import FUNCTIONS, ShapeProgram

import framejit
from framejit.user.exploring.program import PrivateCompiler
from framejit.user.exploring.regions import ExploredInputs, InputRegion
from framejit.user.testing import inputs_of

explore = framejit.valid_inputs
profile = settings(max_examples=25, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))


def outcome(function: Any, args: Any, kwargs: Any = None) -> Any:
    """Return a call's value, or the type and text of the exception that it raises."""
    torch.manual_seed(1)
    try:
        return function(*args, **(kwargs or {}))
    except Exception as error:
        return type(error), str(error)


def region_at(explored: ExploredInputs, **sizes: int) -> InputRegion:
    """The first region that accepts sizes, by names without the dots: x0 is x.size(0)."""
    named = {name: sizes[name.replace(".size(", "").rstrip(")")] for name in explored[0].sizes}
    return next(region for region in explored if region.accepts(named))


def rows_and_columns(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 4:
        return x.sum(0)
    return x @ y


def of_int(x: torch.Tensor, n: int) -> torch.Tensor:
    if n % 3 == 0:
        raise ValueError("a multiple of three")
    if x.shape[0] * 2 == n:
        return x.repeat(2)
    return x * n


# What is found.


def test_every_size_is_in_a_region_that_does_what_the_program_does() -> None:
    explored = explore(of_int, (torch.randn(4), 5))
    assert explored.complete, explored.unexplored
    for rows, n in itertools.product(range(9), range(-4, 15)):
        region = region_at(explored, x0=rows, n=n)
        args, _ = region.inputs({"x.size(0)": rows, "n": n})
        assert args[0].shape == (rows,) and args[1] == n
        raised = outcome(of_int, args)
        if region.error is not None:
            assert raised[0] is region.error.type is ValueError
        else:
            assert torch.equal(raised, outcome(of_int, args)) and isinstance(raised, torch.Tensor)


@pytest.mark.slow
def test_a_matrix_product() -> None:
    """Sizes of 0 and 1, equal and unequal ones; errors with the program's line; the condition says where."""
    explored = explore(rows_and_columns, (torch.randn(3, 4), torch.randn(4, 5)), max_regions=200, seconds=120)
    assert explored.complete, explored.unexplored
    assert any(region.sizes["x.size(0)"] == 0 for region in explored) and any(1 in region.sizes.values() for region in explored)
    for a, b, c, d in itertools.product((0, 1, 2, 3, 5), (0, 1, 2, 4), (0, 1, 2, 4), (0, 1, 2)):
        sizes = {"x.size(0)": a, "x.size(1)": b, "y.size(0)": c, "y.size(1)": d}
        fits = a > 4 or b == c
        found = [region for region in explored if region.accepts(sizes)]
        assert found and all((region.error is None) is fits for region in found), sizes
    failing = next(region for region in explored if region.error is not None)
    assert failing.error is not None and failing.error.type is RuntimeError and "cannot be multiplied" in failing.error.message
    assert failing.error.frame is not None and failing.error.frame.expression == "x @ y"


def test_the_example_is_in_the_first_region() -> None:
    explored = explore(rows_and_columns, (torch.randn(9, 4), torch.randn(4, 5)), dynamic={"x": [0]})
    assert explored[0].conditions == ("x.size(0) >= 5",) and explored[0].sizes == {"x.size(0)": 5}
    assert {region.condition for region in explored[1:]} == {"x.size(0) == 0", "x.size(0) == 1", "x.size(0) >= 2 and x.size(0) <= 4"}
    assert explored.complete
    assert [len(region.graphs) for region in explored] == [1, 1, 1, 1]
    assert "sum" in explored[0].graphs[0].code and "matmul" in explored[1].graphs[0].code


def test_a_layer() -> None:
    """A convolution demands a least size. The frame of the failing region is torch's code, for the program has no line of its own."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, stride=2), torch.nn.AdaptiveAvgPool2d(1))
    explored = explore(model, (torch.randn(2, 3, 8, 5),), dynamic={"input": [2]})
    assert explored.complete, explored.unexplored
    for size in range(14):
        found = [region for region in explored if region.accepts({"input.size(2)": size})]
        assert found and all((region.error is None) is (size >= 3) for region in found), size
    failing = next(region.error for region in explored if region.error is not None)
    assert failing is not None and failing.frame is not None and failing.frame.function == "Conv2d._conv_forward"


def test_what_tells_regions_apart() -> None:
    """A condition that all regions share tells none from the others."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 4 else x - 1

    x = torch.randn(3)
    framejit.mark_dynamic(x, 0, min=2, max=9)
    explored = explore(program, (x,))
    assert sorted(region.condition for region in explored) == ["x.size(0) >= 2 and x.size(0) <= 4", "x.size(0) >= 5"]
    assert {distinction for region in explored for distinction in region.distinctions} == {"x.size(0) <= 4", "x.size(0) >= 5"}
    assert explored.complete and not any(region.accepts({"x.size(0)": size}) for region in explored for size in (0, 1, 10))


@pytest.mark.parametrize("program", [program for program in FUNCTIONS if program.make(2, 3)][::3], ids=lambda program: program.name)
def test_compiled_code_agrees_with_eager_in_each_region(program: ShapeProgram) -> None:
    """The regions are a generator of inputs: one compiled function is called with those of each."""
    torch.manual_seed(0)
    explored = explore(program.function, program.make(3, 5), max_regions=10)
    framejit.reset()
    compiled = framejit.compile(program.function, backend="eager", dynamic=True)
    for region in explored:
        results = [outcome(function, *region.inputs()) for function in (program.function, compiled)]
        assert (region.error is None) is not (type(results[0]) is tuple and len(results[0]) == 2 and results[0][0] is getattr(region.error, "type", ()))
        Comparison().same(*results, region.condition)


@functools.cache
def explored_once() -> ExploredInputs:
    return explore(of_int, (torch.randn(4), 5))


@profile
@given(st.deferred(lambda: inputs_of(explored_once())), st.sampled_from(["eager", "aot_eager"]))
def test_a_strategy(arguments: Any, backend: str) -> None:
    """hypothesis draws from all regions; what it draws is in one, and compiled code agrees with eager on it."""
    args, kwargs = arguments
    sizes = {"x.size(0)": args[0].shape[0], "n": args[1]}
    assert any(region.accepts(sizes) for region in explored_once()) and not kwargs
    results = [outcome(function, args) for function in (of_int, framejit.compile(of_int, backend=backend, dynamic=True))]
    Comparison().same(*results, str(sizes))


def test_a_strategy_stays_in_the_regions_that_it_is_given() -> None:
    drawn = []

    @profile
    @given(inputs_of([region for region in explored_once() if region.error is not None]))
    def draw(arguments: Any) -> None:
        drawn.append(arguments[0][1])

    draw()
    assert len(set(drawn)) > 3 and all(n % 3 == 0 for n in drawn)


def test_sizes_from() -> None:
    region = next(region for region in explored_once() if region.error is not None)
    found = region.sizes_from({"x.size(0)": 7, "n": 10})
    assert found == {"x.size(0)": 7, "n": 12}
    limited = explore(of_int, (torch.randn(4), 5), dynamic={"n": True})
    assert region_at(limited, n=8).sizes_from({"n": 9}) is None  # twice as many as rows


# What varies, and what it is called.


def test_names() -> None:
    def program(a, *rest, key, **more):
        return a + rest[1] * key["k"][0] + more["other"]

    t = torch.ones(3)
    explored = explore(program, (t, 7, torch.ones(3)), {"key": {"k": [torch.ones(3)]}, "other": torch.ones(3)}, max_regions=1)
    names = ["a.size(0)", "rest[1].size(0)", "key['k'][0].size(0)", "more['other'].size(0)", "rest[0]"]
    assert list(explored[0].sizes) == names
    args, kwargs = explored[0].inputs()
    assert len(args) == 3 and list(kwargs) == ["key", "other"] and len(kwargs["key"]["k"]) == 1


def test_methods_and_modules_and_callables() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor, n: int = 2, *, flip: bool = False) -> torch.Tensor:
            return x * n if x.shape[0] > 3 else x.flip(0)

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs)

    model = Scaled()
    for target in (model, model.forward, framejit.compile(model, backend="eager"), framejit.compile(model.forward, backend="eager"), functools.partial(model)):
        explored = explore(target, (torch.randn(5), 3), {"flip": False}, max_regions=20)
        assert explored.complete, explored.unexplored
        named = {name.replace("args[0]", "x").replace("args[1]", "n") for name in explored[0].sizes}
        assert named == {"x.size(0)", "n"}
        bound = [region.sizes[name] for region in explored for name in region.sizes if name.endswith("size(0)")]
        assert {0, 1, 2, 4} <= set(bound)


@pytest.mark.slow
def test_ints_in_containers() -> None:
    """In a tuple that is an argument of an operator, in a dict that is walked through."""
    reshaped = explore(lambda x, shape: x.reshape(shape), (torch.randn(6), (2, 3)), max_regions=20)
    assert list(reshaped[0].sizes) == ["x.size(0)", "shape[0]", "shape[1]"]
    for region in reshaped:
        args, _ = region.inputs()
        fits = -1 in args[1] or args[1][0] * args[1][1] == args[0].numel()
        assert region.error is not None or fits, region
    walked = explore(lambda x, more: [x * n if n > 4 else x for n in more.values()], (torch.randn(2), {"a": 3}), dynamic={"more": True})
    assert not walked.complete or {region.condition for region in walked} == {"more['a'] <= 4", "more['a'] >= 5"}
    items = explore(lambda x, more: [x * n if n > 4 else x for n in more], (torch.randn(2), [3, 7]), dynamic={"more": True})
    assert items.complete and len(items) == 4


def test_one_tensor_given_twice_is_one() -> None:
    x = torch.randn(3)
    explored = explore(lambda x, y: x + y, (x, x))
    args, _ = explored[0].inputs()
    assert args[0] is args[1] and list(explored[0].sizes) == ["x.size(0)"] and explored.complete
    two = explore(lambda x, y: x + y, (x, x.clone()))
    assert any(region.error is not None for region in two)


@pytest.mark.parametrize(
    ("dynamic", "message"),
    [
        ({"z": [0]}, "dynamic names 'z'"),
        ({"xx": [0]}, "did you mean"),
        ({"x": [2]}, r"x has no dimension 2: its shape is \(3, 4\)"),
        ({"x": ["0"]}, "x has no dimension '0'"),
        ({"n": [0]}, "n is an int, which varies where dynamic says True"),
        ([0], "dynamic is None for all that may vary, or a dict"),
        ({"flag": True}, "dynamic names 'flag'"),
    ],
)
def test_what_cannot_vary(dynamic: Any, message: str) -> None:
    with pytest.raises(framejit.BadArgument, match=message):
        explore(lambda x, n, flag: x * n, (torch.randn(3, 4), 5, True), dynamic=dynamic)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: explore(torch.nn.Linear, ()), "valid_inputs.. takes a function"),
        (lambda: explore(of_int, [torch.ones(3), 2]), "example_args is a tuple"),
        (lambda: explore(of_int, (torch.ones(3),)), "the example doesn't fit"),
        (lambda: explore(of_int, (torch.ones(3), 2), max_regions=0), "max_regions is at least 1"),
        (lambda: explore(of_int, (torch.ones(3), 2), seconds=0), "seconds more than 0"),
        (lambda: explore(framejit.disable(of_int), (torch.ones(3), 2)), "is not compiled"),
        (lambda: explore(of_int, (torch.ones(3), 2), max_regions=1)[0].inputs({"x.size(0)": 0, "n": 2}), "is not in the region: x.size"),
        (lambda: explore(of_int, (torch.ones(3), 2), max_regions=1)[0].inputs({"x.size(0)": 4}), "is not in the region"),
    ],
)
def test_clear_errors(call: Any, message: str) -> None:
    with pytest.raises(framejit.BadArgument, match=message):
        call()


def test_an_example_outside_its_declared_range() -> None:
    x = torch.randn(3)
    framejit.mark_dynamic(x, 0, min=5)
    with pytest.raises(framejit.BadArgument, match="outside the ranges"):
        explore(lambda x: x, (x,))


def test_a_dimension_marked_static_stays() -> None:
    x = torch.randn(3, 4)
    framejit.mark_static(x, 1)
    assert list(explore(lambda x: x + 1, (x,))[0].sizes) == ["x.size(0)"]


def test_new_tensors_are_like_the_example() -> None:
    example = torch.tensor([[0, 1, 0], [1, 3, 1]], dtype=torch.int32)
    weights = torch.rand(3, 4, dtype=torch.float64).t().requires_grad_()
    region = explore(lambda x, w: w.sum() * x.sum(), (example, weights), max_regions=1)[0]
    (x, w), _ = region.inputs(region.sizes_from(dict.fromkeys(region.sizes, 5)) if region.accepts(dict.fromkeys(region.sizes, 5)) else None)
    assert x.dtype is torch.int32 and set(x.flatten().tolist()) <= {0, 1, 3}
    assert w.dtype is torch.float64 and w.requires_grad and w.is_contiguous() and bool((w >= 0).all())
    again, _ = region.inputs(dict(zip(region.sizes, (*x.shape, *w.shape))))
    assert torch.equal(again[0], x) and torch.equal(again[1], w)
    other, _ = region.inputs(dict(zip(region.sizes, (*x.shape, *w.shape))), seed=1)
    assert not torch.equal(other[1], w)


def test_strides_of_contiguous_tensors_are_no_conditions() -> None:
    explored = explore(lambda x: x.reshape(-1) + x.stride(0), (torch.randn(3, 4, 5),), dynamic={"x": [0, 2]}, max_regions=60)
    assert explored.complete and len(explored) == 9 and all("stride" not in region.condition for region in explored)


# What isn't known.


def test_an_exploration_that_does_not_end() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        for number in range(x.shape[0]):
            x = x + number
        return x

    explored = explore(program, (torch.randn(3),), max_regions=5)
    assert len(explored) == 5 and not explored.complete and explored.unexplored == ("max_regions=5 is used up, and there are more sizes",)
    short = explore(program, (torch.randn(3),), seconds=1e-9)
    assert not short.complete and "seconds are used up" in short.unexplored[0]


def test_what_is_behind_a_graph_break(capsys: Any) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print("half")
        return x * 2 if x.shape[0] > 5 else x

    explored = explore(program, (torch.randn(3),))
    assert not explored.complete and "FJ012" in explored[0].stopped and "FJ012" in explored.unexplored[0]
    assert "add" in explored[0].graphs[0].code and "followed up to: FJ012" in str(explored)


def test_sizes_that_are_too_large_to_be_tried() -> None:
    explored = explore(lambda x: x + 1 if x.shape[0] < 10**12 else x - 1, (torch.randn(3),))
    assert not explored.complete and "too large to be tried: x.size(0) = 1000000000000" in explored.unexplored[0]


# What isn't disturbed.


def test_tracing_runs_nothing_and_each_region_is_run_once() -> None:
    seen = []

    def program(x: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(x.shape))
        return x + 1 if x.shape[0] > 4 else x

    explored = explore(program, (torch.randn(3),))
    assert seen == [(region.sizes["x.size(0)"],) for region in explored] and len(seen) == 4


def test_arguments_and_generators_stay_as_they_are() -> None:
    def program(x: torch.Tensor, fixed: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
        x.add_(1)
        fixed.add_(1)
        options["seen"] = True
        return x + torch.rand(x.shape) + random.random()

    x, fixed, options = torch.randn(3), torch.ones(2), {"a": [1]}
    before = [x.clone(), fixed.clone(), copy.deepcopy(options)]
    states = torch.get_rng_state(), random.getstate()
    explored = explore(program, (x, fixed, options), dynamic={"x": True})
    assert torch.equal(states[0], torch.get_rng_state()) and states[1] == random.getstate()
    assert torch.equal(x, before[0]) and torch.equal(fixed, before[1]) and options == before[2]
    assert len(explored) == 3


def test_what_was_compiled_stays_as_it_is() -> None:
    framejit.reset()
    compiled = framejit.compile(of_int, backend="eager", dynamic=True)
    x = torch.randn(4)
    compiled(x, 5)
    entries = compiled.entries
    explored = explore(compiled, (x, 5))
    assert compiled.entries == entries and len(explored) > 3
    compiled(torch.randn(7), 5)
    assert compiled.entries == entries
    other = framejit.compile(of_int, backend="eager", dynamic=True)
    other(x, 5)
    assert len(other.entries) == 1


@pytest.mark.parametrize("stance", ["force_eager", "fail_on_recompile", "eager_on_recompile"])
def test_under_a_stance(stance: str) -> None:
    with framejit.set_stance(stance):
        assert explore(of_int, (torch.randn(4), 5)).complete


def test_inside_disabled_code() -> None:
    with framejit.disable():
        assert explore(of_int, (torch.randn(4), 5)).complete


def test_with_checks_of_calls() -> None:
    """FRAMEJIT_CHECK=results is about calls that run."""
    with framejit.config.replace(check="compile,guards,results,shapes"):
        assert explore(of_int, (torch.randn(4), 5)).complete


def test_nothing_is_kept() -> None:
    explored = [explore(target, (torch.randn(4, 3),), dynamic={}) for target in (torch.relu, torch.nn.Linear(3, 3), lambda x: x + 1)]
    gc.collect()
    assert all(found.complete for found in explored) and not [known for known in gc.get_objects() if type(known) is PrivateCompiler]
