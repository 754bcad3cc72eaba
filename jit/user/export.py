"""export(): turns a whole program into one graph of ATen operators, in torch's format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from framejit._runtime import CompiledFunction
from framejit.driver.compiled_module import raw_call
from framejit.errors import BadArgument
from framejit.process.when_needed import when_needed
from framejit.said.directives import untraced

if TYPE_CHECKING:
    from torch.export import ExportedProgram

lowered = when_needed("framejit.user.exporting.lowered")


@untraced
def export(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Mapping[str, Any] | tuple[Any, ...] | list[Any] | None = None,
) -> ExportedProgram:
    """Return the program as a `torch.export.ExportedProgram`, which can be run, saved (`torch.export.save`), loaded and compiled without Python code.

    The whole call with these arguments is traced, as with `fullgraph=True`, and `torch.export.export` lowers the result. No operator of the program runs, so
    the tensors may be fake ones, without memory (made under a `FakeTensorMode`). Ints, strings and other plain values among the arguments become
    constants, and so do sizes that `dynamic_shapes` doesn't name.

    Args:
        target: an `nn.Module`, whose parameters and buffers keep their names; a function, a method or another callable, compiled or not. A module isn't
            changed. If a function changes something outside of its arguments (globals, closures), it does so as in a call.
        args, kwargs: the arguments of a call. Arguments and results may be nested in any containers that `torch.utils._pytree` knows.
        dynamic_shapes: the sizes that vary, in the form that `torch.export.export` takes. For each argument, in the arguments' own nesting, this is a dict by
            dimension, or a tuple with an item for each dimension. Items are `torch.export.Dim("batch", min=, max=)`, `Dim.DYNAMIC` or `Dim.AUTO`; None is
            static.

    Raises:
        BadArgument: the target is a class, or can't be called; `args` isn't a tuple; `dynamic_shapes` names something that isn't a dimension.
        Unsupported: there is a graph break, or the result holds something that a graph can't return. The error names the line.
        torch._dynamo.exc.UserError: `dynamic_shapes` doesn't hold for the program, for example because it compares a size with a constant.
    """
    if isinstance(target, type) or not callable(target):
        raise BadArgument(f"export() takes an nn.Module, a function or another callable; got {target!r:.80}")
    if not isinstance(args, tuple):
        raise BadArgument(f"export(): args is a tuple of all positional arguments; got {type(args).__qualname__}")
    call = raw_call(type(target))
    if isinstance(call, CompiledFunction) and not isinstance(target, nn.Module):
        target = call.__get__(target)
    return lowered.exported(target, args, dict(kwargs or {}), dynamic_shapes)  # type: ignore[no-any-return]
