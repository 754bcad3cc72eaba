/* direct.h: calls that need no frame: C calls the graph and builds what it returns. */
#ifndef FRAMEJIT_DIRECT_H
#define FRAMEJIT_DIRECT_H

#include "runtime.h"

/* Runs a call without a frame. 1: done, with the outcome in *result and *split as call_once says; 0: it needs a frame, and *match says
   what is known already. */
int FJ_Direct_Call(PyThreadState *tstate, FJ_CompiledFunction *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names, PyObject **state,
                   FJ_Match *match, PyObject **result, FJ_Entry **split);

#endif
