"""Exceptions (Objects/exceptions.c): made, raised, caught and inspected inside the trace."""

from __future__ import annotations

import builtins
import contextlib
from types import GetSetDescriptorType, TracebackType
from typing import Any, NoReturn

from framejit import breaks
from framejit._runtime import look_up_failed
from framejit.guards.kinds import TypeIs
from framejit.guards.source import MISSING, CAttr, Source
from framejit.objects.core import abstract, text, wording
from framejit.objects.core.object import VM, Codegen, NotConstant, Object, is_c_member, member_source
from framejit.objects.core.registry import models, sets, wraps
from framejit.objects.types import typefields
from framejit.objects.types.instancedict import fill_instance_dict
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes
from framejit.quick_dataclass import dataclass

BUILTIN_EXCEPTIONS = [cls for cls in vars(builtins).values() if isinstance(cls, type) and issubclass(cls, BaseException)]
FIELDS = ("__cause__", "__context__", "__suppress_context__", "__traceback__")
LOOK_UP = (vars(AttributeError)["name"], vars(AttributeError)["obj"])
"""The fields in which an AttributeError notes the attribute look-up that it has left."""
TYPED = ("__suppress_context__", "start", "end", "message", "exceptions")
"""C members that don't accept every value."""
OF_GROUPS = ("message", "exceptions")
"""C members that are set only by the constructor."""


