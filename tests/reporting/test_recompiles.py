"""The log says for each kind of guard why functions are compiled again; limits hold per function, per module and per cause; errors can be raised instead."""

from __future__ import annotations

import functools
import logging
import re
import sys
import threading
import weakref
from collections import OrderedDict, namedtuple
from types import SimpleNamespace

import numpy
import pytest
import torch
from guarding import kinds_of_guards
from torch import nn

import framejit
from framejit import config
from framejit.errors import program_name
from framejit.guards.generators import READABLE

x = torch.arange(6.0).reshape(2, 3)
SETTING = "a"
TOLD: dict[str, str] = {}
"""For each leaf name, what the log said."""


@pytest.fixture(autouse=True)
def forgotten():
    framejit.reset()
    yield
    framejit.set_logs()


@pytest.fixture
def told(caplog):
    """Return a function that gives the log of recompiles as one text and clears it."""
    framejit.set_logs("recompiles")

    def text():
        found = "\n".join(record.getMessage() for record in caplog.records if record.name == "framejit.recompiles")
        caplog.clear()
        return found

    return text


def eager(f, **options):
    """Each size is compiled by itself, so that there is something to report."""
    return framejit.compile(f, backend="eager", **{"dynamic": False, **options})


# ---- advice that belongs to the case ----


def test_a_hook_added_late_is_to_be_added_early(told):
    layer = nn.Linear(3, 3)
    compiled = eager(layer)
    compiled(x)
    layer.register_forward_hook(lambda *args: None)
    compiled(x)
    text = told()
    assert "self.__dict__: expected that it has nothing in _backward_hooks, " in text and "; found something in _forward_hooks" in text
    assert "to avoid it: register hooks before the first call" in text and "number of items" not in text
    TOLD["items_empty"] = text


def test_a_thread_sets_its_own_modes(told):
    compiled = eager(lambda t: t + 1)
    with torch.no_grad():
        compiled(x)
    compiled(x)
    assert "grad mode" in (text := told()) and "torch's defaults" not in text
    framejit.reset()
    with torch.no_grad():
        compiled(x)
        thread = threading.Thread(target=compiled, args=(x,))
        thread.start()
        thread.join()
    assert "a thread begins with torch's defaults: set the modes in the function that it runs" in told()


def broken_in_two(t):
    framejit.graph_break()
    return t * 2


def test_sizes_that_vary_can_be_marked(told):
    compiled = framejit.compile(lambda t, other: t + other, backend="eager")
    compiled(torch.ones(3, 4), torch.ones(1, 4)), compiled(torch.ones(5, 4), torch.ones(1, 4))
    assert "framejit.mark_dynamic(t, 0) before the first call" in told()
    compiled = framejit.compile(broken_in_two, backend="eager")
    compiled(torch.ones(3, 4)), compiled(torch.ones(5, 4))
    assert "symbolic from now on" in (text := told()) and "mark_dynamic" not in text, "the program has no tensor to mark there"


# ---- the log, for each kind of guard ----


class Thing:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Plain:
    pass


marker = Plain()
DECISION = "(n % 2 == 0).any()" if sys.version_info >= (3, 12) else "t if (n % 2 == 0).any() else -t"
"""The part of the line that is marked where a conditional expression decides."""


class Slotted:
    __slots__ = ("n",)

    def __init__(self, n):
        self.n = n


def closure(n):
    return lambda t: t * n


