"""Sources: the paths by which a compiled entry finds values of a call again. The sources of one trace are interned in a trie.

A source is a step from its base: `L['self']` -> its instance dict -> the item "weight". The trie of sources is the
skeleton of the guard tree: the same step is the same object, so guards on shared prefixes share the walk.
Every step runs C code of CPython only, never the user's Python; `fetch` is the reference that the C++ accessor of the
same name is tested against.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import field
from types import CellType, FunctionType, GetSetDescriptorType, MappingProxyType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, ClassVar

from framejit._runtime import referent
from framejit.errors import UserFrame
from framejit.program import classes
from framejit.program.naming import constant, name_of
from framejit.quick_dataclass import dataclass

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<missing>", "__slots__": ()})()
"""The result of `fetch` if the path ends early: there is no such key, a cell is empty, a slot is unset."""


UNMANAGED = (int, float, complex, str, bytes, type(None), list, tuple)


class Reference:
    """A reference to an object, which is weak if the object's type allows, so that guards don't keep the user's models and classes alive.

    Once the object is gone, the reference gives MISSING. A dict that is the globals of an imported module counts as gone when the module is.
    """

    __slots__ = ("strong", "weak", "module", "address")

    def __init__(self, value: Any, weakly: bool = True) -> None:
        self.address = id(value)
        self.strong: Any = value
        self.weak: weakref.ref[Any] | None = None
        self.module: weakref.ref[ModuleType] | None = None
        if type(value) is dict:
            module = module_of_globals(value)
            if module is not None:
                self.module, self.strong = weakref.ref(module), MISSING
        elif weakly and type(value) not in UNMANAGED:
            try:
                self.weak, self.strong = weakref.ref(value), MISSING
            except TypeError:
                self.weak, self.strong = None, value

    def get(self) -> Any:
        if self.weak is not None:
            found = self.weak()
            return MISSING if found is None else found
        if self.module is not None:
            module = self.module()
            return MISSING if module is None else module.__dict__
        return self.strong


def module_of_globals(namespace: dict[str, Any]) -> ModuleType | None:
    """The imported module whose globals these are."""
    name = namespace.get("__name__")
    module = sys.modules.get(name) if type(name) is str else None
    return module if isinstance(module, ModuleType) and object.__getattribute__(module, "__dict__") is namespace else None


@dataclass(slots=True)
class Call:
    """One call as a guard tree sees it: the raw argument slots (MISSING where unset) and the frame's function."""

    locals: tuple[Any, ...]
    function: FunctionType
    handled: BaseException | None = field(default_factory=sys.exception)
    """The exception that the caller is handling."""


Path = tuple[tuple[type["Source"], Any], ...]
"""A source as data: its steps from the root on, each as a pair of the kind and a key that tells it from others of that kind. Different traces that reach a
value in the same way have different sources for it, but equal paths. Objects in a path are ids: in a path that is kept, an id may be that of a later object.
"""
NO_CHILDREN: MappingProxyType[tuple[type[Source], Any], Source] = MappingProxyType({})


SOURCES: dict[str, type[Source]] = {}
"""All kinds of sources, by the names of their accessors."""


