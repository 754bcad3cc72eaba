"""Fixtures of tests of modules whose calls are copied."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from agreement import close
from compiled_twice import Compiled, Same, outcome
from torch import nn

from framejit.library.torch.nn import repeated_modules


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the modules whose calls have been copied."""
    found: list[str] = []
    original = repeated_modules.copied

    def noting(vm: Any, call: Any, recording: Any, module: Any, tensors: Any) -> Any:
        result = original(vm, call, recording, module, tensors)
        if result is not None and module.source.describe() not in found[-1:]:  # with --undo, calls are repeated
            found.append(module.source.describe())
        return result

    monkeypatch.setattr(repeated_modules, "copied", noting)
    return found


@pytest.fixture
def same(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Same:
    """A function that compiles a model twice, with and without copying, and compares all that was made, and results with eager."""

    def same_with_and_without(model: nn.Module, *args: Any, **kwargs: Any) -> None:
        models = [copy.deepcopy(model) for _ in range(3)]  # a call may change it
        expected = outcome(models[0], models[0], args, kwargs)
        each = Compiled(models[1], args, kwargs, False, monkeypatch)
        once = Compiled(models[2], args, kwargs, True, monkeypatch)
        assert once.graphs == each.graphs
        assert once.guards == each.guards
        assert once.inputs == each.inputs
        if not request.config.getoption("--undo") and not request.config.getoption("--copies"):
            assert once.names == each.names  # nodes that are undone use up names
        close(once.outcome, expected)

    return same_with_and_without
