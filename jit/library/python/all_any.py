"""all() and any() of items of which some depend on the data of tensors: a bool that the generated code computes, where it does no harm to compute all items.

    if not all(torch.equal(a, b) for a, b in zip(given, known)):
        raise ValueError("other inputs")        # the graph checks that it isn't reached
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import fx
from torch._ops import OpOverload

from framejit.graph.builder import TorchVM
from framejit.library.torch.inner_graphs.changes import reachable, stored_outside
from framejit.objects.core import abstract
from framejit.objects.core.object import Object, Raise, settle
from framejit.objects.core.registry import models
from framejit.objects.numbers.unbackednumber import UnbackedNumber, conjunction
from framejit.objects.tensors.tensorobject import TensorObject, number_out_of
from framejit.torch_state.operator_exceptions import RAISE_NOTHING, TAKE_NO_ROWS
from framejit.torch_state.operator_facts import is_pointwise
from framejit.trail import Changed, EffectAnnounced, FieldSet, NodeAdded


@models(any)
def any_(vm: TorchVM, iterable: Object) -> Object:
    return quantified(vm, iterable, "any", True)


@models(all)
def all_(vm: TorchVM, iterable: Object) -> Object:
    return quantified(vm, iterable, "all", False)


def quantified(vm: TorchVM, iterable: Object, name: str, end: bool) -> Object:
    """The result of `all` or `any`, which ends at the first item whose truth value is `end`. After an item that depends on data, the rest of the items is
    computed although the program may not do so: that must change nothing, and can't fail. Otherwise the trace breaks."""
    iterator = vm.observe(abstract.iter_(vm, iterable))
    unknown: list[UnbackedNumber] = []
    mark = 0
    while (item := next_item(vm, iterator, unknown)) is not None:
        condition = on_data(vm, item)
        if condition is None:
            if item.truth(vm) is end:
                break
            continue
        mark = mark if unknown else vm.trail.mark()
        unknown.append(condition)
    if unknown and not only_computes(vm, mark, iterable):
        unknown[0].truth(vm)  # breaks
    result = conjunction(name, unknown) if item is None and unknown else None
    return result or vm.const(end if item is not None else not end)


def next_item(vm: TorchVM, iterator: Object, unknown: list[UnbackedNumber]) -> Object | None:
    """The next item; None at the end. If that raises, the program may have ended before, at an item that depends on data: the trace breaks."""
    try:
        item = iterator.next(vm)
    except Raise:
        if unknown:
            unknown[0].truth(vm)
        raise
    return None if item is None else vm.observe(item)


def on_data(vm: TorchVM, item: Object) -> UnbackedNumber | None:
    """The truth value of an item, as a bool that depends on data; None if it doesn't, or if no node can tell."""
    if isinstance(item, TensorObject) and item.depends_on_data:
        item = number_out_of(vm, item, "__bool__") or item
    if not isinstance(item, UnbackedNumber):
        return None
    condition = item.truth_value()
    return condition if vm.graph.unbacked.value(condition) is None else None


def only_computes(vm: TorchVM, mark: int, iterable: Object) -> bool:
    """Return whether what has been traced since a position of the trail can't fail for any data, and changes nothing that is left after the call: the
    iterator that is gone through doesn't count, unless something else has it."""
    records = vm.trail.since(mark)
    if any(isinstance(record, EffectAnnounced) or (isinstance(record, NodeAdded) and not never_fails(record.owner)) for record in records):
        return False
    changes = [record for record in records if isinstance(record, (Changed, FieldSet))]
    reached = reachable(vm, [*held_elsewhere(vm, iterable), *stored_outside(vm)])
    return not any(map(reached.is_changed_by, changes))


def held_elsewhere(vm: TorchVM, iterable: Object) -> Iterator[Object]:
    """The values that the frames of the program hold, apart from the iterable that one of them passes to a function."""
    given, frame = settle(iterable), vm.frame
    assert frame is not None
    for each in frame.callers():
        yield from (value for value in each.locals if value is not None)
        yield from (value for value in each.stack if isinstance(value, Object) and settle(value) is not given)


def never_fails(node: fx.Node) -> bool:
    """Return whether a node only computes something, and raises no error whatever the data of its operands is."""
    target = node.target
    name = target if isinstance(target, str) else target._opname if isinstance(target, OpOverload) else getattr(target, "__name__", "")
    fake = node.meta.get("example_value")
    if name.endswith("_") or "out" in node.kwargs:
        return False
    if node.op == "placeholder" or name in RAISE_NOTHING or name in TAKE_NO_ROWS:
        return True
    return isinstance(fake, torch.Tensor) and is_pointwise(name) and (fake.is_floating_point() or fake.dtype is torch.bool)
