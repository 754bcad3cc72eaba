"""Weak references and proxies, from outside and made in the trace, and finalizers."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Iterable
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from torch import nn
from torch.distributions import transforms
from torch.optim import Optimizer

from framejit import breaks
from framejit._runtime import referent
from framejit.guards.kinds import AddressIs, IsMissing, KeyAbsent
from framejit.guards.source import MISSING, Item, Pinned, Proxied, Referent, Source
from framejit.objects.core import abstract, operators
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.finalizers import ends_silently
from framejit.objects.core.hash_keys import ReferenceKey
from framejit.objects.core.object import VM, Codegen, NotConstant, Object, Raise, settle
from framejit.objects.core.registry import app as traced_as
from framejit.objects.core.registry import models, rules, unsupported, wrapper_for, wraps
from framejit.objects.types.constobject import is_plain
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.userobject import UserObject
from framejit.plain import weak_references as app
from framejit.program import classes

OUTLIVE_STEPS = (nn.Module, nn.Parameter, Optimizer)
"""Types of objects that programs don't release in the middle of a call."""
KEY: MemberDescriptorType = vars(weakref.KeyedRef)["key"]
WEAK_CONTAINERS: tuple[Any, ...] = (weakref.WeakKeyDictionary(), weakref.WeakValueDictionary(), weakref.WeakSet())
NEVER_END = (type, ModuleType, FunctionType, CodeType)
"""Types of objects that are searched no further for what a call has let go of."""
SEARCHED = 500
"""The number of objects that are searched for it: more may hold anything."""
REMOVALS = frozenset(made._remove.__code__ for made in WEAK_CONTAINERS)
"""The callbacks of weak dicts and sets."""
REFERENCES: weakref.WeakKeyDictionary[Any, dict[int, WeakReferenceMade]] = weakref.WeakKeyDictionary()
"""The references that a trace has made to each object, if they have no callback."""
PROXIES: weakref.WeakKeyDictionary[Any, dict[int, ProxyMade]] = weakref.WeakKeyDictionary()
"""The proxies that a trace has made of objects."""


def referred_to(vm: VM, source: Source, target: Any) -> Object:
    """The object that a weak reference or proxy from outside refers to; None, guarded, if it is gone."""
    if target is None:
        vm.guard(IsMissing, source)
        return vm.const(None)
    if vm.resumed and not issubclass(type(target), OUTLIVE_STEPS):
        # An object that only the state of a resumed frame keeps alive may be gone by now in eager.
        vm.unsupported(breaks.UnsupportedCall("a weak reference after a graph break"))
    check_held(vm, [target])
    return vm.wrap(target, source)


def check_held(vm: VM, targets: Iterable[Any]) -> None:
    """Break if the call may have let go of one of these objects from outside, to which there are weak references: what it has changed has held it."""
    wanted = {id(target) for target in targets if not issubclass(type(target), OUTLIVE_STEPS)}
    seen, waiting = set[int](), [part for effect in vm.effects.all() for part in given_up(effect)] if wanted else []
    while waiting:
        part = waiting.pop()
        if id(part) in seen or ends_silently(type(part)) or issubclass(type(part), NEVER_END):
            continue
        seen.add(id(part))
        if id(part) in wanted or len(seen) > SEARCHED:
            vm.unsupported(breaks.UnsupportedCall("a weak reference to an object that may be gone"))
        waiting += gc.get_referents(part)


def given_up(effect: Any) -> list[Any]:
    """The objects that an object from outside has held, and may not hold any more since the call has changed it."""
    if not isinstance(effect, Object) or effect.source is None or effect.value is MISSING:
        return []
    if not isinstance(effect, DictObject) or effect.rewritten:
        return gc.get_referents(effect.value)
    changed = [*effect.stores, *effect.removed]
    return [dict.get(effect.value, name) for name in changed] if all(map(is_plain, changed)) else gc.get_referents(effect.value)


class WeakReference(Object):
    """A weakref.ref. References are equal if their objects are, as long as these live (Objects/weakrefobject.c: weakref_richcompare)."""

    __slots__ = ()
    is_true = True

    def referent(self, vm: VM) -> Object:
        """The object. Raises NotConstant if it is gone."""
        raise NotImplementedError

    def hash_key(self, vm: VM) -> Any:
        return ReferenceKey(self.referent(vm).hash_key(vm))

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if symbol not in ("==", "!=") or not isinstance(other, WeakReference):
            raise NotConstant(self)
        same = self.hash_key(vm) == other.hash_key(vm)
        return vm.const(same == (symbol == "=="))


