"""Tells whose code a function is: the program's, torch's, the standard library's, another package's, or framejit's own; and what that means.

The answers decide where a graph break inside a library is taken (boundary.py), which functions native code calls back (upcalls.py), and which
frames reports show (stacks.py).
"""

from __future__ import annotations

import enum
import glob
import os
import site
import sys
import sysconfig
from collections.abc import Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

from framejit.program import classes

STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
TORCH = os.path.dirname(torch.__file__) + os.sep


def installed() -> tuple[str, ...]:
    """The folders into which packages are installed: the environment's, the interpreter's, the user's (`pip install --user`), and the one that torch
    lies in (`pip install --target`), unless that is a checkout of torch's sources."""
    found = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages(), site.getusersitepackages()]
    found.append(os.path.join(STANDARD_LIBRARY, "site-packages"))
    beside_torch = os.path.dirname(os.path.dirname(torch.__file__))
    if glob.glob(os.path.join(glob.escape(beside_torch), "torch-*.dist-info")):
        found.append(beside_torch)
    return tuple(dict.fromkeys(os.path.join(folder, "") for folder in found))


INSTALLED = installed()
OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
ITS_TESTS = STANDARD_LIBRARY + "test" + os.sep
"""CPython's own tests are programs: `make conformance` calls them from compiled functions."""
FROZEN = "<frozen "
"""The beginning of the file names of those modules of the standard library that are part of the interpreter."""
WRAPPERS = tuple(STANDARD_LIBRARY + name for name in ("contextlib.py", "functools.py"))
"""Modules of the standard library whose functions do little but call the program back."""
TENSOR_CODE = tuple(
    TORCH + path
    for path in (
        "_compile.py", "_jit_internal.py", "_library/", "_linalg_utils.py", "_lobpcg.py", "_lowrank.py", "_ops.py",
        "_refs/", "_tensor.py", "amp/", "ao/", "autograd/", "distributions/", "functional.py", "library.py", "linalg/", "masked/", "nested/", "nn/",
        "overrides.py", "quantization/", "signal/", "sparse/", "utils/_contextlib.py", "utils/_pytree.py", "utils/checkpoint.py", "utils/hooks.py",
    )
)  # fmt: skip
"""The parts of torch that compute with tensors, or stand around functions that do."""
TAKING_FUNCTIONS = (TORCH + "_higher_order_ops/", TORCH + "nn/attention/flex_attention.py")
"""Functions around operators that take functions: natively they call torch.compile, and not the operator."""
BACKWARD_PASSES = TORCH + "autograd/functional.py"
"""The file whose functions run backward passes, some of them one for each number: natively, so each would be a graph break of its own."""
TRANSFORMS = tuple(TORCH + "_functorch/" + name for name in ("apis.py", "eager_transforms.py", "vmap.py"))
"""The files of torch.func's transforms: after a graph break inside one, its levels would be open in one graph and closed in another."""
MASKED_TENSORS = TORCH + "masked/maskedtensor/"
"""The code of tensors that no graph has: it would stop traces at each of its calls."""
OPTIMIZERS = TORCH + "optim/"
"""The code of optimizers: a step that stops a trace runs natively as a whole."""

CALLS_BACK = tuple(
    TORCH + path
    for path in (
        "_tensor.py", "autograd/__init__.py", "autograd/function.py", "distributions/", "functional.py", "nn/", "optim/", "overrides.py",
        "utils/_contextlib.py", "utils/_pytree.py", "utils/data/",
    )
)  # fmt: skip
"""Parts of torch that call the program back as plain code would. The rest of it may be tracing, transforming or compiling."""
REGIONS = OURS + os.path.join("user", "regions.py")
"""The file whose wrappers are around functions of the program that are decorated with framejit's decorators."""
DECORATED = (REGIONS, TORCH + "_dynamo/external_utils.py")
"""The files whose wrappers are around functions of the program that are decorated with regions, framejit's and torch's."""
STAND_INS = OURS + "plain/"
"""Functions of framejit's that are traced in place of library functions."""
OUR_WRAPPERS = (REGIONS, OURS + "said/directives.py", STAND_INS)
"""Files of framejit's that call functions of the program as plain code would."""
GENERATED_BY_COMPILERS = ("<eval_with_key>", "<framejit")
"""The beginnings of the file names of graphs' code, and of code that framejit writes."""
MODULE_CALLS = TORCH + "nn/modules/module.py"
"""The file whose functions run the calls of every module."""
AROUND_CALLS = (MODULE_CALLS, *(TORCH + path for path in ("nn/modules/container.py", "utils/_contextlib.py", "amp/autocast_mode.py")))
"""Parts of torch whose frames only call the next one."""
HIDDEN = (*AROUND_CALLS, OURS)
"""Files whose frames reports leave out of call stacks."""


