"""Compiled modules. Each is an object of a subclass of its original's class, and shares all state with the original. Modules of one class share a subclass."""

from __future__ import annotations

import contextlib
import copy
import copyreg
import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

from torch import nn

from framejit._runtime import CompiledFunction
from framejit.driver.holdings import lives_anyway, survey
from framejit.driver.shared_fields import asked_by, share_fields, shared_fields
from framejit.driver.silent_subclass import silent_subclass
from framejit.errors import BadArgument
from framejit.guards.source import Reference
from framejit.program import classes
from framejit.program.code_kinds import AROUND_CALLS

Function = Any
"""A types.FunctionType, which type checkers take no `def` for."""
ORIGINAL = "__framejit_original__"
"""The attribute of a compiled module's class that names the class of its original."""
MOST_WAITING = 16
"""The most fronts of one class that are kept for a later `compile` with the same options."""

_lock = threading.RLock()  # a module may end whenever the garbage collector runs
_fronts: dict[int, list[Front]] = {}


def module_with_call(module: nn.Module, wrap: Callable[[Function], Any], settings: Any = None, compiles: bool = False) -> nn.Module:
    """A new object of a subclass of the module's class, with the module's own `__dict__`. Its calls run what `wrap` makes of the class's `__call__`.

    Copies and pickles of it are ordinary modules. `settings`: the options on which `wrap` depends, if the subclass may be shared with other modules of the
    class, which then share the entries of its `__call__`; otherwise None. `compiles`: whether `wrap` compiles. If so, it is given the uncompiled original
    of a module that was compiled before; otherwise, wrappers that are around the module already are kept.
    """

    def subclass_of(cls: type) -> Front:
        if settings is None:
            return Front(cls, raw_call(cls), None, class_with_call(cls, wrap, compiles))
        return shared_class(cls, raw_call(cls), settings, lambda: class_with_call(cls, wrap, compiles))

    def take_over(made: nn.Module, module: nn.Module) -> None:
        front = subclass_of(class_of(module, compiles))
        if front.raw is not raw_call(type(made).__mro__[1]):
            raise BadArgument(f"the compiled module's original has been given the class {front.cls.__qualname__}, with a __call__ of its own; "
                              "compile the module again")  # fmt: skip
        try:
            object.__setattr__(made, "__class__", front.subclass)
        except TypeError as error:
            raise BadArgument(f"the compiled module's original has been given the class {front.cls.__qualname__}, whose objects have other fields "
                              "(`__slots__`); compile the module again") from error  # fmt: skip
        front.add(made, module)

    front = subclass_of(class_of(module, compiles))
    made = object_of(front.subclass, module)
    front.add(made, module)
    _followed[id(made)] = Following(made, module, take_over)
    return made


def class_of(module: nn.Module, compiles: bool) -> type:
    """The class of which a subclass is made: the module's class, or the class of the original if a compiled module is compiled again."""
    cls = type(module)
    if compiles and ORIGINAL in cls.__dict__ and isinstance(cls.__dict__["__call__"], CompiledFunction):
        return cls.__mro__[1]
    return cls


def object_of(subclass: type, module: nn.Module) -> nn.Module:
    """A second object with the state of the module."""
    made: nn.Module = object.__new__(subclass)
    object.__setattr__(made, "__dict__", module.__dict__)
    share_fields(made, module)
    return made


def class_with_call(cls: type, wrap: Callable[[Function], Any], compiles: bool) -> type:
    """A subclass of a module class that differs in `__call__`, and in how its objects are copied and pickled."""
    namespace = {
        ORIGINAL: cls.__dict__.get(ORIGINAL, cls),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__call__": wrap(call_of(cls) if compiles else raw_call(cls)),
        "__reduce_ex__": reduce_as_original,
        "__copy__": copy_original,
        **shared_fields(cls),
    }
    if hasattr(cls, "__deepcopy__"):
        namespace["__deepcopy__"] = deepcopy_original
    return silent_subclass(cls, namespace)


def original_of(made: Any) -> Any:
    """The module that a compiled module shares its state with, as an object of its own class."""
    asked = asked_by(made)
    if asked is not None:
        return asked
    original = object.__new__(getattr(type(made), ORIGINAL))
    object.__setattr__(original, "__dict__", made.__dict__)
    return original


def reduce_as_original(self: Any, protocol: Any) -> Any:
    """`__reduce_ex__` of a compiled module: it is pickled and copied as an object of the original class.

    `copyreg.__newobj__` would insist on the object's own class.
    """
    function, arguments, *rest = original_of(self).__reduce_ex__(protocol)
    if function is copyreg.__newobj__:  # type: ignore[attr-defined]
        function, arguments = copyreg._reconstructor, (arguments[0], object, None)  # type: ignore[attr-defined]
    return (function, arguments, *rest)


