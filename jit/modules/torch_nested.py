"""torch.nested: the functions by which its Python code makes jagged tensors are nodes of the graph; the code that calls them is traced."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch.nested._internal import nested_tensor

from framejit.graph.builder import TorchVM
from framejit.objects.object import Object
from framejit.objects.registry import models
from framejit.objects.torchcall import enter


def makes_nested(function: Callable[..., Any]) -> None:
    """Make a function that makes a nested tensor of given lengths a node."""
    signature = inspect.signature(function)

    def make(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        nested_tensor._nt_view_dummy()  # torch caches this one, so it must not be made on fakes
        given = {name: vm.observe(value) for name, value in signature.bind(*args, **kwargs).arguments.items()}
        made = enter(vm, function, [], given)
        for name in ("offsets", "lengths"):
            if name in given:
                vm.graph.holds_lengths(given[name])
        return made

    models(function)(make)


makes_nested(nested_tensor.nested_view_from_values_offsets)
makes_nested(nested_tensor.nested_view_from_values_offsets_lengths)
makes_nested(nested_tensor.nested_from_padded)
