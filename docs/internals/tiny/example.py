"""The example of ../tiny.md: a call with a break in the middle, compiled for two values of `n`."""

import torch

from tiny import compile


@compile
def f(x: torch.Tensor, n: int) -> torch.Tensor:
    y = (x + n).relu()
    print("half")
    return y.cos()


x = torch.tensor([-2.0, 0.5, 1.0])
print(f(x, 1))
print(f(x, 2))
print(f.report())
