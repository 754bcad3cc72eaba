/* upcalls.h: which of the program's Python functions that native code calls are compiled. */
#ifndef FRAMEJIT_UPCALLS_H
#define FRAMEJIT_UPCALLS_H

#include "cache.h"
#include "cpython/frame.h"

enum { FJ_CODE_NEVER = 1, FJ_CODE_OPAQUE = 2, FJ_CODE_COMPILED = 3 };

/* What becomes of a function's frame in a native section: FJ_CODE_NEVER: it runs uncompiled; FJ_CODE_OPAQUE: so does all that it calls;
   FJ_CODE_COMPILED: *target, a new reference, runs it. -1 with an exception set. */
int FJ_Upcalls_Decide(PyObject *upcalls, FJ_Frame *frame, FJ_CompiledFunction **target);

/* Makes FJ_CODE_NEVER or FJ_CODE_OPAQUE the answer for a code object. */
int FJ_Upcalls_MarkCode(PyObject *code, int kind);

/* Before a CompiledFunction loses its function. */
void FJ_Upcalls_Unlink(FJ_CompiledFunction *compiled);

int FJ_Upcalls_Init(void);

#endif
