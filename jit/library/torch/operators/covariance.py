"""torch.cov and torch.corrcoef: on fakes, and under AOTAutograd, where torch's own code looks at the data of a number that it has computed from sizes."""

from __future__ import annotations

import torch

from framejit.graph.builder import TorchVM
from framejit.graph.on_fakes import stand_in
from framejit.graph.rewrites import replaces
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.torchcall import enter

COV = torch.cov
CORRCOEF = torch.corrcoef


def cov(input: torch.Tensor, *, correction: int = 1, fweights: torch.Tensor | None = None, aweights: torch.Tensor | None = None) -> torch.Tensor:
    """torch.cov (aten/native/Correlation.cpp) without weights, of at least one variable and of more observations than `correction`. For other calls, torch's
    own runs, which may warn."""
    rows = input if input.dim() == 2 else input.reshape(1, -1)
    if fweights is not None or aweights is not None or input.dim() > 2 or input.dtype is torch.bool or rows.shape[0] == 0 or rows.shape[1] <= correction:
        return COV(input, correction=correction, fweights=fweights, aweights=aweights)
    if not (rows.is_floating_point() or rows.is_complex()):
        rows = rows.to(torch.get_default_dtype())
    centered = rows - rows.mean(1, keepdim=True)
    return (torch.mm(centered, centered.t().conj()) / (rows.shape[1] - correction)).squeeze()


def corrcoef(input: torch.Tensor) -> torch.Tensor:
    """torch.corrcoef: the covariances divided by the standard deviations of both variables."""
    found = cov(input)
    if found.dim() == 0:
        return found / found
    deviations = found.diagonal().real.sqrt() if found.is_complex() else found.diagonal().sqrt()
    found = found / deviations[:, None] / deviations[None, :]
    return torch.complex(found.real.clip(-1, 1), found.imag.clip(-1, 1)) if found.is_complex() else found.clip(-1, 1)


for _torchs, _ours in ((COV, cov), (CORRCOEF, corrcoef)):
    stand_in(_torchs, _ours)
    replaces(_torchs, _ours)


@models(torch.Tensor.cov)
def cov_method(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    return enter(vm, COV, args, kwargs)


@models(torch.Tensor.corrcoef)
def corrcoef_method(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    return enter(vm, CORRCOEF, args, kwargs)
