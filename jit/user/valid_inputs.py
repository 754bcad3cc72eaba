"""valid_inputs(): for which sizes and numbers a program goes which way, and where it raises."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from framejit._runtime import CompiledFunction
from framejit.directives import untraced
from framejit.driver.compiled_module import raw_call
from framejit.errors import BadArgument, FramejitError

if TYPE_CHECKING:
    from framejit.user.exploring.regions import ExploredInputs


@untraced
def valid_inputs(
    target: Callable[..., Any],
    example_args: tuple[Any, ...],
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: Mapping[str, Any] | bool | None = None,
    max_regions: int = 32,
    seconds: float = 60.0,
) -> ExploredInputs:
    """The regions of inputs in which a program goes one way: each with its condition, its smallest sizes, and its graph or the error raised there.

    The program is compiled, privately, for the example, then for the smallest sizes that what was compiled doesn't serve, and so on until every size
    is served. `print` of the result shows all; each element is an `InputRegion`.

    New tensors are contiguous, with the dtype, device and `requires_grad` of the example's and with elements drawn from its elements; they are the
    same at each call, and no random number generator of the program's moves. The program is run once for each region, uncompiled, on inputs made for
    it; tracing it has no side effects. What it changes outside of its arguments (a module's buffers, globals) is changed by these runs.

    Args:
        target: a function, a method, an `nn.Module` or another callable, compiled or not. What was compiled of it stays as it is.
        example_args, example_kwargs: the arguments of a call.
        dynamic: what varies: all sizes of the plain tensors and all ints among the arguments, and in lists, tuples and dicts there (None or True);
            or a dict of names, with dimensions or True: {"x": [0], "xs[1]": True, "n": True}. Everything else is as in the example. A size that
            `mark_dynamic` has declared a range for stays in it.
        max_regions, seconds: the exploration ends when it has found so many regions, or has taken so long. What wasn't tried then is said in
            `unexplored`, and so is what lies after graph breaks, which isn't looked at.

    Raises:
        BadArgument: what is given can't be called, isn't compiled, or doesn't fit the example; `dynamic` names something that isn't there.
        FramejitError: z3 isn't installed.
    """
    if isinstance(target, type) or not callable(target):
        raise BadArgument(f"valid_inputs() takes a function, a method, an nn.Module or another callable; got {target!r:.80}")
    if not isinstance(example_args, tuple):
        raise BadArgument(f"valid_inputs(): example_args is a tuple of all positional arguments; got {type(example_args).__qualname__}")
    if type(max_regions) is not int or max_regions < 1 or not seconds > 0:
        raise BadArgument(f"valid_inputs(): max_regions is at least 1, and seconds more than 0; got {max_regions!r} and {seconds!r}")
    call = raw_call(type(target))
    if isinstance(call, CompiledFunction) and not isinstance(target, nn.Module):
        target = call.__get__(target)
    if importlib.util.find_spec("z3") is None:
        raise FramejitError("valid_inputs() needs z3, which is not installed: pip install z3-solver")
    explore: Any = importlib.import_module("framejit.user.exploring.explore").explore  # which loads z3
    return explore(target, example_args, dict(example_kwargs or {}), dynamic, max_regions, seconds)  # type: ignore[no-any-return]
