/* py313.c: frames of CPython 3.13. The evaluator clears and pops the frame that it ran (Python/ceval.c: clear_thread_frame). */
#define Py_BUILD_CORE
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_ceval.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include "frame.h"

#if PY_VERSION_HEX < 0x030D0000 || PY_VERSION_HEX >= 0x030E0000
#error "py313.c describes the frames of CPython 3.13 only"
#endif

PyCodeObject *FJ_Frame_Code(FJ_Frame *frame) { return (PyCodeObject *)frame->f_executable; }

PyObject *FJ_Frame_Function(FJ_Frame *frame) { return frame->f_funcobj; }

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
    FJ_Frame_ReleaseArguments(frame, n_arguments);
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

PyFrameObject *FJ_Frame_Stopped(PyCodeObject *code, PyObject *globals, int offset) {
    PyFrameObject *frame = PyFrame_New(PyThreadState_Get(), code, globals, NULL);
    if (frame != NULL) {
        frame->f_frame->instr_ptr = _PyCode_CODE(code) + offset / (int)sizeof(_Py_CODEUNIT);
    }
    return frame;
}

int FJ_Frame_Init(void) { return 0; }
