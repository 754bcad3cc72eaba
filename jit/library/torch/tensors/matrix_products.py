"""Products of matrices with different dtypes: eager refuses them, and fake tensors don't."""

from __future__ import annotations

from torch._subclasses.fake_tensor import FakeTensor

from framejit import breaks
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState
from framejit.torch_state.operator_exceptions import TAKE_ONE_DTYPE
from framejit.torch_state.torch_modes import AUTOCAST


@rule(Phase.REFUSE)
def reject_different_dtypes(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a product that raises in eager, after what the program has changed before. A backend might even compute it."""
    if operation.name not in TAKE_ONE_DTYPE or AUTOCAST.counts(state.modes.current.autocast):
        return
    if all(type(fake) is FakeTensor for fake in operation.fakes) and len({fake.dtype for fake in operation.fakes}) > 1:
        state.vm.unsupported(breaks.UnsupportedOperation(f"{operation.name} of tensors of different dtypes"))
