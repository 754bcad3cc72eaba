/* stackref_frames.h: frames whose slots are stack references, as those of CPython 3.14 and 3.15 are. It is included once, by the file of the running
   version, which has checked that version. The evaluator clears and pops the frame that it ran (Python/ceval.c: clear_thread_frame). */
#define Py_BUILD_CORE
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_ceval.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_interpframe.h>
#undef Py_BUILD_CORE

#include "frame.h"

PyCodeObject *FJ_Frame_Code(FJ_Frame *frame) { return _PyFrame_GetCode(frame); }

PyObject *FJ_Frame_Function(FJ_Frame *frame) { return PyStackRef_AsPyObjectBorrow(frame->f_funcobj); }

PyObject *const *FJ_Frame_Arguments(FJ_Frame *frame, Py_ssize_t n, PyObject **room) {
    for (Py_ssize_t i = 0; i < n; i++) {
        _PyStackRef slot = frame->localsplus[i];
        room[i] = PyStackRef_IsNull(slot) ? NULL : PyStackRef_AsPyObjectBorrow(slot);
    }
    return room;
}

void FJ_Frame_ReleaseArguments(FJ_Frame *frame, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        PyStackRef_CLEAR(frame->localsplus[i]);
    }
}

int FJ_Frame_IsReplaceable(FJ_Frame *frame) {
    PyCodeObject *code = FJ_Frame_Code(frame);
    return frame->owner == FRAME_OWNED_BY_THREAD && !(code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) &&
           frame->instr_ptr == _PyCode_CODE(code);
}

/* CPython's own JIT compiler takes the code of a frame's function for the frame's: a function of the code, which is like the frame's in all
   else. NULL: out of memory. */
static PyObject *function_of_code(FJ_Frame *frame, PyCodeObject *code) {
    PyFunctionObject *replaced = (PyFunctionObject *)FJ_Frame_Function(frame);
    PyFunctionObject *function = (PyFunctionObject *)PyFunction_NewWithQualName((PyObject *)code, frame->f_globals, code->co_qualname);
    if (function == NULL) {
        PyErr_Clear();
        return NULL;
    }
    Py_XSETREF(function->func_closure, Py_XNewRef(replaced->func_closure));
    Py_SETREF(function->func_builtins, Py_NewRef(frame->f_builtins)); /* which the frame borrows from it */
    return (PyObject *)function;
}

static void put(_PyStackRef *place, PyObject *object) {
    _PyStackRef replaced = *place;
    *place = PyStackRef_FromPyObjectSteal(object);
    PyStackRef_CLOSE(replaced);
}

int FJ_Frame_RunInPlace(PyThreadState *tstate, FJ_Frame *frame, PyCodeObject *code, Py_ssize_t n_arguments, PyObject *inputs, PyObject *captures,
                        PyObject **result) {
    PyObject **base = (PyObject **)frame;
    if (tstate->datastack_top != base + FJ_Frame_Code(frame)->co_framesize || code->co_framesize >= tstate->datastack_limit - base) {
        return -1;
    }
    PyObject *function = tstate->interp->jit ? function_of_code(frame, code) : NULL;
    if (function == NULL && tstate->interp->jit) {
        return -1;
    }
    tstate->datastack_top = base + code->co_framesize;
    _PyStackRef *locals = frame->localsplus;
    /* The frame is not linked yet, so whatever releasing an argument runs cannot see it; it sees a stack that ends above the frame. */
    FJ_Frame_ReleaseArguments(frame, n_arguments);
    locals[n_arguments] = PyStackRef_FromPyObjectSteal(inputs);
    locals[n_arguments + 1] = PyStackRef_FromPyObjectSteal(captures);
    for (Py_ssize_t i = n_arguments + 2; i < code->co_nlocalsplus; i++) {
        locals[i] = PyStackRef_NULL;
    }
    frame->instr_ptr = _PyCode_CODE(code);
    frame->stackpointer = locals + code->co_nlocalsplus;
    put(&frame->f_executable, Py_NewRef(code));
    if (function != NULL) {
        put(&frame->f_funcobj, function);
    }
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
