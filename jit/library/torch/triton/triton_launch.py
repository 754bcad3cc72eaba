"""The target of a node that launches one of the program's Triton kernels, and facts about the kernel, such as which tensors it writes.

Triton needn't be installed: nothing of it is imported before the program imports it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import torch

from framejit.quick_dataclass import dataclass

JIT = "triton.runtime.jit"
AUTOTUNER = "triton.runtime.autotuner"
INTERPRETER = "triton.runtime.interpreter"
DRIVER = "triton.runtime.driver"
DESCRIPTORS = "triton.tools.tensor_descriptor"
WRAPPERS = "torch._higher_order_ops.triton_kernel_wrap"
Grid = Sequence[Any]


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel.

    Attributes:
        kernel: as the program launches it: compiled or interpreted, maybe wrapped in a choice of configurations (`triton.autotune`).
        constants: arguments that aren't arguments of the node.
        written: names of the tensors that the kernel writes to.
        descriptors: for those arguments that are a TensorDescriptor of a whole tensor, by name: the other parts of the descriptor, the shape of a block first.
            The node takes the tensor.
        configs: the settings of each configuration to choose from, in the order of the grids; a single empty one if there is no choice.
    """

    kernel: Any
    constants: Mapping[str, Any]
    descriptors: Mapping[str, tuple[Any, ...]]
    written: tuple[str, ...]
    configs: tuple[Mapping[str, Any], ...]

    def target(self) -> Callable[..., None]:
        """The function that a node calls with tensors and numbers by name, and a grid for each configuration."""

        def launch(operands: Mapping[str, Any], grids: Sequence[Grid]) -> None:
            if torch._C._len_torch_dispatch_stack():
                self.trace(operands, grids)
            else:
                self.run(operands, grids)

        launch.__name__ = f"{innermost(self.kernel).fn.__name__}_"  # as the names of operators that change their arguments
        launch.on_fakes = self.on_fakes  # type: ignore[attr-defined]
        return launch

    def on_fakes(self, operands: Mapping[str, Any], grids: Sequence[Grid]) -> None:
        """Note on fakes which tensors the kernel writes to."""
        for name in self.written:
            if not operands[name].is_inference():
                torch.autograd.graph.increment_version(operands[name])

    def run(self, operands: Mapping[str, Any], grids: Sequence[Grid]) -> None:
        """Launch the kernel."""
        made = {name: import_module(DESCRIPTORS).TensorDescriptor.from_tensor(operands[name], *parts) for name, parts in self.descriptors.items()}
        given = {**operands, **self.constants, **made}
        by_position = []  # as far as possible: hooks of configurations see only these
        for name in self.kernel.arg_names:
            if name not in given:
                break
            by_position.append(given.pop(name))
        self.kernel[self.grid(grids)](*by_position, **given)

    def grid(self, grids: Sequence[Grid]) -> Any:
        """A grid for all configurations, or a function that returns the grid of the chosen one."""
        if all(grid == grids[0] for grid in grids):
            return grids[0]
        return lambda meta: next(
            grid for config, grid in zip(self.configs, grids, strict=True) if all(meta[name] == value for name, value in config.items())
        )

    def trace(self, operands: Mapping[str, Any], grids: Sequence[Grid]) -> None:
        """Call torch's operator for launches, which AOTAutograd knows."""
        wrappers = import_module(WRAPPERS)
        with able_to_analyse():
            wrappers.triton_kernel_wrapper_mutation(
                kernel_idx=wrappers.kernel_side_table.add_kernel(compilable(self.kernel)),
                constant_args_idx=wrappers.kernel_side_table.add_constant_args(dict(self.constants)),
                grid=[(*grid, 1, 1)[:3] for grid in grids],
                tma_descriptor_metadata=metadata(self.descriptors),
                kwargs=dict(operands),
            )


# Kernels.


