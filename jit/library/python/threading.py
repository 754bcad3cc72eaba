"""threading: the number and the local attributes are those of the running thread, and a free lock is held from the guard walk to the last change under it."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Sequence
from types import CodeType
from typing import Any

from framejit import breaks
from framejit._runtime import release_lock
from framejit.graph.builder import TorchVM
from framejit.graph.fake import is_of_others
from framejit.graph.finished import GraphResult
from framejit.guards import thread_locals
from framejit.guards.locks import HeldLock, is_free
from framejit.guards.source import MISSING, CAttr, Source
from framejit.objects.core.object import VM, Codegen, Namespace, Object, object_getattribute, object_setattr
from framejit.objects.core.registry import models, wraps
from framejit.objects.types.constobject import ConstObject
from framejit.program import classes

LEFT = breaks.UnsupportedCall("a lock that the compiled code would hold for longer than the program does")
"""The reason why a lock is taken natively after all."""

OWN_CODE = ("__new__", "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__slots__")
"""Attributes of a subclass with which an instance's attributes aren't simply those of its class and of the thread."""


class ThreadLocalObject(Object):
    """A threading.local from outside. Guards and stores go to the `__dict__` of the calling thread."""

    __slots__ = ()

    def instance_dict(self, vm: VM) -> Namespace | None:
        if self.attrs is None:
            assert self.source is not None
            own = classes.lookup(self.cls, "__init__") is not object.__init__
            source = self.source.child(thread_locals.ThreadDict) if own else self.source.child(CAttr, "__dict__")
            found = vm.observe(vm.wrap(self.value.__dict__, source))
            assert isinstance(found, Namespace)
            vm.trail.fill(self, "attrs", found)
        return self.attrs

    def getattr(self, vm: VM, name: str) -> Object:
        if name == "__dict__":
            found = self.instance_dict(vm)
            assert found is not None
            return found
        return object_getattribute(vm, self, name)

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        object_setattr(vm, self, name, value)


@wraps(_thread._local, shared=True)
def wrap_thread_local(vm: VM, value: Any, source: Source) -> Object:
    """Wrap a threading.local. A subclass with an `__init__` calls that in each thread, at the first access: it may only store constants."""
    cls = type(value)
    has_own_code = any(name in vars(base) for base in cls.__mro__[: cls.__mro__.index(_thread._local)] for name in OWN_CODE)
    if has_own_code or not (classes.lookup(cls, "__init__") is object.__init__ or begins_plainly(vm, value)):
        vm.unsupported(breaks.UnsupportedValue(f"a {classes.qualname(cls)}, whose attributes are found by C code"))
    return ThreadLocalObject(cls, source, value)


def begins_plainly(vm: VM, value: Any) -> bool:
    """Return whether the constructor of a local only stores constants. It runs in this thread, if it hasn't yet."""
    code = thread_locals.constructor(type(value))
    if code is None or not vm.plain_code.only_stores_constants(code):
        return False
    thread_locals.note(value)
    thread_locals.begin()
    return bool(thread_locals.has_thread_attributes(value))


