"""Generates the replacement bytecode of a finished trace: plans what the graph must return, and then emits the code around it."""

from __future__ import annotations

from framejit.codegen.emit import Continuation, emit
from framejit.codegen.plan import FinishedTrace, Plan, plan
from framejit.codegen.recorder import CannotGenerate

__all__ = ["CannotGenerate", "FinishedTrace", "Plan", "Continuation", "emit", "plan"]
