"""`TensorSpec`, the assumptions of a graph about a tensor. They are read from tensors, and compared, without running the user's `__torch_function__`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import torch

from framejit._runtime import has_plain_sizes, has_plain_strides
from framejit.quick_dataclass import dataclass

BASE = torch._C.TensorBase
Numbers = tuple[int | None, ...]


def reader(name: str) -> Any:
    """The C getter of a tensor attribute, as a function of the tensor; call it with torch functions disabled."""
    return getattr(BASE, name).__get__


READERS = {name: reader(name) for name in ("dtype", "device", "layout", "requires_grad", "shape")}


@dataclass(frozen=True)
class TensorSpec:
    """The assumptions of a graph about one of its tensors. A size or stride of None accepts any number.

    `keys` is the raw dispatch key set of the tensor's C++ object. The dispatcher also uses the thread's included and excluded keys, but these are part of the
    global state (guards/global_state.py), so a spec may be read at any time, under any mode. `strides` is None if the layout has no strides, or if any strides
    are accepted. `sizes` is None if the tensor's class computes sizes, strides and layout from the tensors that it holds, which have their own guards.
    """

    cls: type
    keys: int
    dtype: Any
    device: Any
    requires_grad: bool
    layout: Any
    sizes: tuple[int | None, ...] | None
    strides: tuple[int | None, ...] | None
    conj: bool = False
    neg: bool = False

    def native(self) -> tuple[Any, ...]:
        """The arguments of the C++ leaf; it finds the conjugate and negative bits in the key set."""
        return (self.cls, self.keys, self.dtype, self.device, self.layout, self.requires_grad, self.sizes, self.strides)


def tensor_spec(tensor: torch.Tensor) -> TensorSpec:
    """The spec of `tensor` as it is now. Raises TypeError if its sizes, device or layout aren't plain data, but symbolic or computed by Python code."""
    if not has_plain_sizes(tensor):
        name = type(tensor).__qualname__
        raise TypeError(f"a {name}'s sizes, device or layout can't be guarded: they are symbolic or computed by Python code")
    with torch._C.DisableTorchFunction():
        layout = READERS["layout"](tensor)
        return TensorSpec(
            cls=type(tensor),
            keys=torch._C._dispatch_keys(tensor).raw_repr(),
            dtype=READERS["dtype"](tensor),
            device=READERS["device"](tensor),
            requires_grad=READERS["requires_grad"](tensor),
            layout=layout,
            sizes=tuple(READERS["shape"](tensor)),
            strides=tuple(BASE.stride(tensor)) if layout is torch.strided else None,
            conj=BASE.is_conj(tensor),
            neg=BASE.is_neg(tensor),
        )


def spec_without_sizes(tensor: torch.Tensor) -> TensorSpec:
    """The spec of a tensor whose class computes its sizes, strides and layout."""
    with torch._C.DisableTorchFunction():
        return TensorSpec(
            cls=type(tensor),
            keys=torch._C._dispatch_keys(tensor).raw_repr(),
            dtype=READERS["dtype"](tensor),
            device=READERS["device"](tensor),
            requires_grad=READERS["requires_grad"](tensor),
            layout=torch.strided,
            sizes=None,
            strides=None,
        )


