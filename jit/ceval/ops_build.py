"""Handlers of the instructions that build containers and strings, fill them, and take them apart."""

from __future__ import annotations

from framejit import breaks
from framejit.bytecode.instruction import Instruction
from framejit.ceval.frame import Frame
from framejit.ceval.operation import op
from framejit.ceval.ops_call import callable_of
from framejit.objects.core import abstract, build, text
from framejit.objects.core.object import VM, Object

CONVERSIONS = (None, "s", "r", "a")


@op("BUILD_TUPLE", "items[n] -- result")
def build_tuple(vm: VM, frame: Frame, instruction: Instruction, items: list[Object]) -> Object:
    return build.tuple_(vm, items)


@op("BUILD_LIST", "items[n] -- result")
def build_list(vm: VM, frame: Frame, instruction: Instruction, items: list[Object]) -> Object:
    return build.list_(vm, items)


@op("BUILD_SET", "items[n] -- result")
def build_set(vm: VM, frame: Frame, instruction: Instruction, items: list[Object]) -> Object:
    return build.set_(vm, items)


@op("BUILD_MAP", "keys_and_values[n] -- result", n=lambda instruction: 2 * instruction.value)
def build_map(vm: VM, frame: Frame, instruction: Instruction, keys_and_values: list[Object]) -> Object:
    return build.dict_(vm, list(zip(keys_and_values[::2], keys_and_values[1::2])))


@op("BUILD_CONST_KEY_MAP", "values[n] keys -- result")
def build_const_key_map(vm: VM, frame: Frame, instruction: Instruction, values: list[Object], keys: Object) -> Object:
    return build.dict_(vm, [(build.const(vm, key), value) for key, value in zip(instruction.value, values)])


@op("BUILD_STRING", "parts[n] -- result")
def build_string(vm: VM, frame: Frame, instruction: Instruction, parts: list[Object]) -> Object:
    return build.string_(vm, parts)


@op("BUILD_SLICE", "bounds[n] -- result")
def build_slice(vm: VM, frame: Frame, instruction: Instruction, bounds: list[Object]) -> Object:
    return build.slice_(vm, bounds[0], bounds[1], bounds[2] if len(bounds) == 3 else build.const(vm, None))


@op("FORMAT_VALUE", "value spec[n] -- result", n=lambda instruction: instruction.value >> 2 & 1)
def format_value(vm: VM, frame: Frame, instruction: Instruction, value: Object, spec: list[Object]) -> Object:
    return text.format_(vm, value, CONVERSIONS[instruction.value & 3], spec[0] if spec else None)


@op("BUILD_INTERPOLATION", "value text spec[n] -- interpolation")
def build_interpolation(vm: VM, frame: Frame, instruction: Instruction, *operands: object) -> Object:
    return vm.unsupported(breaks.UnsupportedOpcode(instruction.op))


@op("CONVERT_VALUE", "value -- text")
def convert_value(vm: VM, frame: Frame, instruction: Instruction, value: Object) -> Object:
    """The argument is one of CONVERSIONS. The text is formatted next."""
    return text.format_(vm, value, CONVERSIONS[instruction.value], None)


# Filling: the container is below the operands.


@op("LIST_APPEND", "item --")
def list_append(vm: VM, frame: Frame, instruction: Instruction, item: Object) -> None:
    build.list_append(vm, frame.stack[-1 - instruction.value], item)


@op("LIST_EXTEND", "iterable --")
def list_extend(vm: VM, frame: Frame, instruction: Instruction, iterable: Object) -> None:
    build.list_extend(vm, frame.stack[-1 - instruction.value], iterable)


@op("LIST_TO_TUPLE", "list_ -- result")
def list_to_tuple(vm: VM, frame: Frame, instruction: Instruction, list_: Object) -> Object:
    return build.list_to_tuple(vm, list_)


@op("SET_ADD", "item --")
def set_add(vm: VM, frame: Frame, instruction: Instruction, item: Object) -> None:
    build.set_add(vm, frame.stack[-1 - instruction.value], item)


@op("SET_UPDATE", "iterable --")
def set_update(vm: VM, frame: Frame, instruction: Instruction, iterable: Object) -> None:
    build.set_update(vm, frame.stack[-1 - instruction.value], iterable)


@op("MAP_ADD", "key value --")
def map_add(vm: VM, frame: Frame, instruction: Instruction, key: Object, value: Object) -> None:
    build.map_add(vm, frame.stack[-2 - instruction.value], key, value)


@op("DICT_UPDATE", "mapping --")
def dict_update(vm: VM, frame: Frame, instruction: Instruction, mapping: Object) -> None:
    build.dict_update(vm, frame.stack[-1 - instruction.value], mapping)


@op("DICT_MERGE", "mapping --")
def dict_merge(vm: VM, frame: Frame, instruction: Instruction, mapping: Object) -> None:
    depth = instruction.value
    # The function being called, with a NULL in the order of the version, is below its positional arguments; its name is in the error for a repeated keyword.
    build.dict_merge(vm, frame.stack[-1 - depth], mapping, callable_of(frame.stack[-4 - depth], frame.stack[-3 - depth]))


# Taking apart: the first item ends on top.


@op("UNPACK_SEQUENCE", "iterable -- items[n]")
def unpack_sequence(vm: VM, frame: Frame, instruction: Instruction, iterable: Object) -> list[Object]:
    return abstract.unpack(vm, iterable, instruction.value)[::-1]


@op("UNPACK_EX", "iterable -- items[n]", n=lambda instruction: (instruction.value & 0xFF) + 1 + (instruction.value >> 8))
def unpack_ex(vm: VM, frame: Frame, instruction: Instruction, iterable: Object) -> list[Object]:
    return abstract.unpack_ex(vm, iterable, instruction.value & 0xFF, instruction.value >> 8)[::-1]
