"""Guards, further afield: metaclasses, descriptors that appear, nested containers, and state that nobody passes in."""

from __future__ import annotations

import contextvars
import functools
import os
import sys
import threading
import weakref

import torch
from change_kinds import Kind
from neighbours import Beside
from scenarios import BACK, EITHER, NEW, NEW_UNSEEN, OTHER, SAME, Table, each, play, start, start_any
from torch import nn

table = Table()
scenario = table.scenario
x = torch.arange(6.0).reshape(2, 3)


@scenario(Kind.METACLASS)
def metaclass_attr():
    class Meta(type):
        factor = 2

    class C(metaclass=Meta):
        pass

    yield start(lambda t: t * C.factor, x)
    Meta.factor = 3
    yield NEW
    C.factor = 5
    yield NEW


@scenario(Kind.DICT)
def nested_list_dict():
    d = {"a": [1, {"b": 2}]}
    yield start(lambda t, d: t * d["a"][1]["b"], x, d)
    d["a"][1]["b"] = 3
    yield NEW
    d["a"][1] = {"b": 2}
    yield BACK
    d["a"] = (1, {"b": 2})
    yield NEW_UNSEEN


@scenario(Kind.DICT)
def dict_get_default():
    d = {}
    yield start(lambda t, d: t * d.get("k", 1), x, d)
    d["z"] = 1
    yield SAME
    d["k"] = 4
    yield NEW


@scenario(Kind.INSTANCE_ATTRIBUTE)
def hasattr_():
    class C:
        pass

    c = C()
    yield start(lambda t, c: t + 1 if hasattr(c, "foo") else t, x, c)
    c.bar = 1
    yield SAME
    c.foo = 1
    yield NEW
    del c.foo
    yield BACK
    C.foo = 2
    yield NEW


@scenario(Kind.INSTANCE_CLASS)
def isinstance_():
    class A:
        pass

    class B(A):
        pass

    yield start(lambda t, c: t + 1 if isinstance(c, B) else t, x, A())
    yield NEW.of(x, B())
    yield BACK.of(x, A())


@scenario(Kind.DICT, looks_at={Beside.KEY: "it goes through all keys"})
def dict_contains_order():
    d, beside = {"a": 1, "b": 2}, {"a": 1, "b": 2}
    yield start(lambda t, d, beside: t + list(d.items())[0][1] * beside["a"], x, d, beside)
    beside["a"] = beside.pop("a")
    yield SAME
    d["a"] = d.pop("a")
    yield NEW


@scenario(Kind.PROPERTY)
def inherited_property():
    class A:
        @property
        def p(self):
            return self.q * 2

    class B(A):
        q = 1

    b = B()
    yield start(lambda t: t * b.p, x)
    B.q = 2
    yield NEW
    A.p = property(lambda self: 9)
    yield NEW
    B.p = 4
    yield NEW


@scenario(Kind.METHOD)
def super_call():
    class A:
        def f(self, t):
            return t + 1

    class B(A):
        def f(self, t):
            return super().f(t) * 2

    b = B()
    yield start(lambda t: b.f(t), x)
    A.f = lambda self, t: t + 10
    yield NEW


@scenario(Kind.ATTRIBUTE_HOOK)
def getattribute_added():
    class A:
        v = 1

    a = A()
    yield start(lambda t: t * a.v, x)
    A.__getattribute__ = lambda self, n: 5
    yield NEW


@scenario(Kind.ATTRIBUTE_HOOK)
def getattr_added():
    class A:
        pass

    a = A()
    yield start(lambda t: t * getattr(a, "zz", 1), x)
    A.__getattr__ = lambda self, n: 7
    yield NEW


@scenario(Kind.SPECIAL_METHOD)
def call_added():
    class A:
        def __call__(self, t):
            return t

    a = A()
    yield start(lambda t: a(t), x)
    A.__call__ = lambda self, t: t * 9
    yield NEW


@scenario(Kind.SPECIAL_METHOD)
def instance_call_not_used():
    class A:
        def __call__(self, t):
            return t

    a = A()
    yield start(lambda t: a(t), x)
    a.__call__ = lambda t: t * 9
    yield SAME


@scenario(Kind.DEFAULTS)
def decorated_default_mutable():
    def f(t, acc=[1]):
        return t * acc[0]

    yield start(f, x)
    f.__defaults__[0].append(5)
    yield SAME
    f.__defaults__[0][0] = 5
    yield NEW


@scenario(Kind.CLOSURE)
def closure_list():
    l = [0, 1]
    yield start(lambda t: t * l[-1], x)
    l[0] = 5
    yield SAME
    l[-1] = 3
    yield NEW
    l.append(7)
    yield NEW


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def string_fmt():
    yield start(lambda t, s: (t + 1, f"{s}!"), x, "a")
    yield EITHER.of(x, "b")


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def big_int():
    yield start(lambda t, n: t * n if n < 10**20 else t, x, 3)
    yield NEW.of(x, 10**30)


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def bytes_():
    yield start(lambda t, b: t * b[0], x, b"ab")
    yield NEW.of(x, b"cd")


@scenario(Kind.SET)
def frozenset_():
    yield start(lambda t, b, beside: t * len(b), x, frozenset({1}), frozenset({1}))
    yield SAME.of(x, frozenset({1}), frozenset({2}))
    yield NEW.of(x, frozenset({1, 2}), frozenset({1}))


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def device_arg():
    yield start(lambda t, d: t.to(d), x, torch.device("cpu"))
    yield NEW.of(x, torch.device("meta"))


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def size_arg():
    yield start(lambda t, s: t.view(s), x, torch.Size([6]))
    yield NEW.of(x, torch.Size([3, 2]))


