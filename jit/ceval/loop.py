"""The evaluation loop: runs frames, unwinds exceptions by the exception table, and resumes generators."""

from __future__ import annotations

from typing import Any

from framejit import logs
from framejit.bytecode.decode import Decoded
from framejit.bytecode.instruction import Instruction
from framejit.ceval import ops_attr, ops_build, ops_call, ops_control, ops_except, ops_iter, ops_match, ops_stack
from framejit.ceval.closing import LETS_GO, let_go_of
from framejit.ceval.frame import Frame, LastInstruction, State
from framejit.ceval.machine import Machine
from framejit.ceval.operation import OPERATIONS
from framejit.ceval.signals import Arrived, LeftElsewhere, Return, Yield
from framejit.objects.core.object import Object, Raise

HANDLER_MODULES = (ops_stack, ops_attr, ops_build, ops_call, ops_control, ops_iter, ops_match, ops_except)


def run(vm: Machine, frame: Frame) -> Object:
    """Run a frame until it returns. Raises Raise if the traced program raises, with the frame left in the state of that moment."""
    signal = _finish(vm, frame, frame.pc)
    assert isinstance(signal, Return), "YIELD_VALUE outside a generator"
    return signal.value


def resume(vm: Machine, frame: Frame, sent: Object, exc: Object | None = None, parent: Frame | None = None) -> Return | Yield:
    """Continue a generator's frame, whose RETURN_GENERATOR has run: send it a value, or throw `exc` into it, until it yields or returns.

    The caller has checked that it is neither running nor finished. StopIteration never leaves it (PEP 479). `parent` is the resuming frame.
    """
    frame.parent = parent
    if exc is not None:
        return _throw(vm, frame, exc)
    frame.stack.append(sent)
    return _finish_generator(vm, frame, frame.pc + 1)


def _throw(vm: Machine, frame: Frame, exc: Object) -> Return | Yield:
    """Objects/genobject.c: _gen_throw. A generator that delegates passes the exception to the iterator it delegates to."""
    if frame.state is State.SUSPENDED and frame.instruction.value:
        receiver = frame.delegate
        frame.state = State.RUNNING
        try:
            result, finished = ops_iter.throw_into(vm, receiver, exc)
        except Raise as signal:
            exc = signal.exc
        else:
            if not finished:
                frame.leave(State.SUSPENDED)
                return Yield(result)
            # The SEND before the YIELD_VALUE has the end of its loop as its target.
            send = frame.decoded.instructions[frame.pc - 1]
            frame.stack[-1 - (send.arg or 0) :] = [result]
            return _finish_generator(vm, frame, send.value)
    frame.state = State.RUNNING
    thrown = Raise(exc, thrown=True)
    if frame.handled is not None:  # Python/errors.c: _PyErr_ChainStackItem
        vm.chain_context(exc, frame.handled)
    pc = unwind(vm, frame, thrown)
    if pc is None:
        frame.state = State.FINISHED
        try:
            raise thrown
        finally:
            del thrown  # its traceback refers to this frame
    return _finish_generator(vm, frame, pc)


def _finish_generator(vm: Machine, frame: Frame, pc: int) -> Return | Yield:
    try:
        return _finish(vm, frame, pc)
    except Raise as signal:
        exc = ops_except.stopiteration_error(vm, signal.exc)
        if exc is signal.exc:
            raise
    raise Raise(exc, reraised=True)


def _finish(vm: Machine, frame: Frame, pc: int) -> Return | Yield:
    """Execute from `pc` until a signal leaves the frame, and set the frame's state accordingly."""
    frame.state = State.RUNNING
    try:
        signal = execute(vm, frame, pc)
    except Raise:
        frame.state = State.FINISHED
        raise
    frame.leave(signal.leaves)
    return signal


def run_until(vm: Machine, frame: Frame, pc: int, end: int | None) -> Object | None:
    """Execute from `pc` until the frame comes to the instruction `end`, or until it returns, if there is no `end`. Returns what it returns.

    Raises LeftElsewhere if the frame is left in another way, and Raise if an exception leaves it.
    """
    try:
        signal = execute(vm, frame, pc, end)
    except Arrived:
        return None
    if end is not None or type(signal) is not Return:
        raise LeftElsewhere
    return signal.value


