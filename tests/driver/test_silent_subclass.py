"""Compiled modules of classes with other bases before nn.Module, whose objects are laid out otherwise: registries and metaclasses hear of nothing."""

from __future__ import annotations

import copy
import gc
import pickle
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import framejit
from framejit.errors import BadArgument

T = TypeVar("T")
x = torch.arange(6.0).reshape(2, 3)
heard: list[str] = []


class Layer:
    """Methods that the modules of this file share. The class has no fields."""

    __slots__ = ()

    def start(self):
        nn.Module.__init__(self)
        self.linear = nn.Linear(3, 3)
        return self

    def forward(self, t):
        return torch.relu(self.linear(t)) * 2


class Encoder(ABC, nn.Module):
    @abstractmethod
    def encode(self, t): ...

    def forward(self, t):
        return self.encode(t) + 1


class AbstractFirst(Layer, Encoder):
    def encode(self, t):
        return t * 2


class GenericFirst(Generic[T], Layer, nn.Module):
    pass


class OfInts(GenericFirst[int]):
    pass


class Encodes(Protocol):
    def encode(self, t): ...


class ProtocolFirst(Encodes, Layer, nn.Module):
    __init__ = nn.Module.__init__


class NoFieldsFirst(Layer, nn.Module):
    pass


class Weakly(ABC):
    __slots__ = ("__weakref__",)


class WeakReferenceFirst(Weakly, Layer, nn.Module):
    pass


class Meta(type):
    def __new__(meta, name, bases, namespace):
        heard.append(name)
        return super().__new__(meta, name, bases, namespace)


class OfMeta(metaclass=Meta):
    __slots__ = ()


class MetaclassFirst(OfMeta, Layer, nn.Module):
    pass


class Registry:
    __slots__ = ()

    def __init_subclass__(cls, *, key, **kwargs):
        super().__init_subclass__(**kwargs)
        heard.append(key)


class RegisteredFirst(Registry, Layer, nn.Module, key="first"):
    pass


CLASSES = [AbstractFirst, GenericFirst, OfInts, ProtocolFirst, NoFieldsFirst, WeakReferenceFirst, MetaclassFirst, RegisteredFirst]


@pytest.mark.parametrize("cls", CLASSES)
def test_whatever_comes_before_module(cls):
    module = cls().start()
    expected = module(x)
    before = list(heard)
    compiled = framejit.compile(module, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), expected) and len(type(compiled).__call__.entries) == 1
    assert isinstance(compiled, cls) and type(compiled).__mro__[1:] == cls.__mro__ and heard == before
    assert list(compiled.state_dict()) == list(module.state_dict())
    for copied in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert type(copied) is cls and torch.equal(copied(x), expected)


@pytest.mark.parametrize("cls", CLASSES)
def test_no_helping_class_is_left_among_the_subclasses(cls):
    bases = [base for base in cls.__mro__ if base not in (object, ABC, Generic, Protocol)]
    gc.collect()
    before = {base: set(base.__subclasses__()) for base in bases}
    compiled = framejit.compile(cls().start(), backend="eager")
    added = {base: set(base.__subclasses__()) - before[base] for base in bases}
    assert added == {base: {type(compiled)} if base is cls else set() for base in bases}


@pytest.mark.parametrize("cls", [AbstractFirst, WeakReferenceFirst])
def test_abstract_classes_remember_their_own_objects(cls):
    module = cls().start()
    compiled = framejit.compile(module, backend="eager")
    assert isinstance(compiled, cls) and not isinstance(module, type(compiled))
    assert issubclass(cls, cls) and not issubclass(cls, type(compiled)) and isinstance(module, cls)


def test_an_abstract_class_stays_abstract():
    framejit.compile(AbstractFirst().start(), backend="eager")
    with pytest.raises(TypeError, match="abstract"):
        Encoder()


def test_a_parametrization_is_taken_over_whatever_comes_first():
    class Doubled(nn.Module):
        def forward(self, weight):
            return weight * 2

    class Linear(Layer, nn.Linear):
        forward = nn.Linear.forward

    module = Linear(3, 3)
    compiled = framejit.compile(module, backend="eager")
    compiled(x)
    parametrize.register_parametrization(module, "weight", Doubled())
    assert torch.equal(compiled(x), module(x))


@dataclass
class Compared(nn.Module):
    """Its objects compare by their fields, and have no hash."""

    width: int = 2

    def __post_init__(self):
        nn.Module.__init__(self)

    def forward(self, t):
        return t * self.width


def test_modules_without_a_hash_that_are_equal():
    first, second = Compared(), Compared()
    compiled = [framejit.compile(module, backend="eager") for module in (first, second)]
    assert all(torch.equal(module(x), x * 2) for module in compiled)
    del compiled[0]
    gc.collect()
    second.width = 3
    assert torch.equal(compiled[0](x), x * 3)


class Mapping(dict, Layer, nn.Module):
    __hash__ = object.__hash__


class Weighed(ABC):
    __slots__ = ("__weakref__", "factor")


class FieldsOfAbstract(Weighed, Layer, nn.Module):
    __slots__ = ("other",)


@pytest.mark.parametrize(("cls", "what"), [(Mapping, "what a dict holds"), (FieldsOfAbstract, "__slots__")])
def test_what_has_contents_elsewhere_is_refused(cls, what):
    module = cls().start()
    before = set(cls.__subclasses__())
    with pytest.raises(BadArgument, match=what):
        framejit.compile(module, backend="eager")
    gc.collect()
    assert set(cls.__subclasses__()) == before
    assert torch.equal(framejit.compile(module.forward, backend="eager")(x), module(x))
