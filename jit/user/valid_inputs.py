"""valid_inputs(): finds out for which sizes and numbers a program takes which path, and for which it raises."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from framejit._runtime import CompiledFunction
from framejit.driver.compiled_module import raw_call
from framejit.errors import BadArgument, FramejitError
from framejit.process.when_needed import when_needed
from framejit.said.directives import untraced

if TYPE_CHECKING:
    from framejit.user.exploring.regions import ExploredInputs

explore = when_needed("framejit.user.exploring.explore")


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
    """Return the regions of inputs in which a program takes one path. Each has a condition, its smallest sizes, and the graph or the error there.

    The program is compiled, privately, for the example, then for the smallest sizes that no entry serves, and so on until every size is served. `print` of
    the result shows all regions; each element is an `InputRegion`.

    New tensors are contiguous, have the dtype, device and `requires_grad` of the example's tensors, and have elements drawn from the example's elements. They
    are the same at each call, and the program's random number generators don't advance. The program runs once for each region, uncompiled, on inputs made for
    it. Tracing it has no side effects, but these runs do: they change what the program changes outside of its arguments (a module's buffers, globals).

    Args:
        target: a function, a method, an `nn.Module` or another callable, compiled or not. Its own compiled entries stay as they are.
        example_args, example_kwargs: the arguments of a call.
        dynamic: the sizes and ints that vary. With None or True, these are all sizes of plain tensors and all ints among the arguments, and in lists, tuples
            and dicts there. Otherwise give a dict by name, with dimensions or True: {"x": [0], "xs[1]": True, "n": True}. Everything else stays as in the
            example. A size for which `mark_dynamic` has declared a range stays in that range.
        max_regions, seconds: the exploration ends when it has found so many regions, or has taken so many seconds. `unexplored` then says what wasn't
            tried. It also names code after graph breaks, which isn't explored.

    Raises:
        BadArgument: the target can't be called, isn't compiled, or doesn't fit the example; `dynamic` names something that doesn't exist.
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
    return explore.explore(target, example_args, dict(example_kwargs or {}), dynamic, max_regions, seconds)  # type: ignore[no-any-return]
