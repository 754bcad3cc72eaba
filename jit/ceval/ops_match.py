"""Handlers of the instructions of `match` statements."""

from __future__ import annotations

from framejit.bytecode.instruction import Instruction
from framejit.ceval.frame import Frame
from framejit.ceval.operation import op
from framejit.objects.core import abstract, build, matching
from framejit.objects.core.object import VM, Object


@op("GET_LEN", "subject -- subject length")
def get_len(vm: VM, frame: Frame, instruction: Instruction, subject: Object) -> tuple[Object, Object]:
    return subject, abstract.length(vm, subject)


@op("MATCH_SEQUENCE", "subject -- subject result")
def match_sequence(vm: VM, frame: Frame, instruction: Instruction, subject: Object) -> tuple[Object, Object]:
    return subject, build.const(vm, matching.is_sequence(vm, subject))


@op("MATCH_MAPPING", "subject -- subject result")
def match_mapping(vm: VM, frame: Frame, instruction: Instruction, subject: Object) -> tuple[Object, Object]:
    return subject, build.const(vm, matching.is_mapping(vm, subject))


@op("MATCH_KEYS", "subject keys -- subject keys values")
def match_keys(vm: VM, frame: Frame, instruction: Instruction, subject: Object, keys: Object) -> tuple[Object, Object, Object]:
    return subject, keys, matching.match_keys(vm, subject, keys)


@op("MATCH_CLASS", "subject cls names -- attributes")
def match_class(vm: VM, frame: Frame, instruction: Instruction, subject: Object, cls: Object, names: Object) -> Object:
    return matching.match_class(vm, subject, cls, instruction.value, names)