def copy_original(self: Any) -> Any:
    """`copy.copy` of a compiled module makes an ordinary module."""
    return copy.copy(original_of(self))


def deepcopy_original(self: Any, memo: dict[int, Any]) -> Any:
    """`copy.deepcopy` of a compiled module whose class defines `__deepcopy__`."""
    return copy.deepcopy(original_of(self), memo)


# What calls run.


def caller_of(target: Callable[..., Any]) -> Function:
    """A Python function that calls a callable which has no code of its own: a C function, a partial, an object with `__call__`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    own = call.__qualname__
    with contextlib.suppress(AttributeError, TypeError):
        functools.update_wrapper(call, target, updated=())
    if call.__qualname__ == own:
        call.__qualname__ = name_of(target)
    return call


def name_of(target: Callable[..., Any]) -> str:
    """The name that reports give to a callable without a name: that of a partial's function, or of an object's `__call__`."""
    if type(target) is functools.partial:
        return f"a partial of {getattr(target.func, '__qualname__', None) or name_of(target.func)}"
    return f"{type(target).__qualname__}.__call__"


def raw_call(cls: type) -> Any:
    """The attribute `__call__` of a class, unbound, which calls of its instances run; None if they can't be called."""
    return next((base.__dict__["__call__"] for base in cls.__mro__ if "__call__" in base.__dict__), None)


def call_of(cls: type) -> Function:
    """The Python function that calls of a class's instances run. If it is compiled, this is the function that was compiled."""
    call = raw_call(cls)
    call = call.function if isinstance(call, CompiledFunction) else call
    return call if isinstance(call, types.FunctionType) else caller_of(call)


# The subclass, shared.


class Front:
    """The state that compiled modules of one class share: the subclass that they are objects of, with its compiled `__call__`.

    As long as there are objects of the subclass, only they hold it, so that it becomes garbage together with them. After the last of these objects is gone, it
    is held for a later `compile`: of the modules that were compiled, unless it leads to one of them; and of other modules of the class, if the class lives
    without being held here. Otherwise a front is freed with the last of the modules.
    """

    def __init__(self, cls: type, raw: Any, options: Any, subclass: type) -> None:
        self.key = id(cls)
        self._raw = Reference(raw)
        self.options = options
        self._subclass = weakref.ref(subclass)
        self._held: type | None = subclass
        self.instances: dict[int, weakref.ref[Any]] = {}
        self.originals: dict[int, weakref.ref[nn.Module]] = {}
        self._backend: weakref.ref[Any] | None = None

    @property
    def subclass(self) -> Any:
        return self._subclass()

    @property
    def cls(self) -> Any:
        return self.subclass.__mro__[1]

    @property
    def raw(self) -> Any:
        """The original class's `__call__`, which calls of the modules run uncompiled."""
        return self._raw.get()

    def claim(self, raw: Any, options: Any) -> bool:
        """Return whether the subclass still exists, and was made from this `__call__` for these options. If so, it is held until one more object has been
        added."""
        subclass = self.subclass
        if subclass is None or self.raw is not raw or not options.same_as(self.options):
            return False
        self._held = subclass
        call = self.call
        if isinstance(call, CompiledFunction):
            compiler: Any = call.compile_callback
            compiler.hold_backend()
        return True

    @property
    def call(self) -> Any:
        """The compiled `__call__` of the subclass; None if the subclass is gone."""
        subclass = self.subclass
        return None if subclass is None else subclass.__dict__["__call__"]

    def add(self, instance: Any, original: nn.Module) -> None:
        """One more object of the subclass, which shares its state with `original`."""
        self.instances[id(instance)] = weakref.ref(instance, functools.partial(self._instance_gone, id(instance)))
        self.originals[id(original)] = weakref.ref(original, functools.partial(self._original_gone, id(original)))
        self._held = None

    def _instance_gone(self, key: int, gone: weakref.ref[Any]) -> None:
        if self.instances.get(key) is gone:
            del self.instances[key]
        if not self.instances:
            if self._may_wait():
                self._held = self.subclass
            else:
                self.end()

    def _original_gone(self, key: int, gone: weakref.ref[nn.Module]) -> None:
        if self.originals.get(key) is gone:
            del self.originals[key]
        if not self.originals and not self.instances and not self.class_lives():
            self.end()

    def class_lives(self) -> bool:
        """Return whether the class of the modules lives without being held here, so that other modules of the class may be compiled later."""
        return self.subclass is not None and all(map(lives_anyway, self.subclass.__mro__[1:]))

    def _may_wait(self) -> bool:
        """Return whether the compiled code can be kept for these or other modules, since it neither leads to one of them nor holds any other object of the
        program."""
        call, subclass = self.call, self.subclass
        modules = [module for module in (reference() for reference in self.originals.values()) if module is not None]
        if not isinstance(call, CompiledFunction) or sys.is_finalizing() or not any(entry.tree.alive for entry in call.entries):
            return False
        if not modules and not self.class_lives():
            return False
        compiler: Any = call.compile_callback
        backend, compiler.held_backend = compiler.held_backend, None
        classes = [cls for cls in subclass.__mro__ if not lives_anyway(cls)]
        sought = [*modules, *([] if backend is None else [backend])]
        if backend is not None:
            self._backend = weakref.ref(backend, self._backend_gone)
        if compiler.surveyed is None or compiler.surveyed[0] != compiler.compilations or classes[1:]:
            leads = survey([*call.entries, compiler], sought, classes)
            if leads is not None:
                classes_lead = survey(classes[1:], sought, [subclass], strict=False)
                leads = None if classes_lead is None else leads | classes_lead
            compiler.surveyed = (compiler.compilations, 0 if leads == set() else None)
        return compiler.surveyed[1] is not None

    def _backend_gone(self, gone: weakref.ref[Any]) -> None:
        if not self.instances:
            self.end()

    def end(self) -> None:
        """Forget the subclass and throw its entries away."""
        known = _fronts.get(self.key, [])
        if self in known:
            known.remove(self)
        if not known:
            _fronts.pop(self.key, None)
        call, self._held = self.call, None
        if isinstance(call, CompiledFunction):
            call.clear()


