"""Constructs with a graph break inside: what the table of breaks runs."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import warnings
import zlib
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import torch

logger = logging.getLogger("tools.bench.breaks")
logger.propagate = False
logger.addHandler(logging.NullHandler())


def opaque(x: torch.Tensor) -> int:
    """A call that no compiler of graphs can look into."""
    return zlib.crc32(b"3") % 5


def helper(x: torch.Tensor) -> torch.Tensor:
    """A break in the middle."""
    y = x.sin()
    print("helper")
    return y.cos() + 1


def inner3(x: torch.Tensor) -> torch.Tensor:
    return helper(x * 2) * 3


def inner2(x: torch.Tensor) -> torch.Tensor:
    return inner3(x + 2).sin()


class Manager:
    """A context manager of the program."""

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Base:
    def step(self, x: torch.Tensor) -> torch.Tensor:
        """Breaks in a method that is called through super()."""
        return helper(x.cos())


class Derived(Base):
    def step(self, x: torch.Tensor) -> torch.Tensor:
        return super().step(x + 1) * 2

    @property
    def factor(self) -> float:
        """A property with a break."""
        print("factor")
        return 2.0


class Block(torch.nn.Module):
    """A module whose forward breaks."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return helper(x + 1)


block = torch.nn.Sequential(Block(), torch.nn.ReLU(), Block())


@contextlib.contextmanager
def managed() -> Iterator[int]:
    """A manager written as a generator."""
    print("in")
    yield 2
    print("out")


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) + 1

    return wrapper