def importable(filename: str) -> str:
    """A file as it is found from where modules are imported (`torch/nn/modules/linear.py`); as it is, where it is in no such folder."""
    roots = [root for path in sys.path if path and filename.startswith(root := os.path.join(path, ""))]
    return filename.removeprefix(max(roots, key=len, default=""))


class CodeKind(enum.Enum):
    """The kinds of functions, as a trace sees them."""

    PROGRAM = enum.auto()
    """The user's own."""
    TENSORS = enum.auto()
    """A library's that works on tensors, as layers and models do: traced, and split in the middle, as the program's."""
    MACHINERY = enum.auto()
    """A library's other code."""
    WRAPPER = enum.auto()
    """Machinery that calls functions of any kind on behalf of its caller, so that tensor code may lie beneath it."""
    OURS = enum.auto()
    """framejit's: neither the program nor a library."""


def kind_of(code: CodeType, namespace: Mapping[str, Any]) -> CodeKind:
    """The kind of a function with this code and these globals."""
    filename = code.co_filename
    if is_generated(code, namespace):
        return CodeKind.WRAPPER
    if filename.startswith(TORCH):
        if filename.startswith((BACKWARD_PASSES, MASKED_TENSORS, OPTIMIZERS, *TAKING_FUNCTIONS, *TRANSFORMS)):
            return CodeKind.MACHINERY
        return CodeKind.TENSORS if filename.startswith(TENSOR_CODE) else CodeKind.WRAPPER
    if filename.startswith(OURS):
        return CodeKind.OURS
    if filename.startswith(INSTALLED):
        return CodeKind.TENSORS if knows_torch(namespace) else CodeKind.WRAPPER
    if filename.startswith(ITS_TESTS):
        return CodeKind.PROGRAM
    if filename.startswith((STANDARD_LIBRARY, FROZEN)):
        return CodeKind.WRAPPER if filename.startswith(WRAPPERS) else CodeKind.MACHINERY
    return CodeKind.PROGRAM


def is_library_file(filename: str) -> bool:
    """Return whether a file is torch's, framejit's or the standard library's. Models in other packages are as good as the program's."""
    return filename.startswith((TORCH, OURS)) or (filename.startswith(STANDARD_LIBRARY) and not filename.startswith(INSTALLED))


def is_installed_file(filename: str) -> bool:
    """Return whether a file is a library's or an installed package's, rather than the program's own."""
    return is_library_file(filename) or filename.startswith(INSTALLED)


def belongs_to_library(owner: Any) -> bool:
    """Return whether a class, a function or the globals of a module are torch's, framejit's or the standard library's, be they written in C."""
    if type(owner) is FunctionType:
        namespace = owner.__globals__
    elif issubclass(type(owner), type):
        namespace = vars(sys.modules.get(classes.module(owner), object))
    else:
        namespace = owner if type(owner) is dict else {}
    file = namespace.get("__file__")
    return is_library_file(file) if isinstance(file, str) else namespace.get("__name__") in sys.builtin_module_names


def is_stand_in(function: FunctionType) -> bool:
    """Return whether a function is one of framejit's, traced in place of a library function (jit/plain)."""
    return function.__code__.co_filename.startswith(STAND_INS)


def is_generated(code: CodeType, namespace: Mapping[str, Any]) -> bool:
    """Return whether a library has written the code: methods of dataclasses, wrappers that check types. It comes from no file, but its globals are those
    of a module that does, or of none; what is typed at a prompt has the globals of `__main__`, which has no file then."""
    if not code.co_filename.startswith("<") or code.co_filename.startswith(FROZEN):
        return False
    return "__file__" in namespace or "__name__" not in namespace


def knows_torch(namespace: Mapping[str, Any]) -> bool:
    """Return whether a module has torch, or something that torch defines, among its globals: what has not can only hand tensors on."""
    return any(map(is_torchs, tuple(namespace.values())))


def is_torchs(value: Any) -> bool:
    """Return whether torch defines a module, class or function."""
    cls = type(value)
    if cls is ModuleType:
        name = value.__name__
    elif issubclass(cls, type):
        name = classes.module(value)
    else:
        name = getattr(value, "__module__", None) if callable(value) and not classes.flags(cls) & classes.HEAP_TYPE else None
    return isinstance(name, str) and (name == "torch" or name.startswith("torch."))
