"""Guard kinds: one frozen dataclass each, with its payload, a reference `check` and an explanation.

`check(value, call)` is what the C++ leaf of the same `leaf` name must agree with; `value` is what the guard's source
fetched (MISSING if the path ended early, which only the kinds that say so accept). No check runs the user's Python.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, ClassVar

from framejit.guards.source import MISSING, Call, Source, UserLine


@dataclass(frozen=True, eq=False)
class Guard:
    """One fact about one call. `cost` orders siblings: cheap and likely to fail first."""

    source: Source
    line: UserLine | None
    leaf: ClassVar[str] = ""
    cost: ClassVar[int] = 1

    def check(self, value: Any, call: Call) -> bool:
        raise NotImplementedError

    def expected(self) -> str:
        """What the guard demands, as text: "== 3", "is a dict"."""
        raise NotImplementedError

    def found(self, value: Any, call: Call) -> str:
        """What is there instead, as text."""
        return "missing" if value is MISSING else short(value)

    def key(self) -> Any:
        """Two guards with the same source, class and key are one."""
        return None


def short(value: Any) -> str:
    """A value as text, without running the user's `__repr__`."""
    if isinstance(value, (int, float, str, bytes, bool, type(None))) and type(value).__module__ == "builtins":
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    if isinstance(value, type):
        return f"class {value.__qualname__}"
    return f"a {type(value).__qualname__}"


def same_constant(a: Any, b: Any) -> bool:
    """Exact type and value, telling 0.0 from -0.0 and taking a NaN as equal to the same NaN, through tuples and frozensets."""
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return struct.pack("<d", a) == struct.pack("<d", b)
    if type(a) is complex:
        return struct.pack("<dd", a.real, a.imag) == struct.pack("<dd", b.real, b.imag)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same_constant, a, b))
    return bool(a == b)


@dataclass(frozen=True, eq=False)
class TypeIs(Guard):
    """The exact type."""

    cls: type
    leaf: ClassVar[str] = "type_is"
    cost: ClassVar[int] = 0

    def check(self, value: Any, call: Call) -> bool:
        return type(value) is self.cls

    def expected(self) -> str:
        return f"is exactly a {self.cls.__qualname__}"

    def key(self) -> Any:
        return id(self.cls)


@dataclass(frozen=True, eq=False)
class ValueIs(Guard):
    """The very object (held strongly by the guard, so that its address can't be reused)."""

    value: Any
    leaf: ClassVar[str] = "value_is"
    cost: ClassVar[int] = 0

    def check(self, value: Any, call: Call) -> bool:
        return value is self.value

    def expected(self) -> str:
        return f"is the same object ({short(self.value)})"

    def key(self) -> Any:
        return id(self.value)


@dataclass(frozen=True, eq=False)
class Equals(Guard):
    """Same exact type and same value: int, float, complex, bool, str, bytes, range, torch.Size, tuples and frozensets of such; types whose `==` is C code."""

    value: Any
    leaf: ClassVar[str] = "equals"
    cost: ClassVar[int] = 1

    def check(self, value: Any, call: Call) -> bool:
        return same_constant(value, self.value)

    def expected(self) -> str:
        return f"== {short(self.value)}"

    def key(self) -> Any:
        return (type(self.value), repr(self.value))


@dataclass(frozen=True, eq=False)
class Length(Guard):
    """The number of items of a list, tuple, dict, set, frozenset or deque (or that part of a subclass), by the C slot of the builtin type."""

    length: int
    leaf: ClassVar[str] = "length"
    cost: ClassVar[int] = 1

    def check(self, value: Any, call: Call) -> bool:
        for cls in (list, tuple, dict, set, frozenset):
            if isinstance(value, cls):
                return cls.__len__(value) == self.length
        return len(value) == self.length

    def expected(self) -> str:
        return f"has length {self.length}"

    def found(self, value: Any, call: Call) -> str:
        return "missing" if value is MISSING else f"length {len(value)}"

    def key(self) -> Any:
        return self.length


