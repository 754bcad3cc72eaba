/* py312.c: frames of CPython 3.12. The evaluator clears and pops the frame that it ran (Python/ceval.c: clear_thread_frame). */
#define Py_BUILD_CORE
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include "frame.h"

#if PY_VERSION_HEX < 0x030C0000 || PY_VERSION_HEX >= 0x030D0000
#error "py312.c describes the frames of CPython 3.12 only"
#endif

PyCodeObject *FJ_Frame_Code(FJ_Frame *frame) { return frame->f_code; }

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
    return frame->owner == FRAME_OWNED_BY_THREAD && !(frame->f_code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) &&
           frame->prev_instr == _PyCode_CODE(frame->f_code) - 1;
}

static PyCodeObject *abandoned_code; /* `return None`, without a local variable */

static void enter_code(FJ_Frame *frame, PyCodeObject *code) {
    PyCodeObject *replaced = frame->f_code;
    frame->f_code = (PyCodeObject *)Py_NewRef(code);
    frame->prev_instr = _PyCode_CODE(code) - 1;
    frame->stacktop = code->co_nlocalsplus;
    Py_DECREF(replaced);
}

int FJ_Frame_RunInPlace(PyThreadState *tstate, FJ_Frame *frame, PyCodeObject *code, Py_ssize_t n_arguments, PyObject *inputs, PyObject *captures,
                        PyObject **result) {
    PyObject **base = (PyObject **)frame;
    if (tstate->datastack_top != base + frame->f_code->co_framesize || code->co_framesize >= tstate->datastack_limit - base) {
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
    enter_code(frame, code);
    *result = _PyEval_EvalFrameDefault(tstate, frame, 0);
    return 0;
}

/* What clears a frame is not exported, so let the evaluator do it: the frame runs `return None`, unseen by tracers. */
void FJ_Frame_Abandon(PyThreadState *tstate, FJ_Frame *frame) {
    PyObject *error = PyErr_GetRaisedException();
    for (int i = 0; i < frame->f_code->co_nlocalsplus; i++) {
        Py_CLEAR(frame->localsplus[i]);
    }
    tstate->datastack_top = (PyObject **)frame + abandoned_code->co_framesize;
    enter_code(frame, abandoned_code);
    tstate->py_recursion_remaining++; /* at the limit, too, the frame must run */
    tstate->c_recursion_remaining += 2;
    PyThreadState_EnterTracing(tstate);
    Py_XDECREF(_PyEval_EvalFrameDefault(tstate, frame, 0));
    PyThreadState_LeaveTracing(tstate);
    tstate->c_recursion_remaining -= 2;
    tstate->py_recursion_remaining--;
    PyErr_Clear();
    PyErr_SetRaisedException(error);
}

PyFrameObject *FJ_Frame_Stopped(PyCodeObject *code, PyObject *globals, int offset) {
    PyFrameObject *frame = PyFrame_New(PyThreadState_Get(), code, globals, NULL);
    if (frame != NULL) {
        frame->f_frame->prev_instr = _PyCode_CODE(code) + offset / (int)sizeof(_Py_CODEUNIT);
    }
    return frame;
}

int FJ_Frame_Init(void) {
    if (abandoned_code != NULL) {
        return 0;
    }
    PyObject *module = Py_CompileString("def abandoned(): pass", "<framejit>", Py_file_input);
    if (module == NULL) {
        return -1;
    }
    PyObject *constants = ((PyCodeObject *)module)->co_consts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); i++) {
        if (PyCode_Check(PyTuple_GET_ITEM(constants, i))) {
            abandoned_code = (PyCodeObject *)Py_NewRef(PyTuple_GET_ITEM(constants, i));
        }
    }
    Py_DECREF(module);
    return 0;
}
