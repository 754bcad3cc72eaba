"""torch's control flow in plain Python, down to functions that stand for its operators, and take functions without arguments, or of tensors.

The functions without a body have models (library/torch/control_flow/cond.py and others), which trace their arguments as inner graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

Flat = tuple[list[Any], Any]
"""The leaves of a tree, and its structure."""


def is_open(pred: Any) -> bool:
    """Return whether a predicate isn't known before the graph runs."""
    raise NotImplementedError


def choose(pred: Any, true_branch: Callable[[], Flat], false_branch: Callable[[], Flat]) -> Flat:
    """The result of one of two branches."""
    raise NotImplementedError


def break_graph(operator: str, why: str) -> Any:
    """Stop the trace at the program's call of an operator."""
    raise NotImplementedError


def compared(condition: Any) -> Any:
    """A condition as a tensor, if it compares numbers read from tensors; others as they are."""
    raise NotImplementedError


def same_structure(a: Any, b: Any) -> bool:
    """Return whether two structures of trees are the same. (Comparing them with `==` would compare the texts of their types.)"""
    if a.type is not b.type or a.context != b.context or a.num_children != b.num_children:
        return False
    return all(same_structure(one, other) for one, other in zip(a.children(), b.children()))


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """`torch.cond`."""
    if not is_open(pred):
        return (true_fn if pred else false_fn)(*operands)
    if not isinstance(operands, (tuple, list)) or pytree.tree_any(lambda leaf: not isinstance(leaf, torch.Tensor), operands):
        return break_graph("torch.cond", "with operands that are no tensors, nor tuples, lists or dicts of tensors")
    leaves, structure = choose(
        pred, lambda: pytree.tree_flatten(true_fn(*operands)), lambda: pytree.tree_flatten(false_fn(*operands))
    )
    return pytree.tree_unflatten(leaves, structure)


def loop(condition: Callable[..., Any], body: Callable[..., Flat], carried: tuple[Any, ...]) -> Flat:
    """The result of a loop that starts with some tensors. `body` gives the tensors for the next round, and their structure."""
    raise NotImplementedError


def each(function: Callable[..., Flat], rows: tuple[Any, ...]) -> Flat:
    """The results of a function for each row of some tensors, stacked."""
    raise NotImplementedError


def run(step: Callable[..., Flat], carried: tuple[Any, ...], rows: tuple[Any, ...]) -> Flat:
    """The last carried result of a function that takes its previous carried result and one row of some tensors at a time, and its other results, stacked."""
    raise NotImplementedError


def combined(combine: Callable[..., Flat], rows: tuple[Any, ...]) -> Flat:
    """The cumulative results of an associative function of two rows: for each number of first rows of some tensors, these rows combined."""
    raise NotImplementedError


def while_loop(condition: Callable[..., Any], body: Callable[..., Any], carried: Any, additional: Any = ()) -> Any:
    """The operator of `while_loop`. Ints are carried as tensors."""
    counts = [type(value) is int for value in carried]

    def numbers_of(values: Any) -> Any:
        return [value.item() if is_int else value for value, is_int in zip(values, counts)]

    def flat_body(*carry: Any) -> Flat:
        given, structure = pytree.tree_flatten(body(*numbers_of(carry), *additional))
        if any((type(value) is int) is not is_int for value, is_int in zip(given, counts)):
            return break_graph("while_loop", "of a function that gives something else than ints in the place of ints")
        return [count_of(value) if is_int else value for value, is_int in zip(given, counts)], structure

    def test(*carry: Any) -> Any:
        return compared(condition(*numbers_of(carry), *additional))

    begin = tuple([count_of(value) if is_int else value for value, is_int in zip(carried, counts)])
    leaves, structure = loop(test, flat_body, begin)
    return pytree.tree_unflatten(numbers_of(leaves), structure)


def count_of(number: Any) -> torch.Tensor:
    """An int as a tensor without dimensions."""
    return torch.full((), number, dtype=torch.int64, device="cpu")


def map_impl(function: Callable[..., Any], xs: Any, args: Any) -> Any:
    """The operator of `map`."""
    leaves, structure = each(lambda *rows: pytree.tree_flatten(function(*rows, *args)), tuple(xs))
    return pytree.tree_unflatten(leaves, structure)


def scan(step: Callable[..., Any], init: Any, xs: Any, additional_inputs: Any = ()) -> Any:
    """The operator of `scan`."""
    count = len(init)

    def flat_step(*args: Any) -> Any:
        carry, out = step(*args, *additional_inputs)
        carried, of_carry = pytree.tree_flatten(carry)
        given, of_out = pytree.tree_flatten(out)
        if len(carried) != count:
            return break_graph("scan", f"of a function that gives {len(carried)} values where {count} is carried")
        return [*carried, *given], (of_carry, of_out)

    leaves, (of_carry, of_out) = run(flat_step, tuple(init), tuple(xs))
    return pytree.tree_unflatten(leaves[:count], of_carry), pytree.tree_unflatten(leaves[count:], of_out)


def associative_scan(combine: Callable[..., Any], xs: Any, additional_inputs: Any = ()) -> Any:
    """The operator of `associative_scan` with `combine_mode="pointwise"`. With "generic", it consists of other operators."""
    leaves, structure = combined(lambda *pair: pytree.tree_flatten(combine(*pair, *additional_inputs)), tuple(xs))
    return pytree.tree_unflatten(leaves, structure)


def strict_mode(function: Callable[..., Any], operands: Any) -> Any:
    """The operator of `strict_mode`."""
    return function(*operands)


def hints_wrapper(function: Callable[..., Any], args: Any, kwargs: Any, hints: Any) -> Any:
    """The operator of `hints_wrapper`. Hints are for compilers that look for the operator."""
    return function(*args, **kwargs)


def wrap(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def wrap_with_set_grad_enabled(enabled: bool, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with torch.set_grad_enabled(enabled):
        return function(*args, **kwargs)


def wrap_with_autocast(device: str, dtype: Any, enabled: bool, cache: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with torch.autocast(device, dtype, enabled, cache):
        return function(*args, **kwargs)


def region(run: Callable[[], Flat], function: Callable[..., Any], args: tuple[Any, ...], names: tuple[str, ...]) -> Flat | None:
    """The result of `run()`, a call of a function that becomes an inner graph, which is traced and compiled once for all calls that are alike; None if it
    should not. `args`: the function's arguments, the last of them by these names."""
    raise NotImplementedError


def nested_region(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The call of a function decorated with `nested_compile_region`."""
    found = region(lambda: pytree.tree_flatten(function(*args, **kwargs)), function, (*args, *kwargs.values()), tuple(kwargs))
    return function(*args, **kwargs) if found is None else pytree.tree_unflatten(*found)
