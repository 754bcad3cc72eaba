"""The base of the object model: the trace's knowledge of one Python value, with CPython's generic slots; and the VM and Codegen that Objects use.

Conventions
- An `Object` stands for exactly one Python value of exact type `cls`. Identity of Objects is identity of values:
  two Objects never stand for the same mutable value, so `a is b` on Objects answers Python's `is` (constants apart).
- `source` is the path by which a value that exists outside the trace is found in a call; None means that the trace made it.
- A value that came from outside starts as a `LazyObject`: nothing is known about it and nothing is guarded. `vm.observe`
  turns it into the Object of its type and emits the guard for that. Whatever an Object is asked beyond its type (a value,
  a length, a key), it guards itself, the moment it answers.
- Every mutation of an Object's state goes through `vm.trail`, so that it can be undone, and, where the Object has a
  source, is announced with `vm.effects.mutated(self)`, so that it is replayed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, MemberDescriptorType, WrapperDescriptorType
from typing import Any, ClassVar, NoReturn, Protocol

from framejit import breaks
from framejit._runtime import type_name
from framejit.errors import CHECK_FAILED
from framejit.guards.kinds import IsMissing, TypeIs
from framejit.guards.source import MISSING, CAttr, InstanceDict, Path, SlotMember, Source
from framejit.objects.core import differences, wording
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.naming import callable_name
from framejit.objects.core.vm import Classes, CodeWriter, Record, Running, Stopping, Values
from framejit.plain import support
from framejit.program import classes
from framejit.program.naming import with_article
from framejit.quick_dataclass import dataclass

NUMBERS_OF_FIXED_HASH = frozenset({int, float, bool, complex})
"""Types whose values have the same hash in all processes."""
FOLDABLE: frozenset[type] = frozenset({int, float, bool, str, bytes, complex, type(None), type(...), type(NotImplemented), range})
"""Types whose operators are C code without side effects: those on constants of them are computed at once."""


class Object:
    """A Python value. `value` is the real object if there is one (constants, values with a source), else MISSING."""

    __slots__ = ("cls", "source", "value", "attrs")
    replays_first: ClassVar[bool] = False
    """True if changes of such an Object are replayed before those of others: an iterator's steps were taken before its sequence was changed."""
    guarded_by_name: ClassVar[bool] = False
    """True if observing such an Object guards its name and its owner, not its identity: a bound method in C is a new one on each access."""

    depends_on_data: ClassVar[bool] = False
    """True if the value's truth may depend on the data of tensors."""

    is_true: ClassVar[bool] = False
    """True if all values of the type are true."""

    has_dict: ClassVar[bool] = False
    """True if values may have a `__dict__`, which is made when it is first asked for."""

    is_filled: ClassVar[bool] = False
    """True if each value is created empty and then filled (mutable, possibly cyclic)."""

    is_stand_in: ClassVar[bool] = False
    """True if `value` only stands, while tracing, for an object that the trace makes."""

    is_address: ClassVar[bool] = False
    """True if the value is the address of a tensor's data, which is its own hash key although numbers may be equal to it."""

    def __init__(self, cls: type, source: Source | None = None, value: Any = MISSING) -> None:
        self.cls = cls
        self.source = source
        self.value = value
        self.attrs: Namespace | None = None

    # What the value is.

    @property
    def type_name(self) -> str:
        """The name of its class in the interpreter's messages."""
        return type_name(self.cls)

    @property
    def name_when_called(self) -> str:
        """A short text for messages about a call: the qualified name of a function or class, else the type."""
        is_called = self.value is not MISSING and callable(self.value)
        return callable_name(self.value) if is_called else f"a {classes.qualname(self.cls)}"

    def is_known(self) -> bool:
        """Return whether the value is a constant that the trace depends on already, or has made itself: asking for it specialises nothing."""
        return self.is_knowable()

    def is_knowable(self) -> bool:
        """Return whether `constant` would answer. Calling that may specialise: the entry then depends on the value. This guards nothing."""
        return False

    def is_symbolic(self, vm: VM) -> bool:
        """Return whether it is a symbolic number, or a tuple with one: asking for its constant makes the entry hold for this value only."""
        return False

    def constant(self, vm: VM) -> Any:
        """The value as a real, immutable Python object; guards it if it came from outside. Breaks if there is none."""
        raise NotConstant(self)

    def hash_key(self, vm: VM) -> Any:
        """The value's representative as a dict key or set element: a real constant, or this Object for types that hash by identity."""
        if self.is_knowable():
            return self.constant(vm)
        return self.identity_key(vm)

    def address_key(self, vm: VM, others: Iterable[Object]) -> AddressKey | None:
        """The hash key of a result of id() whose number nobody has asked for, in a dict with these other keys, which are all such. None if the number matters,
        and for other values."""
        return None

    def identity_key(self, vm: VM) -> Any:
        """`hash_key` of a value that hashes by identity; vm checks that its class really does."""
        return vm.identity_key(self)

    def instance_dict(self, vm: VM) -> Namespace | None:
        """The instance `__dict__`, if values of this type have one."""
        if self.has_dict and self.attrs is None:
            vm.trail.fill(self, "attrs", vm.instance_dict_of(self))
        return self.attrs

    def instance_dict_as_value(self, vm: VM) -> Namespace | None:
        """The instance `__dict__` for a program that asks for it by this name, and may keep it."""
        return self.instance_dict(vm)

    def replaced(self) -> list[tuple[Source, Object]]:
        """The paths at which the trace has stored other values, for a value from outside that holds others: each path with the value."""
        return []

    def is_generator(self) -> bool:
        """Return whether this is a generator of the trace, which the interpreter resumes."""
        return False

    def as_real(self, vm: VM) -> Any:
        """The value as an argument of a pure C function: a constant, or a fresh list, dict or set of constants. Raises NotConstant if it is none."""
        return self.constant(vm)

    def check_identity(self, vm: VM, other: Object) -> None:
        """Break if the value may be the same object as another value of its type for which there is another Object."""

    def share_dict(self, vm: VM, namespace: Object) -> bool:
        """Set the instance `__dict__` to a dict that other objects may hold too. False if that can't be traced."""
        return False

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        """Read a member descriptor; raises the traced AttributeError if it is unset."""
        if self.source is None:
            if self.is_knowable():
                return vm.from_real(member.__get__(self.constant(vm)))
            raise NotConstant(self)
        source = member_source(vm, self, self.source, member)
        try:
            return vm.wrap(member.__get__(self.value), source)
        except AttributeError as error:
            vm.guard(IsMissing, source)
            vm.raise_(AttributeError, *error.args)

    def set_slot(self, vm: VM, member: MemberDescriptorType, value: Object | None) -> None:
        """Store to a member descriptor; None deletes."""
        raise NotConstant(self)

    # What can be done with it. The defaults are CPython's generic slots; a type with C slots of its own overrides them.

    def asked_for(self, vm: VM, obj: Object, name: str) -> None:
        """An exception has left the attribute look-up of `name` on `obj`: an AttributeError notes this."""

    def getattr(self, vm: VM, name: str) -> Object:
        """tp_getattro. Raises the traced AttributeError."""
        return generic_getattr(vm, self, name)

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        """tp_setattro; None deletes."""
        generic_setattr(vm, self, name, value)

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        """tp_call. `delivery`: how the returned value becomes the result of the program's instruction; None if other code uses it first."""
        method = vm.type_lookup(self.cls, "__call__")
        if method is None:
            vm.raise_(TypeError, f"'{self.type_name}' object is not callable")
        return method.call_as_method(vm, self, args, kwargs, delivery)

    def iter(self, vm: VM) -> Object:
        """tp_iter, as PyObject_GetIter calls it."""
        if vm.raw_type_lookup(self.cls, "__iter__") is None:
            vm.raise_(TypeError, f"'{self.type_name}' object is not iterable")
        found = call_found_special(vm, self, "__iter__")
        if found is not None:
            found = vm.observe(found)
            if vm.raw_type_lookup(found.cls, "__next__") is MISSING:
                wrong_result(vm, self, "__iter__", "an iterator", found, f"iter() returned non-iterator of type '{found.type_name}'")
            return found
        by_number = vm.raw_type_lookup(self.cls, "__getitem__")
        if type(by_number) is WrapperDescriptorType:
            # Only C code can see whether its type is a sequence's.
            vm.unsupported(breaks.UnsupportedOperation(f"iterating over a {classes.qualname(self.cls)}, which has items, but no __iter__"))
        if by_number is not MISSING:
            return vm.call_app(support.iterator_by_number, [self])
        vm.raise_(TypeError, f"'{self.type_name}' object is not iterable")

    def next(self, vm: VM) -> Object | None:
        """tp_iternext: None when exhausted."""
        try:
            found = call_special(vm, self, "__next__")
        except Raise as raised:
            if issubclass(raised.exc.cls, StopIteration):
                drop_end(vm, raised.exc)
                return None
            raise
        if found is None:
            vm.raise_(TypeError, f"'{self.type_name}' object is not an iterator")
        return found

    def truth(self, vm: VM) -> bool:
        """nb_bool, else length, else True. Breaks if it depends on tensor data."""
        if self.is_true:
            return True
        if self.cls in FOLDABLE and self.is_knowable():
            return bool(self.constant(vm))
        found = call_special(vm, self, "__bool__")
        if found is not None:
            found = vm.observe(found)
            if found.cls is not bool:
                wrong_result(vm, self, "__bool__", "a bool", found, f"__bool__ should return bool, returned {found.type_name}")
            return bool(found.constant(vm))
        if vm.raw_type_lookup(self.cls, "__len__") is not MISSING:
            return bool(Object.length(self, vm).constant(vm))
        if self.value is not MISSING and not classes.is_subtype(type(self.value), self.cls):
            vm.unsupported(breaks.UnsupportedValue(f"the truth of {self!r}"))
        return True

    def check_truth(self, vm: VM, expected: bool, message: str = CHECK_FAILED) -> bool:
        """Have the graph check that its truth is as expected; False if it doesn't depend on data, or that can't be in the graph."""
        return False

    def length(self, vm: VM) -> Object:
        """sq_length or mp_length."""
        if self.cls in FOLDABLE and self.is_knowable():
            return fold(vm, len, self.constant(vm))
        found = call_special(vm, self, "__len__")
        if found is None:
            vm.raise_(TypeError, f"object of type '{self.type_name}' has no len()")
        found = vm.observe(found)
        if not issubclass(found.cls, int):
            vm.raise_(TypeError, f"'{found.type_name}' object cannot be interpreted as an integer")
        if found.cls is int and not found.is_known():
            is_negative = found.compare(vm, "<", vm.const(0), False)
            if is_negative is not None and not is_negative.truth(vm):
                return found
        count = int(found.constant(vm))
        if count < 0:
            vm.raise_(ValueError, "__len__() should return >= 0")
        if count > sys.maxsize:
            vm.raise_(OverflowError, "cannot fit 'int' into an index-sized integer")
        return vm.const(count)

    def length_hint(self, vm: VM) -> int | None:
        """`__length_hint__` in C: how many items an iterator of the trace has left, if that is known without stepping."""
        return None

    # Its behaviour as a class attribute. The defaults follow the class's `__get__` and `__set__`, as for any object.

    def is_data_descriptor(self, vm: VM) -> bool:
        """PyDescr_IsData."""
        return vm.raw_type_lookup(self.cls, "__set__") is not MISSING or vm.raw_type_lookup(self.cls, "__delete__") is not MISSING

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type, delivery: Delivery | None = None) -> Object:
        """tp_descr_get: the result of reading this class attribute through `obj` (None: through the class)."""
        method = vm.type_lookup(self.cls, "__get__")
        if method is None:
            return self
        args = [vm.const(None) if obj is None else obj, vm.const(cls)]
        if method.cls in (FunctionType, WrapperDescriptorType):
            return method.call_as_method(vm, self, args, None, delivery)
        if vm.raw_type_lookup(method.cls, "__call__") is MISSING:
            vm.raise_(TypeError, f"'{method.type_name}' object is not callable")
        return method.call(vm, [self, *args], {}, delivery)  # slot_tp_descr_get doesn't bind it

    def descriptor_set(self, vm: VM, obj: Object, value: Object | None, delivery: Delivery | None = None) -> bool:
        """tp_descr_set: store (None: delete) through this class attribute; False if it is no data descriptor."""
        wanted, other = ("__delete__", "__set__") if value is None else ("__set__", "__delete__")
        method = vm.type_lookup(self.cls, wanted)
        if method is None:
            if vm.raw_type_lookup(self.cls, other) is not MISSING:  # slot_tp_descr_set
                vm.raise_(AttributeError, wanted)
            return False
        method.call_as_method(vm, self, [obj] if value is None else [obj, value], None, delivery)
        return True

    def call_as_method(
        self, vm: VM, receiver: Object, args: list[Object], kwargs: dict[str, Object] | None = None, delivery: Delivery | None = None
    ) -> Object:
        """Call this class attribute on an instance: bind and call in one step."""
        bound = vm.observe(self.descriptor_get(vm, receiver, receiver.cls))
        return bound.call(vm, args, kwargs or {}, delivery)

    # Operators, for types with C slots that bypass their class's attributes (tensors, deferred numbers). None: not handled here.

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        """nb_negative and its kind."""
        return None

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        """`self symbol other`, or `other symbol self` if reflected; symbol as in the source: "+", "@", "+=" ..."""
        return None

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        """tp_richcompare: symbol as in the source; reflected as in `binary_op`."""
        return None

    def getitem(self, vm: VM, key: Object) -> Object | None:
        """mp_subscript."""
        return None

    def setitem(self, vm: VM, key: Object, value: Object | None) -> bool:
        """mp_ass_subscript; None deletes. False: not handled here."""
        return False

    def contains(self, vm: VM, item: Object) -> Object | None:
        """sq_contains."""
        return None

    # How it leaves the trace.

    def as_graph_argument(self, vm: VM) -> Any:
        """The value as an argument of an FX node: fx.Node, constant, or list/tuple/dict/slice of such. Breaks if it can't be one."""
        return self.constant(vm)

    def reconstruct(self, cg: Codegen) -> None:
        """Emit code that leaves the value on the stack. Only called for values without a source, once each: the caller memoizes.

        Mutable values emit their creation here and fill themselves in `fill`, so that cycles work.
        """
        if self.is_known():
            cg.load_const(self.value)
            return
        raise NotConstant(self)

    def fill(self, cg: Codegen) -> None:
        """Emit the second half of `reconstruct`: the value exists, so put its contents in. Default: nothing."""

    def needs_fill(self) -> bool:
        """Return whether the value is created empty and then filled."""
        return self.is_filled

    def awaits(self) -> Object | None:
        """The value whose contents must be complete before this one is created, because creating it reads them."""
        return None

    def replay(self, cg: Codegen) -> None:
        """Emit the mutations of a value with a source, in order. Called once for each value announced to vm.effects."""

    def referents(self) -> list[Object]:
        """The Objects that this value, made by the trace, refers to: those that `reconstruct`, `fill` and (with a source) `replay` will load."""
        return []

    def held_values(self) -> Iterator[tuple[Path, Object]]:
        """The values that this value, made by the trace, holds, each after its path from here in guards of a resume function. By default, its attributes."""
        return iter(()) if self.attrs is None else ((((InstanceDict, None), *path), part) for path, part in self.attrs.held_values())

    def __repr__(self) -> str:
        """The value's name in reports: its place in the program, and its type."""
        kind = with_article(classes.qualname(self.cls))
        return kind if self.source is None else f"{self.source.name_in_reports()} ({kind})"


