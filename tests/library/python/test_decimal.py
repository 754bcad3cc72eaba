"""decimal in compiled functions: results, flags and settings of the context as in eager."""

from __future__ import annotations

import decimal
from decimal import Decimal

import pytest
import torch

import framejit

rate = Decimal("1.10")


def exact(x):
    return x + float(rate + Decimal("2.2")), rate * 2, -rate, abs(Decimal(-3)), rate > 1, rate == Decimal("1.1"), int(Decimal("7.9")), bool(Decimal(0))


def inexact(x):
    return x * float(Decimal(1) / 3), Decimal(2).sqrt(), rate**2, round(Decimal("2.675"), 2), Decimal("1.255").quantize(Decimal("0.01")), Decimal(0.1)


def texts(x):
    return x + 1, str(rate), f"{rate:.1f}", repr(rate), rate.as_tuple(), rate.is_finite(), Decimal("NaN").is_nan(), rate.real, Decimal.from_float(0.5)


@pytest.mark.parametrize("program", [exact, inexact, texts])
def test_results_and_flags(program):
    def observed(run):
        with decimal.localcontext() as context:
            context.clear_flags()
            return repr(run(torch.ones(2))), [signal for signal, is_set in context.flags.items() if is_set]

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        assert observed(compiled) == observed(program)
    assert framejit.statistics()["graphs"] == 1


def test_settings_of_the_context_are_guarded():
    def program(x):
        return x + 1, Decimal(1) / 7

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for precision, rounding in ((28, decimal.ROUND_HALF_EVEN), (5, decimal.ROUND_HALF_EVEN), (5, decimal.ROUND_UP), (28, decimal.ROUND_HALF_EVEN)):
        with decimal.localcontext() as context:
            context.prec, context.rounding = precision, rounding
            assert compiled(torch.ones(2))[1] == program(torch.ones(2))[1]


def test_contexts_and_exceptions_of_the_program():
    def program(x, trapped):
        with decimal.localcontext() as context:
            context.prec = 3
            context.traps[decimal.Inexact] = trapped
            try:
                return x + 1, Decimal(1) / 3
            except decimal.Inexact as error:
                return x - 1, type(error), Decimal(10) / 2

    compiled = framejit.compile(program, backend="eager")
    for trapped in (False, True, False):
        assert repr(compiled(torch.ones(2), trapped)) == repr(program(torch.ones(2), trapped))
    with pytest.raises(decimal.DivisionByZero):
        framejit.compile(lambda x: (x + 1, rate / 0), backend="eager")(torch.ones(2))


def test_arguments_vary_without_recompiles():
    def program(x, price, count):
        return x + 1, price * 2, Decimal(count) + 1, price

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for count in range(6):
        price = Decimal(count) / 4
        assert compiled(torch.ones(2), price, count)[1:] == program(torch.ones(2), price, count)[1:]
    assert framejit.statistics()["recompiles"] <= 2


def test_attributes_that_the_context_computes():
    context = decimal.getcontext()

    def program(x):
        return x + 1, context.traps[decimal.Inexact], getattr(context, "no such attribute", 3)

    assert framejit.compile(program, backend="eager")(torch.ones(2))[1:] == program(torch.ones(2))[1:]
