"""optree, and torch.utils._cxx_pytree, which is made of it."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import NamedTuple

import pytest
import torch
from agreement import Comparison, agree

import framejit

optree = pytest.importorskip("optree")
cxx = pytest.importorskip("torch.utils._cxx_pytree")
x = torch.arange(6.0).reshape(2, 3)
Pair = namedtuple("Pair", "first second")


def taken_apart_and_put_together(t):
    leaves, structure = cxx.tree_flatten({"b": t, "a": [t * 2, (t + 1, 3, None)], "c": {}})
    doubled = [leaf * 2 if leaf is not None else leaf for leaf in leaves]
    return cxx.tree_unflatten(doubled, structure), structure, structure.num_leaves, structure == cxx.tree_structure([1])


def mapped(t, tree):
    both = optree.tree_map(lambda a, b: a + b, tree, tree)
    return both, cxx.tree_map(lambda leaf: leaf + t, tree), optree.tree_leaves({"n": None, "t": t}), list(both)


@pytest.mark.parametrize("program", [taken_apart_and_put_together, lambda t: mapped(t, {"z": t, "c": [1.0, t], "d": (t,)})])
def test_structures_of_lists_tuples_and_dicts(program):
    framejit.reset()
    agree(lambda t: program(t)[0], x)
    expected, found = program(x), framejit.compile(program, backend="eager", fullgraph=True)(x)
    assert str(expected) == str(found)


class Sized(NamedTuple):
    tensor: torch.Tensor
    size: int = 2


class Checked(Pair):
    def __new__(cls, first, second):
        return super().__new__(cls, first, second + 1)


def asks_in_order(t):
    seen = []

    def is_leaf(part):
        seen.append(part if not isinstance(part, dict) else sorted(part))
        return isinstance(part, list) or (part is None and len(seen) > 3)

    tree = {"b": Pair(1, [t]), "a": (None, t, {"d": None, "c": [t]})}
    return optree.tree_leaves(tree, is_leaf=is_leaf), seen, cxx.tree_map(lambda part: type(part).__name__, tree, is_leaf=is_leaf)


@pytest.mark.parametrize("program", [
    lambda t: cxx.tree_map(lambda leaf: leaf + 1, Pair(t, [t * 2, t])),
    lambda t: optree.tree_map(lambda leaf: leaf * 2, {"a": Sized(t), "b": [Pair(t, Sized(t, 3))]}),
    lambda t: cxx.tree_map(lambda leaf: leaf[0] - 1 if isinstance(leaf, tuple) else leaf, {"a": t, "b": (t, t)}, is_leaf=lambda part: isinstance(part, tuple)),
    lambda t: optree.tree_leaves([t, (t, t)], is_leaf=lambda part: 1 if isinstance(part, tuple) else None),
    lambda t: optree.tree_leaves([t, None, (None,)], is_leaf=lambda part: part is None),
    lambda t: optree.tree_leaves([t, None, (None,)], is_leaf=lambda part: isinstance(part, tuple), none_is_leaf=True),
    asks_in_order,
])  # fmt: skip
def test_named_tuples_and_functions_that_say_what_is_a_leaf(program):
    framejit.reset()
    agree(program, x)
    assert framejit.statistics()["graph_breaks"] == 0


def test_class_of_named_tuples_that_is_registered_later():
    Later = namedtuple("Later", "first second")
    f = lambda t: optree.tree_leaves(Later(t, 1), namespace="framejit_later")
    compiled = framejit.compile(f, backend="eager")
    assert len(compiled(x)) == 2
    with pytest.warns(UserWarning, match="namedtuple"):
        optree.register_pytree_node(Later, lambda node: ((node.first,), None), lambda rest, parts: Later(*parts, 1), namespace="framejit_later")
    assert len(compiled(x)) == len(f(x)) == 1


def test_a_structure_from_outside():
    _, structure = optree.tree_flatten([1, {"a": 2}])
    compiled = framejit.compile(lambda t, spec: (spec.unflatten([t, t + 1]), spec.num_leaves), backend="eager")
    for _ in range(2):
        Comparison().same(([x, {"a": x + 1}], 2), compiled(x, structure))


def test_what_is_left_to_optree():
    """Other containers, named tuples that are made in another way, functions that say by something else what is a leaf, errors."""
    for program in (
        lambda t: optree.tree_map(lambda leaf: leaf + 1, OrderedDict(b=t, a=t)), lambda t: optree.tree_map(lambda leaf: leaf, Checked(t, 1)),
        lambda t: optree.tree_leaves([t, (t, t)], is_leaf=lambda part: 0.5 if isinstance(part, tuple) else 0.0),
        lambda t: optree.tree_unflatten(optree.tree_structure([1, 2]), [t]),
    ):  # fmt: skip
        agree(program, x, fullgraph=False)


@pytest.mark.parametrize("tree", [OrderedDict(b=1, a=2), Checked(1, 2), deque([1, 2]), defaultdict(int, a=1, b=2), [1, {"a": OrderedDict(c=2)}]])
def test_structures_of_other_containers_are_put_together_by_optree(tree):
    """They held Objects of the trace: the trace can't look into them."""
    structure = optree.tree_structure(tree)
    program = lambda t, spec: (spec.unflatten([t + 1, t + 2]), t * 2)
    found = framejit.compile(program, backend="eager")(x, structure)
    Comparison().same(program(x, structure), found)
    assert all(type(leaf) is torch.Tensor for leaf in optree.tree_leaves(found))


def test_the_order_of_dicts_is_asked_for_again():
    compiled = framejit.compile(lambda t: optree.tree_leaves({"b": 1, "a": t}, namespace="framejit_test")[0], backend="eager")
    assert compiled(x) is x
    with optree.dict_insertion_ordered(True, namespace="framejit_test"):
        assert compiled(x) == 1
    assert compiled(x) is x
