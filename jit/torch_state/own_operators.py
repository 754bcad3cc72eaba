"""Operators of framejit's own. Each is one declaration: the schema, what it computes, what its results look like on fakes, and its gradient.

    @declare_operator("doubled(Tensor x) -> Tensor")
    def doubled(x):                    # what it computes
        return x * 2

    @doubled.fake
    def looks(x):                      # new tensors of the results' shapes
        return torch.empty_like(x)

`doubled.overload` is the target of a node, and `doubled(x)` calls the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch._library import autograd, simple_registry
from torch._ops import OpOverload

F = TypeVar("F", bound=Callable[..., Any])
NAMESPACE = "framejit"
LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
DRAWS = (torch.Tag.nondeterministic_seeded,)
"""The tags of operators that draw random numbers, or seed generators."""


class Operator:
    """An operator in the namespace `framejit`. Attributes: `name`, `run` (the function that computes it), `overload` (what a node has as its target)."""

    def __init__(self, schema: str, run: Callable[..., Any], tags: Sequence[torch.Tag]) -> None:
        self.name = schema.partition("(")[0]
        self.run = run
        LIBRARY.define(schema, tags=(*tags, torch.Tag.pt2_compliant_tag))
        LIBRARY.impl(self.name, run, "CompositeExplicitAutograd")
        self.overload: OpOverload = getattr(getattr(torch.ops, NAMESPACE), self.name).default

    def __call__(self, *args: Any) -> Any:
        return self.overload(*args)

    def fake(self, function: F) -> F:
        """Register what gives results without data, of the right shapes and dtypes, for arguments without data."""
        # torch.library.register_fake does this too, after it has looked in all modules of the process for the one that calls it.
        entry = simple_registry.singleton.find(f"{NAMESPACE}::{self.name}")
        LIBRARY._registration_handles.append(entry.fake_impl.register(function, f"{function.__module__}.{function.__qualname__}", lib=LIBRARY))
        return function

    def gradient(self, remember: Callable[..., None]) -> Callable[[F], F]:
        """Register `function(ctx, *gradients)`, which gives the arguments' gradients. `remember(ctx, inputs, output)` keeps in `ctx` what it needs."""

        def register(function: F) -> F:
            # torch.library.register_autograd does this too, but makes torch's kernel, and several classes for it, at once.
            made: Callable[..., Any] | None = None

            def kernel(keys: Any, *args: Any) -> Any:
                nonlocal made
                made = made or autograd.make_autograd_impl(self.overload, autograd.Info(function, remember))
                return made(keys, *args)

            LIBRARY.impl(self.name, kernel, "Autograd", with_keyset=True)
            return function

        return register


def declare_operator(schema: str, *, tags: Sequence[torch.Tag] = ()) -> Callable[[Callable[..., Any]], Operator]:
    """Declare an operator, in a decorator of the function that computes it. `schema`: without the namespace, as `torch.library` takes it."""
    return lambda run: Operator(schema, run, tags)
