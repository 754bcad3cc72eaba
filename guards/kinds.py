"""The kinds of guards. Each is a frozen dataclass with a payload, a reference `check`, and texts that explain it.

The C++ leaf with the same `leaf` name must agree with `check(value, call)`. `value` is the value that the guard's source has fetched, or MISSING if
the path ended early, which only the kinds that say so accept. No check runs the user's Python code.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import field
from types import FunctionType
from typing import Any, ClassVar, Literal, NamedTuple

from framejit._runtime import stored_hashes
from framejit.guards.container_sources import ItemCount
from framejit.guards.source import MISSING, Call, Item, Path, Reference, Source, UserLine
from framejit.guards.tensor_spec import TensorSpec, differing_numbers, is_on_cpu, mismatch, numbers_in
from framejit.program import classes
from framejit.program.naming import constant, short, with_article
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, eq=False)
class Guard:
    """One fact about one call. Base class of all kinds.

    A kind declares its properties in its class; build.py and explain.py know no table of kinds.

    leaf: the name of the C++ leaf. compared: the name of the field that the value is compared with, if that is a constant. cost: orders siblings, so that
    guards which are cheap and likely to fail come first. exact_type: the guard holds only for values of one exact type. tells_type: the guard implies the
    type, so that a TypeIs beside it is superfluous. of_contents: the guard is about a value's contents, not about its identity or type. advice: how to avoid
    that the guard fails; None if there is no advice, or if it depends on the case (explain.py).
    """

    source: Source
    line: UserLine | None
    leaf: ClassVar[str] = ""
    compared: ClassVar[str] = ""
    cost: ClassVar[int] = 1
    exact_type: ClassVar[bool] = False
    tells_type: ClassVar[bool] = False
    of_contents: ClassVar[bool] = False
    advice: ClassVar[str | None] = None

    def native(self) -> Any:
        """The payload of the C++ leaf."""
        return getattr(self, self.compared) if self.compared else None

    def sources(self) -> tuple[Source, ...]:
        """The paths that the fact is about; the guard's own source comes first."""
        return (self.source,)

    def contents(self) -> tuple[Source, ...]:
        """The paths to the values whose contents the fact is about."""
        return (self.source,) if self.of_contents else ()

    def moved(self, to: Callable[[Source], Source]) -> Guard:
        """A guard of this kind, with the same payload, on the values at other paths. `to` maps each path to the one that replaces it."""
        found: Guard = object.__new__(type(self))
        fields = found.__dict__
        fields.update(self.__dict__)
        for name, value in self.__dict__.items():
            if isinstance(value, Source):
                fields[name] = to(value)
            elif type(value) is tuple and any(isinstance(part, Source) for part in value):
                fields[name] = tuple([to(part) if isinstance(part, Source) else part for part in value])
        return found

    def at(self, source: Source) -> Guard:
        """A guard of this kind, with the same payload, on the value at another path; for kinds that are about one path."""
        found: Guard = object.__new__(type(self))
        found.__dict__ = fields = self.__dict__.copy()
        fields["source"] = source
        return found

    def check(self, value: Any, call: Call) -> bool:
        raise NotImplementedError

    def expected(self) -> str:
        """The text of what the guard expects: "== 3", "is a dict"."""
        raise NotImplementedError

    def found(self, value: Any, call: Call) -> str:
        """The value that was found instead, as text."""
        return "missing" if value is MISSING else short(value)

    def key(self) -> Any:
        """A key for duplicates: two guards with the same source, class and key are the same guard."""
        return exact_key(getattr(self, self.compared)) if self.compared else None

    def differences(self, value: Any) -> tuple[Difference, ...]:
        """The numbers because of which the guard doesn't hold for a value, if nothing else differs."""
        return ()

    def varying(self, value: Any) -> Source | None:
        """If the guard doesn't hold for a value because of its number of items, or the data of a tensor, the source of that; otherwise None."""
        return None

    def change(self, call: Call) -> Change:
        """The change between calls for which the guard holds and a call for which it doesn't."""
        return Change(self.source.path(), type(self), self.differences(self.source.fetch(call)))


