"""The base of the object model: what the trace knows of one Python value.

Conventions
- An `Object` stands for exactly one Python value of exact type `cls`. Identity of Objects is identity of values:
  two Objects never stand for the same mutable value, so `a is b` on Objects answers Python's `is` (constants apart).
- `source` says where a value that exists outside the trace is found again; None means the trace made it.
- A value that came from outside starts as a `LazyObject`: nothing is known of it and nothing is guarded. `vm.observe`
  turns it into the Object of its type and emits the guard for that. What an Object is asked beyond its type (a value,
  a length, a key) it guards itself, the moment it answers.
- Every mutation of an Object's state goes through `vm.trail`, so that it can be undone, and, where the Object has a
  source, is announced with `vm.effects.mutated(self)`, so that it is replayed.
"""

from __future__ import annotations

from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from framejit import breaks, classes
from framejit._runtime import type_name
from framejit.guards.kinds import IsMissing, TypeIs, with_article
from framejit.guards.source import MISSING, CAttr, SlotMember, Source

if TYPE_CHECKING:
    from framejit.objects.dictobject import DictObject
    from framejit.objects.vm import VM, Codegen


class Object:
    """A Python value. `value` is the real object where there is one (constants, values with a source), else MISSING."""

    __slots__ = ("cls", "source", "value", "attrs")
    replays_first: ClassVar[bool] = False
    """Its changes are replayed before those of others: an iterator's steps, which were taken before what it runs over was changed."""
    delivers: ClassVar[bool] = False
    """`call` gives the result of the last call that it makes, as it is, and takes care of `vm.direct` before that."""

    def __init__(self, cls: type, source: Source | None = None, value: Any = MISSING) -> None:
        self.cls = cls
        self.source = source
        self.value = value
        self.attrs: DictObject | None = None

    # What the value is.

    @property
    def type_name(self) -> str:
        """The name of its class in the interpreter's messages."""
        return type_name(self.cls)

    def is_known(self) -> bool:
        """Whether the value is a constant that the trace rests on already, or has made itself: asking for it specialises nothing."""
        return self.is_knowable()

    def is_knowable(self) -> bool:
        """Whether `constant` would answer. To ask may specialise: the entry then rests on the value. Guards nothing."""
        return False

    def constant(self, vm: VM) -> Any:
        """The value as a real, immutable Python object; guards it where it came from outside. Breaks if there is none."""
        raise NotConstant(self)

    def hash_key(self, vm: VM) -> Any:
        """What stands for this value as a dict key or set element: a real constant, or this Object for types that hash by identity."""
        if self.is_knowable():
            return self.constant(vm)
        return self.identity_key(vm)

    def identity_key(self, vm: VM) -> Any:
        """`hash_key` of a value that hashes by identity; vm checks that its class really does."""
        return vm.identity_key(self)

    def instance_dict(self, vm: VM) -> DictObject | None:
        """The instance `__dict__`, if values of this type have one."""
        return self.attrs

    def is_generator(self) -> bool:
        """Whether this is a generator of the trace, to be resumed by the interpreter."""
        return False

    def as_real(self, vm: VM) -> Any:
        """The value as an argument of a pure C function: a constant, or a fresh list, dict or set of constants. Else NotConstant."""
        return self.constant(vm)

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        """Read a member descriptor; raises the traced AttributeError where it is unset."""
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
        """An exception has left the attribute look-up of `name` on `obj`: an AttributeError takes note."""

    def getattr(self, vm: VM, name: str) -> Object:
        """tp_getattro. Raises the traced AttributeError."""
        return vm.generic_getattr(self, name)

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        """tp_setattro; None deletes."""
        vm.generic_setattr(self, name, value)

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object]) -> Object:
        """tp_call."""
        return vm.generic_call(self, args, kwargs)

    def iter(self, vm: VM) -> Object:
        """tp_iter."""
        return vm.generic_iter(self)

    def next(self, vm: VM) -> Object | None:
        """tp_iternext: None when exhausted."""
        return vm.generic_next(self)

    def truth(self, vm: VM) -> bool:
        """nb_bool, else length, else True. Breaks where it depends on tensor data."""
        return vm.generic_truth(self)

    def length(self, vm: VM) -> Object:
        """sq_length or mp_length."""
        return vm.generic_length(self)

    def length_hint(self, vm: VM) -> int | None:
        """`__length_hint__` in C: how many items an iterator of the trace has left, where that is known without stepping."""
        return None

    # What it does as a class attribute. The defaults follow the class's `__get__` and `__set__`, as for any object.

    def is_data_descriptor(self, vm: VM) -> bool:
        """PyDescr_IsData."""
        return vm.raw_type_lookup(self.cls, "__set__") is not MISSING or vm.raw_type_lookup(self.cls, "__delete__") is not MISSING

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type) -> Object:
        """tp_descr_get: what reading this class attribute through `obj` (None: through the class) gives."""
        method = vm.type_lookup(self.cls, "__get__")
        if method is None:
            return self
        return method.call_as_method(vm, self, [vm.const(None) if obj is None else obj, vm.const(cls)])

    def descriptor_set(self, vm: VM, obj: Object, value: Object | None) -> bool:
        """tp_descr_set: store (None: delete) through this class attribute; False where it is no data descriptor."""
        wanted, other = ("__delete__", "__set__") if value is None else ("__set__", "__delete__")
        method = vm.type_lookup(self.cls, wanted)
        if method is None:
            if vm.raw_type_lookup(self.cls, other) is not MISSING:  # slot_tp_descr_set
                vm.raise_(AttributeError, wanted)
            return False
        method.call_as_method(vm, self, [obj] if value is None else [obj, value])
        return True

    def call_as_method(self, vm: VM, receiver: Object, args: list[Object], kwargs: dict[str, Object] | None = None) -> Object:
        """Call this class attribute on an instance: bind and call in one step."""
        direct, vm.direct = vm.direct, None
        bound = vm.observe(self.descriptor_get(vm, receiver, receiver.cls))
        vm.direct = direct if bound.delivers else None
        return bound.call(vm, args, kwargs or {})

    # Operators, where a type has C slots that don't go through its class's attributes (tensors, deferred numbers). None: not mine.

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        """nb_negative and its kind."""
        return None

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        """`self symbol other`, or `other symbol self` where reflected; symbol as in the source: "+", "@", "+=" ..."""
        return None

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        """tp_richcompare: symbol as written; reflected as in `binary_op`."""
        return None

    def getitem(self, vm: VM, key: Object) -> Object | None:
        """mp_subscript."""
        return None

    def setitem(self, vm: VM, key: Object, value: Object | None) -> bool:
        """mp_ass_subscript; None deletes. False: not mine."""
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
        """Emit the second half of `reconstruct`: the value is in place, put its contents in. Default: nothing."""

    def needs_fill(self) -> bool:
        """Whether the value is created empty and then filled (mutable, possibly cyclic)."""
        return False

    def awaits(self) -> Object | None:
        """The value whose last contents must be in place when this one is created: creating it looks at them."""
        return None

    def replay(self, cg: Codegen) -> None:
        """Emit the mutations of a value with a source, in order. Called once for each value announced to vm.effects."""

    def referents(self) -> list[Object]:
        """The Objects that this value, made by the trace, keeps: what `reconstruct`, `fill` and (with a source) `replay` will ask the codegen to load."""
        return []

    def __repr__(self) -> str:
        """The value as reports name it: by its place in the program, and its type."""
        kind = with_article(classes.qualname(self.cls))
        return kind if self.source is None else f"{self.source.told()} ({kind})"


