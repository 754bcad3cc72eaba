/* hook.c: when the PEP 523 hook is installed: while calls are on their way to their frames, and in native sections, where the instruction at a
   graph break runs, or a frame for which there is no code, and the functions that it calls are compiled. */
#include "hook.h"

/* Guarded by the GIL. */
static Py_ssize_t hook_users;
static _PyFrameEvalFunction our_hook;
static _PyFrameEvalFunction previous_hook = _PyEval_EvalFrameDefault;

void FJ_Hook_Init(_PyFrameEvalFunction evaluator) { our_hook = evaluator; }

void FJ_Hook_Up(PyInterpreterState *interpreter) {
    hook_users++;
    _PyFrameEvalFunction installed = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (installed != our_hook) {
        previous_hook = installed;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, our_hook);
    }
}

/* Another tool may have installed its hook over ours meanwhile; then it is not ours to remove. When that tool puts ours back, the next
   frame brings us here again. */
void FJ_Hook_Leave(PyInterpreterState *interpreter) {
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == our_hook) {
        _PyInterpreterState_SetEvalFrameFunc(interpreter, previous_hook);
    }
}

void FJ_Hook_Down(PyInterpreterState *interpreter) {
    if (--hook_users == 0) {
        FJ_Hook_Leave(interpreter);
    }
}

int FJ_Hook_IsNeeded(void) { return hook_users > 0; }

int FJ_Hook_IsInstalled(void) { return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == our_hook; }

PyObject *FJ_Hook_RunUncompiled(PyThreadState *tstate, FJ_Frame *frame, int throwflag) {
    FJ_ThreadState *thread = &FJ_thread;
    if (previous_hook == _PyEval_EvalFrameDefault) {
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    FJ_Frame *outer = thread->forwarded;
    thread->forwarded = frame;
    PyObject *result = previous_hook(tstate, frame, throwflag);
    thread->forwarded = outer;
    return result;
}

FJ_NativeSection FJ_NativeSection_Begin(PyObject *upcalls, FJ_Entry *entry) {
    FJ_ThreadState *thread = &FJ_thread;
    FJ_NativeSection before = thread->section;
    thread->section = (FJ_NativeSection){upcalls, entry};
    if ((before.upcalls == NULL) != (upcalls == NULL)) {
        PyInterpreterState *interpreter = PyInterpreterState_Get();
        if (upcalls != NULL) {
            FJ_Hook_Up(interpreter);
        } else {
            FJ_Hook_Down(interpreter);
        }
    }
    return before;
}

FJ_NativeSection FJ_NativeSection_BeginFor(FJ_Entry *entry, PyObject *upcalls) {
    if (upcalls == NULL || entry->fruitless >= FJ_MOST_FRUITLESS) {
        return FJ_NativeSection_Interrupt();
    }
    return FJ_NativeSection_Begin(Py_NewRef(upcalls), (FJ_Entry *)Py_NewRef(entry));
}
