"""The one door to NumPy: all its calls with arrays pass through here. NumPy says what form the result has, and then tensors or NumPy itself compute it.

NumPy is called at once with stand-ins (arrayoperands.py), which shows the form of the result. The node that computes the real result must give a tensor of
that type and shape; if its layout or memory differs, it is copied. arrayrules.py says for which functions and types tensors have NumPy's values. For the
others, the node is the operator `framejit::numpy`, which calls NumPy (numpyoperator.py).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from framejit import breaks
from framejit.guards.source import Pinned
from framejit.objects.arrays import arrayfunctions
from framejit.objects.arrays.arrayfunctions import TAKE_NUMBERS, UFUNCS, Target
from framejit.objects.arrays.arrayoperands import EMPTY, Operands, has_array, stays_symbolic
from framejit.objects.arrays.arrayrules import FUNCTIONS, KNOWN, NEVER, TOLD_BY_FORM, UNSIGNED, VIEWS
from framejit.objects.arrays.arraysbynumpy import changed_by_numpy, computed_by_numpy
from framejit.objects.arrays.ndarrayobject import TORCH_TYPES, ArrayObject
from framejit.objects.arrays.numpyoperator import evaluated, leaves
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.core.operators import INPLACE_REAL
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.tupleobject import TupleObject

FEW = 64
"""Arrays of at most so many constants are written into the graph."""
IGNORED = frozenset({"out", "order", "copy", "casting", "subok"})
"""Keyword arguments that affect only layout, memory and errors, which the stand-ins show."""
ANY_ORDER = frozenset({"copy", "astype", "array", "asarray", "asanyarray", "ascontiguousarray", "zeros_like", "ones_like", "full_like", "empty_like"})
"""Functions whose `order` is about the layout in memory. In other functions, it is the order in which elements are read."""
RAISE_OF_NOTHING = frozenset({"max", "min", "amax", "amin", "argmax", "argmin", "ptp", "median", "percentile", "quantile"})
"""Functions that raise for an array without elements."""


def are_tensors_right(vm: VM, operands: Operands, expected: Any) -> bool:
    """Return whether tensors give the values that NumPy gives, as far as that depends on types."""
    name = operands.name
    types = {obj.dtype(vm).char for obj, _ in operands.arrays.values()}
    made = {part.dtype.char for part in leaves(expected) if isinstance(part, (numpy.ndarray, numpy.generic))}
    is_raising = name in RAISE_OF_NOTHING and any(obj.assumed is not None for obj, _ in operands.arrays.values())
    return not types & set(NEVER.get(name, "")) and not is_raising and (name in VIEWS or not (types | made) & set(UNSIGNED))


def call_function(
    vm: VM,
    name: str,
    how: str,
    args: Sequence[Object],
    kwargs: dict[str, Object],
    target: Target | None = None,
    for_graph: Sequence[Object] | None = None,
) -> Object:
    """Call one of NumPy's functions, or a method, with arrays among the arguments. `how`: an expression for the function (numpyoperator.py);
    `target`: the function that computes it with tensors, if not the one of that name; `for_graph`: the arguments that `target` takes, if they differ."""
    operands = Operands(vm, name)
    real_args, real_kwargs = operands.reals(args, kwargs)
    expected = operands.asked(lambda: evaluated(how)(*real_args, **real_kwargs))
    if name in TOLD_BY_FORM:
        return vm.const(expected)
    given = {key: arg for key, arg in kwargs.items() if key not in IGNORED}
    out = kwargs.get("out")
    if out is not None and vm.observe(out).cls is not type(None):
        return call_for(vm, operands, how, args, kwargs, vm.observe(out))
    if name == "clip" and "where" in kwargs:
        operands.break_graph("elements that nothing has set")
    same = operands.argument(expected)
    if same is not None:
        return same
    target = FUNCTIONS.get(name) if target is None else target
    is_in_order = name in ANY_ORDER or vm.observe(kwargs.get("order", vm.const("C"))).constant(vm) == "C"

    def by_tensors() -> Object:
        assert target is not None
        dtype = operands.type_of(expected) if takes_type(target) else None
        graph_kwargs = {} if for_graph is not None else {key: operands.in_graph(arg, dtype) for key, arg in given.items()}
        if dtype is not None:
            graph_kwargs["result"] = vm.const(TORCH_TYPES[dtype])
        graph_args = [operands.in_graph(arg, dtype) for arg in (args if for_graph is None else for_graph)]
        return operands.result(operands.entered(target, graph_args, graph_kwargs), expected)

    found = vm.attempt(by_tensors) if target is not None and is_in_order and are_tensors_right(vm, operands, expected) else None
    return found if isinstance(found, Object) else computed_by_numpy(vm, operands, how, args, kwargs, expected)


def call_for(vm: VM, operands: Operands, how: str, args: Sequence[Object], kwargs: dict[str, Object], out: Object) -> Object:
    """Call a function whose result is stored in an array that is given for it; the function may compute in the type of that array."""
    out = operands.target(out)
    plain = {key: arg for key, arg in kwargs.items() if key != "out"}
    if "where" not in plain:
        found = call_function(vm, operands.name, how, args, {key: arg for key, arg in plain.items() if key not in IGNORED})
        if isinstance(found, ArrayObject) and found.dtype(vm) == out.dtype(vm):
            return stored(vm, out, found)
    return stored(vm, out, changed_by_numpy(vm, operands, f"written({how})", args, {**plain, "out": out}, out))


def call_changing(vm: VM, name: str, how: str, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
    """Call a function that changes its first argument, an array, and returns None."""
    operands = Operands(vm, name)
    real_args, real_kwargs = operands.reals(args, kwargs)
    array = operands.target(vm.observe(args[0]))
    operands.asked(lambda: evaluated(how)(*real_args, **real_kwargs))
    stored(vm, array, changed_by_numpy(vm, operands, f"changed({how})", args, kwargs, array))
    return vm.const(None)


@functools.cache
def takes_type(target: Target) -> bool:
    """Return whether a target has a parameter for the type of the result."""
    return getattr(target, "__module__", None) == arrayfunctions.__name__ and "result" in inspect.signature(target).parameters


def stored(vm: VM, out: ArrayObject, found: ArrayObject) -> ArrayObject:
    """Copy the result of a call into the array that was given for it."""
    enter(vm, torch.Tensor.copy_, [out.tensor(vm), found.tensor(vm)])
    return out


# Universal functions.


def call_ufunc(vm: VM, ufunc: Any, args: Sequence[Object], kwargs: dict[str, Object] = EMPTY, through: Callable[..., Any] | None = None) -> Object:
    """Call a universal function with arrays among the arguments, or an operator (`through`) that stands for it."""
    name, inputs = ufunc.__name__, [from_list(vm, arg) for arg in args[: ufunc.nin]]
    operands = Operands(vm, name)
    reals, real_kwargs = operands.reals([*inputs, *args[ufunc.nin :]], kwargs)
    expected = operands.asked(lambda: (through or ufunc)(*reals, **real_kwargs))
    out = kwargs.get("out") or (args[ufunc.nin] if len(args) > ufunc.nin else None)
    out = None if out is None or vm.observe(out).cls is type(None) else vm.observe(out)
    is_in_place = through in INPLACE_REAL.values()
    if out is None and is_in_place and operands.object_of(expected) is not None:
        out = operands.object_of(expected)
    given = {key: arg for key, arg in kwargs.items() if key != "out"}
    if "where" in given and out is None:
        operands.break_graph("elements that nothing has set")
    how = f"operator.{through.__name__}" if through is not None and not is_in_place and through.__module__ == "_operator" else f"numpy.{name}"
    found = by_tensors(vm, ufunc, operands, inputs, reals, real_kwargs)
    if out is None:
        made = None if found is None else vm.attempt(functools.partial(operands.result, found, expected))
        return made if isinstance(made, Object) else computed_by_numpy(vm, operands, how, inputs, given, expected)
    out = operands.target(out)
    if isinstance(found, TensorObject):
        return stored(vm, out, ArrayObject(numpy.ndarray, found))
    return stored(vm, out, changed_by_numpy(vm, operands, f"written({how})", inputs, {**given, "out": out}, out))


def by_tensors(vm: VM, ufunc: Any, operands: Operands, args: Sequence[Object], reals: Sequence[Any], kwargs: dict[str, Any]) -> Object | None:
    """The result of a universal function as tensors compute it; None if that isn't known to equal NumPy's, or tensors can't compute it."""
    name, target, inputs = ufunc.__name__, UFUNCS.get(ufunc), reals[: ufunc.nin]
    if target is None or not set(kwargs) <= {"out", "dtype"} or ufunc.nout > 1:
        return None
    dtype = kwargs.get("dtype")
    signature = {} if dtype is None else {"signature": (*[None] * ufunc.nin, numpy.dtype(dtype))}
    loop = ufunc.resolve_dtypes((*map(kind_of, inputs), None), **signature)
    if any(part.char not in KNOWN for part in loop) or any(part.char in NEVER.get(name, "") for part in loop[:-1]):
        return None
    if any(obj.dtype(vm).char not in KNOWN for obj, _ in operands.arrays.values()):
        return None
    if name == "power" and loop[0].kind in "iu":  # NumPy has an error of its own for negative exponents
        if not isinstance(inputs[1], int) or not abstract.truth(vm, operators.compare(vm, ">=", args[1], vm.const(0))):
            return None
    as_number = ufunc in TAKE_NUMBERS and name != "matmul"
    found = vm.attempt(
        lambda: operands.entered(target, [converted(vm, operands, arg, real, part, as_number) for arg, real, part in zip(args, inputs, loop)])
    )
    return found if isinstance(found, Object) else None


