"""eval(), exec(), compile() and ast.literal_eval() of a text that the trace knows: it is compiled while tracing, and its code is traced."""

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import operator
import warnings
from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_OPTIMIZED
from types import CodeType, MemberDescriptorType
from typing import Any

from framejit import breaks
from framejit.library.python.namespaces import frame_of_program, variables_of
from framejit.objects.core.object import VM, Object, fold
from framejit.objects.core.registry import models
from framejit.objects.core.vm import FrameView
from framejit.objects.types.constobject import NONE
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.madeglobals import as_globals
from framejit.process.warning_filters import version_kept

INHERITED = functools.reduce(operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
"""The flags of a code object that a text compiled by that code inherits."""
STORES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.NamedExpr, ast.MatchAs, ast.MatchStar)
"""Statements and expressions that may bind a name."""


@models(eval)
def evaluate(vm: VM, source: Object, globals: Object | None = None, locals: Object | None = None) -> Object:
    """`eval("a + 1", {"a": 1})`."""
    return run_text(vm, "eval", source, globals, locals)


@models(exec)
def execute(vm: VM, source: Object, globals: Object | None = None, locals: Object | None = None, *, closure: Object | None = None) -> Object:
    """`exec("def f(x): return x + 1", namespace)`."""
    if closure is not None and vm.observe(closure).cls is not type(None):
        vm.unsupported(breaks.FrameIntrospection("exec()"))
    run_text(vm, "exec", source, globals, locals)
    return NONE


def run_text(vm: VM, mode: str, source: Object, globals: Object | None, locals: Object | None) -> Object:
    """Trace the code of a text, or a code object, with these dicts of variables; without them, with the variables of the frame that asks."""
    frame = frame_of_program(vm, f"{mode}()")
    given, space, names = vm.observe(source), given_dict(vm, globals), given_dict(vm, locals)
    for part, found in ((globals, space), (locals, names)):
        if found is None and part is not None and vm.observe(part).cls is not type(None):
            vm.unsupported(breaks.FrameIntrospection(f"{mode}()"))
    code = compiled(vm, frame, given, "<string>", mode)
    if code is None or code.co_freevars or code.co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR):
        vm.unsupported(breaks.FrameIntrospection(f"{mode}()"))
    if space is None:
        variables: Object = names or own_variables(vm, frame, mode, given) or frame.globals
        outer, known = frame.globals, frame.builtins
    else:
        variables, outer = names or space, space
        known = builtins_in(vm, frame, as_globals(vm, space))
    function = FunctionObject(code, outer, code.co_name)  # type: ignore[arg-type]
    function.builtins = known  # type: ignore[assignment]
    return vm.run_function(function, {}, None, variables)


def given_dict(vm: VM, part: Object | None) -> DictObject | None:
    """A plain dict of variables; None for any other value."""
    found = None if part is None else vm.observe(part)
    return found if isinstance(found, DictObject) and found.cls is dict else None


def own_variables(vm: VM, frame: FrameView[Object], mode: str, source: Object) -> Object | None:
    """The names of the frame that asks. Those of a function are copied, so the text may bind none: the interpreter keeps them for the next look."""
    if frame.namespace is not None:
        return frame.namespace
    if not frame.code.co_flags & CO_OPTIMIZED:
        return None
    if source.cls is not str or binds_names(source.constant(vm).lstrip(" \t") if mode == "eval" else source.constant(vm)):
        vm.unsupported(breaks.FrameIntrospection(f"{mode}()"))
    return variables_of(vm, frame)


def binds_names(text: str) -> bool:
    """Return whether a text binds or deletes a name outside the expressions that have variables of their own."""
    nodes = list(ast.walk(ast.parse(text)))
    own = {id(part) for node in nodes if isinstance(node, ast.comprehension) for part in ast.walk(node.target)}
    stored = (node for node in nodes if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) and id(node) not in own)
    return any(isinstance(node, STORES) for node in nodes) or any(stored)


