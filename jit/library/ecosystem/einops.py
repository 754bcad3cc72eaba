"""einops: it searches for the backend of a tensor's type at its first call in a process, and keeps what it has computed from patterns and sizes in caches."""

from __future__ import annotations

import sys

import torch

from framejit.library.python.cached import NEED_ARGUMENTS_ALONE
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import named
from framejit.objects.types.funcobject import FunctionObject

BACKENDS = "einops._backends"
NEED_ARGUMENTS_ALONE.update(("einops.einops", name) for name in ("_prepare_transformation_recipe", "_reconstruct_from_shape_uncached"))


@named(BACKENDS, "get_backend")
def get_backend(vm: VM, function: FunctionObject, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Have einops search its classes and all imported modules for the backend of tensors, as the program's first call would, so that the trace reads it from
    einops's table.

    Versions of einops before 0.7 have no such table: their code is traced as it is.
    """
    known = sys.modules[BACKENDS].__dict__.get("_type2backend")
    if known is None:
        return None
    for cls in (torch.Tensor, torch.nn.Parameter):  # both at the first call, for then the trace hasn't read the table
        if cls not in known:
            function.value(cls(torch.empty(0)))
    return None