@wrapped
def decorated(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    return helper(x) * scale


def recursive(x: torch.Tensor, depth: int) -> torch.Tensor:
    if depth == 0:
        return helper(x)
    return recursive(x + 1, depth - 1) * 2


def generator(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for i in range(3):
        print("step")
        yield x.sin() + i


def print_(x):
    y = x.sin()
    print("here")
    return y.cos() + 1


def c_function(x):
    y = x.sin()
    n = opaque(x)
    return (y * n).cos()


def logging_(x):
    y = x.sin()
    logger.warning("here %d", 1)
    return y.cos() + 1


def warning(x):
    y = x.sin()
    warnings.warn("here", stacklevel=1)
    return y.cos() + 1


def file_access(x):
    y = x.sin()
    with open(os.devnull) as file:
        text = file.read()
    return y.cos() + len(text)


def import_(x):
    y = x.sin()
    import colorsys  # noqa: PLC0415

    return y.cos() + colorsys.ONE_THIRD


def item(x):
    y = x.sin()
    n = y.sum().item()
    return y.cos() * n


def tolist(x):
    y = x.sin()
    values = y.tolist()
    return y.cos() * len(values)


def nonzero(x):
    y = x.sin()
    picked = y[y > 0]
    return picked.cos() + 1


def if_(x):
    y = x.sin()
    y = y.cos() if y.sum() > 0 else y * 2
    return y + 1


def while_(x):
    y = x.sin()
    while y.sum() < 10:
        y = y + 1
        y = y.abs()
    return y.cos()


def assert_(x):
    y = x.sin()
    assert y.sum() < 100
    return y.cos() + 1


def boolean_operator(x):
    y = x.sin()
    z = y.sum() > 100 or y.sum() > 0
    return y.cos() * z


def conditional_in_call(x):
    y = x.sin()
    return torch.add(y.cos(), y * 2 if y.sum() > 0 else y * 3) + 1


def operands_on_stack(x):
    return torch.add(x.sin() + 1, helper(x.cos())) * 2


def keyword_call(x):
    return torch.add(x.sin(), helper(x), alpha=opaque(x)) + x.cos()


def for_over_array(x):
    y = x.sin()
    for value in array("d", [1.0, 2.0, 3.0]):
        y = (y + value).cos()
    return y + 1


def loop(x):
    for _ in range(5):
        x = x.sin()
        print("loop")
        x = x.cos()
    return x + 1


def for_over_itertools(x):
    for i in itertools.chain([1, 2], [3]):
        x = x.sin() + i
        print("loop")
        x = x.cos()
    return x + 1


def for_over_set(x):
    for i in {1, 2, 3}:
        x = x.sin() + i
        print("loop")
        x = x.cos()
    return x + 1


def nested_loops(x):
    for i in range(3):
        x = x + i
        for j in range(2):
            x = x.sin()
            print("inner")
            x = x * j
        x = x.cos()
    return x


def helper_in_loop(x):
    for _ in range(5):
        x = helper(x) * 2
    return x + 1


def with_manager(x):
    with Manager():
        y = x.sin()
        print("inside")
        y = y.cos()
    return y + 1


def with_no_grad(x):
    with torch.no_grad():
        y = x.sin()
        print("inside")
        y = y.cos()
    return y + 1


def with_generator(x):
    with managed() as scale:
        y = x.sin() * scale
    return y.cos() + 1


def try_(x):
    try:
        y = x.sin()
        print("inside")
        y = y.cos()
    except ValueError:
        y = x
    return y + 1


def except_(x):
    try:
        y = x.sin()
        int("a")
    except ValueError:
        y = y.cos()
        print("handling")
        y = y.abs()
    return y + 1


def finally_(x):
    try:
        y = x.sin()
    finally:
        print("finally")
        y = y.cos()
    return y + 1


def nested_1(x):
    return helper(x + 1).cos() + 1


def nested_3(x):
    return inner2(x + 1).cos() + 1


def comprehension(x):
    return torch.stack([helper(x + i) for i in range(3)]).sum(0)


def lambda_(x):
    return (lambda z: helper(z + 1) * 2)(x.sin()) + 1


def closure(x):
    total = x.sin()

    def add(y):
        nonlocal total
        total = total + y
        print("add")
        return total.cos()

    return add(x) + add(x * 2)


def method_with_super(x):
    return Derived().step(x.sin()) + 1


def property_(x):
    y = x.sin()
    return (y * Derived().factor).cos()


def decorator(x):
    return decorated(x.sin(), scale=3.0) + 1


def recursion(x):
    return recursive(x.sin(), 3) + 1


def module(x):
    return block(x.sin()) + 1


def generator_(x):
    y = x.sin()
    for value in generator(x):
        y = y + value
    return y.cos()


def generator_expression(x):
    return sum(helper(x + i) for i in range(3)) + 1


def sort_key(x):
    values = sorted([x.sin(), x.cos()], key=lambda v: v.sum().item())
    return values[0] + values[1] * 2


CONSTRUCTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "`print`": print_,
    "C function": c_function,
    "`logging`": logging_,
    "`warnings.warn`": warning,
    "file access": file_access,
    "`import`": import_,
    "`.item()`": item,
    "`.tolist()`": tolist,
    "boolean mask": nonzero,
    "ternary on data": if_,
    "`while` on data": while_,
    "`assert` on data": assert_,
    "`or` on data": boolean_operator,
    "ternary inside a call": conditional_in_call,
    "call as second operand": operands_on_stack,
    "keyword call": keyword_call,
    "`for` over an `array`": for_over_array,
    "`for` over `itertools.chain`": for_over_itertools,
    "`for` over a `set`": for_over_set,
    "`for`, 5 iterations": loop,
    "nested `for`, 3 x 2": nested_loops,
    "helper in `for`, 5 iterations": helper_in_loop,
    "`with`, user's manager": with_manager,
    "`with torch.no_grad()`": with_no_grad,
    "`with`, generator manager breaks": with_generator,
    "`try`": try_,
    "`except`": except_,
    "`finally`": finally_,
    "helper": nested_1,
    "helper, 3 deep": nested_3,
    "list comprehension": comprehension,
    "lambda": lambda_,
    "closure with `nonlocal`": closure,
    "method with `super()`": method_with_super,
    "property": property_,
    "decorator": decorator,
    "recursion, 3 deep": recursion,
    "`nn.Sequential`, 2 breaks": module,
    "generator": generator_,
    "generator expression": generator_expression,
    "sort key": sort_key,
}


def five_nested(x):
    """Five helpers one inside another, each with a break in its middle."""
    return _level(x.sin(), 5) + 1


def _level(x, depth):
    if depth == 0:
        return x.abs()
    y = x * 2
    opaque(y)
    return _level(y + 1, depth - 1).cos()


def twenty_breaks(x):
    """Twenty breaks in one function, with something between them."""
    x = x.sin()
    opaque(x); x = x + 1; opaque(x); x = x * 2; opaque(x); x = x.cos(); opaque(x); x = x + 3; opaque(x); x = x.abs()  # noqa: E702
    opaque(x); x = x + 1; opaque(x); x = x * 2; opaque(x); x = x.cos(); opaque(x); x = x + 3; opaque(x); x = x.abs()  # noqa: E702
    opaque(x); x = x + 1; opaque(x); x = x * 2; opaque(x); x = x.cos(); opaque(x); x = x + 3; opaque(x); x = x.abs()  # noqa: E702
    opaque(x); x = x + 1; opaque(x); x = x * 2; opaque(x); x = x.cos(); opaque(x); x = x + 3; opaque(x); x = x.abs()  # noqa: E702
    return x + 1


def loop_of(n: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A helper with a break in its middle, called in a loop of n iterations."""

    def run(x):
        for _ in range(n):
            x = _middle(x)
        return x

    return run


def _middle(x):
    y = x * 0.5
    opaque(y)
    return y + 1
