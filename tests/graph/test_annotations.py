"""`torch.fx.traceback.annotate` inside compiled code: the nodes that are made there have the annotations, in every graph that is made of them."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import traceback

import framejit

pytestmark = pytest.mark.only_eager("the tests look into the graphs that a backend of their own is given")
PROGRAMS: dict[str, tuple[object, dict[str, object]]] = {}
"""By name: a program, and what its operators are annotated with."""


def annotated(**expected):
    def note(program):
        PROGRAMS[program.__name__] = program, expected
        return program

    return note


@annotated(sin=None, mul={"region": 0}, cos=None)
def one_region(x):
    y = x.sin()
    with traceback.annotate({"region": 0}):
        y = y * 2
    return y.cos()


@annotated(sin={"a": 1}, mul={"a": 1, "b": [2]}, cos={"a": 1}, add=None)
def nested_regions(x):
    with traceback.annotate({"a": 1}):
        y = x.sin()
        with traceback.annotate({"b": [2]}):
            y = y * 2
        y = y.cos()
    return y + 1


@annotated(sin={"a": 2}, mul={"a": 2})
def called_in_region(x):
    def inner(t):
        return t.sin() * 2

    with traceback.annotate({"a": 2}):
        return inner(x)


@annotated(sin={"a": 1}, cos={"a": 1}, mul=None)
def broken_in_region(x):
    with traceback.annotate({"a": 1}):
        y = x.sin()
        framejit.graph_break()
        y = y.cos()
    return y * 2


@annotated(sin={"a": 1}, cos=None)
def left_by_exception(x):
    try:
        with traceback.annotate({"a": 1}):
            y = x.sin()
            raise ValueError
    except ValueError:
        return y.cos()


def seen_by(program, backend=None):
    """By name of the operator, the annotations on the nodes of the graphs that the backend is given."""
    seen = {}

    def keep(gm, inputs):
        seen.update({node.name.partition("_")[0]: node.meta.get("custom") for node in gm.graph.nodes if node.op.startswith("call")})
        return gm.forward

    framejit.compile(program, backend=keep if backend is None else backend(keep))(torch.ones(3))
    assert not traceback.current_meta.get("custom")
    return seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_nodes_are_annotated(name):
    program, expected = PROGRAMS[name]
    assert seen_by(program) == expected


@pytest.mark.parametrize("name", PROGRAMS)
def test_nodes_of_aot_autograd_are_annotated(name):
    program, expected = PROGRAMS[name]
    with traceback.preserve_node_meta():
        assert seen_by(program, lambda keep: aot_autograd(fw_compiler=keep)) == expected


def test_backward_of_an_autograd_function_has_the_annotations_of_its_forward():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x + x
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, gradient):
            (y,) = ctx.saved_tensors
            return y + gradient

    def program(x):
        with traceback.annotate({"region": 0}):
            return Twice.apply(x)

    seen = {}

    def keep(name):
        def compiler(gm, inputs):
            seen[name] = [node.meta.get("custom") for node in gm.graph.nodes if node.target is torch.ops.aten.add.Tensor]
            return gm

        return compiler

    x = torch.ones(3, requires_grad=True)
    with traceback.preserve_node_meta():
        backend = aot_autograd(fw_compiler=keep("forward"), bw_compiler=keep("backward"))
        framejit.compile(program, backend=backend, fullgraph=True)(x).sum().backward()
    assert seen == {"forward": [{"region": 0}], "backward": [{"region": 0}]}


def test_annotations_that_change_are_guarded():
    def program(x, number):
        with traceback.annotate({"number": number}):
            return x * 2

    seen = []

    def keep(gm, inputs):
        seen.extend(node.meta.get("custom") for node in gm.graph.nodes if node.op.startswith("call"))
        return gm

    compiled = framejit.compile(program, backend=keep, dynamic=False)
    for number in (1, 2, 1):
        compiled(torch.ones(3), number)
    assert seen == [{"number": 1}, {"number": 2}]
