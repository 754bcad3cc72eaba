"""What is library code: which functions framejit takes for the program's, which for tensor code, and which for a library's machinery.

The answer decides where a graph break inside a library is taken (boundary.py) and which functions native code calls back (natives.py).
"""

from __future__ import annotations

import enum
import os
import sysconfig
from collections.abc import Mapping
from types import CodeType, ModuleType
from typing import Any

import torch

from framejit.guards import classes

STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")} | {os.path.join(STANDARD_LIBRARY, "site-packages", "")})
TORCH = os.path.dirname(torch.__file__) + os.sep
OURS = os.path.dirname(__file__) + os.sep
ITS_TESTS = STANDARD_LIBRARY + "test" + os.sep
"""CPython's own tests are programs: `make conformance` calls them from compiled functions."""
FROZEN = "<frozen "
"""How the file names of those modules of the standard library begin that are part of the interpreter."""
WRAPPERS = tuple(STANDARD_LIBRARY + name for name in ("contextlib.py", "functools.py"))
"""Modules of the standard library whose functions do little but call the program back."""
TENSOR_CODE = tuple(
    TORCH + path
    for path in (
        "_compile.py", "_higher_order_ops/", "_jit_internal.py", "_library/", "_linalg_utils.py", "_lobpcg.py", "_lowrank.py", "_ops.py",
        "_refs/", "_tensor.py", "amp/", "ao/", "autograd/", "distributions/", "functional.py", "library.py", "linalg/", "masked/", "nested/", "nn/", "optim/",
        "overrides.py", "quantization/", "signal/", "sparse/", "utils/_contextlib.py", "utils/_pytree.py", "utils/checkpoint.py", "utils/hooks.py",
    )
)  # fmt: skip
"""The parts of torch that compute with tensors, or stand around functions that do."""



class Kind(enum.Enum):
    """What a function is to a trace."""

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


def kind_of(code: CodeType, namespace: Mapping[str, Any]) -> Kind:
    """What a function with this code and these globals is."""
    filename = code.co_filename
    if is_generated(code, namespace):
        return Kind.WRAPPER
    if filename.startswith(TORCH):
        return Kind.TENSORS if filename.startswith(TENSOR_CODE) else Kind.WRAPPER
    if filename.startswith(OURS):
        return Kind.OURS
    if filename.startswith(INSTALLED):
        return Kind.TENSORS if knows_torch(namespace) else Kind.WRAPPER
    if filename.startswith(ITS_TESTS):
        return Kind.PROGRAM
    if filename.startswith((STANDARD_LIBRARY, FROZEN)):
        return Kind.WRAPPER if filename.startswith(WRAPPERS) else Kind.MACHINERY
    return Kind.PROGRAM


def is_generated(code: CodeType, namespace: Mapping[str, Any]) -> bool:
    """Whether a library has written the code: methods of dataclasses, wrappers that check types. It comes from no file, but its globals are those
    of a module that does, or of none; what is typed at a prompt has the globals of `__main__`, which has no file then."""
    if not code.co_filename.startswith("<") or code.co_filename.startswith(FROZEN):
        return False
    return "__file__" in namespace or "__name__" not in namespace


def knows_torch(namespace: Mapping[str, Any]) -> bool:
    """Whether a module has torch, or something that torch defines, among its globals: what has not can only hand tensors on."""
    return any(map(is_torchs, tuple(namespace.values())))


def is_torchs(value: Any) -> bool:
    """Whether torch defines a module, class or function."""
    cls = type(value)
    if cls is ModuleType:
        name = value.__name__
    elif issubclass(cls, type):
        name = classes.module(value)
    else:
        name = getattr(value, "__module__", None) if callable(value) and not classes.flags(cls) & classes.HEAP_TYPE else None
    return isinstance(name, str) and (name == "torch" or name.startswith("torch."))
