/* py311.c: frames of CPython 3.11. The caller of an evaluator clears and pops the frame (Python/ceval.c: _PyEval_Vector). */
#define Py_BUILD_CORE
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include "frame.h"

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030C0000
#error "py311.c describes the frames of CPython 3.11 only"
#endif

PyCodeObject *FJ_Frame_Code(FJ_Frame *frame) { return frame->f_code; }

PyObject *FJ_Frame_Function(FJ_Frame *frame) { return (PyObject *)frame->f_func; }

PyObject *const *FJ_Frame_Arguments(FJ_Frame *frame, Py_ssize_t n, PyObject **room) {
    (void)n;
    (void)room;
    return frame->localsplus;
}

void FJ_Frame_ReleaseArguments(FJ_Frame *frame, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_CLEAR(frame->localsplus[i]);
    }
}

int FJ_Frame_IsReplaceable(FJ_Frame *frame) {
    return frame->owner == FRAME_OWNED_BY_THREAD && !(frame->f_code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) &&
           frame->prev_instr == _PyCode_CODE(frame->f_code) - 1;
}

static Py_ssize_t frame_size(PyCodeObject *code) { return code->co_nlocalsplus + code->co_stacksize + (Py_ssize_t)FRAME_SPECIALS_SIZE; }

int FJ_Frame_RunInPlace(PyThreadState *tstate, FJ_Frame *frame, PyCodeObject *code, Py_ssize_t n_arguments, PyObject *inputs, PyObject *captures,
                        PyObject **result) {
    PyObject **base = (PyObject **)frame;
    if (tstate->datastack_top != base + frame_size(frame->f_code) || frame_size(code) >= tstate->datastack_limit - base) {
        return -1;
    }
    tstate->datastack_top = base + frame_size(code);
    PyObject **locals = frame->localsplus;
    /* The frame is not linked yet, so whatever releasing an argument runs cannot see it; it sees a stack that ends above the frame. */
    FJ_Frame_ReleaseArguments(frame, n_arguments);
    locals[n_arguments] = inputs;
    locals[n_arguments + 1] = captures;
    for (Py_ssize_t i = n_arguments + 2; i < code->co_nlocalsplus; i++) {
        locals[i] = NULL;
    }
    PyCodeObject *replaced = frame->f_code;
    frame->f_code = (PyCodeObject *)Py_NewRef((PyObject *)code);
    frame->prev_instr = _PyCode_CODE(code) - 1;
    frame->stacktop = code->co_nlocalsplus;
    Py_DECREF(replaced);
    *result = _PyEval_EvalFrameDefault(tstate, frame, 0);
    return 0;
}

void FJ_Frame_Abandon(PyThreadState *tstate, FJ_Frame *frame) {
    (void)tstate;
    (void)frame; /* its creator clears it */
}

int FJ_Recursion_Enter(PyThreadState *tstate, Py_ssize_t stack_left) { return 0; }

void FJ_Recursion_Leave(PyThreadState *tstate, int given) {}

/* The evaluator and C code count down the same number, from which a frame takes one. */
int FJ_Recursion_HasRoom(PyThreadState *tstate) { return tstate->recursion_remaining > 0; }

void FJ_Recursion_EnterFrame(PyThreadState *tstate) { tstate->recursion_remaining--; }

void FJ_Recursion_LeaveFrame(PyThreadState *tstate) { tstate->recursion_remaining++; }

void FJ_Recursion_AddRoom(PyThreadState *tstate, int frames) { tstate->recursion_remaining += frames; }

/* The second while a tracer runs itself: tracing is off then. */
int FJ_Frame_IsMonitored(PyThreadState *tstate) { return tstate->cframe->use_tracing || tstate->tracing > 0; }

PyFrameObject *FJ_Frame_Stopped(PyCodeObject *code, PyObject *globals, int offset) {
    PyFrameObject *frame = PyFrame_New(PyThreadState_Get(), code, globals, NULL);
    if (frame != NULL) {
        frame->f_frame->prev_instr = _PyCode_CODE(code) + offset / (int)sizeof(_Py_CODEUNIT);
    }
    return frame;
}

void FJ_Traceback_Add(PyThreadState *tstate, PyCodeObject *code, PyObject *globals, int offset) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyFrameObject *frame = FJ_Frame_Stopped(code, globals, offset);
    PyErr_Restore(type, value, traceback);
    if (frame != NULL) {
        frame->f_back = PyThreadState_GetFrame(tstate);
        PyTraceBack_Here(frame);
        Py_DECREF(frame);
    }
}

/* The frame's creator clears it only when the hook returns. */
void FJ_Frame_Release(FJ_Frame *frame) {
    if (frame->frame_obj == NULL) {
        for (int i = 0; i < frame->stacktop; i++) {
            Py_CLEAR(frame->localsplus[i]);
        }
    }
}

Py_ssize_t FJ_CodeExtra_Index(freefunc release) { return _PyEval_RequestCodeExtraIndex(release); }

void *FJ_CodeExtra_Get(PyObject *code, Py_ssize_t index) {
    void *extra = NULL;
    return _PyCode_GetExtra(code, index, &extra) == 0 ? extra : NULL;
}

int FJ_CodeExtra_Set(PyObject *code, Py_ssize_t index, void *extra) { return _PyCode_SetExtra(code, index, extra); }

int FJ_Frame_Init(void) { return 0; }