class Difference(NamedTuple):
    """A number that a guard expects, and the number in a call: a tensor's size or stride in a dimension, or the value itself, an int or a float."""

    what: Literal["size", "stride", "value"]
    dim: int
    before: int | float
    now: int | float

    def place(self, source: str) -> str:
        """The user's name for the number, made from the user's name for the value: `x.size(0)`."""
        return source if self.what == "value" else f"{source}.{self.what}({self.dim})"


@dataclass(frozen=True, slots=True)
class Change:
    """Something that differs between calls: a property of the value at a path that guards of one kind check, such as its identity or its length.

    numbers: the numbers that differ, if nothing else does. Two changes with different numbers are equal, so that they count against the same limit.
    """

    path: Path
    kind: type[Guard]
    numbers: tuple[Difference, ...] = field(default=(), compare=False)


def same_constant(a: Any, b: Any) -> bool:
    """Return whether two constants have the same exact type and value, also inside tuples and frozensets. 0.0 and -0.0 differ, and a NaN equals the same
    NaN."""
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return struct.pack("<d", a) == struct.pack("<d", b)
    if type(a) is complex:
        return struct.pack("<dd", a.real, a.imag) == struct.pack("<dd", b.real, b.imag)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same_constant, a, b))
    if isinstance(a, (set, frozenset)):
        return len(a) == len(b) and all(map(same_constant, in_order(a), in_order(b)))
    if type(a) is range:
        return (a.start, a.stop, a.step) == (b.start, b.stop, b.step)
    return bool(a == b)


def in_order(elements: Any) -> Any:
    """The elements of a set in the order of iteration, which depends on the history of the set: equal sets may differ in it."""
    return set.__iter__(elements) if isinstance(elements, set) else frozenset.__iter__(elements)


def exact_elements(elements: Any) -> set[Any]:
    """The elements of a set of constants, such that elements of different types differ, and so do 0.0 and -0.0, unlike in the set itself."""
    return {exact_key(element) for element in in_order(elements)}


def exact_key(value: Any) -> Any:
    """A hashable key that is equal for two values exactly if `same_constant` is true for them."""
    if type(value) is float:
        return (float, struct.pack("<d", value))
    if type(value) is complex:
        return (complex, struct.pack("<dd", value.real, value.imag))
    if issubclass(type(value), tuple):
        return (type(value), tuple(map(exact_key, value)))
    if issubclass(type(value), frozenset):
        return (type(value), frozenset(exact_elements(value)))
    return (type(value), value)


@dataclass(frozen=True, eq=False, init=False)
class OfObject(Guard):
    """A guard that compares with an object, which is held weakly if its type allows: once it is gone, the guard never holds again.
    Another object at the same address doesn't count."""

    reference: Reference
    cost: ClassVar[int] = 0
    exact_type: ClassVar[bool] = True

    def __init__(self, source: Source, line: UserLine | None, value: Any) -> None:
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "line", line)
        object.__setattr__(self, "reference", Reference(value))

    @property
    def value(self) -> Any:
        """The object, MISSING if it is gone."""
        return self.reference.get()

    def native(self) -> Any:
        return self.reference.get()

    def key(self) -> Any:
        return self.reference.address


@dataclass(frozen=True, eq=False, init=False)
class TypeIs(OfObject):
    """The value has this exact type."""

    leaf: ClassVar[str] = "type_is"
    advice: ClassVar[str | None] = "pass the same type on every call, or convert before the compiled function is called"

    def check(self, value: Any, call: Call) -> bool:
        return value is not MISSING and type(value) is self.value

    def expected(self) -> str:
        return f"is exactly {with_article('class that is gone' if self.value is MISSING else classes.qualname(self.value))}"


