"""Graphs left to autograd, which records their operators as in eager: those that AOTAutograd rejects, and those whose gradients also raise in eager."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from framejit.backends.calling import MODE_SWITCHES, restoring
from framejit.backends.request import GraphRequest
from framejit.errors import BackendError
from framejit.graph.cast_views import make_cast_views
from framejit.graph.inner import nodes_inside
from framejit.torch_state.gradient_edges import edge_of

REFUSED = (
    "does not yet handle non-differentiable view input mutations", "any_leaf=True != all_leaf=False", "encountered a mutation on a view chain",
    "might be modifying the input!", "len(fw_hop_nodes) == len(bw_hop_nodes)",
    "A view was created in no_grad mode and its base or another view of its base has been", "being mutated that has internal overlap",
    "outs_to_grad length",
)  # fmt: skip
"""AOTAutograd's errors if a graph changes one of two inputs in a storage that aren't views of one tensor, or one of which was made without gradients
(torch/_functorch/_aot_autograd/input_output_analysis.py); if it changes the result of `as_strided` on a view (aten/src/ATen/FunctionalStorageImpl.cpp);
if a graph returns a view, made without gradients, of an input that it changes; if it changes an input and a view of it that is another input, and only some
of these require a gradient then (torch/_functorch/_aot_autograd/graph_capture_wrappers.py); if it changes a part of what `unfold` gives
(aten/src/ATen/FunctionalTensorWrapper.cpp);
and with torch before 2.13, if a branch of torch.cond changes its arguments (torch/_higher_order_ops/cond.py), and if regions draw."""


class LeftToAutograd(BackendError):
    """A backend that traces the backward pass too can't compile a graph, and is not to blame: its cause is an exception of AOTAutograd or autograd."""


def cause_of(error: BackendError, request: GraphRequest) -> BaseException | None:
    """The cause of LeftToAutograd, if a backend has raised for a graph; None if the backend is to blame."""
    cause = error.__cause__
    if cause is None or any(text in str(cause) for text in REFUSED):
        return cause
    raised = raised_by_gradients(request) if request.modes.grad else None
    return raised if raised is not None and are_alike(raised, cause) else None


def raised_by_gradients(request: GraphRequest) -> Exception | None:
    """Autograd's exception when it is asked for gradients of a graph's results, on tensors without data; None if there is none, or the graph itself raises."""
    switches = [node for node in nodes_inside(request.gm) if node.target in MODE_SWITCHES]
    graph = restoring(request.gm.forward, switches, request.modes)
    with request.modes.applied(), FakeTensorMode(allow_non_fake_inputs=True) as mode:  # the backend may have left others
        make_cast_views(mode)
        try:
            inputs = [mode.from_tensor(info.value, static_shapes=True) if is_tensor(info.value) else info.value for info in request.inputs]
            tensors = [value for value in inputs if is_tensor(value)]
            versions = [tensor._version for tensor in tensors]
            wanted = [edge for tensor in tensors if (edge := edge_of(tensor)) is not None]  # of the tensors as they are before the graph changes them
            results = [*graph(*inputs), *[tensor for tensor, version in zip(tensors, versions, strict=True) if tensor._version > version]]
            asked = [result for result in results if is_tensor(result) and result.requires_grad]
            tangents = [torch.empty_like(result, requires_grad=False) for result in asked]
        except Exception:
            return None
        try:
            torch.autograd.grad(asked, wanted, tangents, allow_unused=True)
        except Exception as error:
            return error.with_traceback(None)
    return None


def are_alike(first: BaseException, second: BaseException) -> bool:
    """Return whether two exceptions say the same, perhaps with different version numbers, or different names of operators towards the end."""
    return type(first) is type(second) and str(first)[:40] == str(second)[:40]


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
