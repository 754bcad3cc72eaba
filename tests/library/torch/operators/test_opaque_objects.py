"""Registered opaque objects, which operators of `torch.library` take as arguments, against eager."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch._library.opaque_object import get_opaque_type_name, register_opaque_type

import framejit
from framejit.torch_state.opaque_types import OpaqueBase

LIBRARY = torch.library.Library("framejit_boxes", "FRAGMENT")


class Box(OpaqueBase):
    def __init__(self, n: int = 3) -> None:
        self.n = n
        self.log: list[float] = []


class Factor(OpaqueBase):
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and other.n == self.n

    def __hash__(self) -> int:
        return hash(self.n)

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return f"Factor({self.n})", {"Factor": Factor}


register_opaque_type(Box, typ="reference")
register_opaque_type(Factor, typ="value")
BOX, FACTOR = get_opaque_type_name(Box), get_opaque_type_name(Factor)


def define(name: str, schema: str, real: Any, fake: Any) -> None:
    torch.library.define(f"framejit_boxes::{name}", schema, lib=LIBRARY)
    torch.library.impl(f"framejit_boxes::{name}", "CompositeExplicitAutograd", lib=LIBRARY)(real)
    torch.library.register_fake(f"framejit_boxes::{name}", lib=LIBRARY)(fake)


def pushed(box: Box, x: torch.Tensor) -> torch.Tensor:
    if box.n > 9:
        raise ValueError("the box is full")
    box.n += 1
    box.log.append(float(x.sum()))
    return x + box.n


def note(box: Box, x: torch.Tensor) -> None:
    box.log.append(float(x.sum()))


define("push", f"({BOX} box, Tensor x) -> Tensor", pushed, lambda box, x: torch.empty_like(x))
define("note", f"({BOX} box, Tensor x) -> ()", note, lambda box, x: None)
define("count", f"({BOX} box, Tensor x) -> int", lambda box, x: box.n, lambda box, x: 3)
define("peek", f"({BOX} box, Tensor x) -> Tensor", lambda box, x: x + box.n, lambda box, x: torch.empty_like(x) + box.n)
define("repeat", f"(Tensor x, {FACTOR} by) -> Tensor", lambda x, by: x.repeat(by.n), lambda x, by: torch.empty(x.shape[0] * by.n))
push, noted, count, peek, repeated = (getattr(torch.ops.framejit_boxes, name) for name in ("push", "note", "count", "peek", "repeat"))


def pushed_twice(box: Box, x: torch.Tensor) -> torch.Tensor:
    return push(box, push(box, x))  # type: ignore[no-any-return]


def shown(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(shown, value))
    return value.tolist() if isinstance(value, torch.Tensor) else (value.n, value.log) if isinstance(value, Box) else value


def outcome(function: Any, *args: Any) -> Any:
    try:
        return shown(function(*args))
    except Exception as error:
        return type(error), str(error)


def compare(function: Any, breaks: int = 0, graphs: int | None = None, backend: str = "eager") -> None:
    """Call a function of a box and a tensor in turn with two boxes, compiled and not: results, errors and boxes are the same after each call."""
    framejit.reset()
    compiled = framejit.compile(function, backend=backend)
    left, right = [Box(), Box(6)], [Box(), Box(6)]
    for number in range(6):
        x = torch.arange(3.0) + number
        assert outcome(compiled, left[number % 2], x) == outcome(function, right[number % 2], x)
        assert list(map(shown, left)) == list(map(shown, right))
    statistics = framejit.statistics()
    assert statistics["graph_breaks"] == breaks, statistics["reasons"]
    assert graphs is None or statistics["graphs"] == graphs


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_an_object_is_an_input_of_the_graph_and_another_one_runs_the_same_entry():
    compare(lambda box, x: push(box, x) * 2, graphs=1)
    compare(lambda box, x: push(x=x, box=box).sin(), graphs=1)
    compare(lambda box, x: (push.default(box, x), box), graphs=1)
    compare(lambda box, x: torch.ops.framejit_boxes.push(box, x) if isinstance(box, Box) else x, graphs=1)


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_the_operator_always_runs_and_runs_in_order():
    def program(box, x):
        push(box, x)
        noted(box, x * 10)
        push(box, x + 1)
        return x * 2

    compare(program, graphs=1)


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_an_error_of_the_operator_reaches_the_program():
    compare(lambda box, x: push(box, push(box, push(box, x))) * 2, graphs=1)

    def handled(box, x):
        try:
            return push(box, push(box, push(box, x)))
        except ValueError as error:
            return x, str(error)

    compare(handled, breaks=3)


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_what_the_operator_has_changed_is_read_after_it_has_run():
    compare(lambda box, x: push(box, x) + box.n, breaks=1)
    compare(lambda box, x: (box.n, push(box, x)), breaks=0)

    def by_list(box, x):
        log = box.log
        push(box, x)
        return x + len(log)

    compare(by_list, breaks=1)

    def by_dict(box, x):
        known = vars(box)
        push(box, x)
        return x + known["n"]

    compare(by_dict, breaks=1)


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_another_path_to_the_object():
    """In the last two calls, both arguments are one object, which the operator changes before the program reads it."""
    framejit.reset()

    def program(box, other, x):
        return push(box, x) + other.n

    compiled = framejit.compile(program, backend="eager")
    for numbers in ((0, 1), (1, 0), (0, 0), (1, 1)):
        left, right = ([boxes[number] for number in numbers] for boxes in ([Box(1), Box(2)], [Box(1), Box(2)]))
        assert shown(compiled(*left, torch.ones(2))) == shown(program(*right, torch.ones(2)))


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_the_operator_sees_what_the_program_has_changed():
    def stores(box, x):
        box.n = 5
        return push(box, x)

    def appends(box, x):
        box.log.append(1.0)
        return push(box, x)

    def stores_after(box, x):
        y = push(box, x)
        box.n = 5
        return y

    for function in (stores, appends, stores_after):
        compare(function, breaks=1)


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_a_check_that_fails_after_the_operator_does_not_run_it_again():
    def program(box, x):
        push(box, x)
        count = x.sum().long().item()
        torch._check(count > 6)
        return torch.zeros(3) + count

    compare(program, breaks=1)


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_results_that_a_fake_cannot_tell_run_natively():
    compare(lambda box, x: x + count(box, x), breaks=1)
    compare(lambda box, x: peek(box, x) * 2, breaks=1)


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_graphs_inside_the_graph_run_natively():
    compare(lambda box, x: torch.utils.checkpoint.checkpoint(lambda x: push(box, x) * 2, x, use_reentrant=False), breaks=1)


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_all_that_an_object_of_a_value_type_holds_is_guarded():
    framejit.reset()
    compiled = framejit.compile(lambda x, by: repeated(x, by) + 1, backend="eager", fullgraph=True)
    for n, graphs in ((2, 1), (2, 1), (3, 2), (2, 2), (3, 2)):
        assert compiled(torch.ones(2), Factor(n)).equal(torch.ones(2 * n) + 1)
        assert framejit.statistics()["graphs"] == graphs

    def changed(x, by):
        by.n += 1
        return repeated(x, by)

    assert framejit.compile(changed, backend="eager")(torch.ones(2), Factor(2)).equal(torch.ones(6))


def test_with_aot_autograd_the_operator_runs_natively():
    compare(lambda box, x: push(box, x * 2) * 2, breaks=1, backend="aot_eager")
    assert "AOTAutograd" in framejit.statistics()["reasons"][0]


def test_an_exported_program_takes_none():
    with pytest.raises(framejit.Unsupported, match="opaque object, as an input of a graph"):
        framejit.export(lambda box, x: push(box, x) * 2, (Box(), torch.ones(2)))


def test_an_artifact_does_not_hold_the_operators_of_other_libraries():
    with pytest.raises(framejit.ArtifactError, match="nothing that can be saved"):
        framejit.precompile(pushed_twice, (Box(), torch.ones(2)), backend="eager")


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_the_object_is_not_kept_alive():
    framejit.reset()
    compiled = framejit.compile(lambda box, x: push(box, x) * 2, backend="eager")
    box = Box()
    compiled(box, torch.ones(2))
    reference = weakref.ref(box)
    del box
    gc.collect()
    assert reference() is None and framejit.statistics()["graph_breaks"] == 0


@pytest.mark.only_eager("AOTAutograd isn't to trace with opaque objects")
def test_layers_with_objects_of_their_own():
    class Layer(torch.nn.Module):
        def __init__(self, box: Box) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.box = box

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            noted(self.box, x)
            return push(self.box, self.linear(x.sin()).relu().cos())

    boxes = [Box(), Box(4), Box(), Box()]
    module = torch.nn.Sequential(*map(Layer, [*boxes[:3], *boxes[2:]]))
    compiled = framejit.compile(module, backend="eager", fullgraph=True)
    found = []
    for program in (module, compiled):
        for box in boxes:
            box.n, box.log = 3, []
        with torch.no_grad():
            found.append([shown(program(torch.ones(3))), *[(box.n, [*box.log]) for box in boxes]])
    assert found[0] == found[1]
