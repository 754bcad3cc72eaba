"""The backend `aot_eager`: AOTAutograd's functionalised forward and backward graphs, run operator by operator."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._functorch.aot_autograd import aot_module_simplified
from torch._higher_order_ops import effects

from framejit.backends.changed_inputs import partition_with_copies
from framejit.backends.contexts import keep_saved_tensors
from framejit.backends.eager import compile_eager
from framejit.backends.recompute import partition
from framejit.backends.registry import Backend
from framejit.graph.demands import OF_OTHERS

if effects._get_effect(torch.ops.aten._linalg_check_errors.default) is None:
    # torch before 2.13 leaves the checks of factorisations out of AOTAutograd's graphs: factorisations that fail would give zeros.
    effects._register_effectful_op("aten::_linalg_check_errors", effects._EffectType.ORDERED)


def compile_aot_eager(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Take the graph through the same steps as Inductor before it generates code, and run the result as it is: its numbers are those of "eager".

    If Inductor's result is wrong and this one's is right, Inductor's code is to blame.
    """
    return aot_module_simplified(
        gm,
        example_inputs,
        fw_compiler=compile_eager,
        bw_compiler=compile_backward,
        partition_fn=functools.partial(partition_with_copies, partition),
        keep_inference_input_mutations=True,
    )


def compile_backward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The graph of a backward pass as it is. It may run several times."""
    keep_saved_tensors()
    return compile_eager(gm, example_inputs)


BACKEND = Backend(
    "aot_eager", compile_aot_eager, inputs="fake", trusted=True, faster_for_fixed_sizes=False, runs_nodes=True,
    takes=replace(OF_OTHERS, takes_unbacked=True, takes_gradients=True, takes_hooks=True, draws_in_order=True, joins_branches=True),
)  # fmt: skip