@dataclass(frozen=True, slots=True)
class AddressKey:
    """The hash key of an address whose number doesn't matter. `owner`: the Object whose address it is, or the number, which isn't guarded."""

    owner: Any


class Namespace(Object):
    """A dict of names: a function's globals, an instance's `__dict__`. It is a DictObject; this class declares what other files need of it.

    `entries`: the known contents, by key: the key and the value. `stores`: what the trace has stored.
    """

    __slots__ = ()
    entries: dict[Any, tuple[Object, Object]]
    stores: dict[Any, tuple[Object, Object]]

    def lookup(self, vm: VM, name: Any) -> Object | None:
        """The value of a plain constant key; None if it is missing. Guards that key only."""
        raise NotImplementedError

    def store(self, vm: VM, name: Any, value: Object) -> None:
        """Set the value of a plain constant key."""
        raise NotImplementedError

    def delete(self, vm: VM, name: Any) -> bool:
        """Remove a plain constant key; False if it is missing."""
        raise NotImplementedError

    def open(self, vm: VM) -> dict[Any, tuple[Object, Object]]:
        """The whole content, in order; guards all keys and their order the first time."""
        raise NotImplementedError


class VM(Record[Object], Values[Object], Classes[Object], Running[Object], Stopping, Protocol):
    """One trace: of one frame and everything it calls. Not shared between threads."""

    def globals_of(self, namespace: dict[str, Any]) -> Namespace:
        """The dict of a function's globals (source: Pinned(namespace)); one per namespace and trace."""

    def instance_dict_of(self, obj: Object) -> Namespace | None:
        """The instance `__dict__` of an object: wrapped if the object came from outside, new and empty if the trace made it."""


