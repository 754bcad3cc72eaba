"""`__torch_function__`: which modes and arguments are asked about a call of one of torch's functions, in which order, and with which arguments.

torch/csrc/utils/python_arg_parser.cpp (handle_torch_function_no_python_arg_parser) does this for functions in C; those written in Python ask by
themselves, through `torch.overrides.handle_torch_function`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from types import FunctionType, MethodType
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode

from framejit import breaks
from framejit.objects.core import abstract
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Object
from framejit.objects.tensors.tensorkind import overrides_functions
from framejit.objects.tensors.torchfunctions import TorchOperation
from framejit.objects.types.dictobject import dict_of
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes

BASE = torch._C.TensorBase
SEQUENCES = (tuple, list)
NOT_ASKED: frozenset[Any] = frozenset({BASE.as_subclass})
"""Functions in C that call no override."""
ONLY_MODES: frozenset[Any] = frozenset({torch.tensor, torch.as_tensor, torch.asarray})
"""Functions in C that ask modes, but not their arguments."""
NAMES = {
    "__radd__": "add", "__rmul__": "mul", "__rmatmul__": "matmul", "__div__": "div", "__truediv__": "div", "__idiv__": "div_", "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_", "__mod__": "remainder", "__rxor__": "bitwise_xor", "__rand__": "bitwise_and", "__ror__": "bitwise_or",
    "__long__": "__int__", "__nonzero__": "__bool__", "__imod__": "remainder_", "__pos__": "positive",
}  # fmt: skip
"""The names by which overrides know special methods in C, unless it is their name without the underscores."""
LIKE_NAMED = ("add", "iadd", "mul", "imul", "sub", "isub", "matmul", "neg", "abs", "lt", "le", "gt", "ge", "ne")


def known_as() -> dict[Any, Any]:
    names = NAMES | {f"__{name}__": name if name[0] != "i" or name == "invert" else f"{name[1:]}_" for name in LIKE_NAMED}
    return {getattr(BASE, special): getattr(BASE, name) for special, name in names.items() if hasattr(BASE, special)}


KNOWN_AS = known_as()
"""Special methods in C, and the methods that overrides get for them."""


def overrides_in(vm: VM, obj: Object) -> bool:
    """Return whether a value overrides torch's functions."""
    cls = obj.cls
    if cls is torch.Tensor or not classes.flags(cls) & classes.HEAP_TYPE:
        return False
    return overrides_functions(cls)


def arguments_asked(vm: VM, candidates: Iterable[Object], plain_too: bool = False) -> list[Object]:
    """The candidates whose `__torch_function__` is asked, one for each class: subclasses before the classes that they derive from, else in order."""
    found: list[Object] = []
    for candidate in candidates:
        candidate = vm.observe(candidate)
        if not (overrides_in(vm, candidate) or (plain_too and candidate.cls is torch.Tensor)) or any(candidate.cls is other.cls for other in found):
            continue
        vm.raw_type_lookup(candidate.cls, "__torch_function__")  # guarded
        index = next((i for i, other in enumerate(found) if abstract.is_subtype(vm, candidate.cls, other.cls)), len(found))
        found.insert(index, candidate)
    return found


def candidates_of(vm: VM, args: Sequence[Object], kwargs: dict[str, Object]) -> list[Object]:
    """The values that a function in C may ask: its arguments, and the items of lists and tuples among them."""
    found: list[Object] = []
    for arg in itertools.chain(args, kwargs.values()):
        arg = vm.observe(arg)
        found.append(arg)
        if arg.cls in SEQUENCES:
            found += abstract.iterate(vm, arg)
    return found


def is_overridden(vm: VM, operation: TorchOperation, args: Sequence[Object], kwargs: dict[str, Object]) -> bool:
    """Return whether a mode or an argument is asked about an operation before torch runs it."""
    modes = vm.graph.function_modes
    if operation.function in NOT_ASKED:
        return False
    if modes.asks_modes():
        return True
    return modes.asks_subclasses() and operation.function not in ONLY_MODES and any(
        overrides_in(vm, vm.observe(value)) for value in candidates_of(vm, args, kwargs)
    )


