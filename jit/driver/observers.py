"""Finds the program's modes and tracers that observe each operation as it happens. Calls under them run uncompiled.

A graph has other operations than the program: it drops operations whose results aren't needed, takes views once, and a backend decomposes operations. And
a mode may return values of another shape or type than the trace has seen. So under a FLOP counter, a logger, `torch.jit.trace`, `make_fx` or
`torch.fx.symbolic_trace`, the uncompiled program runs. Entries made outside don't match there: they are guarded by the dispatch keys in force and by the
types of the values that they use. Modes that see torch's functions are traced (graph/function_modes.py).

Anomaly detection notes the line of the program at which each operator is called, and names the operator whose backward gives NaN. It could do neither for a
graph.

Inside the program's own `dual_level`, tensors may have tangents. The operators of a graph compute with tangents, but other compiled code doesn't, so only
backends that run the graph's own operators compile there. The same is true inside the program's own `vmap` or `grad`: operators are transformed when they
run, and other compiled code could not be transformed.
"""

from __future__ import annotations

import torch
import torch.fx._symbolic_trace
from torch._ops import _len_torch_dispatch_stack_pre_dispatch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from framejit import breaks
from framejit.torch_state.torch_modes import forward_level
from framejit.torch_state.transforms_in_force import are_in_force, only_transform_operators

TRANSFORM = breaks.Observed("a transform of torch.func's")
FORWARD_MODE = breaks.Observed("a dual_level of torch.autograd.forward_ad")
TRACER_OF_FX = breaks.Observed("a tracer of torch.fx")
ANOMALY_DETECTION = breaks.Observed("anomaly detection")
OF_THE_PROCESS = (TRACER_OF_FX, ANOMALY_DETECTION)
"""Observers that torch switches on for all threads. AOTAutograd does so while it traces."""


def observer(runs_operators: bool) -> breaks.Observed | None:
    """The observer because of which a call on this thread must run uncompiled now, or None. `runs_operators`: the backend runs the graph's own operators."""
    if torch._C._len_torch_dispatch_stack():
        return breaks.Observed(f"{named(_get_current_dispatch_mode())}, a mode that sees each operator,")
    if _len_torch_dispatch_stack_pre_dispatch():
        return breaks.Observed("a mode that sees each operator before it is decomposed")
    if are_in_force() and not (runs_operators and only_transform_operators()):
        return TRANSFORM
    if torch.is_anomaly_enabled():
        return ANOMALY_DETECTION
    if torch._C._get_tracing_state() is not None:
        return breaks.Observed("torch.jit.trace")
    if torch.fx._symbolic_trace.is_fx_symbolic_tracing():
        return TRACER_OF_FX
    return FORWARD_MODE if forward_level() >= 0 and not runs_operators else None


def named(mode: object) -> str:
    """The name of a mode's class, as the program writes it."""
    return type(mode).__qualname__