def execute(vm: Machine, frame: Frame, pc: int, end: int | None = None) -> Return | Yield:
    """The loop itself. Raises Arrived at the instruction `end`."""
    program = frame.decoded.program or link(frame.decoded)
    if end is not None:
        program = ending(program, end)
    if logs.enabled("trace"):
        program = shown(program)
    if vm.has_generators:
        program = telling(program)
    mark = vm.trail.mark
    while True:
        try:
            while True:
                frame.pc = pc
                frame.mark = mark()
                handler, instruction = program[pc]
                target = handler(vm, frame, instruction)
                if target is None:
                    pc += 1
                else:
                    if target <= pc:
                        vm.count_iteration()
                    pc = target
        except (Return, Yield) as signal:
            return signal.with_traceback(None)  # which refers to the frames that will hold the signal: a cycle
        except Raise as signal:
            target = unwind(vm, frame, signal)
            if target is None:
                raise
            pc = target


def unwind(vm: Machine, frame: Frame, signal: Raise) -> int | None:
    """The index where an exception raised at `frame.pc` is handled, with the stack prepared for it; None if it isn't handled in this frame.

    Raising is left to the caller: a signal held by a frame of its own traceback would be a cycle, and keep the whole trace alive.
    """
    if not signal.chained:
        signal.chained = True
        vm.chain_context(signal.exc, frame.current_exception())
    vm.add_traceback(signal.exc, frame, signal.reraised)
    signal.reraised = False
    handler = frame.decoded.handler_at[frame.pc]
    if vm.has_generators and (handler is not None or frame.parent is not None):
        vm.lets_go(frame.stack if handler is None else frame.stack[handler.depth :])
    if handler is None:
        return None
    stack = frame.stack
    del stack[handler.depth :]
    if handler.lasti:
        stack.append(LastInstruction(frame.pc))
    stack.append(signal.exc)
    return handler.target


def ending(program: list[Any], end: int) -> list[Any]:
    """The program, in which the instruction `end` isn't executed: Arrived is raised there."""

    def arrive(vm: Machine, frame: Frame, instruction: Instruction) -> Any:
        raise Arrived

    return [*program[:end], (arrive, program[end][1]), *program[end + 1 :]]


def shown(program: list[Any]) -> list[Any]:
    """The program, with each instruction written to the log `trace` before it is executed. While the log is off, this costs nothing."""

    def show(vm: Machine, frame: Frame, instruction: Instruction) -> Any:
        depth = sum(1 for _ in frame.callers()) - 1
        logs.info("trace", f"{'  ' * depth}{frame.code.co_name}:{frame.lineno} {instruction}")
        return program[frame.pc][0](vm, frame, instruction)

    return [(show, instruction) for _, instruction in program]


def telling(program: list[Any]) -> list[Any]:
    """The program, in which instructions that release values pass them to `vm` beforehand; a loop that ends passes on its iterator."""

    def tell(vm: Machine, frame: Frame, instruction: Instruction) -> Any:
        vm.lets_go(let_go_of(frame))
        return program[frame.pc][0](vm, frame, instruction)

    def tell_at_end(vm: Machine, frame: Frame, instruction: Instruction) -> Any:
        iterator, stack = let_go_of(frame), tuple(frame.stack)
        target = program[frame.pc][0](vm, frame, instruction)
        if target is None:
            return None
        left = tuple(frame.stack)
        frame.stack[:] = stack  # an instruction that stops the trace leaves its operands
        vm.lets_go(iterator)
        frame.stack[:] = left
        return target

    tellers = {**dict.fromkeys(LETS_GO, tell), "FOR_ITER": tell_at_end}
    return [(tellers.get(instruction.op, execute), instruction) for execute, instruction in program]


def link(decoded: Decoded) -> list[Any]:
    """Bind each instruction to the function that executes it."""
    decoded.program = [(OPERATIONS[instruction.op].execute, instruction) for instruction in decoded.instructions]
    return decoded.program
