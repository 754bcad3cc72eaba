"""Results, gradients and aliasing of tensors are eager's, with backends that make the backward pass of a graph as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from agreement import close
from autograd_programs import LEAVES, PROGRAMS, called_without_grad, leaf

import framejit

IN_THE_PLACE_OF_EAGER = ["eager", "aot_eager"]


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)


def described(value: Any) -> Any:
    """All that a program can see of a result, but for which memory it is in."""
    if isinstance(value, torch.Tensor):
        seen = [value.detach().clone(), value.dtype, value.shape, value.stride(), type(value), value.is_inference()]
        try:
            seen += [value.requires_grad, value.is_leaf, value.grad.clone() if value.is_leaf and value.grad is not None else None]
        except RuntimeError as error:  # a view whose base has been changed
            seen.append(type(error))
        return seen
    if isinstance(value, (tuple, list)):
        return [type(value), *map(described, value)]
    return value


def sharing(values: list[torch.Tensor]) -> list[tuple[int, int]]:
    """Return for each tensor the number of the memory that it lies in, and its offset there."""
    numbers: dict[int, int] = {}
    return [(numbers.setdefault(value.untyped_storage()._cdata, len(numbers)), value.storage_offset()) for value in values]


def story(fn: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> list[Any]:
    """Call it, differentiate what it gives, change its results in place, and tell all that is seen on the way."""
    told: list[Any] = []
    for change in (written, recorded):
        torch.manual_seed(0)
        args = make()
        result = fn(*args)
        told.append(torch.rand(1))
        found = list(tensors(result))
        told += [described(result), described(args), sharing([*args, *found]), [a is b for a in found for b in (*args, *found)]]
        wanted = [value for value in found if value.requires_grad]
        if wanted:
            try:
                sum((value * value).sum() for value in wanted).backward(retain_graph=True)
            except RuntimeError as error:  # something needed for it has been changed in place
                told.append(type(error))
        told += [described(args), described(result), [leaf.grad for leaf in LEAVES], [value.grad for value in found if value.retains_grad]]
        for value in found:
            if not value.is_inference() and 0 not in value.stride() and value.is_floating_point():
                told.append(change(value))
        told += [described(result), described(args)]
    return told


@torch.no_grad()
def written(value: torch.Tensor) -> None:
    """Another value put into a result."""
    value.add_(1)


def recorded(value: torch.Tensor) -> Any:
    """Change a result in place and return the gradients of the leaves, or the type of the exception that this raises."""
    try:
        value.mul_(2)
        if value.requires_grad:
            value.sum().backward(retain_graph=True)
    except RuntimeError as error:
        return type(error)
    return [leaf.grad.clone() if leaf.grad is not None else None for leaf in LEAVES]


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients_are_eagers(name: str) -> None:
    fn, make = PROGRAMS[name]
    expected = story(fn, make)
    close(story(framejit.compile(fn, backend="eager"), make), expected, 1e-5)


def test_gradients_switched_on_inside_a_call_without() -> None:
    with torch.no_grad():
        expected = called_without_grad(*leaf())
        wanted, known = LEAVES[0], torch.ones(2, 3)
        gradients = torch.autograd.grad(expected[1], wanted, known)
        found = framejit.compile(called_without_grad, backend="eager")(*leaf())
    close(described(found), described(expected), 1e-5)
    close(torch.autograd.grad(found[1], LEAVES, known), gradients, 1e-5)
