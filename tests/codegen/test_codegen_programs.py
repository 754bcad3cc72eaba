"""Values that leave a trace: every container, structure, mutation and exception, compiled and compared with eager."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import inspect
import operator
from typing import NamedTuple

import pytest
import torch
from portrait import portrait

import framejit


def run(fn, args):
    """Return a call's result or exception as text, with the content and the sharing of its arguments afterwards."""
    try:
        result = fn(*args)
    except framejit.errors.FramejitError:
        raise
    except Exception as error:
        return ["raised", *portrait(error, *args)]
    return ["returned", *portrait(result, *args)]


def check(fn, *args, calls=2):
    """Eager and compiled agree, on the call that compiles and on the ones after it."""
    compiled = framejit.compile(fn, backend="eager", fullgraph=True)
    before = framejit.statistics()["recompiles"]
    for _ in range(calls):
        expected = run(fn, copy.deepcopy(args))
        assert run(compiled, copy.deepcopy(args)) == expected
    assert framejit.statistics()["recompiles"] == before
    return expected


X = torch.arange(3.0)


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b


class Both(Slotted):
    def __init__(self, a, b, c):
        super().__init__(a, b)
        self.c = c


class Point(NamedTuple):
    x: object
    y: object = 5


OldPoint = collections.namedtuple("OldPoint", "x y")


@dataclasses.dataclass
class Data:
    x: object
    items: list = dataclasses.field(default_factory=list)
    number: int = 3


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object
    name: str = "n"


@dataclasses.dataclass(slots=True)
class SlottedData:
    x: object
    y: object = None


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class MyList(list):
    pass


class MyDict(dict):
    pass


class MyTuple(tuple):
    pass


class Tree:
    def __init__(self, value, parent=None):
        self.value = value
        self.parent = parent
        self.children = []
        if parent is not None:
            parent.children.append(self)