@dataclass(frozen=True, eq=False)
class KeyAbsent(Guard):
    """A dict has no such (constant) key. A MISSING dict has none either."""

    name: Any
    leaf: ClassVar[str] = "key_absent"
    cost: ClassVar[int] = 1

    def check(self, value: Any, call: Call) -> bool:
        return value is MISSING or not dict.__contains__(value, self.name)

    def expected(self) -> str:
        return f"has no key {self.name!r}"

    def found(self, value: Any, call: Call) -> str:
        return f"has key {self.name!r}"

    def key(self) -> Any:
        return (type(self.name), self.name)


@dataclass(frozen=True, eq=False)
class DictKeys(Guard):
    """The keys of a dict, all constants, in order. OrderedDict: in its own order."""

    keys: tuple[Any, ...]
    leaf: ClassVar[str] = "dict_keys"
    cost: ClassVar[int] = 2

    def check(self, value: Any, call: Call) -> bool:
        return value is not MISSING and same_constant(tuple(value), self.keys)

    def expected(self) -> str:
        return f"has the keys {list(self.keys)!r:.100}"

    def found(self, value: Any, call: Call) -> str:
        return "missing" if value is MISSING else f"keys {list(value)!r:.100}"

    def key(self) -> Any:
        return tuple((type(key), key) for key in self.keys)


@dataclass(frozen=True, eq=False)
class SetEquals(Guard):
    """A set or frozenset with exactly these (constant) elements."""

    elements: frozenset[Any]
    leaf: ClassVar[str] = "set_equals"
    cost: ClassVar[int] = 3

    def check(self, value: Any, call: Call) -> bool:
        return {(type(e), e) for e in value} == {(type(e), e) for e in self.elements}

    def expected(self) -> str:
        return f"has the elements {set(self.elements)!r:.100}"

    def key(self) -> Any:
        return frozenset((type(e), e) for e in self.elements)


@dataclass(frozen=True, eq=False)
class CodeIs(Guard):
    """An exact Python function with this code object."""

    code: CodeType
    leaf: ClassVar[str] = "code_is"
    cost: ClassVar[int] = 0

    def check(self, value: Any, call: Call) -> bool:
        return type(value).__name__ == "function" and getattr(value, "__code__", None) is self.code

    def expected(self) -> str:
        return f"is a function with the code of {self.code.co_qualname}"

    def key(self) -> Any:
        return id(self.code)


@dataclass(frozen=True, eq=False)
class IsMissing(Guard):
    """The path ends early: an empty cell, an unset slot, a function without defaults, a class without such an attribute."""

    leaf: ClassVar[str] = "is_missing"
    cost: ClassVar[int] = 1

    def check(self, value: Any, call: Call) -> bool:
        return value is MISSING

    def expected(self) -> str:
        return "is not set"


@dataclass(frozen=True)
class TensorSpec:
    """What a graph assumes of one of its tensors. `keys` is the raw DispatchKeySet of the TensorImpl."""

    cls: type
    keys: int
    dtype: Any
    device: Any
    requires_grad: bool
    layout: Any
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    conj: bool = False
    neg: bool = False


@dataclass(frozen=True, eq=False)
class TensorMatch(Guard):
    """A tensor of this exact Python type and with this metadata. None in sizes or strides accepts any number there."""

    spec: TensorSpec
    leaf: ClassVar[str] = "tensor_match"
    cost: ClassVar[int] = 2

    def check(self, value: Any, call: Call) -> bool:
        return type(value) is self.spec.cls and mismatch(value, self.spec) is None

    def expected(self) -> str:
        spec = self.spec
        grad = ", requires_grad" if spec.requires_grad else ""
        return f"is a {spec.cls.__name__}({list(spec.sizes)}, strides {spec.strides}, {spec.dtype}, {spec.device}{grad})"

    def found(self, value: Any, call: Call) -> str:
        if value is MISSING or type(value) is not self.spec.cls:
            return super().found(value, call)
        return mismatch(value, self.spec) or "as expected"


