/* py313.c: frames of CPython 3.13. The evaluator clears and pops the frame that it ran (Python/ceval.c: clear_thread_frame). */
#define Py_BUILD_CORE
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_ceval.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_instruments.h>
#include <internal/pycore_interp.h>
#undef Py_BUILD_CORE

#include "frame.h"

#if PY_VERSION_HEX < 0x030D0000 || PY_VERSION_HEX >= 0x030E0000
#error "py313.c describes the frames of CPython 3.13 only"
#endif

PyCodeObject *FJ_Frame_Code(FJ_Frame *frame) { return (PyCodeObject *)frame->f_executable; }

PyObject *FJ_Frame_Function(FJ_Frame *frame) { return frame->f_funcobj; }

PyObject **FJ_Frame_Locals(FJ_Frame *frame) { return frame->localsplus; }

int FJ_Frame_IsReplaceable(FJ_Frame *frame) {
    PyCodeObject *code = FJ_Frame_Code(frame);
    return frame->owner == FRAME_OWNED_BY_THREAD && !(code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) &&
           frame->instr_ptr == _PyCode_CODE(code);
}

int FJ_Frame_RunInPlace(PyThreadState *tstate, FJ_Frame *frame, PyCodeObject *code, Py_ssize_t n_arguments, PyObject *inputs, PyObject *captures,
                        PyObject **result) {
    PyObject **base = (PyObject **)frame;
    PyCodeObject *replaced = FJ_Frame_Code(frame);
    if (tstate->datastack_top != base + replaced->co_framesize || code->co_framesize >= tstate->datastack_limit - base) {
        return -1;
    }
    tstate->datastack_top = base + code->co_framesize;
    PyObject **locals = frame->localsplus;
    /* The frame is not linked yet, so whatever releasing an argument runs cannot see it; it sees a stack that ends above the frame. */
    for (Py_ssize_t i = 0; i < n_arguments; i++) {
        Py_CLEAR(locals[i]);
    }
    locals[n_arguments] = inputs;
    locals[n_arguments + 1] = captures;
    for (Py_ssize_t i = n_arguments + 2; i < code->co_nlocalsplus; i++) {
        locals[i] = NULL;
    }
    frame->f_executable = Py_NewRef(code);
    frame->instr_ptr = _PyCode_CODE(code);
    frame->stacktop = code->co_nlocalsplus;
    Py_DECREF(replaced);
    *result = _PyEval_EvalFrameDefault(tstate, frame, 0);
    return 0;
}

void FJ_Frame_Abandon(PyThreadState *tstate, FJ_Frame *frame) {
    PyObject *error = PyErr_GetRaisedException();
    _PyEval_FrameClearAndPop(tstate, frame);
    PyErr_SetRaisedException(error);
}

/* Each evaluator entered from C takes PY_EVAL_C_STACK_UNITS from c_recursion_remaining, which a call between Python functions does not:
   without this, recursion ends after about 5,000 frames whatever sys.setrecursionlimit says. */
enum { EVAL_C_STACK_UNITS = 2 };

void FJ_Recursion_Enter(PyThreadState *tstate) { tstate->c_recursion_remaining += EVAL_C_STACK_UNITS; }

void FJ_Recursion_Leave(PyThreadState *tstate) { tstate->c_recursion_remaining -= EVAL_C_STACK_UNITS; }

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

PyFrameObject *FJ_Frame_Stopped(PyCodeObject *code, PyObject *globals, int offset) {
    PyFrameObject *frame = PyFrame_New(PyThreadState_Get(), code, globals, NULL);
    if (frame != NULL) {
        frame->f_frame->instr_ptr = _PyCode_CODE(code) + offset / (int)sizeof(_Py_CODEUNIT);
    }
    return frame;
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

int FJ_Frame_Init(void) { return 0; }