class ExceptionObject(Object):
    """An exception instance made by the trace, or one from outside that is only passed on, raised or compared."""

    __slots__ = ("args", "made_of", "fields", "entries", "beneath", "passed", "seen", "directives")
    has_dict = True
    is_filled = True

    def __init__(self, cls: type, args: list[Object], source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(cls, source, value)
        self.args = args
        self.made_of: list[Object] | None = None  # the constructor's arguments, if `args` differs from them
        self.fields: dict[str, Object] = {}
        self.entries: list[Any] = []  # its traceback for reports, innermost first
        self.beneath: TracebackObject | None = None  # the traceback of another exception that it was given: the inner end of its own
        self.passed: list[Any] = []  # the places that it has passed since then (codegen.tracebacks), innermost first
        self.seen: TracebackObject | None = None  # the traceback that the program has read last
        self.directives: Any = None  # the user's directives that were in force where it was raised

    def real(self, vm: VM) -> BaseException:
        """A real exception of the builtin class, made from the same arguments and with the same C fields, as far as those are constants."""
        args = [vm.observe(arg).as_real(vm) for arg in self.made_of or self.args]
        try:
            real = builtin_base(self.cls)(*args)
        except (TypeError, ValueError):  # one that `__new__` has made without its arguments
            vm.unsupported(breaks.UnsupportedValue(f"a {classes.qualname(self.cls)} without its fields"))
        for name, value in self.fields.items():
            if name not in FIELDS and name not in OF_GROUPS:
                set_field(real, name, vm.observe(value).as_real(vm))
        return real

    def get_slot(self, vm: VM, member: Any) -> Object:
        """C members: `StopIteration.value`, `ImportError.name` and so on; KeyError has none."""
        if not is_c_member(member):
            return self.own_slot(vm, member)
        found = self.fields.get(member.__name__)
        if found is not None:
            return found
        if self.source is not None:
            return vm.wrap(member.__get__(self.value), member_source(vm, self, self.source, member))
        match member.__name__:
            case "value" if issubclass(self.cls, StopIteration):
                return self.args[0] if self.args else vm.const(None)
            case "code" if issubclass(self.cls, SystemExit) and len(self.args) < 2:
                return self.args[0] if self.args else vm.const(None)
            case "msg" if issubclass(self.cls, ImportError):
                return self.args[0] if len(self.args) == 1 else vm.const(None)
            case _ if issubclass(self.cls, (AttributeError, NameError, ImportError)):
                return vm.const(None)  # otherwise it would be one of the fields
        return vm.from_real(member.__get__(self.real(vm)))

    def own_slot(self, vm: VM, member: Any) -> Object:
        """A slot of one of the program's classes."""
        self.reject_renamed(vm, member)
        found = self.fields.get(member.__name__)
        if found is not None:
            return found
        if self.source is not None:
            return super().get_slot(vm, member)
        name = abstract.full_type_name(vm, self) if wording.HAS_FULL_NAMES else self.type_name
        vm.raise_(AttributeError, f"'{name}' object has no attribute '{member.__name__}'")

    def reject_renamed(self, vm: VM, member: Any) -> None:
        """Break for a slot that can't be set as the attribute of its name: the name means something else, or is that of a C member."""
        if vm.raw_type_lookup(self.cls, member.__name__) is not member or hasattr(builtin_base(self.cls), member.__name__):
            raise NotConstant(self)

    def set_slot(self, vm: VM, member: Any, value: Object | None) -> None:
        if not is_c_member(member):
            self.reject_renamed(vm, member)
            if value is None:
                raise NotConstant(self)
        if member.__name__ in TYPED:
            try:
                member.__delete__(self.real(vm)) if value is None else member.__set__(self.real(vm), vm.observe(value).as_real(vm))
            except (TypeError, AttributeError, OverflowError) as error:
                vm.raise_(type(error), *error.args)
        self.set_field(vm, member.__name__, value or vm.const(None))

    def asked_for(self, vm: VM, obj: Object, name: str) -> None:
        """Objects/object.c: set_attribute_error_context."""
        if not issubclass(self.cls, AttributeError) or "name" in self.fields or "obj" in self.fields:
            return
        if self.source is not None and any(vm.observe(self.get_slot(vm, field)).cls is not type(None) for field in LOOK_UP):
            return
        abstract.setattr_(vm, self, "name", vm.const(name))
        abstract.setattr_(vm, self, "obj", obj)

    def field(self, vm: VM, name: str) -> Object:
        """One of FIELDS."""
        if self.source is not None:
            if name == "__traceback__" and self.passed:
                vm.unsupported(breaks.UnsupportedOperation("looking at the traceback of an exception made outside, which has got longer"))
            return vm.wrap(getattr(self.value, name), self.source.child(CAttr, name))
        if name == "__traceback__":
            return self.traceback(vm)
        return self.fields.get(name) or vm.const(False if name == "__suppress_context__" else None)

    def set_field(self, vm: VM, name: str, value: Object) -> None:
        """Set `__cause__`, `__context__` or a similar field."""
        self.check_made_here(vm)
        vm.trail.set(self, "fields", {**self.fields, name: value})

    def check_made_here(self, vm: VM) -> None:
        """Break for an exception from outside: its changes would have to be replayed, which isn't implemented."""
        if self.source is not None:
            vm.unsupported(breaks.UnsupportedOperation("changing an exception made outside"))

    def set_args(self, vm: VM, args: list[Object]) -> None:
        self.check_made_here(vm)
        vm.trail.set(self, "args", args)

    def add_entry(self, vm: VM, entry: Any, passed: Any) -> None:
        """Record that the exception leaves the instruction that raised it, or a call: `entry` for reports, `passed` (codegen.tracebacks) for its traceback."""
        if self.source is not None:
            vm.effects.at_end(AddedEntry(self, passed))
        if not self.entries:
            vm.trail.set(self, "directives", vm.directives)
        vm.trail.set(self, "entries", [*self.entries, entry])
        vm.trail.set(self, "passed", [*self.passed, passed])

    def traceback(self, vm: VM) -> Object:
        """The exception's traceback as it is now. It stays one object until the exception passes another place."""
        if not self.passed:
            return self.beneath or vm.const(None)
        if self.seen is None or self.seen.passed is not self.passed:
            vm.trail.fill(self, "seen", TracebackObject(self))
        return self.seen  # type: ignore[return-value]

    def set_traceback(self, vm: VM, traceback: Object) -> None:
        """Set the traceback. None removes the places passed, an earlier traceback of the exception restores those of that time, and the traceback of another
        exception becomes the inner end of its own."""
        self.check_made_here(vm)
        traceback = vm.observe(traceback)
        if traceback.cls is type(None):
            self.start_traceback(vm, None, [], [])
        elif isinstance(traceback, TracebackObject) and traceback.exc is self:
            self.start_traceback(vm, traceback.beneath, traceback.entries, traceback.passed)
            vm.trail.set(self, "seen", traceback)
        elif isinstance(traceback, TracebackObject):
            self.start_traceback(vm, traceback, traceback.entries, [])
        elif traceback.cls is TracebackType:
            vm.unsupported(breaks.UnsupportedOperation("giving an exception another traceback"))
        else:
            refused(vm, "__traceback__", object())

    def start_traceback(self, vm: VM, beneath: TracebackObject | None, entries: list[Any], passed: list[Any]) -> None:
        vm.trail.set(self, "beneath", beneath)
        vm.trail.set(self, "entries", entries)
        vm.trail.set(self, "passed", passed)

    def has_other_args(self) -> bool:
        """Return whether a group was made of other arguments than its `args`, which the `__init__` of a class of its own sets."""
        made_of = self.made_of
        if made_of is None or not issubclass(self.cls, BaseExceptionGroup):
            return False
        return len(made_of) != len(self.args) or any(a is not b for a, b in zip(made_of, self.args, strict=True))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.cls)
        made_of = self.made_of or self.args
        for arg in made_of:
            cg.load(arg)
        cg.call_const(new_exception, len(made_of) + 1)

    def fill(self, cg: Codegen) -> None:
        for name, value in self.fields.items():
            if name not in OF_GROUPS:
                cg.load(self)
                cg.load_const(name)
                cg.load(value)
                cg.call_const(set_field, 3)
                cg.pop_top()
        if self.has_other_args():
            cg.load(self)
            cg.load_const("args")
            for arg in self.args:
                cg.load(arg)
            cg.build_tuple(len(self.args))
            cg.call_const(set_field, 3)
            cg.pop_top()
        if self.beneath is not None:
            cg.load(self)
            cg.load_const("__traceback__")
            cg.load(self.beneath)
            cg.call_const(set_field, 3)
            cg.pop_top()
        if self.passed:
            load_entries(cg, self, self.passed)
        fill_instance_dict(cg, self, self.attrs)

    def referents(self) -> list[Object]:
        optional = [each for each in (self.attrs, self.beneath) if each is not None]
        return [*self.args, *(self.made_of or ()), *self.fields.values(), *optional]


