"""Symbolic sizes and numbers, as users meet them: one compilation serves many sizes, with eager's results for each."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
import torch._dynamo
from agreement import Comparison
from shape_models import LIBRARY_MODELS
from shape_programs import FUNCTIONS, LENGTHS, MODELS, ShapeProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import framejit
from framejit.backends import registry
from framejit.graph import shapes


def run(function, *args):
    """Return a call's value, or the type and text of the exception that it raises."""
    torch.manual_seed(1)
    try:
        return function(*args)
    except (RuntimeError, ValueError, IndexError, ZeroDivisionError) as error:
        return type(error), str(error)


def sweep(function, make, calls, **options):
    """Compare a compiled function with eager over calls of many sizes; the statistics."""
    framejit.reset()
    with framejit.config.replace(check="compile,guards,shapes"):
        compiled = framejit.compile(function, **{"backend": "eager", **options})
    for sizes in calls:
        results = []
        for callee in (function, compiled):
            torch.manual_seed(0)
            results.append(run(callee, *make(*sizes)))
        Comparison().same(*results, f"sizes {sizes}")
    return framejit.statistics()


EACH_SIZE = {"unbind"}
"""Programs that do something for each row: their graphs hold for one size."""
MORE_GRAPHS = {"branch": 1, "even": 2, "inplace": 1, "windows": 1}
"""Programs that go different ways, or make different graphs, for some of the sizes: how many more than the others."""
MOST_GRAPHS = 3 if torch.__version__ >= "2.13" else 4
"""Of a model: one for the first sizes, one with symbols, one for a batch of one. torch 2.11's pools ask what remains of their rows."""


@pytest.mark.parametrize("program", FUNCTIONS, ids=lambda program: program.name)
@pytest.mark.parametrize("dynamic", [None, True], ids=["automatic", "all"])
def test_functions(program: ShapeProgram, dynamic: bool | None, in_the_place_of_eager: str) -> None:
    """At first one size, then symbols: sizes of 0 and 1 have graphs of their own, and so have the ways that a program goes."""
    asked = 0 if in_the_place_of_eager == "eager" else 2  # AOTAutograd asks of views whether they have one row only
    counts = sweep(program.function, program.make, program.calls, dynamic=dynamic)
    assert not counts["graph_breaks"], counts["reasons"]
    assert program.name in EACH_SIZE or not counts["fallbacks"], counts["reasons"]
    assert program.name in EACH_SIZE or counts["frames"] <= 5 + asked + MORE_GRAPHS.get(program.name, 0)


@pytest.mark.parametrize("program", [*FUNCTIONS[::4], *FUNCTIONS[-5:]], ids=lambda program: program.name)
def test_functions_with_aot_eager(program: ShapeProgram) -> None:
    """AOTAutograd is given the symbols as inputs; what it asks for becomes guards."""
    counts = sweep(program.function, program.make, program.calls, backend="aot_eager")
    assert program.name in EACH_SIZE or not counts["fallbacks"], counts["reasons"]


@pytest.mark.parametrize(("make_model", "make"), [row[1:] for row in LIBRARY_MODELS], ids=[row[0] for row in LIBRARY_MODELS])
def test_models_of_libraries(make_model, make) -> None:
    torch.manual_seed(3)
    with torch.no_grad():
        counts = sweep(make_model(), make, LENGTHS[:5])
    assert counts["graphs"] <= MOST_GRAPHS and not counts["graph_breaks"] and not counts["fallbacks"], counts["reasons"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "llama", "t5", "resnet"])
def test_one_compilation_by_inductor_serves_all_sizes(name: str) -> None:
    """Inductor's code with symbolic sizes gives eager's results, but for rounding, for sizes that it hasn't been compiled for.

    A convolution on a CPU asks whether there are 16 rows, so that none of the batches has as many.
    """
    make_model, make = next(row[1:] for row in LIBRARY_MODELS if row[0] == name)
    framejit.reset()
    torch.manual_seed(3)
    model = make_model()
    compiled = framejit.compile(model, backend="inductor", dynamic=True)
    with torch.no_grad():
        for batch, length in ((2, 7), (5, 16), (3, 33), (15, 12), (2, 7)):
            arguments = make(batch, length)
            torch.testing.assert_close(dict(compiled(*arguments)), dict(model(*arguments)), rtol=1e-4, atol=1e-5, msg=lambda text: f"{batch}, {length}: {text}")
    counts = framejit.statistics()
    assert counts["graphs"] == 1 and not counts["recompiles"] and not counts["fallbacks"], counts["reasons"]