@dataclass(frozen=True, eq=False, init=False)
class ValueIs(OfObject):
    """The value is this object."""

    leaf: ClassVar[str] = "value_is"
    tells_type: ClassVar[bool] = True
    advice: ClassVar[str | None] = "make the object once and pass the same one, instead of making an equal one for each call"

    def check(self, value: Any, call: Call) -> bool:
        return value is not MISSING and value is self.value

    def expected(self) -> str:
        return f"is the same object ({short(self.value)})"


@dataclass(frozen=True, eq=False, init=False)
class AddressIs(ValueIs):
    """The value is this object. The program used its address: as a number, in a text, or as a key of a table that the trace only reads."""

    of_contents: ClassVar[bool] = True


def is_switch(source: Source) -> bool:
    """Return whether the source is a switch of a library, a variable that is True or False, for which users have another name."""
    return isinstance(source, Item) and source.switch is not None


@dataclass(frozen=True, eq=False)
class Equals(Guard):
    """The value has the same exact type and equals this one: an int, float, complex, bool, str, bytes, range, torch.Size, a tuple or frozenset of such values,
    or a value of another type whose `==` is C code.
    """

    value: Any
    leaf: ClassVar[str] = "equals"
    compared: ClassVar[str] = "value"
    exact_type: ClassVar[bool] = True
    tells_type: ClassVar[bool] = True
    of_contents: ClassVar[bool] = True

    def check(self, value: Any, call: Call) -> bool:
        return same_constant(value, self.value)

    def expected(self) -> str:
        return f"== {short(self.value)}" if not is_switch(self.source) else "is on" if self.value else "is off"

    def found(self, value: Any, call: Call) -> str:
        return super().found(value, call) if value is MISSING or not is_switch(self.source) else "on" if value else "off"

    def differences(self, value: Any) -> tuple[Difference, ...]:
        is_number = type(value) in (int, float) and type(value) is type(self.value) and not same_constant(value, self.value)
        return (Difference("value", 0, self.value, value),) if is_number else ()

    def key(self) -> Any:
        return exact_key(self.value) if isinstance(self.value, (int, tuple, frozenset)) else (type(self.value), repr(self.value))


@dataclass(frozen=True, eq=False)
class DataEquals(Equals):
    """The data of a small tensor is this, as bytes. `numbers`: the same as text."""

    numbers: str
    leaf: ClassVar[str] = "data_equals"

    def expected(self) -> str:
        return f"is {self.numbers}"

    def found(self, value: Any, call: Call) -> str:
        tensor = MISSING if self.source.base is None else self.source.base.fetch(call)
        return numbers_in(tensor) if is_on_cpu(tensor) else super().found(value, call)

    def varying(self, value: Any) -> Source | None:
        return self.source if value != self.value else None


HOOKS_EARLY = "register hooks before the first call, and leave them in place; each number of hooks is compiled once"
"""The advice about guards on hooks of modules."""
SIZED: tuple[Any, ...] = (list, tuple, dict, set, frozenset, deque, str, bytes)


def builtin_length(value: Any) -> int | None:
    """The length of a value by the builtin type's own `__len__`; None if the value isn't of such a type."""
    for cls in SIZED:
        if issubclass(type(value), cls):
            return cls.__len__(value)  # type: ignore[no-any-return]
    return None


@dataclass(frozen=True, eq=False)
class Length(Guard):
    """The number of items of a list, tuple, dict, set, frozenset, deque, str or bytes (or that part of a subclass), by the C slot
    of the builtin type."""

    length: int
    leaf: ClassVar[str] = "length"
    compared: ClassVar[str] = "length"
    of_contents: ClassVar[bool] = True
    advice: ClassVar[str | None] = "keep the number of items the same on every call, or pass the items as one tensor"

    def check(self, value: Any, call: Call) -> bool:
        return builtin_length(value) == self.length

    def varying(self, value: Any) -> Source | None:
        return ItemCount(self.source, 0) if type(value) in (list, deque) and len(value) != self.length else None

    def expected(self) -> str:
        return f"has length {self.length}"

    def found(self, value: Any, call: Call) -> str:
        length = builtin_length(value)
        return super().found(value, call) if length is None else f"length {length}"


