"""An ordinary `except` catches the group, and looks at its exceptions."""

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
    except ExceptionGroup as group:
        if not all(isinstance(problem, ValueError) for problem in group.exceptions):
            raise
        x = torch.nan_to_num(x)
    return x.sum()


result = total(torch.tensor([1.0, float("nan")]), [3, 0])