class WeakReferenceObject(WeakReference):
    """A weak reference from outside: calling it gives its referent, which is looked up again in each call of the compiled code."""

    __slots__ = ()

    def referent(self, vm: VM) -> Object:
        found = vm.observe(self.call(vm, [], {}))
        if found.cls is type(None):
            raise NotConstant(self)
        return found

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        if args or kwargs:
            raise NotConstant(self)
        assert self.source is not None
        return referred_to(vm, self.source.child(Referent), referent(self.value))

    def check_identity(self, vm: VM, other: Object) -> None:
        other.check_identity(vm, self)


@wraps(weakref.ReferenceType, shared=True)
def wrap_reference(vm: VM, value: Any, source: Source) -> Object:
    """Wrap a weak reference. One of a subclass may do anything when it is called: it is an instance of a user's class."""
    if type(value) not in (weakref.ReferenceType, weakref.KeyedRef):
        return wrapper_for(object).wrap(vm, value, source)
    return WeakReferenceObject(type(value), source, value)


class WeakReferenceMade(WeakReference):
    """A weak reference that the trace has made. `target`: what it refers to; `callback`: None, or what is called when that has gone; `key`: that of a KeyedRef.

    `is_kept`: library code has made it, to an object that isn't needed once its owner has released it, such as a dict of hooks.
    """

    __slots__ = ("target", "callback", "key", "is_kept")

    def __init__(self, target: Object, cls: type = weakref.ReferenceType, callback: Object | None = None, is_kept: bool = False) -> None:
        super().__init__(cls)
        self.target = target
        self.callback = callback
        self.key: Object | None = None
        self.is_kept = is_kept

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        if args or kwargs:
            raise NotConstant(self)
        if not self.is_kept and not is_held(vm, self.target):
            vm.unsupported(breaks.UnsupportedCall("a weak reference to an object that may be gone"))
        return self.target

    def referent(self, vm: VM) -> Object:
        return vm.observe(self.target)

    def check_identity(self, vm: VM, other: Object) -> None:
        if isinstance(other, (WeakReferenceMade, WeakReferenceObject)):
            vm.unsupported(breaks.UnsupportedOperation("`is` between weak references"))

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        if member is not KEY or self.key is None:
            raise NotConstant(self)
        return self.key

    def set_slot(self, vm: VM, member: MemberDescriptorType, value: Object | None) -> None:
        if member is not KEY or value is None:
            raise NotConstant(self)
        vm.trail.set(self, "key", value)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.target)
        cg.load_const(None) if self.callback is None else cg.load(self.callback)
        if self.cls is weakref.KeyedRef:
            assert self.key is not None
            cg.load(self.key)
        cg.call_const(self.cls, 2 + (self.cls is weakref.KeyedRef))

    def referents(self) -> list[Object]:
        return [part for part in (self.target, self.callback, self.key) if part is not None]


@models(app.weak_reference)
def weak_reference(vm: VM, value: Object) -> Object:
    return WeakReferenceMade(vm.observe(value), is_kept=True)


@models(weakref.ReferenceType.__new__)
def reference_new(vm: VM, cls: Object, target: Object, callback: Object | None = None, /, *rest: Object) -> Object:
    """Objects/weakrefobject.c: weakref___new__. For an object that may end in the call, a callback would be called too late."""
    real, obj = vm.observe(cls).constant(vm), vm.observe(target)
    called = None if callback is None else vm.observe(callback)
    if called is not None and called.cls is type(None):
        called = None
    is_constant = obj.is_knowable() and not issubclass(obj.cls, type)
    if real not in (weakref.ReferenceType, weakref.KeyedRef) or is_constant or not classes.weakrefoffset(obj.cls):
        vm.unsupported(breaks.UnsupportedCall("ReferenceType.__new__"))
    if called is not None and not may_wait(called, settle(obj)):
        vm.unsupported(breaks.UnsupportedCall("a weak reference with a callback, to an object that may end in this call"))
    known = REFERENCES.setdefault(vm, {})
    found = known.get(id(obj)) if called is None and real is weakref.ReferenceType else None
    if found is None:
        found = WeakReferenceMade(obj, real, called)
        if called is None and real is weakref.ReferenceType:
            known[id(obj)] = found  # an object has one reference without a callback
    return found


