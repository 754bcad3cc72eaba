"""Handlers of constants, the stack, and variables: fast locals, cells, globals and names."""

from __future__ import annotations

from typing import Any

from framejit import breaks
from framejit.bytecode.instruction import Instruction
from framejit.ceval.frame import Frame
from framejit.ceval.operation import op
from framejit.objects.core import abstract, build, imports
from framejit.objects.core.object import VM, Object, Raise
from framejit.objects.types.dictobject import Namespace


@op("LOAD_CONST", "-- constant")
def load_const(vm: VM, frame: Frame, instruction: Instruction) -> Object:
    return build.const(vm, instruction.value)


@op("POP_TOP", "value --")
def pop_top(vm: VM, frame: Frame, instruction: Instruction, value: Object) -> None:
    return None


@op("PUSH_NULL", "-- null")
def push_null(vm: VM, frame: Frame, instruction: Instruction) -> None:
    return None


@op("COPY", "-- copy")
def copy(vm: VM, frame: Frame, instruction: Instruction) -> Any:
    return frame.stack[-instruction.value]


@op("SWAP", "--")
def swap(vm: VM, frame: Frame, instruction: Instruction) -> None:
    stack, depth = frame.stack, instruction.value
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


# Fast locals.


@op("LOAD_FAST", "-- value")
def load_fast(vm: VM, frame: Frame, instruction: Instruction) -> Object:
    value = frame.locals[instruction.arg]  # type: ignore[index]
    return value if value is not None else _unbound_local(vm, instruction)


@op("LOAD_FAST_AND_CLEAR", "-- value")
def load_fast_and_clear(vm: VM, frame: Frame, instruction: Instruction) -> Object | None:
    value = frame.locals[instruction.arg]  # type: ignore[index]
    frame.locals[instruction.arg] = None  # type: ignore[index]
    return value


@op("STORE_CELL", "cell --")
def store_cell(vm: VM, frame: Frame, instruction: Instruction, cell: Object | None) -> None:
    frame.locals[instruction.arg] = None if cell is None else vm.observe(cell)  # type: ignore[index]


@op("STORE_FAST", "value --")
def store_fast(vm: VM, frame: Frame, instruction: Instruction, value: Object | None) -> None:
    frame.locals[instruction.arg] = value  # type: ignore[index]


@op("DELETE_FAST", "--")
def delete_fast(vm: VM, frame: Frame, instruction: Instruction) -> None:
    load_fast(vm, frame, instruction)
    frame.locals[instruction.arg] = None  # type: ignore[index]


def _unbound_local(vm: VM, instruction: Instruction) -> Any:
    return vm.raise_(UnboundLocalError, f"cannot access local variable '{instruction.value}' where it is not associated with a value")


# Cells and free variables.


@op("MAKE_CELL", "--")
def make_cell(vm: VM, frame: Frame, instruction: Instruction) -> None:
    frame.locals[instruction.arg] = build.cell(vm, frame.locals[instruction.arg])  # type: ignore[index]


@op("COPY_FREE_VARS", "--")
def copy_free_vars(vm: VM, frame: Frame, instruction: Instruction) -> None:
    frame.locals[-instruction.value :] = frame.closure


@op("LOAD_CLOSURE", "-- cell")
def load_closure(vm: VM, frame: Frame, instruction: Instruction) -> Any:
    return _cell(frame, instruction)


@op("LOAD_DEREF", "-- value")
def load_deref(vm: VM, frame: Frame, instruction: Instruction) -> Object:
    value = _cell(frame, instruction).load(vm)
    return value if value is not None else _unbound_cell(vm, frame, instruction)


@op("STORE_DEREF", "value --")
def store_deref(vm: VM, frame: Frame, instruction: Instruction, value: Object) -> None:
    _cell(frame, instruction).store(vm, value)


@op("DELETE_DEREF", "--")
def delete_deref(vm: VM, frame: Frame, instruction: Instruction) -> None:
    load_deref(vm, frame, instruction)
    _cell(frame, instruction).store(vm, None)


@op("LOAD_FROM_DICT_OR_DEREF", "namespace -- value")
def load_from_dict_or_deref(vm: VM, frame: Frame, instruction: Instruction, namespace: Any) -> Object:
    value = _named(vm, namespace, instruction.value)
    return value if value is not None else load_deref(vm, frame, instruction)


def _cell(frame: Frame, instruction: Instruction) -> Any:
    return frame.locals[instruction.arg]  # type: ignore[index]


