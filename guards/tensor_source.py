"""Sources of tensors' sizes, strides, offsets, elements, totals and data, of tensors made from arrays, of parts of sparse tensors, and of function modes."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
import torch

from framejit._runtime import has_plain_strides
from framejit.guards.source import MISSING, Source
from framejit.guards.tensor_spec import element_of, holds_elements, is_on_cpu, item_of, size_of, strides_and_offset
from framejit.torch_state import torch_function_stack


class TensorSize(Source):
    """`t.size(dim)`. Payload: the dimension, 0 <= dim. MISSING where the tensor has fewer dimensions, or sizes that are computed."""

    __slots__ = ()
    accessor = "tensor_size"
    form = "{0}.size({1})"
    is_new_each_time = True

    def step(self, value: Any) -> Any:
        size = size_of(value, self.payload)
        return MISSING if size is None else size


class TensorStride(Source):
    """`t.stride(dim)`. Payload: the dimension, 0 <= dim. MISSING where the tensor has fewer dimensions, or no strides of its own."""

    __slots__ = ()
    accessor = "tensor_stride"
    form = "{0}.stride({1})"
    is_new_each_time = True

    def step(self, value: Any) -> Any:
        found = strides_and_offset(value)
        return found[0][self.payload] if found is not None and self.payload < len(found[0]) else MISSING


class TensorOffset(Source):
    """`t.storage_offset()`, in elements. MISSING for tensors without strides."""

    __slots__ = ()
    accessor = "tensor_offset"
    form = "{0}.storage_offset()"
    is_new_each_time = True

    def step(self, value: Any) -> Any:
        found = strides_and_offset(value)
        return MISSING if found is None else found[1]


class TensorItem(Source):
    """The number or bool in a tensor of one element on a CPU (`t.item()`), which is read when the call begins. MISSING for other tensors."""

    __slots__ = ()
    accessor = "tensor_item"
    form = "{0}.item()"
    is_new_each_time = True
    is_data = True

    @staticmethod
    def reads(value: Any) -> bool:
        """Return whether a tensor has such an element."""
        return item_of(value) is not None

    def step(self, value: Any) -> Any:
        found = item_of(value)
        return MISSING if found is None else found


class TensorElement(Source):
    """One element of a tensor on a CPU (`t[0, 2].item()`), which is read when the call begins. Payload: its index, one int for each dimension, none of them
    negative. MISSING where there is no such element."""

    __slots__ = ()
    accessor = "tensor_element"
    is_new_each_time = True
    is_data = True

    def step(self, value: Any) -> Any:
        found = element_of(value, self.payload)
        return MISSING if found is None else found

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        return f"{of(self.base)}[{', '.join(map(str, self.payload))}].item()" if self.payload else f"{of(self.base)}.item()"


class Total(NamedTuple):
    """A number or bool that all elements of a tensor of ints or bools give together. `function`: a key of TOTALS. `relation`, `other`: if the relation, a key
    of RELATIONS, isn't empty, it is about the bools of `element relation other`."""

    function: str
    relation: str = ""
    other: int = 0