@scenario(Kind.SUBMODULE)
def module_arg():
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    yield start(lambda t, m: m(t), x, a)
    yield OTHER.of(x, b)
    yield NEW.of(x, nn.ReLU())


@scenario(Kind.DEFAULT_DTYPE)
def torch_func_global_flag():
    yield start(lambda t: (t + 1, torch.get_default_dtype()), x)
    torch.set_default_dtype(torch.float64)
    try:
        yield NEW
    finally:
        torch.set_default_dtype(torch.float32)


@scenario(Kind.PROCESS_STATE)
def env_like():
    yield start(lambda t: t * 2 if os.environ.get("FJ_X") else t, x)
    os.environ["FJ_BESIDE"] = "1"
    try:
        yield SAME
        os.environ["FJ_X"] = "1"
        yield NEW
    finally:
        del os.environ["FJ_BESIDE"], os.environ["FJ_X"]


@scenario(Kind.PROCESS_STATE)
def contextvar():
    v, beside = contextvars.ContextVar("v", default=1), contextvars.ContextVar("beside", default=1)
    yield start_any(lambda t: t * v.get(), x)
    beside.set(3)
    yield SAME
    v.set(3)
    yield EITHER


@scenario(Kind.PROCESS_STATE)
def threadlocal():
    l = threading.local()
    l.v = 1
    yield start_any(lambda t: t * l.v, x)
    l.beside = 2
    yield SAME
    l.v = 3
    yield EITHER


@scenario(Kind.LIBRARY_STATE)
def weakref_():
    class A:
        v = 2

    a, beside = A(), A()
    r, other = weakref.ref(a), weakref.ref(beside)
    yield start_any(lambda t: t * 2 if r() is not None else t, x)
    del beside
    assert other() is None
    yield SAME
    del a
    yield EITHER


@scenario(Kind.PROCESS_STATE)
def num_threads():
    yield start_any(lambda t: t * torch.get_num_threads(), x)
    n = torch.get_num_threads()
    torch.set_warn_always(True)
    yield SAME
    torch.set_warn_always(False)
    torch.set_num_threads(n + 1)
    try:
        yield EITHER
    finally:
        torch.set_num_threads(n)


@scenario(Kind.TENSOR_ATTRIBUTE)
def version_counter():
    t = torch.ones(3)
    yield start_any(lambda t: (t + 1, t._version), t)
    t.add_(1)
    yield EITHER


@scenario(Kind.TENSOR_REQUIRES_GRAD)
def grad_fn_none():
    p = torch.ones(3, requires_grad=True)
    yield start_any(lambda t: (t * 2, t.grad_fn is None), p)
    yield EITHER.of(p * 1)


@scenario(Kind.TENSOR_ATTRIBUTE)
def retains():
    p = torch.ones(3, requires_grad=True)
    yield start_any(lambda t: (t * 2, t.is_leaf, t.retains_grad), p)
    q = p * 1
    q.retain_grad()
    yield EITHER.of(q)


@scenario(Kind.TENSOR_ATTRIBUTE)
def tensor_hooks():
    p = torch.ones(3, requires_grad=True)
    yield start_any(lambda t: (t * 2, t._backward_hooks is None), p)
    p.register_hook(lambda g: g)
    yield EITHER


@scenario(Kind.TENSOR_STRIDES)
def storage_off():
    b = torch.arange(12.0)
    yield start_any(lambda t: (t * 2, t.storage_offset()), b[0:6])
    yield EITHER.of(b[6:12])


@scenario(Kind.TENSOR_STRIDES)
def as_strided_offset():
    b = torch.arange(12.0)
    yield start_any(lambda t: t.as_strided((2,), (1,)), b[0:6])
    yield EITHER.of(b[6:12])


@scenario(Kind.PROCESS_STATE)
def sys_flags():
    yield start_any(lambda t: t * sys.getrecursionlimit(), x)
    limit, interval = sys.getrecursionlimit(), sys.getswitchinterval()
    try:
        sys.setswitchinterval(2 * interval)
        yield SAME
        sys.setrecursionlimit(limit + 500)
        yield EITHER
    finally:
        sys.setrecursionlimit(limit)
        sys.setswitchinterval(interval)


@scenario(Kind.TENSOR_BITS)
def is_inference_t():
    with torch.inference_mode():
        i = torch.ones(2, 3)
    yield start_any(lambda t: (t * 2, t.is_inference()), x)
    yield EITHER.of(i)


@scenario(Kind.GLOBAL_OF_ANOTHER_MODULE)
def swapped_globals_dict():
    ns = {"__name__": "zz", "K": 2}
    exec("def f(t): return t*K", ns)
    yield start(ns["f"], x)
    ns["K"] = 3
    yield NEW


@scenario(Kind.FUNCTION_ATTRIBUTE)
def func_attr():
    def h(t):
        return t * h.k

    h.k = 2
    yield start(lambda t: h(t), x)
    h.k = 3
    yield NEW


@scenario(Kind.LIBRARY_STATE)
def lru():
    calls = []
    k = {"v": 2}

    @functools.lru_cache
    def c(n):
        return n * k["v"]

    yield start_any(lambda t: t * c(2), x)
    c(3)
    yield SAME
    k["v"] = 3
    c.cache_clear()
    yield EITHER


@scenario(Kind.SLOT)
def slots_class_attr():
    class A:
        __slots__ = ("v",)

    a = A()
    a.v = nn.ReLU()
    yield start(lambda t, a: a.v(t - 2), x, a)
    a.v = nn.Sigmoid()
    yield NEW


@each(table.scenarios)
def test_change(row):
    play(row)
