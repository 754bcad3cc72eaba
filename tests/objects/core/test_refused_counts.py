"""Builtin functions and methods of builtin types that are given the wrong number of arguments, or other names, raise their own errors in the trace."""

from __future__ import annotations

import array
import collections
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree

import framejit

CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "pop": lambda l, d, s: d.pop("missing", 1, 2),
    "pop without": lambda l, d, s: d.pop(),
    "append": lambda l, d, s: l.append(),
    "append two": lambda l, d, s: l.append(1, 2),
    "insert": lambda l, d, s: l.insert(1),
    "insert a text": lambda l, d, s: l.insert("no", 1),
    "index": lambda l, d, s: l.index(),
    "index of what is missing": lambda l, d, s: l.index(7),
    "get": lambda l, d, s: d.get(),
    "keys": lambda l, d, s: d.keys(1),
    "split": lambda l, d, s: s.split(",", 1, 2),
    "replace": lambda l, d, s: s.replace("a"),
    "join": lambda l, d, s: s.join(),
    "upper": lambda l, d, s: s.upper(1),
    "add": lambda l, d, s: set(l).add(),
    "count": lambda l, d, s: tuple(l).count(),
    "unbound": lambda l, d, s: list.append(l),
    "count by name": lambda l, d, s: l.count(sub=2),
    "range": lambda l, d, s: range(1, 2, 3, 4),
    "dir": lambda l, d, s: dir(l, d),
    "map": lambda l, d, s: map(len),
    "globals": lambda l, d, s: globals(l),
    "staticmethod": lambda l, d, s: staticmethod(),
    "property": lambda l, d, s: property(1, 2, 3, 4, 5),
    "eval": lambda l, d, s: eval(),
    "format": lambda l, d, s: format(s, 2),
    "NoneType": lambda l, d, s: type(None)(l),
    "EllipsisType": lambda l, d, s: type(...)(a=l),
    "enumerate": lambda l, d, s: enumerate(),
    "isinstance": lambda l, d, s: isinstance(l),
    "getattr": lambda l, d, s: getattr(l),
    "list": lambda l, d, s: list(l, 1),
    "zip by name": lambda l, d, s: zip(l, iterables=l),
    "int": lambda l, d, s: int("1", 2, 3),
    "sorted": lambda l, d, s: sorted(l, s),
    "max": lambda l, d, s: max(),
    "len": lambda l, d, s: len(l, d),
    "cycle": lambda l, d, s: itertools.cycle(),
    "repeat": lambda l, d, s: itertools.repeat(),
    "pop of an array": lambda l, d, s: array.array("i", l).pop(1, 2),
    "insert into an array": lambda l, d, s: array.array("i", l).insert(),
    "OrderedDict": lambda l, d, s: collections.OrderedDict(l, d),
    "dict again": lambda l, d, s: d.__init__(l, d),
    "an OrderedDict again": lambda l, d, s: collections.OrderedDict(d).__init__(l, d),
    "update of an OrderedDict": lambda l, d, s: collections.OrderedDict(d).update(l, d),
    "reverse of an array by name": lambda l, d, s: array.array("i", l).reverse(x=1),
    "item of an array": lambda l, d, s: array.array("i", l).__getitem__(),
    "two items of an array": lambda l, d, s: array.array("i", l).__setitem__(0),
    "item of another type": lambda l, d, s: array.array("i", l).__setitem__("a", 1),
    "item of a list": lambda l, d, s: l.__setitem__(),
    "deleted item of a list": lambda l, d, s: l.__delitem__(),
    "find in a bytearray": lambda l, d, s: bytearray(b"abc").find(),
    "items of an ordered dict": lambda l, d, s: collections.OrderedDict(d).items(1),
    "setdefault of an ordered dict": lambda l, d, s: collections.OrderedDict(d).setdefault(),
    "sqrt": lambda l, d, s: math.sqrt(),
    "atan2": lambda l, d, s: math.atan2(1.0),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_error_is_pythons(call: Callable[[Any, Any, Any], Any]) -> None:
    def tried(x: torch.Tensor, l: list[int], d: dict[str, int], s: str) -> Any:
        try:
            call(l, d, s)
        except (TypeError, ValueError) as error:
            return x + 1, type(error), str(error), l, d
        return x

    framejit.reset()
    agree(tried, torch.ones(2), [1, 2], {"a": 1}, "abc")
    assert framejit.statistics()["graph_breaks"] == 0
