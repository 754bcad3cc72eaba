"""Problems of a batch are collected in a group, and taken apart with `except*`."""

import torch

import framejit


def check(sizes):
    problems = [ValueError(f"row {row} is empty") for row, size in enumerate(sizes) if size == 0]
    if problems:
        raise ExceptionGroup("bad batch", problems)


@framejit.compile
def total(x, sizes):
    try:
        check(sizes)
    except* ValueError:
        x = torch.nan_to_num(x)
    return x.sum()


result = total(torch.tensor([1.0, float("nan")]), [3, 0])
