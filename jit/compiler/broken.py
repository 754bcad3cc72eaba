"""Plans the rest of a call whose trace has stopped: the call is split there, in the innermost frame that can be split, or its frame runs uncompiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framejit import breaks, logs
from framejit.bytecode.decode import decode
from framejit.ceval.frame import Frame
from framejit.codegen import CannotGenerate
from framejit.codegen.resume import split
from framejit.compiler.planned import AfterBreak, Planned, Uncompiled, plan_end
from framejit.compiler.traced import Attempt
from framejit.driver.compiled_module import home
from framejit.driver.prediction import AfterFirstStep, OutcomeCheck, Prediction
from framejit.errors import Unsupported, UserFrame
from framejit.graph.demands import RestartWith
from framejit.guards.kinds import Guard
from framejit.library.directives import torch_directives
from framejit.program import classes, code_kinds
from framejit.report import STATISTICS, BreakNote
from framejit.reporting import split_calls, stacks
from framejit.said.directives import NESTED, breaks_are_errors, innermost
from framejit.tracing import boundary, looks
from framejit.tracing.passage import untraceable_mode
from framejit.tracing.predictions import RAISES, leaves_program, predict
from framejit.tracing.splitting import split_frames, within_reach
from framejit.tracing.stops import Escape, GraphBreak

WHOLE_FRAME = (breaks.Debugger, breaks.LazyModuleCall)
"""Reasons for which the whole frame runs uncompiled, as it also does if the program is about to raise."""

ON_DATA = (breaks.DataDependent, breaks.UnknownNumber, breaks.Random)
"""Reasons that mean that the instruction returns other numbers in the next call, since they depend on data."""

WITH_ITS_CALLS = (breaks.FirstStep, breaks.LazyModuleCall, breaks.Observed, breaks.TooDeep)
"""Reasons for which the functions that the frame calls run uncompiled too: their graphs would run only once, the program's own mode must see each
operation, or each of the nested calls would be traced down to the limit again."""

EXPECTED = (breaks.SkippedFrame, breaks.FirstStep, breaks.LazyModuleCall, breaks.DidNotRaise, *RAISES)
"""Reasons, by their exact type, that need no warning: the program asked for it, the program's own exception says enough, or the next call is compiled."""


def plan_break(attempt: Attempt, stop: GraphBreak) -> Planned | Uncompiled:
    """Plan how a call continues after its trace has stopped. Raises Unsupported if a break is an error, Restart or Untold if the trace must be restarted."""
    tracer, family = attempt.tracer, attempt.request.family
    seen_by = untraceable_mode(tracer, stop.frames)
    stop = boundary.outside(tracer, stop)
    stop.stack = stacks.shown(stop.stack)
    prediction = predict(stop, tracer.graph.has_operators())
    refuted = None if prediction is None else family.refuted.get(prediction.key)
    errors = breaks_are_errors(tracer.directives_before, tracer.directives, family.number, attempt.request.options.fullgraph)
    asked_by_torch = errors is None
    whole = bool(torch_directives.asked_for_errors(tracer) if asked_by_torch else errors)
    if isinstance(stop, Escape):  # the regions that the exception has left count too
        whole = whole or bool(breaks_are_errors(tracer.directives_before, stop.directives, family.number, attempt.request.options.fullgraph))
    if prediction is not None and refuted is None and (leaves_program(stop) or whole) and tracer.answers.answered_yes:
        raise tracer.answers.after_raise(stop.stack, stop.reason)
    if isinstance(stop.reason, breaks.FirstStep) and whole:
        raise RestartWith("takes_first_steps", True)  # the frame may not run uncompiled
    if whole and (prediction is None or refuted is not None):
        raise Unsupported(refuted or stop.reason, stop.stack)
    tracer.rest_on_directives()
    guards = tracer.guards.all()
    if refuted is not None and not isinstance(stop.reason, breaks.OperatorRaises):
        return uncompiled(attempt, refuted, stop.stack, guards)
    if prediction is not None and refuted is None and (prediction.certain or whole):
        return uncompiled(attempt, stop.reason, stop.stack, guards, replace(prediction, whole=whole))
    if isinstance(stop.reason, breaks.FirstStep):
        return uncompiled(attempt, stop.reason, stop.stack, guards, AfterFirstStep())
    if seen_by is not None:
        what = f"{classes.qualname(seen_by.cls)}, a mode that sees each of torch's functions and does what can't be traced ({stop.reason}),"
        return uncompiled(attempt, breaks.Observed(what), stop.stack, guards)
    planned = None if isinstance(stop.reason, WHOLE_FRAME) else plan_split(attempt, stop, asked_by_torch)
    return planned or uncompiled(attempt, stop.reason, stop.stack, guards)