class Codegen(CodeWriter[Object], Protocol):
    """The writer of the replacement bytecode, which Objects use to emit the code that rebuilds them."""


class IdentityConstant(Object):
    """A constant known by identity: a class, a module, a C function. `value` is the real one; observing it guards its identity."""

    __slots__ = ()

    def is_knowable(self) -> bool:
        return True

    def constant(self, vm: VM) -> Any:
        return self.value

    def hash_key(self, vm: VM) -> Any:
        return self.value

    def as_graph_argument(self, vm: VM) -> Any:
        return self.value


class LazyObject(Object):
    """A value from outside about which nothing has been observed; forwards to `real` once observed."""

    __slots__ = ("real",)

    def __init__(self, value: Any, source: Source) -> None:
        super().__init__(type(value), source, value)
        self.real: Object | None = None

    def _unobserved(self) -> NoReturn:
        raise AssertionError(f"{self!r} was used without vm.observe")

    @property
    def name_when_called(self) -> str:
        return super().name_when_called if self.real is None else self.real.name_when_called

    def is_known(self) -> bool:
        return False if self.real is None else self.real.is_known()

    def is_knowable(self) -> bool:
        return False if self.real is None else self.real.is_knowable()

    def constant(self, vm: VM) -> Any:
        return vm.observe(self).constant(vm)

    def hash_key(self, vm: VM) -> Any:
        return vm.observe(self).hash_key(vm)

    def instance_dict(self, vm: VM) -> Namespace | None:
        return vm.observe(self).instance_dict(vm)

    def as_graph_argument(self, vm: VM) -> Any:
        return vm.observe(self).as_graph_argument(vm)

    def reconstruct(self, cg: Codegen) -> None:
        self._unobserved()


