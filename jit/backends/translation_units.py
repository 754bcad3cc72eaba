"""Inductor's C++ kernels, compiled together: those of a graph are in as few translation units as keep the processors busy.

Inductor runs the C++ compiler once for each kernel (torch 2.11 to 2.15). On CPUs that takes most of the time of a first call, most of it for
headers and the linker: 33 kernels of a training step of Llama took 28 s of processor time one by one, and 3 s in one file.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from torch._inductor.async_compile import AsyncCompile, get_compile_threads
from torch._inductor.codecache import CppPythonBindingsCodeCache, LambdaFuture
from torch._inductor.exc import CppCompileError

from framejit.process.warning_filters import version_kept

UNIT = 50_000
"""The least number of characters of a translation unit if there are several: as much as the C++ compiler reads in the time that it takes to start."""
INCLUDE = "#include <torch/csrc/inductor/cpp_prefix.h>"
ONE_FUNCTION = re.compile(rf'\s*{re.escape(INCLUDE)}\s*extern "C"\s+void\s+kernel\((?P<rest>[^{{}}]*\)\s*\{{\n(?:[^}}\n].*\n|\n)*\}})\s*')
"""The source of a kernel that has nothing at file scope besides its function."""

BINDING = """
static PyObject* kernel{number}_py(PyObject* self, {parameters}) {{
    try {{
        if ({given} != {count}) [[unlikely]]
            throw std::runtime_error("requires {count} args");
        kernel{number}({args});
        Py_RETURN_NONE;
    }} catch (std::exception const& error) {{
        PyErr_SetString(PyExc_RuntimeError, error.what());
        return nullptr;
    }} catch (...) {{
        PyErr_SetString(PyExc_RuntimeError, "unhandled error");
        return nullptr;
    }}
}}
"""
PARAMETERS, GIVEN, CONVENTION = (
    ("PyObject* const* args, Py_ssize_t count", "count", "METH_FASTCALL")
    if "PyObject* const* args" in CppPythonBindingsCodeCache.suffix_template  # torch 2.15
    else ("PyObject* args", "PyTuple_GET_SIZE(args)", "METH_VARARGS")
)
"""The form, in C, in which Inductor's `parse_arg` takes the arguments of a call: their declaration, their number, and the calling convention."""
ALL_KERNELS = """
static PyMethodDef methods_of_kernels[] = {{ {methods} }};

static PyObject* all_kernels(PyObject* module) {{
    constexpr Py_ssize_t count = sizeof(methods_of_kernels) / sizeof(PyMethodDef);
    PyObject* result = PyTuple_New(count);
    for (Py_ssize_t i = 0; result != nullptr && i < count; i++) {{
        PyObject* function = PyCFunction_NewEx(&methods_of_kernels[i], module, nullptr);
        if (function == nullptr) {{
            Py_CLEAR(result);
        }} else {{
            PyTuple_SET_ITEM(result, i, function);
        }}
    }}
    return result;
}}
"""

Function = Callable[..., None]


class Kernel(NamedTuple):
    """A kernel as Inductor writes it, and the C++ types of its arguments."""

    argtypes: tuple[str, ...]
    source: str


LOADED: WeakValueDictionary[Kernel, Any] = WeakValueDictionary()
"""The functions of kernels, as long as a graph has them: the code for other sizes has many of the same."""


class AwaitedKernel(LambdaFuture):
    """A kernel for which Inductor waits. Its `result()` is the function of the kernel."""


class Postponed:
    """Stands among the globals of a graph's code for a kernel that is compiled later: at the latest when it is called, as after an interrupt."""

    def __init__(self, scope: dict[str, Any], name: str, kernel: AwaitedKernel) -> None:
        self._scope, self._name, self._kernel = scope, name, kernel

    def finish(self) -> Function:
        """Compile the kernel if it isn't yet, and put it in its place. Raises CppCompileError."""
        function: Function = self._kernel.result()
        self._scope[self._name] = function
        return function

    def __call__(self, *args: Any) -> None:
        self.finish()(*args)


class Batch:
    """The kernels of a graph, collected until one of them is needed; then all are compiled. If it is for several graphs, they are needed in `finish`."""

    def __init__(self, several: bool = False) -> None:
        self.several = several
        self._waiting: dict[Kernel, Future[Function]] = {}
        self._lock = threading.Lock()
        self._postponed: list[Postponed] = []

    def add(self, kernel: Kernel) -> AwaitedKernel:
        """The object that Inductor waits for."""
        if (function := LOADED.get(kernel)) is not None:
            return AwaitedKernel(lambda: function)
        with self._lock:
            future = self._waiting.setdefault(kernel, Future())
        return AwaitedKernel(lambda: self._result(future))

    def postpone(self, scope: dict[str, Any]) -> None:
        """Leave the kernels among the globals of a graph's code to `finish`."""
        for name, value in scope.items():
            if isinstance(value, AwaitedKernel):
                scope[name] = postponed = Postponed(scope, name, value)
                self._postponed.append(postponed)

    def finish(self) -> None:
        """Compile the kernels that have been postponed. Raises CppCompileError."""
        for postponed in self._postponed:
            postponed.finish()

    def _result(self, future: Future[Function]) -> Function:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        try:
            started = [(unit, start(unit)) for unit in units(list(waiting), get_compile_threads())]
            for unit, finish in started:
                for kernel, function in zip(unit, finish(), strict=True):
                    LOADED[kernel] = function
                    waiting[kernel].set_result(function)
        except BaseException as error:
            for each in waiting.values():
                if not each.done():
                    each.set_exception(error)
            raise
        return future.result()


