"""Programs with graph breaks in the statements that do something outside: `match`, `class`, `import`, files, locks, stores; for test_resume.py."""

from __future__ import annotations

import array
import dataclasses
import decimal
import enum
import io
import logging
import os
import sys
import tempfile
import threading
import warnings
from typing import Any, NamedTuple

import torch
from resume_programs import case, helper

# match.


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


@case()
def match_sequence(x):
    match (x, 2, [3, 4, 5]):
        case [a, b]:
            x = a
        case (a, 2, [c, *rest]) if print("guard", rest) is None:
            print(rest)
            x = a * c + len(rest)
    return x + 1


@case()
def match_mapping(x):
    match {"op": "mul", "by": x, "z": 1}:
        case {"op": "add", "by": n}:
            x = x + n
        case {"op": "mul", "by": n, **rest}:
            print(sorted(rest))
            x = x * n
    return x + 1


@case()
def match_class(x):
    match Point(helper(x), 3):
        case Point(a, 4):
            x = a
        case Point(a, b=3) if a.sum().item() > 2:
            print("point")
            x = a * 3
    match helper(x).sum().item():
        case int(n):
            x = x - n
        case float(n) | str(n):
            x = x + n
    return x * 2


@case()
def match_on_data(x):
    match [x.sum().item(), x]:
        case [float(n), y] if n > 100:
            x = x + 1
        case [6.0 as n, y]:
            x = y * n
    return x


@case()
def match_raises(x):
    y = x + 1
    try:
        match Point(1, 2):
            case Point(1, 2, z):
                y = y * z
    except TypeError as error:
        print(error)
        y = y * 2
    return y - 1


# class.


class Announces(type):
    def __new__(mcs, name, bases, namespace, **keywords):
        print("make", name, sorted(keywords))
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, name, bases, namespace, **keywords):
        super().__init__(name, bases, namespace)

    def __setattr__(cls, name, value):
        print("class attribute", name)
        super().__setattr__(name, value)


class Watched(metaclass=Announces):
    count = 0


@case()
def class_with_closure(x):
    n = 4

    class Outer:
        k = n

        def scaled(self):
            return x * n

        class Inner:
            q = 2

    y = Outer().scaled() + Outer.k + Outer.Inner.q
    print(Outer.__qualname__, Outer.Inner.__qualname__)
    return y * 2


@case()
def class_with_super(x):
    class Parent:
        def method(self, y):
            print("parent")
            return y + 1

    class Child(Parent, metaclass=Announces, option=1):
        def method(self, y):
            y = super().method(y * 2)
            return super(Child, self).method(y) * 3

    return Child().method(x) - 1


@case()
def class_made_by_decorators(x):
    def announced(cls):
        print("decorate", cls.__name__)
        return cls

    @announced
    @dataclasses.dataclass
    class Data:
        size: int = 3

    class Color(enum.Enum):
        RED = 2

    class Pair(NamedTuple):
        first: int
        second: int = 5

    return x * Data().size + Color.RED.value + sum(Pair(1))


@case()
def class_body_raises(x):
    y = x + 1
    try:

        class Broken:
            print("in the body")
            size = 1 // 0
    except ZeroDivisionError as error:
        print(error)
        y = y * 2
    return y - 1


# Managers that can't be traced.

LOCK = threading.Lock()


@case()
def with_lock(x):
    x = x + 1
    with LOCK:
        x = helper(x) * 2
        print(LOCK.locked())
    return x - 1, LOCK.locked()


@case()
def with_lock_raises(x):
    try:
        with LOCK:
            x = x * 2
            int("a")
    except ValueError as error:
        print(error, LOCK.locked())
        x = x + 1
    return x * 3


@case()
def with_file(x):
    x = x + 1
    with tempfile.TemporaryFile("w+") as file, LOCK:
        x = x * 2
        file.write("one\ntwo\n")
        file.seek(0)
        for line in file:
            x = x + len(line)
            print(line.strip(), file.closed)
    return x - int(file.closed)


@case()
def with_folder(x):
    with tempfile.TemporaryDirectory() as folder:
        x = x * 2
        with open(os.path.join(folder, "a"), "w") as file:
            print("text", file=file)
        x = x + len(os.listdir(folder))
    return x - int(os.path.exists(folder))


@case()
def with_decimal_context(x):
    with decimal.localcontext() as context:
        x = x * 2
        context.prec = 5
        x = x + float(decimal.Decimal(1) / 3)
    return x * 2


@case()
def with_recorded_warnings(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        x = x + 1
        warnings.warn("careful", UserWarning, stacklevel=1)
        x = x * len(seen)
    return x * 2, [str(each.message) for each in seen]


@case()
def with_record_function(x):
    with torch.profiler.record_function("part"):
        x = helper(x)
    return x * 2


# import, input, logging.


@case()
def import_that_fails(x):
    x = x + 1
    try:
        import not_there_at_all  # noqa: F401
    except ImportError as error:
        print(error, error.name)
        x = x * 2
    try:
        from math import not_there_either  # noqa: F401
    except ImportError as error:
        print(error)
    return x - 1


@case()
def reads_input(x):
    x = x + 1
    before, sys.stdin = sys.stdin, io.StringIO("5\n")
    try:
        x = x * int(input("number? "))
    finally:
        sys.stdin = before
    return x - 1


@case()
def logs_messages(x):
    log, out = logging.getLogger("resume_programs"), io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(funcName)s:%(lineno)d %(message)s"))
    log.addHandler(handler)
    try:
        x = x + 1
        log.warning("value %s", 3)
        x = x * 2
        log.debug("nothing")
    finally:
        log.removeHandler(handler)
    return x - 1, out.getvalue()


# Stores.

NUMBERS = array.array("d", [1.0, 2.0, 3.0])


@case()
def stores_to_an_array(x):
    x = x + 1
    NUMBERS[0] = 3.0
    x = x * 2
    NUMBERS[1] = x.sum().item()
    del NUMBERS[2]
    NUMBERS.append(2.0)
    return x + NUMBERS[0], NUMBERS.tolist()


@case()
def stores_to_a_watched_class(x):
    x = x + 1
    Watched.count = 3
    x = x * Watched.count
    Watched.count += 1
    return x, Watched.count


@case()
def stores_to_the_environment(x):
    x = x + 1
    os.environ["FRAMEJIT_TEST"] = "abc"
    x = x * len(os.environ["FRAMEJIT_TEST"])
    del os.environ["FRAMEJIT_TEST"]
    return x, os.environ.get("FRAMEJIT_TEST")


@case()
def runs_text(x):
    names = {}
    x = x + 1
    exec("size = 3", names)
    return x * names["size"] + eval("x").sum()
