"""Launches of Triton kernels: each is one node of the graph."""

from __future__ import annotations

import inspect
import operator
import sys
from dataclasses import fields
from types import FunctionType
from typing import Any, cast

import torch
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._triton import has_triton_tensor_descriptor_host_tma

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.fake import name_of_operator
from framejit.guards.kinds import ValueIs
from framejit.library.torch.triton.triton_launch import (
    AUTOTUNER,
    DESCRIPTORS,
    INTERPRETER,
    JIT,
    Launch,
    has_hooks,
    innermost,
    is_interpreted,
    is_kernel,
    layers,
    written,
)
from framejit.objects.core import abstract
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Codegen, NotConstant, Object
from framejit.objects.core.registry import RuleOrder, library, models, named
from framejit.objects.numbers.unbackednumber import UnbackedNumber
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.dictobject import dict_of
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import triton as app

Named = dict[str, Object]
TRITON_OPERATORS = "torch._library.triton"
INTERPRETED = "this backend compiles launches itself, and can't compile those of interpreted kernels"
ON_CPU = "its tensors are on the CPU, and TRITON_INTERPRET=1 wasn't set where it was defined"

CHOSEN_INSIDE = "`triton.heuristics` is around its `triton.autotune`, which this backend takes in the other order only"
DESCRIPTOR = "it is given descriptors of tensors, of which torch knows on some GPUs only what is written through them, and none but the usual settings"

HOOKS = "Python runs before or after it (a hook, `reset_to_zero` or `restore_value`), which this backend doesn't see"


@named(JIT, "KernelInterface.__getitem__")
def subscripted(vm: TorchVM, function: Object, args: list[Object], kwargs: Named) -> Object | None:
    """`kernel[grid]`."""
    if len(args) != 2 or kwargs:
        return None
    kernel = vm.observe(args[0])
    return None if kernel.source is None else Launcher(kernel, args[1])


@library(RuleOrder.BY_KIND)
def interpreted_operator(vm: TorchVM, function: Object, args: list[Object], kwargs: Named) -> Object | None:
    """A call of an operator of `triton_op` whose kernels are interpreted: they can't run on tensors without data, so its function is traced.

    If autograd is to record the call, it is left as it is: the operator may have a formula for the gradient.
    """
    if not issubclass(type(function.value), (CustomOpDef, OpOverload, OpOverloadPacket)) or INTERPRETER not in sys.modules:
        return None
    body = body_of(function.value)
    if body is None:
        return None
    given = [vm.observe(value) for value in (*args, *kwargs.values())]
    if torch.is_grad_enabled() and any(isinstance(value, TensorObject) and value.look(vm).requires_grad for value in given):
        return None
    return abstract.call(vm, vm.pin(body), args, kwargs)


def body_of(operator: Any) -> FunctionType | None:
    """The program's function that an operator of `triton_op` runs on all devices, if it launches interpreted kernels; None for other operators."""
    definition = operator if isinstance(operator, CustomOpDef) else OPDEFS.get(name_of_operator(operator))
    if definition is None or definition._init_fn.__module__ != TRITON_OPERATORS or list(definition._backend_fns) != [None]:
        return None
    body = inspect.getclosurevars(definition._init_fn).nonlocals.get("fn")
    if not isinstance(body, FunctionType):
        return None
    used = inspect.getclosurevars(body)
    kernels = [value for value in (*used.globals.values(), *used.nonlocals.values()) if is_kernel(value)]
    return body if any(map(is_interpreted, kernels)) else None


@named(DESCRIPTORS, "TensorDescriptor.__post_init__")
def check_descriptor(vm: TorchVM, function: Object, args: list[Object], kwargs: Named) -> Object | None:
    """The check that a TensorDescriptor makes at its creation: the launch makes the descriptor again, from a real tensor, and checks it then."""
    return vm.const(None)


