/* direct.h: calls that need no frame: C calls the graph and builds what it returns. */
#ifndef FRAMEJIT_DIRECT_H
#define FRAMEJIT_DIRECT_H

#include "cache.h"

/* The outcome of looking for a call's entry before the call has a frame. */
typedef struct {
    int searched;    /* what follows holds as long as the entries are the same */
    size_t version;  /* theirs */
    FJ_Entry *entry; /* the one that matches: a new reference, as are its inputs and captures; or NULL */
    PyObject *inputs;
    PyObject *captures;
} FJ_Match;

static inline void FJ_Match_Forget(FJ_Match *match) {
    match->searched = 0;
    if (match->entry != NULL) {
        Py_CLEAR(match->inputs);
        Py_CLEAR(match->captures);
        Py_CLEAR(match->entry);
    }
}

/* Runs a call without a frame. 1: done, with the outcome in *result, and in *split the entry that has run, a new reference, if the result is only
   the state to go on with; 0: it needs a frame, and *match says what is known already. `state`: where the only argument is held, if the callee may
   let go of it, or NULL. */
int FJ_Direct_Call(PyThreadState *tstate, FJ_CompiledFunction *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names, PyObject **state,
                   FJ_Match *match, PyObject **result, FJ_Entry **split);

#endif
