"""Kinds of changes that a program can make while it computes a number: to generators, iterators, containers, attributes, tensors, states of random numbers.

Each kind makes an object in the traced call. It returns a function that changes the object and returns a number, and one that describes its state.
The argument `given` is an object from outside of the traced call.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import functools
import hashlib
import heapq
import io
import itertools
import random
import types
from array import array as array_of

import numpy as np
import torch
from named import Programs

KINDS = Programs()
kind = KINDS.add
REGISTRY: list[float] = []


class Box:
    """An object that any attribute can be set on."""


class Slots:
    __slots__ = ("n",)


class Adder:
    n = 2.0

    def add(self):
        self.n += 1
        return self.n

    @property
    def next(self):
        return self.add()


class OwnList(list):
    pass


class OwnDict(dict):
    pass


def numbers():
    yield from (2.0, 3.0, 5.0, 7.0, 11.0, 13.0)


def advancing(iterator, rest=None):
    return (lambda: next(iterator)), (lambda: list(iterator if rest is None else rest))


@kind
def generator(given):
    return advancing(numbers())


@kind
def generator_expression(given):
    return advancing(n for n in (2.0, 3.0, 5.0, 7.0, 11.0))


@kind
def generator_in_default(given):
    g = numbers()

    def change(g=g):
        return next(g)

    return change, lambda: list(g)


@kind
def method_of_generator(given):
    g = numbers()
    return g.__next__, lambda: list(g)


@kind
def partial_of_next(given):
    g = numbers()
    return functools.partial(next, g), lambda: list(g)


def summing():
    total = 2.0
    while True:
        try:
            total += yield total
        except ValueError:
            total += 4


@kind
def sent(given):
    g = summing()
    next(g)
    return (lambda: g.send(1.0)), (lambda: g.send(0.0))


@kind
def thrown(given):
    g = summing()
    next(g)
    return (lambda: g.throw(ValueError())), (lambda: g.send(0.0))


@kind
def closed(given):
    g = numbers()

    def change():
        n = next(g, 4.0)
        g.close()
        return n

    return change, lambda: list(g)


@kind
def annotations_of_a_function(given):
    def inner():
        pass

    def change():
        inner.__annotations__["n"] = inner.__annotations__.get("n", 1.0) + 1
        return inner.__annotations__["n"]

    return change, lambda: dict(inner.__annotations__)


@kind
def looped(given):
    g = numbers()

    def change():
        for n in g:
            if n > 2:
                return n
        return 1.0

    return change, lambda: list(g)


@kind
def searched(given):
    g = numbers()
    return (lambda: 2.0 + (3.0 in g)), (lambda: list(g))


@kind
def exhausted(given):
    g = numbers()
    return (lambda: 2.0 + len(list(g))), (lambda: list(g))


@kind
def zip_of_generator(given):
    g = numbers()
    z = zip(g, "abcdef")
    return (lambda: next(z)[0]), (lambda: list(g))


@kind
def map_of_generator(given):
    g = numbers()
    return advancing(map(abs, g), g)


@kind
def map_of_lambda(given):
    return advancing(map(lambda n: n + 1, numbers()))


@kind
def filter_of_generator(given):
    g = numbers()
    return advancing(filter(None, g), g)


@kind
def enumerate_of_generator(given):
    z = enumerate(numbers())
    return (lambda: sum(next(z))), (lambda: list(z))


@kind
def islice_of_generator(given):
    g = numbers()
    return advancing(itertools.islice(g, 5), g)


@kind
def chain_of_generator(given):
    g = numbers()
    return advancing(itertools.chain([1.0], g), g)


@kind
def takewhile_of_generator(given):
    g = numbers()
    return advancing(itertools.takewhile(lambda n: n < 20, g), g)


@kind
def accumulate_of_generator(given):
    return advancing(itertools.accumulate(numbers()))


@kind
def starmap_of_generator(given):
    return advancing(itertools.starmap(lambda a, b: a + b, ((n, 1.0) for n in (2.0, 3.0, 5.0, 7.0))))


@kind
def tee_of_generator(given):
    return advancing(*itertools.tee(numbers()))


@kind
def delegated(given):
    g = numbers()

    def outer():
        yield from g

    return advancing(outer(), g)


@kind
def delegated_to_list(given):
    def outer():
        yield from [2.0, 3.0, 5.0, 7.0, 11.0]

    return advancing(outer())


@kind
def generator_in_list(given):
    held = [numbers()]
    return (lambda: next(held[0])), (lambda: list(held[0]))


@kind
def generator_in_tuple(given):
    held = (1, (numbers(),))
    return (lambda: next(held[1][0])), (lambda: list(held[1][0]))


@kind
def generator_in_attribute(given):
    box = Box()
    box.g = numbers()
    return (lambda: next(box.g)), (lambda: list(box.g))


@kind
def generator_in_value_from_outside(given):
    given.g = numbers()
    return (lambda: next(given.g)), (lambda: list(given.g))


@kind
def list_that_generator_holds(given):
    held = [2.0, 3.0, 5.0, 7.0, 11.0]

    def popping(items):
        while True:
            yield items.pop()

    g = popping(held)
    return (lambda: next(g)), (lambda: held)


@kind
def context_managers_of_generators(given):
    log = []

    @contextlib.contextmanager
    def managed():
        log.append("in")
        yield 2.0
        log.append("out")

    managers = [managed() for _ in range(5)]

    def change():
        with managers.pop() as n:
            return n + len(log)

    return change, lambda: log


@kind
def context_manager_that_is_left(given):
    @contextlib.contextmanager
    def managed():
        yield 2.0

    manager = managed()
    entered = manager.__enter__()

    def change():
        try:
            manager.__exit__(None, None, None)
            return entered
        except RuntimeError:
            return 3.0

    return change, lambda: None


@kind
def coroutine(given):
    class Step:
        def __await__(self):
            yield 2.0

    async def work():
        for _ in range(5):
            await Step()

    running = work()

    def change():
        try:
            return running.send(None)
        except StopIteration:
            return 3.0

    return change, running.close


@kind
def list_iterator(given):
    return advancing(iter([2.0, 3.0, 5.0, 7.0, 11.0]))


@kind
def reversed_list(given):
    return advancing(reversed([2.0, 3.0, 5.0, 7.0, 11.0]))


@kind
def dict_iterator(given):
    return advancing(iter({2.0: 1, 3.0: 1, 5.0: 1, 7.0: 1}))


@kind
def set_iterator(given):
    return advancing(iter({2.0, 3.0, 5.0, 7.0}))


@kind
def range_iterator(given):
    return advancing(iter(range(2, 9)))


@kind
def deque_iterator(given):
    return advancing(iter(collections.deque([2.0, 3.0, 5.0, 7.0, 11.0])))


@kind
def callable_iterator(given):
    held = [2.0, 3.0, 5.0, 7.0, 11.0]
    return advancing(iter(held.pop, 0.0), held)


@kind
def count(given):
    counter = itertools.count(2.0)
    return (lambda: next(counter)), (lambda: next(counter))


@kind
def repeat(given):
    return advancing(itertools.repeat(2.0, 6))


@kind
def list_item(given):
    held = [2.0]

    def change():
        held[0] += 1
        return held[0]

    return change, lambda: held


@kind
def list_pop(given):
    held = [2.0, 3.0, 5.0, 7.0, 11.0]
    return held.pop, lambda: held


@kind
def list_reverse(given):
    held = [3.0, 2.0]

    def change():
        held.reverse()
        return held[0]

    return change, lambda: held


@kind
def heap(given):
    held = [2.0, 3.0, 5.0, 7.0, 11.0]
    return (lambda: heapq.heappop(held)), (lambda: held)


@kind
def set_item(given):
    held = {2.0}

    def change():
        held.add(float(len(held) + 5))
        return float(len(held))

    return change, lambda: sorted(held)


@kind
def dict_item(given):
    held = {"n": 2.0}

    def change():
        held["n"] += 1
        return held["n"]

    return change, lambda: held


@kind
def dict_view(given):
    held = {"n": 2.0}
    view = held.values()

    def change():
        held[len(held)] = 1.0
        return float(len(view))

    return change, lambda: held


@kind
def default_dict(given):
    held = collections.defaultdict(list)

    def change():
        held["x"].append(1.0)
        return 1.0 + len(held["x"])

    return change, lambda: dict(held)


@kind
def ordered_dict(given):
    held = collections.OrderedDict(a=2.0, b=3.0)

    def change():
        held.move_to_end(next(iter(held)))
        return next(iter(held.values()))

    return change, lambda: list(held)


@kind
def counter(given):
    held = collections.Counter(a=2)

    def change():
        held["a"] += 1
        return float(held["a"])

    return change, lambda: dict(held)


@kind
def deque(given):
    held = collections.deque([2.0, 3.0, 5.0])

    def change():
        held.rotate(1)
        return held[0]

    return change, lambda: list(held)


@kind
def subclass_of_list(given):
    held = OwnList([2.0])

    def change():
        held.append(1.0)
        return float(len(held))

    return change, lambda: list(held)


@kind
def attribute_of_dict(given):
    held = OwnDict(n=2.0)
    held.m = 2.0

    def change():
        held.m += 1
        return held.m

    return change, lambda: held.m


@kind
def cell(given):
    n = 2.0

    def change():
        nonlocal n
        n += 1
        return n

    return change, lambda: n


@kind
def attribute(given):
    box = Box()
    box.n = 2.0

    def change():
        box.n += 1
        return box.n

    return change, lambda: box.n


@kind
def new_attribute(given):
    box = Box()

    def change():
        box.n = getattr(box, "n", 2.0) + 1
        return box.n

    return change, lambda: box.n


@kind
def attribute_of_value_from_outside(given):
    given.n = 2.0

    def change():
        given.n += 1
        return given.n

    return change, lambda: given.n


@kind
def list_in_value_from_outside(given):
    given.held = [2.0]

    def change():
        given.held.append(1.0)
        return float(len(given.held))

    return change, lambda: given.held


@kind
def box_in_dict_in_value_from_outside(given):
    given.inner.d = {"a": Box()}
    given.inner.d["a"].n = 2.0

    def change():
        given.inner.d["a"].n += 1
        return given.inner.d["a"].n

    return change, lambda: given.inner.d["a"].n


@kind
def list_in_global(given):
    global REGISTRY
    REGISTRY = [2.0]

    def change():
        REGISTRY.append(1.0)
        return float(len(REGISTRY))

    return change, lambda: REGISTRY


@kind
def slot(given):
    box = Slots()
    box.n = 2.0

    def change():
        box.n += 1
        return box.n

    return change, lambda: box.n


@kind
def dict_of_instance(given):
    box = Box()
    box.n = 2.0

    def change():
        vars(box)["n"] += 1
        return box.n

    return change, lambda: box.n


@kind
def namespace(given):
    box = types.SimpleNamespace(n=2.0)

    def change():
        box.n += 1
        return box.n

    return change, lambda: box.n


@kind
def attribute_of_function(given):
    def change():
        change.n += 1
        return change.n

    change.n = 2.0
    return change, lambda: change.n


@kind
def method(given):
    adder = Adder()
    return adder.add, lambda: adder.n


@kind
def property_that_changes(given):
    adder = Adder()
    return (lambda: adder.next), (lambda: adder.n)


@kind
def arguments_of_exception(given):
    error = ValueError(2.0)

    def change():
        error.args = (error.args[0] + 1,)
        return error.args[0]

    return change, lambda: error.args


@kind
def attribute_of_tensor(given):
    tensor = given.t + 1
    tensor.n = 2.0

    def change():
        tensor.n += 1
        return tensor.n

    return change, lambda: tensor.n


@kind
def gradient_of_tensor(given):
    tensor = given.t + 1
    tensor.grad = None

    def change():
        n = 2.0 + (tensor.grad is not None)
        tensor.grad = torch.ones(2)
        return n

    return change, lambda: tensor.grad


@kind
def tensor_in_place(given):
    tensor = given.t + 1

    def change():
        tensor.add_(1)
        return tensor[0]

    return change, lambda: tensor


@kind
def tensor_that_is_kept(given):
    held = [2.0]

    def change():
        held.append(torch.ones(2) * len(held))
        return float(len(held))

    return change, lambda: held


@kind
def array(given):
    held = np.ones(2)

    def change():
        held[0] += 1
        return float(held[0])

    return change, lambda: held.tolist()


@kind
def random_numbers(given):
    source = random.Random(3)
    return (lambda: 2.0 + source.randrange(3)), source.random


@kind
def random_numbers_of_torch(given):
    source = torch.Generator().manual_seed(3)
    return (lambda: 2.0 + torch.rand((), generator=source)), (lambda: torch.rand((), generator=source))


@kind
def reversed_dict(given):
    return advancing(reversed({2.0: 1, 3.0: 1, 5.0: 1, 7.0: 1}))


@kind
def dict_of_which_a_key_is_deleted(given):
    held = {2.0: "a", 3.0: "b", 5.0: "c"}

    def change():
        del held[min(held)]
        return float(len(held))

    return change, lambda: list(held)


@kind
def dict_that_is_cleared(given):
    held = {2.0: "a", 3.0: "b"}

    def change():
        n = 1.0 + len(held)
        held.clear()
        return n

    return change, lambda: list(held)


@kind
def default_factory(given):
    held = collections.defaultdict(lambda: 2.0)

    def change():
        n = held.default_factory()
        held.default_factory = lambda: n + 1.0
        return n

    return change, lambda: held["missing"]


@kind
def ordered_dict_by_dict(given):
    held = collections.OrderedDict(a=2.0)

    def change():
        dict.__setitem__(held, "b", held["a"])
        held["b"] = dict.get(held, "b") + 1.0
        held["a"] = held["b"]
        return held["b"]

    return change, lambda: list(held.items())


@kind
def cache(given):
    added = [2.0]
    held = functools.lru_cache(lambda n: n + added[0])

    def change():
        n = held(1.0)
        added[0] += 1.0
        n += held(1.0)
        held.cache_clear()
        return n + held(1.0)

    return change, lambda: held(1.0)


@kind
def state_of_a_partial(given):
    held = functools.partial(max, 2.0)

    def change():
        held.__setstate__((max, (held(0.0) + 1.0,), {}, None))
        return held(0.0)

    return change, lambda: held.args


@kind
def set_pop(given):
    held = {2.0, 3.0, 5.0}
    return held.pop, lambda: sorted(held)


@kind
def bounded_deque(given):
    held = collections.deque([2.0, 3.0], maxlen=2)

    def change():
        held.append(held[-1] + 1.0)
        return held[0]

    return change, lambda: list(held)


@kind
def instance_dict_replaced(given):
    box = Box()
    box.n = 2.0

    def change():
        box.__dict__ = {"n": box.n + 1.0}
        return box.n

    return change, lambda: box.n


@kind
def traceback_dropped(given):
    try:
        raise ValueError
    except ValueError as error:
        held = [error]

    def change():
        n = 2.0 + (held[0].__traceback__ is None)
        held[0].__traceback__ = None
        return n

    return change, lambda: held[0].__traceback__ is None


@kind
def context_variable_that_is_reset(given):
    variable = contextvars.ContextVar("n", default=2.0)
    tokens = [variable.set(3.0), variable.set(5.0)]

    def change():
        n = variable.get()
        if tokens:
            variable.reset(tokens.pop())
        return n

    return change, variable.get


@kind
def requires_grad_of_a_tensor_made_here(given):
    t = torch.ones(2)

    def change():
        n = 2.0 + t.requires_grad
        t.requires_grad_(not t.requires_grad)
        return n

    return change, lambda: float(t.requires_grad)


@kind
def data_of_a_tensor_made_here(given):
    t = torch.ones(2)

    def change():
        t.data = t.data * 2
        return float(t.shape[0]) * t.sum()

    return change, lambda: t


@kind
def hook_that_is_taken_off(given):
    t = torch.ones(2, requires_grad=True) * 2
    handles = [t.register_hook(lambda gradient: gradient * 3), t.register_hook(lambda gradient: gradient * 5)]

    def change():
        n = 1.0 + len(handles)
        if handles:
            handles.pop().remove()
        return n

    return change, lambda: len(handles)


@kind
def requires_grad_of_a_tensor_from_outside(given):
    def change():
        n = 2.0 + given.t.requires_grad
        given.t.requires_grad_(not given.t.requires_grad)
        return n

    return change, lambda: float(given.t.requires_grad)


@kind
def data_of_a_tensor_from_outside(given):
    def change():
        given.t.data = given.t.data * 2
        return given.t.sum()

    return change, lambda: given.t


@kind
def attribute_of_value_from_outside_that_is_deleted(given):
    def change():
        n = 2.0 + hasattr(given, "inner")
        if n == 3.0:
            del given.inner
        return n

    return change, lambda: hasattr(given, "inner")


@kind
def iterator_from_outside(given):
    return advancing(given.iterator)


class Backwards:
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return index + 2.0


@kind
def reversed_object(given):
    return advancing(reversed(Backwards()))


@kind
def errors_of_numpy(given):
    state = np.errstate(divide="ignore")

    def change():
        with state:
            return 2.0

    return change, lambda: None


@kind
def gradient_that_is_retained(given):
    t = torch.ones(2, requires_grad=True) * 2

    def change():
        n = 2.0 + t.retains_grad
        t.retain_grad()
        return n

    return change, lambda: float(t.retains_grad)


@kind
def attribute_of_made_class(given):
    class Made:
        n = 2.0

    def change():
        Made.n += 1
        return Made.n

    return change, lambda: (Made.n, Made().n)


@kind
def text_stream(given):
    stream = io.StringIO()

    def change():
        stream.write("a")
        return float(len(stream.getvalue()))

    return change, stream.getvalue


@kind
def byte_stream(given):
    stream = io.BytesIO(b"abcdefgh")

    def change():
        return float(stream.read(1)[0])

    return change, stream.tell


@kind
def contents_of_bytearray(given):
    data = bytearray(b"ab")

    def change():
        data.append(3)
        return float(len(data))

    return change, lambda: list(data)


@kind
def iterator_of_array(given):
    return advancing(iter(array_of("d", [2.0, 3.0, 5.0, 7.0])))


@kind
def position_of_iterator(given):
    iterator = iter([2.0, 3.0, 5.0])

    def change():
        iterator.__setstate__(1)
        return 2.0

    return change, lambda: list(iterator)


@kind
def bytes_of_a_hash(given):
    made = hashlib.sha256(b"a")

    def change():
        made.update(b"b")
        return float(made.digest()[0])

    return change, made.hexdigest
