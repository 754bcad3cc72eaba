"""pickle in plain Python: the library's own pickler and unpickler in Python, whose streams the trace knows."""

from __future__ import annotations

import _compat_pickle
import io
import pickle
import struct
import sys
from types import BuiltinFunctionType, ModuleType
from typing import Any

LIBRARY: Any = pickle
LibraryFramer: Any = LIBRARY._Framer
LibraryPickler: Any = LIBRARY._Pickler
LibraryUnpickler: Any = LIBRARY._Unpickler
STEPS = 1000
"""The number of objects up to which a pickle is traced. That of a longer list or dict also differs from the one that C code makes (batch_list_exact)."""
ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})


def run_natively() -> Any:
    """Stops the trace; library/python/pickle.py has the model."""
    raise AssertionError("run_natively is traced")


class Framer(LibraryFramer):
    """Puts the same frames around parts of a pickle, without a view of the memory of its stream."""

    current_frame: Any

    def commit_frame(self, force: bool = False) -> None:
        frame = self.current_frame
        if frame is None or not (force or frame.tell() >= self._FRAME_SIZE_TARGET):
            return
        data = frame.getvalue()
        if len(data) >= self._FRAME_SIZE_MIN:
            self.file_write(pickle.FRAME + struct.pack("<Q", len(data)))
        self.file_write(data)
        self.current_frame = io.BytesIO()


class Pickler(LibraryPickler):
    """A pickler that stops the trace where tracing would take long."""

    def __init__(self, file: Any, protocol: Any, fix_imports: Any) -> None:
        super().__init__(file, protocol, fix_imports=fix_imports)
        self.framer = Framer(file.write)
        self.write = self.framer.write
        self._write_large_bytes = self.framer.write_large_bytes
        self.left = STEPS
        self.constants: set[Any] = set()
        self.is_unsure = self.proto == 0  # the library's text pickles forget strings with characters that are escaped

    def memoize(self, obj: Any) -> None:
        """Number an object. A second constant that is equal to one before may be the same object, to which a pickle refers by its number."""
        if is_constant(obj):
            if obj in self.constants:
                self.is_unsure = True
            self.constants.add(obj)
        super().memoize(obj)

    def reducer_override(self, obj: Any) -> Any:
        """A function in C of a module is pickled by its name (Objects/methodobject.c: meth_reduce)."""
        if type(obj) is BuiltinFunctionType and type(obj.__self__) is ModuleType:
            return obj.__name__
        return NotImplemented

    def persistent_id(self, obj: Any) -> None:
        self.left -= 1
        if not self.left:
            run_natively()


class Reader:
    """The stream of a pickle. One that ends too early is the native unpickler's to judge, which refuses it where the one in Python doesn't."""

    def __init__(self, data: bytes) -> None:
        self.stream = io.BytesIO(data)
        self.readline = self.stream.readline

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        if len(data) < size:
            run_natively()
        return data


class Unpickler(LibraryUnpickler):
    """An unpickler that finds classes without telling audit hooks."""

    def find_class(self, module: str, name: str) -> Any:
        if self.proto < 3 and self.fix_imports:  # names may be those of Python 2
            renamed = (_compat_pickle.IMPORT_MAPPING.get(module, module), name)
            module, name = _compat_pickle.NAME_MAPPING.get((module, name), renamed)
        if module not in sys.modules:
            run_natively()
        found: Any = sys.modules[module]
        for part in name.split(".") if self.proto >= 4 else (name,):
            found = getattr(found, part)
        return found


def dumps(obj: Any, protocol: Any = None, *, fix_imports: Any = True) -> tuple[bytes, bool]:
    """pickle.dumps, and whether its bytes depend on which constants are the same object. What is wrong with an object is the native pickler's to say."""
    stream = io.BytesIO()
    try:
        pickler = Pickler(stream, protocol, fix_imports)
        pickler.dump(obj)
    except Exception:
        run_natively()
    return stream.getvalue(), pickler.is_unsure


def is_constant(obj: Any) -> bool:
    """Return whether an object is made of constants only."""
    return type(obj) in ATOMS or (type(obj) in (tuple, frozenset) and all(is_constant(item) for item in obj))


def loads(data: Any) -> Any:
    """pickle.loads."""
    try:
        return Unpickler(Reader(data)).load()
    except Exception:
        run_natively()
