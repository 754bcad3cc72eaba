"""torch.optim: steps of optimizers run as written."""

from __future__ import annotations

from types import CodeType

import torch

from framejit import breaks
from framejit.objects.registry import runs_as_written

STEP = next(constant for constant in torch.optim.Optimizer.profile_hook_step.__code__.co_consts if isinstance(constant, CodeType))
"""The code that torch puts around the `step` of each class of optimizers."""
runs_as_written(STEP, breaks.OptimizerStep("an optimizer of torch.optim"))
