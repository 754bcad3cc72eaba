"""Functions for which the program has declared how they are traced: to framejit (`allow_in_graph` and others), or to torch's own tracer."""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any, NoReturn

from torch import nn
from torch.utils import _pytree as pytree

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.guards.kinds import ValueIs
from framejit.guards.recorder import Vouched
from framejit.guards.source import MISSING
from framejit.library.directives.whole_call import OPERAND, ModuleLeaf, WholeCall
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.core.registry import RuleOrder, library, models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.tensors.torchfunctions import operation_of
from framejit.objects.types.constobject import is_plain
from framejit.objects.types.dictobject import DictObject, dict_of
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.userobject import UserObject
from framejit.plain import one_node as plain
from framejit.said import functions
from framejit.said.functions import Treatment

ASSUMED_CONSTANT = "_dynamo_marked_constant"
RULES = "torch._dynamo.trace_rules"
POLYFILLS = "torch._dynamo.variables"
TORCHS_OWN = "torch._dynamo."
"""The prefix of the names of the modules that hold torch's own stand-ins for functions in C."""
FAKE_OF_LEAF = "_torchdynamo_leaf_fake_fn"
"""The attribute, of the result of `leaf_function`, that holds the function for fakes; it is always there, but may be None."""
FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)
ASKS_FOR_BREAKS = frozenset({"graph_break", "skip_frame", "step_unsupported"})
"""Functions of torch that it declares as not to be in a graph, and that have a rule of their own (library/directives/torch_directives.py)."""