def mismatch(value: Any, spec: TensorSpec) -> str | None:
    """The first difference between a tensor and a spec, as text."""
    for name in ("dtype", "device", "requires_grad", "layout"):
        if getattr(value, name) != getattr(spec, name):
            return f"{name} {getattr(value, name)}"
    if tuple(value.shape) != spec.sizes:
        return f"size {list(value.shape)}"
    if spec.strides is not None and tuple(value.stride()) != spec.strides:
        return f"strides {tuple(value.stride())}"
    if value.is_conj() != spec.conj or value.is_neg() != spec.neg:
        return "conjugate or negative bit"
    return None


@dataclass(frozen=True, eq=False)
class Same(Guard):
    """This path and another end at the same object."""

    other: Source
    leaf: ClassVar[str] = "same"
    cost: ClassVar[int] = 3

    def check(self, value: Any, call: Call) -> bool:
        return value is not MISSING and value is self.other.fetch(call)

    def expected(self) -> str:
        return f"is the same object as {self.other.describe()}"

    def found(self, value: Any, call: Call) -> str:
        return "another object"

    def key(self) -> Any:
        return id(self.other)


@dataclass(frozen=True, eq=False)
class Distinct(Guard):
    """No object in `others` is the object at `source` (a mutated object is not aliased by anything else observed)."""

    others: tuple[Source, ...]
    leaf: ClassVar[str] = "distinct"
    cost: ClassVar[int] = 4

    def check(self, value: Any, call: Call) -> bool:
        return all(value is not other.fetch(call) for other in self.others)

    def expected(self) -> str:
        return "is none of " + ", ".join(other.describe() for other in self.others[:6])

    def found(self, value: Any, call: Call) -> str:
        return "is " + next((o.describe() for o in self.others if o.fetch(call) is value), "none of them")

    def key(self) -> Any:
        return tuple(map(id, self.others))


@dataclass(frozen=True, eq=False)
class StorageAliasing(Guard):
    """Among `tensors` (graph inputs of which some are written to): which share a storage, and whether their bytes overlap.

    `groups[i]` numbers the storage of tensors[i] by first appearance; `offsets` are the storage offsets, in elements.
    source: the first of them.
    """

    tensors: tuple[Source, ...]
    groups: tuple[int, ...]
    offsets: tuple[int, ...]
    leaf: ClassVar[str] = "storage_aliasing"
    cost: ClassVar[int] = 5

    def check(self, value: Any, call: Call) -> bool:
        numbers: dict[int, int] = {}
        for source, group, offset in zip(self.tensors, self.groups, self.offsets, strict=True):
            tensor = source.fetch(call)
            storage = tensor.untyped_storage()._cdata
            if numbers.setdefault(storage, len(numbers)) != group or tensor.storage_offset() != offset:
                return False
        return True

    def expected(self) -> str:
        return "the tensors written to share storages as they did when traced"

    def found(self, value: Any, call: Call) -> str:
        return "they share storages otherwise"

    def key(self) -> Any:
        return (tuple(map(id, self.tensors)), self.groups, self.offsets)


@dataclass(frozen=True, eq=False)
class GlobalState(Guard):
    """torch's global modes, as `read()` gives them: a tuple of plain values that must be equal. source: the root.

    The C++ leaf checks grad mode, inference mode, the thread's dispatch-key include and exclude sets, and the rest natively
    where it can; the reader is the reference.
    """

    read: Any
    state: tuple[Any, ...]
    names: tuple[str, ...]
    leaf: ClassVar[str] = "global_state"
    cost: ClassVar[int] = 0

    def check(self, value: Any, call: Call) -> bool:
        return bool(self.read() == self.state)

    def expected(self) -> str:
        return "torch's global state is " + ", ".join(f"{n}={s!r}" for n, s in zip(self.names, self.state, strict=True))

    def found(self, value: Any, call: Call) -> str:
        now: Sequence[Any] = self.read()
        return ", ".join(f"{n}={b!r}" for n, a, b in zip(self.names, self.state, now, strict=True) if a != b)


KINDS: tuple[type[Guard], ...] = (
    TypeIs, ValueIs, Equals, Length, KeyAbsent, DictKeys, SetEquals, CodeIs, IsMissing, TensorMatch, Same, Distinct, StorageAliasing, GlobalState,
)  # fmt: skip
"""Every kind there is; the C++ side has one leaf for each `leaf` name."""
