"""The operator says what it gives, by a function that makes an empty tensor of the right shape."""

import numpy as np
import torch

import framejit


@torch.library.custom_op("mylib::sort_rows", mutates_args=())
def sort_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.sort(x.numpy(), 1))


@sort_rows.register_fake
def _(x):
    return torch.empty_like(x)


@framejit.compile
def model(x):
    x = torch.sin(x)
    return sort_rows(x) * 2


result = model(torch.arange(6.0).reshape(2, 3))