@library(RuleOrder.DECLARED)
def declared(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """The result of a call of a function about which the program has declared something; None for others."""
    real = function.value
    if real is MISSING:
        return None
    treatment = said_of(real)
    if treatment is None:
        stand_in = functions.substitute_of(real) or substitute_by_torch(real)
        if stand_in is None:
            return None
        rest_on(vm, function)
        return abstract.call(vm, vm.pin(stand_in), args, kwargs)
    if treatment is Treatment.NATIVE:
        vm.unsupported(breaks.DisabledFunction(f"{name_of(function)} (disallow_in_graph)"))
    if treatment is Treatment.CONSTANT:
        return assumed_constant(vm, function, args, kwargs)
    if issubclass(type(real), type) or operation_of(real) is not None:
        return None  # an autograd.Function, or a node anyway
    rest_on(vm, function)
    return as_node(vm, real, args, kwargs, treatment)


def said_of(real: Any) -> Treatment | None:
    """The declaration about a function to framejit or torch's tracer; None if there is none."""
    return functions.treatment_of(real) or treatment_by_torch(real)


def rest_on(vm: VM, function: Object) -> None:
    """Guard the identity of the function that the program has reached."""
    if function.source is not None:
        vm.guard(ValueIs, function.source, function.value)


def name_of(function: Object) -> str:
    return function.qualname if isinstance(function, FunctionObject) else function.name_when_called


def treatment_by_torch(real: Any) -> Treatment | None:
    """The declaration about a function to torch's tracer."""
    if type(real) is FunctionType and real.__dict__.get(ASSUMED_CONSTANT):
        return Treatment.CONSTANT
    rules = sys.modules.get(RULES)
    if rules is None:
        return None
    if id(real) in rules._disallowed_callable_ids():
        return None if getattr(real, "__name__", "") in ASKS_FOR_BREAKS else Treatment.NATIVE
    if id(real) not in rules._allowed_callable_ids() or type(real) in (MethodDescriptorType, WrapperDescriptorType):
        return None  # nodes call a method by its name, which the program may have given to another
    return Treatment.ANY_STRUCTURE if id(real) in rules._nonstrict_trace_callable_ids() or hasattr(real, FAKE_OF_LEAF) else Treatment.NODE


def substitute_by_torch(real: Any) -> Any:
    """The function in Python that torch's tracer is to trace in place of another. Those that torch brings along are for its own tracer only."""
    module = sys.modules.get(POLYFILLS)
    if module is None or type(real) not in FUNCTIONS:
        return None
    found = module.PolyfilledFunctionVariable._get_polyfill_handlers().get(real)
    traceable = getattr(found, "__torch_dynamo_polyfill__", None)
    return None if traceable is None or str(traceable.__module__).startswith(TORCHS_OWN) else traceable


# One node.


def as_node(vm: TorchVM, real: Any, args: list[Object], kwargs: dict[str, Object], treatment: Treatment) -> Object:
    """Make a call a node of the graph: as it is if a node can take the arguments, else with their leaves. Stops the trace if something overrides
    torch's functions, because the function may call them, and in a graph they aren't overridden."""
    if vm.graph.function_modes.asks_modes() or any(holds_subclass(vm, arg) for arg in (*args, *kwargs.values())):
        reject_overridden(vm)
    if treatment is Treatment.NODE:
        try:
            vm.graph.nodes_of([*args, *kwargs.values()])
        except NotConstant:
            pass
        else:
            return enter(vm, real, args, kwargs)
    return vm.call_app(plain.call_as_one_node, [vm.pin(real), TupleObject(args), dict_of(vm, [(vm.const(name), value) for name, value in kwargs.items()])])


def holds_subclass(vm: VM, obj: Object) -> bool:
    """Return whether a value is a tensor whose class overrides torch's functions, or a container that nodes accept with such a tensor in it."""
    obj = vm.observe(obj)
    if isinstance(obj, (ListObject, TupleObject)):
        return any(holds_subclass(vm, item) for item in obj.items(vm))
    if isinstance(obj, DictObject):
        return any(holds_subclass(vm, value) for _, value in obj.items(vm))
    return isinstance(obj, TensorObject) and obj.kind.is_disguised


def reject_overridden(vm: VM) -> NoReturn:
    vm.unsupported(breaks.UnsupportedOperation("a function that is declared to be a node, where torch's functions are overridden"))


@models(plain.node_of_leaves)
def node_of_leaves(vm: TorchVM, function: Object, structure: Object, leaves: Object, named: Object) -> Object:
    """The node of a call. Raises NotConstant for a leaf of the arguments that is neither a tensor, a constant nor a module."""
    operands: list[Object] = []
    found: list[Any] = []
    for leaf, tensors in zip(abstract.each(vm, leaves), abstract.each(vm, named), strict=True):
        leaf, tensors = vm.observe(leaf), vm.observe(tensors)
        if isinstance(tensors, DictObject):
            pairs = [(vm.observe(name).constant(vm), tensor) for name, tensor in tensors.items(vm)]
            operands += [tensor for _, tensor in pairs]
            found.append(ModuleLeaf(real_module(vm, leaf), tuple(name for name, _ in pairs)))
        elif isinstance(leaf, TensorObject) and leaf.kind.is_disguised:
            reject_overridden(vm)
        elif isinstance(leaf, TensorObject) or leaf.is_symbolic(vm):
            operands.append(leaf)
            found.append(OPERAND)
        else:
            found.append(leaf.as_real(vm))
    call = WholeCall(vm.observe(function).value, real_structure(vm, structure), found)
    results = enter(vm, call.target(), operands)
    assert call.gives is not None
    return TupleObject([results, vm.pin(call.gives)])


def real_module(vm: VM, module: Object) -> nn.Module:
    """A module from outside, whose identity is guarded."""
    if module.source is None:
        raise NotConstant(module)
    vm.guard(ValueIs, module.source, module.value)
    return module.value  # type: ignore[no-any-return]


def real_structure(vm: VM, structure: Object) -> pytree.TreeSpec:
    """The structure of a tree that the trace has taken apart. Raises NotConstant."""
    structure = vm.observe(structure)
    kind = vm.observe(abstract.getattr_(vm, structure, "type")).constant(vm)
    if kind is None:
        return pytree.treespec_leaf()
    context = vm.observe(abstract.getattr_(vm, structure, "_context")).as_real(vm)
    children = vm.observe(abstract.getattr_(vm, structure, "_children"))
    assert isinstance(children, ListObject)
    return pytree.TreeSpec(kind, context, [real_structure(vm, child) for child in children.items(vm)])


# Assumed to be constant.


def assumed_constant(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Call the function for real: its author vouches that equal arguments give the same result for as long as the process lives.

    transformers marks its probes for installed packages so; they search the file system. None: an argument is neither a constant nor an object from outside.
    """
    try:
        real_args = [vouched_for(vm, arg) for arg in args]
        real_kwargs = {name: vouched_for(vm, arg) for name, arg in kwargs.items()}
    except NotConstant:
        return None
    rest_on(vm, function)
    try:
        found = function.value(*real_args, **real_kwargs)
    except Exception as error:
        vm.raise_(type(error), *error.args)
    if all(map(is_plain, (*real_args, *real_kwargs.values(), found))):
        vm.guards.vouched.append(Vouched(function.value, tuple(real_args), tuple(real_kwargs.items()), found))
    else:
        vm.guards.rest_on_process(f"the result of {name_of(function)}, which is assumed to be constant")
    return vm.pin(found)


def vouched_for(vm: VM, argument: Object) -> Any:
    """A real argument. The identity of an object from outside is guarded: the author of the function vouches for what it reads from it."""
    argument = vm.observe(argument)
    try:
        return argument.as_real(vm)
    except NotConstant:
        if not isinstance(argument, UserObject) or argument.source is None:
            raise
    vm.guard(ValueIs, argument.source, argument.value)
    return argument.value
