"""Compiled modules: objects of the module's own class that share its state, wherever a module is used."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import pytest
import torch
from agreement import Comparison
from torch import nn

import framejit

IN_THE_PLACE_OF_EAGER = ["eager", "aot_eager"]
T = TypeVar("T")
x = torch.arange(6.0).reshape(2, 3)


class Net(nn.Module):
    """A user's module, importable so that it can be pickled."""

    def __init__(self, width=3):
        super().__init__()
        self.linear = nn.Linear(3, width)
        self.register_buffer("count", torch.zeros(()))
        self.scale = 2.0

    def forward(self, t, *, shift=0.0):
        return torch.relu(self.linear(t)) * self.scale + shift

    @property
    def width(self):
        return self.linear.out_features

    def other(self, t):
        return t + self.scale


class Called(nn.Module):
    """A module with a `__call__` of its own."""

    def __call__(self, t):
        return super().__call__(t) + 1

    def forward(self, t):
        return t * 2


class Registry(nn.Module):
    """A module whose class keeps a list of its subclasses."""

    known: list[type] = []

    def __init_subclass__(cls, *, name, **kwargs):
        super().__init_subclass__(**kwargs)
        Registry.known.append(cls)


class Registered(Registry, name="registered"):
    """In the list."""

    def forward(self, t):
        return t + 1


class Base(nn.Module, ABC):
    @abstractmethod
    def forward(self, t): ...


class Concrete(Base):
    def forward(self, t):
        return t - 1


class Typed(nn.Module, Generic[T]):
    def forward(self, t):
        return t * 3


class Copied(Net):
    """A module with its own way of being copied."""

    def __deepcopy__(self, memo):
        made = Net.__new__(type(self))
        made.__dict__ = copy.deepcopy(self.__dict__, memo)
        made.scale = 100.0
        return made


class Stateful(Net):
    def __getstate__(self):
        return {**self.__dict__, "scale": 7.0}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.restored = True


def compile(module, **options):
    return framejit.compile(module, backend="eager", fullgraph=True, **options)


def same(a, b):
    Comparison().same(a, b)
    return True


def by_pickle(module):
    return pickle.loads(pickle.dumps(module))


def by_old_pickle(module):
    return pickle.loads(pickle.dumps(module, 0))


def entries(compiled):
    return type(compiled).__call__.entries


@pytest.mark.parametrize("cls", [Net, Called, Registered, Concrete, Typed, Copied, Stateful])
def test_a_compiled_module_is_one_of_its_class(cls):
    m = cls()
    fast = compile(m)
    assert isinstance(fast, cls) and type(fast).__name__ == cls.__name__ and type(fast).__module__ == cls.__module__
    assert type(m) is cls and fast is not m
    assert list(fast.state_dict()) == list(m.state_dict())
    assert same(fast(x), m(x)) and same(fast(x), m(x))
    assert len(entries(fast)) == 1 and entries(fast)[0].hits == 2
    assert repr(fast) == repr(m) and fast.__doc__ == m.__doc__


def test_the_users_registries_hear_of_nothing():
    before = list(Registry.known)
    compile(Registered())
    assert Registry.known == before


def test_state_is_shared_both_ways():
    m = Net()
    fast = compile(m)
    assert [id(p) for p in fast.parameters()] == [id(p) for p in m.parameters()]
    assert vars(fast) is vars(m)
    fast.scale = 5.0
    assert m.scale == 5.0 and same(fast(x), m(x))
    m.eval()
    assert not fast.training
    fast.train()
    assert m.training and m.linear.training
    m.extra = nn.Linear(1, 1)
    assert "extra.weight" in fast.state_dict()
    del fast.extra
    assert "extra" not in m._modules
    fast.load_state_dict(Net().state_dict())
    assert same(fast(x), m(x))
    m.double()
    assert fast.linear.weight.dtype is torch.float64 and same(fast(x.double()), m(x.double()))
    fast.requires_grad_(False)
    assert not m.linear.weight.requires_grad
    assert fast.width == 3 and same(fast.other(x), m.other(x))


def test_the_original_stays_eager():
    m = Net()
    fast = compile(m)
    fast(x)
    hits = entries(fast)[0].hits
    m(x)
    fast.forward(x)
    assert entries(fast)[0].hits == hits and type(m).__call__ is nn.Module.__call__


