"""Decoding and assembling bytecode: instructions, positions, handlers, and code objects that run."""

from __future__ import annotations

import argparse
import ast
import asyncio.base_events
import dataclasses
import dis
import gc
import inspect
import opcode
import pathlib
import time
import traceback
import types
import typing
import weakref

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from framejit.bytecode import decode as decode_module
from framejit.bytecode.assemble import AssembleError, Assembler
from framejit.bytecode.decode import decode, exception_table
from framejit.bytecode.encode import encode
from framejit.bytecode.instruction import NO_POSITION, Position
from framejit.bytecode.versions import CURRENT, SUPPORTED, UnsupportedPython, select

MODULES = [argparse, asyncio.base_events, dataclasses, inspect, typing]


def code_objects(module):
    pending = [compile(inspect.getsource(module), module.__file__, "exec")]
    while pending:
        code = pending.pop()
        yield code
        pending += [const for const in code.co_consts if isinstance(const, types.CodeType)]


def operations(function):
    return [instruction.op for instruction in decode(function.__code__).instructions]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_agrees_with_dis(module):
    """Every instruction of a library module: names, constants, operators, slots, positions and targets."""
    for code in code_objects(module):
        decoded = decode(code)
        theirs = {instruction.offset: instruction for instruction in dis.get_instructions(code)}
        positions = {offset: tuple(instruction.positions) for offset, instruction in theirs.items()}
        at = {}
        for instruction in decoded.instructions:
            assert instruction is decoded.instructions[instruction.index]
            at.setdefault(instruction.offset, instruction)
            assert tuple(instruction.position) == positions[instruction.offset]
            their = theirs[instruction.offset]
            if their.opname.count("FAST") == 2:
                part = sum(before.offset == instruction.offset for before in decoded.instructions[: instruction.index])
                assert instruction.op in ("LOAD_FAST", "LOAD_CLOSURE", "STORE_FAST", "STORE_CELL")
                assert instruction.value == their.argval[part]
                continue
            match instruction.op:
                case "LOAD_CONST" if their.opname == "LOAD_COMMON_CONSTANT":
                    assert instruction.value is opcode._common_constants[their.arg]
                case "LOAD_CONST" if their.opname == "LOAD_SMALL_INT":
                    assert instruction.value == their.argval
                case "LOAD_CONST":
                    assert instruction.value is code.co_consts[their.arg] or instruction.value == their.argval
                case (
                    "LOAD_FAST" | "STORE_FAST" | "LOAD_DEREF" | "STORE_DEREF" | "MAKE_CELL" | "LOAD_CLOSURE" | "LOAD_GLOBAL" | "STORE_ATTR"
                ):
                    assert instruction.value == their.argval
                case "COMPARE_OP":
                    assert instruction.value == their.argval
                case "BINARY_OP" | "BINARY_SUBSCR" if their.opname == "BINARY_OP":
                    assert ("[]" if instruction.op == "BINARY_SUBSCR" else instruction.value) == their.argrepr
        for instruction in decoded.instructions:
            if "JUMP" in instruction.op:
                target = theirs[instruction.offset].argval
                # NOP, RESUME and their like are dropped: the next instruction kept is the target.
                while target not in at:
                    target += 2
                assert decoded.instructions[instruction.value].offset == target
        entries = list(dis._parse_exception_table(code))
        assert [tuple(entry) for entry in entries] == list(exception_table(code.co_exceptiontable))


def test_canonical_form_of_calls():
    def function(f, x):
        f(x, 1, key=x)
        x.method(1)
        print(*x, **f)

    calls = [i for i in decode(function.__code__).instructions if i.op.startswith("CALL")]
    assert [(i.op, i.value) for i in calls] == [("CALL", (3, ("key",))), ("CALL", (1, ())), ("CALL_FUNCTION_EX", 1)]
    nulls = [i for i in decode(function.__code__).instructions if i.op == "PUSH_NULL" or (i.op == "LOAD_GLOBAL" and i.arg)]
    assert len(nulls) == 2  # of `f` and `print`; `x.method` brings its own
    assert operations(function).count("LOAD_METHOD") == 1
    assert not {"PRECALL", "KW_NAMES", "CACHE", "RESUME", "EXTENDED_ARG", "NOP"} & set(operations(function))


