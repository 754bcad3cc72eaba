"""pickle.dumps() and loads(): the library's own pickler in Python is traced, if what it says is the same."""

from __future__ import annotations

import pickle
from types import CodeType
from typing import Any, NoReturn

from framejit import breaks
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models, rules
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import pickle as plain

LONGEST = 4000
"""The number of bytes of a pickle up to which loading it is traced."""


UNSURE = breaks.UnsupportedCall("pickle.dumps of an object with equal constants, which may be one constant")


@models(plain.run_natively)
def run_natively(vm: VM) -> NoReturn:
    vm.unsupported(breaks.UnsupportedCall("the pickler in C, which says what is wrong with an object, or is faster"))


@rules(pickle.whichmodule)  # type: ignore[attr-defined]
def whichmodule(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """pickle.whichmodule. It searches all modules for an object that doesn't say where it is from."""
    module = abstract.lookup_attr(vm, args[0], "__module__") if args else None
    if module is None or vm.observe(module).cls is not str:
        vm.unsupported(breaks.UnsupportedCall("pickle.whichmodule for an object that doesn't name its module"))
    return None


class PickleObject(Object):
    """The pickle that the trace has made of an object, whose bytes depend on which constants are the same object: only loading it is traced.

    `place`: that of the call that made it, from which the trace starts again without it if its bytes are needed.
    """

    __slots__ = ("vm", "data", "place")
    is_true = True

    def __init__(self, vm: VM, data: Object, place: tuple[CodeType, int]) -> None:
        super().__init__(bytes)
        self.vm, self.data, self.place = vm, data, place

    def constant(self, vm: VM) -> Any:
        self.vm.restart(self.place, UNSURE)

    def reconstruct(self, cg: Codegen) -> None:
        self.vm.restart(self.place, UNSURE)

    def referents(self) -> list[Object]:
        return [self.data]


@models(pickle.dumps)
def dumps(vm: VM, obj: Object, protocol: Object | None = None, *, fix_imports: Object | None = None) -> Object:
    """pickle.dumps of an object whose pickle is short."""
    place = vm.place()
    options = {} if fix_imports is None else {"fix_imports": fix_imports}
    found = vm.call_app(plain.dumps, [obj, *([] if protocol is None else [protocol])], options)
    assert isinstance(found, TupleObject)
    data, is_unsure = found.items(vm)
    return PickleObject(vm, data, place) if is_unsure.constant(vm) else data


@models(pickle.loads)
def loads(vm: VM, data: Object, /) -> Object:
    """pickle.loads of a short pickle that the trace has made, or that is a constant of the code: others change from call to call."""
    data = vm.observe(data)
    if isinstance(data, PickleObject):
        data = data.data
    if data.cls is not bytes or data.source is not None or not data.is_known() or len(data.constant(vm)) > LONGEST:
        vm.unsupported(breaks.UnsupportedCall("pickle.loads of a pickle that is long, or comes from outside of the compiled function"))
    return vm.call_app(plain.loads, [data])
