"""export(): the whole of a program as one graph of ATen's operators, in torch's format."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from framejit._runtime import CompiledFunction
from framejit.directives import untraced
from framejit.driver.compiled_module import raw_call
from framejit.errors import BadArgument

if TYPE_CHECKING:
    from torch.export import ExportedProgram


@untraced
def export(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Mapping[str, Any] | tuple[Any, ...] | list[Any] | None = None,
) -> ExportedProgram:
    """The program as a `torch.export.ExportedProgram`: without Python, to be run, saved (`torch.export.save`), loaded, and compiled ahead of time.

    The call with these arguments is traced whole, as with `fullgraph=True`, and what was traced is lowered by `torch.export.export`. No operator of the
    program runs: the tensors may be fake ones, without memory (made under a `FakeTensorMode`). Ints, strings and other plain values among the arguments
    are constants of the result, as sizes are that nothing is said of.

    Args:
        target: an `nn.Module`, whose parameters and buffers keep their names; a function, a method or another callable, compiled or not. A module is left
            as it is; what a function changes outside of its arguments (globals, closures) is changed as by a call.
        args, kwargs: the arguments of a call. Results and arguments may be nested in whatever `torch.utils._pytree` knows.
        dynamic_shapes: as of `torch.export.export`: by argument, in the arguments' own nesting, a dict of dimensions, or a tuple with an entry for each,
            of `torch.export.Dim("batch", min=, max=)`, `Dim.DYNAMIC` or `Dim.AUTO`; None is static.

    Raises:
        BadArgument: the target is a class, or can't be called; `args` is no tuple; something in `dynamic_shapes` is no dimension of an argument.
        Unsupported: at a graph break; where the result holds what a graph can't give. It names the line.
        torch._dynamo.exc.UserError: what was asked for in `dynamic_shapes` doesn't hold for the program, such as a size that it compares with a constant.
    """
    if isinstance(target, type) or not callable(target):
        raise BadArgument(f"export() takes an nn.Module, a function or another callable; got {target!r:.80}")
    if not isinstance(args, tuple):
        raise BadArgument(f"export(): args is a tuple of all positional arguments; got {type(args).__qualname__}")
    call = raw_call(type(target))
    if isinstance(call, CompiledFunction) and not isinstance(target, nn.Module):
        target = call.__get__(target)
    exported: Any = importlib.import_module("framejit.user.exporting.lowered").exported  # which loads torch.export and sympy
    return exported(target, args, dict(kwargs or {}), dynamic_shapes)  # type: ignore[no-any-return]
