"""The costs of guards: nanoseconds per kind, and microseconds for the guards of a 36-layer model. Run: python -m tools.bench.guards"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import nn

from framejit.guards.build import BuiltGuards, build
from framejit.guards.global_state import global_state_guard
from framejit.guards.kinds import DictKeys, Equals, Guard, KeyAbsent, Length, SetEquals, TensorMatch, TypeIs, ValueIs
from framejit.guards.shape_program import shapes_hold
from framejit.guards.source import Call, Index, InstanceDict, Item, Local, Pinned, Root, Slot, Source, TypeAttr
from framejit.guards.tensor_source import TensorSize
from framejit.guards.tensor_spec import tensor_spec

COPIES = 200
REPEATS = 7
CALLS = 2000


def frame_function() -> None:
    """Stands for the frame's function."""


def best_of(run: Callable[[], Any], calls: int = CALLS) -> float:
    """Nanoseconds per call: the minimum of several repetitions."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter_ns()
        for _ in range(calls):
            run()
        best = min(best, (time.perf_counter_ns() - start) / calls)
    return best


def match_time(built: BuiltGuards, values: tuple[Any, ...], calls: int = CALLS) -> float:
    assert built.tree.failing(values, frame_function) is None
    return best_of(lambda: built.tree.match(values, frame_function), calls)


KINDS: dict[str, tuple[Any, Callable[[Source], Guard]]] = {
    "type_is": (1.5, lambda source: TypeIs(source, None, float)),
    "value_is": (nn.ReLU(), lambda source: ValueIs(source, None, KINDS["value_is"][0])),
    "equals int": (1000, lambda source: Equals(source, None, 1000)),
    "equals str": ("a" * 20, lambda source: Equals(source, None, "".join(["a"] * 20))),
    "length of dict": ({}, lambda source: Length(source, None, 0)),
    "length of list": ([1], lambda source: Length(source, None, 1)),
    "dict_keys, 4 unchanged": (dict.fromkeys("abcd"), lambda source: DictKeys(source, None, tuple("abcd"))),
    "key_absent, unchanged": ({"a": 1}, lambda source: KeyAbsent(source, None, "b")),
    "set_equals, 2": ({1, 2}, lambda source: SetEquals(source, None, tuple({1, 2}))),
    "tensor_match": (torch.ones(2, 3), lambda source: TensorMatch(source, None, tensor_spec(torch.ones(2, 3)))),
}


def per_kind() -> None:
    """Each kind on many elements of one list, less what walking the list costs."""
    root = Root()
    elements = [root.child(Local, Slot(0, "x")).child(Index, i) for i in range(COPIES)]
    nothing = match_time(build([], [], []), ([],))
    walk = (match_time(build([ValueIs(e, None, None) for e in elements], [], []), ([None] * COPIES,)) - nothing) / COPIES
    print(f"{'index and value_is':28}{walk:8.1f} ns")
    for name, (value, guard) in KINDS.items():
        built = build([guard(element) for element in elements], [], [])
        each = (match_time(built, ([value] * COPIES,)) - nothing) / COPIES
        print(f"{name:28}{each - walk:8.1f} ns more than that")
    print(f"{'global_state':28}{match_time(build([global_state_guard(root)], [], []), ([],)) - nothing:8.1f} ns")


def per_item() -> None:
    """Dict items, in a dict that didn't change and in one that did."""
    root = Root()
    names = [f"name{i}" for i in range(60)]
    values = dict.fromkeys(names, 1)
    sources = [root.child(Local, Slot(0, "x")).child(Item, name) for name in names]
    built = build([TypeIs(source, None, int) for source in sources], [], [])
    nothing = match_time(build([], [], []), (values,))
    print(f"{'item and type_is, unchanged':28}{(match_time(built, (values,)) - nothing) / len(names):8.1f} ns")
    counter = iter(range(10**9))

    def change() -> None:
        values["name0"] = 1000 + next(counter)

    def change_and_match() -> None:
        change()
        built.tree.match((values,), frame_function)

    print(f"{'item and type_is, changed':28}{(best_of(change_and_match) - best_of(change) - nothing) / len(names):8.1f} ns")