RESULTS = {
    "none": lambda x: None,
    "constants": lambda x: (1, 2.5, -0.0, True, "text", b"bytes", 3 + 4j, None, ...),
    "tensor": lambda x: x + 1,
    "input": lambda x: x,
    "input twice": lambda x: (x, x),
    "input and output": lambda x: [x, x + 1, x],
    "output twice": lambda x: (lambda y: [y, (y, {"y": y})])(x * 2),
    "empty": lambda x: ([], (), {}, set(), frozenset()),
    "distinct empties": lambda x: [[], [], [], []],
    "nested": lambda x: {"a": [x + 1, (x + 2, {"b": {"c": [[[x]]]}})]},
    "tensor keys": lambda x: {(1, 2): x, 3: x + 1, None: 4, "s": 5, 2.5: 6},
    "sets": lambda x: ({1, 2, 3}, frozenset({"a", "b"}), {(1, 2)}),
    "slices": lambda x: [slice(1, 2), slice(None), slice(1, 10, 3), range(3), range(1, 9, 2)],
    "strings": lambda x: [f"{x.shape[0]}-{'a'!r:>5}", "a" * 3, "x,y".split(",")],
    "size": lambda x: (x.shape, x.size(), x.dtype, x.device),
    "ordered": lambda x: collections.OrderedDict(b=x + 1, a=[1]),
    "defaultdict": lambda x: collections.defaultdict(list, a=[x]),
    "deque": lambda x: collections.deque([x, 1, 2], maxlen=2),
    "big list": lambda x: [x + 1] + list(range(100)),
    "big dict": lambda x: {f"k{i}": [i] for i in range(100)},
    "big tuple": lambda x: tuple([[i] for i in range(100)]),
    "namedtuple": lambda x: (Point(x + 1), Point(x, y=[x]), OldPoint(1, 2)),
    "dataclass": lambda x: (Data(x + 1), Data(x, [x], 4)),
    "frozen dataclass": lambda x: Frozen(x + 1),
    "slotted dataclass": lambda x: SlottedData(x, SlottedData(1)),
    "plain object": lambda x: Plain(a=x + 1, b=[1]),
    "empty object": lambda x: Plain(),
    "slotted object": lambda x: (Slotted(x + 1, None), Both(1, x, [x])),
    "subclasses": lambda x: (MyList([x, 1]), MyDict(a=x), MyTuple((x, 2))),
    "classes and functions": lambda x: [Plain, check, torch.nn.Linear, torch.relu, len, int, Colour.RED, Colour],
    "partial": lambda x: functools.partial(operator.add, x + 1),
    "bound method": lambda x: [].append,
    "exception": lambda x: ValueError("text", 3),
    "dtype": lambda x: [torch.float32, torch.device("cpu")],
    "arithmetic": lambda x: [x.shape[0] + 1, 7 // 2, 2**70, 1 / 3],
}


@pytest.mark.parametrize("name", RESULTS)
def test_result(name):
    check(RESULTS[name], X)


def test_input_returned_is_the_very_object():
    compiled = framejit.compile(lambda x, other: (x, [other]), backend="eager", fullgraph=True)
    x, other = torch.ones(2), object()
    result = compiled(x, other)
    assert result[0] is x and result[1][0] is other


def test_output_of_an_in_place_operation_is_the_input():
    def program(x):
        y = x.add_(1)
        return y, x.mul_(2), y is x

    check(program, torch.ones(3))


def test_functions_made_in_the_trace():
    def program(x):
        count = [0]

        def inner(y, scale=2, *, shift=3):
            count[0] += 1
            return y * scale + shift + x

        inner.note = "kept"
        return inner, count, lambda: inner

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    inner, count, outer = compiled(X)
    assert outer() is inner and inner.note == "kept"
    assert inner.__qualname__.endswith("program.<locals>.inner") and inner.__defaults__ == (2,) and inner.__kwdefaults__ == {"shift": 3}
    assert torch.equal(inner(X), X * 2 + 3 + X) and count == [1]
    assert inner.__globals__ is globals()


def test_closures_share_their_cell():
    def program(x):
        total = x + 1

        def add(y):
            nonlocal total
            total = total + y

        def get():
            return total

        add(x)
        return add, get

    for make in (program, framejit.compile(program, backend="eager", fullgraph=True)):
        add, get = make(X)
        add(X)
        assert torch.equal(get(), X * 3 + 1)


def test_methods_of_objects_made_in_the_trace():
    def program(x):
        d = Data(x)
        return d.items.append, d

    append, d = framejit.compile(program, backend="eager", fullgraph=True)(X)
    append(5)
    assert d.items == [5]


# Cycles and sharing.


def cyclic_list(x):
    items = [x + 1]
    items.append(items)
    return items


def cyclic_dict(x):
    d = {"x": x}
    d["self"] = d
    d["list"] = [d, (d, x)]
    return d


def cyclic_tuple(x):
    items = []
    pair = (items, x + 1)
    items.append(pair)
    items.append((pair, items))
    return pair


def cyclic_objects(x):
    root = Tree(x)
    first, second = Tree(x + 1, root), Tree(x + 2, root)
    Tree((first, second), second)
    return first


def cyclic_closure(x):
    def fact(n):
        return 1 if n == 0 else n * fact(n - 1)

    return {"fact": fact, "value": fact(5), "x": x}


def shared(x):
    inner = [x + 1]
    pair = (inner, inner)
    return {"a": inner, "b": pair, "c": [pair, pair], "d": Data(inner, inner)}


def equal_but_distinct(x):
    return [[x], [x]], [{}] * 2, [{} for _ in range(2)]


def long_chain(x):
    node = None
    for i in range(200):
        node = (node, [i])
    return node


def long_linked_list(x):
    node = None
    for i in range(200):
        node = Plain(value=i, next=node)
    return node


@pytest.mark.parametrize(
    "program",
    [cyclic_list, cyclic_dict, cyclic_tuple, cyclic_objects, cyclic_closure, shared, equal_but_distinct, long_chain, long_linked_list],
    ids=lambda f: f.__name__,
)
def test_structure(program):
    check(program, X)


def large(x):
    rows = [[x, i, {"i": i}] for i in range(1500)]
    return rows, tuple(rows), {i: (i, rows[i]) for i in range(1000)}, list(range(5000))


def large_graph(x):
    return [x + i for i in range(400)]


@pytest.mark.parametrize("program", [large, large_graph], ids=lambda f: f.__name__)
def test_large_structure(program):
    check(program, X)


def test_a_new_value_stored_in_several_places_is_one():
    def program(x, items, d, o):
        new = [x + 1]
        items.append(new)
        d["new"] = new
        o.new = new
        return new

    check(program, X, [], {}, Plain())


def test_inputs_stored_in_each_other():
    def program(x, items, d, o):
        items.append(d)
        d["o"] = o
        o.items = items
        o.me = o
        return items

    check(program, X, [], {}, Plain())


# Mutations: (what the program does, what it does it to).


def list_setitem(x, s):
    s[0] = x + 1
    s[-1] = 5


def list_methods(x, s):
    s.append(x + 1)
    s.extend([1, 2])
    s.insert(1, "in")
    s.pop()
    s.pop(0)
    s += (7, 8)


def list_delete(x, s):
    del s[0]
    s.remove(2)
    s.reverse()


def list_slices(x, s):
    s[1:2] = [x, x + 1]
    del s[:1]


def list_clear(x, s):
    s.clear()
    s.append(x)


def list_sort(x, s):
    s.sort(reverse=True)


def list_only_appended(x, s):
    for i in range(3):
        s.append(x + i)


def dict_setitem(x, s):
    s["new"] = x + 1
    s[1] = "one"


def dict_overwrite(x, s):
    s["a"] = x


def dict_delete(x, s):
    del s["a"]
    s["a"] = 3


def dict_methods(x, s):
    s.update(b=x, c=2)
    s.setdefault("d", []).append(x)
    s.pop("a")
    s.pop("not there", None)


def dict_clear(x, s):
    s.clear()
    s["z"] = x


def dict_popitem(x, s):
    s["last"] = s.popitem()


def set_methods(x, s):
    s.add(5)
    s.discard(1)
    s |= {8, 9}
    s.remove(2)


def set_clear(x, s):
    s.clear()
    s.add("only")


def deque_methods(x, s):
    s.append(x)
    s.appendleft(1)
    s.popleft()
    s.pop()
    s.extend([3, 4])


def deque_rotates(x, s):
    s.rotate(1)


def ordered_moves(x, s):
    s.move_to_end("a")
    s["c"] = x


def ordered_pops(x, s):
    s.popitem(last=False)


def counts_missing(x, s):
    s["new"].append(x)
    s["a"].append(2)


def sets_attributes(x, s):
    s.a = x + 1
    s.b = [s.a]
    s.a = s.a * 2


def deletes_attributes(x, s):
    del s.a
    s.c = 3


def sets_through_setattr(x, s):
    setattr(s, "d", x)
    s.__dict__["e"] = 4


def sets_slots(x, s):
    s.a = x
    del s.b


def nested(x, s):
    s["list"].append(x)
    s["dict"]["inner"]["k"] = x + 1
    s["object"].a = s["list"]


MUTATIONS = [
    (list_setitem, [1, 2, 3]),
    (list_methods, [1, 2, 3]),
    (list_delete, [1, 2, 3]),
    (list_slices, [1, 2, 3]),
    (list_clear, [1, 2, 3]),
    (list_sort, [2, 3, 1]),
    (list_only_appended, []),
    (list_setitem, MyList([1, 2])),
    (list_only_appended, MyList([1, 2])),
    (dict_setitem, {"a": 1}),
    (dict_setitem, {}),
    (dict_overwrite, {"a": 1, "b": 2}),
    (dict_delete, {"a": 1, "b": 2}),
    (dict_methods, {"a": 1}),
    (dict_clear, {"a": 1}),
    (dict_popitem, {"a": 1, "b": 2}),
    (dict_setitem, MyDict(a=1)),
    (dict_setitem, collections.OrderedDict(a=1)),
    (dict_delete, collections.OrderedDict(a=1, b=2)),
    (set_methods, {1, 2, 3}),
    (set_clear, {1, 2}),
    (deque_methods, collections.deque([1, 2, 3])),
    (deque_methods, collections.deque([1, 2, 3], maxlen=3)),
    (deque_rotates, collections.deque([1, 2, 3])),
    (ordered_moves, collections.OrderedDict(a=1, b=2)),
    (ordered_pops, collections.OrderedDict(a=1, b=2)),
    (counts_missing, collections.defaultdict(list, a=[1])),
    (sets_attributes, Plain(a=1)),
    (deletes_attributes, Plain(a=1, b=2)),
    (sets_through_setattr, Plain()),
    (sets_attributes, Data(1)),
    (sets_slots, Slotted(1, 2)),
    (sets_slots, Both(1, 2, 3)),
    (nested, {"list": [], "dict": {"inner": {}}, "object": Plain()}),
]


@pytest.mark.parametrize("program, state", MUTATIONS, ids=[f"{p.__name__}-{type(s).__name__}-{i}" for i, (p, s) in enumerate(MUTATIONS)])
def test_mutation(program, state):
    check(program, X, state)


COUNTER = 0


def test_globals_are_stored():
    def program(x):
        global COUNTER
        COUNTER = COUNTER + 1
        return x + 1

    global COUNTER
    COUNTER = 0
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    compiled(X)
    assert COUNTER == 1


def test_cells_of_the_caller_are_stored():
    total = X

    def program(x):
        nonlocal total
        total = total + x
        return total

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for n in (2, 3, 4):
        assert compiled(X) is total
        assert torch.equal(total, X * n)


def test_class_attributes_are_stored():
    class Holder:
        value = None

    def program(x):
        Holder.value = x + 1
        return x

    framejit.compile(program, backend="eager")(X)
    assert torch.equal(Holder.value, X + 1)


def test_mutations_are_seen_in_the_order_that_eager_has():
    def program(x, a, b):
        a.append(b)
        b.append(len(a))
        a.append(len(b))
        return a[0] is b, x + len(a)

    check(program, X, [], [])


class Guarded:
    def __getattribute__(self, name):
        raise RuntimeError("attribute access while the object is being rebuilt")

    __setattr__ = __getattribute__


def test_rebuilding_and_replaying_run_no_code_of_the_programs():
    def program(x, state):
        made = object.__new__(Guarded)
        object.__setattr__(made, "value", x + 1)
        object.__setattr__(state, "value", made)
        return [made, made]

    state = object.__new__(Guarded)
    first, second = framejit.compile(program, backend="eager", fullgraph=True)(X, state)
    assert first is second is object.__getattribute__(state, "value")
    assert torch.equal(object.__getattribute__(first, "value"), X + 1)


def test_an_instance_dict_that_leaves_is_the_instances():
    def program(x):
        made = Plain(a=x + 1)
        return made.__dict__, vars(made), made

    check(program, X)


def test_generators_are_rebuilt_where_they_wait():
    def program(x):
        def numbers(log):
            log.append("started")
            got = yield x
            log.append(got)
            with torch.no_grad():
                yield x + 1, log

        def outer(*args):
            yield from numbers(*args)
            return 3

        new, waiting, delegating = numbers([]), numbers([0]), outer([1])
        next(waiting)
        next(delegating)
        return new, waiting, delegating

    for made in program(X), framejit.compile(program, backend="eager", fullgraph=True)(X):
        new, waiting, delegating = made
        assert [inspect.getgeneratorstate(generator) for generator in made] == ["GEN_CREATED", "GEN_SUSPENDED", "GEN_SUSPENDED"]
        assert [generator.__qualname__.rpartition(".")[2] for generator in made] == ["numbers", "numbers", "outer"]
        assert inspect.getgeneratorlocals(waiting)["log"] == [0, "started"] and waiting.gi_frame.f_lineno - waiting.gi_code.co_firstlineno == 2
        assert torch.equal(next(new), X)
        value, log = waiting.send(5)
        assert torch.equal(value, X + 1) and log == [0, "started", 5]
        assert delegating.gi_yieldfrom.__name__ == "numbers" and delegating.send(7)[1] == [1, "started", 7]
        assert list(waiting) == list(delegating) == []
        new.close()


def test_a_generator_whose_finally_waits_is_carried():
    def program(x):
        def numbers():
            try:
                yield x
            finally:
                x.add_(1)

        made = numbers()
        next(made)
        print("break")
        made.close()
        return x

    framejit.reset()
    assert torch.equal(framejit.compile(program, backend="eager")(X.clone()), X + 1)
    assert not framejit.statistics()["fallbacks"]


def test_an_argument_tuple_and_dict_are_fresh_on_each_call():
    def program(*args, **kwargs):
        kwargs["new"] = args
        return kwargs

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    first, second = compiled(1, a=X), compiled(1, a=X)
    assert first is not second and first["new"] == (1,) and first["a"] is X and list(first) == ["a", "new"]


def test_new_values_are_new_on_each_call():
    def program(x):
        return [x], Plain()

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    (one, plain), (two, other) = compiled(X), compiled(X)
    assert one is not two and plain is not other


# Exceptions.


def raises_directly(x):
    raise ValueError("text", 1)


def raises_after_a_mutation(x, items):
    items.append(1)
    raise KeyError("k")


def raises_inside(x, items):
    return items[10]


def catches(x, items):
    try:
        return items[10]
    except IndexError as error:
        return x + 1, type(error)
    finally:
        items.append("done")


def raises_from(x, items):
    try:
        {}["missing"]
    except KeyError as error:
        raise RuntimeError("outer") from error


@pytest.mark.parametrize("program", [raises_after_a_mutation, raises_inside, catches, raises_from], ids=lambda f: f.__name__)
def test_exception(program):
    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        assert run(compiled, (X, [])) == run(program, (X, []))


def test_an_exception_keeps_its_traceback_and_cause():
    compiled = framejit.compile(raises_from, backend="eager")
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            compiled(X, [])
        assert isinstance(caught.value.__cause__, KeyError)
        tb = caught.tb
        while tb.tb_next is not None:
            tb = tb.tb_next
        assert tb.tb_frame.f_code is raises_from.__code__ and tb.tb_lineno == raises_from.__code__.co_firstlineno + 4


def test_an_error_in_the_backends_callable_has_the_users_line():
    def backend(gm, inputs):
        def run(*args):
            raise FloatingPointError("from the graph")

        return run

    def program(x):
        y = x + 1
        return y * 2

    with pytest.raises(FloatingPointError) as caught:
        framejit.compile(program, backend=backend)(X)
    lines = [entry.tb_lineno for entry in walk(caught.tb) if entry.tb_frame.f_code.co_name == "program"]
    assert lines and program.__code__.co_firstlineno < lines[0] <= program.__code__.co_firstlineno + 2


def walk(tb):
    while tb is not None:
        yield tb
        tb = tb.tb_next