class Source:
    """A path to a value: one step from another path. Subclasses add the payload that tells siblings apart; equality is identity, thanks to interning.

    accessor: the name of the C++ accessor (guards/native), which takes the same step. form: the path as the user would write it, of the base's and the payload.
    """

    __slots__ = ("base", "payload", "children", "depth")
    accessor: ClassVar[str] = ""
    form: ClassVar[str] = ""
    is_data: ClassVar[bool] = False
    """True if the source leads to the data of a tensor."""
    is_new_each_time: ClassVar[bool] = False
    """True if each read makes a new object, so that no guard can check its identity."""
    needs_exact_type: ClassVar[bool] = False
    """True if the base's exact type must be guarded, because reading from another type could run the user's Python code."""

    def __init_subclass__(cls) -> None:
        if cls.accessor:
            SOURCES[cls.accessor] = cls

    def __init__(self, base: Source | None, payload: Any) -> None:
        self.base = base
        self.payload = payload
        self.depth: int = 0 if base is None else base.depth + 1
        self.children: dict[tuple[type[Source], Any], Source] = {}

    def child(self, kind: type[Source], payload: Any = None) -> Source:
        """The interned step `kind(payload)` from here; unhashable or equal-but-different payloads are keyed by identity."""
        key = (kind, kind.key(payload))
        found = self.children.get(key)
        if found is None:
            found = self.children[key] = kind(self, payload)
        return found

    def forget_children(self) -> None:
        """Take the trie below this source apart when its trace has ended, so that sources refer only towards the root, without cycles.

        No step can be added to it after that.
        """
        waiting = [self]
        while waiting:
            source = waiting.pop()
            waiting += source.children.values()
            source.children = NO_CHILDREN  # type: ignore[assignment]

    @staticmethod
    def key(payload: Any) -> Any:
        return payload

    def native(self) -> Any:
        """The payload of the C++ accessor."""
        return self.payload

    def step(self, value: Any) -> Any:
        """The value that this step reaches from `value`, or MISSING."""
        raise NotImplementedError

    def fetch(self, call: Call) -> Any:
        """The value of the whole path in `call`, or MISSING."""
        if self.base is None:
            return call
        value = self.base.fetch(call)
        return MISSING if value is MISSING else self.step(value)

    def own_key(self) -> Any:
        """A key that tells the step from other steps of the same kind from the same base."""
        return self.key(self.payload)

    def lookups(self) -> int:
        """Count the lookups of the path that need the result of another one: the length of the longest chain of them."""
        return 0 if self.base is None else self.base.lookups()

    def moved(self, places: Mapping[Source, Source]) -> Source:
        """This path with its beginning replaced: if it goes through a key of `places`, the result goes through that key's value instead."""
        found = places.get(self)
        if found is not None or self.base is None:
            return found or self
        base = self.base.moved(places)
        return self if base is self.base else base.child(type(self), self.payload)

    def path(self) -> Path:
        """The steps from the root on."""
        return () if self.base is None else (*self.base.path(), (type(self), self.own_key()))

    def text(self, of: Callable[[Source], str]) -> str:
        """The path as the user would write it; `of` gives the texts of those that it goes through."""
        return self.form.format("" if self.base is None else of(self.base), self.payload)

    def describe(self) -> str:
        """The path from the arguments of the frame on."""
        return self.text(Source.describe)

    def name_in_reports(self) -> str:
        """The path as reports name it. Values in the state of a resumed frame are named by the frame's variables."""
        root = self
        while root.base is not None:
            root = root.base
        assert isinstance(root, Root)
        name = root.names.get(self.path()) if root.names else None
        return self.text(Source.name_in_reports) if name is None else name

    def is_called(self, name: str) -> None:
        """Return whether reports use one of the program's names for the value that the path leads to."""
        root = self
        while root.base is not None:
            root = root.base
        assert isinstance(root, Root)
        root.names.setdefault(self.path(), name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.describe()}>"


def typed_key(payload: Any) -> Any:
    """A key together with its type, since keys that are equal but of different types (1, 1.0, True) must not share a step."""
    return (type(payload), payload)


class Root(Source):
    """The call itself, which is the trie's root; there is one for each trace. `names`: names for the values in a resumed frame's state."""

    __slots__ = ("names",)
    accessor = "root"
    form = "<call>"

    def __init__(self, names: Mapping[Path, str] | None = None) -> None:
        super().__init__(None, None)
        self.names = dict(names or {})


@dataclass(frozen=True, slots=True)
class Slot:
    """Payload of Local: which argument slot, and its name."""

    index: int
    name: str


class Local(Source):
    """An argument slot of the frame. Payload: Slot."""

    __slots__ = ()
    accessor = "local"

    def native(self) -> Any:
        return self.payload.index

    def step(self, value: Any) -> Any:
        return value.locals[self.payload.index]

    def text(self, of: Callable[[Source], str]) -> str:
        return self.payload.name


class FrameFunction(Source):
    """The function object of the frame."""

    __slots__ = ()
    accessor = "frame_function"
    form = "<function>"

    def step(self, value: Any) -> Any:
        return value.function


class HandledException(Source):
    """The exception that the caller is handling, as `sys.exception()` gives it: None if there is none."""

    __slots__ = ()
    accessor = "handled_exception"
    form = "sys.exception()"

    def step(self, value: Any) -> Any:
        return value.handled


class Pinned(Source):
    """An object that the guard tree itself knows: a module's globals, a class. Payload: the object, keyed by identity.

    A class, and the globals of an imported module, are held weakly: once they are gone the path ends here.
    """

    __slots__ = ("reference",)
    accessor = "pinned"

    def __init__(self, base: Source | None, payload: Any) -> None:
        self.reference = Reference(payload, weakly=issubclass(type(payload), type))
        super().__init__(base, None)

    @property
    def payload(self) -> Any:
        return self.reference.get()

    @payload.setter
    def payload(self, unused: None) -> None:
        """The base class sets it; the reference is what counts."""

    @staticmethod
    def key(payload: Any) -> Any:
        return id(payload)

    def own_key(self) -> Any:
        return self.reference.address

    def step(self, value: Any) -> Any:
        return self.payload

    def text(self, of: Callable[[Source], str]) -> str:
        if issubclass(type(self.payload), dict):
            name = dict.get(self.payload, "__name__")
            return f"globals of {name if type(name) is str else '?'}"
        return name_of(self.payload) or classes.name(type(self.payload))