def plan_split(attempt: Attempt, stop: GraphBreak, asked_by_torch: bool) -> Planned | Uncompiled | None:
    """Plan to split the call at the break, in the innermost frame that can be split. The result is None if no frame can be split."""
    reach = frames_to_split(attempt, stop)
    attempt.tracer.answers.check_split(reach, stop.stack, stop.reason)
    broke = BreakNote(stop.reason, tuple(stop.stack))
    while reach:
        try:
            return plan_split_in(attempt, reach, broke, asked_by_torch)
        except (CannotGenerate, GraphBreak) as refused:
            logs.info("resume", f"not split in {reach[-1].code.co_qualname}: {refused}")
            if attempt.tracer.graph.is_finished:  # nodes that were pruned can't come back
                return uncompiled(attempt, refused.reason, stop.stack, attempt.tracer.guards.all())
            reach.pop()
    return None


def frames_to_split(attempt: Attempt, stop: GraphBreak) -> list[Frame]:
    """The frames in which the call may be split at the break, outermost first."""
    reach = within_reach(looks.to_split(stop))
    if innermost(attempt.tracer.directives, NESTED) is False:
        # The outermost frame of the program: not the wrapper that a decorator has put around it.
        del reach[1 + next((i for i, frame in enumerate(reach) if frame.code.co_filename not in code_kinds.DECORATED), 0) :]
    return reach


def plan_split_in(attempt: Attempt, reach: Sequence[Frame], broke: BreakNote, asked_by_torch: bool) -> Planned | Uncompiled:
    """Plan to split the call in the innermost of these frames. Raises CannotGenerate or GraphBreak if that can't be done."""
    tracer, request = attempt.tracer, attempt.request
    parts = split(split_frames(tracer, reach), request.family, gives_other_numbers(broke.reason))
    resumes = tuple(
        request.resume(function, broke, place, carried, names, varying)
        for function, place, carried, names, varying in zip(parts.resumes, parts.places, parts.carried, parts.names, parts.varying, strict=True)
    )
    if asked_by_torch:
        torch_directives.asked_for_errors(tracer)  # once more, for its guard: the trace has gone back
    return plan_end(attempt, parts.state, AfterBreak(parts.step, resumes, broke))


def gives_other_numbers(reason: breaks.Break) -> bool:
    """Return whether the instruction that stops a trace for this reason returns other numbers in the next call: they depend on data, or on a clock."""
    reads_clock = isinstance(reason, breaks.UnsupportedCall) and reason.reads_clock
    return reads_clock or isinstance(reason, ON_DATA) or (isinstance(reason, breaks.UnsupportedValue) and reason.varies)


def uncompiled(
    attempt: Attempt, reason: breaks.Break, stack: Sequence[UserFrame], guards: tuple[Guard, ...], outcome: OutcomeCheck | None = None
) -> Uncompiled:
    """Plan to run the frame uncompiled, for all calls in which tracing would stop at the same place for the same reason."""
    in_one_piece = isinstance(outcome, Prediction) and outcome.whole
    compiles_upcalls = not in_one_piece and not isinstance(reason, WITH_ITS_CALLS)
    expected = type(reason) in EXPECTED
    if attempt.request.upcall_use is not None and attempt.request.resumed_after is None and expected:
        return Uncompiled(attempt, guards, None, compiles_upcalls, outcome)  # it would run uncompiled anyway: nothing to report
    if compiles_upcalls and not isinstance(reason, (*RAISES, breaks.DidNotRaise)):
        STATISTICS.add("graph_breaks")
    logs.fallback(home(attempt.tracer.function, attempt.first_argument), reason, stack, expected=expected)
    return Uncompiled(attempt, guards, reason, compiles_upcalls, outcome, tuple(stack))


def report_break(planned: Planned, after_break: AfterBreak) -> None:
    """Report a graph break that has split a call."""
    broke, function = after_break.broke, planned.attempt.tracer.function
    broke.before = planned.operations or 0
    split_calls.report_break(broke)
    if logs.enabled("resume"):
        for resume in after_break.resumes:
            code = resume.function.__code__
            listing = decode(code).listing() if logs.enabled("resume", detail=True) else ""
            logs.info("resume", f"{function.__qualname__} goes on in {code.co_name}", listing)
