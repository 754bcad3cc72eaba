"""The questions that a trace asks of a learning rate scheduler before it leaves the step to native code."""

from __future__ import annotations

from typing import Any

from torch.optim import lr_scheduler


def is_uneventful(scheduler: Any) -> bool:
    """Return whether a step neither warns nor raises: the optimizer has made a step, through the method that the scheduler has wrapped around its own."""
    optimizer = scheduler.optimizer
    if isinstance(scheduler, lr_scheduler.OneCycleLR) and scheduler.last_epoch >= scheduler.total_steps:
        return False
    return bool(getattr(optimizer, "_opt_called", False)) and hasattr(optimizer.step, "_wrapped_by_lr_sched")
