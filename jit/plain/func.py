"""torch.func's transforms in parts: the code around a function and its transform is plain Python, the transform itself an operator of the graph.

Each stand-in takes the arguments apart into tensors, has `call_vmapped` or a similar function trace the function as an inner graph, and puts the results
together. If torch would raise, the function raises inside that graph: then the transform runs natively, and torch reports the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch._functorch.eager_transforms import _slice_argnums
from torch.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten


class Refused(Exception):
    """Raised if torch would raise an exception, which is a different one."""


def call_vmapped(function: Any, args: list[Any], dims: list[Any], randomness: str, size: int) -> tuple[list[Any], Any]:
    """Call `function(args)` for each item of `args` along these dimensions. It gives a list of tensors, the dimensions of its items, and a third value; the
    result is the list and the third value. `size`: the number of items."""
    raise NotImplementedError  # library/torch/transforms/func.py has the model


def call_grad_and_value(function: Any, args: list[Any], which: list[int]) -> tuple[list[Any], Any, list[Any], Any]:
    """The gradients of the first value that `function(args)` gives, and all its values: a tensor, a list of tensors and a third value."""
    raise NotImplementedError


def call_jvp(function: Any, args: list[Any], which: list[int] | None, tangents: list[Any], strict: bool) -> tuple[list[Any], list[Any], list[Any], Any]:
    """The results of `function(args)`: a list of tensors, followed by their tangents, another list that is only passed on, and a third value."""
    raise NotImplementedError


def call_vjp(function: Any, args: list[Any], which: list[int] | None) -> tuple[list[Any], list[Any], Any, Any]:
    """The results of `function(args)`: a list of tensors, another list that is only passed on, a third value; and the argument for `call_pull_back`."""
    raise NotImplementedError


def call_pull_back(backward: Any, gradients: list[Any], retain_graph: bool, create_graph: bool | None) -> list[Any]:
    """The gradients that the function returned by a vjp gives."""
    raise NotImplementedError


def call_linearize(function: Any, args: list[Any]) -> tuple[Any, Any]:
    """The argument for `call_push_forward`, and the third result of `function(args)`, after two lists of tensors, the second of which is empty."""
    raise NotImplementedError


def call_push_forward(forward: Any, tangents: list[Any]) -> list[Any]:
    """The tangents that the function returned by a linearize gives."""
    raise NotImplementedError


def stop(what: tuple[str, str]) -> NoReturn:
    """Leave a call that can't be traced to native code."""
    raise NotImplementedError


def flat_vmap(
    func: Any, batch_size: int, flat_in_dims: Any, flat_args: Any, args_spec: Any, out_dims: Any, randomness: str, **kwargs: Any
) -> Any:
    """`torch._functorch.vmap._flat_vmap`."""

    def run(args: list[Any]) -> Any:
        result = func(*tree_unflatten(args, args_spec), **kwargs)
        leaves, spec = tree_flatten(result)
        if not isinstance(result, torch.Tensor):
            dims = _broadcast_to_and_flatten(out_dims, spec)
        elif isinstance(out_dims, tuple):
            dims = list(out_dims) if len(out_dims) == 1 else None
        else:
            dims = [out_dims]
        if dims is None:
            raise Refused
        return leaves, dims, spec

    leaves, spec = call_vmapped(run, flat_args, flat_in_dims, randomness, batch_size)
    return tree_unflatten(leaves, spec)


def chosen(args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, as_tuple: bool) -> tuple[list[Any], Any, list[int], Any]:
    """The leaves of some arguments, their structure, the indices of those that `argnums` names, and the structure of these."""
    leaves, spec = tree_flatten((args, kwargs))
    places, _ = tree_unflatten(list(range(len(leaves))), spec)
    which, which_spec = tree_flatten(places if argnums is None else _slice_argnums(places, argnums, as_tuple=as_tuple))
    return leaves, spec, which, which_spec