if hasattr(torch.library, "wrap_triton"):

    @models(torch.library.wrap_triton)
    def wrap_triton(vm: VM, triton_kernel: Object) -> Object:
        """The kernel itself: launches here do what the wrapper does for tracers that only see operators."""
        kernel = vm.observe(triton_kernel)
        if not is_kernel(kernel.value):
            raise NotConstant(kernel)
        try:
            torch.library.wrap_triton(kernel.value)
        except RuntimeError as error:  # it alone knows which kinds of kernels it accepts
            assert kernel.source is not None
            vm.guard(ValueIs, kernel.source, kernel.value)
            vm.raise_(RuntimeError, *error.args)
        return kernel


class Launcher(Object):
    """A kernel with a grid: a call of it launches the kernel.

    The kernel's identity is guarded; its configurations and heuristics are assumed not to change, as is its code.
    """

    __slots__ = ("grid", "kernel")

    def __init__(self, kernel: Object, grid: Object) -> None:
        super().__init__(type(lambda: None))
        self.kernel = kernel
        self.grid = grid

    def call(self, vm: VM, args: list[Object], kwargs: Named, delivery: Delivery | None = None) -> Object:
        kernel: Any = self.kernel.value
        assert self.kernel.source is not None
        vm.guard(ValueIs, self.kernel.source, kernel)
        if len(args) > len(kernel.arg_names):
            vm.unsupported(breaks.UnsupportedCall(f"the Triton kernel {name_of(kernel)} with {len(args)} arguments"))
        try:
            return launch(cast(TorchVM, vm), kernel, {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}, self.grid)
        except NotConstant as needed:
            vm.unsupported(breaks.UnsupportedCall(f"the Triton kernel {name_of(kernel)} with the argument {needed.obj!r}"))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.kernel)
        cg.load(self.grid)
        cg.call_const(operator.getitem, 2)

    def referents(self) -> list[Object]:
        return [self.kernel, self.grid]


def name_of(kernel: Any) -> str:
    """A kernel's name in the program."""
    return str(innermost(kernel).fn.__name__)


def launch(vm: TorchVM, kernel: Any, named: Named, grid: Object) -> Object:
    """The node of a launch with these arguments."""
    signature = inspect.signature(innermost(kernel).fn)
    defaults = {name: vm.from_real(p.default) for name, p in signature.parameters.items() if p.default is not p.empty}
    named, descriptors = without_descriptors(vm, named)
    if vm.graph.is_one_autograd_node and descriptors and not are_known(descriptors):
        vm.unsupported(breaks.LaunchImpossible(name_of(kernel), DESCRIPTOR))
    variants = [(config, {**defaults, **meta}) for config, meta in variants_of(vm, kernel, {}, named)]
    operands, constants = divided(vm, named, signature)
    check(vm, kernel, operands, len(variants))
    grids = [grid_for(vm, grid, meta) for _, meta in variants]
    tensors, others = divided(vm, variants[0][1], signature)
    looks = {name: looked_at(vm, value) for name, value in tensors.items()} | others
    writes = written(kernel, {name: looks[name] for name in signature.parameters if name in looks}, descriptors)
    target = Launch(kernel, constants, descriptors, writes, tuple(config for config, _ in variants)).target()
    return enter(vm, target, [mapping(vm, operands), TupleObject(grids)])


def are_known(descriptors: dict[str, tuple[Any, ...]]) -> bool:
    """Return whether torch's operator for launches supports these descriptors, and finds out what kernels write through them."""
    return has_triton_tensor_descriptor_host_tma() and all(parts[1:] == ("zero", False)[: len(parts) - 1] for parts in descriptors.values())


def without_descriptors(vm: TorchVM, named: Named) -> tuple[Named, dict[str, tuple[Any, ...]]]:
    """The arguments with tensors in place of their descriptors, and the other parts of each descriptor. Raises NotConstant for one of a part of a tensor."""
    descriptors: dict[str, tuple[Any, ...]] = {}
    for name, value in named.items():
        value = vm.observe(value)
        if DESCRIPTORS not in sys.modules or value.cls is not sys.modules[DESCRIPTORS].TensorDescriptor:
            continue
        parts = vm.observe(vm.call_app(app.parts_of_descriptor, [value, vm.const(tuple(field.name for field in fields(value.cls)[4:]))]))
        if parts.cls is type(None):
            raise NotConstant(value)
        descriptors[name] = parts.as_real(vm)
        named = {**named, name: abstract.getattr_(vm, value, "base")}
    return named, descriptors


