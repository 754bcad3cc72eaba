"""The code that framejit writes for graphs: it computes what torch.fx's code does, frees values as early, and leaves to torch.fx what it can't write."""

from __future__ import annotations

import collections
import gc
import math
import operator
import weakref
from typing import Any

import pytest
import torch
from torch import fx, nn

import framejit
from framejit.backends.graph_code import graph_code

Pair = collections.namedtuple("Pair", "first second")


def graph_of(*steps: tuple[str, Any, tuple[Any, ...], dict[str, Any]]) -> fx.Graph:
    """A graph with the placeholders `x` and `y`, and a node for each step. In arguments, an instance of `At` stands for an earlier node."""
    graph = fx.Graph()
    nodes = [graph.placeholder("x"), graph.placeholder("y")]
    for op, target, args, kwargs in steps:
        nodes.append(graph.create_node(op, target, *fx.node.map_aggregate((args, kwargs), lambda arg: nodes[arg.index] if isinstance(arg, At) else arg)))
    graph.output((nodes[-1],))
    return graph


class At:
    """The node with this index."""

    def __init__(self, index: int) -> None:
        self.index = index


X, Y = At(0), At(1)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize(
    "step",
    [
        ("call_function", torch.add, (X, Y), {"alpha": 2}),
        ("call_function", torch.nn.functional.layer_norm, (X, (3,)), {"eps": 1e-5}),
        ("call_function", torch.layer_norm, (X, [3]), {}),
        ("call_function", torch.ops.aten.add.Tensor, (X, Y), {}),
        ("call_function", torch.Tensor.sum, (X, [0, 1]), {"dtype": torch.float64}),
        ("call_function", torch.full_like, (X, math.pi), {"device": torch.device("cpu"), "memory_format": torch.contiguous_format}),
        ("call_function", operator.add, (X, Y), {}),
        ("call_function", operator.neg, (X,), {}),
        ("call_function", operator.pow, (X, -2), {}),
        ("call_function", operator.mul, (X, -0.5), {}),
        ("call_function", operator.getitem, (X, (slice(None), slice(None, -1, None), None)), {}),
        ("call_function", operator.getitem, (X, (Ellipsis, 0)), {}),
        ("call_function", operator.iadd, (X, Y), {}),
        ("call_function", getattr, (X, "T"), {}),
        ("call_function", double, (X,), {}),
        ("call_method", "reshape", (X, (3, -1)), {}),
        ("call_method", "add", (X, Y), {"alpha": 3}),
        ("call_function", torch.stack, ((X, Y), 1), {}),
    ],
    ids=lambda step: f"{getattr(step[1], '__name__', step[1])}",
)
def test_computes_what_torchs_own_code_does(step: Any) -> None:
    graph = graph_of(step)
    code = graph_code(graph)
    assert code is not None
    x, y = torch.rand(2, 3), torch.rand(2, 3)
    expected = fx.GraphModule(nn.Module(), graph)(x.clone(), y)
    args = [x.clone(), y]
    (found,) = code.function(None, args)
    assert args == [] and found.dtype == expected[0].dtype
    torch.testing.assert_close(found, expected[0], rtol=0, atol=0)


def test_signs_are_of_numbers_and_not_of_powers_of_them() -> None:
    code = graph_code(graph_of(("call_function", operator.pow, (-2, X), {})))
    assert code is not None and code.function(None, [torch.full((1,), 2.0), None])[0].tolist() == [4]  # torch.fx writes `-2 ** x`


def test_functions_of_torch_are_found_by_their_paths_and_others_are_variables() -> None:
    code = graph_code(graph_of(("call_function", torch.nn.functional.linear, (X, Y), {}), ("call_function", double, (At(2),), {})))
    assert code is not None
    assert {name for name, value in code.function.__globals__.items() if value is double} & set(code.function.__code__.co_names)
    assert not any(value is torch.nn.functional.linear for value in code.function.__globals__.values())


@pytest.mark.parametrize("arg", [math.inf, math.nan, Pair(1, 2), {"a": 1}, 1j, torch.ones(1), double])
def test_other_arguments_are_left_to_torch(arg: Any) -> None:
    assert graph_code(graph_of(("call_function", double, (arg,), {}))) is None


def test_attributes_are_those_of_the_owner_unless_they_are_inside_others() -> None:
    code = graph_code(graph_of(("get_attr", "weight", (), {})))
    assert code is not None and code.function(nn.Linear(1, 1), [0, 0])[0].shape == (1, 1)
    assert graph_code(graph_of(("get_attr", "inner.weight", (), {}))) is None


def test_values_are_freed_after_their_last_use_and_results_that_nothing_uses_at_once() -> None:
    alive: list[bool] = []
    references: list[weakref.ref[torch.Tensor]] = []

    def note(x: torch.Tensor) -> torch.Tensor:
        made = x + 1
        references.append(weakref.ref(made))
        return made

    def look(x: torch.Tensor) -> torch.Tensor:
        alive.append(any(reference() is not None for reference in references))
        return x

    note_step, look_step = ("call_function", note, (X,), {}), ("call_function", look, (Y,), {})
    code = graph_code(graph_of(note_step, note_step, ("call_function", double, (At(2),), {}), look_step))
    assert code is not None
    gc.disable()
    try:
        code.function(None, [torch.ones(1), torch.ones(1)])
    finally:
        gc.enable()
    assert alive == [False] and len(references) == 2


def test_lines_say_which_node_runs() -> None:
    code = graph_code(graph_of(("call_function", double, (X,), {}), ("call_function", operator.truediv, (At(2), 0), {}), ("call_method", "missing", (Y,), {})))
    assert code is not None
    with pytest.raises(AttributeError) as caught:
        code.function(None, [torch.ones(1), torch.ones(1)])
    trace = caught.value.__traceback__
    while trace is not None and trace.tb_frame.f_code is not code.function.__code__:
        trace = trace.tb_next
    assert trace is not None and code.nodes[trace.tb_lineno].target == "missing"


def test_names_of_nodes_do_not_hide_the_owner_of_attributes() -> None:
    graph = fx.Graph()
    x = graph.placeholder("self")
    graph.output((graph.call_function(torch.neg, (x,)),))
    assert graph_code(graph) is None
    compiled = framejit.compile(lambda torch, self: torch.neg() + self, backend="eager")
    assert compiled(torch.ones(2), torch.ones(2)).tolist() == [0, 0]