def shapes() -> None:
    """Bounds of sizes, on tensors whose other metadata are guarded too; a size that is captured; a tensor whose size varies."""
    root = Root()
    tensors = [root.child(Local, Slot(i, f"x{i}")) for i in range(25)]
    values = tuple(torch.ones(3, 4, 5, 6) for _ in tensors)
    spec = replace(tensor_spec(values[0]), sizes=(None,) * 4, strides=(None,) * 4)
    symbols = sympy.symbols("s0:100", integer=True, positive=True)
    for count in (1, 20, 100):
        used = tensors[: count // 4 + 1]
        guards: list[Guard] = [TensorMatch(tensor, None, spec) for tensor in used]
        nothing = match_time(build(guards, [], []), values)
        start = time.perf_counter()
        reads = {symbol: tensors[i // 4].child(TensorSize, i % 4) for i, symbol in enumerate(symbols[:count])}
        bounds = shapes_hold([(symbol >= 2, None) for symbol in reads], reads)
        assert bounds is not None
        milliseconds = (time.perf_counter() - start) * 1e3
        whole = match_time(build([*guards, bounds], [], []), values)
        print(f"{f'shapes_hold, {count} bounds':28}{whole - nothing:8.1f} ns, made in {milliseconds:.1f} ms")
    match = TensorMatch(tensors[0], None, spec)
    nothing = match_time(build([match], [], []), values)
    print(f"{'a size captured':28}{match_time(build([match], [tensors[0].child(TensorSize, 0)], []), values) - nothing:8.1f} ns")
    calls = [(torch.empty(size, 4, 5, 6, device="meta"),) for size in range(1, 65)]
    for name, varied in (("one size, 64 tensors", [(torch.empty(3, 4, 5, 6, device="meta"),) for _ in calls]), ("64 sizes, 64 tensors", calls)):
        built = build([TensorMatch(tensors[0], None, replace(tensor_spec(varied[0][0]), sizes=(None,) * 4))], [tensors[0]], [])
        assert built.tree.failing(varied[-1], frame_function) is None
        each = best_of(lambda built=built, varied=varied: [built.tree.match(call, frame_function) for call in varied], 200) / len(varied)  # type: ignore[misc]
        print(f"{name:28}{each:8.1f} ns, with what calls the tree")


class Block(nn.Module):
    """Ten modules."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Sequential(*(nn.Linear(8, 8) for _ in range(5)))
        self.norm = nn.Sequential(*(nn.LayerNorm(8) for _ in range(2)))


def model_guards(model: nn.Module) -> tuple[list[Guard], list[Source]]:
    """Return the guards that a trace of the whole model would make, on types, configuration, hooks, methods and parameters, and the parameters' sources."""
    root = Root()
    guards: list[Guard] = [global_state_guard(root)]
    inputs: list[Source] = []

    def visit(source: Source, module: nn.Module) -> None:
        guards.append(TypeIs(source, None, type(module)))
        attributes = source.child(InstanceDict)
        for name, value in module.__dict__.items():
            item = attributes.child(Item, name)
            if name in ("_modules", "_parameters"):
                guards.append(DictKeys(item, None, tuple(value)))
            elif isinstance(value, dict):
                guards.append(Length(item, None, len(value)))
            elif value is None or isinstance(value, (int, float, tuple)):
                guards.append(Equals(item, None, value))
        for name in ("forward", "__call__", "_call_impl"):
            guards.append(KeyAbsent(attributes, None, name))
            method = root.child(Pinned, type(module)).child(TypeAttr, name)
            guards.append(ValueIs(method, None, method.fetch(Call((), frame_function))))
        for name, parameter in module._parameters.items():
            path = attributes.child(Item, "_parameters").child(Item, name)
            guards.append(TensorMatch(path, None, tensor_spec(parameter)))
            inputs.append(path)
        for name, child in module._modules.items():
            visit(attributes.child(Item, "_modules").child(Item, name), child)

    visit(root.child(Local, Slot(0, "self")), model)
    return guards, inputs


def whole_model() -> None:
    model = nn.Sequential(*(Block() for _ in range(36)))
    guards, inputs = model_guards(model)
    start = time.perf_counter()
    built = build(guards, inputs, [])
    milliseconds = (time.perf_counter() - start) * 1e3
    modules = list(model.modules())
    print(f"{len(modules)} modules, {len(inputs)} parameters captured, {built.tree.size} guards, built in {milliseconds:.0f} ms")
    print(f"{'  match':28}{match_time(built, (model,), 50) / 1e3:8.1f} us")


if __name__ == "__main__":
    per_kind()
    per_item()
    shapes()
    whole_model()