def layers(kernel: Any) -> list[Any]:
    """A kernel, the innermost last, with its wrappers that choose configurations (`triton.autotune`) or compute arguments (`triton.heuristics`)."""
    around = (import_module(AUTOTUNER).Autotuner, import_module(AUTOTUNER).Heuristics)
    found = [kernel]
    while isinstance(found[-1], around):
        found.append(found[-1].fn)
    return found


def innermost(kernel: Any) -> Any:
    """The kernel itself, without its wrappers."""
    return layers(kernel)[-1]


def is_kernel(value: Any) -> bool:
    """Return whether a value is a kernel, with any wrappers."""
    return JIT in sys.modules and issubclass(type(value), sys.modules[JIT].KernelInterface)


def is_interpreted(kernel: Any) -> bool:
    """Return whether a kernel runs as Python, as with `TRITON_INTERPRET=1`."""
    return isinstance(innermost(kernel), import_module(INTERPRETER).InterpretedFunction)


def has_hooks(kernel: Any) -> bool:
    """Return whether Python code, even Triton's own, runs before or after the kernel: it may change any of the arguments."""
    if getattr(innermost(kernel), "pre_run_hooks", None):
        return True
    return any(
        layer.reset_to_zero or layer.restore_value or layer.user_defined_pre_hook or layer.user_defined_post_hook
        or any(config.pre_hook is not None for config in layer.configs)
        for layer in layers(kernel)
        if isinstance(layer, import_module(AUTOTUNER).Autotuner)
    )  # fmt: skip


@functools.cache
def compilable(kernel: Any) -> Any:
    """A kernel for which Triton's compiler can say what it writes to; it runs like the given one."""
    if len(layers(kernel)) > 1:
        made = copy.copy(kernel)
        made.fn = compilable(kernel.fn)
        return made
    return interpreted_kernel()(kernel) if is_interpreted(kernel) else kernel


@functools.cache
def interpreted_kernel() -> Any:
    """The class of kernels that are compiled for analysis, and run interpreted."""
    compiled = import_module(JIT).JITFunction

    def make(self: Any, kernel: Any) -> None:
        compiled.__init__(self, kernel.fn)
        object.__setattr__(self, "interpreted", kernel)

    return type("InterpretedKernel", (compiled,), {"__init__": make, "run": lambda self, *args, **kwargs: self.interpreted.run(*args, **kwargs)})


# The tensors that a kernel writes to.


def metadata(descriptors: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Descriptors in the form that torch's operator for launches takes."""
    return {name: import_module(WRAPPERS).create_tma_stable_metadata(list(parts[0])) for name, parts in descriptors.items()}


def written(kernel: Any, arguments: Mapping[str, Any], descriptors: Mapping[str, tuple[Any, ...]]) -> tuple[str, ...]:
    """The names of the tensors among a kernel's arguments that it writes to, according to its compiled form, and of those that it gets descriptors of; all
    tensors if hooks run."""
    tensors = [name for name, value in arguments.items() if isinstance(value, torch.Tensor)]
    if has_hooks(kernel):
        return tuple(tensors)
    wrappers, of = import_module(WRAPPERS), (compilable(innermost(kernel)), dict(arguments), metadata(descriptors))
    with able_to_analyse():
        if hasattr(wrappers, "identify_accessed_tensors"):
            names = {access.name for access in wrappers.identify_accessed_tensors(*of).read_writes.writes}
        else:  # before torch 2.13
            names = set(wrappers.identify_mutated_tensors(*of))
    return tuple(name for name in tensors if name in names or name in descriptors)


class AnyDevice:
    """Answers Triton's compiler if there is no GPU: what to compile for. The answer doesn't change what a kernel writes to."""

    def get_current_target(self) -> Any:
        return import_module("triton.backends.compiler").GPUTarget("cuda", 80, 32)


@contextlib.contextmanager
def able_to_analyse() -> Iterator[None]:
    """The context in which Triton's compiler works, whether there is a GPU or not."""
    drivers = import_module(DRIVER).driver
    try:
        drivers.active.get_current_target()
    except RuntimeError:
        before = drivers._active
        drivers.set_active(AnyDevice())
        try:
            yield
        finally:
            drivers._active = before
    else:
        yield
