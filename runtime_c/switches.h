/* switches.h: whether calls of compiled functions run uncompiled, and who checks calls. */
#ifndef FRAMEJIT_SWITCHES_H
#define FRAMEJIT_SWITCHES_H

#include "thread.h"

extern int FJ_globally_eager;
extern int FJ_watched_eager;       /* what the watched dicts came to */
extern PyObject *FJ_call_checker;  /* NULL, or called as (compiled function, args, kwargs) in place of a call */
extern PyObject *FJ_guard_checker; /* NULL, or called as (compiled function, argument slots, function) before a call looks for its entry */

/* Has the callback called if a watched dict has changed. 0, or -1 with an exception set. */
int FJ_Watched_Update(void);

/* Whether calls of compiled functions run uncompiled, here and now. */
static inline int FJ_RunsUncompiled(const FJ_ThreadState *thread) {
    return thread->compiling || thread->disabled || FJ_watched_eager ||
           (thread->eager == FJ_EAGER_UNSET ? FJ_globally_eager : thread->eager == FJ_EAGER);
}

/* Python functions that set them. */
extern PyMethodDef FJ_switches[];

#endif