def with_aux(result: Any, has_aux: bool) -> tuple[Any, list[Any], Any]:
    """The result of a function, the leaves of its auxiliary result, and their structure."""
    if not has_aux:
        return result, [], None
    if not isinstance(result, tuple) or len(result) != 2:
        raise Refused
    leaves, spec = tree_flatten(result[1])
    return result[0], leaves, spec


def grad_and_value(func: Any, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`torch._functorch.eager_transforms.grad_and_value_impl`."""
    if argnums is None:
        stop(("torch.func.grad", "with argnums=None"))
    leaves, spec, which, which_spec = chosen(args, kwargs, argnums, False)

    def run(leaves: list[Any]) -> Any:
        args, kwargs = tree_unflatten(leaves, spec)
        output, aux, aux_spec = with_aux(func(*args, **kwargs), has_aux)
        if not isinstance(output, torch.Tensor) or output.dim() != 0:
            raise Refused
        return output, aux, aux_spec

    gradients, output, aux, aux_spec = call_grad_and_value(run, leaves, which)
    gradient = tree_unflatten(gradients, which_spec)
    return (gradient, (output, tree_unflatten(aux, aux_spec))) if has_aux else (gradient, output)


def taking_leaves(func: Any, spec: Any, has_aux: bool) -> Callable[[list[Any]], Any]:
    """A function of the leaves of another's arguments, which returns the leaves of its results."""

    def run(leaves: list[Any]) -> Any:
        args, _ = tree_unflatten(leaves, spec)
        output, aux, aux_spec = with_aux(func(*args), has_aux)
        outputs, out_spec = tree_flatten(output)
        if not outputs:
            raise Refused
        return outputs, aux, (out_spec, aux_spec)

    return run


def vjp(func: Any, *primals: Any, argnums: Any = None, has_aux: bool = False) -> Any:
    """`torch._functorch.eager_transforms._vjp_with_argnums`."""
    leaves, spec, which, which_spec = chosen(primals, {}, argnums, False)
    outputs, aux, (out_spec, aux_spec), backward = call_vjp(taking_leaves(func, spec, has_aux), leaves, None if argnums is None else which)

    def wrapper(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        gradients, gradients_spec = tree_flatten(cotangents)
        if gradients_spec != out_spec:
            stop(("torch.func.vjp", "whose function is given other values than its results"))
        return tree_unflatten(call_pull_back(backward, gradients, retain_graph, create_graph), which_spec)

    result = tree_unflatten(outputs, out_spec)
    return (result, wrapper, tree_unflatten(aux, aux_spec)) if has_aux else (result, wrapper)


def jvp(func: Any, primals: Any, tangents: Any, argnums: Any, *, strict: bool = False, has_aux: bool) -> Any:
    """`torch._functorch.eager_transforms._jvp_with_argnums`."""
    if not isinstance(primals, tuple):
        stop(("torch.func.jvp", "with primals that are no tuple"))
    leaves, spec, which, which_spec = chosen(primals, {}, argnums, True)
    flat_tangents, tangents_spec = tree_flatten(tangents)
    if tangents_spec != which_spec or not which:
        stop(("torch.func.jvp", "with other tangents than primals"))
    outputs, found, aux, (out_spec, aux_spec) = call_jvp(
        taking_leaves(func, spec, has_aux), leaves, None if argnums is None else which, flat_tangents, strict
    )
    result = tree_unflatten(outputs, out_spec), tree_unflatten(found, out_spec)
    return (*result, tree_unflatten(aux, aux_spec)) if has_aux else result


def linearize(func: Any, *primals: Any) -> Any:
    """`torch.func.linearize`, which calls the function twice."""
    output = func(*primals)
    leaves, spec = tree_flatten((primals, {}))
    forward, (out_spec, _) = call_linearize(taking_leaves(func, spec, False), leaves)

    def jvp_fn(*tangents: Any) -> Any:
        flat_tangents, tangents_spec = tree_flatten((tangents, {}))
        if tangents_spec != spec:
            stop(("torch.func.linearize", "whose function is given other values than its arguments"))
        return tree_unflatten(call_push_forward(forward, flat_tangents), out_spec)

    return output, jvp_fn
