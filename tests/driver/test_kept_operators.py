"""Entries on disk whose graphs call operators that a program defines in Python."""

from __future__ import annotations

import pathlib

import pytest
import torch

from framejit.saved import custom_operators
from framejit.saved.names import Unsaved
from tests.driver.test_kept import run

PROGRAM = """
    import sys
    import torch
    import framejit
    from framejit.driver import kept

    kept.LEAST_SECONDS = 0

    def same_form(x):
        return torch.empty_like(FORM)

    @torch.library.custom_op("kept::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @scaled.register_fake
    def _(x):
        return same_form(x)

    def keep(ctx, inputs, output):
        pass

    scaled.register_autograd(lambda ctx, grad: grad * SCALE, setup_context=keep)

    def step(x):
        return (torch.ops.kept.scaled(x) + 1).sum()

    x = torch.ones(3, requires_grad=True)
    compiled = framejit.compile(step)
    with torch.no_grad():
        assert compiled(x) == 9
    compiled(x).backward()
    print(framejit.statistics()["frames"], "framejit.compiler.compile" in sys.modules, x.grad.tolist())
"""


def test_operators_defined_in_python_are_kept_and_a_change_of_what_traces_learn_is_noticed(tmp_path: pathlib.Path) -> None:
    variables = {"FRAMEJIT_CACHE": "1", "FRAMEJIT_CACHE_DIR": str(tmp_path), "FRAMEJIT_CHECK": ""}

    def printed(form: str = "x", scale: str = "2") -> str:
        return run(PROGRAM.replace("FORM", form).replace("SCALE", scale), **variables).strip()

    assert printed() == "2 True [2.0, 2.0, 2.0]"
    assert printed() == "0 False [2.0, 2.0, 2.0]"
    assert printed(scale="3") == "2 True [3.0, 3.0, 3.0]"
    assert printed(form="x.contiguous()").startswith("2 True")
    assert printed(form="x.contiguous()").startswith("0 False")


def test_operators_whose_definition_depends_on_other_values_are_not_kept() -> None:
    forms = [torch.ones(3)]

    @torch.library.custom_op("kept::of_a_form", mutates_args=())
    def of_a_form(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert custom_operators.operator_digests("kept", {"of_a_form"})
    of_a_form.register_fake(lambda x: torch.empty_like(forms[0]))
    with pytest.raises(Unsaved, match="kept"):
        custom_operators.operator_digests("kept", {"of_a_form"})
