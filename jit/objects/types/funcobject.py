"""Python functions and bound methods (Objects/funcobject.c, classobject.c): fields, parameter binding, inlining."""

from __future__ import annotations

from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType, MethodType
from typing import Any

from framejit import breaks
from framejit.guards.kinds import CodeIs, IsMissing, TypeIs, ValueIs
from framejit.guards.source import MISSING, CAttr, ClosureCell, FunctionField, MethodField, Pinned, Slot, Source, TypeAttr
from framejit.objects.core import abstract, operators, wording
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.differences import has_docstring
from framejit.objects.core.object import VM, Codegen, Namespace, Object
from framejit.objects.core.registry import app_of, by_library, call_model, model_of, wraps
from framejit.objects.tensors.torchcall import torch_call
from framejit.objects.tensors.torchfunctions import operation_of
from framejit.objects.types.dictobject import dict_of
from framejit.objects.types.instancedict import fill_instance_dict
from framejit.objects.types.tupleobject import TupleObject

RENAMEABLE: dict[str, type] = {
    "__name__": str, "__qualname__": str, "__module__": object, "__doc__": object, "__annotations__": dict,
}  # fmt: skip
"""Fields of a function that functools.update_wrapper and similar functions set, and the types that they may be set to. `__defaults__` can be set too."""
if hasattr(FunctionType, "__type_params__"):
    RENAMEABLE["__type_params__"] = tuple
if "__annotate__" in vars(FunctionType):  # hasattr() would ask for the annotations of the class
    RENAMEABLE["__annotate__"] = object


