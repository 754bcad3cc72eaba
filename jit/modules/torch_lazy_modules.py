"""Lazy modules, whose first call makes their parameters by the shape of its input."""

from __future__ import annotations

from typing import NoReturn

from torch.nn.modules.lazy import LazyModuleMixin

from framejit import breaks, classes
from framejit.objects.object import VM, Object
from framejit.objects.registry import models


@models(LazyModuleMixin._infer_parameters)
def infer_parameters(vm: VM, self: Object, *args: Object, **kwargs: Object) -> NoReturn:
    """The hook that runs before the first `forward`: it materialises the parameters, and takes itself away."""
    vm.unsupported(breaks.LazyModuleCall(f"a {classes.qualname(vm.observe(self).cls)}"))
