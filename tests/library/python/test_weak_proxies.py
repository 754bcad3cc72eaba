"""Weak proxies from outside in compiled code: attributes, items and operators are those of the object, which is looked up in each call."""

from __future__ import annotations

import weakref

import pytest
import torch
from agreement import tried
from torch import nn

import framejit

x = torch.arange(3.0)


class Trainer:
    """An object that a module refers to and doesn't own, like the trainer of Lightning's modules."""

    def __init__(self):
        self.step = 0
        self.logged = {}
        self.scale = 2

    @property
    def half(self):
        return self.scale / 2

    def log(self, name, value):
        self.logged[name] = value


class Member(nn.Module):
    def __init__(self, trainer):
        super().__init__()
        self.trainer = weakref.proxy(trainer)
        self.layer = nn.Linear(3, 3)
        trainer.members = [self]

    def forward(self, t):
        y = self.layer(t) * self.trainer.half
        self.trainer.log("loss", y.sum())
        self.trainer.step += 1
        kinds = isinstance(self.trainer, Trainer), type(self.trainer) is weakref.ProxyType, self.trainer.members[0] is self, hasattr(self.trainer, "absent")
        return y, self.trainer.step, kinds


def test_a_module_reads_and_changes_what_it_refers_to():
    torch.manual_seed(0)
    ours, theirs = Trainer(), Trainer()
    ours_module, theirs_module = Member(ours), Member(theirs)
    theirs_module.load_state_dict(ours_module.state_dict())
    framejit.reset()
    compiled = framejit.compile(ours_module, backend="eager", fullgraph=True)
    for scale in (2, 2, 6):
        ours.scale = theirs.scale = scale
        (found, *rest), (expected, *others) = compiled(x), theirs_module(x)
        assert torch.equal(found, expected) and rest[0] == others[0] and ours.step == theirs.step
        assert torch.equal(ours.logged["loss"], theirs.logged["loss"])
    assert rest[1][0] and rest[1][1] and not rest[1][3]
    assert framejit.statistics()["graph_breaks"] == 0


def test_the_object_is_found_again_and_its_end_is_noticed():
    owner, other = Trainer(), Trainer()
    other.scale = 5
    holder = {"proxy": weakref.proxy(owner)}

    def read(t):
        try:
            return t * holder["proxy"].scale
        except ReferenceError as error:
            return t, str(error)

    framejit.reset()
    compiled = framejit.compile(read, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), x * 2)
    holder["proxy"] = weakref.proxy(other)
    assert torch.equal(compiled(x), x * 5)
    ends = weakref.ref(other)
    del other
    assert ends() is None
    assert compiled(x)[1] == read(x)[1] == "weakly-referenced object no longer exists"


def test_an_entry_keeps_no_object_alive():
    owner = Trainer()
    proxy = weakref.proxy(owner)
    compiled = framejit.compile(lambda t: t * proxy.scale, backend="eager", fullgraph=True)
    compiled(x)
    ends = weakref.ref(owner)
    del owner
    assert ends() is None


def test_a_proxy_of_a_module_is_called():
    module = nn.Linear(3, 3)
    proxy = weakref.proxy(module)

    def call(t):
        return proxy(t), proxy.weight, proxy.in_features, isinstance(proxy, nn.Module), callable(proxy), proxy == module, len(list(proxy.parameters()))

    framejit.reset()
    found, expected = framejit.compile(call, backend="eager", fullgraph=True)(x), call(x)
    assert torch.equal(found[0], expected[0]) and found[1] is expected[1] and found[2:] == expected[2:]


def test_changes_through_a_proxy_and_through_the_object_are_one():
    def change(t, proxy, owner):
        proxy.logged["n"] = owner.logged.get("n", 0) + 1
        owner.logged["m"] = proxy.logged["n"]
        proxy.kept = t
        owner.kept = owner.kept + 1
        framejit.graph_break()
        proxy.logged["n"] += 10
        return t * owner.logged["n"], proxy.kept, proxy.logged is owner.logged

    owners = Trainer(), Trainer()
    compiled = framejit.compile(change, backend="eager")
    for _ in range(2):
        found, expected = compiled(x, weakref.proxy(owners[0]), owners[0]), change(x, weakref.proxy(owners[1]), owners[1])
        assert all(map(torch.equal, found[:2], expected[:2])) and found[2] is True
        assert owners[0].logged == owners[1].logged