@pytest.mark.parametrize(("make_model", "make"), [row[1:] for row in MODELS], ids=[row[0] for row in MODELS])
@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.slow)])
def test_models(make_model, make, backend: str) -> None:
    """One graph for the first sizes, one with symbols, one for a batch of one."""
    torch.manual_seed(3)
    counts = sweep(make_model(), make, LENGTHS, backend=backend)
    assert counts["graphs"] <= MOST_GRAPHS and not counts["graph_breaks"] and not counts["fallbacks"], counts["reasons"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_training_with_a_ragged_last_batch(backend: str) -> None:
    """Gradients are eager's for each length; symbolic sizes are saved for the backward pass."""
    framejit.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    compiled = framejit.compile(lambda x: (model(x).flatten(1) * x.shape[1]).logsumexp(1).mean(), backend=backend)
    for batch, length in ((8, 5), (8, 7), (8, 9), (3, 6)):
        x = torch.randn(batch, length, 6)
        gradients = []
        for function in (lambda x: (model(x).flatten(1) * x.shape[1]).logsumexp(1).mean(), compiled):
            model.zero_grad()
            function(x).backward()
            gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        torch.testing.assert_close(*gradients)
    assert framejit.statistics()["graphs"] <= 3


def test_dynamic_false_compiles_each_size() -> None:
    counts = sweep(lambda x: x + 1, lambda a, b: (torch.ones(a, b),), ((2, 3), (3, 3), (4, 3)), dynamic=False)
    assert counts["graphs"] == 3


def test_a_tensor_with_fewer_dimensions_where_one_varied() -> None:
    sweep(lambda x: x + 1, lambda a, b: (torch.ones([a] * b),), ((2, 3), (3, 3), (2, 1), (4, 1), (3, 0)))


def test_without_the_option_each_size_is_compiled() -> None:
    with framejit.config.replace(automatic_dynamic=False):
        counts = sweep(lambda x: x + 1, lambda a, b: (torch.ones(a, b),), ((2, 3), (3, 3), (4, 3)))
    assert counts["graphs"] == 3


def test_parameters_stay_static() -> None:
    """Their sizes are constants of the graph, also with dynamic=True."""
    seen = []

    def backend(graph, example_inputs):
        examples = [node.meta["example_value"] for node in graph.graph.nodes if node.op == "placeholder"]
        seen.append([example.size() for example in examples if isinstance(example, torch.Tensor)])
        return graph

    model = torch.nn.Linear(4, 3)
    framejit.compile(model, backend=backend, dynamic=True)(torch.randn(5, 4))
    assert any(size == (3, 4) for size in seen[0])
    assert [type(number) for size in seen[0] for number in size].count(torch.SymInt) >= 1


def test_what_varies_is_logged_once(caplog) -> None:
    with caplog.at_level("INFO", logger="framejit.dynamic"):
        sweep(lambda x, n: x * n, lambda a, n: (torch.ones(a, 3), n), ((2, 5), (4, 6), (5, 7)))
    text = caplog.text
    assert "x.size(0): 2 -> 4" in text and "n: 5 -> 6" in text and "4 -> 5" not in text


def test_resume_functions_know_what_varies() -> None:
    """Facts about sizes that were learnt before a graph break hold in the resume function too."""

    def program(x):
        y = x + x.shape[0]
        print("", end="")
        return y * x.shape[0]

    counts = sweep(program, lambda a, b: (torch.ones(a, b),), ((2, 3), (4, 3), (5, 3), (6, 3), (7, 3)))
    assert counts["graphs"] <= 5


def test_numbers_beyond_64_bits() -> None:
    sweep(lambda x, n: (x + 1, n + 1, n > 3), lambda n, _: (torch.ones(2), n), ((5, 0), (6, 0), (2**70, 0), (2**63 - 1, 0), (-(2**63), 0)), dynamic=True)


def test_booleans_are_no_numbers() -> None:
    sweep(lambda x, n: (x + n, n), lambda n, _: (torch.ones(2), n), ((5, 0), (True, 0), (6, 0), (False, 0), (7, 0)))


def test_one_tensor_given_twice() -> None:
    def make(a, b):
        x = torch.ones(a, b)
        return x, x

    sweep(lambda x, y: x + y * x.shape[0], make, ((2, 3), (4, 3), (5, 6)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_strides_and_offsets(backend: str) -> None:
    """Views with gaps, transposed ones, views that begin in the middle of their base."""
    makers = (
        lambda a, b: (torch.randn(a + 2, b + 3)[2:, 1:-2],),
        lambda a, b: (torch.randn(b, a).t(),),
        lambda a, b: (torch.randn(b).expand(a, b),),
        lambda a, b: (torch.randn(2 * a, b)[::2],),
    )
    for make in makers:
        sweep(lambda x: (x.reshape(-1) * 2, x.stride(0), x.is_contiguous()), make, ((4, 3), (5, 3), (6, 8), (2, 2)), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_mutated_inputs(backend: str) -> None:
    def program(x):
        x[: x.shape[0] // 2].mul_(2)
        return x.sum()

    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for size in (4, 6, 9, 2):
        x = torch.randn(size, 3)
        y = x.clone()
        torch.testing.assert_close(compiled(y), program(x))
        torch.testing.assert_close(x, y)
    assert framejit.statistics()["graphs"] <= 3


def test_the_referee_finds_a_lost_guard(monkeypatch) -> None:
    """An entry whose guards don't say what its trace has assumed is not made."""
    known = shapes.Shapes._bounds
    monkeypatch.setattr(shapes.Shapes, "_bounds", lambda self: [])
    monkeypatch.setattr(ShapeEnv, "get_nontrivial_guards", lambda self: [])
    with framejit.config.replace(check="shapes"):
        compiled = framejit.compile(lambda x: x + 1 if x.shape[0] > 4 else x - 1, backend="eager", dynamic=True)
    with pytest.raises(framejit.FramejitError, match=r"x.size\(0\)"):
        compiled(torch.ones(5))
    monkeypatch.undo()
    assert shapes.Shapes._bounds is known and torch.equal(compiled(torch.ones(5)), torch.full((5,), 2.0))


def test_marks() -> None:
    framejit.reset()
    compiled = framejit.compile(lambda x: x * x.shape[0], backend="eager")
    for size in (3, 4, 9):
        x = torch.ones(size, 2)
        framejit.mark_dynamic(x, 0, min=2, max=10)
        assert torch.equal(compiled(x), x * size)
    assert framejit.statistics()["graphs"] == 1
    with pytest.raises(framejit.ConstraintViolation, match=r"x.size\(0\) is 11; it was declared to be from 2 to 10"):
        x = torch.ones(11, 2)
        framejit.mark_dynamic(x, 0, min=2, max=10)
        compiled(x)


def test_marks_that_the_code_cannot_keep() -> None:
    def program(x):
        return x.view(3, 2) + 1

    x = torch.ones(3, 2)
    framejit.maybe_mark_dynamic(x, 0)
    assert torch.equal(framejit.compile(program, backend="eager")(x), x + 1)
    framejit.mark_dynamic(x, 0)
    with pytest.raises(framejit.ConstraintViolation, match=r"x.size\(0\) was declared to be symbolic, but .* for the size 3 only; it is needed here:"):
        framejit.compile(program, backend="eager", isolate_recompiles=True)(x)


def test_torchs_own_marks() -> None:
    framejit.reset()
    compiled = framejit.compile(lambda x: x + 1, backend="eager")
    for size in (3, 4, 9):
        x = torch.ones(size, 2)
        torch._dynamo.mark_dynamic(x, 0)
        compiled(x)
    assert framejit.statistics()["graphs"] == 1
    static = framejit.compile(lambda x: x + 2, backend="eager", dynamic=True)
    for size in (3, 4, 9):
        x = torch.ones(size, 2)
        framejit.mark_static(x)
        static(x)
    assert framejit.statistics()["graphs"] == 4


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (lambda x: framejit.mark_dynamic(x, 2), r"no dimension 2 in a tensor of shape \(3, 2\)"),
        (lambda x: framejit.mark_dynamic(x, 0, min=5, max=4), "min=5 is greater than max=4"),
        (lambda x: framejit.mark_dynamic([1], 0), "takes a tensor; got list"),
        (lambda x: framejit.mark_dynamic(x, 0, min=-1), "min must be a size"),
        (lambda x: (framejit.mark_static(x), framejit.mark_dynamic(x, 0)), "marked as static"),
        (lambda x: (framejit.mark_dynamic(x, 0), framejit.mark_static(x, 0)), "marked as dynamic"),
    ],
)  # fmt: skip
def test_marks_that_cannot_be(mark, message: str) -> None:
    with pytest.raises(framejit.BadArgument, match=message):
        mark(torch.ones(3, 2))


def test_a_mark_on_a_dimension_that_there_is_not() -> None:
    """torch's marker doesn't look: the mark means nothing."""
    x = torch.ones(3, 2)
    torch._dynamo.mark_dynamic(x, 2)
    assert torch.equal(framejit.compile(lambda x: x + 3, backend="eager")(x), x + 3)


def test_nothing_is_kept() -> None:
    """Nothing keeps the arguments of a function that was compiled for many sizes alive."""
    framejit.reset()
    x = torch.ones(5, 3)
    kept = weakref.ref(x)
    compiled = framejit.compile(lambda x: x.reshape(-1) * x.shape[0], backend="eager", dynamic=True)
    compiled(x)
    del x
    gc.collect()
    assert kept() is None


def test_a_recompile_says_what_is_symbolic_from_now_on(caplog) -> None:
    framejit.set_logs("recompiles")
    try:
        sweep(lambda x, n: x * n, lambda a, b: (torch.ones(a), b), ((3, 5), (4, 5), (4, 6), (4, 7)))
        text = caplog.text
        caplog.clear()
        sweep(lambda x: x * 2, lambda a, b: (torch.ones(a, b),), ((3, 5), (4, 5)), dynamic=False)
    finally:
        framejit.set_logs("")
    assert "x.size(0): 3 -> 4" in text and "found 6, needed here" in text and text.count("it is symbolic from now on") == 2
    assert "from now on" not in caplog.text and "to avoid it" in caplog.text


@pytest.fixture
def sizes_seen(monkeypatch):
    """A backend's function, and the sizes of the inputs of the graphs that it gets."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    seen: list[list[object]] = []

    def backend(graph, example_inputs):
        examples = [node.meta["example_value"] for node in graph.graph.nodes if node.op == "placeholder"]
        seen.append([number for example in examples for number in (example.size() if isinstance(example, torch.Tensor) else [example])])
        return graph.forward

    return backend, seen


def test_a_backend_that_wants_static_shapes_gets_them(sizes_seen) -> None:
    backend, seen = sizes_seen
    framejit.register_backend(backend, "fixed", static_shapes=True)

    def make(a: int, b: int):
        x = torch.ones(a, b)
        framejit.mark_dynamic(x, 1)
        return x, a

    counts = sweep(lambda x, n: x * n * x.size(1), make, ((2, 3), (3, 4), (4, 5)), backend="fixed", dynamic=True)
    assert counts["graphs"] == 3 and seen == [[2, 3], [3, 4], [4, 5]] and {type(size) for sizes in seen for size in sizes} == {int}


def test_a_backend_that_declares_a_range_gets_no_other_symbolic_sizes(sizes_seen) -> None:
    backend, seen = sizes_seen
    framejit.register_backend(backend, "ranged", sizes=(4, 8))
    counts = sweep(lambda x: x * x.size(0), lambda a, b: (torch.ones(a, b),), [(a, 2) for a in (4, 5, 8, 9, 10, 3, 6)], backend="ranged")
    assert counts["graphs"] == 5, "4, then 4 to 8, then 9, 10 and 3"
    assert [sum(type(size) is torch.SymInt for size in sizes) > 0 for sizes in seen] == [False, True, False, False, False]
    framejit.reset()


@pytest.mark.parametrize(
    ("options", "text"),
    [({"sizes": (8, 4)}, r"got \(8, 4\)"), ({"sizes": 4}, "got 4"), ({"sizes": (2, 4), "static_shapes": True}, "leaves no size symbolic")],
)
def test_ranges_that_are_none(sizes_seen, options, text: str) -> None:
    with pytest.raises(framejit.ConfigError, match=text):
        framejit.register_backend(sizes_seen[0], "odd", **options)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_base_whose_view_has_only_been_looked_at(backend: str) -> None:
    """The base is made with the view, with constant sizes; the graph has only the base."""

    def in_a_row(view, base):
        return base.view(base.shape[0] * 3) * 2 if view.is_contiguous() else base

    def make(n: int):
        base = torch.randn(n, 3)
        return base[1:], base

    assert sweep(in_a_row, make, [(n,) for n in (4, 5, 6)], backend=backend, dynamic=True)["fallbacks"] == 0