def builtins_in(vm: VM, frame: FrameView[Object], space: DictObject) -> Object:
    """The builtins of code that has these globals. Those that have none get the ones of the frame that asks (Python/bltinmodule.c: builtin_exec_impl)."""
    found = space.lookup(vm, "__builtins__")
    if found is None:
        space.store(vm, "__builtins__", frame.builtins)
        return frame.builtins
    found = vm.observe(found)
    if found.value is builtins:
        return vm.globals_of(vars(builtins))
    if not isinstance(found, DictObject) or found.cls is not dict:
        vm.unsupported(breaks.UnsupportedCall(f"code with a {found.type_name} as its builtins"))
    return found


def compiled(vm: VM, frame: FrameView[Object], source: Object, name: str, mode: str, inherits: bool = True) -> CodeType | None:
    """The code of a text, or a code object itself; None if that isn't known, or if compiling it warns. An error in the text is raised."""
    if source.cls is CodeType and source.is_knowable():
        return source.constant(vm)  # type: ignore[no-any-return]
    if source.cls is not str:
        return None
    text, flags = source.constant(vm), frame.code.co_flags & INHERITED if inherits else 0
    try:
        code, warned = noticed(lambda: compile(text.lstrip(" \t") if mode == "eval" else text, name, mode, flags, True))
    except (SyntaxError, ValueError) as error:
        if isinstance(error, UnicodeError):
            return None
        vm.raise_(type(error), *error.args, **noted_fields(error))
    except Exception:
        return None
    return None if warned else code  # type: ignore[no-any-return]


def noted_fields(error: Exception) -> dict[str, Any]:
    """Return the fields of a SyntaxError in which the compiler has noted a place after it was made (Python/errors.c: PyErr_RangedSyntaxLocationObject)."""
    fields = [name for name, member in vars(SyntaxError).items() if type(member) is MemberDescriptorType] if isinstance(error, SyntaxError) else []
    made = type(error)(*error.args)
    return {name: getattr(error, name) for name in fields if getattr(error, name) != getattr(made, name)}


@models(compile)
def compile_(
    vm: VM, source: Object, filename: Object, mode: Object, flags: Object | None = None, dont_inherit: Object | None = None, optimize: Object | None = None
) -> Object:
    """`compile("a + 1", "<text>", "eval")`."""
    frame, given, how = frame_of_program(vm, "compile()"), vm.observe(source), vm.observe(mode)
    others = [vm.observe(part) for part in (flags, optimize) if part is not None]
    name, alone = vm.observe(filename), None if dont_inherit is None else vm.observe(dont_inherit)
    code = None
    if not others and given.cls is str and name.cls is str and how.cls is str and (alone is None or alone.cls in (int, bool)):
        chosen = how.constant(vm)
        if chosen in ("eval", "exec", "single"):
            code = compiled(vm, frame, given, name.constant(vm), chosen, alone is None or not alone.constant(vm))
    if code is None:
        vm.unsupported(breaks.UnsupportedCall("compile() of such a text"))
    return vm.const(code)


@models(ast.literal_eval)
def literal(vm: VM, node_or_string: Object) -> Object:
    """`ast.literal_eval("[1, 2]")`; errors in the text raise what the function raises. A text that warns is evaluated natively."""
    given = vm.observe(node_or_string)
    text = given.constant(vm) if given.cls is str else None
    if text is None:
        return fold(vm, ast.literal_eval, given.as_real(vm))
    try:
        found, warned = noticed(lambda: ast.literal_eval(text))
    except Exception:
        return fold(vm, ast.literal_eval, text)
    if warned:
        vm.unsupported(breaks.UnsupportedCall("ast.literal_eval() of a text that warns"))
    return vm.from_real(found)


def noticed(compute: Callable[[], Any]) -> tuple[Any, bool]:
    """Return the result of a function, and whether it warned. The program's warnings and filters stay as they are."""
    with version_kept(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        return compute(), bool(warned)
