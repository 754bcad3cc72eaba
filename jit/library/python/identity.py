"""id(): identities that the trace can compare and look up, although it doesn't know addresses."""

from __future__ import annotations

from framejit.guards.source import MISSING, Source
from framejit.objects.core.finalizers import has_address
from framejit.objects.core.object import VM, Object, settle
from framejit.objects.core.registry import models, wrapper_for
from framejit.objects.types.idobject import IdConstant, IdObject
from framejit.program import classes


@models(id)
def id_(vm: VM, obj: Object) -> Object:
    """The address of an object. That of one from outside is a constant once its number is asked for, if its identity may be guarded."""
    obj = vm.observe(obj)
    if id(obj.value) in classes.STAND_INS:
        return IdObject(obj)
    if obj.cls in (type(None), bool) or (wrapper_for(obj.cls).by_identity and obj.is_knowable()):
        obj.constant(vm)
        return IdConstant(obj, is_of_constant=True)
    if obj.source is not None and obj.value is not MISSING and not is_new_each_time(obj.source):
        return IdConstant(settle(obj), is_of_constant=False) if has_address(obj) else IdObject(vm.tell_apart(obj))
    return IdObject(settle(obj))


def is_new_each_time(source: Source) -> bool:
    """Return whether a value from outside is a new object each time it is read: the size of a tensor, or something in such a value."""
    return source.is_new_each_time or (source.base is not None and is_new_each_time(source.base))
