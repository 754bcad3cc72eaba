"""Handles of hooks in dicts: code that puts hooks on modules and takes them off again compiles once."""

from __future__ import annotations

from typing import Any

import pytest
from hooked import State, does_as_eager
from named import Programs
from torch.nn.modules import module as torch_module

import framejit

PROGRAMS = Programs()
"""By name: takes a State. Each is one graph."""
SPLIT = Programs()
"""Programs that the graph can't hold."""
program, split = PROGRAMS.add, SPLIT.add


class WithHandle(State):
    def __init__(self) -> None:
        super().__init__()
        self.handle: Any = None


@program
def features(s):
    kept: dict[str, Any] = {}
    handles = [layer.register_forward_hook(lambda layer, args, result, name=name: kept.update({name: result})) for name, layer in s.model.named_children()]
    s.model(s.x)
    for handle in handles:
        handle.remove()
    return kept["0"].sum() + kept["1"].sum()


@program
def in_order(s):
    doubled = s.model[1].register_forward_hook(lambda layer, args, result: result * 2)
    more = s.model[1].register_forward_hook(lambda layer, args, kwargs, result: result + 1, prepend=True, with_kwargs=True)
    first = s.model(s.x).sum()
    doubled.remove()
    doubled.remove()
    second = s.model(s.x).sum()
    more.remove()
    return first + second * 3 + s.model(s.x).sum()


@program
def in_a_scope(s):
    with s.model[1].register_forward_pre_hook(lambda layer, args: (args[0] + 1,)):
        first = s.model(s.x).sum()
    return first + s.model(s.x).sum()


@program
def of_all_modules(s):
    handle = torch_module.register_module_forward_hook(lambda layer, args, result: s.seen.append(result.sum()))
    result = s.model(s.x).sum()
    handle.remove()
    return result


@split
def left_on(s):
    if s.handle is not None:
        s.handle.remove()
        s.handle = None
    else:
        s.handle = s.model[1].register_forward_hook(lambda layer, args, result: result * 2)
    s.seen.append(len(s.model[1]._forward_hooks))
    return s.model(s.x).sum()


@split
def removed_behind_a_break(s):
    handle = s.model[1].register_forward_hook(lambda layer, args, result: result * 2)
    first = s.model(s.x).sum()
    framejit.graph_break()
    handle.remove()
    return first + s.model(s.x).sum()


@split
def ids(s):
    handles = [s.model[1].register_forward_hook(lambda layer, args, result: result * 2) for _ in range(2)]
    first, second = [handle.id for handle in handles]
    s.seen.append((second - first, first == second, {second: 1}[second], isinstance(first, int)))
    for handle in handles:
        handle.remove()
    return s.model(s.x).sum()


@pytest.mark.parametrize("name", [*PROGRAMS, *SPLIT])
def test_hooks_put_on_and_taken_off_run_as_in_eager(name: str) -> None:
    found = does_as_eager(PROGRAMS.get(name) or SPLIT[name], "aot_eager", WithHandle)
    if name in PROGRAMS:
        assert found["graph_breaks"] == 0 and found["graphs"] == 1, found
    assert not State().model[1]._forward_hooks and not torch_module._global_forward_hooks