class IdentityConstant(Object):
    """A constant known by identity: a class, a module, a C function. `value` is the real one; observing it guards which it is."""

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
    """A value from outside that nothing has been observed of; forwards to `real` once observed."""

    __slots__ = ("real",)

    def __init__(self, value: Any, source: Source) -> None:
        super().__init__(type(value), source, value)
        self.real: Object | None = None

    def _unobserved(self) -> NoReturn:
        raise AssertionError(f"{self!r} was used without vm.observe")

    def is_known(self) -> bool:
        return False if self.real is None else self.real.is_known()

    def is_knowable(self) -> bool:
        return False if self.real is None else self.real.is_knowable()

    def constant(self, vm: VM) -> Any:
        return vm.observe(self).constant(vm)

    def hash_key(self, vm: VM) -> Any:
        return vm.observe(self).hash_key(vm)

    def instance_dict(self, vm: VM) -> DictObject | None:
        return vm.observe(self).instance_dict(vm)

    def as_graph_argument(self, vm: VM) -> Any:
        return vm.observe(self).as_graph_argument(vm)

    def reconstruct(self, cg: Codegen) -> None:
        self._unobserved()


class NotConstant(Exception):
    """Signal: an Object was asked for a constant that it isn't. Turned into a graph break by whoever knows the operation."""

    def __init__(self, obj: Object) -> None:
        super().__init__(repr(obj))
        self.obj = obj


def is_c_member(member: MemberDescriptorType) -> bool:
    """Whether a member is a field of a C type, which may hold a bare number, and not one of a class's `__slots__`."""
    return "__slots__" not in vars(member.__objclass__)


def member_source(vm: VM, obj: Object, source: Source, member: MemberDescriptorType) -> Source:
    """The source of a member's value. A field of a C type is read by its name, which must be that field's in the value's class."""
    if not is_c_member(member):
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
