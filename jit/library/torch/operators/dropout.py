"""torch.dropout: its version in Python, which runs on fakes with symbolic sizes and under AOTAutograd, doesn't check the probability as eager does."""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.operators import compare
from framejit.objects.core.registry import models
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.torchcall import enter


@models(torch.dropout)
def dropout(vm: TorchVM, input: Object, p: Object, train: Object) -> Object:
    """A probability that varies is guarded to be between 0 and 1; with another one, the operator runs natively, and raises."""
    p = vm.observe(p)
    if isinstance(p, NumberObject) and p.cls in (int, float):
        if not all(abstract.truth(vm, compare(vm, symbol, p, vm.const(bound))) for symbol, bound in ((">=", 0.0), ("<=", 1.0))):
            vm.unsupported(breaks.OperatorRaises("dropout: its probability isn't between 0 and 1"))
    return enter(vm, torch.dropout, [input, p, train])
