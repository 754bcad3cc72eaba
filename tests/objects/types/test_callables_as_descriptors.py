"""Properties, static and class methods and special methods that are no functions: partials, builtins, classes, objects that can be called."""

from __future__ import annotations

import functools
import math
import operator
import warnings

import pytest
import torch
from agreement import agree

import framejit


class Layer:
    def __init__(self, scale=3.0):
        self.scale = scale

    def times(self, k=2):
        return self.scale * k

    def store(self, value, k):
        self.scale = value * k


class Times:
    def __init__(self, k):
        self.k = k

    def __call__(self, layer, *args):
        return layer.scale * self.k


class BoundTimes(Times):
    def __get__(self, obj, cls):
        return self if obj is None else functools.partial(self, obj)


def stored(x, layer):
    layer.p = 4.0
    return x * layer.scale


def deleted(x, layer):
    del layer.p
    return x * layer.scale


def entered(x, layer):
    with layer as k:
        y = x * k
    return y


def read(x, layer):
    return x * layer.p


PROGRAMS = {
    "a property of a partial": ({"p": property(functools.partial(Layer.times, k=3))}, read),
    "a property of a partial by place": ({"p": property(functools.partial(lambda k, layer: layer.scale * k, 3))}, read),
    "a property of a builtin": ({"p": property(len), "__len__": lambda layer: 3}, read),
    "a property of an object": ({"p": property(Times(4))}, read),
    "a property of a bound method": ({"p": property(Times(4).__call__)}, read),
    "a property of an attrgetter": ({"p": property(operator.attrgetter("scale"))}, read),
    "a property of a methodcaller": ({"p": property(operator.methodcaller("times", k=5))}, read),
    "a property of a class": ({"p": property(type)}, lambda x, layer: x + (layer.p is type(layer))),
    "a setter that is a partial": ({"p": property(None, functools.partial(Layer.store, k=2))}, stored),
    "a deleter that is a partial": ({"p": property(None, None, functools.partial(Layer.store, value=3.0, k=2))}, deleted),
    "a static method of a partial": ({"p": staticmethod(functools.partial(operator.mul, 3))}, lambda x, layer: layer.p(x)),
    "a static method of a builtin": ({"p": staticmethod(math.sqrt)}, lambda x, layer: x * layer.p(4.0)),
    "a class method of a partial": ({"p": classmethod(functools.partial(lambda cls, k, y: y * k, k=3))}, lambda x, layer: layer.p(y=x)),
    "a partialmethod": ({"p": functools.partialmethod(Layer.times, k=3)}, lambda x, layer: x * layer.p()),
    "a partialmethod of a builtin": ({"p": functools.partialmethod(setattr, "scale", 5.0)}, lambda x, layer: (layer.p(), x * layer.scale)[1]),
    "__call__ of a partial": ({"__call__": functools.partial(lambda k, *args: args[-1] * k, 3)}, lambda x, layer: layer(x)),
    "__call__ of an object": ({"__call__": BoundTimes(3)}, lambda x, layer: x * layer()),
    "__getattr__ of a builtin": ({"__getattr__": len}, lambda x, layer: x * layer.three),
    "__len__ of a partialmethod": ({"__len__": functools.partialmethod(Layer.times, k=2), "scale": 2}, lambda x, layer: x * len(type(layer)(2))),
    "__bool__ of a partial": ({"__bool__": functools.partial(lambda *args: False)}, lambda x, layer: x if layer else x + 1),
    "__enter__ and __exit__ of partials": (
        {"__enter__": functools.partial(lambda *args: 3), "__exit__": functools.partial(lambda *args: None)}, entered
    ),
    "__iter__ of a static method": ({"__iter__": staticmethod(functools.partial(iter, (1, 2)))}, lambda x, layer: x * sum(layer)),
    "__add__ of a partial": ({"__add__": functools.partial(lambda k, *args: args[-1] * k, 3)}, lambda x, layer: layer + x),
    "__get__ of a static method": (
        {"p": type("Get", (), {"__get__": staticmethod(lambda self, layer, cls: layer.scale)})()}, read
    ),
}  # fmt: skip


def warns_of_partials(namespace):
    """Return whether this Python warns, as 3.13 does, that partial objects among the class attributes will be bound; warnings aren't traced."""
    parts = [getattr(part, "__func__", part) if isinstance(part, classmethod) else part for part in namespace.values()]
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for part in parts:
            if type(part) is functools.partial and hasattr(type(part), "__get__"):
                part.__get__(3)
    return bool(shown)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_called_may_be_any_callable(name, backend):
    namespace, program = PROGRAMS[name]
    cls = type("Sub", (Layer,), dict(namespace))
    framejit.reset()
    expected = program(torch.arange(3.0), cls())
    breaks = warns_of_partials(namespace)
    compiled = framejit.compile(program, backend=backend, fullgraph=not breaks)
    for _ in range(2):
        assert compiled(torch.arange(3.0), cls()).tolist() == expected.tolist()
    assert breaks or (framejit.statistics()["graphs"] == 1 and not framejit.statistics()["fallbacks"])


def test_a_get_that_is_called_unbound_need_not_be_a_function():
    """slot_tp_descr_get calls `__get__` without binding it: a partialmethod can't be called."""
    cls = type("Sub", (Layer,), {"p": type("Get", (), {"__get__": functools.partialmethod(Layer.times, 3)})()})
    agree(lambda x: x * cls().p, torch.ones(2), fullgraph=False)


def test_a_metaclass_may_have_properties_of_partials():
    meta = type("Meta", (type,), {"p": property(functools.partial(lambda cls, k: k, k=3)), "__len__": functools.partialmethod(lambda cls, k: k, 4)})
    cls = meta("Sub", (Layer,), {})
    agree(lambda x: x * cls.p * len(cls), torch.ones(2))


def test_the_class_of_what_a_property_calls_may_change():
    other = type("Other", (Times,), {"__call__": lambda self, layer: 7.0})
    getter = Times(4)
    cls = type("Sub", (Layer,), {"p": property(getter)})
    compiled = framejit.compile(read, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2), cls()).tolist() == [12.0, 12.0]
    getter.__class__ = other
    assert compiled(torch.ones(2), cls()).tolist() == [7.0, 7.0]