class FunctionObject(Object):
    """A Python function from outside (`value` is the real one), or one made by the trace (MAKE_FUNCTION), which sets its `builtins`."""

    __slots__ = ("code", "globals", "builtins", "qualname", "defaults", "kwdefaults", "closure", "annotations", "renamed", "checked")
    has_dict = True
    is_filled = True

    def __init__(self, code: CodeType, namespace: Namespace, qualname: str, source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(FunctionType, source, value)
        self.code = code
        self.globals = namespace
        self.builtins: Namespace | None = None
        self.qualname = qualname
        self.defaults: Object | None = None
        self.kwdefaults: Object | None = None
        self.closure: list[Object] | None = None
        self.annotations: Object | None = None
        self.renamed: dict[str, Object] = {}
        self.checked = source is None

    @property
    def name_when_called(self) -> str:
        return self.qualname

    def name_in_errors(self, vm: VM) -> str:
        """The function's `__qualname__` as it is now, with which errors about arguments begin."""
        name: str = vm.observe(self.getattr(vm, "__qualname__")).constant(vm)
        return name

    def field(self, vm: VM, name: str, real: Any) -> Object | None:
        """A field of a function from outside: wrapped, or guarded to be missing."""
        if self.source is None:
            return vm.from_real(real) if real is not None else None
        source = self.source.child(FunctionField, name)
        if real is None:
            vm.guard(IsMissing, source)
            return None
        return vm.wrap(real, source)

    def default_values(self, vm: VM) -> list[Object]:
        """The values of `__defaults__`."""
        if "__defaults__" in self.renamed:
            given = vm.observe(self.renamed["__defaults__"])
            return [] if given.cls is type(None) else abstract.iterate(vm, given)
        if self.defaults is None and self.value is not MISSING:
            found = self.field(vm, "defaults", self.value.__defaults__)
            vm.trail.fill(self, "defaults", TupleObject([]) if found is None else found)
        return [] if self.defaults is None else abstract.iterate(vm, self.defaults)

    def keyword_default(self, vm: VM, name: str) -> Object | None:
        """One value of `__kwdefaults__`."""
        if self.kwdefaults is None and self.value is not MISSING:
            vm.trail.fill(self, "kwdefaults", self.field(vm, "kwdefaults", self.value.__kwdefaults__))
        if self.kwdefaults is None:
            return None
        return vm.observe(self.kwdefaults).lookup(vm, name)  # type: ignore[attr-defined]

    def cells(self, vm: VM) -> list[Object]:
        """The cells of the closure, in the order of co_freevars."""
        if self.closure is None:
            real = () if self.value is MISSING or self.value.__closure__ is None else self.value.__closure__
            if not real:
                return []
            names, source = self.code.co_freevars, self.source
            if source is None:
                cells = [vm.from_real(cell) for cell in real]
            else:
                cells = [vm.observe(vm.wrap(cell, source.child(ClosureCell, Slot(i, names[i])))) for i, cell in enumerate(real)]
            vm.trail.fill(self, "closure", cells)
            return cells
        return self.closure

    def is_data_descriptor(self, vm: VM) -> bool:
        return False

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type, delivery: Delivery | None = None) -> Object:
        return self if obj is None else MethodObject(self, obj)

    def call_as_method(
        self, vm: VM, receiver: Object, args: list[Object], kwargs: dict[str, Object] | None = None, delivery: Delivery | None = None
    ) -> Object:
        return self.call(vm, [receiver, *args], kwargs or {}, delivery)

    def check_code(self, vm: VM) -> None:
        """Guard what calling the function depends on: its code, and its globals unless the function itself is pinned."""
        if not self.checked:
            assert self.source is not None
            vm.trail.fill(self, "checked", True)
            vm.guard(CodeIs, self.source, self.code)
            if not isinstance(self.source, (Pinned, TypeAttr)):
                vm.guard(ValueIs, self.source.child(FunctionField, "globals"), self.value.__globals__)

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        if self.value is not MISSING:
            operation = operation_of(self.value)
            if operation is not None:
                found = torch_call(vm, operation, args, kwargs, self)
                return self.inline(vm, args, kwargs, delivery) if found is None else found
            model = model_of(self.value)
            if model is not None:
                if self.source is not None:
                    vm.guard(ValueIs, self.source, self.value)
                return call_model(vm, model, self.value, args, kwargs, delivery)
            stand_in = app_of(self.value)
            if stand_in is not None:
                if self.source is not None:
                    vm.guard(ValueIs, self.source, self.value)
                return vm.call_app(stand_in, args, kwargs)
        if self.value is not MISSING or self.attrs is not None:  # a function that the trace has made has no mark if it has no attributes
            intercepted = by_library(vm, self, args, kwargs)
            if intercepted is not None:
                return intercepted
        return self.inline(vm, args, kwargs, delivery)

    def inline(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        """Trace the function's own code."""
        self.check_code(vm)
        return vm.run_function(self, bind(vm, self, args, kwargs), delivery)

    def getattr(self, vm: VM, name: str) -> Object:
        if self.value is MISSING:
            found = self.own_field(vm, name)
            if found is not None:
                return found
        elif name in RENAMEABLE or name == "__code__":
            try:
                found = getattr(self.value, name)
            except Exception as error:  # annotations are computed when they are first asked for
                vm.unsupported(breaks.UnsupportedOperation(f"{name} of {self.qualname}(), which raises {type(error).__name__}"))
            if self.source is None:
                return vm.from_real(found)
            vm.guard(TypeIs, self.source, FunctionType)
            return vm.wrap(found, self.source.child(CAttr, name))
        if name == "__defaults__":
            values = self.default_values(vm)
            return TupleObject(values) if values else vm.const(None)
        if name == "__kwdefaults__":
            self.keyword_default(vm, "")
            return self.kwdefaults or vm.const(None)
        if name == "__globals__":
            return self.globals
        if name == "__closure__":
            return TupleObject(self.cells(vm)) if self.cells(vm) else vm.const(None)
        return Object.getattr(self, vm, name)

    def own_field(self, vm: VM, name: str) -> Object | None:
        """A field of a function made by the trace: the value that was set, or the initial one of func_new."""
        if name in self.renamed:
            return self.renamed[name]
        if name == "__name__":
            return vm.const(self.qualname.rpartition(".")[2])
        if name == "__qualname__":
            return vm.const(self.qualname)
        if name == "__code__":
            return vm.const(self.code)
        if name == "__module__":
            return self.globals.lookup(vm, "__name__") or vm.const(None)
        if name == "__doc__":
            first = self.code.co_consts[0] if self.code.co_consts and has_docstring(self.code) else None
            return vm.const(first if isinstance(first, str) else None)
        if name == "__type_params__" and name in RENAMEABLE:
            return vm.const(())
        if name == "__annotate__" and name in RENAMEABLE:
            return vm.const(None)
        if name == "__annotations__":
            if "__annotate__" in self.renamed:
                vm.unsupported(breaks.UnsupportedOperation(f"evaluating the annotations of {self.qualname}(), which the compiled code makes"))
            if self.annotations is None:
                vm.trail.set(self, "annotations", dict_of(vm, []))
            return self.annotations
        return None

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        if self.value is MISSING and value is not None:
            kinds = RENAMEABLE.get(name)
            if name == "__defaults__" and vm.observe(value).cls in (tuple, type(None)):
                kinds = object
            if name == "__annotate__" and kinds is not None and not self.takes_annotate(vm, value):
                kinds = None
            if kinds is not None and issubclass(vm.observe(value).cls, kinds):
                others = {key: part for key, part in self.renamed.items() if name != "__annotations__" or key != "__annotate__"}
                vm.trail.set(self, "renamed", {**others, name: value})
                return
        elif name in ("__name__", "__qualname__") and value is not None and vm.observe(value).cls is str:
            if vm.observe(value).constant(vm) == vm.observe(self.getattr(vm, name)).constant(vm):
                return  # it has that name already, which is guarded
        Object.setattr(self, vm, name, value)

    def takes_annotate(self, vm: VM, value: Object) -> bool:
        """Return whether `__annotate__` may be set to the value in a trace: a function or None, if there are no annotations that this would discard."""
        found = vm.observe(value)
        return self.annotations is None and "__annotations__" not in self.renamed and found.cls in (FunctionType, type(None))

    def reconstruct(self, cg: Codegen) -> None:
        """Build a function made by the trace: types.FunctionType(code, globals, name, defaults, closure), then its other fields."""
        cg.load_const(self.code)
        cg.load(self.globals)
        cg.load_const(self.qualname.rpartition(".")[2])
        if self.defaults is None:
            cg.load_const(None)
        else:
            cg.load(self.defaults)
        if self.closure:
            for cell in self.closure:
                cg.load(cell)
            cg.build_tuple(len(self.closure))
        else:
            cg.load_const(None)
        cg.call_const(FunctionType, 5)

    def fill(self, cg: Codegen) -> None:
        for name, part in (("__kwdefaults__", self.kwdefaults), ("__annotations__", self.annotations)):
            if part is not None:
                cg.load(part)
                cg.load(self)
                cg.store_attr(name)
        cg.load_const(self.qualname)
        cg.load(self)
        cg.store_attr("__qualname__")
        for name, part in self.renamed.items():
            cg.load(part)
            cg.load(self)
            cg.store_attr(name)
        fill_instance_dict(cg, self, self.attrs)

    def referents(self) -> list[Object]:
        parts = [self.globals, self.defaults, self.kwdefaults, self.annotations, self.attrs, *self.renamed.values()]
        return [part for part in parts if part is not None] + (self.closure or [])


def bind(vm: VM, function: FunctionObject, args: list[Object], kwargs: dict[str, Object]) -> dict[str, Object | None]:
    """Bind arguments to parameters (Python/ceval.c: initialize_locals)."""
    code = function.code
    n_args, n_kwonly = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    bound: dict[str, Object | None] = {}
    if not kwargs and not n_kwonly and len(args) == n_args and not code.co_flags & (CO_VARARGS | CO_VARKEYWORDS):
        return dict(zip(names, args, strict=False))
    bound.update(zip(names[:n_args], args, strict=False))
    extra = bind_keywords(vm, function, bound, kwargs)
    if len(args) > n_args and not code.co_flags & CO_VARARGS:
        vm.raise_(TypeError, too_many(function, vm, len(args), n_args, sum(key in bound for key in names[n_args : n_args + n_kwonly])))
    bind_defaults(vm, function, bound)
    position = n_args + n_kwonly
    if code.co_flags & CO_VARARGS:
        bound[names[position]] = TupleObject(args[n_args:])
        position += 1
    if code.co_flags & CO_VARKEYWORDS:
        bound[names[position]] = dict_of(vm, [(vm.const(key), value) for key, value in extra.items()])
    return bound


def bind_keywords(vm: VM, function: FunctionObject, bound: dict[str, Object | None], kwargs: dict[str, Object]) -> dict[str, Object]:
    """Bind keyword arguments to parameters. Returns those for `**`."""
    code = function.code
    n_posonly, n_named = code.co_posonlyargcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    extra: dict[str, Object] = {}
    for key, value in kwargs.items():
        if key in names[n_posonly:n_named]:
            if key in bound:
                vm.raise_(TypeError, f"{function.name_in_errors(vm)}() got multiple values for argument '{key}'")
            bound[key] = value
        elif code.co_flags & CO_VARKEYWORDS:
            extra[key] = value
        elif key in names[:n_posonly]:
            wrong = ", ".join(known for known in names[:n_posonly] if known in kwargs)
            vm.raise_(TypeError, f"{function.name_in_errors(vm)}() got some positional-only arguments passed as keyword arguments: '{wrong}'")
        else:
            vm.raise_(TypeError, wording.unexpected_keyword(code, function.name_in_errors(vm), key))
    return extra


def bind_defaults(vm: VM, function: FunctionObject, bound: dict[str, Object | None]) -> None:
    """Bind parameters that the call leaves out to their defaults."""
    names, n_args = function.code.co_varnames, function.code.co_argcount
    missing = [n for n in names[:n_args] if n not in bound]
    if missing:
        defaults = function.default_values(vm)
        first = n_args - len(defaults)
        for i, default in enumerate(defaults):
            bound.setdefault(names[first + i], default)
        missing = [n for n in names[:n_args] if n not in bound]
        if missing:
            vm.raise_(TypeError, missed(vm, function, "positional", missing))
    for key in names[n_args : n_args + function.code.co_kwonlyargcount]:
        if key not in bound:
            value_or_none = function.keyword_default(vm, key)
            if value_or_none is None:
                missing.append(key)
            else:
                bound[key] = value_or_none
    if missing:
        vm.raise_(TypeError, missed(vm, function, "keyword-only", missing))


def missed(vm: VM, function: FunctionObject, kind: str, missing: list[str]) -> str:
    """Python/ceval.c: missing_arguments."""
    return f"{function.name_in_errors(vm)}() missing {len(missing)} required {kind} argument{'s' * (len(missing) > 1)}: {listed(missing)}"


def listed(names: list[str]) -> str:
    """Names in the form `'a', 'b', and 'c'`, as CPython lists missing arguments."""
    quoted = [f"'{name}'" for name in names]
    if len(quoted) <= 2:
        return " and ".join(quoted)
    return ", ".join(quoted[:-1]) + f", and {quoted[-1]}"


def too_many(function: FunctionObject, vm: VM, given: int, n_args: int, given_by_name: int) -> str:
    """Python/ceval.c: too_many_positional. `given_by_name`: how many of the keyword-only parameters were given."""
    n_defaults = len(function.default_values(vm))
    if n_defaults:
        takes, plural = f"from {n_args - n_defaults} to {n_args}", True
    else:
        takes, plural = str(n_args), n_args != 1
    count, verb = str(given), "was" if given == 1 and not given_by_name else "were"
    if given_by_name:
        count += f" positional argument{'s' * (given != 1)} (and {given_by_name} keyword-only argument{'s' * (given_by_name != 1)})"
    return f"{function.name_in_errors(vm)}() takes {takes} positional argument{'s' * plural} but {count} {verb} given"


class MethodObject(Object):
    """A bound method of a Python function (or of any callable)."""

    __slots__ = ("function", "receiver")

    def __init__(self, function: Object, receiver: Object, source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(MethodType, source, value)
        self.function = function
        self.receiver = receiver

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        return abstract.call(vm, self.function, [self.receiver, *args], kwargs, delivery)

    def is_data_descriptor(self, vm: VM) -> bool:
        return False

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type, delivery: Delivery | None = None) -> Object:
        return self

    def getattr(self, vm: VM, name: str) -> Object:
        if name == "__self__":
            return self.receiver
        if name == "__func__":
            return self.function
        if name != "__doc__" and vm.raw_type_lookup(MethodType, name) is not MISSING:
            return super().getattr(vm, name)
        return abstract.getattr_(vm, self.function, name)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if symbol not in ("==", "!=") or not isinstance(other, MethodObject):
            return None
        same = operators.is_(vm, self.receiver, other.receiver) and operators.is_(vm, self.function, other.function)
        return vm.const(same == (symbol == "=="))

    def hash_key(self, vm: VM) -> Any:
        return (MethodType, vm.tell_apart(vm.observe(self.function)), vm.tell_apart(vm.observe(self.receiver)))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.function)
        cg.load(self.receiver)
        cg.call_const(MethodType, 2)

    def referents(self) -> list[Object]:
        return [self.function, self.receiver]


@wraps(FunctionType, shared=True)
def wrap_function(vm: VM, value: FunctionType, source: Source | None) -> Object:
    return FunctionObject(value.__code__, vm.globals_of(value.__globals__), value.__qualname__, source, value)


@wraps(MethodType)
def wrap_method(vm: VM, value: MethodType, source: Source) -> Object:
    function = vm.wrap(value.__func__, source.child(MethodField, "function"))
    return MethodObject(function, vm.wrap(value.__self__, source.child(MethodField, "self")), source, value)