shared_list = [1, 2]
CASES = {
    # name: (leaf, the function, the first call, the second one, the source, expected, found, the hint, the marked expression)
    "an int argument": ("equals", lambda t, n: t * n, (x, 3), (x, 4), "n", "== 3", "4", "pass it as a tensor", "t * n"),
    "a float argument": ("equals", lambda t, n: t * n, (x, 3.5), (x, 4.5), "n", "== 3.5", "4.5", "pass it as a tensor", "t * n"),
    "data": (
        "data_equals", lambda t, n: t if (n % 2 == 0).any() else -t, (x, torch.tensor([1, 2])), (x, torch.tensor([1, 3])), "the data of n", "is [1, 2]",
        "[1, 3]", "or keep the decision in tensors", DECISION,
    ),
    "a string": ("equals", lambda t, s: t if s == "a" else -t, (x, "a"), (x, "b"), "s", "== 'a'", "'b'", "each value is compiled once", 's == "a"'),
    "an attribute": (
        "equals", lambda t, o: t * o.n, (x, Thing(n=3)), (x, Thing(n=4)), "o.n", "== 3", "4", "only passed on, or counted up", "t * o.n",
    ),
    "a slot": ("equals", lambda t, o: t * o.n, (x, Slotted(3)), (x, Slotted(4)), "o.n", "== 3", "4", "or keep it in a tensor", "t * o.n"),
    "a float attribute": (
        "equals", lambda t, o: t * o.n, (x, Thing(n=0.5)), (x, Thing(n=1.5)), "o.n", "== 0.5", "1.5", "keep it in a tensor", "t * o.n",
    ),
    "a dict's item": ("equals", lambda t, d: t * d["n"], (x, {"n": 3}), (x, {"n": 4}), "d['n']", "== 3", "4", "pass it as a tensor", 't * d["n"]'),
    "a type": ("type_is", lambda t, o: t + len(o), (x, [1]), (x, (1,)), "o", "is exactly a list", "a tuple", "pass the same type", "len(o)"),
    "an object": (
        "value_is", lambda t, o: t if o is len else -t, (x, len), (x, repr), "o", "is the same object", "a builtin_function_or_method",
        "make the object once", "o is len",
    ),
    "an object's address": (
        "value_is", lambda t, o: (t, hash(o)), (x, Thing(n=3)), (x, Thing(n=4)), "o", "is the same object", "a Thing", "make the object once", "hash(o)",
    ),
    "a function": (
        "code_is", lambda t, f: f(t), (x, lambda t: t), (x, lambda t: -t), "f", "is a function with the code of", "a function",
        "define the function once", "f(t)",
    ),
    "a length": ("length", lambda t, o: t + len(o), (x, [1]), (x, [1, 2]), "o", "has length 1", "length 2", "number of items the same", "len(o)"),
    "a key's absence": (
        "key_absent", lambda t, d: t if "a" in d else -t, (x, {"b": 1}), (x, {"b": 1, "a": 1}), "d", "has no key 'a'", "has key 'a'",
        "set the attribute or key before the first call", '"a" in d',
    ),
    "keys": (
        "dict_keys", lambda t, d: [t + len(k) for k in d][0], (x, {"a": 1}), (x, {"bb": 1}), "d", "has the keys ['a']", "keys 'bb'",
        "the same keys in the same order", "d" if sys.version_info >= (3, 13) else "[t + len(k) for k in d]",
    ),
    "elements": (
        "set_equals", lambda t, s: t if 1 in s else -t, (x, {1}), (x, {2}), "s", "has the elements (1,)", "a set", "the same elements", "1 in s",
    ),
    "an element": (
        "element", lambda t, o, s: t if o in s else -t, (x, marker, {marker}), (x, marker, {object()}), "o", "is in s", "that it is not there",
        "ask outside of the compiled function", "o in s",
    ),
    "a missing slot": (
        "is_missing", lambda t, o: t if hasattr(o, "n") else -t, (x, Slotted.__new__(Slotted)), (x, Slotted(1)), "o.n", "is not set", "1",
        "set it before the first call", 'hasattr(o, "n")',
    ),
    "a dtype": (
        "tensor_match", lambda t: t + 1, (x,), (x.double(),), "t", "is a Tensor([2, 3]", "dtype torch.float64", "keep the dtype constant", "t + 1",
    ),
    "a size": ("tensor_match", lambda t: t + 1, (x,), (x[:1],), "t", "is a Tensor([2, 3]", "size [1, 3]", "pad to a few fixed sizes", "t + 1"),
    "strides": (
        "tensor_match", lambda t: t + 1, (x,), (torch.ones(3, 2).t(),), "t", "strides (3, 1)", "strides (1, 2)", ".contiguous()", "t + 1",
    ),
    "requires_grad": (
        "tensor_match", lambda t: t + 1, (x,), (x.clone().requires_grad_(),), "t", "is a Tensor", "requires_grad True", "same grad mode", "t + 1",
    ),
    "conjugation": (
        "tensor_match", lambda t: t + 1, (x.cfloat(),), (x.cfloat().conj(),), "t", "complex64", "the conjugate or negative bit", ".resolve_conj()",
        "t + 1",
    ),
    "a parameter for a tensor": (
        "tensor_match", lambda t: t + 1, (x,), (nn.Parameter(x.clone()),), "t", "is a Tensor", "a Parameter", "a tensor of the same class", "t + 1",
    ),
    "one object in two places": (
        "same", lambda t, a, b: (a.append(1), t + len(b))[1], (x, shared_list, shared_list), (x, [1, 2], [1, 2]), "b", "is the same object as a",
        "another object", "the same object in both places", None,
    ),
    "two objects in one place": (
        "distinct", lambda t, a, b: (a.append(1), t + len(b))[1], (x, [1], [1]), (x, *[[1]] * 2), "a", "is none of b", "that it is b", "pass a copy",
        "a.append(1)",
    ),
    "overlapping memory": (
        "storage_aliasing", lambda t, a, b: (a.add_(1), b + t)[1], (x, torch.ones(2, 3), torch.ones(2, 3)),
        (x, *[torch.ones(2, 3)] * 2), None, "shares its memory", "that they share memory otherwise", "pass clones", None,
    ),
    "overlapping arrays": (
        "storage_aliasing", lambda t, a, b: (a.__iadd__(1), t + b.sum())[1], (x, numpy.ones(3), numpy.ones(3)), (x, *[numpy.ones(6)[:3]] * 2), None,
        "shares its memory", "that they share memory otherwise", "pass clones", None,
    ),
    "an iterator": (
        "is_present", lambda t, i: t + next(i, 0), (x, iter([1, 2])), (x, iter([])), None, "is there", "missing", "set it on every call", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_log_says_which_guard_where_and_what_to_do(told, name):
    leaf, f, first, second, source, expected, found, hint, marked = CASES[name]
    compiled = eager(f)
    compiled(*first)
    assert told() == ""
    compiled(*second)
    text = told()
    title, _, rest = text.partition("\n")
    assert title == "recompiling <lambda>: no entry fits; this makes entry 1"
    entry = next(entry for entry in compiled.entries if entry.spec.origin.number == 0)
    [guard] = {guard.leaf for guard in entry.spec.guards if guard.leaf == leaf}
    TOLD[guard] = text
    match = re.match(r"entry 0: (.*?): expected that it (.*?); found (.*?)(?:, needed here:|)\n", rest)
    assert match, text
    assert source in (None, match[1]) and expected in match[2] and found in match[3] and hint in rest.split("to avoid it: ")[1], text
    if leaf == "storage_aliasing":
        return  # the backend asked for it
    assert re.fullmatch(rf'  File "{re.escape(__file__)}", line \d+, in <lambda>', rest.splitlines()[1]), text
    if marked is not None:
        code, carets = rest.splitlines()[2:4]
        assert set(carets.strip()) == {"^"}
        assert code[carets.index("^") : carets.rindex("^") + 1].startswith(marked), text


def test_the_log_says_which_dimensions_changed(told):
    f = eager(lambda t, n: t + n)
    f(torch.ones(8, 3), 1)
    f(torch.ones(9, 3), 1)
    assert "found size [9, 3] (t.size(0): 8 -> 9), needed here:" in told()
    f(torch.ones(7, 3), 1)
    text = told()
    assert "entries 0, 1: t: expected that it is a Tensor([8, 3], strides (3, 1), torch.float32, cpu) or is a Tensor([9, 3]," in text
    assert "found size [7, 3] (t.size(0): 8 or 9 -> 7), needed here:" in text
    f(torch.ones(3, 8).t(), 1)
    assert "(t.stride(0): 3 -> 1, t.stride(1): 1 -> 8), needed here:" in told()
    causes = {entry.spec.origin.number: entry.spec.origin.cause for entry in f.entries}
    assert [tuple(number) for number in causes[1].numbers] == [("size", 0, 8, 9)] and causes[1] == causes[2]


def test_the_log_tells_of_modes_and_settings(told):
    f = eager(lambda t: t + 1)
    f(x)
    with torch.no_grad():
        f(x)
    text = told()
    assert "entry 0: torch's global state: expected that it has grad mode True; found grad mode False\n" in text
    assert "each combination is compiled once" in text
    with torch.autocast("cpu", torch.bfloat16):
        f(x)
    text = told()
    assert "entry 0: torch's global state: expected that it has autocast (); found autocast (('cpu', torch.bfloat16)" in text
    assert "entry 1: torch's global state: expected that it has grad mode False" in text and "keys" not in text
    TOLD["global_state"] = text


def test_the_log_tells_of_globals_closures_and_defaults(told, monkeypatch):
    f = eager(lambda t: t if SETTING == "a" else -t)
    f(x)
    monkeypatch.setitem(globals(), "SETTING", "b")
    f(x)
    assert "entry 0: SETTING: expected that it == 'a'; found 'b', needed here:" in told()
    cell = 1

    def set_cell(value):
        nonlocal cell
        cell = value

    g = eager(lambda t, n=3: t * cell)
    g(x), set_cell(2), g(x)
    assert "cell" in told()
    m = eager(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)))
    m(x), m.eval(), m(x)
    text = told()
    assert text.startswith("recompiling the module Sequential: ") and "training: expected that it == True; found False" in text
    assert "train() and eval() are compiled once each" in text