BATCH: ContextVar[Batch | None] = ContextVar("BATCH", default=None)
"""The Batch that collects the kernels of the graph that is being compiled on this thread; None: Inductor compiles each separately, as for `torch.compile`."""
ORIGINS: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""By the function of a kernel that shares a library with others, its place among what the library's entry function returns."""
one_by_one = AsyncCompile.cpp_pybinding


def cpp_pybinding(compiler: AsyncCompile, argtypes: Sequence[str], source_code: str) -> Any:
    """Replaces Inductor's method of this name, by which its code for a graph asks for a kernel."""
    batch = BATCH.get()
    if batch is None or get_compile_threads() <= 1 or ONE_FUNCTION.fullmatch(source_code) is None or "#define" in source_code:
        return one_by_one(compiler, list(argtypes), source_code)
    return batch.add(Kernel(tuple(argtypes), source_code))


wait_for_all = AsyncCompile.wait


def wait(compiler: AsyncCompile, scope: dict[str, Any]) -> None:
    """Replaces Inductor's method of this name, by which its code for a graph waits for the graph's kernels."""
    batch = BATCH.get()
    if batch is not None and batch.several:
        batch.postpone(scope)
    wait_for_all(compiler, scope)


AsyncCompile.cpp_pybinding = cpp_pybinding  # type: ignore[method-assign]
AsyncCompile.wait = wait  # type: ignore[method-assign]


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Inside the block, the kernels of a graph that Inductor compiles on this thread are compiled together."""
    token = BATCH.set(BATCH.get() or Batch())
    try:
        yield
    finally:
        BATCH.reset(token)


@contextlib.contextmanager
def several_together() -> Iterator[None]:
    """Inside the block, the kernels of all graphs that Inductor compiles on this thread are collected. They are compiled at its end, and no graph runs before.

    Raises CppCompileError.
    """
    batch = Batch(several=True)
    token = BATCH.set(batch)
    try:
        yield
        batch.finish()
    finally:
        BATCH.reset(token)


def units(kernels: Sequence[Kernel], processors: int) -> list[list[Kernel]]:
    """The kernels divided into as many parts of about the same size as there are processors, or fewer: none is smaller than UNIT."""
    total = sum(len(kernel.source) for kernel in kernels)
    count = max(1, min(processors, total // UNIT))
    parts: list[list[Kernel]] = [[] for _ in range(count)]
    sizes = [0] * count
    for kernel in sorted(kernels, key=lambda kernel: len(kernel.source), reverse=True):
        smallest = sizes.index(min(sizes))
        parts[smallest].append(kernel)
        sizes[smallest] += len(kernel.source)
    return [part for part in parts if part]


def submit(task: Callable[..., Any]) -> Any:
    """Run a task on one of Inductor's threads. It runs the C++ compiler, for which Python's own code briefly changes the filters of warnings."""
    return AsyncCompile.submit(version_kept()(task))


def start(unit: Sequence[Kernel]) -> Callable[[], Sequence[Function]]:
    """Start the C++ compiler on these kernels. The result is a function that waits for it, and returns theirs. Raises CppCompileError."""
    if len(unit) == 1:
        load = CppPythonBindingsCodeCache.load_pybinding_async(list(unit[0].argtypes), unit[0].source, submit_fn=submit)
        return lambda: (load(),)
    load = together_in(unit).load_pybinding_async(
        [], "\n".join([INCLUDE, *map(definition, range(len(unit)), unit)]), submit_fn=submit
    )

    def finish() -> Sequence[Function]:
        try:
            functions: Sequence[Function] = load()()
            ORIGINS.update(zip(functions, range(len(functions))))
            return functions
        except CppCompileError:  # one of them may conflict with the others; one that is wrong by itself raises again
            return [CppPythonBindingsCodeCache.load_pybinding(list(kernel.argtypes), kernel.source) for kernel in unit]

    return finish


def definition(number: int, kernel: Kernel) -> str:
    """The function of a kernel, with a unique name."""
    match = ONE_FUNCTION.fullmatch(kernel.source)
    assert match is not None
    return f"static void kernel{number}({match['rest']}\n"


def together_in(unit: Sequence[Kernel]) -> type[CppPythonBindingsCodeCache]:
    """The class by which Inductor compiles and loads a library, with one Python function that returns those of the kernels."""
    bindings = [
        BINDING.format(number=number, count=len(kernel.argtypes), args=parsed(kernel.argtypes), parameters=PARAMETERS, given=GIVEN)
        for number, kernel in enumerate(unit)
    ]
    methods = ", ".join(f'{{"kernel", (PyCFunction)(void (*)(void))kernel{number}_py, {CONVENTION}, ""}}' for number in range(len(unit)))
    code = "".join(bindings) + ALL_KERNELS.format(methods=methods)
    return type(
        "Unit",
        (CppPythonBindingsCodeCache,),
        {
            "cache": {},
            "entry_function": "kernels",
            "call_entry_function": "return all_kernels(self);",
            "extra_parse_arg": code.replace("{", "{{").replace("}", "}}"),  # Inductor formats it, after its own `parse_arg`
        },
    )


def parsed(argtypes: Sequence[str]) -> str:
    """The code that parses the arguments of a kernel from the tuple `args`."""
    return ", ".join(f"parse_arg<{argtype.replace('const ', '')}>(args, {place})" for place, argtype in enumerate(argtypes))
