"""An object graph as bytes: values by their contents, what belongs to the program or to a library by its name.

The bytes are a pickle whose globals are limited to a few modules. Guards and sources are rebuilt as they were, functions of framejit's with their cells,
and functions that were generated with their code.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections import OrderedDict, deque
from collections.abc import Iterable
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch

from framejit.guards.source import NO_CHILDREN, Pinned, Reference, Root, SlotMember, Source
from framejit.program import classes
from framejit.program.naming import PLAIN
from framejit.saved.names import OWN, Absent, Name, Namer, Unsaved, described, digest_of, find
from framejit.saved.remade import ByValue, making

PERMITTED: dict[str, frozenset[str]] = {
    "builtins": frozenset({"bytearray", "complex", "dict", "frozenset", "list", "object", "range", "set", "slice", "tuple"}),
    "collections": frozenset({"OrderedDict", "defaultdict", "deque"}),
    "copyreg": frozenset({"__newobj__", "_reconstructor"}),
    "functools": frozenset({"partial"}),
    "types": frozenset({"CellType", "MethodType"}),
}
"""By module other than framejit's and torch's, the globals that may stand in the bytes."""
PLAIN_OF_TORCH = (torch.dtype, torch.layout, torch.memory_format, torch.device, torch.Size)
MOST_BYTES_OF_TENSOR = 1 << 20
"""A tensor with more bytes of data isn't saved: it is rather a weight than a constant of the program's code."""
CODE = (
    "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_nlocals", "co_stacksize", "co_flags", "co_code", "co_consts", "co_names", "co_varnames",
    "co_filename", "co_name", "co_qualname", "co_firstlineno", "co_linetable", "co_exceptiontable", "co_freevars", "co_cellvars",
)  # fmt: skip
"""The fields of a code object, by which `CodeType.replace` makes it again."""
TEMPLATE = (lambda: None).__code__


def path_to(value: CodeType | FunctionType, outer: CodeType) -> tuple[int, ...] | None:
    """The indices of constants that lead from a code object to one inside it, or to itself; None if there are none. Resume functions have functions among
    their constants."""
    waiting: list[tuple[Any, tuple[int, ...]]] = [(outer, ())]
    while waiting:
        found, path = waiting.pop()
        code = found.__code__ if type(found) is FunctionType else found
        if found is value or code is value:
            return path
        waiting += [(inner, (*path, index)) for index, inner in enumerate(code.co_consts) if type(inner) in (CodeType, FunctionType)]
    return None


def constant_at(path: tuple[int, ...], outer: CodeType) -> Any:
    """The constant to which these indices lead."""
    found: Any = outer
    for index in path:
        found = (found.__code__ if type(found) is FunctionType else found).co_consts[index]
    return found


class Own(NamedTuple):
    """The parts of the program that bytes are for, which need no names: a function, and the class that framejit has made for the compiled module that is its
    first argument, if there is one."""

    function: FunctionType
    cls: type | None = None


class Identity:
    """In the bytes: an object that is compared by identity, so that it may only be saved by name."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class ObjectWriter(pickle.Pickler):
    """Writes an object graph. Raises Unsaved."""

    def __init__(self, file: io.BytesIO, own: Own, near: Iterable[Any]) -> None:
        super().__init__(file, protocol=5)
        self._own = own
        self._namer = Namer(near)

    def persistent_id(self, value: Any) -> Any:
        """Mark the function and the class of `Own`, code inside that function, and modules' globals, which pickle would write by their contents."""
        kind = type(value)
        if kind is dict:
            module = sys.modules.get(value["__name__"]) if type(value.get("__name__")) is str else None
            is_globals = isinstance(module, ModuleType) and ModuleType.__getattribute__(module, "__dict__") is value
            return ("globals", value["__name__"]) if is_globals else None
        if kind is FunctionType and value is self._own.function:
            return ("function",)
        if kind is CodeType or (kind is FunctionType and making(value) is not None):
            path = path_to(value, self._own.function.__code__)
            return None if path is None else ("code" if kind is CodeType else "constant", path)
        return ("class",) if value is self._own.cls and value is not None else None

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is Identity:
            return self._identity(value.value)
        if kind is ByValue:
            return code_by_value(value.code)
        if kind is functools.partial:
            return partial_of, (value.func, by_identity(value.args), tuple(value.keywords), by_identity(tuple(value.keywords.values())))
        if classes.is_subtype(kind, Source):
            return self._source(value)
        if kind is Reference:
            return Reference, (Identity(value.get()),)
        if kind is FunctionType:
            return self._function(value)
        if classes.is_subtype(kind, type):
            return NotImplemented if is_permitted(classes.module(value), classes.qualname(value)) else (find, (self._namer.name_of(value),))
        if kind is CodeType:
            return self._code(value)
        if kind is MethodType:
            return MethodType, (value.__func__, value.__self__)
        if kind is CellType:
            return (CellType, by_identity((value.cell_contents,))) if value != CellType() else (CellType, ())
        if classes.is_subtype(kind, torch.Tensor):
            return self._tensor(value)
        if kind is torch.memory_format:  # by its own account, they belong to another module
            return of_torch, (str(value).removeprefix("torch."),)
        if kind in PLAIN_OF_TORCH or is_permitted(classes.module(kind), classes.qualname(kind)):
            return NotImplemented
        return find, (self._namer.name_of(value),)

    def _identity(self, value: Any) -> Any:
        if self.persistent_id(value) is not None or (type(value) in PLAIN and type(value) is not range):
            return given, (value,)
        return find, (self._namer.name_of(value),)

    def _source(self, source: Any) -> Any:
        if type(source) is Root:
            return Root, ()
        payload = source.payload
        return source_of, (type(source), source.base, Identity(payload) if type(source) in (Pinned, SlotMember) else payload)

    def _function(self, function: FunctionType) -> Any:
        made = making(function)
        if made is not None:
            return made
        if str(function.__module__).startswith(OWN) and "." not in function.__qualname__:
            return NotImplemented  # a global of framejit's, as those below that make objects again
        try:
            return find, (self._namer.name_of(function),)
        except Unsaved:
            if not str(function.__module__).startswith(OWN) or "<locals>" not in function.__qualname__:
                raise
        if function.__kwdefaults__ or function.__dict__.keys() - {"_boxed_call"}:
            raise Unsaved(f"it refers to {described(function)}, which has attributes of its own")
        code = "code", function.__module__, function.__qualname__, digest_of(function.__code__)
        if find(code) is not function.__code__:
            raise Unsaved(f"it refers to {described(function)}, whose code isn't found again")
        return closure, (code, by_identity(function.__defaults__ or ()), function.__closure__)

    def _code(self, code: CodeType) -> Any:
        try:
            return find, (self._namer.name_of(code),)
        except Unsaved:
            return code_by_value(code)

    def _tensor(self, tensor: torch.Tensor) -> Any:
        if type(tensor) is not torch.Tensor or tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.requires_grad:
            raise Unsaved(f"its graph holds a tensor of the class {classes.qualname(type(tensor))} on {tensor.device}")
        if tensor.numel() * tensor.element_size() > MOST_BYTES_OF_TENSOR:
            raise Unsaved("its graph holds a tensor of more than a megabyte")
        if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg() or tensor.is_inference():
            raise Unsaved("its graph holds a tensor that isn't contiguous")
        data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        return tensor_of, (data, tensor.dtype, tuple(tensor.shape))