def ask_for_operation(vm: VM, operation: TorchOperation, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
    """The result that modes and arguments give for a function in C."""
    asked: list[Object] = []
    if vm.graph.function_modes.asks_subclasses() and operation.function not in ONLY_MODES:
        asked = arguments_asked(vm, candidates_of(vm, args, kwargs))
        by_name = arguments_asked(vm, candidates_of(vm, (), kwargs))
        if len(asked) > 1 and by_name:
            vm.unsupported(breaks.TensorSubclass("of several classes, some of them in arguments given by name"))
    function = KNOWN_AS.get(operation.function, operation.function)
    if isinstance(function, OpOverloadPacket):
        vm.unsupported(breaks.TensorSubclass("as argument of an operator of torch.ops that is called without its overload"))
    if any(not classes.is_subtype(arg.cls, torch.Tensor) for arg in asked) and not is_taken(vm, operation.function, args, kwargs):
        vm.unsupported(breaks.OperatorRaises("a value with __torch_function__ as an argument that must be something else"))
    return ask(vm, function, asked, words_of(vm, args, kwargs, isinstance(function, OpOverload)), not asked and names_own_type(operation))


def ask_modes(vm: VM, function: Any, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
    """The result that modes give for a function in C that asks no arguments."""
    return ask(vm, function, [], words_of(vm, args, kwargs, False))


def words_of(vm: VM, args: Sequence[Object], kwargs: dict[str, Object], always_both: bool) -> list[Object]:
    """A call's arguments as an override gets them; functions in C pass no dict if there are no keyword arguments."""
    words: list[Object] = [TupleObject(list(args))]
    if kwargs or always_both:
        words.append(dict_of(vm, [(vm.const(name), value) for name, value in kwargs.items()]))
    return words


def arguments(vm: VM, args: Object | None, kwargs: Object | None) -> tuple[list[Object], dict[str, Object]]:
    """A call's arguments, from those that an override was given."""
    positional = [] if args is None else abstract.iterate(vm, args)
    if kwargs is None or vm.observe(kwargs).cls is type(None):
        return positional, {}
    names = [vm.observe(name).constant(vm) for name in abstract.iterate(vm, kwargs)]
    return positional, {name: abstract.getitem(vm, kwargs, vm.const(name)) for name in names}


class Asked(Exception):
    """Raised when an override has been asked."""


class TypesProbe(TorchFunctionMode):
    """Shows whether types are passed to it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise Asked(bool(types))


_names_own_type: dict[Any, bool] = {}


def names_own_type(operation: TorchOperation) -> bool:
    """Return whether a hand-written method in C passes the type of its tensor to modes, though the tensor isn't asked."""
    if not operation.is_method:
        return False
    found = _names_own_type.get(operation.function)
    if found is None:
        found = _names_own_type[operation.function] = find_own_type(operation.function)
    return found


def find_own_type(function: Any) -> bool:
    tensor = torch.empty(0)
    for count in range(3):
        try:
            with TypesProbe():
                function(tensor, *[1] * count)
        except Asked as asked:
            return bool(asked.args[0])
        except TypeError:
            continue
    return False


class Stranger:
    """Stands for a value with an override that isn't a tensor."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise Asked


def is_taken(vm: VM, function: Any, args: Sequence[Object], kwargs: dict[str, Object]) -> bool:
    """Return whether a function in C asks values with overrides in place of its arguments that aren't tensors. It is called with stand-ins for its arguments:
    it asks the first of such values before it reads any other."""
    try:
        with torch._C._EnableTorchFunction():
            function(*[likeness(vm, arg) for arg in args], **{name: likeness(vm, arg) for name, arg in kwargs.items()})
    except Asked:
        return True
    except TypeError:
        return False
    return False


def likeness(vm: VM, obj: Object) -> Any:
    """A stand-in for a value of this type: a tensor without elements, a value with an override, or a constant."""
    obj = vm.observe(obj)
    if classes.is_subtype(obj.cls, torch.Tensor):
        return torch.empty(0)
    if overrides_in(vm, obj):
        return Stranger()
    if obj.cls in SEQUENCES:
        return obj.cls([likeness(vm, item) for item in abstract.iterate(vm, obj)])
    if obj.cls in (int, float, bool):
        return obj.cls(1)
    return obj.constant(vm)


def ask(vm: VM, function: Any, asked: Sequence[Object], words: list[Any], names_own_type: bool = False) -> Object:
    """Ask the innermost mode, then these arguments, until one answers. `words`: the function's arguments, as they are passed on."""
    own = words[0].items(vm)[:1] if names_own_type else []
    types = TupleObject([vm.const(vm.observe(arg).cls) for arg in (*asked, *own)])
    said: list[Object] = [function if isinstance(function, Object) else vm.pin(function), types, *words]
    modes = vm.graph.function_modes
    if modes.asks_modes():
        with modes.without_innermost() as mode:
            found = vm.observe(abstract.call(vm, abstract.getattr_(vm, mode, "__torch_function__"), said))
        if not abstract.is_not_implemented(found):
            return found
    for arg in asked:
        method = vm.observe(abstract.getattr_(vm, arg, "__torch_function__"))
        if method.cls is MethodType and vm.observe(abstract.getattr_(vm, method, "__self__")) is arg:
            vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(arg.cls)}, whose __torch_function__ is no classmethod"))
        found = vm.observe(abstract.call(vm, method, said))
        if not abstract.is_not_implemented(found):
            return found
    vm.unsupported(breaks.OperatorRaises("an operation for which no __torch_function__ has an answer"))


def is_in_python(operation: TorchOperation) -> bool:
    """Return whether the function is written in Python: it asks by itself, or through the functions that it calls."""
    return type(operation.function) is FunctionType


def inlined(vm: VM, operation: TorchOperation, args: list[Object], delivery: Delivery | None = None) -> Object:
    """Trace the code of an operation that is written in Python."""
    return abstract.call(vm, vm.pin(operation.function), args, {}, delivery)
