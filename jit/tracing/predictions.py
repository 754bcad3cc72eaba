"""Finds ends of traces which predict that the program raises."""

from __future__ import annotations

from framejit import breaks
from framejit.ceval.handlers import meets_handler
from framejit.driver.prediction import Prediction
from framejit.program import classes
from framejit.tracing.stops import Escape, GraphBreak

RAISES = (breaks.ExceptionEscapes, breaks.OperatorRaises)
"""Break reasons which say that the program raises."""
MAY_RAISE = (*RAISES, breaks.MayRaise)
"""Break reasons for which a call that must not be split may run uncompiled, to raise the program's exception."""


def predict(stop: GraphBreak, computes: bool) -> Prediction | None:
    """The prediction that the end of a trace makes about the call; None if it doesn't predict that the program raises. `computes`: whether it has a graph."""
    if not isinstance(stop.reason, MAY_RAISE):
        return None
    if isinstance(stop, Escape):
        cls = None if id(stop.cls) in classes.STAND_INS else stop.cls  # each call makes another
        return Prediction(stop.reason, tuple(stop.stack), cls, computes=computes)
    return Prediction(stop.reason, tuple(stop.stack), None, certain=isinstance(stop.reason, RAISES) and leaves_program(stop))


def leaves_program(stop: GraphBreak) -> bool:
    """Return whether the exception at which a trace has stopped leaves the traced function, because no handler of the program catches it."""
    return not stop.frames or not meets_handler(stop.frames[-1])