class InstanceDict(Source):
    """`obj.__dict__` of an object with a dict (generic `__dict__`, PyObject_GenericGetDict without creating one)."""

    __slots__ = ()
    accessor = "instance_dict"
    form = "{0}.__dict__"

    def step(self, value: Any) -> Any:
        if issubclass(type(value), type):
            return MISSING
        for cls in classes.mro(type(value)):
            getter = classes.class_dict(cls).get("__dict__")
            if isinstance(getter, (GetSetDescriptorType, MemberDescriptorType)):
                return getter.__get__(value)
        return MISSING


SWITCHES: dict[tuple[str, str], str] = {}
"""Switches of libraries: variables that are True or False and that users know by another name. By module and name, this is the other name.

If framejit's own code reads such a variable, it must be added here.
"""


class Item(Source):
    """`d[key]` by PyDict_GetItem for a dict (or the dict part of a subclass). Payload: a constant key (str, int, ...)."""

    __slots__ = ()
    accessor = "item"

    @staticmethod
    def key(payload: Any) -> Any:
        return typed_key(payload)

    def step(self, value: Any) -> Any:
        return dict.get(value, self.payload, MISSING) if issubclass(type(value), dict) else MISSING

    @property
    def switch(self) -> str | None:
        """The name by which users know the variable that the source leads to, if it is one of SWITCHES."""
        namespace: Any = self.base.payload if isinstance(self.base, Pinned) else None
        return SWITCHES.get((str(namespace.get("__name__")), self.payload)) if issubclass(type(namespace), dict) else None

    def text(self, of: Callable[[Source], str]) -> str:
        base = self.base
        assert base is not None
        if isinstance(base, InstanceDict):
            assert base.base is not None
            return f"{of(base.base)}.{self.payload}"
        if isinstance(base, Pinned) and issubclass(type(base.payload), dict):
            return self.switch or str(self.payload)
        if isinstance(base, Item) and base.payload in ("_modules", "_parameters", "_buffers") and isinstance(base.base, InstanceDict):
            assert base.base.base is not None
            owner = of(base.base.base)
            return f"{owner}[{self.payload}]" if str(self.payload).isdigit() else f"{owner}.{self.payload}"
        return f"{of(base)}[{constant(self.payload)}]"


class Index(Source):
    """`seq[i]` of a list or tuple (or the list or tuple part of a subclass), 0 <= i."""

    __slots__ = ()
    accessor = "index"
    form = "{0}[{1}]"

    def step(self, value: Any) -> Any:
        if issubclass(type(value), tuple):
            return tuple.__getitem__(value, self.payload) if self.payload < tuple.__len__(value) else MISSING
        return list.__getitem__(value, self.payload) if issubclass(type(value), list) and self.payload < list.__len__(value) else MISSING


class SlotMember(Source):
    """A `__slots__` member. Payload: the member descriptor, whose type the base's type was checked to be.

    The class that has the slot is held weakly, and the descriptor found again in it, wherever it lies there by now: the name that it was made with may
    be another attribute's. `member` holds a descriptor that the class has lost.
    """

    __slots__ = ("owner", "name", "member")
    accessor = "slot_member"

    def __init__(self, base: Source | None, payload: MemberDescriptorType) -> None:
        self.owner = Reference(payload.__objclass__)
        self.name = payload.__name__
        self.member: Any = MISSING
        self.member = payload if self.payload is MISSING else MISSING
        super().__init__(base, None)

    @property
    def payload(self) -> Any:
        owner = self.owner.get()
        if owner is MISSING or self.member is not MISSING:
            return self.member
        attributes = classes.class_dict(owner)
        named = attributes.get(self.name, MISSING)
        return named if self.is_meant(named) else next(filter(self.is_meant, list(attributes.values())), MISSING)

    @payload.setter
    def payload(self, unused: None) -> None:
        """The base class sets it; owner and name are what counts."""

    def is_meant(self, found: Any) -> bool:
        """Return whether this is the descriptor: a class has one for each name of its slots."""
        return type(found) is MemberDescriptorType and found.__objclass__ is self.owner.get() and found.__name__ == self.name

    @staticmethod
    def key(payload: MemberDescriptorType) -> Any:
        return (id(payload.__objclass__), payload.__name__)

    def own_key(self) -> Any:
        return (self.owner.address, self.name)

    def step(self, value: Any) -> Any:
        try:
            return MISSING if self.payload is MISSING else self.payload.__get__(value)
        except (AttributeError, TypeError):
            return MISSING

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        return f"{of(self.base)}.{self.name}"