def test_hooks_on_either_run_once_on_both():
    m = Net()
    fast = compile(m)
    fast(x)
    handle = fast.register_forward_hook(lambda module, args, output: output + 1)
    m.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    assert same(fast(x), m(x)) and not torch.equal(fast(x), Net.forward(m, x))
    handle.remove()
    assert same(fast(x), m(x))


def test_gradients_arrive_in_the_shared_parameters():
    m, twin = Net(), Net()
    twin.load_state_dict(m.state_dict())
    fast = compile(m)
    fast(x).sum().backward()
    twin(x).sum().backward()
    assert same([p.grad for p in m.parameters()], [p.grad for p in twin.parameters()])
    optimizer = torch.optim.SGD(fast.parameters(), lr=0.1)
    optimizer.step()
    torch.optim.SGD(twin.parameters(), lr=0.1).step()
    assert same(fast(x), twin(x)) and len(entries(fast)) == 1


@pytest.mark.parametrize("cls", [Net, Called, Registered, Concrete, Typed])
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, by_pickle, by_old_pickle],
                         ids=["copy", "deepcopy", "pickle", "pickle protocol 0"])  # fmt: skip
def test_copies_are_ordinary_modules(cls, how):
    m = cls()
    fast = compile(m)
    fast(x)
    made = how(fast)
    assert type(made) is cls and same(made(x), m(x))
    assert list(made.state_dict()) == list(m.state_dict())
    if how is not copy.copy:
        assert not {id(p) for p in made.parameters()} & {id(p) for p in m.parameters()}
    else:
        assert [id(p) for p in made.parameters()] == [id(p) for p in m.parameters()] and vars(made) is not vars(m)
    assert same(compile(made)(x), m(x))


def test_copies_by_the_classs_own_methods():
    assert type(copy.deepcopy(compile(Copied()))) is Copied and copy.deepcopy(compile(Copied())).scale == 100.0
    for made in (pickle.loads(pickle.dumps(compile(Stateful()))), copy.deepcopy(compile(Stateful()))):
        assert type(made) is Stateful and made.scale == 7.0 and made.restored


