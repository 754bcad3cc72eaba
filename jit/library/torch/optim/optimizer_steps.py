"""Steps of those torch optimizers whose own arithmetic reads data, computed with tensors alone. AOTAutograd traces them instead of torch's functions.

torch's functions branch on the number of the step, or use norms of tensors as Python numbers. Here, such numbers are 0-d tensors with Python's precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

Number: TypeAlias = float | Tensor


def rows(gradients: Sequence[Tensor], maximize: bool, *lists: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """For each parameter its gradient, negated if `maximize`, and its item of each list; complex tensors as pairs of real ones."""
    for gradient, *others in zip(gradients, *lists, strict=True):
        yield tuple(as_real(item) for item in (-gradient if maximize else gradient, *others))


def as_real(value: Any) -> Any:
    return torch.view_as_real(value) if isinstance(value, Tensor) and value.is_complex() else value


def number(value: Number) -> Number:
    """A setting of an optimizer as a number or a 0-d tensor."""
    return value.squeeze() if isinstance(value, Tensor) else value


def is_zero(value: Number) -> bool:
    """Return whether a setting is known to be 0."""
    return type(value) in (int, float) and value == 0


def radam(
    params: Sequence[Tensor], grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_avg_sqs: Sequence[Tensor], state_steps: Sequence[Tensor], *,
    beta1: float, beta2: float, lr: Number, weight_decay: float, eps: float, decoupled_weight_decay: bool = False, maximize: bool = False, **_: Any,
) -> None:  # fmt: skip
    """torch.optim.radam.radam: the rectified update if the approximated average is long enough, else the plain one."""
    lr = number(lr)
    longest = 2 / (1 - beta2) - 1
    for grad, param, average, squares, step_t in rows(grads, maximize, params, exp_avgs, exp_avg_sqs, state_steps):
        step = step_t.add_(1).double()
        if not is_zero(weight_decay):
            if decoupled_weight_decay:
                param.mul_(1 - lr * weight_decay)
            else:
                grad = grad.add(param * weight_decay)
        average.lerp_(grad, 1 - beta1)
        squares.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction1, correction2 = 1 - beta1**step, 1 - beta2**step
        length = longest - 2 * step * (1 - correction2) / correction2
        safe = length.clamp(min=5.0)  # the results for shorter ones aren't used
        rectification = ((safe - 4) * (safe - 2) * longest / ((longest - 4) * (longest - 2) * safe)).sqrt()
        scale = torch.where(length > 5.0, rectification * correction2.sqrt() / (squares.sqrt() + eps), 1.0)
        param.sub_(average / correction1 * lr * scale.to(param.dtype))


def asgd(
    params: Sequence[Tensor], grads: Sequence[Tensor], axs: Sequence[Tensor], mus: Sequence[Tensor], etas: Sequence[Tensor], state_steps: Sequence[Tensor], *,
    lambd: float, lr: Number, t0: float, alpha: float, weight_decay: float, maximize: bool = False, **_: Any,
) -> None:  # fmt: skip
    """torch.optim.asgd.asgd: the average is the parameter itself until averaging begins."""
    lr = number(lr)
    for grad, param, average, mu, eta, step_t in rows(grads, maximize, params, axs, mus, etas, state_steps):
        step = step_t.add_(1).double()
        if not is_zero(weight_decay):
            grad = grad.add(param * weight_decay)
        param.mul_(1 - lambd * eta.double())
        param.sub_(grad * eta)
        average.copy_(torch.where(mu == 1, param, average + (param - average) * mu))
        eta.copy_(lr / (1 + lambd * lr * step) ** alpha)
        mu.copy_(1 / (step - t0).clamp(min=1))


def adafactor(
    params: Sequence[Tensor], grads: Sequence[Tensor], row_vars: Sequence[Tensor | None], col_vars: Sequence[Tensor | None], variances: Sequence[Tensor | None],
    state_steps: Sequence[Tensor], *, d: float, lr: Number, beta2_decay: float, weight_decay: float, eps1: float | None, eps2: float, maximize: bool = False,
    **_: Any,
) -> None:  # fmt: skip
    """torch.optim._adafactor.adafactor: the second moment of a matrix is a product of a column and a row."""
    lr = number(lr)
    for grad, param, row, column, variance, step_t in rows(grads, maximize, params, row_vars, col_vars, variances, state_steps):
        eps1 = torch.finfo(param.dtype).eps if eps1 is None else eps1
        step = step_t.add_(1).double()
        weight = step**beta2_decay
        rate = root_mean_square(param).clamp(min=eps2) * (1 / step.sqrt()).clamp(max=lr)
        if not is_zero(weight_decay):
            param.mul_(1 - lr * weight_decay)
        if row is not None and column is not None:
            approach(row, torch.linalg.vector_norm(grad, dim=-1, keepdim=True).square() / grad.size(-1), weight)
            approach(column, torch.linalg.vector_norm(grad, dim=-2, keepdim=True).square() / grad.size(-2), weight)
            estimate = row @ column / row.mean(dim=-2, keepdim=True).clamp(min=eps1)
        else:
            approach(variance, grad * grad, weight)
            estimate = variance
        update = estimate.clamp(min=eps1 * eps1).rsqrt() * grad
        param.sub_(update * (rate / (root_mean_square(update) / d).clamp(min=1.0)))


def approach(value: Tensor, target: Tensor, weight: Tensor) -> None:
    """Move a tensor towards another, with a weight in the precision in which `lerp_` computes."""
    wide = value.dtype if value.dtype == torch.float64 else torch.float32
    value.copy_(torch.lerp(value.to(wide), target.to(wide), weight.to(wide)))


def root_mean_square(value: Tensor) -> Tensor:
    return torch.linalg.vector_norm(value).double() / value.numel() ** 0.5