class Proxy(Object):
    """A weak proxy: attributes and items of it are those of the object that `reached` gives, and operators are called with that."""

    __slots__ = ()

    def reached(self, vm: VM) -> Object:
        """The object. Objects/weakrefobject.c: proxy_check_ref."""
        raise NotImplementedError

    def getattr(self, vm: VM, name: str) -> Object:
        return abstract.getattr_(vm, self.reached(vm), name)

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        return Object.call(self, vm, args, kwargs, delivery) if self.cls is weakref.ProxyType else self.reached(vm).call(vm, args, kwargs, delivery)

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        self.reached(vm).setattr(vm, name, value)

    def truth(self, vm: VM) -> bool:
        return abstract.truth(vm, self.reached(vm))

    def length(self, vm: VM) -> Object:
        return abstract.length(vm, self.reached(vm))

    def length_hint(self, vm: VM) -> int | None:
        """Objects/abstract.c: PyObject_LengthHint, which asks a proxy for its length, and so runs the object's `__len__`."""
        try:
            abstract.length(vm, self.reached(vm))
        except Raise as raised:
            if not issubclass(raised.exc.cls, TypeError):
                raise
        return None

    def iter(self, vm: VM) -> Object:
        return abstract.iter_(vm, self.reached(vm))

    def getitem(self, vm: VM, key: Object) -> Object | None:
        return abstract.getitem(vm, self.reached(vm), key)

    def setitem(self, vm: VM, key: Object, value: Object | None) -> bool:
        abstract.delitem(vm, self.reached(vm), key) if value is None else abstract.setitem(vm, self.reached(vm), key, value)
        return True

    def contains(self, vm: VM, item: Object) -> Object | None:
        return operators.contains(vm, self.reached(vm), item)

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return None if reflected else operators.binary_op(vm, symbol, self.reached(vm), unwrapped(vm, other))

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return None if reflected else operators.compare(vm, symbol, self.reached(vm), unwrapped(vm, other))

    def hash_key(self, vm: VM) -> Any:
        raise NotConstant(self)


def unwrapped(vm: VM, operand: Object) -> Object:
    """The operand, or the object that it refers to if it is a proxy (Objects/weakrefobject.c: UNWRAP)."""
    return operand.reached(vm) if isinstance(operand, Proxy) else operand


class ProxyObject(Proxy):
    """A weak proxy from outside. What it refers to is looked up again in each call of the compiled code."""

    __slots__ = ()

    def reached(self, vm: VM) -> Object:
        assert self.source is not None
        target = vm.observe(referred_to(vm, self.source.child(Proxied), referent(self.value)))
        if target.cls is type(None):
            vm.raise_(ReferenceError, "weakly-referenced object no longer exists")
        return target

    def check_identity(self, vm: VM, other: Object) -> None:
        other.check_identity(vm, self)


wraps(*weakref.ProxyTypes, shared=True)(ProxyObject)


class ProxyMade(Proxy):
    """A weak proxy, without a callback, that the trace has made."""

    __slots__ = ("target",)

    def __init__(self, target: Object, cls: type) -> None:
        super().__init__(cls)
        self.target = target

    def check_identity(self, vm: VM, other: Object) -> None:
        if isinstance(other, ProxyObject) and settle(self.target).source is not None:
            vm.unsupported(breaks.UnsupportedOperation("`is` between a weak proxy from outside and one that the compiled code makes"))

    def reached(self, vm: VM) -> Object:
        if not is_held(vm, self.target):
            vm.unsupported(breaks.UnsupportedCall("a weak proxy of an object that may be gone"))
        return self.target

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.target)
        cg.call_const(weakref.proxy, 1)

    def referents(self) -> list[Object]:
        return [self.target]


@models(weakref.proxy)
def proxy(vm: VM, target: Object, callback: Object | None = None, /) -> Object:
    """Objects/weakrefobject.c: PyWeakref_NewProxy. An object has one proxy without a callback, which one from outside may have already."""
    obj = vm.observe(target)
    is_plain = type(obj) is UserObject or (isinstance(obj, UserObject) and obj.source is not None)
    if not is_plain or not classes.weakrefoffset(obj.cls) or (callback is not None and vm.observe(callback).cls is not type(None)):
        vm.unsupported(breaks.UnsupportedCall(f"weakref.proxy of a {obj.type_name}, or with a callback"))
    known = PROXIES.setdefault(vm, {})
    cls: Any = weakref.ProxyType if vm.raw_type_lookup(obj.cls, "__call__") is MISSING else weakref.CallableProxyType
    return known.setdefault(id(obj), ProxyMade(obj, cls))


def may_wait(callback: Object, target: Object) -> bool:
    """Return whether a callback may be called after the call although its object has ended before: it is about a module, a parameter or an optimizer from
    outside, or only takes the reference out of a weak dict or set. Classes end when the garbage collector runs."""
    is_removal = isinstance(callback, FunctionObject) and callback.code in REMOVALS
    if issubclass(target.cls, type):
        return is_removal
    return target.source is not None and (is_removal or issubclass(target.cls, OUTLIVE_STEPS))


@models(weakref.ReferenceType.__init__)
def reference_init(vm: VM, self: Object, target: Object, callback: Object | None = None, /) -> Object:
    """Objects/weakrefobject.c: weakref___init__, which does nothing."""
    return vm.const(None)