@dataclass(frozen=True, eq=False)
class KeyAbsent(Guard):
    """A dict doesn't have this (constant) key. This is also true of a MISSING dict."""

    name: Any
    leaf: ClassVar[str] = "key_absent"
    compared: ClassVar[str] = "name"
    of_contents: ClassVar[bool] = True
    advice: ClassVar[str | None] = "set the attribute or key before the first call, so that it is there on every call"

    def check(self, value: Any, call: Call) -> bool:
        return value is MISSING or (issubclass(type(value), dict) and not dict.__contains__(value, self.name))

    def expected(self) -> str:
        return f"has no key {constant(self.name)}"

    def found(self, value: Any, call: Call) -> str:
        return f"has key {constant(self.name)}"


def keys_in_order(value: dict[Any, Any]) -> tuple[Any, ...]:
    """The keys of a dict in the order of the builtin type."""
    return tuple(OrderedDict.__iter__(value) if issubclass(type(value), OrderedDict) else dict.__iter__(value))


@dataclass(frozen=True, eq=False)
class ItemsEmpty(Guard):
    """A dict has, at each of these keys, which are strings, an OrderedDict without items: one guard for all hooks of a module."""

    names: tuple[str, ...]
    leaf: ClassVar[str] = "items_empty"
    compared: ClassVar[str] = "names"
    of_contents: ClassVar[bool] = True
    advice: ClassVar[str | None] = HOOKS_EARLY

    def check(self, value: Any, call: Call) -> bool:
        return issubclass(type(value), dict) and all(map(is_empty, values_at(value, self.names)))

    def expected(self) -> str:
        return f"has nothing in {', '.join(self.names)}"

    def found(self, value: Any, call: Call) -> str:
        if not issubclass(type(value), dict):
            return super().found(value, call)
        return ", ".join(found_at(name, item) for name, item in zip(self.names, values_at(value, self.names)) if not is_empty(item))

    def contents(self) -> tuple[Source, ...]:
        return tuple([Item(self.source, name) for name in self.names])

    def change(self, call: Call) -> Change:
        differing = next((source for source in self.contents() if not is_empty(source.fetch(call))), self.source)
        return Change(differing.path(), Length)


def values_at(holder: dict[Any, Any], names: tuple[str, ...]) -> list[Any]:
    """The values that a dict has at these keys; MISSING for keys that aren't there."""
    return [dict.get(holder, name, MISSING) for name in names]


def found_at(name: str, item: Any) -> str:
    """The text about a value at a key that isn't an OrderedDict without items."""
    if item is MISSING:
        return f"no {name}"
    return f"something in {name}" if type(item) is OrderedDict else f"{short(item)} as {name}"


def is_empty(value: Any) -> bool:
    """Return whether a value is an OrderedDict without items."""
    return type(value) is OrderedDict and dict.__len__(value) == 0


@dataclass(frozen=True, eq=False)
class DictKeys(Guard):
    """A dict has these keys, which are constants, in this order; for an OrderedDict, in its own order."""

    keys: tuple[Any, ...]
    leaf: ClassVar[str] = "dict_keys"
    compared: ClassVar[str] = "keys"
    cost: ClassVar[int] = 2
    of_contents: ClassVar[bool] = True
    advice: ClassVar[str | None] = "pass the same keys in the same order on every call"

    def check(self, value: Any, call: Call) -> bool:
        return issubclass(type(value), dict) and same_constant(keys_in_order(value), self.keys)

    def expected(self) -> str:
        return f"has the keys [{', '.join(map(constant, self.keys)):.98}]"

    def found(self, value: Any, call: Call) -> str:
        if not issubclass(type(value), dict):
            return super().found(value, call)
        return "keys " + ", ".join(map(short, keys_in_order(value)[:20]))


