/* evaluator.h: what the hook runs frames with. */
#ifndef FRAMEJIT_EVALUATOR_H
#define FRAMEJIT_EVALUATOR_H

#include "cpython/frame.h"

/* To be given to FJ_Hook_Init. */
PyObject *FJ_EvalFrame(PyThreadState *tstate, FJ_Frame *frame, int throwflag);

#endif