class Answering:
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return "lt", self.value, type(other).__name__

    def __eq__(self, other):
        return "eq", self.value, type(other).__name__

    def __add__(self, other):
        return "add", type(other).__name__

    def __radd__(self, other):
        return "radd", type(other).__name__

    def __iadd__(self, other):
        return "iadd", type(other).__name__

    def __contains__(self, item):
        return item == 3

    def __iter__(self):
        return iter([1, self.value])

    def __bool__(self):
        return False

    def __len__(self):
        return 4

    def __getitem__(self, key):
        return key, self.value

    def __setitem__(self, key, value):
        self.value = value

    def __delitem__(self, key):
        self.value = key


@pytest.mark.parametrize("make", [lambda: Answering(1), Trainer], ids=["answers", "raises"])
def test_operators_are_called_with_the_object(make):
    first, second = make(), make()
    p, q = weakref.proxy(first), weakref.proxy(second)

    def added():
        r = p
        r += 1
        return r

    def stored():
        p[1] = 5
        found = first.value
        del p[7]
        return found, first.value

    calls = [
        lambda: p < q, lambda: p < second, lambda: p == q, lambda: p == first, lambda: p != q, lambda: p + q, lambda: p + 1, added, stored, lambda: 3 in p,
        lambda: list(p), lambda: [*p], lambda: bool(p), lambda: len(p), lambda: p[2], lambda: hash(p), lambda: {p: 1}, lambda: p(), lambda: p.absent,
        lambda: p in [q], lambda: first < q, lambda: first == p, lambda: 1 + p, lambda: -p, lambda: str(type(p)),
    ]  # fmt: skip
    for call in calls:
        framejit.reset()
        found = framejit.compile(lambda t, call=call: (t + 1, tried(call)), backend="eager")(x)
        assert torch.equal(found[0], x + 1) and found[1] == tried(call), call.__code__.co_firstlineno


def test_a_list_of_a_proxy_asks_for_the_length_of_the_object():
    class Queue:
        def __init__(self, length):
            self.length, self.asked = length, 0

        def __len__(self):
            self.asked += 1
            if self.length == 3:
                raise TypeError("no length")
            return self.length

        def __iter__(self):
            return iter((1, 2))

    def program(t, queue):
        return t * len(list(queue)), [*queue], tuple(queue)

    for length in (2, 3, -1):
        found = []
        for function in (program, framejit.compile(program, backend="eager")):
            queue = Queue(length)
            found.append((str(tried(function, x, weakref.proxy(queue))), queue.asked))
        assert found[0] == found[1]


OWNER = Trainer()


class Adder:
    def __call__(self, t):
        return t + 1


ADDER = Adder()
LAYER = nn.Linear(3, 2)


def test_proxies_of_objects_from_outside_are_made_in_the_trace():
    def program(t):
        owner, called, made = weakref.proxy(OWNER), weakref.proxy(ADDER), Adder()
        owner.scale = owner.scale + 1
        of_made = weakref.proxy(made)
        kinds = [type(each) for each in (owner, called, of_made)]
        same = owner is weakref.proxy(OWNER), isinstance(owner, Trainer), tried(lambda: owner(1)), tried(lambda: owner.absent)
        return called(t) * owner.scale, of_made(t), kinds, same

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        scale = OWNER.scale
        expected = program(x)
        after, OWNER.scale = OWNER.scale, scale
        assert str(compiled(x)) == str(expected)
        assert OWNER.scale == after


def test_a_proxy_of_a_module_from_outside_is_made_and_returned():
    def program(t):
        proxy = weakref.proxy(LAYER)
        return proxy, proxy(t), proxy.weight.sum()

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        proxy, y, total = compiled(x)
        assert proxy is weakref.proxy(LAYER)
        assert torch.equal(y, LAYER(x))
        assert torch.equal(total, LAYER.weight.sum())


def test_an_objects_one_proxy_may_be_one_from_outside():
    known = weakref.proxy(OWNER)

    def program(t):
        return t + (weakref.proxy(OWNER) is known)

    assert torch.equal(framejit.compile(program, backend="eager")(x), x + 1)
    with pytest.raises(framejit.errors.FramejitError, match="weak proxy from outside"):
        framejit.compile(program, backend="eager", fullgraph=True)(x)
