"""logging: whether a level is enabled is read from the logger's cache, so that messages which are not shown don't split the graph."""

from __future__ import annotations

import logging

from framejit import breaks
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models


@models(logging.Logger.isEnabledFor)
def is_enabled_for(vm: VM, self: Object, level: Object) -> Object:
    """Logger.isEnabledFor. If a real logger is asked, it fills its cache, which changes of levels clear: the cached answer is guarded."""
    logger, level = vm.observe(self), vm.observe(level)
    if logger.source is None or not level.is_knowable() or not issubclass(logger.cls, logging.Logger):
        vm.unsupported(breaks.UnsupportedOperation("a level of a logger made in compiled code"))
    if abstract.truth(vm, abstract.getattr_(vm, logger, "disabled")):
        return vm.const(False)
    logger.value.isEnabledFor(level.constant(vm))
    cache = vm.observe(abstract.getattr_(vm, logger, "_cache"))
    if vm.effects.is_mutated(cache):
        vm.unsupported(breaks.UnsupportedOperation("a level of a logger changed in compiled code"))
    return abstract.getitem(vm, cache, level)
