"""os.fspath(), by which paths are made of texts and of other paths, and what C code knows about the form of paths."""

from __future__ import annotations

import os
import posix

from framejit.objects.core.object import VM, Object, call_special
from framejit.objects.core.registry import models, pure

pure(*(getattr(posix, name) for name in ("_path_splitroot", "_path_splitroot_ex", "_path_normpath") if hasattr(posix, name)))


@models(os.fspath)
def fspath(vm: VM, path: Object) -> Object:
    """Modules/posixmodule.c: PyOS_FSPath."""
    given = vm.observe(path)
    if issubclass(given.cls, (str, bytes)):
        return given
    found = call_special(vm, given, "__fspath__")
    if found is None:
        vm.raise_(TypeError, f"expected str, bytes or os.PathLike object, not {given.type_name}")
    text = vm.observe(found)
    if not issubclass(text.cls, (str, bytes)):
        vm.raise_(TypeError, f"expected {given.type_name}.__fspath__() to return str or bytes, not {text.type_name}")
    return text