def test_canonical_form_of_jumps_and_returns():
    def function(a, b):
        for _ in a:
            if a is None and b is not None:
                continue
        return 5

    ops = operations(function)
    assert set(ops) >= {"JUMP", "FOR_ITER", "LOAD_CONST", "RETURN_VALUE"}
    assert not {op for op in ops if "FORWARD" in op or "BACKWARD" in op or op == "RETURN_CONST"}
    instructions = decode(function.__code__).instructions
    loop = next(i for i in instructions if i.op == "FOR_ITER")
    # Exhausted, it goes on after the loop, its iterator gone.
    assert [i.value for i in instructions[loop.value : loop.value + 2]] == [5, None]
    assert instructions[-1].op == "RETURN_VALUE"


def test_super_is_an_attribute_of_its_three_operands():
    class Child(list):
        def append(self, x):
            super().append(x)
            return super().__len__, super(Child, self).pop()

    ops = operations(Child.append)
    assert ops.count("LOAD_SUPER_ATTR") in (0, 3)  # 3.11 calls super as any class
    assert ops.count("CALL") >= 2


def test_yield_from_is_told_from_yield():
    def function(a):
        yield 1
        yield from a

    assert [i.value for i in decode(function.__code__).instructions if i.op == "YIELD_VALUE"] == [False, True]


def test_slots_and_parameters():
    def outer(free):
        def function(a, /, b, *args, c, **kw):
            local = free
            return lambda: (a, local, b, args, c, kw)

        return function

    code = outer(1).__code__
    decoded = decode(code)
    assert decoded.parameters == 5
    assert decoded.slots[:5] == ("a", "b", "c", "args", "kw")
    assert {decoded.slots[slot] for slot in decoded.cells} == {"a", "b", "c", "args", "kw", "local"}
    assert [decoded.slots[slot] for slot in decoded.frees] == ["free"]
    assert all(decoded.slots[decoded.slot_of[name]] == name for name in decoded.slots)


def test_handlers_cover_their_instructions():
    def function(x):
        try:
            x.a()
        except ValueError:
            x.b()
        return x.c

    decoded = decode(function.__code__)
    by_name = {i.value: decoded.handler_at[i.index] for i in decoded.instructions if i.op in ("LOAD_METHOD", "LOAD_ATTR")}
    first = by_name["a"]
    assert decoded.instructions[first.target].op == "PUSH_EXC_INFO"
    assert (first.depth, first.lasti) == (0, False)
    assert by_name["b"].lasti
    assert by_name["b"].target != first.target
    assert by_name["c"] is None


def test_long_arguments():
    source = "def f():\n" + "".join(f"    v{i} = {i + 1000}\n" for i in range(300)) + "    return v299\n"
    namespace = {}
    exec(source, namespace)
    instructions = decode(namespace["f"].__code__).instructions
    assert [i.value for i in instructions[-4:]] == [1299, "v299", "v299", None]
    assert len(instructions) == 602


def test_cache_is_by_identity_and_weak():
    def make():
        namespace = {}
        exec(compile("def f():\n    return 1\n", "one.py", "exec"), namespace)
        return namespace["f"].__code__

    first, second = make(), make()
    assert first == second and first is not second
    assert decode(first) is decode(first)
    assert decode(first) is not decode(second)
    decoded = [weakref.ref(first), weakref.ref(second)]
    keys = {id(first), id(second)}
    assert keys <= set(decode_module._cache)
    del first, second
    gc.collect()
    assert [reference() for reference in decoded] == [None, None]
    assert not keys & set(decode_module._cache)


@pytest.mark.parametrize(("version", "implementation"), [((3, 10), "cpython"), ((3, 99), "cpython"), ((4, 0), "cpython"), ((3, 11), "pypy")])
def test_an_unknown_python_is_refused(version, implementation):
    newest = "{}.{}".format(*max(SUPPORTED))
    with pytest.raises(UnsupportedPython, match=rf"supports CPython 3\.11 to {newest}; this is {implementation} {version[0]}\.{version[1]}"):
        select(version, implementation)
    assert issubclass(UnsupportedPython, ImportError)



@pytest.mark.parametrize("version", SUPPORTED, ids=str)
def test_version_files_share_one_interface(version):
    selected, current = select(version), select((3, 11))
    assert selected.number == version
    assert set(selected.words) == set(current.words)
    assert {opcode for word in selected.words for opcode, _ in selected.words[word]("+" if word == "binary_op" else 0)} <= set(selected.table)