class CAttr(Source):
    """An attribute of a C type, computed by C code without side effects (`slice.start`, `partial.func`, `tensor.grad`).

    Payload: the name. Only for bases whose exact type is guarded and known to be safe; PyObject_GetAttr.
    """

    __slots__ = ()
    accessor = "c_attr"
    needs_exact_type = True

    def step(self, value: Any) -> Any:
        return getattr(value, self.payload, MISSING)

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        return f"{of(self.base)}'s self" if self.payload == "__self__" else f"{of(self.base)}.{self.payload}"


class TypeAttr(Source):
    """The attribute that _PyType_Lookup finds for a name on a class: the raw entry of the MRO, before any `__get__`. Payload: the name."""

    __slots__ = ()
    accessor = "type_attr"
    form = "{0}.{1}"

    def step(self, value: Any) -> Any:
        for cls in classes.mro(value) if issubclass(type(value), type) else ():
            if self.payload in classes.class_dict(cls):
                return classes.class_dict(cls)[self.payload]
        return MISSING


class OwnAttr(Source):
    """The attribute that a class defined by a program has itself, and doesn't inherit: the raw entry of its namespace. Payload: the name."""

    __slots__ = ()
    accessor = "own_attr"
    form = "vars({0})[{1!r}]"

    def step(self, value: Any) -> Any:
        is_class = issubclass(type(value), type) and classes.flags(value) & classes.HEAP_TYPE
        return classes.class_dict(value).get(self.payload, MISSING) if is_class else MISSING


class CellContents(Source):
    """The content of a cell."""

    __slots__ = ()
    accessor = "cell_contents"
    form = "{0}"

    def step(self, value: Any) -> Any:
        try:
            return value.cell_contents if type(value) is CellType else MISSING
        except ValueError:
            return MISSING


class ClosureCell(Source):
    """The i-th cell of a function's closure. Payload: Slot(index, name)."""

    __slots__ = ()
    accessor = "closure_cell"

    def native(self) -> Any:
        return self.payload.index

    def step(self, value: Any) -> Any:
        cells = value.__closure__ if type(value) is FunctionType else None
        return cells[self.payload.index] if cells is not None and self.payload.index < len(cells) else MISSING

    def text(self, of: Callable[[Source], str]) -> str:
        return self.payload.name


class FunctionField(Source):
    """A field of a function object. Payload: "code", "defaults", "kwdefaults", "globals", "closure" or "dict".

    None is MISSING, and so is an empty dict.
    """

    __slots__ = ()
    accessor = "function_field"
    form = "{0}.__{1}__"

    def step(self, value: Any) -> Any:
        if type(value) is not FunctionType:
            return MISSING
        found = getattr(value, f"__{self.payload}__")
        return MISSING if found is None or (self.payload == "dict" and not found) else found


class MethodField(Source):
    """A bound method's "function" or "self"."""

    __slots__ = ()
    accessor = "method_field"

    def step(self, value: Any) -> Any:
        if type(value) is not MethodType:
            return MISSING
        return value.__func__ if self.payload == "function" else value.__self__

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        return f"{of(self.base)}.__func__" if self.payload == "function" else f"{of(self.base)}'s self"


class Referent(Source):
    """The object that a weakref.ref, or one of a subclass, refers to; MISSING once it is gone."""

    __slots__ = ()
    accessor = "referent"
    form = "{0}()"

    def step(self, value: Any) -> Any:
        found = weakref.ref.__call__(value) if issubclass(type(value), weakref.ref) else None
        return MISSING if found is None else found


class Proxied(Source):
    """The object that a weak proxy refers to; MISSING once it is gone."""

    __slots__ = ()
    accessor = "proxied"
    form = "{0}"

    def step(self, value: Any) -> Any:
        found = referent(value) if type(value) in weakref.ProxyTypes else None
        return MISSING if found is None else found


@dataclass(frozen=True, slots=True)
class UserLine:
    """The line of the user's program that made a guard necessary."""

    filename: str
    lineno: int
    function: str
    columns: tuple[int | None, int | None, int | None] = field(default=(None, None, None), compare=False)
    """Last line, first and last column (UTF-8 bytes), as in `co_positions`."""
    caller: UserLine | None = field(default=None, compare=False)
    """If the line is in a library, the line of the program that led there."""

    def __str__(self) -> str:
        return f"{self.filename}:{self.lineno} in {self.function}"

    def render(self) -> str:
        """The line as a traceback entry, with the source text and carets, after that of the program's line that led there."""
        led_here = "" if self.caller is None else f"{self.caller.render()}\n"
        return led_here + UserFrame(self.filename, self.function, self.lineno, *self.columns).render()