def test_the_log_tells_of_hooks_by_their_number(told):
    module = nn.Linear(3, 3)
    module.register_forward_hook(lambda module, args, output: output * 2)
    f = eager(module)
    f(x)
    module.register_forward_hook(lambda module, args, output: output + 1)
    f(x)
    text = told()
    assert "expected that it has 1 item, in the order in which they came in; found so many: 2" in text and "register hooks before the first call" in text
    TOLD["in_order_of_dict"] = text


@pytest.mark.skipif(not READABLE, reason="suspended frames can't be read")
def test_generators_that_wait_elsewhere_or_have_ended(told):
    def numbers():
        yield 1
        yield 2

    f = eager(lambda t, g: t + next(g, 0))
    generator = numbers()
    next(generator)
    f(x, generator)
    assert told() == ""
    f(x, numbers())
    line = numbers.__code__.co_firstlineno
    text = told()
    assert f"g: expected that it is a generator of {numbers.__qualname__}() that waits in line {line + 1}; found a generator of" in text, text
    assert "use it up, inside the compiled function" in text
    TOLD["suspended_at"] = text
    list(generator)
    ended = eager(lambda t, g: t + next(g, 0))
    ended(x, generator)
    ended(x, numbers())
    text = told()
    assert "g: expected that it is a generator that has ended; found" in text and "make a new generator for each call" in text, text
    TOLD["has_ended"] = text


