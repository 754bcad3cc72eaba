"""Transforms of torch.func's that the program has around a call: `torch.func.vmap(compiled)(x)`.

The tensors that the call is given are wrapped then, and each operator that runs on them is transformed. A graph whose operators run as they are is
transformed with them. Its trace knows nothing of it but what the wrapped tensors look like: sizes without the mapped dimension, and whether they require a
gradient there. So the transforms are set aside while framejit works, and no guard says more of them than that there are some.
"""

from __future__ import annotations

from torch._C._functorch import TransformType, get_interpreter_stack, is_functorch_wrapped_tensor, maybe_current_level
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

__all__ = ["are_in_force", "is_functorch_wrapped_tensor", "only_transform_operators", "temporarily_clear_interpreter_stack"]

OF_OPERATORS = frozenset({TransformType.Vmap, TransformType.Grad, TransformType.Jvp})


def are_in_force() -> bool:
    """Return whether a call on this thread is inside of a transform now."""
    return maybe_current_level() is not None


def only_transform_operators() -> bool:
    """Return whether all transforms in force are such as compute something else of each operator, whatever code it comes from."""
    return all(interpreter.key() in OF_OPERATORS for interpreter in get_interpreter_stack() or ())
