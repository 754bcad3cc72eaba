"""compile_eager_operators(): operators that are called outside of compiled code run kernels that Inductor has compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from framejit.backends.eager_kernels import in_force
from framejit.backends.eager_kernels.names import Operator, operators
from framejit.errors import UnknownBackend, suggestion
from framejit.said.directives import untraced

BACKENDS = ("aoti",)


class compile_eager_operators:
    """After `compile_eager_operators(names)`, calls of these operators on the CPU run compiled kernels, until `close()` is called or a `with` block ends. It
    holds for all threads, and for operators that torch calls itself, such as those of backward passes.

    A kernel is compiled by AOTInductor at the first call with its dtypes, ranks, layouts and values of other arguments, and serves all sizes that the graph
    allows. That first call gives what torch's kernel gives; later ones are looked up without Python. Calls that have no kernel run torch's: tensors that are
    sparse, quantised, complex, of a class with `__torch_dispatch__`, empty, not dense, or on another device, and calls that can't be compiled.

    Args:
        names: operators, by name ("aten::bitwise_not", "bitwise_not", "add.Tensor") or as objects (torch.ops.aten.add), one or several. A name without an
            overload stands for all its overloads that can be compiled. "all": those of ATen for which Inductor generates code.
        backend: "aoti", which is the only one.

    Raises:
        UnknownOperator: a ValueError: an operator doesn't exist, or can't be compiled: it changes its arguments, gives views, draws random numbers.
        UnknownBackend: no such backend.
    """

    @untraced
    def __init__(self, names: Operator | Iterable[Operator], backend: str = "aoti") -> None:
        if backend not in BACKENDS:
            raise UnknownBackend(f"compile_eager_operators has no backend {backend!r}{suggestion(str(backend), BACKENDS, listing=True)}")
        self._operators = operators(names)
        in_force.open_all(self._operators)
        self._is_open = True

    @property
    def operators(self) -> tuple[str, ...]:
        """The names of the operators, each with its overload."""
        return tuple(str(operator) for operator in self._operators)

    @property
    def kernels(self) -> Mapping[str, int]:
        """The number of kernels that were compiled for each operator that has any; empty once all are closed."""
        return {str(operator): maker.kernels for operator, maker in in_force.makers(self._operators).items() if maker.kernels}

    @property
    def refusals(self) -> Mapping[str, tuple[str, ...]]:
        """The reasons for leaving calls of an operator to torch's kernel, for each operator of which some were compiled in vain; empty once all are closed."""
        return {str(operator): tuple(maker.refusals) for operator, maker in in_force.makers(self._operators).items() if maker.refusals}

    @untraced
    def close(self) -> None:
        """Give the operators torch's kernels back, and free the compiled ones, unless another `compile_eager_operators` has named them too. A second call
        does nothing."""
        if self._is_open:
            self._is_open = False
            in_force.close_all(self._operators)

    def __enter__(self) -> compile_eager_operators:
        """Begin a `with` block. There is nothing to do, since the object has been in force since it was made."""
        return self

    @untraced
    def __exit__(self, *exc: object) -> None:
        self.close()
