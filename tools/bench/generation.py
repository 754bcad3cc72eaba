"""`generate()` of transformers with each kind of cache: how many graphs it takes, and what a call costs once they are compiled."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from tools.bench.cases import select
from tools.check import describe
from tools.compilers import COMPILERS, quiet
from tools.measure import alternate

MOST_GRAPHS = 6
"""At most so many graphs are to be made: for the prompt, and for the tokens behind it, each of which attends to one position more."""


@torch.no_grad()
def generation(case: str, names: Sequence[str], repeat: int, device: str) -> dict[str, float | str]:
    """Milliseconds of one `generate()` of a model whose forward is compiled with the backend that runs graphs as they are.

    In the place of its time it has a text if it fails: where it raises, generates other tokens than eager, makes more than `MOST_GRAPHS` graphs, or makes
    any when the same is asked for again.
    """
    quiet()
    torch.set_num_threads(1)
    model, args, kwargs = select(case)[0].build(device)
    expected = model.generate(*args, **kwargs)
    ready: dict[str, Callable[[], Any]] = {}
    failures: dict[str, float | str] = {}
    # torch.compile puts another `__init__` on nn.Module when it first runs: on that, what framejit has compiled before may rest.
    for name in sorted(names, key=lambda name: name != "torch"):
        compiler = COMPILERS[name]()
        own = copy.deepcopy(model)
        own.forward = compiler.compile(own.forward, "eager")
        call = partial(own.generate, *args, **kwargs)
        try:
            same = torch.equal(call(), expected)
            graphs = compiler.statistics().graphs
            same = torch.equal(call(), expected) and same
        except Exception as error:
            failures[name] = describe(error)
            continue
        if not same:
            failures[name] = "other tokens than eager's"
        elif compiler.statistics().graphs != graphs or graphs > MOST_GRAPHS:
            failures[name] = f"{graphs} graphs, then {compiler.statistics().graphs}"
        else:
            ready[name] = call
    times = alternate(ready, seconds=float(repeat)) if ready else {}
    return {**{name: found * 1e3 for name, found in times.items()}, **failures}