def forget() -> None:
    """Drop all fronts that are kept for a later `compile`. This is part of `reset()`."""
    for front in [front for known in list(_fronts.values()) for front in known]:
        if not front.instances:
            front.end()


def shared_class(cls: type, raw: Any, options: Any, make: Callable[[], type]) -> Front:
    """The front of a module class with the `__call__` that is `raw`, for these options."""
    with _lock:
        for front in _fronts.get(id(cls), []):
            if front.claim(raw, options):
                return front
    front = Front(cls, raw, options, make())
    with _lock:
        known = _fronts.setdefault(id(cls), [])
        waiting = [other for other in known if not other.instances]
        known.append(front)
        unused = [other for fronts in _fronts.values() for other in fronts if other is not front and not other.instances and not other.originals]
        outdated = [other for other in unused if not other.class_lives()]
    for other in outdated:  # their modules were gone before their class
        other.end()
    for other in waiting:
        if other.raw is not raw or len(waiting) >= MOST_WAITING:  # patched classes, options that are new each time
            other.end()
    return front


# The original may be given another class.


_followed: dict[int, Following] = {}


class Following:
    """A compiled module and the module that it shares its state with, whose class may be changed: parametrizations and the like do so.

    `take_over(made, module)` gives the compiled module that class.
    """

    def __init__(self, made: nn.Module, module: nn.Module, take_over: Callable[[nn.Module, nn.Module], None]) -> None:
        self.made = weakref.ref(made, lambda gone, key=id(made): _followed.pop(key, None))  # type: ignore[misc]
        self.module = weakref.ref(module)
        self.cls = weakref.ref(type(module))
        self.take_over = take_over


def compiled_of(module: nn.Module) -> nn.Module:
    """The module that a compiled module was made of, as long as it is there; of any other module itself."""
    following = _followed.get(id(module))
    original = None if following is None or following.made() is not module else following.module()
    return module if original is None else original


def module_in(value: Any) -> nn.Module | None:
    """The module that a call belongs to: its first argument, or the first module in the state if a resume function is called.

    For a compiled module, this is its original, which may be compiled more than once.
    """
    if issubclass(type(value), nn.Module):
        return compiled_of(value)
    if type(value) is tuple:
        return next((found for found in map(module_in, value) if found is not None), None)
    return None


def home(function: types.FunctionType, first: Any) -> types.CodeType:
    """The code that reports show for calls of a function with this first argument: for torch's function that runs all calls of modules, it is the code of
    the module's forward."""
    module = module_in(first) if function.__code__.co_filename.startswith(AROUND_CALLS) else None
    forward: Any = getattr(type(module), "forward", None)
    code = getattr(forward, "__code__", None)
    return code if isinstance(code, types.CodeType) else function.__code__


def class_made_for(first: Any) -> type | None:
    """The class of a function's first argument if framejit has made it for a compiled module; None if not."""
    cls = type(first)
    return cls if ORIGINAL in classes.class_dict(cls) else None


def catch_up(made: Any) -> bool:
    """Have a compiled module take over the class of its original, if that was changed. Returns whether it was."""
    following = _followed.get(id(made))
    module = None if following is None or following.made() is not made else following.module()
    if following is None or module is None or type(module) is following.cls():
        return False
    following.take_over(made, module)
    following.cls = weakref.ref(type(module))
    return True