@dataclass(frozen=True, eq=False)
class InOrderOfDict(Guard):
    """An OrderedDict has so many items, its keys are constants, and its own order is that of the underlying dict: it hasn't been reordered."""

    length: int
    leaf: ClassVar[str] = "in_order_of_dict"
    compared: ClassVar[str] = "length"
    cost: ClassVar[int] = 2
    of_contents: ClassVar[bool] = True
    advice: ClassVar[str | None] = HOOKS_EARLY

    def check(self, value: Any, call: Call) -> bool:
        if not issubclass(type(value), OrderedDict) or dict.__len__(value) != self.length:
            return False
        return same_constant(keys_in_order(value), tuple(dict.keys(value)))

    def expected(self) -> str:
        return f"has {self.length} item{'' if self.length == 1 else 's'}, in the order in which they came in"

    def found(self, value: Any, call: Call) -> str:
        return f"so many: {dict.__len__(value)}" if issubclass(type(value), OrderedDict) else super().found(value, call)


@dataclass(frozen=True, eq=False)
class StoredHashes(Guard):
    """The table of a dict or set has these hashes of its keys or elements, in the order of iteration; None stands for any. They are what `__hash__` returned
    when these were put in, and are not asked for again, even if a key has changed since."""

    hashes: tuple[int | None, ...]
    leaf: ClassVar[str] = "stored_hashes"
    compared: ClassVar[str] = "hashes"
    cost: ClassVar[int] = 2
    of_contents: ClassVar[bool] = True
    advice: ClassVar[str | None] = "leave objects as they are while they are keys of a dict or elements of a set"

    def check(self, value: Any, call: Call) -> bool:
        if not issubclass(type(value), (dict, set, frozenset)):
            return False
        found = stored_hashes(value)
        return len(found) == len(self.hashes) and all(expected is None or expected == hash_ for expected, hash_ in zip(self.hashes, found))

    def expected(self) -> str:
        return "has keys whose hashes are still those with which they were put in"


def places_in_copy(value: Any) -> tuple[int, ...] | None:
    """The places that the elements of a set or frozenset have in its order, in the order in which a copy goes through them; None for other types."""
    if type(value) not in (set, frozenset):
        return None
    places = {id(element): place for place, element in enumerate(value)}
    return tuple([places[id(element)] for element in set(value)])


@dataclass(frozen=True, eq=False)
class OrderOfCopy(Guard):
    """A copy of an exact set or frozenset goes through its elements in this order, given by their places in the order of the set itself. The two orders differ
    if the set's table has another size than a new one, or places of elements that were taken out."""

    places: tuple[int, ...]
    leaf: ClassVar[str] = "order_of_copy"
    compared: ClassVar[str] = "places"
    cost: ClassVar[int] = 3
    of_contents: ClassVar[bool] = True
    advice: ClassVar[str | None] = "keep the objects in a list or in the keys of a dict, whose order is that in which they were put in"

    def check(self, value: Any, call: Call) -> bool:
        return places_in_copy(value) == self.places

    def expected(self) -> str:
        return "has elements in such an order that a copy goes through them in the same order as before"


def not_kept_alive(element: Any) -> Any:
    """A weak reference to an element of a set that is compared by identity; another element itself."""
    reference = Reference(element)
    return element if reference.weak is None or type(element) is frozenset else reference


def is_element(element: Any, part: Any) -> bool:
    """Return whether an element is the one that `not_kept_alive` gave `part` for."""
    return element is part.get() if type(part) is Reference else same_constant(element, part)


