/* call.h: a call of a CompiledFunction. */
#ifndef FRAMEJIT_CALL_H
#define FRAMEJIT_CALL_H

#include "direct.h"
#include "thread.h"

/* A call on its way from CompiledFunction to its frame. Lives on the C stack of the call. */
struct FJ_PendingCall {
    FJ_CompiledFunction *target;
    FJ_PendingCall *previous;
    int taken; /* its frame has arrived */
    FJ_Match match;
    FJ_Entry *split; /* the entry that ran, if the call goes on with its `step`: a new reference */
    PyObject **state; /* the only argument, where nobody else needs it: let go of as soon as the frame has it; or NULL */
};

/* What follows a call's first part: step and resume function by turns, as long as a graph break has split it. Steals `result` and `split`, each of
   which may be NULL. upcalls: what decides about upcalls while a step runs, or NULL. */
PyObject *FJ_Call_Finish(PyObject *upcalls, PyObject *result, FJ_Entry *split);

/* A CompiledFunction's `vectorcall`. */
PyObject *FJ_Call_Vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames);

#endif
