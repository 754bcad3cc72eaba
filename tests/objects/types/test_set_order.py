"""The order in which sets are iterated and popped, which follows from the history of their tables."""

from __future__ import annotations

import enum
import linecache
import random

import pytest
import torch
from agreement import agree

import framejit


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2
    TOP = 3
    OVER = 64


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Kind:
    pass


class Tags(set):
    pass


class Fixed(frozenset):
    pass


def helper():
    pass


POOL = ["Level.LOW", "Level.TOP", "Level.OVER", "Colour.RED", "Colour.GREEN", "Kind", "int", "'a'", "'bc'", "(1, 'a')", "(Level.HIGH, 5)", "None",
        "frozenset([3, 11])", "2.5", "True", "b'x'", "len"]  # fmt: skip
NAMESPACE = {"Level": Level, "Colour": Colour, "Kind": Kind, "Tags": Tags, "Fixed": Fixed, "helper": helper}
MAKES = [
    "{{{0}}}", "set([{0}])", "set(({0},))", "frozenset([{0}])", "set(dict.fromkeys([{0}]))", "{{v for v in [{0}]}}", "{{*[{0}], *{{{1}}}}}",
    "Tags([{0}])", "Fixed([{0}])", "dict.fromkeys([{0}]).keys() | {{{1}}}", "[{0}] - dict.fromkeys([{1}]).keys()",
    "{{{0}}} - dict.fromkeys([{1}]).keys()", "dict.fromkeys([{0}]).keys() - {{{1}}}", "dict.fromkeys([{0}]).keys() & {{{1}}}",
    "dict.fromkeys([{0}]).items() ^ dict.fromkeys([{1}]).items()", "dict.fromkeys([{0}]).keys() ^ [{1}]",
]  # fmt: skip
RESULTS = [
    "{0} | {1}", "{0} & {1}", "{0} - {1}", "{0} ^ {1}", "{0}.union({1}, [{2}])", "{0}.intersection({1})", "{0}.intersection([{2}])", "{0}.difference({1})",
    "{0}.difference([{2}])", "{0}.symmetric_difference([{2}])", "{0}.copy()", "set({0})", "frozenset({0})", "Fixed({0})", "Tags({0})", "{0} | {0}",
    "{0} & {0}", "{0}.union({0})", "{0}.difference({1}, [{2}])", "set(list({0}))",
]  # fmt: skip
CHANGES = [
    "{0}.update({1})", "{0}.update([{2}])", "{0}.add({3})", "{0}.add({3})", "{0}.discard({3})", "{0}.discard({3})", "{0}.difference_update({1})",
    "{0}.difference_update([{2}])", "{0}.intersection_update({1}, [{2}])", "{0}.symmetric_difference_update([{2}])", "{0} |= {1}", "{0} -= {1}",
    "{0} &= {1}", "{0} ^= {1}", "{0}.clear()", "{0} |= {0}", "{0}.update(dict.fromkeys([{2}]))", "popped.append({0}.pop() if {0} else 0)",
    "popped.append({0}.pop() if {0} else 0)", "{0}.__init__([{2}])", "{0} &= {0}",
]  # fmt: skip