def test_a_view_that_has_other_memory_than_its_base(told):
    f = framejit.compile(lambda one, other: (one.add_(1), other * 2)[1], backend="aot_eager")
    base = torch.zeros(4)
    views = base[:3], base[1:]
    f(*views)
    told()
    base.data = torch.zeros(4)
    f(*views)
    text = told()
    expected = "expected that it has the memory of the tensor that it is a view of; found a view that has other memory than its base"
    assert expected in text and "don't assign to .data" in text, text
    TOLD["lies_in_base"] = text


class Number:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return hash(self.n)

    def __eq__(self, other):
        return self.n == other.n


def test_a_key_that_was_put_in_with_another_hash(told):
    f = eager(lambda t, d, key: t * d.get(key, 5))
    changed, key = Number(1), Number(2)
    given = {changed: 3}
    changed.n = 2
    f(x, {key: 3}, key)
    assert told() == ""
    assert torch.equal(f(x, given, changed), x * 5)
    text = told()
    assert "d: expected that it has keys whose hashes are still those with which they were put in; found a dict" in text, text
    assert "leave objects as they are while they are keys" in text
    TOLD["stored_hashes"] = text


def test_a_set_whose_copy_has_another_order(told):
    objects = [Thing(n=1) for _ in range(1000)]

    def with_the_rest_taken_out(*kept):
        found = set(objects)
        for obj in objects:
            if obj not in kept:
                found.remove(obj)
        return found

    f = eager(lambda t, s: [t * obj.n for obj in s.copy()])
    f(x, {objects[0], objects[1]})
    told()
    large = (with_the_rest_taken_out(*objects[i : i + 2]) for i in range(2, 200))
    f(x, next(each for each in large if list(each) != list(each.copy())))
    text = told()
    assert "s: expected that it has elements in such an order that a copy goes through them in the same order" in text, text
    assert "keep the objects in a list" in text
    TOLD["order_of_copy"] = text


def test_every_kind_of_guard_is_told_of():
    if len(TOLD) >= 10:  # the tests above have run
        of_generators = set() if READABLE else {"suspended_at", "has_ended"}
        assert set(kinds_of_guards()) == {*TOLD, *of_generators, "shapes_hold"}  # for that, see tests/guards/test_shape_guards.py


def test_entries_that_fail_alike_are_told_of_together(told):
    f = eager(lambda t, n: t * n)
    for n in range(4):
        told()
        f(x, n)
    text = told()
    assert text.splitlines()[1] == "entries 0, 1, 2: n: expected that it == 0 or == 1 or == 2; found 3, needed here:"
    f(x.double(), 1)
    text = told()
    assert re.search(r"entr\w+ [0-3, ]*1[0-3, ]*: t: expected that it is a Tensor.*; found dtype torch.float64", text), text


def test_more_tells_of_all_failing_guards(told):
    f = eager(lambda t, n: t * n)
    f(x, 1)
    framejit.set_logs("+recompiles")
    f(x.double(), 2)
    text = told()
    assert "entry 0: n: expected that it == 1; found 2" in text and "entry 0: t: expected" in text


