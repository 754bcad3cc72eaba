"""Methods of dict called on an OrderedDict: what the dict has, what the order has, and in which order, as eager leaves them."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import pytest
import torch
from agreement import agree, raising

import framejit

x = torch.arange(3.0)


class Table(OrderedDict):
    """An OrderedDict of a program whose `update` is dict's own."""

    def update(self, other):
        dict.update(self, other)


def contents(d):
    return list(d), list(d.items()), list(reversed(d)), len(d), len(d.values()), bool(d.keys()), list(dict.items(d)), list(dict.__reversed__(d))


def stored_past_the_order(t):
    d = Table(a=t)
    dict.__setitem__(d, "b", t + 1)
    d.update({"c": t + 2, "a": 3})
    dict.setdefault(d, "d", 4)
    return sum(list(dict.values(d))[1:3]), list(d), list(dict.keys(d)), list(d.values()), len(d), "c" in d, d["c"], dict.setdefault(d, "a")


def stored_again_in_the_order(t):
    d = OrderedDict(a=1)
    dict.update(d, b=2, e=t)
    d["b"] = t
    d["c"] = 3
    return d, contents(d)


def removed(t):
    d = OrderedDict(a=1)
    dict.update(d, b=2, c=t)
    del d["b"]
    return dict.pop(d, "c"), dict.pop(d, "zz", None), raising(lambda: dict.__delitem__(d, "zz")), dict.clear(OrderedDict()), d, contents(d)


def moved(t):
    d = OrderedDict(a=1, b=2, c=3)
    d.move_to_end("a")
    d["d"] = t
    del d["b"]
    d["b"] = 5
    d.move_to_end("d", last=False)
    d.move_to_end("b")
    return d, contents(d)


def iterated(t):
    d = OrderedDict(a=1, b=2)
    own, plain = iter(d), iter(dict.keys(d))
    next(own), next(plain)
    dict.__setitem__(d, "a", t)
    return own, plain, d


def shown(t):
    d = OrderedDict(a=1, b=2)
    d.move_to_end("a")
    return dict.__repr__(d), t


PROGRAMS = [shown, stored_past_the_order, stored_again_in_the_order, removed, moved, iterated]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_dicts_that_the_trace_makes(program):
    agree(program, x)


def test_a_step_after_a_key_was_stored_past_the_order_breaks():
    def program(t):
        d = OrderedDict(a=1, b=2)
        for key in d:
            dict.__setitem__(d, "z" + key, t)

    agree(program, x, fullgraph=False)


def test_what_leaves_keys_in_the_order_alone_breaks():
    for remove in (lambda d: dict.pop(d, "a"), lambda d: dict.__delitem__(d, "a"), dict.clear, dict.popitem):
        with pytest.raises(framejit.errors.FramejitError, match="order of an OrderedDict"):
            framejit.compile(lambda: remove(OrderedDict(a=1)), backend="eager", fullgraph=True)()


Pair = namedtuple("Pair", "a b")


def test_errors_about_keys_that_are_tuples():
    def program(t, pair):
        found = []
        for key in ((1, 2), (), None, pair):
            for method in (OrderedDict.move_to_end, OrderedDict.pop, OrderedDict.__delitem__):
                try:
                    method(OrderedDict(a=t), key)
                except KeyError as error:
                    found.append((str(error), len(error.args)))
        return found

    agree(program, x, (1, 2))
    agree(program, x, Pair(1, 2), fullgraph=False)


def store_new(t, d):
    dict.__setitem__(d, "n", t)
    dict.update(d, a=5)
    return d["n"]


def store_and_go_through(t, d):
    dict.__setitem__(d, "n", t)
    return list(d), list(d.values()), len(d)


def reorder(t, d):
    d["n"] = t
    d.move_to_end("a")
    d.pop("c")
    d["c"] = t + 1
    d.move_to_end("b", last=False)
    return list(d)


def put_last(t, d):
    d.move_to_end("c")
    return t + d["c"]


@pytest.mark.parametrize("program", [store_new, store_and_go_through, reorder, put_last], ids=lambda program: program.__name__)
def test_dicts_from_outside_keep_both_orders(program):
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        eager, own = OrderedDict(a=1, b=2, c=3), OrderedDict(a=1, b=2, c=3)
        assert str(compiled(x, own)) == str(program(x, eager))
        assert list(own) == list(eager)
        assert str(list(dict.items(own))) == str(list(dict.items(eager)))


def test_a_key_that_an_earlier_call_stored_past_the_order_stays_there():
    compiled = framejit.compile(store_new, backend="eager", fullgraph=True)
    d = OrderedDict(a=1)
    for step in range(3):
        compiled(x + step, d)
        assert (list(d), list(dict.keys(d))) == (["a"], ["a", "n"])
        assert torch.equal(d["n"], x + step)


def test_a_key_that_was_stored_past_the_order_before_is_deleted():
    def program(t, d):
        del d["b"]
        return t + 1

    def made():
        d = OrderedDict(a=1)
        dict.__setitem__(d, "b", 2)
        dict.__setitem__(d, "c", 3)
        return d

    expected, found = made(), made()
    program(torch.ones(1), expected)
    framejit.compile(program, backend="eager", fullgraph=True)(torch.ones(1), found)
    assert list(dict.items(found)) == list(dict.items(expected)) == [("a", 1), ("c", 3)]