class ThreadNumber(ConstObject):
    """The number of the running thread. It is guarded when it is asked for, and not before."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_thread.get_ident(), None, pending=True)

    def constant(self, vm: VM) -> Any:
        if self.pending:
            vm.guards.read(_thread.get_ident)
            vm.guards.rest_on_process("the number of a thread")
            vm.trail.fill(self, "pending", False)
        return self.value

    def truth(self, vm: VM) -> bool:
        return True

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return vm.const(symbol == "==") if symbol in ("==", "!=") and isinstance(other, ThreadNumber) else None

    def reconstruct(self, cg: Codegen) -> None:
        cg.call_const(_thread.get_ident, 0)


@models(_thread.get_ident)
def get_ident(vm: VM) -> Object:
    """Modules/_threadmodule.c: thread_get_ident."""
    return ThreadNumber()


class LockObject(Object):
    """A threading.Lock or RLock, from outside or made by the trace. Modules/_threadmodule.c: lock_acquire_lock, rlock_acquire.

    `depth`: the number of times that the trace has taken it and not released it yet. `sections`: the number of sections so far in which the program holds it.
    """

    __slots__ = ("depth", "sections")
    is_true = True

    def __init__(self, cls: type, source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(cls, source, value)
        self.depth = self.sections = 0

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.cls)
        cg.load_const(self.depth)
        cg.call_const(new_lock, 2)


def new_lock(cls: type, depth: int) -> Any:
    """A lock that the current thread has taken so many times (runs in generated code)."""
    made = threading.RLock() if cls is _thread.RLock else threading.Lock()
    for _ in range(depth):
        made.acquire()
    return made


wraps(_thread.LockType, _thread.RLock, shared=True)(LockObject)


class OpenSection:
    """The check, when the code is planned, that the trace has left a section in which it holds a lock. If not, the lock is taken natively."""

    __slots__ = ("vm", "lock", "place")

    def __init__(self, vm: VM, lock: LockObject, place: tuple[CodeType, int]) -> None:
        self.vm, self.lock, self.place = vm, lock, place

    def replay(self, cg: Codegen) -> None:
        if self.lock.depth:
            self.vm.restart(self.place, LEFT)

    def referents(self) -> list[Object]:
        return []


class ClosedSection:
    """The end of a section that holds a lock. The generated code releases the lock after what was changed in the last section that holds it.

    `number`: which section of this lock it is. `place`: that of its beginning.
    """

    __slots__ = ("lock", "number", "held", "place")

    def __init__(self, lock: LockObject, held: Source, place: tuple[CodeType, int]) -> None:
        self.lock, self.number, self.held, self.place = lock, lock.sections, Object(object, held), place

    def replay(self, cg: Codegen) -> None:
        if self.number == self.lock.sections:
            cg.load(self.held)
            cg.call_const(release_lock, 1)
            cg.pop_top()

    def referents(self) -> list[Object]:
        return []

    def __str__(self) -> str:
        return "a lock is released"


@models(*dict.fromkeys((threading.Lock, _thread.allocate_lock)))
def make_lock(vm: VM) -> Object:
    """Modules/_threadmodule.c: newlockobject."""
    return LockObject(_thread.LockType)


@models(_thread.RLock)
def make_reentrant_lock(vm: VM) -> Object:
    """Modules/_threadmodule.c: rlock_new."""
    return LockObject(_thread.RLock)


def own_lock(vm: TorchVM, lock: Object, method: str) -> LockObject:
    """A lock on which the trace may call a method."""
    lock = vm.observe(lock)
    if not isinstance(lock, LockObject) or vm.graph.is_inner():
        vm.unsupported(breaks.UnsupportedCall(f"{method}() of a lock"))
    return lock


def take(vm: TorchVM, lock: LockObject, method: str) -> Object:
    """Hold a lock from here on. The guard walk takes it, which fails if it isn't free; so does a trace whose code might wait for other threads meanwhile.
    No other thread knows of a lock that the trace has made."""
    reentrant = lock.cls is _thread.RLock
    place = vm.place()
    if (lock.depth and not reentrant) or (not lock.depth and lock.source is not None and not is_free(lock.value)):
        vm.unsupported(breaks.UnsupportedCall(f"{method}() of a lock that is taken"))
    if lock.source is None:
        vm.trail.set(lock, "depth", lock.depth + 1)
        return vm.const(True)
    if not all(isinstance(effect, (Object, OpenSection, ClosedSection)) for effect in vm.effects.all()):
        vm.unsupported(breaks.UnsupportedCall(f"{method}() of a lock, after a call that may wait for other threads"))
    vm.trail.set(lock, "depth", lock.depth + 1)
    if lock.depth == 1:
        vm.trail.set(lock, "sections", lock.sections + 1)
        vm.effects.at_end(OpenSection(vm, lock, place))
    return vm.const(True)


def give(vm: TorchVM, lock: LockObject, method: str) -> Object:
    """Release a lock that the trace holds."""
    if not lock.depth:
        vm.unsupported(breaks.UnsupportedCall(f"{method}() of a lock that was taken before"))
    vm.trail.set(lock, "depth", lock.depth - 1)
    if not lock.depth and lock.source is not None:
        begun = next(effect for effect in reversed(vm.effects.all()) if isinstance(effect, OpenSection) and effect.lock is lock)
        vm.effects.in_order(ClosedSection(lock, lock.source.child(HeldLock), begun.place))
    return vm.const(None)


@models(_thread.LockType.__enter__, _thread.RLock.__enter__)
def enter_lock(vm: TorchVM, self: Object) -> Object:
    """Modules/_threadmodule.c: lock_acquire_lock."""
    return take(vm, own_lock(vm, self, "__enter__"), "__enter__")


@models(_thread.LockType.__exit__, _thread.RLock.__exit__)
def exit_lock(vm: TorchVM, self: Object, *args: Object) -> Object:
    """Modules/_threadmodule.c: lock_release_lock, rlock_release. The exception is left as it is."""
    return give(vm, own_lock(vm, self, "__exit__"), "__exit__")


@models(_thread.LockType.acquire, _thread.RLock.acquire)
def acquire(vm: TorchVM, self: Object) -> Object:
    """Modules/_threadmodule.c: lock_acquire_lock, without arguments."""
    return take(vm, own_lock(vm, self, "acquire"), "acquire")


@models(_thread.LockType.release, _thread.RLock.release)
def release(vm: TorchVM, self: Object) -> Object:
    """Modules/_threadmodule.c: lock_release_lock, rlock_release."""
    return give(vm, own_lock(vm, self, "release"), "release")


def check_locks(vm: TorchVM, graph: GraphResult) -> None:
    """Restart the trace without a lock if its graph might wait for another thread while the lock is held: for one that needs a lock that this one has."""
    closed = [effect for effect in vm.effects.all() if isinstance(effect, ClosedSection)]
    if closed and may_wait(graph):
        vm.restart(closed[0].place, LEFT)


def may_wait(graph: GraphResult) -> bool:
    """Return whether a graph calls functions or operators that aren't torch's own, which may take locks."""
    modules: Sequence[Any] = list(graph.gm.modules())
    return any(is_of_others(node.target) for module in modules if hasattr(module, "graph") for node in module.graph.nodes)