class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, t):
        return t * self.factor


def test_the_log_tells_why_a_module_does_not_share(told):
    blocks = [eager(Scaled(factor)) for factor in (1, 1, 2)]
    assert all(torch.equal(block(x), x * block.factor) for block in blocks)
    text = told()
    assert "compiling the module Scaled: nothing compiled for others of its kind fits; this makes entry 1" in text
    assert "self.factor: expected that it == 1; found 2" in text and framejit.statistics()["recompiles"] == 0
    functions = [eager(closure(n)) for n in (1, 1, 2)]
    for f in functions:
        f(x)
    assert told() == ""
    framejit.set_logs("+recompiles")
    eager(closure(3))(x)
    text = told()
    assert text.startswith("compiling closure.<locals>.<lambda>: nothing compiled for others") and "n: expected that it == 2 or == 1; found 3" in text


def test_a_numbers_way_through_inlined_functions(told):
    def inner(t, n):
        return t + n  # looked at here

    f = eager(lambda t, o: inner(t, o.count))
    f(x, SimpleNamespace(count=1)), f(x, SimpleNamespace(count=2))
    text = told()
    assert "o.count: expected that it == 1; found 2" in text and "in test_a_numbers_way_through_inlined_functions.<locals>.inner" in text
    assert "return t + n  # looked at here" in text


# ---- limits ----


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_one_message_when_the_limit_is_reached(caplog):
    f, line = eager(lambda t, n: t * n, recompile_limit=3), sys._getframe().f_lineno
    for n in range(10):
        assert torch.equal(f(x, n), x * n)
    assert len(f.entries) == 3
    [message] = warnings_of(caplog)
    assert "has reached recompile_limit (3); what is changing: n: expected that it == 2; found 3" in message
    assert f"({__file__}:{line})" in message and "\n" not in message and "What to do: Pass it as a tensor" in message
    [reason] = framejit.statistics()["reasons"]
    assert reason.startswith("FJ019")


def test_the_entry_made_last_shows_what_is_changing(caplog):
    """The search for an entry begins with the one that served a call last."""
    f = eager(lambda t, n: t * n, recompile_limit=3)
    for n in (0, 1, 2, 0, 3):
        f(x, n)
    assert "n: expected that it == 2; found 3" in warnings_of(caplog)[0]


def test_a_limit_is_reached_once_for_each_function(caplog):
    def other(t, n):
        return t + n

    for f in (eager(lambda t, n: t * n, recompile_limit=1), eager(other, recompile_limit=1)):
        for n in range(3):
            f(x, n)
    assert len(warnings_of(caplog)) == 2


def test_the_limit_of_one_cause_leaves_room_for_others(caplog):
    with config.replace(cause_limit=3):
        f = eager(lambda t, n, flag: t * n if flag else t + n)
    for n in range(6):
        assert torch.equal(f(x, n, True), x * n)
    assert len(f.entries) == 3
    [message] = warnings_of(caplog)
    assert "has reached cause_limit (3); what is changing: n: expected" in message
    assert torch.equal(f(x, 1, False), x + 1) and torch.equal(f(x.double(), 1, False), x.double() + 1)
    assert len(f.entries) == 5 and len(warnings_of(caplog)) == 1
    for n in range(6):
        assert torch.equal(f(x, n, True), x * n) and torch.equal(f(x, n, False), x + n)
    assert len(f.entries) <= config.current().recompile_limit


def test_limits_are_for_each_module(caplog):
    """A decorated method is one function for all modules; each has the room that it would have alone."""

    class Decorated(Scaled):
        forward = eager(Scaled.forward)

    for n in range(20):
        module = Decorated(n)
        keep = [module]
        assert torch.equal(module(x), x * n)
        assert torch.equal(module(x.double()), x.double() * n)
        TOLD_MODULES.append(keep)
    assert len(Decorated.forward.entries) == 40 and not warnings_of(caplog)
    assert framejit.statistics()["recompiles"] == 20
    for n in range(10):
        module.factor = 100 + n
        assert torch.equal(module(x), x * module.factor)
    assert len(warnings_of(caplog)) == 1 and len(Decorated.forward.entries) == 46
    TOLD_MODULES.clear()


TOLD_MODULES: list[list[nn.Module]] = []


def test_the_limit_of_all_modules_together(caplog):
    with config.replace(accumulated_recompile_limit=5):
        blocks = [eager(Scaled(n)) for n in range(8)]
    for block in blocks:
        assert torch.equal(block(x), x * block.factor)
    assert len(type(blocks[0]).__call__.entries) == 5
    messages = warnings_of(caplog)
    assert len(messages) == 1 and "the module Scaled has reached accumulated_recompile_limit (5)" in messages[0]
    assert "self.factor: expected that it == 4; found 5" in messages[0]