def call_ufunc_method(vm: VM, ufunc: Any, name: str, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
    """Call numpy.add.reduce or a similar method of a universal function."""
    text, how = f"{ufunc.__name__}.{name}", f"numpy.{ufunc.__name__}.{name}"
    if getattr(numpy, ufunc.__name__, None) is not ufunc:
        vm.unsupported(breaks.ArrayOperation(text))
    if name == "at":
        return call_changing(vm, text, how, args, kwargs)
    return call_function(vm, text, how, args, kwargs)


def kind_of(real: Any) -> Any:
    """An operand as ufunc.resolve_dtypes takes it: for Python's numbers their type, since these are weak."""
    if type(real) in (int, float, complex):
        return type(real)
    return real.dtype if hasattr(real, "dtype") else numpy.dtype(type(real))


def from_list(vm: VM, obj: Object) -> Object:
    """Make an array if an operand is a list or tuple."""
    obj = vm.observe(obj)
    if obj.cls not in (list, tuple):
        return obj
    if has_array(vm, obj):
        return call_function(vm, "array", "numpy.array", [obj], EMPTY)
    try:
        return constant_array(vm, numpy.array(obj.as_real(vm)))
    except NotConstant as needed:
        vm.unsupported(breaks.ArrayOperation(f"an array of {needed.obj!r}"))


def converted(vm: VM, operands: Operands, obj: Object, real: Any, dtype: numpy.dtype[Any], as_number: bool) -> Object:
    """Convert an operand to the type in which NumPy computes."""
    if isinstance(obj, ArrayObject):
        tensor = obj.tensor(vm)
        return tensor if obj.dtype(vm) == dtype else enter(vm, torch.Tensor.to, [tensor, vm.const(TORCH_TYPES[dtype])])
    number = obj if stays_symbolic(vm, obj, dtype) else vm.const(operands.asked(lambda: dtype.type(real)).item())
    if as_number:
        return number
    return enter(vm, torch.full, [TupleObject([]), number], {"dtype": vm.const(TORCH_TYPES[dtype]), "device": vm.const("cpu")})


def constant_array(vm: VM, real: Any) -> Object:
    """A new array of constants, or a constant that NumPy has computed from constants."""
    if not isinstance(real, numpy.ndarray):
        return vm.from_real(real)
    if type(real) is not numpy.ndarray or real.dtype not in TORCH_TYPES or real.dtype.char in "qQ":
        vm.unsupported(breaks.ArrayOperation(f"an array of type {real.dtype.name}"))
    dtype = TORCH_TYPES[real.dtype]
    fits_in_list = real.size > 0 or real.ndim == 1
    if fits_in_list and real.size <= FEW and real.flags.c_contiguous and real.dtype.char in KNOWN and real.dtype.kind != "c":
        how = {"dtype": vm.const(dtype), "device": vm.const("cpu")}
        found = enter(vm, torch.tensor, [vm.from_real(real.tolist())], how)
    else:
        real = real.copy(order="K")
        tensor = torch.from_numpy(real)
        found = enter(vm, torch.clone, [vm.graph.input(vm.root_source.child(Pinned, tensor), tensor)])
    assert isinstance(found, TensorObject)
    return ArrayObject(numpy.ndarray, found)
