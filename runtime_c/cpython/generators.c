/* generators.c: where a generator keeps its frame, in Python 3.11 to 3.13. From 3.14 on, slots of frames are stack references, and none is read. */
#define Py_BUILD_CORE
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include "generators.h"

#if PY_VERSION_HEX < 0x030E0000

static _PyInterpreterFrame *frame_of(PyObject *generator) { return (_PyInterpreterFrame *)((PyGenObject *)generator)->gi_iframe; }

#if PY_VERSION_HEX < 0x030D0000

static PyCodeObject *code_of(_PyInterpreterFrame *frame) { return frame->f_code; }

static int is_suspended(int state) { return state == FRAME_CREATED || state == FRAME_SUSPENDED; }

/* The instruction that ran last, in code units. */
static _Py_CODEUNIT *get_place(_PyInterpreterFrame *frame) { return frame->prev_instr; }

static void set_place(PyObject *generator, _Py_CODEUNIT *place, int is_created) {
    frame_of(generator)->prev_instr = place;
    ((PyGenObject *)generator)->gi_frame_state = is_created ? FRAME_CREATED : FRAME_SUSPENDED;
}

#else

static PyCodeObject *code_of(_PyInterpreterFrame *frame) { return (PyCodeObject *)frame->f_executable; }

static int is_suspended(int state) { return state == FRAME_CREATED || FRAME_STATE_SUSPENDED(state); }

/* The frame says which instruction comes next. */
static _Py_CODEUNIT *get_place(_PyInterpreterFrame *frame) { return frame->instr_ptr - 1; }

/* The argument of a yield says whether the generator delegates to another one. */
static void set_place(PyObject *generator, _Py_CODEUNIT *place, int is_created) {
    frame_of(generator)->instr_ptr = place + 1;
    ((PyGenObject *)generator)->gi_frame_state = is_created ? FRAME_CREATED : place->op.arg & 1 ? FRAME_SUSPENDED_YIELD_FROM : FRAME_SUSPENDED;
}

#endif

#if PY_VERSION_HEX < 0x030C0000
static PyObject *function_of(_PyInterpreterFrame *frame) { return (PyObject *)frame->f_func; }
#else
static PyObject *function_of(_PyInterpreterFrame *frame) { return frame->f_funcobj; }
#endif

int FJ_Generator_Look(PyObject *generator, FJ_Suspended *found) {
    if (!PyGen_CheckExact(generator) || !is_suspended(((PyGenObject *)generator)->gi_frame_state)) {
        return 0;
    }
    _PyInterpreterFrame *frame = frame_of(generator);
    PyObject *handled = ((PyGenObject *)generator)->gi_exc_state.exc_value;
    if ((handled != NULL && handled != Py_None) || (frame->frame_obj != NULL && Py_REFCNT(frame->frame_obj) > 1)) {
        return 0;
    }
    found->code = code_of(frame);
    found->function = function_of(frame);
    found->slots = frame->localsplus;
    found->n_slots = frame->stacktop;
    found->offset = (int)(get_place(frame) - _PyCode_CODE(found->code)) * (int)sizeof(_Py_CODEUNIT);
    return 1;
}

int FJ_Generator_HasEnded(PyObject *generator) { return PyGen_CheckExact(generator) && ((PyGenObject *)generator)->gi_frame_state >= FRAME_COMPLETED; }

static void move(PyObject *generator, Py_ssize_t n_slots, int offset, int is_created) {
    _PyInterpreterFrame *frame = frame_of(generator);
    frame->stacktop = (int)n_slots;
    set_place(generator, _PyCode_CODE(code_of(frame)) + offset / (int)sizeof(_Py_CODEUNIT), is_created);
}

void FJ_Generator_Suspend(PyObject *generator, Py_ssize_t n_slots, int offset) {
    FJ_Suspended now;
    const int is_created = FJ_Generator_Look(generator, &now) && now.offset == offset && ((PyGenObject *)generator)->gi_frame_state == FRAME_CREATED;
    move(generator, n_slots, offset, is_created);
}

/* What clears a frame isn't exported. An exception that is thrown in where the generator was made meets no handler, and clears it; tracers don't see that. */
int FJ_Generator_End(PyObject *generator, int created) {
    move(generator, code_of(frame_of(generator))->co_nlocalsplus, created, 1);
    PyThreadState *tstate = PyThreadState_Get();
    PyThreadState_EnterTracing(tstate);
    PyObject *result = PyObject_CallMethod(generator, "throw", "O", PyExc_GeneratorExit);
    PyThreadState_LeaveTracing(tstate);
    if (result == NULL && PyErr_ExceptionMatches(PyExc_GeneratorExit)) {
        PyErr_Clear();
        return 0;
    }
    if (result != NULL) {
        Py_DECREF(result);
        PyErr_SetString(PyExc_SystemError, "framejit could not end a generator");
    }
    return -1;
}

#else

int FJ_Generator_Look(PyObject *generator, FJ_Suspended *found) { return 0; }

int FJ_Generator_HasEnded(PyObject *generator) { return 0; }

void FJ_Generator_Suspend(PyObject *generator, Py_ssize_t n_slots, int offset) {}

int FJ_Generator_End(PyObject *generator, int created) { return 0; }

#endif
