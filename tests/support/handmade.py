"""Hand-made entries for the tests of the runtime: replacement code, guard trees and functions that use them."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from framejit import _runtime
from framejit._runtime import CompiledFunction, Entry


def n_slots(code: CodeType) -> int:
    variable = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + variable


def replacement(function: FunctionType, body: str) -> CodeType:
    """Return code that runs `body`, with the argument slots of `function`, followed by `inputs` and `captures`."""
    code = function.__code__
    names = [*code.co_varnames[: n_slots(code)], "inputs", "captures"]
    lines = [f"def compiled({', '.join(names)}):", *("    " + line for line in body.splitlines())]
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), "<replacement>", "exec"), namespace)
    made = namespace["compiled"].__code__
    variable = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    return made.replace(
        co_name=code.co_name,
        co_argcount=code.co_argcount,
        co_posonlyargcount=code.co_posonlyargcount,
        co_kwonlyargcount=code.co_kwonlyargcount,
        co_flags=made.co_flags & ~variable | code.co_flags & variable,
    )


def guard_tree(types: tuple[type, ...] = (), captures: tuple[int, ...] = ()) -> Any:
    """Return a guard tree that requires exactly these types in the first slots, and captures the slots with the numbers `captures`."""
    slots = range(max([len(types), *(slot + 1 for slot in captures)]))
    nodes = [(_runtime.ACCESSORS["root"], 0, None), *((_runtime.ACCESSORS["local"], 0, slot) for slot in slots)]
    leaves = [(slot + 1, _runtime.LEAVES["type_is"], cls) for slot, cls in enumerate(types)]
    return _runtime.GuardTree(nodes, leaves, [], [slot + 1 for slot in captures])


def entry(
    function: FunctionType, body: str, types: tuple[type, ...] = (), captures: tuple[int, ...] = (), n_inputs: int = 0, keep: object = None
) -> Entry:
    return Entry(replacement(function, body), guard_tree(types, captures), n_inputs, keep)


def compiled(
    body: str, types: tuple[type, ...] = (), captures: tuple[int, ...] = (), n_inputs: int = 0
) -> Callable[[FunctionType], CompiledFunction]:
    """Return a decorator that makes a compiled function, whose calls run `body`."""
    return lambda function: CompiledFunction(function, lambda f, arguments: entry(f, body, types, captures, n_inputs))


def never(function: FunctionType, arguments: tuple[Any, ...]) -> Entry | None:
    raise AssertionError("no compilation expected")


class Token:
    """An object that can be weakly referenced."""


def recursive_compiled(locals_needed: int = 0) -> CompiledFunction:
    """Return a compiled function that calls itself by its default argument, with code that has `locals_needed` more local variables."""

    def f(n, self=[]):
        raise AssertionError("not compiled")

    more = "; ".join(f"v{i} = n" for i in range(locals_needed)) or "pass"
    body = f"self = inputs.pop()\nn = captures[0]\n{more}\nreturn 0 if n == 0 else 1 + self[0](n - 1)"
    ours = compiled(body, (int, list), (1, 0), 1)(f)
    f.__defaults__[0].append(ours)
    return ours


def run_python(program: str, **environment: str) -> str:
    """Run a program in a process of its own, with the same search path for modules; assert that it succeeds, and return its output."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
