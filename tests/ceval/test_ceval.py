"""The interpreter, run on real Python values (tests/support/direct_space.py) and compared with CPython."""

from __future__ import annotations

import dis
import json.decoder
import json.encoder
import sys
import textwrap
import time
import types
from types import SimpleNamespace

import ceval_programs
import ceval_programs_flow  # noqa: F401  (adds its programs)
import direct_space
import pytest
from direct_space import DirectVM, call

from framejit.bytecode.instruction import NO_POSITION, Instruction
from framejit.bytecode.versions import CURRENT, SUPPORTED, select
from framejit.ceval import loop
from framejit.ceval.frame import Frame
from framejit.ceval.operation import OPERATIONS, op, parse_effect
from framejit.ceval.ops_control import REFUSED
from framejit.objects.core.object import Raise


@pytest.fixture
def vm(monkeypatch):
    direct_space.install(monkeypatch)
    return DirectVM()


def described(error):
    """An exception, its causes and its contexts."""
    if error is None:
        return None
    return type(error), str(error), described(error.__cause__), described(error.__context__), error.__suppress_context__


def natively(function, *args):
    try:
        return "returned", function(*args), None
    except Exception as error:
        return "raised", described(error), direct_space.traceback_entries(error, __file__)


def interpreted(vm, function, *args):
    try:
        return "returned", direct_space.unbox(call(vm, function, list(args), {})), None
    except Raise as signal:
        return "raised", described(signal.exc), vm.tracebacks[id(signal.exc)]


@pytest.mark.parametrize("function", ceval_programs.PROGRAMS, ids=lambda function: function.__name__)
def test_program(vm, function):
    expected = natively(function)
    got = interpreted(vm, function)
    assert got[:2] == expected[:2]
    if expected[0] == "raised":
        assert got[2] == expected[2]
    assert vm.frame is None


LIBRARY = [
    (textwrap.wrap, "the quick brown fox jumps over the lazy dog " * 4, 30),
    (textwrap.dedent, "\n   a\n     b\n   c\n"),
    (json.encoder.py_encode_basestring_ascii, 'né "quoted" \n'),
    (json.encoder.JSONEncoder(indent=2, sort_keys=True).encode, {"b": [1, 2.5, None, True], "a": {"x": "y"}}),
    (json.decoder.py_scanstring, 'text \\u00e9 \\n end" tail', 0),
]


@pytest.mark.parametrize("case", LIBRARY, ids=lambda case: case[0].__name__)
def test_library_function(vm, case):
    function, *args = case
    assert interpreted(vm, function, *args) == natively(function, *args)


def refused():
    statement = compile("1", __file__, "single")
    return {"PRINT_EXPR": (types.FunctionType(statement, {}),)}


@pytest.mark.parametrize("operation", refused())
def test_refused_operation_is_named(vm, operation):
    function, *args = refused()[operation]
    with pytest.raises(NotImplementedError, match=operation):
        call(vm, function, args, {})


def test_a_break_leaves_the_frame_at_the_instruction(vm):
    def function(value):
        return [1, len(value)]

    frame = Frame(function.__code__, {"value": 3}, direct_space.Namespace(globals()), direct_space.Namespace({"len": len}))

    class Break(Exception):
        pass

    def stop(*args):
        raise Break

    loop.ops_call.abstract.call, kept = stop, loop.ops_call.abstract.call
    try:
        with pytest.raises(Break):
            loop.run(vm, frame)
        assert frame.instruction.op == "CALL"
        assert [value for value in frame.stack if value is not None] == [1, len, 3]
        before = frame.snapshot()
        frame.stack.clear()
        frame.locals[0] = None
        frame.restore(before)
        loop.ops_call.abstract.call = lambda vm, function, args, kwargs, delivery: 42
        assert loop.execute(vm, frame, frame.pc).value == [1, 42]
    finally:
        loop.ops_call.abstract.call = kept


def test_position_of_a_frame(vm):
    def function(a):
        b = 1
        return [
            b,
            a + undefined,  # noqa: F821
        ]

    frame = Frame(function.__code__, {"a": 1}, direct_space.Namespace({}), direct_space.Namespace({}))
    with pytest.raises(Raise):
        loop.run(vm, frame)
    first = function.__code__.co_firstlineno
    assert frame.lineno == first + 4
    assert frame.position() == (first + 4, first + 4, 16, 25)
    assert frame.locals[frame.decoded.slot_of["b"]] == 1


def instruction(op, arg, value):
    return Instruction(op, arg, value, 0, 0, NO_POSITION)