def test_graph_breaks_of_many_modules_do_not_share_a_limit(caplog):
    class Talking(Scaled):
        def forward(self, t):
            framejit.graph_break()
            return t * self.factor

    blocks = [eager(Talking(n)) for n in range(12)]
    for _ in range(2):
        for block in blocks:
            assert torch.equal(block(x), x * block.factor)
    assert not warnings_of(caplog) and framejit.statistics()["fallbacks"] == 0


def test_the_limit_in_a_whole_graph():
    f = eager(lambda t, n: t * n, recompile_limit=2, fullgraph=True)
    f(x, 1), f(x, 2)
    for _ in range(2):
        with pytest.raises(framejit.Unsupported, match=r"recompile_limit \(2\); what is changing: n"):
            f(x, 3)
    assert torch.equal(f(x, 1), x)


def test_failing_at_the_limit():
    with config.replace(fail_on_recompile_limit=True, recompile_limit=2):
        f = eager(lambda t, n: t * n)
    f(x, 1), f(x, 2)
    with pytest.raises(framejit.RecompileError, match=r"recompile_limit \(2\) is reached\nentries 0, 1: n: expected that it == 1 or == 2; found 3"):
        f(x, 3)
    assert torch.equal(f(x, 2), x * 2)


def test_failing_on_recompile():
    with config.replace(fail_on_recompile=True):
        f = eager(lambda t, n: t * n)
        blocks = [eager(Scaled(n)) for n in (1, 1, 2)]
    assert torch.equal(f(x, 2), x * 2) and torch.equal(f(x, 2), x * 2)
    with pytest.raises(framejit.RecompileError, match="would have to be compiled again, and the option fail_on_recompile is set") as caught:
        f(x, 3)
    assert f'File "{__file__}"' in str(caught.value) and caught.value.function.endswith("<lambda>")
    [failure] = caught.value.failures
    assert (failure.source, failure.expected, failure.found) == ("n", "== 2", "3") and failure.line.filename == __file__
    assert all(torch.equal(block(x), x * block.factor) for block in blocks)  # another module's first compilation is none of this one's
    blocks[0].factor = 5
    with pytest.raises(framejit.RecompileError, match=r"self.factor: expected that it == 1; found 5"):
        blocks[0](x)


def test_failing_on_recompile_from_outside():
    f = eager(lambda t, n: t * n)
    f(x, 1)
    with config.replace(fail_on_recompile=True), pytest.raises(framejit.RecompileError):
        f(x, 2)
    assert torch.equal(f(x, 2), x * 2)


@pytest.mark.parametrize("limit", [0, -1, "8", 2.0, True])
def test_a_wrong_limit(limit):
    with pytest.raises(framejit.ConfigError, match="recompile_limit"):
        framejit.compile(lambda t: t, recompile_limit=limit)


def test_reset_begins_counting_anew(caplog):
    with config.replace(cause_limit=2):
        f = eager(lambda t, n: t * n)
    for _ in range(2):
        for n in range(4):
            f(x, n)
        assert len(f.entries) == 2
        framejit.reset()
    assert len(warnings_of(caplog)) == 2


