"""What dropping a suspended generator would run: the handlers that GeneratorExit meets on its way out of the frame."""

from __future__ import annotations

from typing import Any

from framejit.ceval.frame import Frame
from framejit.objects import abstract

PASSED = frozenset({"PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "STOPITERATION_ERROR"})


def drops_silently(vm: Any, frame: Frame) -> bool:
    """Whether GeneratorExit leaves the frame from where it is suspended without running anything but tests of `except` clauses.

    Handlers are followed as they are written: `except IndexError:` lets GeneratorExit pass, `finally:` and `with` don't.
    """
    handler = frame.decoded.handler_at[frame.pc]
    if handler is None:
        return True
    pc = handler.target
    operands: list[Any] = []
    matches = False
    while True:
        instruction = frame.decoded.instructions[pc]
        match instruction.op:
            case op if op in PASSED:
                pc += 1
            case "LOAD_GLOBAL":
                name = str(instruction.value)
                found = frame.globals.lookup(vm, name) or frame.builtins.lookup(vm, name)
                if found is None:
                    return False
                operands.append(found)
                pc += 1
            case "LOAD_ATTR":
                if not operands:
                    return False
                operands.append(abstract.getattr_(vm, operands.pop(), str(instruction.value)))
                pc += 1
            case "BUILD_TUPLE":
                count = instruction.arg or 0
                operands[-count:] = [vm.new_tuple(operands[-count:])]
                pc += 1
            case "CHECK_EXC_MATCH":
                tested = vm.observe(operands.pop())
                kinds = vm.observe_all(abstract.iterate(vm, tested)) if issubclass(tested.cls, tuple) else [tested]
                matches = any(not isinstance(kind.value, type) or issubclass(GeneratorExit, kind.value) for kind in kinds)
                pc += 1
            case "POP_JUMP_IF_FALSE":
                if matches:
                    return False
                pc = instruction.value
            case "RERAISE" | "CLEANUP_THROW":  # the latter lets all but StopIteration pass
                handler = frame.decoded.handler_at[pc]
                if handler is None:
                    return True
                pc = handler.target
            case _:
                return False
