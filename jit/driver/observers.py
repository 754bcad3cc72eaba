"""Modes and tracers of the program that look at each operation as it happens: calls under them run uncompiled.

A graph has other operations than the program (none whose result nobody needs, views taken once, decompositions of a backend), and what a mode
answers may have another shape or type than the trace has found. So under a FLOP counter, a logger, `torch.jit.trace`, `make_fx` or
`torch.fx.symbolic_trace` the program is what is looked at, not what was compiled of it. Entries made outside don't match there: they are guarded by
the dispatch keys in force and by the types of what they use. Modes that see torch's functions are traced (graph/function_modes.py).

Anomaly detection notes the line of the program at which each operator is called, and names the operator whose backward gives NaN. Of a graph it could
say neither.

Inside the program's own `dual_level`, tensors may have tangents, of which no compiled code but the operators of a graph knows: so backends that compile a
graph to anything else aren't asked. So it is inside the program's own `vmap` or `grad`, where what runs on tensors is the transform's too: other compiled
code could not be transformed.
"""

from __future__ import annotations

import torch
import torch.fx._symbolic_trace
from torch._ops import _len_torch_dispatch_stack_pre_dispatch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from framejit import breaks
from framejit.torch_modes import forward_level
from framejit.transforms_in_force import are_in_force, only_transform_operators

TRANSFORM = breaks.Observed("a transform of torch.func's")
FORWARD_MODE = breaks.Observed("a dual_level of torch.autograd.forward_ad")
TRACER_OF_FX = breaks.Observed("a tracer of torch.fx")
ANOMALY_DETECTION = breaks.Observed("anomaly detection")
OF_THE_PROCESS = (TRACER_OF_FX, ANOMALY_DETECTION)
"""Those that torch switches for all threads. AOTAutograd does so while it traces."""


def observer(runs_operators: bool) -> breaks.Observed | None:
    """Why a call on this thread has to run uncompiled now, or None. `runs_operators`: what would be compiled are the operators of a graph, as they are."""
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
    """The class of a mode, as the program names it."""
    return type(mode).__qualname__