def test_saved_and_loaded_by_torch():
    m = Net()
    fast = compile(m)
    file = io.BytesIO()
    torch.save(fast, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert type(loaded) is Net and same(loaded(x), m(x))
    file = io.BytesIO()
    torch.save(fast.state_dict(), file)
    file.seek(0)
    Net().load_state_dict(torch.load(file))


def test_a_copy_of_a_parent_has_ordinary_children():
    parent = nn.Sequential(compile(Net()), nn.ReLU())
    made = copy.deepcopy(parent)
    assert type(made[0]) is Net and same(made(x), parent(x))
    shared = nn.ModuleList([m := Net(), compile(m)])
    one, other = copy.deepcopy(shared)
    assert same(one(x), other(x))


def test_compiled_children_of_an_eager_parent():
    class Parent(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = compile(Net())
            self.children_list = nn.ModuleList([compile(Net()), Net()])

        def forward(self, t):
            t = self.child(t, shift=1.0)
            for child in self.children_list:
                t = child(t)
            return t

    parent = Parent()
    plain = copy.deepcopy(parent)
    assert same(parent(x), plain(x)) and len(entries(parent.child)) == 2  # with and without the shift; the children share them
    assert list(parent.state_dict()) == list(plain.state_dict())
    assert parent.child.training and not parent.eval().child.training
    assert same(parent(x), plain.eval()(x))


def test_compiled_children_of_a_compiled_parent_join_its_graph():
    inner = compile(Net())
    outer = compile(nn.Sequential(inner, nn.ReLU()))
    plain = copy.deepcopy(outer)
    before = framejit.statistics()["graphs"]
    assert same(outer(x), plain(x))
    assert framejit.statistics()["graphs"] == before + 1 and not entries(inner)
    hook = inner.register_forward_hook(lambda module, args, output: output + 3)
    assert same(outer(x), plain(x) + 3)
    hook.remove()
    assert same(outer(x), plain(x))


def test_a_compiled_module_in_a_compiled_function():
    m = Net()
    fast = compile(m)
    step = compile(lambda t: fast(t) + 1)
    assert same(step(x), m(x) + 1) and not entries(fast)


def test_compiled_twice():
    m = Net()
    twice = compile(compile(m))
    assert type(twice).__mro__[1] is Net and vars(twice) is vars(m)
    assert same(twice(x), m(x)) and len(entries(twice)) == 1
    assert type(copy.deepcopy(twice)) is Net


def test_a_methods_of_a_module():
    m = Net()
    other = compile(m.other)
    assert same(other(x), m.other(x)) and other.__self__ is m
    m.forward = compile(m.forward)
    assert same(m(x), Net.forward(m, x)) and len(m.forward.__func__.entries) == 1
    m.register_forward_hook(lambda module, args, output: output * 0)
    assert m(x).sum() == 0


def test_a_decorated_forward():
    class Decorated(nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        @framejit.compile(backend="eager", fullgraph=True)
        def forward(self, t):
            return t * self.scale

    a, b = Decorated(2), Decorated(3)
    for m in (a, b, a, b):
        assert same(m(x), x * m.scale)
    assert len(Decorated.forward.entries) == 2
    assert same(compile(a)(x), x * 2)


def test_a_decorated_class():
    @framejit.compile(backend="eager", fullgraph=True)
    class Decorated(nn.Module):
        def forward(self, t):
            return t * 2

    assert isinstance(Decorated, type)
    m = Decorated()
    assert same(m(x), x * 2) and same(m(x), x * 2) and Decorated.__call__.entries[0].hits == 2
    assert nn.Module.__call__ is nn.Module._wrapped_call_impl


@pytest.mark.parametrize("make", [
    lambda: nn.Linear(3, 4), lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.0), nn.LayerNorm(4)), lambda: nn.Identity(),
    lambda: nn.Bilinear(3, 3, 2), lambda: nn.ParameterList([torch.ones(3)]),
], ids=["Linear", "Sequential", "Identity", "Bilinear", "not callable"])  # fmt: skip
def test_modules_of_torch(make):
    m = make()
    fast = framejit.compile(m, backend="eager")
    args = (x, x) if isinstance(m, nn.Bilinear) else (x,)
    if isinstance(m, nn.ParameterList):
        with pytest.raises(RuntimeError, match="should not be called"):
            fast(*args)
        assert len(fast) == 1 and torch.equal(fast[0], torch.ones(3))
    else:
        assert same(fast(*args), m(*args))


def test_a_graph_module_and_a_script_module():
    m = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    fast = compile(m)
    assert same(fast(x), m(x)) and isinstance(fast, torch.fx.GraphModule)


def test_containers_stay_containers():
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    fast = compile(m)
    fast.append(nn.Linear(3, 2))
    assert len(m) == len(fast) == 3 and isinstance(fast[:2], nn.Sequential) and same(fast(x), m(x))
    assert [name for name, _ in fast.named_modules()] == [name for name, _ in m.named_modules()]
    assert next(iter(fast.modules())) is fast
    seen = []
    fast.apply(lambda child: seen.append(child))
    assert len(seen) == 4


def test_a_module_may_be_dropped_before_or_after_its_compiled_form():
    m = Net()
    fast = compile(m)
    fast(x)
    gone, weight = weakref.ref(m), weakref.ref(m.linear)
    del m
    gc.collect()
    assert gone() is None and fast(x) is not None
    del fast
    gc.collect()
    assert weight() is None


def test_lazy_modules_run_as_written_once():
    m = nn.LazyLinear(4)
    fast = framejit.compile(m, backend="eager")
    first = fast(x)
    assert same(first, fast(x)) and same(first, m(x))
    assert isinstance(m.weight, nn.Parameter) and m.weight.shape == (4, 3)


def test_attribute_errors_are_the_modules():
    fast = compile(Net())
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        fast.nothing


def test_a_disabled_module():
    m = Net()
    off = framejit.disable(m)
    assert isinstance(off, Net) and same(off(x), m(x)) and list(off.state_dict()) == list(m.state_dict())
    outer = framejit.compile(nn.Sequential(off, nn.ReLU()), backend="eager")
    assert same(outer(x), nn.Sequential(m, nn.ReLU())(x))
    assert "marked not to be compiled" in framejit.statistics()["reasons"][-1]
    assert type(copy.deepcopy(off)) is Net


def test_data_parallel_and_swa_wrappers_take_it():
    m = Net()
    average = torch.optim.swa_utils.AveragedModel(compile(m))
    average.update_parameters(compile(m))
    assert same(average(x), m(x)) and type(average.module) is Net
    functional = torch.func.functional_call(compile(m), dict(m.named_parameters()), (x,))
    assert same(functional, m(x))