def _unbound_cell(vm: VM, frame: Frame, instruction: Instruction) -> Any:
    if instruction.arg not in frame.decoded.frees:
        return _unbound_local(vm, instruction)
    name = instruction.value
    return vm.raise_(NameError, f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope", name=name)


# Globals, and the namespace of a class body.


@op("LOAD_GLOBAL", "-- value nulls[n]", n=lambda instruction: instruction.arg or 0)
def load_global(vm: VM, frame: Frame, instruction: Instruction) -> tuple[Object | None, ...]:
    """The argument is the number of NULLs above the value."""
    return _global(vm, frame, instruction.value), *(None,) * (instruction.arg or 0)


@op("STORE_GLOBAL", "value --")
def store_global(vm: VM, frame: Frame, instruction: Instruction, value: Object) -> None:
    frame.globals.store(vm, instruction.value, value)


@op("DELETE_GLOBAL", "--")
def delete_global(vm: VM, frame: Frame, instruction: Instruction) -> None:
    if not frame.globals.delete(vm, instruction.value):
        _undefined(vm, instruction.value)


@op("LOAD_NAME", "-- value")
def load_name(vm: VM, frame: Frame, instruction: Instruction) -> Object:
    value = _named(vm, _namespace(frame), instruction.value)
    return value if value is not None else _global(vm, frame, instruction.value)


@op("STORE_NAME", "value --")
def store_name(vm: VM, frame: Frame, instruction: Instruction, value: Object) -> None:
    _store(vm, _namespace(frame), instruction.value, value)


@op("DELETE_NAME", "--")
def delete_name(vm: VM, frame: Frame, instruction: Instruction) -> None:
    namespace = _namespace(frame)
    if namespace.cls is not dict:
        vm.unsupported(breaks.UnsupportedOperation(f"deleting a name from a {namespace.type_name}"))
    if not namespace.delete(vm, instruction.value):
        _undefined(vm, instruction.value)


@op("LOAD_LOCALS", "-- namespace")
def load_locals(vm: VM, frame: Frame, instruction: Instruction) -> Any:
    return _namespace(frame)


@op("LOAD_FROM_DICT_OR_GLOBALS", "namespace -- value")
def load_from_dict_or_globals(vm: VM, frame: Frame, instruction: Instruction, namespace: Any) -> Object:
    value = _named(vm, namespace, instruction.value)
    return value if value is not None else _global(vm, frame, instruction.value)


@op("SETUP_ANNOTATIONS", "--")
def setup_annotations(vm: VM, frame: Frame, instruction: Instruction) -> None:
    namespace = _namespace(frame)
    if _named(vm, namespace, "__annotations__") is None:
        _store(vm, namespace, "__annotations__", build.dict_(vm, []))


@op("LOAD_BUILD_CLASS", "-- build_class")
def load_build_class(vm: VM, frame: Frame, instruction: Instruction) -> Object:
    found = _item(vm, frame.builtins, "__build_class__")
    return found if found is not None else vm.raise_(NameError, "__build_class__ not found")


@op("LOAD_ASSERTION_ERROR", "-- cls")
def load_assertion_error(vm: VM, frame: Frame, instruction: Instruction) -> Object:
    return build.const(vm, AssertionError)


def _namespace(frame: Frame) -> Any:
    return frame.namespace if frame.namespace is not None else frame.globals


def _named(vm: VM, namespace: Any, name: str) -> Object | None:
    """The value of a name in a dict of variables. A subclass of dict, as a metaclass may make for a class body, is asked by `namespace[name]`."""
    if namespace.cls is dict:
        return namespace.lookup(vm, name)  # type: ignore[no-any-return]
    try:
        return abstract.getitem(vm, namespace, build.const(vm, name))
    except Raise as raised:
        if not issubclass(raised.exc.cls, KeyError):
            raise
        return None


def _store(vm: VM, namespace: Any, name: str, value: Object) -> None:
    if namespace.cls is dict:
        namespace.store(vm, name, value)
    else:
        abstract.setitem(vm, namespace, build.const(vm, name), value)


def _global(vm: VM, frame: Frame, name: str) -> Object:
    value = _item(vm, frame.globals, name)
    return value if value is not None else _builtin(vm, frame, name)


def _builtin(vm: VM, frame: Frame, name: str) -> Object:
    value = _item(vm, frame.builtins, name)
    return value if value is not None else _undefined(vm, name)


def _item(vm: VM, namespace: Namespace, name: str) -> Object | None:
    """The value of a name in globals or builtins. A subclass of dict, which programs may pass to `eval`, is asked by `namespace[name]`."""
    found = _named(vm, namespace, name)
    return imports.imported(vm, name, found) if namespace.cls is dict else found


def _undefined(vm: VM, name: str) -> Any:
    return vm.raise_(NameError, f"name '{name}' is not defined", name=name)
