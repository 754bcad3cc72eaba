/* frame.c: what frame.h declares and Python 3.12 and later have in common; pyXYZ.c has the rest of it. */
#define Py_BUILD_CORE
#include <Python.h>
#if PY_VERSION_HEX >= 0x030C0000
#include <internal/pycore_frame.h>
#include <internal/pycore_instruments.h>
#include <internal/pycore_interp.h>
#endif
#undef Py_BUILD_CORE

#include "frame.h"

#if PY_VERSION_HEX >= 0x030C0000

#ifdef Py_GIL_DISABLED
#error "framejit's native code is guarded by the GIL, and this Python has none"
#endif

/* Up to 3.13, each evaluator entered from C takes PY_EVAL_C_STACK_UNITS from c_recursion_remaining, which a call between Python functions does
   not: without this, recursion ends after about 750 frames on 3.12, and 5,000 on 3.13, whatever sys.setrecursionlimit says. Recursive C code
   takes units, too, about one for every 100 to 500 bytes of the C stack: there are never more than it has room for. 3.14 looks at the stack itself. */
int FJ_Recursion_Enter(PyThreadState *tstate, Py_ssize_t stack_left) {
#if PY_VERSION_HEX < 0x030E0000
    enum { EVAL_C_STACK_UNITS = 2, BYTES_OF_A_UNIT = 512 };
    if (tstate->c_recursion_remaining + EVAL_C_STACK_UNITS <= stack_left / BYTES_OF_A_UNIT) {
        tstate->c_recursion_remaining += EVAL_C_STACK_UNITS;
        return EVAL_C_STACK_UNITS;
    }
#endif
    return 0;
}

void FJ_Recursion_Leave(PyThreadState *tstate, int given) {
#if PY_VERSION_HEX < 0x030E0000
    tstate->c_recursion_remaining -= given;
#endif
}

int FJ_Recursion_HasRoom(PyThreadState *tstate) { return tstate->py_recursion_remaining > 0; }

void FJ_Recursion_EnterFrame(PyThreadState *tstate) { tstate->py_recursion_remaining--; }

void FJ_Recursion_LeaveFrame(PyThreadState *tstate) { tstate->py_recursion_remaining++; }

void FJ_Recursion_AddRoom(PyThreadState *tstate, int frames) { tstate->py_recursion_remaining += frames; }

/* sys.settrace and sys.setprofile are tools of sys.monitoring here, whose events stay on when the thread that asked for them has ended:
   for those two the thread's own functions say it. Events asked for in one code object are that object's own. */
int FJ_Frame_IsMonitored(PyThreadState *tstate) {
    const uint8_t *tools = tstate->interp->monitors.tools;
    unsigned any = 0;
    for (size_t i = 0; i < sizeof(tstate->interp->monitors.tools); i++) {
        any |= tools[i];
    }
    any &= ~(1u << PY_MONITORING_SYS_PROFILE_ID | 1u << PY_MONITORING_SYS_TRACE_ID);
    return any != 0 || tstate->c_tracefunc != NULL || tstate->c_profilefunc != NULL;
}

void FJ_Traceback_Add(PyThreadState *tstate, PyCodeObject *code, PyObject *globals, int offset) {
    PyObject *error = PyErr_GetRaisedException();
    PyFrameObject *frame = FJ_Frame_Stopped(code, globals, offset);
    PyErr_Clear();
    PyErr_SetRaisedException(error);
    if (frame != NULL) {
        frame->f_back = PyThreadState_GetFrame(tstate);
        PyTraceBack_Here(frame);
        Py_DECREF(frame);
    }
}

/* The evaluator has cleared the frame. */
void FJ_Frame_Release(FJ_Frame *frame) { (void)frame; }

Py_ssize_t FJ_CodeExtra_Index(freefunc release) { return PyUnstable_Eval_RequestCodeExtraIndex(release); }

void *FJ_CodeExtra_Get(PyObject *code, Py_ssize_t index) {
    void *extra = NULL;
    return PyUnstable_Code_GetExtra(code, index, &extra) == 0 ? extra : NULL;
}

int FJ_CodeExtra_Set(PyObject *code, Py_ssize_t index, void *extra) { return PyUnstable_Code_SetExtra(code, index, extra); }

#endif