TOTALS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"max": torch.max, "min": torch.min, "sum": torch.sum, "any": torch.any, "all": torch.all}
RELATIONS: dict[str, Callable[..., Any]] = {
    "": lambda tensor, other: tensor, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
TOTAL_DTYPES = frozenset({torch.int64, torch.int32, torch.bool})


class TensorTotal(Source):
    """A total of a small tensor on a CPU (`lengths.max()`, `(mask == 0).any()`), which is computed when the call begins. Payload: the Total.

    MISSING where torch gives none, for tensors that aren't contiguous, and for those of other types than int64, int32 and bool.
    """

    __slots__ = ()
    accessor = "tensor_total"
    is_new_each_time = True
    is_data = True

    def native(self) -> Any:
        return list(TOTALS).index(self.payload.function), list(RELATIONS).index(self.payload.relation), self.payload.other

    def step(self, value: Any) -> Any:
        if not is_on_cpu(value) or data_of(value) is None:
            return MISSING
        with torch._C.DisableTorchFunction(), torch.no_grad():
            if value.dtype not in TOTAL_DTYPES:
                return MISSING
            is_extreme = self.payload.function in ("max", "min")
            if is_extreme and (self.payload.relation or value.dtype is torch.bool or not value.numel()):
                return MISSING
            related = RELATIONS[self.payload.relation](value.long(), self.payload.other) if self.payload.relation else value
            return TOTALS[self.payload.function](related).item()

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        function, relation, other = self.payload
        related = f"({of(self.base)} {relation} {other})" if relation else of(self.base)
        return f"{related}.{function}().item()"


class ScalarNumber(Source):
    """The Python number that a NumPy scalar is (`scalar.item()`). Payload: the type of the scalar. MISSING for values of other types."""

    __slots__ = ()
    accessor = "scalar_number"
    form = "{0}"
    is_new_each_time = True

    def step(self, value: Any) -> Any:
        return value.item() if type(value) is self.payload else MISSING


TO_TELL_APART = frozenset(numpy.dtype(code).num for code in "qQ")
"""The numbers of NumPy's types longlong and ulonglong, which torch treats as int64 and uint64, while for NumPy they are different types."""


def tensor_of(array: Any) -> torch.Tensor:
    """The tensor that shares an array's memory. The array may be read-only; then the tensor must not be written to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)


class ArrayTensor(Source):
    """The tensor that shares an array's memory (torch.from_numpy): a new one for each call. Payload: whether the array is read-only.

    MISSING if torch can't make such a tensor.
    """

    __slots__ = ()
    accessor = "array_tensor"
    form = "{0}"
    is_new_each_time = True

    def native(self) -> Any:
        return int(self.payload)

    def step(self, value: Any) -> Any:
        if type(value) is not numpy.ndarray or value.flags.writeable == self.payload or value.dtype.num in TO_TELL_APART:
            return MISSING
        try:
            return tensor_of(value)
        except (TypeError, ValueError):
            return MISSING


class SparsePart(Source):
    """The result of a method of a sparse tensor: a new tensor with the indices or values of its elements, or whether it is coalesced.

    Payload: the method, which is TensorBase's. MISSING if it raises, and for wrappers, whose methods are in Python.
    """

    __slots__ = ()
    accessor = "sparse_part"
    is_new_each_time = True

    def step(self, value: Any) -> Any:
        if not issubclass(type(value), torch.Tensor) or torch._C._dispatch_keys(value).has(torch._C.DispatchKey.Python):
            return MISSING
        with torch._C.DisableTorchFunction():
            try:
                return MISSING if value.layout is torch.strided else self.payload(value)
            except (RuntimeError, NotImplementedError):
                return MISSING

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        return f"{of(self.base)}.{self.payload.__name__}()"


MOST_BYTES = 8192
"""Tensors with more bytes of data than this aren't guarded by their data."""


def data_of(tensor: torch.Tensor) -> bytes | None:
    """The data of a small tensor, if it is in the CPU's memory and contiguous; None for other tensors."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor) or not has_plain_strides(tensor):
        return None
    with torch._C.DisableTorchFunction(), torch.no_grad():
        count = tensor.numel()
        if tensor.device.type != "cpu" or not tensor.is_contiguous() or count * tensor.itemsize > MOST_BYTES:
            return None
        if count and not holds_elements(tensor, count):
            return None
        copied = tensor.detach().as_strided((count,), (1,)).clone()  # `numpy()` says of a storage that it can't be resized any more
        return copied.view(torch.uint8).numpy().tobytes()


class TensorData(Source):
    """The data of a small tensor, as bytes. MISSING if it isn't in the CPU's memory, or isn't contiguous."""

    __slots__ = ()
    accessor = "tensor_data"
    form = "the data of {0}"
    is_new_each_time = True
    is_data = True

    def step(self, value: Any) -> Any:
        found = data_of(value) if issubclass(type(value), torch.Tensor) else None
        return MISSING if found is None else found


class TensorAttribute(Source):
    """An attribute of a tensor that torch computes (`grad`, `is_leaf`), read without the tensor's class. Payload: the name."""

    __slots__ = ()
    accessor = "tensor_attribute"
    form = "{0}.{1}"

    def step(self, value: Any) -> Any:
        return attribute_of(value, self.payload) if issubclass(type(value), torch.Tensor) else MISSING


def attribute_of(tensor: torch.Tensor, name: str) -> Any:
    """Read an attribute of a tensor that torch computes, without the tensor's class."""
    with torch._C.DisableTorchFunction():
        return getattr(tensor, name, MISSING)


class FunctionModeInForce(Source):
    """A mode on the stack of torch's function modes at the call. Payload: its position; the outermost one is 0. MISSING if there are fewer modes."""

    __slots__ = ()
    accessor = "function_mode"
    form = "torch.overrides._get_current_function_mode_stack()[{1}]"

    def step(self, value: Any) -> Any:
        stack = torch_function_stack.stack()
        return stack[self.payload] if self.payload < len(stack) else MISSING


TENSOR_NUMBERS: tuple[type[Source], ...] = (TensorSize, TensorStride, TensorOffset)
"""The steps from a tensor to a number."""