class Raise(Exception):
    """Signal: the traced program raises `exc`, an exception instance, on its way to a handler.

    `reraised`: it is raised again as it was (RERAISE, a bare `raise`): the frame that does so adds neither a context nor a traceback entry.
    `thrown`: into a generator, which doesn't add the thrower's context.
    """

    def __init__(self, exc: Object, reraised: bool = False, thrown: bool = False) -> None:
        super().__init__(exc)
        self.exc = exc
        self.chained = reraised or thrown
        self.reraised = reraised


class NotConstant(Exception):
    """Signal: an Object was asked for a constant that it isn't. The code that knows the operation turns it into a graph break."""

    def __init__(self, obj: Object) -> None:
        super().__init__(repr(obj))
        self.obj = obj


def is_c_member(member: MemberDescriptorType) -> bool:
    """Return whether a member is a field of a C type, which may hold a bare number, and not one of a class's `__slots__`."""
    return "__slots__" not in vars(member.__objclass__)


def member_source(vm: VM, obj: Object, source: Source, member: MemberDescriptorType) -> Source:
    """The source of a member's value. A field of a C type is read by its name, which must mean that field in the value's class.

    A slot of a subclass of tuple lies after the items, and is read by its name too.
    """
    if not is_c_member(member) and not classes.itemsize(member.__objclass__):
        return source.child(SlotMember, member)
    if vm.raw_type_lookup(obj.cls, member.__name__) is not member or isinstance(vm.raw_type_lookup(obj.cls, "__getattribute__"), FunctionType):
        vm.unsupported(breaks.UnsupportedValue(f"{member.__objclass__.__qualname__}.{member.__name__} of a {classes.qualname(obj.cls)}, which overrides it"))
    vm.guard(TypeIs, source, obj.cls)
    return source.child(CAttr, member.__name__)