class TracebackObject(Object):
    """The traceback, at one time, of an exception that the trace raised: passed around (to `__exit__`, `with_traceback`) but not read."""

    __slots__ = ("exc", "beneath", "entries", "passed")

    def __init__(self, exc: ExceptionObject) -> None:
        super().__init__(TracebackType)
        self.exc = exc
        self.beneath = exc.beneath
        self.entries = exc.entries
        self.passed = exc.passed

    def referents(self) -> list[Object]:
        return [self.exc]

    def reconstruct(self, cg: Codegen) -> None:
        if self.exc.beneath is not self.beneath or self.exc.passed[: len(self.passed)] != self.passed:
            cg.unsupported(breaks.CannotReconstruct("a traceback that its exception doesn't have any more"))
        cg.load(self.exc)
        cg.load_attr("__traceback__")
        for _ in range(len(self.exc.passed) - len(self.passed)):
            cg.load_attr("tb_next")


def is_stop_iteration_of_generator(exc: Object) -> bool:
    """Return whether an exception is the RuntimeError that a generator raises in place of a StopIteration."""
    cause = exc.fields.get("__cause__") if isinstance(exc, ExceptionObject) else None
    return cause is not None and exc.cls is RuntimeError and issubclass(cause.cls, StopIteration)


def chain_context(vm: VM, exc: Object, handled: Object) -> None:
    """Python/errors.c: _PyErr_SetObject: the exception being handled becomes the context; a new cycle is cut."""
    if exc is handled or not isinstance(exc, ExceptionObject):
        return
    link: Object | None = handled
    passed: list[Object] = []
    while isinstance(link, ExceptionObject) and link not in passed:  # the program may have made cycles
        passed.append(link)
        following = link.fields.get("__context__")
        if following is exc:
            link.set_field(vm, "__context__", vm.const(None))
            break
        link = following
    exc.set_field(vm, "__context__", handled)


def decides_subclasses(vm: VM, cls: type) -> bool:
    """Return whether a metaclass decides in Python what the subclasses of a class are (Python/errors.c: _PyErr_NormalizeException asks it, in CPython 3.11)."""
    return vm.raw_type_lookup(type(cls), "__subclasscheck__") is not type.__subclasscheck__