def variants_of(vm: VM, kernel: Any, config: dict[str, Any], named: Named) -> list[tuple[dict[str, Any], Named]]:
    """For each configuration that `triton.autotune` chooses from, its settings, and all arguments, including those that `triton.heuristics` computes."""
    variants = [(config, named)]
    for layer in layers(kernel):
        if isinstance(layer, sys.modules[AUTOTUNER].Autotuner):
            variants = [
                ({**before, **chosen.kwargs}, {**given, **{name: vm.from_real(value) for name, value in chosen.kwargs.items()}})
                for before, given in variants
                for chosen in layer.configs
            ]
        elif isinstance(layer, sys.modules[AUTOTUNER].Heuristics):
            for name, rule in layer.values.items():
                variants = [(before, {**given, name: abstract.call(vm, vm.pin(rule), [mapping(vm, given)])}) for before, given in variants]
    return variants


def mapping(vm: VM, named: Named) -> Object:
    """A dict of arguments by their names."""
    return dict_of(vm, [(vm.const(name), value) for name, value in named.items()])


def divided(vm: TorchVM, named: Named, signature: inspect.Signature) -> tuple[Named, dict[str, Any]]:
    """The arguments of the node, which are tensors and numbers that vary, and the others, which are constants."""
    operands: Named = {}
    constants: dict[str, Any] = {}
    for name, value in named.items():
        value = vm.observe(value)
        parameter = signature.parameters.get(name)
        is_constant = parameter is None or "constexpr" in str(parameter.annotation)
        if isinstance(value, TensorObject) or (not is_constant and (value.is_symbolic(vm) or isinstance(value, UnbackedNumber))):
            operands[name] = value
        else:
            constants[name] = constant(vm, value)
    return operands, constants


def constant(vm: VM, value: Object) -> Any:
    """A constant argument: a plain value, a type of Triton's, or a kernel, whose identity is guarded. Raises NotConstant for others."""
    try:
        return value.as_real(vm)
    except NotConstant:
        is_kernel = issubclass(value.cls, sys.modules[JIT].KernelInterface)
        if value.source is None or not (is_kernel or str(value.cls.__module__).startswith("triton.language.")):
            raise
    vm.guard(ValueIs, value.source, value.value)
    return value.value


def looked_at(vm: TorchVM, value: Object) -> Any:
    """The value that Triton's compiler gets for an argument: a tensor without data, or a number that stands for any."""
    return value.look(vm) if isinstance(value, TensorObject) else 17 if value.cls is int else 0.5


def grid_for(vm: VM, grid: Object, meta: Named) -> Object:
    """The sizes of a grid, which may be a function of the arguments."""
    grid = vm.observe(grid)
    if not isinstance(grid, (TupleObject, ListObject)):
        grid = vm.observe(abstract.call(vm, grid, [mapping(vm, meta)]))
    return grid


def check(vm: TorchVM, kernel: Any, operands: Named, variants: int) -> None:
    """Stop the trace if a kernel can't run on the tensors, or the backend can't compile its launch."""
    if is_interpreted(kernel):
        why = INTERPRETED if vm.graph.demands.compiles_kernels else None
    else:
        devices = {value.look(vm).device.type for value in operands.values() if isinstance(value, TensorObject)}
        why = ON_CPU if "cpu" in devices else None
    if vm.graph.is_one_autograd_node and variants > 1 and not isinstance(kernel, sys.modules[AUTOTUNER].Autotuner):
        why = CHOSEN_INSIDE
    if vm.graph.is_one_autograd_node and has_hooks(kernel):
        why = HOOKS
    if why is not None:
        vm.unsupported(breaks.LaunchImpossible(name_of(kernel), why))
