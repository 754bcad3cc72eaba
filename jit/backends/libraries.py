"""Libraries of Inductor's kernels in framejit's folder of compiled code."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

from framejit.backends.ecosystem import reader_of_data
from framejit.saved import folder
from framejit.saved.names import Absent, Unsaved


def keep_library(path: str) -> str:
    """Copy a library of kernels to the folder; return the hash that names it there. Raises Unsaved."""
    root = folder.usable()
    try:
        data = Path(path).read_bytes()
        name = folder.digest(data)
        kept = None if root is None else root / "kernels" / (name + folder.LIBRARY)
        if kept is not None and not kept.exists():
            folder.write(kept, data)
    except OSError as error:
        raise Unsaved(f"the library of its kernels can't be copied: {error}") from None
    if kept is None:
        raise Unsaved("there is no folder for the library of its kernels")
    return name


def load_library(name: str, entry: str) -> ModuleType:
    """Load a library of kernels, an extension module with this entry function. Raises Absent."""
    root = folder.usable()
    module_name = f"{name}.{entry}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    path = None if root is None else root / "kernels" / (name + folder.LIBRARY)
    try:
        if path is None or not folder.is_own(path) or folder.digest(path.read_bytes()) != name:
            raise Absent(f"the library {name}")
        os.utime(path)
    except OSError:
        raise Absent(f"the library {name}") from None
    os.environ["_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"] = str(reader_of_data())
    loader = ExtensionFileLoader(module_name, str(path))
    spec = importlib.util.spec_from_loader(module_name, loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise Absent(f"the library {name}: {error}") from None
    sys.modules[module_name] = module
    return module