def elements(rng, count, mixed):
    picked = [str(number) for number in rng.sample(range(-3, 4 * count + 40), count)]
    if mixed:
        picked[: count // 2] = rng.sample(POOL, min(count // 2, len(POOL)))
        rng.shuffle(picked)
    return ", ".join(picked)


def program(seed):
    """The text of a random function of a list and a set from outside. It changes only sets."""
    rng = random.Random(seed)
    count, mixed = rng.choice([3, 4, 5, 6, 8, 12, 18, 19, 25, 30]), seed % 2 == 1
    lines = ["popped = []"]
    frozen = set()
    for name in "ab":
        make = rng.choice(MAKES)
        lines.append(f"{name} = {make.format(elements(rng, count, mixed), elements(rng, count // 2 + 1, mixed))}")
        frozen |= {name} if "rozen" in make or "Fixed" in make else set()
        if make.startswith("[") or "items" in make:
            lines[-1] = f"{name} = set({make.format(elements(rng, count, mixed), elements(rng, count // 2 + 1, mixed))})"
    names = ["a", "b", "outside"]
    for step in range(rng.randrange(2, 9)):
        target, other = rng.choice(names), rng.choice(names)
        few, one = elements(rng, count // 2 + 1, mixed), elements(rng, 2, False).split(",")[0]
        if rng.random() < 0.3 or target in frozen:
            name = f"r{step}"
            operation = rng.choice(RESULTS)
            lines.append(f"{name} = {operation.format(target, other, few)}")
            names.append(name)
            if operation.startswith(("frozen", "Fixed")) or (target in frozen and not operation.startswith(("set", "Tags"))):
                frozen.add(name)
        else:
            lines.append(rng.choice(CHANGES).format(target, other, few, one))
    looks = [f"{name}, list({name})" for name in names if name != "outside" or rng.random() < 0.5]
    if rng.random() < 0.5:
        lines.append("print('between')")
        lines += [f"{name}.add(1000), {name}.add(8)" for name in names if name not in frozen and rng.random() < 0.5]
    lines.append(f"return popped, {', '.join(looks)}")
    return "def f(outside):\n" + "".join(f"    {line}\n" for line in lines)


def built(text, name):
    filename = f"<set order {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace = dict(NAMESPACE)
    exec(compile(text, filename, "exec"), namespace)
    return namespace["f"]


def outside(seed):
    """A set with a history of its own."""
    rng = random.Random(seed)
    made = set(rng.sample(range(90), rng.choice([1, 4, 7, 19])))
    for number in rng.sample(range(90), 10):
        made.discard(number)
        if rng.random() < 0.4:
            made.add(number + 1)
    return made


def shown(value):
    """Text that tells order: of sets what iterating gives, and what they give after more steps, which the rest of their tables decides."""
    if isinstance(value, (set, frozenset)):
        text = [type(value).__name__, [shown(item) for item in value]]
        if isinstance(value, set):
            for number in range(200, 206):
                value.add(number)
            text += [[value.pop(), [shown(item) for item in value]] for _ in range(3)]
        return repr(text)
    if isinstance(value, (list, tuple)):
        return repr([type(value).__name__, *map(shown, value)])
    return repr(value)


@pytest.mark.parametrize("seed", range(100))
def test_random_histories(seed, capsys):
    text = program(seed)
    f = built(text, seed)
    runs = []
    for run in (f, framejit.compile(f, backend="eager")):
        given = outside(seed)
        try:
            result = run(given)
        except TypeError as error:
            result = repr(error)
        runs.append((shown(result), shown(given), capsys.readouterr().out))
    assert runs[0] == runs[1], text


def agree_in_order(f, *args):
    expected, got = f(*args), framejit.compile(f, backend="eager", fullgraph=True)(*args)
    assert shown(expected) == shown(got)


def worklist(numbers):
    work, seen, order = set(numbers), set(), []
    while work:
        number = work.pop()
        order.append(number)
        seen.add(number)
        for near in (number * 3 % 701, number + 64):
            if near not in seen and near < 700:
                work.add(near)
    return order, seen


def test_a_work_list_is_popped_in_order():
    agree_in_order(worklist, [5, 17, 300])


def nested(numbers):
    made = set(numbers)
    for number in range(300):
        made = {number * 7} | made
        made.discard(number * 5)
    return made, list(made)


def test_sets_made_of_sets_many_times():
    agree_in_order(nested, [9, 1, 17])


def texts(numbers):
    frozen = frozenset(numbers)
    return f"{set(numbers)}", repr((frozen, 1)), str({frozen: 2}), list(set(numbers) | frozen)


def test_the_text_of_sets():
    agree_in_order(texts, [9, 1, 17, 33, 65])


def changed(given):
    given.add(100)
    return list(given), given.pop(), given


def test_a_set_from_outside_that_has_changed_is_iterated_natively():
    compiled = framejit.compile(changed, backend="eager")
    for seed in range(20):
        assert shown(changed(outside(seed))) == shown(compiled(outside(seed)))


def popped(given):
    return given.pop(), len(given)


def test_what_was_popped_before_decides_where_pop_begins():
    compiled = framejit.compile(popped, backend="eager")
    for times in (0, 1):
        runs = []
        for run in (popped, compiled):
            given = {1, 2, 3, 4}
            for _ in range(times):
                given.add(given.pop())
            runs.append((run(given), shown(given)))
        assert runs[0] == runs[1]


@pytest.mark.parametrize("others", [{1, 2, 3, 9}, {1, 2, 9}, {3, 40, 50}, {8}, set()], ids=str)
def test_differences_with_a_set_from_outside_that_has_been_changed(others):
    def program(x, seen, others):
        seen.add(9)
        left, right = seen.difference(others), others - seen
        found = x + 1, bool(left), list(right), list(others.difference(seen)), len(seen - others), not (left or right)
        if len(left) < 2:
            left |= {64, 8, 16}
            return *found, list(left)
        return found

    for items in ({1, 2, 3}, set(range(40)), {16, 8, 0}):
        framejit.reset()
        agree(program, torch.ones(2), items, others, fullgraph=False)


def test_a_set_from_outside_that_has_been_changed_is_compared_with_another_in_the_trace():
    def program(x, seen):
        seen.add(9)
        return x + 1, not (seen.difference({1, 9}) or {1, 9}.difference(seen))

    framejit.reset()
    agree(program, torch.ones(2), {1})
    assert framejit.statistics()["graph_breaks"] == 0