def fits(found: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    """Return whether numbers are the expected ones. An expected None accepts any number."""
    return len(found) == len(expected) and all(e is None or e == f for f, e in zip(found, expected))


def mismatch(value: Any, spec: TensorSpec) -> tuple[str, str] | None:
    """The first difference between a tensor of the spec's class and the spec: the property, and the value that was found, as text; None if there is none."""
    if spec.sizes is not None and not has_plain_sizes(value):
        return "sizes", "sizes that aren't plain numbers"
    with torch._C.DisableTorchFunction():
        for name in ("dtype", "device", "requires_grad"):
            found = READERS[name](value)
            if found != getattr(spec, name):
                return name, f"{name} {found}"
        if spec.sizes is not None and (difference := other_layout(value, spec, spec.sizes)) is not None:
            return difference
    keys = torch._C._dispatch_keys(value)
    return None if keys.raw_repr() == spec.keys else ("dispatch keys", f"dispatch keys {keys}")


def other_layout(value: Any, spec: TensorSpec, expected: tuple[int | None, ...]) -> tuple[str, str] | None:
    """The first difference between a tensor and a spec, which expects these sizes, in the layout of its data."""
    if READERS["layout"](value) != spec.layout:
        return "layout", f"layout {READERS['layout'](value)}"
    sizes = tuple(READERS["shape"](value))
    if not fits(sizes, expected):
        return "size", f"size {list(sizes)}"
    if spec.strides is not None:
        strides = tuple(BASE.stride(value)) if spec.layout is torch.strided else ()
        if not fits(strides, spec.strides):
            return "strides", f"strides {strides}"
    if BASE.is_conj(value) != spec.conj or BASE.is_neg(value) != spec.neg:
        return "conjugate", "the conjugate or negative bit"
    return None


def differing_numbers(value: Any, spec: TensorSpec) -> list[tuple[Literal["size", "stride"], int, int, int]]:
    """The sizes and strides in which a tensor of the spec's class differs from the spec: what, in which dimension, expected and found.

    None are given where something else differs too, as the number of dimensions.
    """
    if spec.sizes is None or mismatch(value, replace(spec, sizes=(None,) * len(spec.sizes), strides=None)) is not None:
        return []
    with torch._C.DisableTorchFunction():
        found: dict[Literal["size", "stride"], Any] = {"size": (spec.sizes, tuple(READERS["shape"](value)))}
        if spec.strides is not None:
            found["stride"] = (spec.strides, tuple(BASE.stride(value)))
    return [
        (what, dim, before, now)
        for what, (expected, numbers) in found.items()
        for dim, (before, now) in enumerate(zip(expected, numbers, strict=True))
        if before is not None and before != now
    ]


def size_of(value: Any, dim: int) -> int | None:
    """A tensor's size in a dimension. None if it doesn't have that dimension, if the size isn't in its C++ object, or if the value isn't a tensor."""
    if not issubclass(type(value), torch.Tensor) or not has_plain_sizes(value):
        return None
    with torch._C.DisableTorchFunction():
        shape = READERS["shape"](value)
    return shape[dim] if dim < len(shape) else None


def strides_and_offset(value: Any) -> tuple[tuple[int, ...], int] | None:
    """A tensor's strides and its offset in its storage, in elements. None if they aren't in its C++ object, or if the value isn't a tensor."""
    if not issubclass(type(value), torch.Tensor) or not has_plain_strides(value):
        return None
    with torch._C.DisableTorchFunction():
        return tuple(BASE.stride(value)), BASE.storage_offset(value)


ITEMS = frozenset({torch.int64, torch.int32, torch.uint8, torch.float32, torch.float64, torch.bool})
"""The dtypes of tensors of which guards may read single elements."""


def holds_elements(tensor: torch.Tensor, count: int) -> bool:
    """Return whether so many elements, from a tensor's first one on, are in its storage, and are neither negated nor conjugated."""
    if BASE.is_neg(tensor) or BASE.is_conj(tensor):
        return False
    return BASE.untyped_storage(tensor).nbytes() >= (BASE.storage_offset(tensor) + count) * BASE.element_size(tensor)


def is_on_cpu(value: Any) -> bool:
    """Return whether a value is a tensor, which doesn't compute operators itself, and whose elements may lie in the CPU's memory."""
    cls = type(value)
    if not issubclass(cls, torch.Tensor) or cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return False
    if torch._C._functorch.is_functorch_wrapped_tensor(value) or not has_plain_sizes(value) or not has_plain_strides(value):
        return False
    with torch._C.DisableTorchFunction():
        return READERS["layout"](value) is torch.strided and READERS["device"](value).type == "cpu"


def item_of(value: Any) -> float | bool | None:
    """The number or bool in a tensor of one element in the CPU's memory; None for other values."""
    if not is_on_cpu(value):
        return None
    with torch._C.DisableTorchFunction():
        if BASE.numel(value) != 1 or READERS["dtype"](value) not in ITEMS or not holds_elements(value, 1):
            return None
        return BASE.item(value)  # type: ignore[return-value]


def numbers_in(tensor: torch.Tensor) -> str:
    """The elements of a tensor as text, which is cut if there are many."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        text = str(torch.Tensor.tolist(tensor))
    return text if len(text) <= 60 else f"{text[:57]}..."


def element_of(value: Any, index: tuple[int, ...]) -> float | bool | None:
    """The number or bool at an index, one int for each dimension, in a tensor in the CPU's memory; None if there is no such element."""
    if not is_on_cpu(value):
        return None
    with torch._C.DisableTorchFunction(), torch.no_grad():
        sizes = READERS["shape"](value)
        if len(sizes) != len(index) or not all(place < size for place, size in zip(index, sizes)) or READERS["dtype"](value) not in ITEMS:
            return None
        before = sum(place * stride for place, stride in zip(index, BASE.stride(value)))
        if not holds_elements(value, before + 1):
            return None
        return BASE.item(BASE.as_strided(value, (), (), BASE.storage_offset(value) + before))  # type: ignore[return-value]


def storage_and_offset(value: Any) -> tuple[int, int] | None:
    """The address of a tensor's storage, and the tensor's offset in it in elements; None if the value isn't a tensor with a storage."""
    if not issubclass(type(value), torch.Tensor) or not has_plain_sizes(value):
        return None
    with torch._C.DisableTorchFunction():
        if READERS["layout"](value) is not torch.strided:
            return None
        return BASE.untyped_storage(value)._cdata, BASE.storage_offset(value)


def aliasing_among(tensors: Sequence[torch.Tensor], distinct: Sequence[bool], exact: bool = False) -> tuple[Numbers, Numbers]:
    """The groups and offsets by which guards.kinds.StorageAliasing says which of `tensors` share memory with those that are told apart: those that are
    written to, or whose storages the program compares. A tensor that has its storage to itself may lie anywhere in it, unless offsets are to be `exact`.
    """
    storages = [tensor.untyped_storage()._cdata for tensor in tensors]
    known: dict[int, int] = {}
    wanted = {storage for storage, apart in zip(storages, distinct, strict=True) if apart}
    groups = tuple(known.setdefault(storage, len(known)) if storage in wanted else None for storage in storages)
    fixed = {storage for storage, count in Counter(storages).items() if storage in wanted and (exact or count > 1)}
    return groups, tuple(tensor.storage_offset() if storage in fixed else None for tensor, storage in zip(tensors, storages, strict=True))


def overlaps_itself(value: torch.Tensor) -> bool:
    """Return whether several elements of a tensor may have the same address, as in an expanded tensor."""
    place = strides_and_offset(value)
    if place is None:
        return False
    with torch._C.DisableTorchFunction():
        return share_places(BASE.size(value), place[0])


def share_places(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether several elements of a tensor with these sizes and strides may have the same address."""
    reach = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def overlapping_in_one_storage(tensors: Sequence[torch.Tensor], written: Sequence[bool]) -> Iterator[list[torch.Tensor]]:
    """For each storage of which something is written to, and in which two tensors may overlap, by their first and last elements: all tensors that lie in it."""
    extents: dict[int, list[tuple[int, int, torch.Tensor, bool]]] = {}
    for tensor, changed in zip(tensors, written, strict=True):
        place, strides = storage_and_offset(tensor), strides_and_offset(tensor)
        if place is not None and strides is not None and tensor.numel():
            last = place[1] + sum(stride * (size - 1) for stride, size in zip(strides[0], tensor.shape, strict=True))
            size = tensor.element_size()
            extents.setdefault(place[0], []).append((place[1] * size, last * size + size, tensor, changed))
    for places in extents.values():
        places.sort(key=lambda place: place[0])
        if any(changed for *_, changed in places) and any(first[1] > second[0] for first, second in pairwise(places)):
            yield [tensor for _, _, tensor, _ in places]


def have_one_base(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether tensors are of one dtype, and autograd knows them as views of one tensor that begins where its storage does, or each as no view:
    AOTAutograd, which puts one tensor in the place of all in a storage where one is written to and two overlap, can do so for no others.
    """
    if len({tensor.dtype for tensor in tensors}) > 1:
        return False
    bases = [tensor._base for tensor in tensors if tensor._base is not None]
    if not bases:
        return True
    return bases[0].storage_offset() == 0 and all((tensor if tensor._base is None else tensor._base) is bases[0] for tensor in tensors)


def memory_of(storage: Any) -> tuple[int, int]:
    """The addresses at which a storage begins and ends. A storage without data gets a range that no other has."""
    size = storage.nbytes()
    try:
        begin = storage.data_ptr() if size and storage.device.type != "meta" else 0
    except RuntimeError:  # a wrapper's: torch refuses to give the place of what holds no data
        begin = 0
    return (begin, begin + size) if begin else (storage._cdata, storage._cdata + 1)


def lie_apart(tensors: Sequence[torch.Tensor], distinct: Sequence[bool]) -> bool:
    """Return whether the storages of some tensors, those that are told apart, share no memory with any other storage, as those of two tensors of one array
    do."""
    with torch._C.DisableTorchFunction():
        storages = [BASE.untyped_storage(tensor) for tensor in tensors]
        wanted = {storage._cdata for storage, apart in zip(storages, distinct, strict=True) if apart}
        places = sorted((*memory_of(storage), key in wanted) for key, storage in {storage._cdata: storage for storage in storages}.items())
    end_of_all = end_of_wanted = 0
    for begin, end, is_wanted in places:
        if begin < (end_of_all if is_wanted else end_of_wanted):
            return False
        end_of_all = max(end_of_all, end)
        end_of_wanted = max(end_of_wanted, end) if is_wanted else end_of_wanted
    return True