def test_what_was_for_a_module_that_is_gone_does_not_count(caplog):
    class Kept(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weights = nn.ParameterList(nn.Parameter(torch.ones(3)) for _ in range(n))

        @framejit.compile(backend="eager", recompile_limit=2)
        def forward(self, t):
            return sum(self.weights, t)

    for n in range(1, 8):
        module = Kept(n)
        assert torch.equal(module(x), x + n)
        gone = weakref.ref(module)
        del module
    assert gone() is None and not warnings_of(caplog)


def test_ordered_dicts_and_order(told):
    f = eager(lambda t, d: [t * value for value in d.values()][0])
    f(x, OrderedDict(a=1, b=2)), f(x, OrderedDict(b=2, a=1))
    assert "d: expected that it has the keys ['a', 'b']; found keys 'b', 'a'" in told()


def test_behind_a_break_variables_have_their_names(told):
    def inner(t, scale):
        framejit.graph_break("inside")
        return t * scale

    def f(t, k, settings):
        t = t + 1
        framejit.graph_break("outside")
        if settings["mode"] == "a":
            t = t * k
        return inner(t, k) * 2

    compiled = framejit.compile(f, backend="eager")
    compiled(torch.ones(2), 1, {"mode": "a"})
    told()
    compiled(torch.ones(2), 2, {"mode": "a"})
    text = told()
    assert "entry 0: k: expected that it == 1; found 2" in text and "entry 0: scale: expected that it == 1; found 2" in text
    name, first = f.__qualname__, f.__code__.co_firstlineno
    assert f"recompiling {program_name(name)} from line {first + 2} on: no entry fits" in text.replace(name, program_name(name))
    assert f"f, from line {inner.__code__.co_firstlineno + 1} of {inner.__qualname__} on: no entry fits; this makes entry 1" in text
    compiled(torch.ones(2), 2, {"mode": "b"})
    assert "settings['mode']: expected that it == 'a'; found 'b'" in told()


def test_variables_of_one_name_in_two_functions_are_told_apart(told):
    def inner(t, k):
        framejit.graph_break()
        return t * k.scale

    def f(t, k, other):
        return inner(t, other) * k.scale

    compiled = framejit.compile(f, backend="eager")
    compiled(x, Thing(scale=1), Thing(scale=2)), compiled(x, Thing(scale=1), Thing(scale=3))
    assert "entry 0: inner's k.scale: expected that it == 2; found 3, needed here:" in told()
    compiled(x, Thing(scale=4), Thing(scale=3))
    assert ": k.scale: expected that it == 1; found 4, needed here:" in told()


class Talking(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.n = nn.Parameter(torch.ones(3)), 1

    def forward(self, first, *rest, scale=1, **options):
        y = first * self.weight * scale
        framejit.graph_break()
        return y * self.n + sum(rest) + options.get("bias", 0)


def test_arguments_of_a_module_have_the_names_that_forward_gives_them(told):
    module = Talking()
    compiled = eager(module)
    compiled(x, 1, scale=2, bias=5)
    told()
    for args, options, source in [
        ((x[:1], 1), {"scale": 2, "bias": 5}, "first"),
        ((x, 1), {"scale": 3, "bias": 5}, "scale"),
        ((x, 7), {"scale": 2, "bias": 5}, "rest[0]"),
        ((x, 7), {"scale": 2, "bias": 6}, "options['bias']"),
    ]:  # fmt: skip
        assert torch.equal(compiled(*args, **options), module(*args, **options))
        assert re.search(rf": {re.escape(source)}: expected that it ", text := told()), text


def test_what_is_compiled_again_of_a_module_is_named_with_its_line(told):
    module = Talking()
    compiled = eager(module)
    compiled(x)
    module.n = 2
    compiled(x)
    text = told()
    line = Talking.forward.__code__.co_firstlineno + 2
    assert text.startswith(f"recompiling the module Talking, from line {line} of Talking.forward on: no entry fits; this makes entry 1"), text
    assert "entry 0: self.n: expected that it == 1; found 2" in text


class Scale:
    def __init__(self, n):
        self.n = n

    def times(self, t):
        return t * self.n


Pair = namedtuple("Pair", "first second")
scale = Scale(1)


def talks(t):
    framejit.graph_break()
    return t


def times_global(t):
    return scale.times(talks(t))


def times_argument(t, other):
    return other.times(talks(t))


def adds(t):
    return t.add(talks(t))


def in_a_loop(t, numbers):
    for n in numbers:
        t = t * n
        framejit.graph_break()
    return t


class Announced:
    """Its instances split the graph while they are made."""

    def __init__(self):
        framejit.graph_break()
        self.two = 2


def beside_a_new_object(t, other):
    return t * (other.n * Announced().two)


NAMED = {
    # the function, the first call's arguments, the second one's, what the log calls that which has changed
    "a bound method": (lambda t, f: f(t), lambda: (x, Scale(1).times), lambda: (x, Scale(2).times), "f's self.n"),
    "a bound method of a tensor": (lambda t, f: f(t), lambda: (x, x.add), lambda: (x, x.double().add), "f's self"),
    "a method whose call a break interrupts": (times_argument, lambda: (x, Scale(1)), lambda: (x, Scale(2)), "other.n"),
    "an operand while another's `__init__` runs": (beside_a_new_object, lambda: (x, Scale(1)), lambda: (x, Scale(2)), "other.n"),
    "a global's method": (times_global, lambda: (setattr(scale, "n", 1), (x,))[1], lambda: (setattr(scale, "n", 2), (x,))[1], "scale.n"),
    "a tensor's method": (adds, lambda: (x,), lambda: (x.double(),), "t"),
    "a field of a named tuple": (lambda p: p.first * p.second, lambda: (Pair(x, 1),), lambda: (Pair(x, 2),), "p.second"),
    "an item of an iterator": (lambda t, i: t * next(i), lambda: (x, iter([1])), lambda: (x, iter([2])), "next(i)"),
    "a later item of an iterator": (lambda t, i: t * (next(i) + next(i)), lambda: (x, iter([1, 2])), lambda: (x, iter([1, 3])), "list(i)[1]"),
    "an item of a loop": (in_a_loop, lambda: (x, [1, 1]), lambda: (x, [1, 2]), f"next(the loop in line {in_a_loop.__code__.co_firstlineno + 1})"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_things_are_called_what_the_program_calls_them(told, name):
    f, first, second, source = NAMED[name]
    compiled = eager(f)
    compiled(*first())
    told()
    assert torch.equal(compiled(*second()), f(*second()))
    text = told()
    assert f": {source}: expected that it " in text and "__self__" not in text and "a value in use" not in text, text


def test_the_line_of_the_program_comes_before_that_of_a_library(told):
    layer = nn.Linear(3, 3)

    def program(t):
        return layer(t)

    compiled = eager(program)
    compiled(x), compiled(x[:1])
    lines = [line.strip() for line in told().splitlines() if line.startswith("  File")]
    assert [line.rpartition(", in ")[2] for line in lines] == [program.__qualname__, "Linear.forward"]
    assert lines[0].startswith(f'File "{__file__}", line {program.__code__.co_firstlineno + 1},')


class Callable:
    def __init__(self):
        self.n = 1

    def __call__(self, t, k):
        return t * self.n * k


def test_objects_that_are_called_and_partials_have_names(told):
    called = Callable()
    compiled = eager(called)
    compiled(x, 1), compiled(x, 2)
    text = told()
    assert text.startswith("recompiling Callable.__call__: no entry fits") and "entry 0: k: expected that it == 1; found 2" in text
    called.n = 2
    compiled(x, 2)
    assert ": self.n: expected that it == 1; found 2" in told()
    compiled = eager(functools.partial(Callable.__call__, called))
    compiled(x, 1), told(), compiled(x, 2)
    text = told()
    assert text.startswith("recompiling a partial of Callable.__call__: no entry fits") and ": k: expected that it == 1; found 2" in text


def test_state_that_an_optimizer_makes_needs_no_advice_on_lengths(told):
    module = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(module.parameters(), momentum=0.9)

    def step(t):
        optimizer.zero_grad()
        module(t).sum().backward()
        optimizer.step()

    compiled = eager(step)
    for _ in range(4):
        compiled(x)
    text = told()
    assert "entry 0: optimizer.state: expected that it has length 0; found length 2" in text
    assert "to avoid it: nothing needs to be done: an optimizer makes its state in its first step" in text and "number of items" not in text
    assert framejit.statistics()["recompiles"] == 1


@torch.no_grad()
def without_gradients(t, n):
    return t * n


def test_a_patched_forward_has_its_own_names(told):
    module = Scaled(2)
    original = module.forward

    @functools.wraps(original)
    def patched(*a, **k):
        return original(*a, **k)

    module.forward = patched
    compiled = eager(module)
    compiled(x), compiled(x.double())
    assert "entry 0: t: expected that it is a Tensor" in told()
    module = Scaled(2)
    module.forward = functools.partial(Scaled.forward, module)
    compiled = eager(module)
    compiled(x), told(), compiled(x.double())
    assert ": t: expected that it is a Tensor" in told()


def test_a_function_that_says_it_wraps_itself_is_compiled():
    """Looking for the names of its parameters went round for ever."""

    def forward(x):
        return x + 1

    forward.__wrapped__ = forward
    model = nn.Linear(2, 2)
    model.forward = forward
    assert torch.equal(framejit.compile(model, backend="eager")(torch.ones(2)), torch.full((2,), 2.0))


def test_a_function_that_torch_wraps_has_its_own_names(told):
    compiled = eager(without_gradients)
    compiled(x, 1), compiled(x, 2)
    assert "entry 0: n: expected that it == 1; found 2" in told()


def test_a_break_is_shown_once_and_numbered_when_it_is(caplog):
    def f(t):
        for i in range(4):
            t = t + i
            framejit.graph_break()
        return t * len(repr(t))

    framejit.set_logs("graph_breaks")
    compiled = framejit.compile(f, backend="eager")
    compiled(torch.ones(2)), compiled(torch.ones(2))
    shown = [record.getMessage() for record in caplog.records if record.getMessage().startswith("graph break ")]
    first = int(shown[0].split()[2].rstrip(":"))
    assert [text.split()[2] for text in shown] == [f"{first}:", f"{first + 1}:"]
