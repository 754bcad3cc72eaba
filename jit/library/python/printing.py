"""print() to a StringIO, or to an object that the trace has made, such as the one that contextlib.redirect_stdout puts in the place of sys.stdout."""

from __future__ import annotations

import sys
from typing import NoReturn

from framejit import breaks
from framejit.graph.fake import is_of_others
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.types.constobject import FALSE, NONE
from framejit.objects.types.streamobject import StreamObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.userobject import UserObject
from framejit.plain import builtins as plain


def refuse(vm: VM) -> NoReturn:
    """Break, since the call prints to the outside world."""
    vm.unsupported(breaks.SideEffect("print()"))


def standard_output(vm: VM) -> Object:
    """The object that the trace has put in the place of `sys.stdout`. Breaks if there is none."""
    namespace = vm.globals_of(vars(sys))
    found = namespace.lookup(vm, "stdout") if vm.effects.is_mutated(namespace) else None
    return vm.observe(found) if found is not None else refuse(vm)


@models(print)
def print_(
    vm: VM, *values: Object, sep: Object | None = None, end: Object | None = None, file: Object | None = None, flush: Object | None = None
) -> Object:
    """print(). Files other than those that the trace can write to are part of the outside world."""
    stream = NONE if file is None else vm.observe(file)
    if stream.cls is type(None):
        stream = standard_output(vm)
        if stream.cls is type(None):
            return NONE
    if not isinstance(stream, StreamObject) and not (isinstance(stream, UserObject) and stream.source is None):
        refuse(vm)
    return vm.call_app(plain.print_to, [stream, TupleObject(list(values)), sep or NONE, end or NONE, flush or FALSE])


@rule(Phase.REFUSE)
def reject_operators_that_may_print(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator that isn't torch's own after the trace has changed `sys`: the operator may print, and the change would come after it."""
    if is_of_others(operation.target) and state.vm.effects.is_mutated(state.vm.globals_of(vars(sys))):
        state.vm.unsupported(breaks.UnsupportedOperation(f"{operation.name} after a change of the module sys, since it may print"))