class ObjectReader(pickle.Unpickler):
    """Reads what an ObjectWriter has written. Raises Absent if something that it refers to is gone or has changed."""

    def __init__(self, file: io.BytesIO, own: Own) -> None:
        super().__init__(file)
        self._own = own

    def find_class(self, module: str, name: str) -> Any:
        if not is_permitted(module, name):
            raise pickle.UnpicklingError(f"{module}.{name} may not be used here")
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        kind, *rest = pid
        if kind == "globals":
            return find(pid)
        if kind in ("function", "class"):
            return self._own.function if kind == "function" else self._own.cls
        found = constant_at(rest[0], self._own.function.__code__)
        return found.__code__ if kind == "code" and type(found) is FunctionType else found


def is_permitted(module: Any, name: str) -> bool:
    """Return whether a global may stand in the bytes as such. `module`: what its class names as such, which may be no string."""
    if type(module) is not str:
        return False
    if module.startswith(OWN):
        return True
    if module == "torch":
        found = getattr(torch, name, None)
        return isinstance(found, PLAIN_OF_TORCH) or found in PLAIN_OF_TORCH
    return name in PERMITTED.get(module, frozenset())


MUTABLE = (dict, list, set, bytearray, OrderedDict, deque, torch.Tensor)
"""Types of which an object may be the program's own, which is another object than one with equal contents."""


def by_identity(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values that code refers to, such that those which can change are saved by their names only."""
    return tuple([by_identity(value) if type(value) is tuple else Identity(value) if isinstance(value, MUTABLE) else value for value in values])


def code_by_value(code: CodeType) -> Any:
    """The reduced form of a code object: what makes it again, and the arguments."""
    return code_of, tuple([by_identity(code.co_consts) if name == "co_consts" else getattr(code, name) for name in CODE])


def partial_of(function: Any, args: tuple[Any, ...], names: tuple[str, ...], values: tuple[Any, ...]) -> functools.partial[Any]:
    return functools.partial(function, *args, **dict(zip(names, values, strict=True)))


def given(value: Any) -> Any:
    return value


def of_torch(name: str) -> Any:
    """One of torch's plain constants. Raises Absent."""
    found = getattr(torch, name, None)
    if not isinstance(found, PLAIN_OF_TORCH):
        raise Absent(f"torch.{name}")
    return found


def source_of(kind: type[Source], base: Source, payload: Any) -> Source:
    """A source as its trace has left it: interned in no trie."""
    made = kind(base, payload)
    made.children = NO_CHILDREN  # type: ignore[assignment]
    return made


def closure(code: Name, defaults: tuple[Any, ...], cells: tuple[CellType, ...] | None) -> FunctionType:
    """A function that a function of framejit's has made."""
    made = FunctionType(find(code), find(("globals", code[1])), argdefs=defaults, closure=cells)
    made.__qualname__ = code[2]
    return made


def code_of(*values: Any) -> CodeType:
    """A code object with these values of the fields CODE."""
    return TEMPLATE.replace(**dict(zip(CODE, values, strict=True)))


def tensor_of(data: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """A new tensor with this data."""
    made = torch.empty(shape, dtype=dtype)
    if data:
        made.reshape(-1).view(torch.uint8).copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    return made


def written(value: Any, own: Own, near: Iterable[Any] = ()) -> bytes:
    """An object graph as bytes. `near`: objects that lead to what no module has by name. Raises Unsaved."""
    file = io.BytesIO()
    try:
        ObjectWriter(file, own, near).dump(value)
    except RecursionError:
        raise Unsaved("it is nested too deeply") from None
    except (pickle.PicklingError, TypeError) as error:  # the latter for objects of classes in C
        if type(error) is TypeError and "cannot pickle" not in str(error):
            raise
        raise Unsaved(f"it can't be written: {error}") from None
    return file.getvalue()


def read(data: bytes, own: Own) -> Any:
    """The object graph that `written` was given. Raises Absent."""
    return ObjectReader(io.BytesIO(data), own).load()