def normalized(vm: VM, exc: Object, cause: Object | None) -> Object:
    """Python/ceval.c: do_raise: classes are instantiated; anything else must be an exception."""
    exc = vm.observe(exc)
    if issubclass(exc.cls, type) and issubclass(exc.value, BaseException):
        cls, exc = exc, vm.observe(abstract.call(vm, exc, []))
        if not issubclass(exc.cls, BaseException):
            wanted, got = (text.repr_(vm, each).constant(vm) for each in (cls, vm.const(exc.cls)))
            vm.raise_(TypeError, f"calling {wanted} should have returned an instance of BaseException, not {got}")
    if not issubclass(exc.cls, BaseException):
        vm.raise_(TypeError, "exceptions must derive from BaseException")
    if decides_subclasses(vm, exc.cls):
        vm.unsupported(breaks.UnsupportedOperation("raising an exception whose metaclass has a __subclasscheck__"))
    if exc.source is not None:
        vm.unsupported(breaks.UnsupportedOperation("raising an exception made outside, which would change its traceback"))
    if cause is not None:
        cause = vm.observe(cause)
        if issubclass(cause.cls, type) and issubclass(cause.value, BaseException):
            cause = vm.observe(abstract.call(vm, cause, []))
            if not issubclass(cause.cls, BaseException):
                vm.unsupported(breaks.UnsupportedOperation("raising an exception from a class that makes no exceptions"))
        if not isinstance(exc, ExceptionObject):
            vm.unsupported(breaks.UnsupportedValue("an exception that came from outside"))
        if cause.cls is not type(None) and not issubclass(cause.cls, BaseException):
            vm.raise_(TypeError, "exception causes must derive from BaseException")
        exc.set_field(vm, "__cause__", cause)
        exc.set_field(vm, "__suppress_context__", vm.const(True))
    return exc


@dataclass(frozen=True, slots=True, eq=False)
class AddedEntry:
    """The effect of an exception from outside passing through a frame of the trace."""

    exc: ExceptionObject
    passed: Any

    def replay(self, cg: Codegen) -> None:
        load_entries(cg, self.exc, [self.passed])

    def referents(self) -> list[Object]:
        return [self.exc]


def load_entries(cg: Codegen, exc: ExceptionObject, passed: list[Any]) -> None:
    """Emit code that adds entries to a traceback."""
    cg.load(exc)
    cg.load_const(tuple(passed))
    cg.call_const(add_entries, 2)
    cg.pop_top()


def add_entries(exc: BaseException, passed: tuple[Any, ...]) -> None:
    """Extend a traceback outwards by the places passed, innermost first (runs in generated code)."""
    traceback = exc.__traceback__
    for place in passed:
        traceback = place.ahead_of(traceback)
    BaseException.with_traceback(exc, traceback)


def new_exception(cls: type[BaseException], *args: Any) -> BaseException:
    """An exception instance with its C fields set, bypassing any `__new__` and `__init__` in Python (runs in generated code)."""
    base = builtin_base(cls)
    made = base.__new__(cls, *args)
    with contextlib.suppress(TypeError):  # raised for arguments that `__init__` was never called with
        base.__init__(made, *args)
    return made


def builtin_base(cls: type) -> type[BaseException]:
    """The class itself, or the first of its bases that is written in C."""
    return next(base for base in classes.mro(cls) if classes.module(base) == "builtins")


def set_field(exc: BaseException, name: str, value: Any) -> None:
    """Set `__context__` or a similar field, bypassing what the program's class may define under that name (runs in generated code)."""
    getattr(builtin_base(type(exc)), name).__set__(exc, value)


@wraps(BaseException, shared=True)
def wrap_exception(vm: VM, value: BaseException, source: Source) -> Object:
    cls = type(value)
    if any(vm.raw_type_lookup(cls, name) is not vars(BaseException)[name] for name in ("args", *FIELDS)):
        vm.unsupported(breaks.UnsupportedValue(f"a {classes.qualname(cls)}, which redefines the fields of exceptions"))
    vm.guard(TypeIs, source, cls)
    args = vm.observe(vm.wrap(value.args, source.child(CAttr, "args")))
    if args.cls is not tuple:  # such as the named tuple about which an OrderedDict has raised a KeyError
        vm.unsupported(breaks.UnsupportedValue(f"an exception whose args are a {args.type_name}"))
    return ExceptionObject(type(value), abstract.iterate(vm, args), source, value)


