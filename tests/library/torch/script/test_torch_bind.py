"""Objects of classes in C++ (`torch.classes`) inside compiled functions, with those that torch's own tests have."""

from __future__ import annotations

import gc
import pathlib
import weakref
from typing import Any

import pytest
import torch
from torch import nn
from torch._library import fake_class_registry

import framejit

LIBRARY = pathlib.Path(torch.__file__).parent / "lib" / "libtorchbind_test.so"
if not LIBRARY.exists():
    pytest.skip("this torch has no classes in C++ for tests", allow_module_level=True)
torch.ops.load_library(str(LIBRARY))
CLASSES = torch.classes._TorchScriptTesting


def unflattened(cls, state):
    return cls(**dict(state))


class FakeFoo:
    __obj_unflatten__ = classmethod(unflattened)

    def __init__(self, x, y):
        self.x, self.y = x, y

    def add_tensor(self, z):
        return (self.x + self.y) * z

    def increment(self, by):
        self.x, self.y = self.x + by, self.y + by


class FakeQueue:
    __obj_unflatten__ = classmethod(unflattened)

    def __init__(self, queue):
        self.queue = queue

    def push(self, x):
        self.queue.append(x)

    def pop(self):
        return self.queue.pop(0)

    def size(self):
        return len(self.queue)


class FakeHolder:
    __obj_unflatten__ = classmethod(unflattened)

    def __init__(self, t):
        self.t = t

    def get(self):
        return self.t


@pytest.fixture(autouse=True)
def fake_classes():
    fakes = {"_Foo": FakeFoo, "_TensorQueue": FakeQueue, "_ContainsTensor": FakeHolder}
    for name, cls in fakes.items():
        torch._library.register_fake_class(f"_TorchScriptTesting::{name}", cls)
    framejit.reset()
    yield
    for name in fakes:
        fake_class_registry.deregister_fake_class(f"_TorchScriptTesting::{name}")


class Adds(nn.Module):
    def __init__(self, x: int, y: int) -> None:
        super().__init__()
        self.foo = CLASSES._Foo(x, y)
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.foo.add_tensor(self.linear(x)).relu()


def compare(module: nn.Module, compiled: Any, x: torch.Tensor) -> None:
    results = []
    for program in (module, compiled):
        module.zero_grad()
        found = program(x)
        found.sum().backward()
        results.append([found.detach(), module.linear.weight.grad.clone()])
    assert all(left.equal(right) for left, right in zip(*results, strict=True))


@pytest.mark.only_eager("AOTAutograd isn't to trace into objects of TorchBind")
def test_a_method_is_part_of_the_graph_and_what_its_object_holds_is_guarded():
    module = Adds(1, 2)
    compiled = framejit.compile(module, backend="eager", fullgraph=True)
    for _ in range(2):
        compare(module, compiled, torch.randn(2, 3))
    assert framejit.statistics()["graphs"] == 1
    module.foo.increment(3)
    for _ in range(2):
        compare(module, compiled, torch.randn(2, 3))
    assert framejit.statistics()["graphs"] == 2
    module.foo = CLASSES._Foo(1, 2)
    compare(module, compiled, torch.randn(2, 3))
    assert framejit.statistics()["graphs"] == 3


def test_with_aot_autograd_a_method_runs_natively():
    module = Adds(1, 2)
    compiled = framejit.compile(module, backend="aot_eager")
    for _ in range(2):
        compare(module, compiled, torch.randn(2, 3))
    assert framejit.statistics()["graph_breaks"] == 1


def test_a_class_without_a_fake_one_runs_natively_and_says_so():
    fake_class_registry.deregister_fake_class("_TorchScriptTesting::_Foo")
    try:
        module = Adds(1, 2)
        compiled = framejit.compile(module, backend="eager")
        compare(module, compiled, torch.randn(2, 3))
        (reason,) = framejit.statistics()["reasons"]
        assert "add_tensor() with" in reason and "no fake one" in reason
    finally:
        torch._library.register_fake_class("_TorchScriptTesting::_Foo", FakeFoo)


@pytest.mark.only_eager("AOTAutograd isn't to trace into objects of TorchBind")
def test_an_operator_that_takes_an_object():
    operator = torch.ops._TorchScriptTesting.takes_foo.default
    if torch._C.DispatchKey.Meta not in operator.py_kernels:
        operator.py_impl(torch._C.DispatchKey.Meta)(lambda foo, x: foo.add_tensor(x))
    foo = CLASSES._Foo(2, 3)
    for program in (
        lambda x: torch.ops._TorchScriptTesting.takes_foo(foo, x.sin()) + 1,
        lambda x: torch.ops._TorchScriptTesting.takes_foo(foo, x=x.sin()) + 1,
        lambda x: torch.ops._TorchScriptTesting.takes_foo.default(foo, x) + 1,
    ):
        compiled = framejit.compile(program, backend="eager", fullgraph=True)
        for size in (3, 3, 4):
            x = torch.randn(size)
            assert program(x).equal(compiled(x))


def test_methods_that_change_their_object_run_natively():
    def program(queue, x):
        before = queue.size()
        queue.push(x.sin())
        queue.push(x + before)
        return queue.pop() * 2 + queue.size(), before

    compiled = framejit.compile(program, backend="eager")
    left, right = [CLASSES._TensorQueue(torch.zeros(1)) for _ in range(2)]
    for _ in range(4):
        x = torch.randn(3)
        expected, got = program(left, x), compiled(right, x)
        assert expected[0].equal(got[0]) and expected[1] == got[1] and left.size() == right.size()
    assert framejit.statistics()["internal_errors"] == 0


def test_a_tensor_that_an_object_holds_is_changed_in_place():
    def program(holder, x):
        holder.get().add_(x)
        return x * 2

    left, right = [CLASSES._ContainsTensor(torch.zeros(3)) for _ in range(2)]
    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        x = torch.randn(3)
        assert program(left, x).equal(compiled(right, x)) and left.get().equal(right.get())


@pytest.mark.only_eager("AOTAutograd isn't to trace into objects of TorchBind")
def test_no_entry_keeps_an_object():
    foo = CLASSES._Foo(1, 2)
    compiled = framejit.compile(lambda foo, x: foo.add_tensor(x) * 2, backend="eager", fullgraph=True)
    assert compiled(foo, torch.ones(2)).equal(torch.full((2,), 6.0))
    gone = weakref.ref(foo)
    del foo
    gc.collect()
    assert gone() is None


def test_objects_that_only_pass_through():
    foo = CLASSES._Foo(1, 2)
    compiled = framejit.compile(lambda foo, x: (foo, x + 1, foo is None), backend="eager", fullgraph=True)
    for _ in range(2):
        found = compiled(foo, torch.ones(2))
        assert found[0] is foo and found[1].equal(torch.full((2,), 2.0)) and found[2] is False
    with pytest.raises(AttributeError, match="nothing"):
        framejit.compile(lambda foo: foo.nothing, backend="eager")(foo)