def settle(obj: Object) -> Object:
    """The Object that a lazy one has been observed to be; itself otherwise. Guards nothing."""
    while type(obj) is LazyObject and obj.real is not None:
        obj = obj.real
    return obj


def fold(vm: VM, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Object:
    """Call a pure C function on real constants; if it raises, the traced program does."""
    if any(issubclass(type(arg), (set, frozenset)) for arg in args):
        vm.guards.rest_on_process("the order of a set")
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        vm.raise_(type(error), *error.args)
    return vm.from_real(result)


def call_special(vm: VM, obj: Object, name: str, *args: Object, delivery: Delivery | None = None) -> Object | None:
    """Call a special method looked up on the type, not the instance; None if the type has none."""
    method = vm.type_lookup(obj.cls, name)
    if method is None:
        return None
    return method.call_as_method(vm, obj, list(args), None, delivery)


def wrong_result(vm: VM, obj: Object, method: str, wanted: str, found: Object, before: str) -> NoReturn:
    """Raise the error for a special method of a value that has returned something of a wrong type. `before`: its text in earlier versions of Python."""
    is_new = wording.NAMES_METHOD_IN_FULL
    vm.raise_(TypeError, f"{full_name(obj.cls)}.{method}() must return {wanted}, not {full_name(found.cls)}" if is_new else before)


def full_name(cls: type) -> str:
    """The full name of a class, as newer messages of the interpreter have it (Objects/typeobject.c: PyType_GetFullyQualifiedName)."""
    module = classes.module(cls)
    is_part = isinstance(module, str) and module not in ("builtins", "__main__")
    return f"{module}.{classes.qualname(cls)}" if is_part else classes.qualname(cls)


def call_found_special(vm: VM, obj: Object, name: str, *args: Object) -> Object | None:
    """`call_special` for the slots that ignore exceptions of the lookup (comparisons, `__iter__`): a property that raises counts as no method.

    Newer versions of Python ignore only AttributeError.
    """
    found = vm.raw_type_lookup(obj.cls, name)
    if not isinstance(found, property) and not isinstance(vm.raw_type_lookup(type(found), "__get__"), FunctionType):
        return call_special(vm, obj, name, *args)
    try:
        method = lookup_special(vm, obj, name)
    except Raise as raised:
        if differences.LOOKUP_ERRORS_PASS and not issubclass(raised.exc.cls, AttributeError):
            raise
        return None
    return None if method is None else vm.observe(method).call(vm, list(args), {})


def lookup_special(vm: VM, obj: Object, name: str) -> Object | None:
    """_PyObject_LookupSpecial: a special method, bound."""
    obj = vm.observe(obj)
    found = vm.type_lookup(obj.cls, name)
    return None if found is None else found.descriptor_get(vm, obj, obj.cls)


def generic_getattr(vm: VM, obj: Object, name: str, delivery: Delivery | None = None) -> Object:
    """slot_tp_getattr_hook around PyObject_GenericGetAttr: an overridden `__getattribute__`, the generic rule, `__getattr__`."""
    cls = obj.cls
    getattribute = vm.raw_type_lookup(cls, "__getattribute__")
    first = delivery
    if delivery is not None and vm.raw_type_lookup(cls, "__getattr__") is not MISSING:
        first = None  # the first attempt may raise AttributeError
    try:
        if is_own_slot(getattribute, "__getattribute__"):
            found = find_attribute(vm, obj, name, first)
            if found is not None:
                return found
        else:
            hook = vm.type_lookup(cls, "__getattribute__")
            assert hook is not None
            return hook.call_as_method(vm, obj, [vm.const(name)], None, first)
    except Raise as raised:
        if not issubclass(raised.exc.cls, AttributeError) or vm.raw_type_lookup(cls, "__getattr__") is MISSING:
            raise
    fallback = vm.type_lookup(cls, "__getattr__")
    if fallback is None:
        if computes(getattribute, obj.value, name):
            vm.unsupported(breaks.UnsupportedValue(f"the attribute {name} of a {obj.type_name}, computed by C code"))
        no_attribute(vm, obj, name)
    return fallback.call_as_method(vm, obj, [vm.const(name)], None, delivery)


def computes(getattribute: Any, value: Any, name: str) -> bool:
    """Return whether a type in C has an attribute for a name that no class has: its own slot computes it (the `flags` of a decimal.Context)."""
    if value is MISSING or not is_own_slot(getattribute, "__getattribute__") or getattribute.__objclass__.__module__ == "builtins":
        return False
    try:
        getattribute(value, name)
    except AttributeError:
        return False
    return True


def is_own_slot(found: Any, name: str) -> bool:
    """Return whether a class attribute under the name of a slot is that slot of a C type, which repeats the generic one.

    `__setattr__ = dict.__setitem__` isn't.
    """
    return type(found) is WrapperDescriptorType and found.__name__ == name


def find_attribute(vm: VM, obj: Object, name: str, delivery: Delivery | None = None) -> Object | None:
    """The generic rule without the hooks; None if the attribute is missing (_PyObject_GenericGetAttrWithDict with suppress)."""
    found = vm.type_lookup(obj.cls, name)
    if found is not None and found.is_data_descriptor(vm) and vm.raw_type_lookup(found.cls, "__get__") is not MISSING:
        return found.descriptor_get(vm, obj, obj.cls, delivery)
    namespace = namespace_of(vm, obj)
    if namespace is not None:
        value = namespace.lookup(vm, name)
        if value is not None:
            return value
    if found is not None:
        return found.descriptor_get(vm, obj, obj.cls, delivery)
    return None


def namespace_of(vm: VM, obj: Object) -> Namespace | None:
    """The instance `__dict__`; None if values of the type have none. Constants whose attributes are read directly have one that isn't traced."""
    namespace = obj.instance_dict(vm)
    if namespace is None and classes.dictoffset(obj.cls):
        vm.unsupported(breaks.UnsupportedOperation(f"looking into the __dict__ of {obj!r}"))
    return namespace


def object_getattribute(vm: VM, obj: Object, name: str) -> Object:
    found = find_attribute(vm, obj, name)
    if found is None:
        no_attribute(vm, obj, name)
    return found


def no_attribute(vm: VM, obj: Object, name: str) -> NoReturn:
    vm.raise_(AttributeError, f"'{obj.type_name}' object has no attribute '{name}'", name=name, obj=obj)


def unhashable(vm: VM, name: str) -> NoReturn:
    """Raise the error of hash() for a value of an unhashable type."""
    vm.raise_(TypeError, f"unhashable type: '{name}'")


def generic_setattr(vm: VM, obj: Object, name: str, value: Object | None, delivery: Delivery | None = None) -> None:
    """slot_tp_setattro around PyObject_GenericSetAttr."""
    special = "__delattr__" if value is None else "__setattr__"
    if is_own_slot(vm.raw_type_lookup(obj.cls, special), special):
        object_setattr(vm, obj, name, value, delivery)
        return
    hook = vm.type_lookup(obj.cls, special)
    assert hook is not None
    hook.call_as_method(vm, obj, [vm.const(name)] if value is None else [vm.const(name), value], None, delivery)


def object_setattr(vm: VM, obj: Object, name: str, value: Object | None, delivery: Delivery | None = None) -> None:
    """_PyObject_GenericSetAttrWithDict."""
    found = vm.type_lookup(obj.cls, name)
    if found is not None and found.descriptor_set(vm, obj, value, delivery):
        return
    namespace = namespace_of(vm, obj)
    if namespace is None:
        kind = "has no attribute" if found is None else "attribute"
        tail = wording.NO_DICT if found is None else " is read-only"
        fields = {"name": name, "obj": obj} if found is None and differences.NAMED_WITHOUT_DICT else {}
        vm.raise_(AttributeError, f"'{obj.type_name}' object {kind} '{name}'{tail}", **fields)
    if value is not None:
        namespace.store(vm, name, value)
    elif not namespace.delete(vm, name):
        nothing_to_delete(vm, obj, name)


def nothing_to_delete(vm: VM, obj: Object, name: str) -> NoReturn:
    """Raise the error for an attribute that is to be deleted from an object's `__dict__` and isn't there."""
    is_named = differences.NAMED_IN_INSTANCE if classes.flags(obj.cls) & classes.HEAP_TYPE else differences.NAMED_IN_DICT
    fields = {"name": name, "obj": obj} if is_named else {}
    vm.raise_(AttributeError, f"'{obj.type_name}' object has no attribute '{name}'", **fields)


def drop_end(vm: VM, exc: Object) -> None:
    """An iterator has ended by this exception, which the trace needn't keep any longer. Breaks if C code would pass it on to the program:
    `next(zip(it))` raises the very StopIteration, with its value, that `it` has raised."""
    if (exc.cls is not StopIteration or exc.args) and vm.hands_on_ends():  # type: ignore[attr-defined]
        vm.unsupported(breaks.UnsupportedOperation("the end of an iterator by a StopIteration with a value, which another iterator hands on"))
