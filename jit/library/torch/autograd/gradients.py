"""Gradients asked for inside compiled code: computed by the graph if it contains everything that they depend on, else natively, between two graphs."""

from __future__ import annotations

import inspect

import torch

from framejit.graph.builder import TorchVM
from framejit.library.torch.autograd.gradient_question import METHOD, Question, layout_for, question
from framejit.library.torch.hooks.backward_hooks import has_hooks, run_with_hooks
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import gradients as app

GRAD, BACKWARD, TENSOR_BACKWARD = map(inspect.signature, (torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward))

USUAL = (("only_inputs", True), ("is_grads_batched", False))
"""Arguments of `torch.autograd.grad` that have no effect with these values."""


@models(torch.autograd.grad)
def autograd_grad(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    """torch.autograd.grad, which becomes a node of the graph itself."""
    given = GRAD.bind(*args, **kwargs).arguments
    asked = question(vm, "torch.autograd.grad", given, "outputs", "grad_outputs")
    if vm.observe(given["inputs"]).cls is dict or any(abstract.truth(vm, vm.observe(given[name])) is not usual for name, usual in USUAL if name in given):
        asked.stop(vm)
    tensors = [*asked.outputs, *(asked.inputs or ())]
    if vm.graph.function_modes.asks_modes() or any(isinstance(tensor, TensorObject) and tensor.kind.is_disguised for tensor in tensors):
        asked.stop(vm, ", which is overridden")
    if has_hooks(vm, asked.leaves(vm)):
        asked.stop(vm, ", where there are hooks")
    return asked.ask(vm, asked.inputs or [], **{name: given[name] for name in ("allow_unused", "materialize_grads") if name in given})


@models(torch.autograd.backward)
def autograd_backward(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    given = BACKWARD.bind(*args, **kwargs).arguments
    asked = question(vm, "torch.autograd.backward", given, "tensors", "grad_tensors")
    if "grad_variables" in given:
        asked.stop(vm)
    return run_backward(vm, asked)


@models(torch.Tensor.backward)
def tensor_backward(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    return run_backward(vm, question(vm, METHOD, TENSOR_BACKWARD.bind(*args, **kwargs).arguments, "self", "gradient"))


def run_backward(vm: TorchVM, asked: Question) -> Object:
    """The graph computes the gradients of the leaves; storing them in `.grad`, or adding them to it, is traced as if the program did it."""
    reached = asked.leaves(vm, listens=True)
    leaves = reached if asked.inputs is None else [leaf for leaf in asked.inputs if leaf in reached]
    if not leaves or (asked.inputs is not None and len(set(leaves)) != len(asked.inputs)):
        asked.stop(vm)
    if has_hooks(vm, leaves):
        return run_with_hooks(vm, asked, leaves)
    gradients = asked.ask(vm, leaves, allow_unused=vm.const(True))
    assert isinstance(gradients, TupleObject)
    found = [vm.observe(item) for item in gradients.items(vm)]
    if any(isinstance(item, TensorObject) and item.look(vm).layout is not torch.strided for item in found):
        asked.stop(vm, ", which gives a sparse gradient")
    layouts = [
        vm.const(layout_for(vm, leaf, item, asked.create_graph or item in found[:index]))
        for index, (leaf, item) in enumerate(zip(leaves, found, strict=True))
    ]
    vm.call_app(app.accumulate, [TupleObject(list(leaves)), gradients, TupleObject(layouts), vm.const(asked.create_graph)])
    return vm.const(None)
