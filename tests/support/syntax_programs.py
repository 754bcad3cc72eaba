"""Programs in the syntax of newer Pythons, and others whose bytecode differs between Pythons, with breaks in every place. `KNOWN` are those of this Python."""

from __future__ import annotations

import textwrap
from typing import Any

import torch

PROGRAMS = {
    "keywords_with_a_break_among_them": """
        def f(x):
            def g(*args, **kwargs):
                return args, kwargs
            return g(x + 1, a=x * 2, b=print("broken"), c=x.sum()), g(1, *[x], z=2, **{"y": x})
        """,
    "a_keyword_given_twice": """
        def f(x):
            def g(**kwargs):
                return kwargs
            return g(**{"a": x}, **{"a": print("broken")})
        """,
    "comparisons_that_give_no_bool": """
        class Box:
            def __init__(self, x):
                self.x = x
            def __lt__(self, other):
                print("compared")
                return [] if self.x.shape[0] > 5 else [self.x]
            def __eq__(self, other):
                print("compared")
                return self.x.sum() > 0
        def f(x):
            found = []
            if Box(x) < Box(x):
                found.append(x + 1)
            while not (Box(x) == 3):
                return found
            return found, Box(x) < 1, not Box(x) < 1
        """,
    "a_truth_value_that_breaks": """
        class Box:
            def __bool__(self):
                print("asked")
                return True
        def f(x):
            a = Box() and x + 1
            b = Box() or x
            return a, type(b), not Box(), [1] if Box() else [2]
        """,
    "a_property_that_is_called": """
        class Box:
            @property
            def method(self):
                print("looked up")
                return lambda x: x + 1
            def __getattr__(self, name):
                print("not found")
                return lambda x: x * 2
        def f(x):
            box = Box()
            return box.method(x.sin()) + box.other(x), box.method
        """,
    "a_property_that_is_called_in_a_handler": """
        class Box:
            @property
            def method(self):
                print("looked up")
                raise ValueError("none")
        def f(x):
            y = x + 1
            try:
                y = Box().method(y)
            except ValueError as error:
                y = y + 2
                print(error)
            return y
        """,
    "super_and_its_methods": """
        class Base:
            def go(self, x):
                print("base")
                return x + 1
        class Child(Base):
            def go(self, x):
                return super().go(x * 2) + super(Child, self).go(x)
        def f(x):
            return Child().go(x)
        """,
    "blocks_left_in_every_way": """
        class Block:
            def __init__(self, swallows):
                self.swallows = swallows
            def __enter__(self):
                print("entered")
                return self.swallows
            def __exit__(self, cls, error, traceback):
                print("left", cls, error, traceback is None)
                return self.swallows
        def f(x):
            with Block(False) as a, Block(True) as b:
                x = x + a + b
                print("inside")
                raise ValueError("swallowed")
            for n in range(3):
                with Block(True):
                    if n == 1:
                        break
                    x = x * 2
            with Block(False), torch.no_grad():
                print("inside")
                return x.sin(), torch.is_grad_enabled()
        """,
    "a_block_of_native_code": """
        import threading
        def f(x):
            lock = threading.Lock()
            with lock:
                x = x + lock.locked()
                print("inside", lock.locked())
            try:
                with lock:
                    x = x * 2
                    raise ValueError(lock.locked())
            except ValueError as error:
                print(error, lock.locked())
            return x
        """,
    "what_is_no_block": """
        class OnlyExit:
            def __exit__(self, *args): pass
        class Async:
            async def __aenter__(self): pass
            async def __aexit__(self, *args): pass
        def f(x):
            found = []
            for each in (3, OnlyExit(), Async()):
                try:
                    with each:
                        x = x + 1
                except (TypeError, AttributeError) as error:
                    found.append(str(error))
            return x, found
        """,
    "loops_with_breaks_in_them": """
        def f(x):
            seen = []
            for i, y in enumerate([x, x + 1, x + 2]):
                for j in "abc":
                    if j == "b":
                        continue
                    print(i, j)
                    if i == 1:
                        break
                else:
                    seen.append(y)
            items = [1, 2, 3]
            for item in items:
                if len(items) < 6:
                    items.append(item * 2)
                print(item)
            return x, seen, items, [print(k) or x + k for k in (1, 2)], {k: print(k) for k in [3, 4]}, {print(k) for k in [5]}
        """,
    "an_iterator_that_breaks": """
        class Counting:
            def __init__(self, n):
                self.n = n
            def __iter__(self):
                print("iter")
                return self
            def __next__(self):
                print("next")
                self.n -= 1
                if self.n < 0:
                    raise StopIteration
                return self.n
        def f(x):
            total = x
            for n in Counting(3):
                total = total + n
            try:
                for n in 5:
                    pass
            except TypeError as error:
                print(error)
            return total, [n for n in Counting(2)], list(Counting(1))
        """,
    "generators_and_what_they_delegate_to": """
        def inner(x):
            got = yield x + 1
            print("got", got is None)
            yield from [x, x * 2]
            return x.sum()
        def outer(x):
            total = yield from inner(x)
            yield total
        def f(x):
            found = []
            for y in outer(x):
                found.append(y)
                print(len(found))
            generator = outer(x)
            first = next(generator)
            print("between")
            try:
                generator.throw(ValueError("thrown"))
            except ValueError as error:
                print(error)
            other = outer(x)
            next(other)
            return found, first, next(other), (y + 1 for y in found).__next__(), sum(y.sum() for y in found)
        """,
    "all_and_any_of_a_generator": """
        def f(x):
            flags = [x.shape[0] > i for i in range(3)]
            a = all(flag for flag in flags), any(print(flag) for flag in flags), tuple(x + flag for flag in flags)
            b = list(flag for flag in flags), set(flag for flag in flags), sum(i for i in range(3))
            return a, b
        """,
    "other_functions_of_these_names": """
        def all(values):
            return "mine", list(values)
        def f(x):
            return all(x + i for i in range(2)), any(i > 1 for i in range(2))
        """,
    "cells_and_comprehensions": """
        def f(x):
            y = x * 3
            makers = [lambda: (x, i, y) for i in range(3)]
            print("broken")
            i = 7
            more = [[j + y for j in range(k)] for k in range(3)]
            return [make() for make in makers], i, more, [(lambda: y)() for y in [1, 2]], y
        """,
    "functions_with_defaults_and_annotations": """
        def f(x):
            scale = x.shape[0]
            def g(a: int, b: "str" = 2, *args: list[scale], c=print("broken"), d: float = x) -> dict:
                return a, b, args, c, d, scale
            def h(a: int) -> int:
                return a
            return g(x), g(1, 3, 4, c=5), h.__name__, h(x)
        """,
    "annotations_that_are_read": """
        import functools, inspect
        def outer(a: int, b: "str" = "") -> None: pass
        def f(x):
            def g(a: int):
                return a
            @functools.wraps(outer)
            def wrapper(*args):
                return x
            return dict(outer.__annotations__), wrapper.__name__, dict(g.__annotations__), g(x), dict(wrapper.__annotations__)
        """,
    "a_class_in_a_function": """
        def f(x):
            class Point:
                scale: int = 2
                other: "str"
                def __init__(self, x):
                    self.x = x
                def norm(self) -> float:
                    return self.x * self.scale
            return Point(x).norm(), Point.__name__
        """,
    "many_texts": """
        def f(x):
            n, name = x.shape[0], "a"
            return f"{n}", f"{n!r:>5}", f"{name!s}{name!a}{n:{n}}", f"{n=}", f"{print('broken')}{n:>{n + 1}}", f"{x.shape}"
        """,
    "deletions_and_several_stores": """
        def f(x):
            a, b = x, x + 1
            a, b = b, a
            c, (d, *e) = a, [b, 1, 2]
            print("broken")
            a, b, c = c, a, b
            a = b = c
            del c
            items = [1, 2, 3, 4, 5]
            del items[1:3]
            items[0:1] = [a, b]
            try:
                c
            except UnboundLocalError as error:
                print(error)
            return a, b, d, e, items, items[:2], items[-1]
        """,
    "patterns": """
        class Point:
            __match_args__ = ("x", "y")
            def __init__(self, x, y):
                self.x, self.y = x, y
        def f(x):
            found = []
            for each in (1, [1, x], {"a": x, "b": 2}, Point(x, 2), "text", None):
                match each:
                    case [1, y]:
                        found.append(y + 1)
                    case {"a": y, **rest}:
                        found.append((y * 2, rest, print("broken")))
                    case Point(y, 2):
                        found.append(y * 3)
                    case str() | None as z:
                        found.append(z)
                    case _:
                        found.append("other")
            return found
        """,
    "handlers_within_handlers": """
        def f(x):
            try:
                try:
                    x = x + 1
                    print("broken")
                    raise ValueError("one")
                except ValueError as error:
                    print("handled", error)
                    raise KeyError("two") from error
                finally:
                    x = x * 2
                    print("finally")
            except (KeyError, TypeError) as error:
                print(repr(error), repr(error.__cause__))
                return x
        """,
    "an_assertion_that_fails": """
        def f(x):
            y = x + 1
            try:
                assert y.shape[0] == 100, print("asserted")
            except AssertionError as error:
                print(error)
            assert y.shape[0] > 100, f"{y.shape[0]} rows"
        """,
    "globals_that_are_called": """
        def helper(x, *, by=2):
            global LIMIT
            LIMIT = LIMIT + 1
            print(LIMIT)
            return x * by
        def f(x):
            global LIMIT
            LIMIT = 3
            return helper(x), helper(x, by=LIMIT), max(1, 2), missing(x)
        """,
    "type_parameters": """
        def f(x):
            def first[T](items: list[T]) -> T:
                return items[0]
            return first([x, 1])
        """,
    "type_parameters_with_defaults": """
        def f(x):
            def first[T = int](items: list[T]) -> T:
                return items[0]
            return first([x, 1])
        """,
    "template_strings": """
        def f(x):
            n = x.shape[0]
            template = t"{n} rows of {x.sum().item() > 1e9!r:>{n}} and {n=}"
            parts = [(i.value, i.expression, i.conversion, i.format_spec) for i in template.interpolations]
            return template.strings, parts, x + len(template.values), t"none".strings
        """,
    "exceptions_without_parentheses": """
        def f(x):
            try:
                print("broken")
                raise KeyError(1)
            except ValueError, KeyError:
                return x + 1
        """,
    "unpacking_in_comprehensions": """
        def f(x):
            rows = [[x, 1], [x + 1, 2]]
            print("broken")
            named = {**{"a": x} for _ in range(1)}
            return [*row for row in rows], {*row[1:] for row in rows}, named, list((*row for row in rows))
        """,
}


def compiles(text: str) -> bool:
    try:
        compile(textwrap.dedent(text), "<program>", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


KNOWN = [name for name, text in PROGRAMS.items() if compiles(text)]
"""The programs in this Python's syntax."""


def program(name: str) -> Any:
    namespace: dict[str, Any] = {"torch": torch, "__name__": "program"}
    exec(compile(textwrap.dedent(PROGRAMS[name]), f"<{name}>", "exec", dont_inherit=True), namespace)
    return namespace["f"]
