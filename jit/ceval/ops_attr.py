"""Handlers of operators, attributes, items and imports."""

from __future__ import annotations

from framejit.bytecode.instruction import Instruction
from framejit.ceval.frame import Frame
from framejit.ceval.operation import op
from framejit.objects.core import abstract, build, imports, operators
from framejit.objects.core.object import VM, Object

# Operators.


@op("UNARY_OP", "value -- result")
def unary_op(vm: VM, frame: Frame, instruction: Instruction, value: Object) -> Object:
    return operators.unary_op(vm, instruction.value, value)


@op("TO_BOOL", "value -- result")
def to_bool(vm: VM, frame: Frame, instruction: Instruction, value: Object) -> Object:
    return operators.not_(vm, operators.not_(vm, value))


@op("UNARY_NOT", "value -- result")
def unary_not(vm: VM, frame: Frame, instruction: Instruction, value: Object) -> Object:
    return operators.not_(vm, value)


@op("BINARY_OP", "left right -- result")
def binary_op(vm: VM, frame: Frame, instruction: Instruction, left: Object, right: Object) -> Object:
    return operators.binary_op(vm, instruction.value, left, right)


@op("COMPARE_OP", "left right -- result")
def compare_op(vm: VM, frame: Frame, instruction: Instruction, left: Object, right: Object) -> Object:
    return operators.compare(vm, instruction.value, left, right)


@op("IS_OP", "left right -- result")
def is_op(vm: VM, frame: Frame, instruction: Instruction, left: Object, right: Object) -> Object:
    return build.const(vm, operators.is_(vm, left, right) != bool(instruction.value))


@op("CONTAINS_OP", "item container -- result")
def contains_op(vm: VM, frame: Frame, instruction: Instruction, item: Object, container: Object) -> Object:
    result = operators.contains(vm, container, item)
    return operators.not_(vm, result) if instruction.value else result


# Attributes.


@op("LOAD_ATTR", "owner -- value")
def load_attr(vm: VM, frame: Frame, instruction: Instruction, owner: Object) -> Object:
    return abstract.load_attr(vm, owner, instruction.value)


@op("LOAD_METHOD", "owner -- first second")
def load_method(vm: VM, frame: Frame, instruction: Instruction, owner: Object) -> tuple[Object | None, Object | None]:
    """Push the two operands that CALL takes below its arguments. The instruction's argument says whether NULL is above the callable."""
    value, bound_to = abstract.load_method(vm, owner, instruction.value, null_above=bool(instruction.arg))
    if bound_to is not None:
        return value, bound_to
    return (value, None) if instruction.arg else (None, value)


@op("LOAD_SUPER_ATTR", "global_super cls instance -- value")
def load_super_attr(vm: VM, frame: Frame, instruction: Instruction, global_super: Object, cls: Object, instance: Object) -> Object:
    return abstract.super_attr(vm, global_super, [cls, instance], instruction.value, implied=not instruction.arg)


@op("STORE_ATTR", "value owner --")
def store_attr(vm: VM, frame: Frame, instruction: Instruction, value: Object, owner: Object) -> None:
    abstract.store_attr(vm, owner, instruction.value, value)


@op("DELETE_ATTR", "owner --")
def delete_attr(vm: VM, frame: Frame, instruction: Instruction, owner: Object) -> None:
    abstract.delattr_(vm, owner, instruction.value)


# Items.


@op("BINARY_SUBSCR", "container key -- item")
def binary_subscr(vm: VM, frame: Frame, instruction: Instruction, container: Object, key: Object) -> Object:
    return abstract.load_item(vm, container, key)


@op("STORE_SUBSCR", "value container key --")
def store_subscr(vm: VM, frame: Frame, instruction: Instruction, value: Object, container: Object, key: Object) -> None:
    abstract.store_item(vm, container, key, value)


@op("DELETE_SUBSCR", "container key --")
def delete_subscr(vm: VM, frame: Frame, instruction: Instruction, container: Object, key: Object) -> None:
    abstract.delitem(vm, container, key)


@op("BINARY_SLICE", "container start stop -- items")
def binary_slice(vm: VM, frame: Frame, instruction: Instruction, container: Object, start: Object, stop: Object) -> Object:
    return abstract.getitem(vm, container, build.slice_(vm, start, stop, build.const(vm, None)))


@op("STORE_SLICE", "value container start stop --")
def store_slice(vm: VM, frame: Frame, instruction: Instruction, value: Object, container: Object, start: Object, stop: Object) -> None:
    abstract.setitem(vm, container, build.slice_(vm, start, stop, build.const(vm, None)), value)


# Imports.


@op("IMPORT_NAME", "level fromlist -- module")
def import_name(vm: VM, frame: Frame, instruction: Instruction, level: Object, fromlist: Object) -> Object:
    return imports.import_name(vm, frame.globals, frame.builtins, instruction.value, fromlist, level)


@op("IMPORT_FROM", "module -- module value")
def import_from(vm: VM, frame: Frame, instruction: Instruction, module: Object) -> tuple[Object, Object]:
    return module, imports.import_from(vm, module, instruction.value)