def test_inline_caches_are_as_many_as_dis_says():
    counts = dis._inline_cache_entries  # by name from 3.13 on
    theirs = {name: counts.get(name, 0) if hasattr(counts, "get") else counts[dis.opmap[name]] for name in CURRENT.table}
    assert CURRENT.caches == {name: count for name, count in theirs.items() if count}


def test_every_word_is_used():
    """Framejit writes only what its own modules ask for: a word that none names is dead."""
    folder = pathlib.Path(decode_module.__file__).parent.parent
    sources = [path for room in ("bytecode", "codegen") for path in (folder / room).glob("*.py")]
    named = {node.value for path in sources for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    assert not set(CURRENT.words) - named


# Assembling.


def template(a, b=2, /, c=3, *args, d=4, **kw):
    def use():
        return a, b, c, args, d, kw

    return use


def assembled(steps, **kwargs):
    assembler = Assembler()
    assembler.set_position(Position(template.__code__.co_firstlineno + 1, template.__code__.co_firstlineno + 1, 4, 12))
    for step in steps:
        assembler.emit(*step)
    return assembler.assemble(template.__code__, (".inputs", ".captures"), **kwargs)


def function_of(code):
    made = types.FunctionType(code, {}, "made", template.__defaults__)
    made.__kwdefaults__ = template.__kwdefaults__
    return made


LOAD_ALL = [("load_local", name) for name in ("a", "b", "c", "args", "d", "kw")]


def test_signature_and_slots_of_the_template():
    code = assembled(
        [("load_const", "x"), ("store_local", "t1"), ("load_const", "y"), ("store_local", "t0"), *LOAD_ALL]
        + [("load_local", "t0"), ("load_local", "t1"), ("delete_local", "t1"), ("build_tuple", 8), ("return",)]
    )
    assert code.co_varnames == ("a", "b", "c", "d", "args", "kw", ".inputs", ".captures", "t1", "t0")
    assert code.co_freevars == code.co_cellvars == ()
    original = template.__code__
    for attribute in ("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_filename", "co_qualname", "co_name", "co_firstlineno"):
        assert getattr(code, attribute) == getattr(original, attribute)
    assert inspect.signature(function_of(code)) == inspect.signature(template)
    assert function_of(code)(1, 5, 6, 7, 8, d=9, e=10) == (1, 5, 6, (7, 8), 9, {"e": 10}, "y", "x")
    assert assembled([("load_const", 1), ("return",)], name="n", qualname="q.n").co_qualname == "q.n"


class Box:
    pass


BOX = Box()
UNSERIALISABLE = [object(), BOX]
CASES = {
    "calls": (
        [("load_callable", list), ("load_callable", zip), ("load_const", (1, 2)), ("load_const", "ab"), ("call", 2), ("call", 1)]
        + [("store_local", "m"), ("load_callable", dict), ("load_local", "m"), ("call", 1), ("load_callable", len), ("load_const", ("xyz",))]
        + [("call_with_tuple",), ("build_tuple", 2)],
        ({1: "a", 2: "b"}, 3),
    ),
    "operators": (
        [("load_const", 7), ("load_const", 3), ("binary_op", "%"), ("load_const", 2.5), ("load_const", 1), ("binary_op", "+=")]
        + [("load_const", None), ("load_const", None), ("is",), ("build_tuple", 3)],
        (1, 3.5, True),
    ),
    "containers": (
        [("build_list", 0), ("load_const", 1), ("list_append", 1), ("list_to_tuple",)]
        + [("load_const", 4), ("load_const", 4), ("build_set", 2), ("load_const", 5), ("set_add", 1)]
        + [("build_map", 0), ("load_const", "a"), ("load_const", 1), ("map_add", 1), ("build_tuple", 3)],
        ((1,), {4, 5}, {"a": 1}),
    ),
    "items": (
        [("load_const", [1, 2, 3, 4]), ("copy", 1), ("store_local", "l"), ("load_const", 1), ("load_const", 3), ("build_slice", 2)]
        + [("subscript",), ("load_const", 9), ("load_local", "l"), ("load_const", 0), ("store_subscript",)]
        + [("load_local", "l"), ("unpack", 4), ("build_tuple", 5)],
        ([2, 3], 4, 3, 2, 9),
    ),
    "attributes": (
        [("load_const", 1), ("load_const", BOX), ("store_attr", "x"), ("load_const", BOX), ("load_attr", "x"), ("load_const", BOX)]
        + [("delete_attr", "x"), ("load_callable", hasattr), ("load_const", BOX), ("load_const", "x"), ("call", 2)]
        + [("swap", 2), ("build_tuple", 2)],
        (False, 1),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_assembled_code_runs(case):
    steps, expected = CASES[case]
    assert function_of(assembled([*steps, ("return",)]))(0) == expected


def test_constants_keep_their_identity():
    steps = [step for item in UNSERIALISABLE * 2 for step in [("load_const", item)]]
    code = assembled([*steps, ("load_const", 1), ("load_const", 1.0), ("load_const", True), ("build_tuple", 7), ("return",)])
    result = function_of(code)(0)
    assert all(x is y for x, y in zip(result, UNSERIALISABLE * 2))
    assert [type(x) for x in result[4:]] == [int, float, bool]
    assert len(code.co_consts) == 5


def test_positions_reach_the_traceback():
    line = template.__code__.co_firstlineno
    assembler = Assembler()
    assembler.set_position(Position(line + 1, line + 1, 4, 14))
    assembler.emit("load_local", "a")
    assembler.set_position(Position(line + 2, line + 4, 8, 3))
    assembler.emit("load_const", 0)
    assembler.emit("binary_op", "/")
    assembler.set_position(Position(None, None, None, None))
    assembler.emit("store_local", "t")
    assembler.set_position(Position(line, None, None, None))
    assembler.emit("load_local", "t")
    assembler.emit("return")
    code = assembler.assemble(template.__code__)
    found = [tuple(i.position) for i in decode(code).instructions]
    spans = [(line + 1, line + 1, 4, 14), (line + 2, line + 4, 8, 3), (line + 2, line + 4, 8, 3)]
    assert found == [*spans, (None,) * 4, (line, line, None, None), (line, line, None, None)]
    try:
        function_of(code)(1)
    except ZeroDivisionError as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
    assert (last.filename, last.lineno, last.end_lineno, last.colno) == (__file__, line + 2, line + 4, 8)


def test_stack_size_is_enough_and_not_more():
    steps = (
        [("load_const", i) for i in range(40)] + [("build_list", 40), ("unpack", 40)] + [("build_tuple", 40), ("return",)]
    )
    code = assembled(steps)
    assert code.co_stacksize == 40
    assert function_of(code)(0) == tuple(reversed(range(40)))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([("pop",)], "more values than the stack holds"),
        ([("load_const", 1), ("load_const", 1), ("return",)], "ends with 1 values"),
        ([("load_const", 1), ("pop",)], "must end in return"),
        ([("JUMP", 3)], "JUMP is no word"),
    ],
)
def test_unbalanced_code_is_refused(steps, message):
    with pytest.raises(AssembleError, match=message):
        assembled(steps)


def test_two_thousand_instructions_assemble_quickly():
    """A bound that only a change of complexity breaks: it takes about 10 ms."""
    started = time.perf_counter()
    code = assembled(
        [step for i in range(1000) for step in (("load_const", object()), ("store_local", f"t{i}"))]
        + CASES["calls"][0]
        + [("return",)]
    )
    assert time.perf_counter() - started < 1
    assert len(decode(code).instructions) > 2000
    assert function_of(code)(0) == CASES["calls"][1]


places = st.one_of(
    st.just(NO_POSITION),
    st.builds(lambda line: Position(line, None, None, None), st.integers(1, 900)),
    st.builds(
        lambda line, lines, column, columns: Position(line, line + lines, column, column + columns),
        st.integers(1, 9), st.integers(0, 1), st.integers(0, 300), st.integers(0, 300),
    ),
)  # fmt: skip


@example([(Position(6, 6, 2, 9), 3), (Position(7, 7, 130, 140), 5)])
@given(st.lists(st.tuples(places, st.integers(1, 20)), min_size=1, max_size=8))
def test_assembled_positions(spans):
    """Also in columns from 128 on. A table for more code than there is would have CPython write past the end of a buffer under a tracer."""
    assembler = Assembler()
    expected = []
    for place, count in spans:
        assembler.set_position(place)
        for number in range(count):
            assembler.emit("load_const", number)
            assembler.emit("pop")
            expected += [(place.lineno, place.end_lineno or place.lineno, place.column, place.end_column)] * 2
    assembler.emit("load_const", None)
    assembler.emit("return")
    code = assembler.assemble(test_assembled_positions.__code__)
    found = [(line, end, column, end_column) for line, end, column, end_column in code.co_positions()]
    assert found[len(encode("start")) // 2 : -2] == expected and max(end for _, end, _ in code.co_lines()) == len(code.co_code)
