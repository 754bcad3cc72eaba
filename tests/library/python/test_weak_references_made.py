"""Weak references, weak dicts and weak sets that compiled functions make, and weak dicts of values from outside."""

from __future__ import annotations

import functools
import gc
import weakref

import pytest
import torch
from agreement import agree, agree_over_calls, tried
from test.support import import_helper

import framejit

ORDERED = import_helper.import_fresh_module("collections", blocked=["_collections"]).OrderedDict
"""The class as Python code has it, whose items are linked by proxies."""

x = torch.arange(6.0).reshape(2, 3)


class Node:
    def __init__(self, parent=None):
        self.parent = None if parent is None else weakref.ref(parent)
        self.children = [] if parent is not None else [Node(self), Node(self)]
        self.scale = 2.0


NODE, OTHER = Node(), Node()


def to_an_object_made_here(t, node):
    made = Node()
    return t * made.children[1].parent().scale, made.children[0].parent() is made


def to_what_comes_from_outside(t, node):
    return weakref.ref(t)() + 1, weakref.ref(node)() is node, weakref.ref(node.children[0])().scale


def to_one_object_twice(t, node):
    first, second = weakref.ref(node), weakref.ref(node)
    table = {first: t}
    return table[second] + 1, first is second, first == second, first == weakref.ref(node.children[0]), type(first) is weakref.ref


def in_a_dict_of_keys(t, node):
    table = weakref.WeakKeyDictionary()
    table[node] = t
    table[node.children[0]] = t + 1
    table[node] = table[node] * 2
    return table[node], table.get(node.children[1]), len(table), node.children[1] in table, [key is node for key in table.keys()]


def in_a_dict_of_values(t, node):
    table = weakref.WeakValueDictionary({"a": node})
    table["b"] = node.children[0]
    return t * table["a"].scale, table.get("c"), len(table), "b" in table, [(key, value.scale) for key, value in table.items()]


def in_a_set(t, node):
    seen = weakref.WeakSet()
    seen.add(node)
    seen.add(node)
    return t + len(seen), node in seen, node.children[0] in seen


def of_a_module_with_a_callback(t, node):
    return t + 1, weakref.ref(LAYER, lambda gone: LOG.append(gone))() is LAYER


LOG: list[object] = []
LAYER = torch.nn.Linear(2, 2)


@pytest.mark.parametrize("function", [
    to_an_object_made_here, to_what_comes_from_outside, to_one_object_twice, in_a_dict_of_keys, in_a_dict_of_values, in_a_set, of_a_module_with_a_callback,
])  # fmt: skip
def test_references_in_one_graph(function):
    agree_over_calls(lambda compile: [f(x, node) for f in [compile(function)] for node in (NODE, OTHER, NODE)])
    assert framejit.statistics()["graphs"] == 1


def deleted(t, keep):
    made = Node()
    reference = weakref.ref(made)
    del made
    gc.collect()
    return t + 1, reference() is None


def rebound(t, keep):
    made = Node()
    reference = weakref.ref(made)
    made = t + 1
    return made, reference() is None


def returned_from(t, keep):
    def inner():
        made = [1, Node()]
        return weakref.ref(made[1])

    return t + 1, inner()() is None


def taken_out(t, keep):
    keep.append(Node(t))
    reference = weakref.ref(keep[-1])
    keep.pop()
    return t + 1, reference() is None


def callback(t, keep):
    made = Node(t)
    reference = weakref.ref(made, lambda gone: keep.append("gone"))
    del made
    keep.append("later")
    return t + 1, reference() is None


def of_a_key(t, keep):
    table, made = weakref.WeakKeyDictionary(), Node(t)
    table[made] = 1
    del made
    return t + 1, len(table)


def of_a_generator(t, keep):
    def generated():
        made = Node(t)
        yield weakref.ref(made)

    running = generated()
    reference = next(running)
    running.close()
    return t + 1, reference() is None


def of_an_iterator(t, keep):
    made = Node(t)
    reference, items = weakref.ref(made), iter([made])
    del made
    next(items)
    return t + 1, reference() is not None, next(items, None), reference() is None


def of_a_method(t, keep):
    made = Node(t)
    reference, method = weakref.ref(made), made.__init__
    del made
    alive = reference() is not None
    del method
    return t + 1, alive, reference() is None


def of_a_cycle(t, keep):
    made, other = Node(t), Node(t)
    made.other, other.other = other, made
    reference = weakref.ref(made)
    del made, other
    return t + 1, reference() is not None


@pytest.mark.parametrize("function", [of_a_generator, of_an_iterator, of_a_method, of_a_cycle, deleted, rebound, returned_from, taken_out, callback, of_a_key])
def test_an_object_that_has_ended_is_left_to_python(function):
    agree_over_calls(lambda compile: [(f(x, keep), list(map(type, keep))) for f in [compile(function)] for keep in ([], [3])], stops=True)


def test_an_argument_that_only_the_call_has():
    def program(t, node):
        reference = weakref.ref(node)
        del node
        return t + 1, reference() is None

    agree_over_calls(lambda compile: [f(x, Node(x)) for f in [compile(program)] for _ in range(2)], stops=True)


def test_references_that_leave_the_call():
    def program(t, node, table):
        reference = weakref.ref(node)
        table["node"] = reference
        by_key, by_value = weakref.WeakKeyDictionary(), weakref.WeakValueDictionary()
        by_key[node], by_value["node"] = t + 1, node
        return reference, by_key, by_value

    f = framejit.compile(program, backend="eager", fullgraph=True)
    node, table = Node(x), {}
    reference, by_key, by_value = f(x, node, table)
    assert reference() is node and table["node"] is reference is weakref.ref(node) and by_value["node"] is node
    assert torch.equal(by_key[node], x + 1)
    del node
    gc.collect()
    assert reference() is None and len(by_key) == len(by_value) == 0


