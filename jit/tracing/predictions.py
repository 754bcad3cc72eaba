"""Which ends of traces say that the program raises."""

from __future__ import annotations

from framejit import breaks
from framejit.ceval.handlers import meets_handler
from framejit.driver.prediction import Prediction
from framejit.tracing.stops import Escape, GraphBreak

RAISES = (breaks.ExceptionEscapes, breaks.OperatorRaises)
"""Reasons that say that the program raises."""
MAY_RAISE = (*RAISES, breaks.MayRaise)
"""Reasons for which a call that must not be split may run uncompiled, to raise what the program raises."""


def predict(stop: GraphBreak, computes: bool) -> Prediction | None:
    """What the end of a trace says of the call; None where it doesn't say that the program raises. `computes`: whether it has a graph."""
    if not isinstance(stop.reason, MAY_RAISE):
        return None
    if isinstance(stop, Escape):
        return Prediction(stop.reason, tuple(stop.stack), stop.cls, computes=computes)
    return Prediction(stop.reason, tuple(stop.stack), None, certain=isinstance(stop.reason, RAISES) and leaves_program(stop))


def leaves_program(stop: GraphBreak) -> bool:
    """Whether no handler of the program keeps the exception that a trace has stopped at from leaving the traced function."""
    return not stop.frames or not meets_handler(stop.frames[-1])