@models(BaseException.__dict__["args"])
def exception_args(vm: VM, self: Object) -> Object:
    assert isinstance(self, ExceptionObject)
    return TupleObject(self.args)


def field_getter(name: str) -> Any:
    """The getter of one of FIELDS."""

    def get(vm: VM, self: Object) -> Object:
        assert isinstance(self, ExceptionObject)
        return self.field(vm, name)

    return get


def refused(vm: VM, name: str, *value: Any) -> NoReturn:
    """Raise the error for setting a field to this value, or for deleting it."""
    try:
        setattr(BaseException(), name, *value) if value else delattr(BaseException(), name)
    except TypeError as error:
        vm.raise_(TypeError, *error.args)
    raise AssertionError(name)


def field_setter(name: str) -> Any:
    def put(vm: VM, self: Object, value: Object | None) -> None:
        assert isinstance(self, ExceptionObject)
        if value is None:
            refused(vm, name)
        if name == "__traceback__":
            self.set_traceback(vm, value)
            return
        if not issubclass(vm.observe(value).cls, (BaseException, type(None))):
            refused(vm, name, object())
        self.set_field(vm, name, value)
        if name == "__cause__":
            self.set_field(vm, "__suppress_context__", vm.const(True))

    return put


for _name in FIELDS:
    models(BaseException.__dict__[_name])(field_getter(_name))
    if type(BaseException.__dict__[_name]) is GetSetDescriptorType:  # and not a member, of which `set_slot` sets every value
        sets(BaseException.__dict__[_name])(field_setter(_name))


@models(BaseException.with_traceback)
def with_traceback(vm: VM, self: Object, traceback: Object) -> Object:
    assert isinstance(self, ExceptionObject)
    self.set_traceback(vm, traceback)
    return self


@models(look_up_failed)
def exception_of_look_up(vm: VM, obj: Object, exc: Object, name: Object) -> Object:
    """Handle an exception that leaves a frame which looked up an attribute, in the prologue of a resume function (codegen.resume)."""
    vm.observe(exc).asked_for(vm, obj, vm.observe(name).constant(vm))
    return exc


@models(BaseException.add_note)
def add_note(vm: VM, self: Object, note: Object) -> Object:
    """Objects/exceptions.c: BaseException_add_note."""
    note = vm.observe(note)
    if not issubclass(note.cls, str):
        is_new = wording.NAMES_ARGUMENT_OF_NOTE
        vm.raise_(TypeError, f"add_note() argument must be str, not {note.type_name}" if is_new else f"note must be a str, not '{note.type_name}'")
    notes = abstract.lookup_attr(vm, self, "__notes__")
    if notes is None:
        notes = ListObject([])
        abstract.setattr_(vm, self, "__notes__", notes)
    notes = vm.observe(notes)
    if not issubclass(notes.cls, list):
        vm.raise_(TypeError, "Cannot add note: __notes__ is not a list")
    abstract.call(vm, vm.pin(list.append), [notes, note])
    return vm.const(None)


@models(*[vars(cls)["__str__"] for cls in BUILTIN_EXCEPTIONS if "__str__" in vars(cls)])
def exception_str(vm: VM, self: Object) -> Object:
    assert isinstance(self, ExceptionObject)
    if issubclass(self.cls, BaseExceptionGroup) and self.source is None:  # BaseExceptionGroup_str
        count = len(abstract.iterate(vm, self.fields["exceptions"]))
        message = text.str_(vm, self.fields["message"]).constant(vm)
        return vm.const(f"{message} ({count} sub-exception{'s' * (count > 1)})")
    if issubclass(self.cls, (KeyError, OSError, ImportError, SyntaxError, UnicodeError, BaseExceptionGroup)) or not self.args:
        if self.source is not None and not issubclass(self.cls, KeyError) and self.args:
            vm.unsupported(breaks.UnsupportedCall(f"str() of a {classes.name(self.cls)} made outside"))
        return vm.from_real(str(self.real(vm)))
    return text.str_(vm, self.args[0] if len(self.args) == 1 else TupleObject(self.args))


@models(BaseException.__repr__)
def exception_repr(vm: VM, self: Object) -> Object:
    assert isinstance(self, ExceptionObject)
    inner = ", ".join(text.repr_(vm, arg).constant(vm) for arg in self.args)
    return vm.const(f"{typefields.name_of(vm, self.cls)}({inner})")