def test_a_reference_from_outside_and_one_made_here():
    outside = weakref.ref(NODE)
    agree_over_calls(lambda compile: [compile(lambda t, node: (t + 1, weakref.ref(node) is outside))(x, NODE)], stops=True)


def test_values_of_a_weak_dict_from_outside():
    nodes = {"a": Node(x), "b": Node(x)}
    table = weakref.WeakValueDictionary(nodes)

    def program(t, name):
        return t * table[name].scale, name in table, table.get("c") is None

    f = framejit.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(f(x, "a")[0], x * 2)
    nodes["a"].scale = 5.0
    assert torch.equal(f(x, "a")[0], x * 5)
    kept = nodes.pop("a")
    table["a"] = nodes["b"]
    assert torch.equal(f(x, "a")[0], x * 2) and kept.scale == 5.0
    nodes.clear()
    gc.collect()
    with pytest.raises(KeyError):
        f(x, "a")


class Linked:
    __slots__ = ("next", "key", "__weakref__")


def proxies(t):
    held = Node()
    proxy = weakref.proxy(held)
    proxy.note = [1]
    held.note.append(2)
    del held.scale
    seen = hasattr(proxy, "scale"), proxy is weakref.proxy(held), type(proxy) is weakref.ProxyType, isinstance(proxy, Node), proxy.__class__ is Node
    return t * 2, seen, held.note, proxy.children is held.children


def proxies_in_a_ring(t):
    first, second = Linked(), Linked()
    first.next, second.next = second, weakref.proxy(first)
    first.key, second.next.next.key = 1, 2
    return t + second.key, second.next.key, second.next is first, second.next.next is second


def ordered_in_python(t):
    made = ORDERED([("a", 1), ("b", 2)])
    made["c"] = 3
    made.move_to_end("a")
    del made["b"]
    return t, list(made), list(reversed(made)), made.popitem(last=False), made == ORDERED(a=1), repr(made), made.copy() is made


class Answering:
    __hash__ = None

    def __len__(self): return 0
    def __eq__(self, other): return "equal"
    def __getitem__(self, key): return key
    def __add__(self, other): return 5
    def __str__(self): return "text"


def as_an_operand(t):
    held = Answering()
    proxy = weakref.proxy(held)
    calls = [
        lambda: proxy == held, lambda: proxy != proxy, lambda: bool(proxy), lambda: len(proxy), lambda: proxy[3], lambda: proxy + 1, lambda: str(proxy),
        lambda: hash(proxy), lambda: {proxy: 1}, lambda: proxy(), lambda: f"{proxy}", lambda: proxy in [held],
    ]  # fmt: skip
    return t, [tried(call) for call in calls]


def gone(t):
    proxy = weakref.proxy(Linked())
    try:
        return proxy.key
    except ReferenceError as error:
        return t + 1, str(error)


def gone_later(t):
    held = Linked()
    held.key = 1
    proxy = weakref.proxy(held)
    found = proxy.key
    del held
    try:
        return proxy.key
    except ReferenceError as error:
        return t + 1, found, str(error)


@pytest.mark.parametrize("program", [proxies, proxies_in_a_ring, ordered_in_python], ids=lambda program: program.__name__)
def test_proxies_of_objects_made_here(program):
    framejit.reset()
    agree(program, x)
    assert framejit.statistics()["graph_breaks"] == 0


@pytest.mark.parametrize("program", [as_an_operand, gone, gone_later], ids=lambda program: program.__name__)
def test_what_breaks_the_graph_is_as_in_eager(program):
    framejit.reset()
    agree(program, x, fullgraph=False)


def test_a_proxy_that_leaves_is_that_of_the_object():
    def leaving(t):
        held = Linked()
        held.next = weakref.proxy(held)
        return held

    framejit.reset()
    held = framejit.compile(leaving, backend="eager", fullgraph=True)(x)
    proxy, ends = held.next, weakref.ref(held)
    assert proxy is weakref.proxy(held)
    proxy.key = 5
    assert held.key == 5
    del held
    assert ends() is None
    with pytest.raises(ReferenceError):
        proxy.key


def test_to_classes():
    @functools.singledispatch
    def shown(value):
        return "base"

    @shown.register
    def _(value: int):
        return "int"

    def f(t):
        class Local(Node):
            pass

        @functools.singledispatch
        def made(value):
            return "base"

        made.register(Node)(lambda value: "node")
        made.register(Local)(lambda value: "local")
        names = weakref.WeakKeyDictionary({int: 1, Node: 2})
        names[Local] = 3
        classes = weakref.WeakSet([Node, Local])
        reference, outer = weakref.ref(Local), weakref.ref(Node)
        texts = [made(value) for value in (1, Local(), Node(), 1)] + [shown(True), shown("a")]
        found = names[int], names.get(str), Local in names, len(names), Node in classes, reference() is Local, outer() is Node
        return t + 1, texts, found, names, classes, reference, outer, made, Local

    framejit.reset()
    compiled = framejit.compile(f, backend="eager", fullgraph=True)
    for run in (f, compiled, compiled):
        _, texts, found, names, classes, reference, outer, made, local = run(x)
        assert texts == ["base", "local", "node", "base", "int", "base"]
        assert found == (1, None, True, 3, True, True, True)
        assert dict(names) == {int: 1, Node: 2, local: 3} and set(classes) == {Node, local}
        assert (reference(), outer(), made(local())) == (local, Node, "local")
        del names, classes, made, local, run
        gc.collect()
        assert reference() is None and outer() is Node