def test_every_operation_is_emitted_on_some_version():
    everywhere = {op for version in SUPPORTED for row in select(version).table.values() for op in row.emits}
    assert everywhere == set(OPERATIONS), "operations without an emitter, or emitters without an operation"
    assert set(REFUSED) <= everywhere


def argument_choices(name):
    if name in ("RAISE_VARARGS",):
        return (0, 1, 2)
    if name == "BUILD_SLICE":
        return (2, 3)
    if name == "CALL_INTRINSIC_1":
        return range(1, 12)
    if name == "CALL_INTRINSIC_2":
        return range(1, 5)
    if name in ("COPY", "SWAP", "LIST_APPEND", "LIST_EXTEND", "SET_ADD", "SET_UPDATE", "MAP_ADD", "DICT_UPDATE", "DICT_MERGE"):
        return (1, 2, 5)
    if name == "BINARY_OP":
        return range(26)
    if name == "COMPARE_OP":
        return range(6) if CURRENT.number == (3, 11) else range(0, 96, 16) if CURRENT.number == (3, 12) else range(0, 192, 16)
    if name == "MAKE_FUNCTION":
        return range(16) if CURRENT.number <= (3, 12) else (0,)
    if name == "SET_FUNCTION_ATTRIBUTE":
        return (1, 2, 4, 8)
    if name == "CONVERT_VALUE":
        return (1, 2, 3)
    if name == "FORMAT_VALUE":
        return range(8)
    if name == "UNPACK_EX":
        return (0, 1, 0x102, 0x203)
    return (0, 1, 2, 3)


WITHOUT_EFFECT_OF_THEIR_OWN = {"KW_NAMES", "CACHE", "PRECALL"}


@pytest.mark.parametrize("name", sorted(CURRENT.table))
def test_stack_effect(name):
    """The stack effects of the canonical operations that an opcode is expanded to add up to the effect that CPython states for the opcode."""
    code = SimpleNamespace(co_names=tuple("abcdefgh"), co_consts=tuple("abcdefgh"), co_cellvars=(), co_freevars=())
    for arg in argument_choices(name):
        raw = SimpleNamespace(name=name, arg=arg, offset=0, after=2)
        before = SimpleNamespace(op="LOAD_CONST", value="abc"[: arg if name == "BUILD_CONST_KEY_MAP" else 3])
        raws = [SimpleNamespace(name="LOAD_CONST", arg=2, offset=-2, after=0), raw]  # the names of CALL_KW
        view = SimpleNamespace(code=code, slots=tuple("abcdefgh"), previous=before, raws=raws, place=1)
        parts = CURRENT.table[name].expand(raw, view)
        assert {part.op for part in parts} <= set(CURRENT.table[name].emits)
        ours = 0
        for part in parts:
            made = instruction(*part)
            effect = OPERATIONS[part.op].effect
            ours += effect.pushes(made) - effect.pops(made)
        number = dis.opmap[name]
        theirs = dis.stack_effect(number, arg if number >= dis.HAVE_ARGUMENT else None, jump=False)
        if name in ("CALL", "PRECALL") and "PRECALL" in dis.opmap:
            theirs = -1 - arg if name == "CALL" else 0  # 3.11 splits the effect between the two
        if name == "CALL_KW":
            theirs += 1  # the names that the row takes from the LOAD_CONST before it
        if name == "RETURN_VALUE":
            theirs = -1  # from 3.14 on, dis counts the value on the caller's stack
        if name == "RETURN_GENERATOR":
            theirs = 1  # 3.11 does not count the value sent first
        if name == "JUMP_IF_TRUE_OR_POP" or name == "JUMP_IF_FALSE_OR_POP":
            theirs = -1
        assert ours == theirs, f"{name} {arg}: declared {ours}, CPython {theirs}"


def test_effects_are_checked_when_declared():
    with pytest.raises(ValueError, match="not a stack effect"):
        parse_effect("left, right -- result")
    with pytest.raises(ValueError, match="not a stack effect"):
        parse_effect("left right")
    with pytest.raises(ValueError, match="two handlers"):
        op("POP_TOP", "value --")(lambda vm, frame, instruction, value: None)


def test_speed(vm):
    """Not a benchmark: an interpreter ten times too slow is a mistake somewhere."""

    def work(n):
        total = 0
        for i in range(n):
            total = total + i
        return total

    n = 20_000
    started = time.perf_counter()
    call(vm, work, [n], {})
    rate = 6 * n / (time.perf_counter() - started)
    print(f"{rate:,.0f} instructions/s on {sys.version_info[:2]}")
    assert rate > 30_000
