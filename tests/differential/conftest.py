"""Random programs leave things behind: what they have suspended is collected before other tests run."""

import gc
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def nothing_is_left_suspended() -> Iterator[None]:
    gc.freeze()  # programs collect their garbage after each call: what was there before them is not looked at
    yield
    gc.unfreeze()
    gc.collect()  # closes generators that were dropped inside `no_grad`, which switch the mode as they go
    torch.set_grad_enabled(True)