def is_held(vm: VM, target: Object) -> bool:
    """Return whether something but the trace keeps an object alive: a variable of a frame, or an object that can be reached from one.

    Iterators and generators don't count: they let go of what they have when they end. A value from outside is also kept by what it was found in, unless the
    call has changed that. A class refers to itself, so that only the garbage collector ends it.
    """
    if issubclass(target.cls, type):
        return True
    frames, level = [], 0
    while (found := vm.caller(level)) is not None:
        frames.append(found[0])
        level += 1
    waiting = deque(obj for frame in frames for obj in frame.locals if obj is not None)  # what a proxy reaches is mostly near
    target, made, sources = settle(target), set[int](), set[Source]()
    while waiting:
        obj = settle(waiting.popleft())
        if obj is target:
            return True
        if obj.source is not None:
            sources.add(obj.source)
        elif id(obj) not in made and not isinstance(obj, WeakReferenceMade) and classes.lookup(obj.cls, "__next__") is None:
            made.add(id(obj))
            waiting += obj.referents()
            waiting += [] if obj.attrs is None else [obj.attrs]
    changed = {effect.source for effect in vm.effects.all() if isinstance(effect, Object)}
    source = target.source
    while source is not None and source not in changed:
        if source in sources or isinstance(source, Pinned):
            return True
        source = source.base
    return False


# Looking up in a weak container from outside, which loses an element as soon as the call lets go of its object.


def check_elements(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Break before a method of a weak container that may have lost an element, which the trace doesn't see; the method's own code is traced."""
    owner = vm.observe(args[0]).value if args else MISSING
    if issubclass(type(owner), tuple(map(type, WEAK_CONTAINERS))):
        data = object.__getattribute__(owner, "__dict__").get("data", ())
        held = data.values() if issubclass(type(owner), weakref.WeakValueDictionary) else data
        check_held(vm, [referent(known) for known in list(held) if issubclass(type(known), weakref.ReferenceType)])
    return None


LOOK_UPS = (weakref.WeakKeyDictionary.__contains__, weakref.WeakKeyDictionary.__getitem__, weakref.WeakKeyDictionary.get)
for _container in WEAK_CONTAINERS:
    rules(*(method for method in vars(type(_container)).values() if type(method) is FunctionType and method not in LOOK_UPS))(check_elements)


# A look-up in a WeakKeyDictionary from outside would make a weak reference to the key.


def looked_up(vm: VM, args: list[Object]) -> Object | None:
    """The value of a key, None if it is missing; guarded. Raises NotConstant unless both come from outside, and the key is compared by identity."""
    table, key = map(vm.observe, args)
    check_elements(vm, table, args, {})
    if table.source is None or table.cls is not weakref.WeakKeyDictionary or key.source is None or not classes.weakrefoffset(key.cls):
        raise NotConstant(table)
    if (vm.raw_type_lookup(key.cls, "__hash__"), vm.raw_type_lookup(key.cls, "__eq__")) != (object.__hash__, object.__eq__):
        raise NotConstant(key)
    data = vm.observe(abstract.getattr_(vm, table, "data"))
    if data.source is None or data.cls is not dict or vm.effects.is_mutated(data):
        raise NotConstant(data)
    vm.guard(AddressIs, key.source, key.value)
    reference = next((known for known in list(data.value) if isinstance(known, weakref.ReferenceType) and known() is key.value), None)
    if reference is None:
        vm.guard(KeyAbsent, data.source, weakref.ref(key.value))
        return None
    return vm.observe(vm.wrap(data.value[reference], data.source.child(Item, reference)))


@rules(weakref.WeakKeyDictionary.__contains__)
def has_key(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    try:
        return None if kwargs or len(args) != 2 else vm.const(looked_up(vm, args) is not None)
    except NotConstant:
        return None


@rules(weakref.WeakKeyDictionary.__getitem__, weakref.WeakKeyDictionary.get)
def value_of_key(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """The value, or the default of `get`. A KeyError, which has the reference, is left to the program's own call."""
    has_default = function.value is weakref.WeakKeyDictionary.get
    try:
        found = None if kwargs or not 2 <= len(args) <= 2 + has_default else looked_up(vm, args[:2])
    except NotConstant:
        return None
    if found is None and has_default and not kwargs:
        return args[2] if len(args) > 2 else vm.const(None)
    return found


# Finalizers share one dict, which also changes in the compiler, whenever an object with a finalizer dies.
METHODS = [getattr(method, "fget", method) for method in vars(weakref.finalize).values()]
unsupported(breaks.UnsupportedCall("a method of weakref.finalize"), *(method for method in METHODS if type(method) is FunctionType))

if hasattr(transforms, "weakref"):
    for _transform, _inverse in ((transforms.Transform, app.inverse), (transforms.ComposeTransform, app.inverse_of_parts)):
        traced_as(vars(_transform)["inv"].fget)(_inverse)