@dataclass(frozen=True, eq=False, init=False)
class SetEquals(Guard):
    """A set or frozenset has exactly these elements, in this order of iteration. They are constants, or objects that are compared by identity (classes,
    functions), which the guard doesn't keep alive."""

    references: tuple[Any, ...]
    leaf: ClassVar[str] = "set_equals"
    cost: ClassVar[int] = 3
    of_contents: ClassVar[bool] = True
    advice: ClassVar[str | None] = "pass a set with the same elements on every call, made in the same way"

    def __init__(self, source: Source, line: UserLine | None, elements: tuple[Any, ...]) -> None:
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "line", line)
        object.__setattr__(self, "references", tuple(map(not_kept_alive, elements)))

    @property
    def elements(self) -> tuple[Any, ...]:
        """The elements, MISSING in the place of one that is gone."""
        return tuple([part.get() if type(part) is Reference else part for part in self.references])

    def native(self) -> Any:
        found = self.elements
        return MISSING if any(element is MISSING for element in found) else found

    def key(self) -> Any:
        return exact_key(tuple([part.address if type(part) is Reference else (part,) for part in self.references]))

    def check(self, value: Any, call: Call) -> bool:
        return issubclass(type(value), (set, frozenset)) and len(value) == len(self.references) and all(map(is_element, in_order(value), self.references))

    def expected(self) -> str:
        return f"has the elements {constant(self.elements):.100}"


@dataclass(frozen=True, eq=False, init=False)
class CodeIs(OfObject):
    """The value is an exact Python function with this code object."""

    leaf: ClassVar[str] = "code_is"
    tells_type: ClassVar[bool] = True
    advice: ClassVar[str | None] = "define the function once, outside of what makes a new one for each call"

    def check(self, value: Any, call: Call) -> bool:
        return type(value) is FunctionType and value.__code__ is self.value

    def expected(self) -> str:
        return f"is a function with the code of {getattr(self.value, 'co_qualname', 'a function that is gone')}"


@dataclass(frozen=True, eq=False)
class IsMissing(Guard):
    """The path ends early: an empty cell, an unset slot, a function without defaults, a class without such an attribute."""

    leaf: ClassVar[str] = "is_missing"
    advice: ClassVar[str | None] = "set it before the first call, or never"

    def check(self, value: Any, call: Call) -> bool:
        return value is MISSING

    def expected(self) -> str:
        return "is not set"


@dataclass(frozen=True, eq=False)
class IsPresent(Guard):
    """The path doesn't end early: an iterator isn't exhausted."""

    leaf: ClassVar[str] = "is_present"
    advice: ClassVar[str | None] = "set it on every call or never; a loop that ends earlier than on the first call is compiled once more"

    def check(self, value: Any, call: Call) -> bool:
        return value is not MISSING

    def expected(self) -> str:
        return "is there"


@dataclass(frozen=True, eq=False)
class TensorMatch(Guard):
    """The value is a tensor of this exact Python type and with this metadata. A size or stride of None accepts any number."""

    spec: TensorSpec
    leaf: ClassVar[str] = "tensor_match"
    cost: ClassVar[int] = 2
    exact_type: ClassVar[bool] = True
    tells_type: ClassVar[bool] = True
    of_contents: ClassVar[bool] = True

    def native(self) -> Any:
        return self.spec.native()

    def check(self, value: Any, call: Call) -> bool:
        return type(value) is self.spec.cls and mismatch(value, self.spec) is None

    def expected(self) -> str:
        spec = self.spec
        grad = ", requires_grad" if spec.requires_grad else ""
        if spec.sizes is None:
            return f"is a {classes.name(spec.cls)}({spec.dtype}, {spec.device}{grad})"
        sizes = ", ".join("any" if size is None else str(size) for size in spec.sizes)
        strides = "" if spec.strides is None else f"strides ({', '.join('any' if stride is None else str(stride) for stride in spec.strides)}"
        ending = "" if spec.strides is None else ",), " if len(spec.strides) == 1 else "), "
        return f"is a {classes.name(spec.cls)}([{sizes}], {strides}{ending}{spec.dtype}, {spec.device}{grad})"

    def found(self, value: Any, call: Call) -> str:
        if value is MISSING or type(value) is not self.spec.cls:
            return super().found(value, call)
        difference = mismatch(value, self.spec)
        return "as expected" if difference is None else difference[1]

    def differences(self, value: Any) -> tuple[Difference, ...]:
        if value is MISSING or type(value) is not self.spec.cls:
            return ()
        return tuple(Difference(*number) for number in differing_numbers(value, self.spec))

    def key(self) -> Any:
        return self.spec
